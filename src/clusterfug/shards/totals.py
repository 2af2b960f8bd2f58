"""What is known of clusters whose items lie in many shards: sums, added up."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.costs import Floats, Ints, Rows
from clusterfug.problem import DenseProblem


class Totals(NamedTuple):
    """Clusters by their numbers, and what their items (or some of them) add up to."""

    ids: Ints  # (m,) rising
    sums: Floats  # (m, d + 1) extended rows
    mass: Floats  # (m,) magnitudes
    weight: Floats  # (m,)
    sizes: Ints  # (m,)
    weightless: int  # items of weight 0
    own: float  # what the items cost to themselves
    signature: Floats  # (d + 1,)

    @property
    def inside(self) -> float:
        """Total cost of the pairs that share a cluster: squares of sums, less items with themselves."""
        squares = np.einsum("cd,cd,d->c", self.sums, self.sums, self.signature)
        return (float(squares.sum()) - self.own) / 2

    @property
    def all_pairs(self) -> float:
        """Total cost of all pairs."""
        row = self.sums.sum(axis=0)
        return (float(row @ (self.signature * row)) - self.own) / 2

    @property
    def clusters(self) -> DenseProblem:
        """The clusters as the items of a problem."""
        features = np.ascontiguousarray(self.sums[:, :-1])
        return DenseProblem.of(
            Rows(features, self.sums[:, -1].copy(), np.ones(len(features)), self.signature)
        )


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
        weightless=int(np.count_nonzero(weight == 0)),
        own=float(own.sum()),
        signature=problem.rows.signature,
    )


def add(*parts: Totals) -> Totals:
    ids = np.unique(np.concatenate([part.ids for part in parts]))
    at = [np.searchsorted(ids, part.ids) for part in parts]

    def added(arrays: list[NDArray[Any]]) -> NDArray[Any]:
        total = np.zeros((len(ids), *arrays[0].shape[1:]), dtype=arrays[0].dtype)
        for where, array in zip(at, arrays, strict=True):
            total[where] += array
        return total

    return Totals(
        ids=ids,
        sums=added([part.sums for part in parts]),
        mass=added([part.mass for part in parts]),
        weight=added([part.weight for part in parts]),
        sizes=added([part.sizes for part in parts]),
        weightless=sum(part.weightless for part in parts),
        own=sum(part.own for part in parts),
        signature=parts[0].signature,
    )
