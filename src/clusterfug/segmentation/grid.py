"""The sparse baseline: pixels joined to their neighbours and to some pixels further away.

What the paper compares with: a graph made by hand, with about ten edges per pixel and the same costs as
the dense problem has for these pairs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.graph import GraphProblem

#: Down and right of every pixel; the long ones are for objects that something hides in part.
OFFSETS = ((0, 1), (1, 0), (0, 4), (4, 0), (4, 4), (4, -4), (0, 16), (16, 0), (16, 16), (16, -16))

_PAIRS = 1 << 16


def grid_graph(
    mask: NDArray[np.bool_],
    rows: NDArray[Any],
    threshold: float,
    signature: NDArray[np.float64] | None = None,
    offsets: Any = OFFSETS,
) -> GraphProblem:
    """The multicut problem of the pixels of a mask on a grid graph.

    Parameters
    ----------
    mask : bool array of shape (h, w)
        Which pixels are nodes, in the order of `rows`.
    rows : array of shape (n, d)
        Their features.
    threshold : float
        Cost of an edge = <f_i, f_j> - threshold, as for `DenseProblem`.
    signature : array of shape (d,), optional
        As for `DenseProblem`.
    offsets : sequence of (down, right)
        Every pixel is joined to the pixels at these distances that are nodes, too.
    """
    node = np.full(mask.shape, -1, dtype=np.int64)
    node[mask] = np.arange(len(rows))
    height, width = mask.shape
    edges = []
    for down, right in offsets:
        if down >= height or abs(right) >= width:
            continue
        first = node[: height - down, max(0, -right) : width - max(0, right)]
        second = node[down:, max(0, right) : width - max(0, -right)]
        both = (first >= 0) & (second >= 0)
        edges.append(np.stack([first[both], second[both]], axis=1))
    pairs = np.concatenate(edges) if edges else np.empty((0, 2), dtype=np.int64)
    queries = rows if signature is None else rows * signature.astype(rows.dtype)
    costs = np.empty(len(pairs))
    for start in range(0, len(pairs), _PAIRS):
        i, j = pairs[start : start + _PAIRS].T
        costs[start : start + _PAIRS] = np.einsum("ij,ij->i", queries[i], rows[j], dtype=np.float64)
    return GraphProblem(pairs, costs - threshold, len(rows))
