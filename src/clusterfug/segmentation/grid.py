"""The sparse baseline of the paper: a grid graph with long-range edges, about ten per pixel.

Its edges have the costs that the dense problem has for the same pairs.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.graph import GraphProblem

#: (down, right) from every pixel; the long edges connect the parts of partly hidden objects.
OFFSETS = ((0, 1), (1, 0), (0, 4), (4, 0), (4, 4), (4, -4), (0, 16), (16, 0), (16, 16), (16, -16))

_BLOCK = 1 << 16  # edges whose costs are computed at a time


def grid_graph(
    mask: NDArray[np.bool_],
    rows: NDArray[Any],
    threshold: float,
    signature: NDArray[np.float64] | None = None,
    offsets: Any = OFFSETS,
) -> GraphProblem:
    """Return the multicut problem of the pixels of a mask on a grid graph.

    Parameters
    ----------
    mask : bool array of shape (h, w)
        The pixels that are nodes, in the order of `rows`.
    rows : array of shape (n, d)
        Features of the nodes.
    threshold : float
        Cost of an edge = <f_i, f_j> - threshold, as for `DenseProblem`.
    signature : array of shape (d,), optional
        As for `DenseProblem`.
    offsets : sequence of (down, right)
        Every node is connected to the nodes at these distances.
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
    for start in range(0, len(pairs), _BLOCK):
        i, j = pairs[start : start + _BLOCK].T
        costs[start : start + _BLOCK] = np.einsum("ij,ij->i", queries[i], rows[j], dtype=np.float64)
    return GraphProblem(pairs, costs - threshold, len(rows))
