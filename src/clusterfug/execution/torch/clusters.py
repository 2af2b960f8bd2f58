"""The clusters of tensor problems while items move: sums of clusters in slots, some of them unused.

All methods but the constructor work in place and read no value back from the device, so that steps can
follow each other (and be recorded as a CUDA graph) without synchronisation. `moves.py` uses them.
"""

from dataclasses import replace

import torch
from torch import Tensor

from clusterfug.execution.torch import operations as ops
from clusterfug.execution.torch.problem import TensorProblem


class TensorClusters:
    """Clusters of a labelling. Every problem has more slots than clusters, for new singletons."""

    def __init__(self, problem: TensorProblem, labels: Tensor) -> None:
        contracted, labels = problem.contract(labels)
        count = contracted.starts.diff()
        spare = torch.minimum(problem.starts.diff() - count, count // 8 + 8)
        starts = torch.zeros_like(contracted.starts)
        starts[1:] = (count + spare).cumsum(0)
        slots = contracted.items + (starts - contracted.starts)[contracted.problem_of]
        n_slots = int(starts[-1])
        self._problem = problem
        of = problem.problem_of
        self._first, self._begin, self._end = problem.starts[of], starts[of], starts[of + 1]
        self._slot_numbers = torch.arange(n_slots + 1, dtype=torch.int32, device=problem.device)
        self.sums = torch.zeros(n_slots, problem.d, dtype=torch.float64, device=problem.device)
        self.sums[slots] = contracted.features
        self.extra = self.sums.new_zeros(n_slots, 3)
        self.extra[slots] = contracted.extra
        self.labels = slots[labels]
        self._before = torch.empty_like(self.sums), torch.empty_like(self.extra)
        self.nodes = replace(contracted, features=self.sums, extra=self.extra, starts=starts)
        self._slot_order = 2 * self.nodes.problem_of

    def move(self, chosen: Tensor, to: Tensor) -> Tensor:
        """Move the chosen items to clusters, or alone (-1) as long as there are slots.

        Returns the total cost inside the clusters, per problem; `keep` decides whether the moves stay.
        """
        for kept, now in zip(self._before, (self.sums, self.extra), strict=True):
            kept.copy_(now)
        sizes = self.extra[:, 2].contiguous()
        unused_first = torch.argsort(self._slot_order + (sizes > 0), stable=True)
        slots = ops.ClusterSlots(sizes, unused_first, self._first, self._begin, self._end)
        self._new, touched = ops.assign_slots(chosen, to, self.labels, slots)
        ordered, order = torch.sort(touched, stable=True)
        starts = torch.searchsorted(ordered, self._slot_numbers)
        ops.update_sums(self.extra, self._problem.extra, order, starts)
        if self._problem.part_size is None:
            ops.update_sums(self.sums, self._problem.features, order, starts)
        else:
            self.sums.copy_(self._problem.sum_groups(self._new, self.nodes.n))
        self.nodes.clear_cache()
        self.nodes.own_costs = ops.cluster_own_costs(
            self.sums, self.extra, self.nodes.lasts, self._problem.signs
        )
        return self._problem.inside(self.nodes)

    def keep(self, improved: Tensor) -> None:
        """Undo the last moves in the problems that they did not improve."""
        of_item, of_slot = improved[self._problem.problem_of], improved[self.nodes.problem_of]
        sums, extra = self._before
        torch.where(of_item, self._new, self.labels, out=self.labels)
        torch.where(of_slot[:, None], self.sums, sums, out=self.sums)
        torch.where(of_slot[:, None], self.extra, extra, out=self.extra)
        self.nodes.clear_cache()
