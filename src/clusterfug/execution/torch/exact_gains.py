"""Gains of moves in float64, compared with the magnitudes of the terms of their own costs.

`moves.py` calls it at the end, for the few items of which float32 bounds do not exclude a gain.
"""

import torch
from torch import Tensor

from clusterfug.execution.torch.clusters import TensorClusters
from clusterfug.execution.torch.problem import TensorProblem
from clusterfug.problems.protocol import GAIN_TOLERANCE

_EPSILON = torch.finfo(torch.float64).eps
_BLOCK_ENTRIES = 1 << 26  # of a block of costs


class ExactGains:
    """Gains of moves in problem p of a pack, whose clusters are just added up."""

    def __init__(self, problem: TensorProblem, clusters: TensorClusters, p: int) -> None:
        self._problem, self._clusters = problem, clusters
        self._first, end = clusters.nodes.starts[p : p + 2].tolist()
        self._slots = slice(self._first, end)
        signs = problem.last.new_ones(problem.d) if problem.signs is None else problem.signs
        self._signature = torch.cat([signs, problem.last[p, None]])
        self._sums = torch.cat([clusters.sums, clusters.extra[:, :1]], 1)[self._slots]
        members = torch.bincount(clusters.labels, minlength=clusters.nodes.n)
        self._sizes = members[self._slots].double()
        self._all_terms: Tensor | None = None

    @property
    def _terms(self) -> Tensor:
        """Sums of the absolute rows of every cluster."""
        if self._all_terms is None:
            terms = self._problem.term_sums(self._clusters.labels, self._clusters.nodes.n)
            self._all_terms = terms[self._slots]
        return self._all_terms

    def blocks(self, items: Tensor) -> tuple[Tensor, ...]:
        """Divide items into blocks whose costs to all clusters fit into memory."""
        return torch.split(items, max(1, _BLOCK_ENTRIES // max(self._sums.shape)))

    def best(self, items: Tensor) -> tuple[Tensor, Tensor, bool]:
        """Return the largest gain of every item that counts, or 0, and where the item moves, -1 for alone.

        The third result is False if a gain that counts may hide in the rounding of the cost of an item to
        itself, which is a part of its cost to its cluster.
        """
        problem, signature = self._problem, self._signature
        features = problem.features[items.to(problem.features.device)].to(problem.device)
        rows = torch.cat([features.double(), problem.a[items, None]], 1)
        home = self._clusters.labels[items] - self._first
        sizes = self._sizes[home]
        stay = torch.where(sizes > 1, (rows * signature * (self._sums[home] - rows)).sum(1), 0.0)
        gains = (rows * signature) @ self._sums.T - stay[:, None]
        gains[:, self._sizes == 0] = -torch.inf
        leave = torch.where(sizes > 1, -stay, -torch.inf)  # in the column of the item's own cluster
        gains.scatter_(1, home[:, None], leave[:, None])
        own_rounding = (2 + sizes) * _EPSILON * (rows.square() @ signature.abs())
        own_rounding[sizes == 1] = 0.0
        largest, to = torch.zeros_like(stay), torch.full_like(home, -1)
        some = torch.nonzero(gains.amax(1) > -own_rounding)[:, 0]
        if not len(some):
            return largest, to, True
        gains, home, own_rounding = gains[some], home[some], own_rounding[some, None]
        queries, rows = (rows[some] * signature).abs(), rows[some].abs()
        terms = (queries @ self._terms.T).scatter_(1, home[:, None], 0.0)
        terms += (queries * (self._terms[home] - rows).clamp(min=0.0)).sum(1, keepdim=True)
        tolerance = GAIN_TOLERANCE * terms
        hidden = (gains + own_rounding > tolerance) & (own_rounding > tolerance)
        counts = gains > tolerance + own_rounding
        largest[some], best = torch.where(counts, gains, 0.0).max(1)
        to[some] = torch.where(best == home, -1, best + self._first)
        return largest, to, not bool((hidden & ~counts).any())
