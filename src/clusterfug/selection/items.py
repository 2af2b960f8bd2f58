"""Items as a choice sees them, wherever their features are: neighbours, sums of clusters, silhouettes."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.costs.local import Neighbourhood, neighbourhood
from clusterfug.costs.models import Threshold
from clusterfug.execution import threads
from clusterfug.problems.features import FeatureProblem
from clusterfug.solvers import make_solver

if TYPE_CHECKING:
    import torch

_SAMPLE = 3000  # items that the silhouette is taken of
_BLOCK = 1 << 23  # similarities at a time


class Items(NamedTuple):
    features: Any  # an array, or a tensor
    weight: NDArray[np.float64]
    around: Neighbourhood
    rows: Callable[[NDArray[np.int64]], NDArray[np.float64]]  # features of some items
    sums: Callable[[NDArray[np.int64]], NDArray[np.float64]]  # of weight times features, by label 0..K-1
    product: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]  # always the same
    starts_often: bool  # whether a run that is given no labels starts several times

    @property
    def n(self) -> int:
        return len(self.weight)

    def alpha(self, strictness: float) -> NDArray[np.float64]:
        """Affinity strengths; of a negative strictness they are added, not subtracted."""
        return np.sqrt(abs(strictness) * self.around.similarity)

    def strengths(self, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """What the affinity strengths of each cluster add up to, at a strictness of 1."""
        return np.bincount(labels, weights=self.weight * self.alpha(1.0)).astype(np.float64, copy=False)

    def inside(self, labels: NDArray[np.int64], strictness: float) -> float:
        """Total cost of the pairs that share a label."""
        own = self.weight**2 * (self.around.squares - strictness * self.around.similarity)
        strengths = (self.strengths(labels) ** 2).sum()
        return float((self.sums(labels) ** 2).sum() - strictness * strengths - own.sum()) / 2


def items_of(problem: FeatureProblem, device: "torch.device | None") -> Items:
    """Return the items of prepared features, on the CPU or on a device."""
    n_neighbors = getattr(problem.costs, "n_neighbors", None)
    if device is None:
        return _on_host(problem.with_costs(Threshold(0.0)), n_neighbors)
    return _on_device(problem.with_costs(Threshold(0.0)), n_neighbors, device)


def _on_host(problem: FeatureProblem, n_neighbors: int | None) -> Items:
    dense = problem.dense()
    features, weight = dense.rows.features, dense.rows.weight
    return Items(
        features,
        weight,
        neighbourhood(features, weight, n_neighbors),
        lambda items: features[items].astype(np.float64),
        lambda labels: dense.contract(labels).rows.features,
        threads.product,
        False,
    )


def _on_device(problem: FeatureProblem, n_neighbors: int | None, device: "torch.device") -> Items:
    from clusterfug.execution.torch.inputs import Item
    from clusterfug.execution.torch.neighbourhood import product_on_device, rows_on_host, sums_on_device

    item = Item(problem, device, make_solver("auto"))
    item.complain()
    features, weight = item.features, item.weight
    return Items(
        features,
        weight,
        neighbourhood(features, weight, n_neighbors, device),
        lambda items: rows_on_host(features, items),
        lambda labels: sums_on_device(features, weight, labels, device),
        lambda left, right: product_on_device(left, right, device),
        item.is_small,
    )


def silhouette(items: Items, labels: NDArray[np.int64]) -> float:
    """How much more similar items are to their own cluster than to the next, from -1 to 1; 0 if alone.

    The mean over a sample of (a - b) / max(s - a, s - b): a is the mean similarity to the
    item's own cluster, b to that of the others which is most similar, s to itself.
    """
    present = np.flatnonzero(items.weight)
    sizes, counts = np.bincount(labels, weights=items.weight), np.bincount(labels[present], minlength=1)
    if np.count_nonzero(sizes) == 1:
        return 0.0
    sample = present
    if len(present) > _SAMPLE:
        sample = np.sort(np.random.default_rng(0).choice(present, _SAMPLE, replace=False))
    means = items.sums(labels) / np.maximum(sizes, np.finfo(np.float64).tiny)[:, None]
    values = np.zeros(len(sample))
    step = max(1, _BLOCK // len(sizes))
    for start in range(0, len(sample), step):
        part = sample[start : start + step]
        own, square = labels[part], items.around.squares[part]
        itself = np.minimum(items.weight[part], 1.0)
        alone = counts[own] == 1  # also if it counts as several
        others = np.maximum(sizes[own] - itself, np.finfo(np.float64).tiny)
        similar = items.product(items.rows(part), means.T)
        mine = np.arange(len(part)), own
        a = np.where(alone, 0.0, similar[mine] * sizes[own] - itself * square) / others
        similar[:, sizes == 0] = -np.inf
        similar[mine] = -np.inf
        b = similar.max(axis=1)
        scale = np.maximum(np.maximum(square - a, square - b), np.abs(a - b))
        valid = ~alone & (scale > 0)
        values[start : start + step][valid] = (a - b)[valid] / scale[valid]
    return float(np.average(values, weights=items.weight[sample]))
