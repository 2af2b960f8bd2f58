"""The contraction history, which every algorithm here returns, and the labels that it describes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel
from clusterfug.result import number_by_first_appearance


@kernel
def record_merge(merge: Any, i: int, j: int, cost: float) -> None:
    """Set the fields of a MERGE record."""
    merge["i"] = i
    merge["j"] = j
    merge["cost"] = cost


def labels_of_merges(n: int, merges: NDArray[Any]) -> NDArray[np.int64]:
    """Return the labels of n items after a contraction history."""
    root = np.arange(n)
    root[merges["j"]] = merges["i"]  # a node is merged into a lower one at most once
    while True:
        above = root[root]
        if np.array_equal(above, root):
            return number_by_first_appearance(root)
        root = above
