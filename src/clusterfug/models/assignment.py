"""New points to clusters: mean features, and the most similar of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.cost_kernels import mean_rows


def cluster_means(
    features: NDArray[Any], labels: NDArray[np.int64], weight: NDArray[np.float64]
) -> NDArray[Any]:
    """(K, d) weighted mean feature of each cluster 0..K-1, summed in float64, in the features' dtype."""
    starts = np.append(0, np.cumsum(np.bincount(labels)))
    means = np.empty((len(starts) - 1, features.shape[1]), dtype=features.dtype)
    mean_rows(features, weight, np.argsort(labels, kind="stable"), starts, means)
    return means


def most_similar(
    features: NDArray[Any], means: NDArray[Any], which: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """The mean of largest inner product for each row of features (or for some of them), in blocks."""
    which = np.arange(len(features)) if which is None else which
    found = np.empty(len(which), dtype=np.int64)
    step = max(1, (1 << 24) // max(means.shape))
    for start in range(0, len(which), step):
        block = features[which[start : start + step]]
        found[start : start + step] = np.argmax(block @ means.T, axis=1)
    return found
