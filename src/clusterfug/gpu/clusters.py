"""The clusters while items move: their sums in slots, some of them unused.

Everything here happens in place and without asking the device for a number, so that steps can follow each
other (and be recorded) without waiting.
"""

import torch
from torch import Tensor

from clusterfug.gpu.operations import adjust
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
        self.sizes = torch.zeros(n_slots + 1, dtype=torch.int64, device=problem.device)  # one for nobody
        self.sizes.index_add_(0, self.labels, torch.ones_like(self.labels))
        self.nodes = TensorProblem(
            self.sums, self.more[:, 0], self.more[:, 1], starts, problem.last, problem.signs, problem.narrow
        )
        self._of = 2 * self.nodes.of
        self.inside = problem.inside(self.nodes)

    def move(self, chosen: Tensor, to: Tensor) -> tuple[Tensor, Tensor]:
        """Move the chosen items to clusters, or alone (-1) as long as there are slots.

        Returns what the clusters keep inside then, per problem, and how many items moved. Whether that
        is kept is decided by `keep`.
        """
        chosen, to = self._with_slots(chosen, to)
        self._before = [x.clone() for x in (self.labels, self.sums, self.more, self.sizes)]
        n, nobody = self._problem.n, self.nodes.n
        touched = torch.where(chosen, torch.stack([self.labels, to]), nobody).reshape(-1)
        slots, order = torch.sort(touched.int(), stable=True)
        starts = torch.searchsorted(slots, self._all)
        goes = order < n
        entries = torch.where(goes, -1 - order, order - n)
        self.sizes.index_add_(0, slots, torch.where(goes, -1, 1))
        torch.where(chosen, to, self.labels, out=self.labels)
        adjust(self.more, self._problem.more, entries, starts, self.sizes)
        if self._problem.part is None:
            adjust(self.sums, self._problem.features, entries, starts, self.sizes)
        else:
            self.sums.copy_(self._problem.sum_groups(self.labels, nobody))
        self.nodes.forget()
        return self._problem.inside(self.nodes), chosen

    def keep(self, good: Tensor, inside: Tensor) -> None:
        """Take the last moves back in the problems where they are not good."""
        of_item, of_slot = good[self._problem.of], good[self.nodes.of]
        labels, sums, more, sizes = self._before
        torch.where(of_item, self.labels, labels, out=self.labels)
        torch.where(of_slot[:, None], self.sums, sums, out=self.sums)
        torch.where(of_slot[:, None], self.more, more, out=self.more)
        torch.where(of_slot, self.sizes[:-1], sizes[:-1], out=self.sizes[:-1])
        torch.where(good, inside, self.inside, out=self.inside)
        self.nodes.forget()

    def _with_slots(self, chosen: Tensor, to: Tensor) -> tuple[Tensor, Tensor]:
        """The same with an unused slot for each that goes alone; who finds none is not chosen."""
        sizes = self.sizes[:-1]
        unused_first = torch.argsort(self._of + (sizes > 0), stable=True)
        alone = chosen & (to < 0)
        so_far = alone.cumsum(0) - alone.long()
        place = self._begin + so_far - so_far[self._first]
        slot = unused_first[place.clamp(max=len(sizes) - 1)]
        there = (place < self._end) & (sizes[slot] == 0)
        return chosen & (there | ~alone), torch.where(alone, slot, to)
