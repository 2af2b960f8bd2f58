"""Sums over the items of clusters that extend over several shards; sums of shards add up."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.problems.dense import DenseProblem


class ObjectiveTerms(NamedTuple):
    """Sums over clusters from which objective and inside follow; terms of disjoint clusters add up."""

    squares: float  # inner products of the clusters' sums with themselves
    row: Floats  # (d + 1,) sum of all items
    own: float  # inner products of the items with themselves
    weightless: int  # items of weight 0
    signature: Floats  # (d + 1,)

    @property
    def inside(self) -> float:
        """Total cost of the pairs that share a cluster."""
        return (self.squares - self.own) / 2

    @property
    def all_pairs(self) -> float:
        """Total cost of all pairs."""
        return (float(self.row @ (self.signature * self.row)) - self.own) / 2


def add_terms(terms: list[ObjectiveTerms]) -> ObjectiveTerms:
    squares, rows, own, weightless, (signature, *_) = zip(*terms, strict=True)
    return ObjectiveTerms(sum(squares), np.sum(rows, axis=0), sum(own), sum(weightless), signature)


class ClusterTotals(NamedTuple):
    """Sums over the items of some clusters, or over those of the items that are in one shard."""

    ids: Ints  # (m,) numbers of the clusters, increasing
    sums: Floats  # (m, d + 1) extended rows
    mass: Floats  # (m,) magnitudes
    weight: Floats  # (m,)
    sizes: Ints  # (m,)
    weightless: Ints  # (m,) items of weight 0
    own: Floats  # (m,) inner products of the items with themselves
    signature: Floats  # (d + 1,)

    def terms(self) -> ObjectiveTerms:
        squares = np.einsum("cd,cd,d->c", self.sums, self.sums, self.signature)
        return ObjectiveTerms(
            float(squares.sum()),
            self.sums.sum(axis=0),
            float(self.own.sum()),
            int(self.weightless.sum()),
            self.signature,
        )

    def contracted(self) -> DenseProblem:
        """Return the contracted problem, whose items are the clusters."""
        return DenseProblem.from_sums(self.sums, self.signature)

    def select(self, ids: NDArray[np.int64]) -> "ClusterTotals":
        """Return the totals of those of the given clusters that are among these."""
        return self._at(np.flatnonzero(np.isin(self.ids, ids)))

    def block(self, start: int, stop: int) -> "ClusterTotals":
        """Return the totals of clusters start..stop-1."""
        return self._at(slice(*np.searchsorted(self.ids, (start, stop))))

    def _at(self, positions: NDArray[np.int64] | slice) -> "ClusterTotals":
        return ClusterTotals._make([*(array[positions] for array in self[:-1]), self.signature])


def cluster_totals(problem: DenseProblem, labels: NDArray[np.int64]) -> ClusterTotals:
    """Return the totals of the clusters of one problem."""
    ids, at = np.unique(labels, return_inverse=True)
    own, magnitudes = problem.own_costs
    weight = problem.rows.weight
    return ClusterTotals(
        ids=ids,
        sums=problem.sums(at, len(ids)),
        mass=np.bincount(at, weights=magnitudes),
        weight=np.bincount(at, weights=weight),
        sizes=np.bincount(at),
        weightless=np.bincount(at[weight == 0], minlength=len(ids)),
        own=np.bincount(at, weights=own),
        signature=problem.rows.signature,
    )


def add_totals(*parts: ClusterTotals) -> ClusterTotals:
    """Return the totals of all clusters of the parts, which may have clusters in common."""
    ids = np.unique(np.concatenate([part.ids for part in parts]))
    positions = [np.searchsorted(ids, part.ids) for part in parts]

    def added(arrays: tuple[NDArray[Any], ...]) -> NDArray[Any]:
        total = np.zeros((len(ids), *arrays[0].shape[1:]), dtype=arrays[0].dtype)
        for at, array in zip(positions, arrays, strict=True):
            total[at] += array
        return total

    arrays = zip(*(part[1:-1] for part in parts), strict=True)
    return ClusterTotals._make([ids, *map(added, arrays), parts[0].signature])
