"""Labels of the rows that were fitted, without the rows; `predict` of the estimator looks rows up."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution import threads
from clusterfug.execution.jit import kernel

_BLOCK_ENTRIES = 1 << 22  # numbers that are digested at a time


class FittedRows:
    """Labels by rows. Of every row 64 bits are kept: any two of a million agree with probability 3e-8."""

    def __init__(self, X: NDArray[Any], labels: NDArray[np.int64]) -> None:
        digests = digests_of(X)
        order = np.argsort(digests, kind="stable")
        self._digests, self._labels = digests[order], labels[order]

    def labels_of(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the labels of rows, -1 for those that were not fitted.

        The first copy of a row has the label of the first copy that was fitted, and so on; copies beyond
        have that of the last one.
        """
        found, at, copies = np.unique(digests_of(X), return_inverse=True, return_counts=True)
        first, end = (np.searchsorted(self._digests, found, side) for side in ("left", "right"))
        order = np.argsort(at, kind="stable")
        number = np.empty(len(at), dtype=np.int64)  # of a row among its copies
        number[order] = np.arange(len(at)) - np.repeat(np.cumsum(copies) - copies, copies)
        fitted = self._labels[np.minimum(first[at] + number, end[at] - 1)]
        return np.where((end > first)[at], fitted, -1)


def digests_of(X: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a number for every row that is equal for equal rows, whatever their precision."""
    digests = np.empty(len(X), dtype=np.uint64)
    for block in threads.slices(len(X), max(1, _BLOCK_ENTRIES // X.shape[1])):
        rows = np.ascontiguousarray(X[block], dtype=np.float64) + 0.0  # -0.0 becomes 0.0
        _digest(rows.view(np.uint64), digests[block])
    return digests


@kernel
def _digest(words: NDArray[np.uint64], digests: NDArray[np.uint64]) -> None:
    """Mix the words of every row by xor, multiplication and shift."""
    factor, shift = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
    for i in range(words.shape[0]):
        mixed = factor
        for j in range(words.shape[1]):
            mixed = (mixed ^ words[i, j]) * factor
            mixed ^= mixed >> shift
        digests[i] = mixed
