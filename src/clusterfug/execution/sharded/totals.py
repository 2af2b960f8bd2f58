"""What is known of clusters whose items lie in many shards: sums, added up."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.cost_kernels import ExtendedRows, Floats, Ints
from clusterfug.problems.dense import DenseProblem


class Worth(NamedTuple):
    """What follows from sums of clusters for the objective; those of other clusters add to it."""

    squares: float  # what all clusters cost to themselves
    row: Floats  # (d + 1,) sum of all items
    own: float  # what the items cost to themselves
    weightless: int  # items of weight 0
    signature: Floats  # (d + 1,)

    @property
    def inside(self) -> float:
        """Total cost of the pairs that share a cluster: squares of sums, less items with themselves."""
        return (self.squares - self.own) / 2

    @property
    def all_pairs(self) -> float:
        """Total cost of all pairs."""
        return (float(self.row @ (self.signature * self.row)) - self.own) / 2


def add_worths(worths: list[Worth]) -> Worth:
    squares, rows, own, weightless, (signature, *_) = zip(*worths, strict=True)
    return Worth(sum(squares), np.sum(rows, axis=0), sum(own), sum(weightless), signature)


class Totals(NamedTuple):
    """Clusters by their numbers, and what their items (or some of them) add up to."""

    ids: Ints  # (m,) rising
    sums: Floats  # (m, d + 1) extended rows
    mass: Floats  # (m,) magnitudes
    weight: Floats  # (m,)
    sizes: Ints  # (m,)
    weightless: Ints  # (m,) items of weight 0
    own: Floats  # (m,) what the items cost to themselves
    signature: Floats  # (d + 1,)

    @property
    def worth(self) -> Worth:
        squares = np.einsum("cd,cd,d->c", self.sums, self.sums, self.signature)
        weightless = int(self.weightless.sum())
        return Worth(
            float(squares.sum()), self.sums.sum(axis=0), float(self.own.sum()), weightless, self.signature
        )

    @property
    def clusters(self) -> DenseProblem:
        """The clusters as the items of a problem."""
        features = np.ascontiguousarray(self.sums[:, :-1])
        return DenseProblem.from_rows(
            ExtendedRows(features, self.sums[:, -1].copy(), np.ones(len(features)), self.signature)
        )

    def of(self, ids: NDArray[np.int64]) -> "Totals":
        """Those of the clusters with these numbers that are here."""
        return self._at(np.flatnonzero(np.isin(self.ids, ids)))

    def stretch(self, start: int, stop: int) -> "Totals":
        """Those of clusters start..stop-1."""
        return self._at(slice(*np.searchsorted(self.ids, (start, stop))))

    def _at(self, where: NDArray[np.int64] | slice) -> "Totals":
        return Totals._make([*(array[where] for array in self[:-1]), self.signature])


def totals_of(problem: DenseProblem, labels: NDArray[np.int64]) -> Totals:
    """The totals of the items of one shard."""
    ids, at = np.unique(labels, return_inverse=True)
    sums = problem.sums(at, len(ids))
    own, magnitudes = problem.own_costs
    weight = problem.rows.weight
    return Totals(
        ids=ids,
        sums=sums,
        mass=np.bincount(at, weights=magnitudes),
        weight=np.bincount(at, weights=weight),
        sizes=np.bincount(at),
        weightless=np.bincount(at[weight == 0], minlength=len(ids)),
        own=np.bincount(at, weights=own),
        signature=problem.rows.signature,
    )


def add(*parts: Totals) -> Totals:
    ids = np.unique(np.concatenate([part.ids for part in parts]))
    at = [np.searchsorted(ids, part.ids) for part in parts]

    def added(arrays: tuple[NDArray[Any], ...]) -> NDArray[Any]:
        total = np.zeros((len(ids), *arrays[0].shape[1:]), dtype=arrays[0].dtype)
        for where, array in zip(at, arrays, strict=True):
            total[where] += array
        return total

    arrays = zip(*(part[1:-1] for part in parts), strict=True)
    return Totals._make([ids, *map(added, arrays), parts[0].signature])
