"""Preprocessing of features: centring, and scaling of rows to length 1.

`Preprocessing` is the value that problems, results and label files carry; the functions apply it to arrays.
Tensors are preprocessed by `execution/torch/preprocessing.py`, parts of files by `execution/sharded`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks

METRICS = ("cosine", "inner_product")

#: Items share a common part if it has more than this share of their squared length.
MIN_COMMON_SHARE = 0.25
_MEAN_ROUNDING = 1e-12  # relative rounding error of a mean of equal rows
#: Differences from a mean with larger entries may exceed the range of float32.
LARGE_MEAN = 1e30
_BLOCK_BYTES = 1 << 24


@dataclass(frozen=True)
class Preprocessing:
    """What is done to features before they have costs.

    metric : "cosine" scales rows to length 1 (a zero row stays zero), "inner_product" leaves them.
    center : whether the mean feature is subtracted first.
    """

    metric: str = "cosine"
    center: bool = False

    def __post_init__(self) -> None:
        checks.one_of("metric", self.metric, METRICS)
        object.__setattr__(self, "center", checks.flag("center", self.center))

    @property
    def is_identity(self) -> bool:
        return self.metric == "inner_product" and not self.center


#: Rows as they are.
AS_GIVEN = Preprocessing("inner_product")


def mean_feature(X: NDArray[Any], weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the (weighted) mean row."""
    return sum_feature(X, weight) / (len(X) if weight is None else weight.sum())


def sum_feature(X: NDArray[Any], weight: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return the (weighted) sum of the rows, in float64 block by block."""
    total = np.zeros(X.shape[1])
    for start, stop in _blocks(X):
        block = X[start:stop]
        if weight is None:
            total += block.sum(axis=0, dtype=np.float64)
        else:
            total += (weight[start:stop, None] * block).sum(axis=0)
    return total


def prepare(X: NDArray[Any], metric: str, mean: NDArray[np.float64] | None = None) -> NDArray[Any]:
    """Return validated features less the mean (if given), with rows of length 1 if the metric is cosine.

    A zero row stays zero. Where there is nothing to do, X itself is returned, not a copy.
    """
    checks.one_of("metric", metric, METRICS)
    if mean is None and metric == "inner_product":
        return X
    is_large = mean is not None and np.abs(mean).max() > LARGE_MEAN
    out = np.empty_like(X, dtype=np.float64 if is_large else None)
    for start, stop in _blocks(X):
        block = X[start:stop].astype(np.float64)
        if mean is not None:
            noise = 1e-14 * np.linalg.norm(block, ord=np.inf, axis=1)
            block -= mean
            # A row that equals the mean becomes zero, whatever rounding leaves of it.
            block[np.linalg.norm(block, ord=np.inf, axis=1) <= noise] = 0.0
        if metric == "cosine":
            # Divide by the largest entry first, so that squares neither overflow nor underflow.
            for order in (np.inf, 2):
                lengths = np.linalg.norm(block, ord=order, axis=1, keepdims=True)
                block /= np.where(lengths == 0, 1.0, lengths)
        out[start:stop] = block
    return out


def share_common_part(X: Any, sample_weight: Any = None) -> bool:
    """Return whether the mean row has a large share of the squared length of the rows.

    That is more than clusters alone would explain, unless all rows are equal.
    """
    weight = checks.optional_weights(sample_weight, len(X))
    total, squares = np.zeros(X.shape[1]), 0.0
    for start, stop in _blocks(X):
        block = checks.on_host(X[start:stop]).astype(np.float64)
        total += weight[start:stop] @ block
        squares += float(weight[start:stop] @ (block**2).sum(axis=1))
    mean, square = total / weight.sum(), squares / weight.sum()
    common = float((mean**2).sum())
    return MIN_COMMON_SHARE * square < common < (1 - _MEAN_ROUNDING) * square


def _blocks(X: NDArray[Any]) -> list[tuple[int, int]]:
    step = max(1, _BLOCK_BYTES // (8 * X.shape[1]))
    return [(start, min(len(X), start + step)) for start in range(0, len(X), step)]
