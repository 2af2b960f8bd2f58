"""Items of a selection, on the CPU or on a device: neighbourhoods, sums of clusters, silhouettes."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from clusterfug.costs.local import Neighbourhood, neighbourhood
from clusterfug.costs.models import Threshold
from clusterfug.execution import threads
from clusterfug.problems.features import FeatureProblem
from clusterfug.solvers import make_solver

if TYPE_CHECKING:
    import torch

    from clusterfug.problems.dense import DenseProblem

_MAX_SAMPLE = 3000  # items over which the silhouette is averaged
_BLOCK_ENTRIES = 1 << 23  # similarities at a time


class SelectionItems(NamedTuple):
    """Prepared features, and the operations on them that differ between CPU and device."""

    features: Any  # an array, or a tensor
    weight: NDArray[np.float64]
    neighbourhood: Neighbourhood
    rows: Callable[[NDArray[np.int64]], NDArray[np.float64]]  # features of some items
    sums: Callable[[NDArray[np.int64]], NDArray[np.float64]]  # of weight times features, by label 0..K-1
    product: Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]  # deterministic
    starts_often: bool  # whether a run without initial labels has several starts

    @property
    def n(self) -> int:
        return len(self.weight)

    def alpha(self, strictness: float) -> NDArray[np.float64]:
        """Return affinity strengths; with a negative strictness the alpha term is added to costs."""
        return np.sqrt(abs(strictness) * self.neighbourhood.similarity)

    def alpha_sums(self, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the sums of weight times affinity strength of the clusters, at a strictness of 1."""
        return np.bincount(labels, weights=self.weight * self.alpha(1.0)).astype(np.float64, copy=False)


def selection_items(problem: FeatureProblem, device: "torch.device | None") -> SelectionItems:
    """Return the items of prepared features, on the CPU or on a device."""
    n_neighbors = getattr(problem.costs, "n_neighbors", None)
    problem = replace(problem, costs=Threshold(0.0), links=None)  # only features and weights are used
    if device is None:
        return _on_host(problem, n_neighbors)
    return _on_device(problem, n_neighbors, device)


def _on_host(problem: FeatureProblem, n_neighbors: int | None) -> SelectionItems:
    dense = cast("DenseProblem", problem.resolved())
    features, weight = dense.rows.features, dense.rows.weight
    return SelectionItems(
        features,
        weight,
        neighbourhood(features, weight, n_neighbors),
        lambda items: features[items].astype(np.float64),
        lambda labels: dense.contract(labels).rows.features,
        threads.product,
        False,
    )


def _on_device(problem: FeatureProblem, n_neighbors: int | None, device: "torch.device") -> SelectionItems:
    from clusterfug.execution.torch.inputs import TensorInput, check_values
    from clusterfug.execution.torch.neighbourhood import cluster_sums, product_on_device, rows_on_host

    given = TensorInput(problem, device, make_solver("auto"))
    check_values(given.features)
    features, weight = given.features, given.weight
    return SelectionItems(
        features,
        weight,
        neighbourhood(features, weight, n_neighbors, device),
        lambda items: rows_on_host(features, items),
        lambda labels: cluster_sums(features, weight, labels, device),
        lambda left, right: product_on_device(left, right, device),
        given.starts_often,
    )


def silhouette(items: SelectionItems, labels: NDArray[np.int64]) -> float:
    """Return the mean silhouette of a sample of the items, from -1 to 1; 0 for one cluster or singletons.

    The silhouette of an item is (a - b) / max(s - a, s - b): a is its mean similarity to its own cluster,
    b to the other cluster that is most similar, s to itself.
    """
    present = np.flatnonzero(items.weight)
    sizes, counts = np.bincount(labels, weights=items.weight), np.bincount(labels[present], minlength=1)
    if np.count_nonzero(sizes) == 1:
        return 0.0
    sample = present
    if len(present) > _MAX_SAMPLE:
        sample = np.sort(np.random.default_rng(0).choice(present, _MAX_SAMPLE, replace=False))
    means = items.sums(labels) / np.maximum(sizes, np.finfo(np.float64).tiny)[:, None]
    values = np.zeros(len(sample))
    step = max(1, _BLOCK_ENTRIES // len(sizes))
    for start in range(0, len(sample), step):
        part = sample[start : start + step]
        own, square = labels[part], items.neighbourhood.squares[part]
        itself = np.minimum(items.weight[part], 1.0)
        alone = counts[own] == 1  # whatever its weight
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
