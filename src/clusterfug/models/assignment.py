"""Assignment of items to the clusters with the most similar mean features.

The estimator, segmentation, shards and `DenseProblem.label_weightless` call it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.cost_kernels import mean_rows

_BLOCK_ENTRIES = 1 << 24  # of the inner products computed at a time


def cluster_means(
    features: NDArray[Any], labels: NDArray[np.int64], weight: NDArray[np.float64]
) -> NDArray[Any]:
    """Return weighted mean features of clusters 0..K-1 in the features' dtype, summed in float64."""
    starts = np.append(0, np.cumsum(np.bincount(labels)))
    means = np.empty((len(starts) - 1, features.shape[1]), dtype=features.dtype)
    mean_rows(features, weight, np.argsort(labels, kind="stable"), starts, means)
    return means


def most_similar(
    features: NDArray[Any], means: NDArray[Any], which: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the mean of largest inner product for each row of features (or each in `which`), in blocks."""
    which = np.arange(len(features)) if which is None else which
    single = features.dtype == means.dtype == np.float32 and _is_moderate(means)
    found = np.empty(len(which), dtype=np.int64)
    step = max(1, _BLOCK_ENTRIES // max(means.shape))
    for start in range(0, len(which), step):
        block = features[which[start : start + step]]
        if not (single and _is_moderate(block)):
            block = block.astype(np.float64)
        found[start : start + step] = np.argmax(block @ means.T.astype(block.dtype, copy=False), axis=1)
    return found


def most_similar_apart(
    features: NDArray[Any],
    means: NDArray[Any],
    groups: NDArray[np.int64],
    fitted_groups: NDArray[np.int64],
    fitted_labels: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return clusters as `most_similar`, but no two items of a group in the same; -1 if none is left.

    Items of group -1 are free. The clusters of fitted items are taken for the items of their groups. Each
    group is assigned so that the sum of its inner products is as large as possible.
    """
    from scipy.optimize import linear_sum_assignment

    found = most_similar(features, means)
    order, fitted = (np.argsort(each, kind="stable") for each in (groups, fitted_groups))
    numbers, starts = np.unique(groups[order], return_index=True)
    begins, ends = (np.searchsorted(fitted_groups[fitted], numbers, side) for side in ("left", "right"))
    for group, items, begin, end in zip(numbers, np.split(order, starts)[1:], begins, ends, strict=True):
        if group < 0:
            continue
        free = np.setdiff1d(np.arange(len(means)), fitted_labels[fitted[begin:end]])
        products = features[items].astype(np.float64) @ means[free].astype(np.float64).T
        rows, columns = linear_sum_assignment(products, maximize=True)
        found[items] = -1
        found[items[rows]] = free[columns]
    return found


def _is_moderate(rows: NDArray[Any]) -> bool:
    """Return whether products of these rows stay in the range of float32, which ends at 1e-38 and 3e38."""
    sizes = np.abs(rows).max(axis=1)
    return bool(sizes.max(initial=0.0) < 1e15 and sizes[sizes > 0].min(initial=1.0) > 1e-15)
