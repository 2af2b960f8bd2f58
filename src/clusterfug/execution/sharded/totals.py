"""Sums over the items of clusters that extend over several shards; sums of shards add up."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.problems.dense import DenseProblem


class ObjectiveTerms(NamedTuple):
    """Sums over clusters that make up inside and the objective; terms of disjoint clusters add up."""

    inside: float  # total cost of the pairs that share a cluster
    across: float  # total cost of the other pairs
    row: Floats  # (d + 1,) sum of all items
    weightless: int  # items of weight 0
    signature: Floats  # (d + 1,)

    def add(self, other: "ObjectiveTerms") -> "ObjectiveTerms":
        """Return the terms of all clusters of both."""
        across = self.across + other.across + float(self.row @ (self.signature * other.row))
        row, weightless = self.row + other.row, self.weightless + other.weightless
        return ObjectiveTerms(self.inside + other.inside, across, row, weightless, self.signature)


class ClusterTotals(NamedTuple):
    """Sums over the items of some clusters, or over those of the items that are in one shard."""

    ids: Ints  # (m,) numbers of the clusters, increasing
    sums: Floats  # (m, d + 1) extended rows
    mass: Floats  # (m,) magnitudes
    weight: Floats  # (m,)
    sizes: Ints  # (m,)
    weightless: Ints  # (m,) items of weight 0
    inside: Floats  # (m,) total costs of the pairs of their items
    signature: Floats  # (d + 1,)

    def terms(self) -> ObjectiveTerms:
        return ObjectiveTerms(
            float(self.inside.sum()),
            self.contracted().all_singletons,
            self.sums.sum(axis=0),
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
    weight = problem.rows.weight
    return ClusterTotals(
        ids=ids,
        sums=problem.sums(at, len(ids)),
        mass=np.bincount(at, weights=problem.magnitudes),
        weight=np.bincount(at, weights=weight),
        sizes=np.bincount(at),
        weightless=np.bincount(at[weight == 0], minlength=len(ids)),
        inside=problem.cluster_costs(at, len(ids))[0],
        signature=problem.rows.signature,
    )


def add_totals(*parts: ClusterTotals) -> ClusterTotals:
    """Return the totals of all clusters of the parts, which may have clusters in common."""
    ids = np.unique(np.concatenate([part.ids for part in parts]))
    positions = [np.searchsorted(ids, part.ids) for part in parts]

    def zeros(array: NDArray[Any]) -> NDArray[Any]:
        return np.zeros((len(ids), *array.shape[1:]), dtype=array.dtype)

    total = ClusterTotals._make([ids, *map(zeros, parts[0][1:-1]), parts[0].signature])
    for at, part in zip(positions, parts, strict=True):
        # The pairs of an item of this part and one of those before it. (Sums of squares less the items' own
        # would have them, too, but the square of one long row would hide the costs of all others.)
        total.inside[at] += np.einsum("cd,cd->c", total.sums[at] * total.signature, part.sums)
        for array, of_part in zip(total[1:-1], part[1:-1], strict=True):
            array[at] += of_part
    return total
