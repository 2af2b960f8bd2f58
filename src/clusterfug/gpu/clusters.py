"""The clusters while items move: their sums in slots, some of them unused.

Everything here happens in place and without asking the device for a number, so that steps can follow each
other (and be recorded) without waiting.
"""

import torch
from torch import Tensor

from clusterfug.gpu.operations import Slots, adjust, route
from clusterfug.gpu.problem import TensorProblem


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
        self.more = self.sums.new_zeros(n_slots, 2)  # of a and of the magnitudes
        self.more[slots, 0], self.more[slots, 1] = contracted.a, contracted.magnitudes
        self.labels = slots[labels]
        self._counts = torch.zeros(n_slots + 1, dtype=torch.int64, device=problem.device)  # one for nobody
        self._signs = torch.ones(2 * problem.n, dtype=torch.int64, device=problem.device)
        self.sizes = self._counts.index_add(0, self.labels, self._signs[: problem.n])[:-1].clone()
        self._signs[: problem.n] = -1  # of who leaves
        self.nodes = TensorProblem(
            self.sums, self.more[:, 0], self.more[:, 1], starts, problem.last, problem.signs, problem.narrow
        )
        self._of = 2 * self.nodes.of
        self.inside = problem.inside(self.nodes)

    def move(self, chosen: Tensor, to: Tensor) -> Tensor:
        """Move the chosen items to clusters, or alone (-1) as long as there are slots.

        Returns what the clusters keep inside then, per problem; `keep` decides whether it stays so.
        """
        self._before = [x.clone() for x in (self.sums, self.more, self.sizes)]
        unused_first = torch.argsort(self._of + (self.sizes > 0), stable=True)
        slots = Slots(self.sizes, unused_first, self._first, self._begin, self._end)
        self._new, touched = route(chosen, to, self.labels, slots)
        ordered, order = torch.sort(touched, stable=True)
        starts = torch.searchsorted(ordered, self._all)
        self._counts.zero_().index_add_(0, touched, self._signs)
        self.sizes += self._counts[:-1]
        adjust(self.more, self._problem.more, order, starts, self.sizes)
        if self._problem.part is None:
            adjust(self.sums, self._problem.features, order, starts, self.sizes)
        else:
            self.sums.copy_(self._problem.sum_groups(self._new, self.nodes.n))
        self.nodes.forget()
        return self._problem.inside(self.nodes)

    def keep(self, good: Tensor, inside: Tensor) -> None:
        """Take the last moves back in the problems where they are not good."""
        of_item, of_slot = good[self._problem.of], good[self.nodes.of]
        sums, more, sizes = self._before
        torch.where(of_item, self._new, self.labels, out=self.labels)
        torch.where(of_slot[:, None], self.sums, sums, out=self.sums)
        torch.where(of_slot[:, None], self.more, more, out=self.more)
        torch.where(of_slot, self.sizes, sizes, out=self.sizes)
        torch.where(good, inside, self.inside, out=self.inside)
        self.nodes.forget()
