"""The clusters while items move: their sums in slots, some of them unused.

Everything here happens in place and without asking the device for a number, so that steps can follow each
other (and be recorded) without waiting.
"""

import torch
from torch import Tensor

from clusterfug.execution.torch.operations import Slots, adjust, route, settle
from clusterfug.execution.torch.problem import TensorProblem


class Clusters:
    """Clusters of a labelling. Every problem has more slots than clusters, for items that go alone."""

    def __init__(self, problem: TensorProblem, labels: Tensor) -> None:
        contracted, labels = problem.contract(labels)
        count = contracted.starts.diff()
        spare = torch.minimum(problem.starts.diff() - count, count // 8 + 8)
        starts = torch.zeros_like(contracted.starts)
        starts[1:] = (count + spare).cumsum(0)
        slots = contracted.everyone + (starts - contracted.starts)[contracted.of]
        n_slots = int(starts[-1])
        self._problem = problem
        of = problem.of
        self._first, self._begin, self._end = problem.starts[of], starts[of], starts[of + 1]
        self._all = torch.arange(n_slots + 1, dtype=torch.int32, device=problem.device)
        self.sums = torch.zeros(n_slots, problem.d, dtype=torch.float64, device=problem.device)
        self.sums[slots] = contracted.features
        self.more = self.sums.new_zeros(n_slots, 3)  # of a, of the magnitudes, of ones
        self.more[slots] = contracted.members
        self.labels = slots[labels]
        self._before = torch.empty_like(self.sums), torch.empty_like(self.more)
        a, magnitudes, _ = self.more.T
        self.nodes = TensorProblem(
            self.sums, a, magnitudes, starts, problem.last, problem.signs, problem.narrow, more=self.more
        )
        self._of = 2 * self.nodes.of
        self.inside = problem.inside(self.nodes)

    def move(self, chosen: Tensor, to: Tensor) -> Tensor:
        """Move the chosen items to clusters, or alone (-1) as long as there are slots.

        Returns what the clusters keep inside then, per problem; `keep` decides whether it stays so.
        """
        for kept, now in zip(self._before, (self.sums, self.more), strict=True):
            kept.copy_(now)
        sizes = self.more[:, 2].contiguous()
        unused_first = torch.argsort(self._of + (sizes > 0), stable=True)
        slots = Slots(sizes, unused_first, self._first, self._begin, self._end)
        self._new, touched = route(chosen, to, self.labels, slots)
        ordered, order = torch.sort(touched, stable=True)
        starts = torch.searchsorted(ordered, self._all)
        adjust(self.more, self._problem.more, order, starts)
        if self._problem.part is None:
            adjust(self.sums, self._problem.features, order, starts)
        else:
            self.sums.copy_(self._problem.sum_groups(self._new, self.nodes.n))
        self.nodes.forget()
        self.nodes.own = settle(self.sums, self.more, self.nodes.lasts, self._problem.signs)
        return self._problem.inside(self.nodes)

    def keep(self, good: Tensor) -> None:
        """Take the last moves back in the problems where they are not good."""
        of_item, of_slot = good[self._problem.of], good[self.nodes.of]
        sums, more = self._before
        torch.where(of_item, self._new, self.labels, out=self.labels)
        torch.where(of_slot[:, None], self.sums, sums, out=self.sums)
        torch.where(of_slot[:, None], self.more, more, out=self.more)
        self.nodes.forget()
