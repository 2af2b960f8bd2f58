"""The cost law, as kernels: what two items (or two sets of items) cost, from their features alone.

Every pair cost is an indefinite inner product  cost(i, j) = sum_d sigma_d g_id g_jd  of the extended
rows  g_i = weight_i * [f_i, alpha_i].  A *query* is a row times the signature, so a cost is a plain
inner product <query_i, g_j> (the paper's query/index trick), and the row of a set of items is the sum
of their rows (the contraction lemma). Nothing outside this file knows that alpha is a column.

Sums are accumulated in float64 whatever the features are stored in, in an order that does not depend
on threads.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[Any]  # of float32 or float64
Ints = NDArray[Any]


class Rows(NamedTuple):
    """The arrays that define all pair costs; read-only."""

    features: Floats  # (n, d) float32 or float64, C order
    alpha: Floats  # (n,) float64, the last column of the extended rows
    weight: Floats  # (n,) float64
    signature: Floats  # (d + 1,) float64


@njit(cache=True, nogil=True)
def add_row(rows: Rows, i: int, out: Floats) -> None:
    """out += the extended row of item i."""
    d = rows.features.shape[1]
    for p in range(d):
        out[p] += rows.weight[i] * rows.features[i, p]
    out[d] += rows.weight[i] * rows.alpha[i]


@njit(cache=True, nogil=True)
def query_of_row(rows: Rows, i: int, out: Floats) -> None:
    """out = the extended row of item i times the signature."""
    out[:] = 0.0
    add_row(rows, i, out)
    for p in range(out.shape[0]):
        out[p] *= rows.signature[p]


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def cost_to_row(rows: Rows, query: Floats, j: int) -> float:
    """<query, extended row of item j>, the cost between the query's owner and item j."""
    d = rows.features.shape[1]
    total = 0.0
    for p in range(d):
        total += query[p] * rows.features[j, p]
    return rows.weight[j] * (total + query[d] * rows.alpha[j])


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz"})
def inner(a: Floats, b: Floats) -> float:
    total = 0.0
    for p in range(a.shape[0]):
        total += a[p] * b[p]
    return total


@njit(cache=True, nogil=True)
def cost_inside(rows: Rows, order: Ints, starts: Ints, first: int, last: int) -> float:
    """Total cost of the pairs inside clusters first..last-1, in O(items * d).

    Cluster c holds the items order[starts[c]:starts[c + 1]]. With G the sum of its rows, the pairs
    inside it cost (<G, G> - sum_i <g_i, g_i>) / 2.
    """
    width = rows.signature.shape[0]
    total = 0.0
    cluster_row = np.empty(width)
    query = np.empty(width)
    for c in range(first, last):
        if starts[c + 1] - starts[c] < 2:
            continue
        cluster_row[:] = 0.0
        own = 0.0
        for t in range(starts[c], starts[c + 1]):
            query_of_row(rows, order[t], query)
            own += cost_to_row(rows, query, order[t])
            add_row(rows, order[t], cluster_row)
        for p in range(width):
            query[p] = cluster_row[p] * rows.signature[p]
        total += (inner(query, cluster_row) - own) / 2
    return total


@njit(cache=True, nogil=True)
def sum_rows(rows: Rows, order: Ints, starts: Ints, sums: Floats) -> None:
    """sums[c] += the extended rows of the items order[starts[c]:starts[c + 1]]."""
    for c in range(sums.shape[0]):
        for t in range(starts[c], starts[c + 1]):
            add_row(rows, order[t], sums[c])


@njit(cache=True, nogil=True)
def squared_norms(rows: Rows, query_norms: Floats, row_norms: Floats) -> None:
    """Squared lengths of every query and of every extended row."""
    width = rows.signature.shape[0]
    row = np.empty(width)
    query = np.empty(width)
    for i in range(rows.features.shape[0]):
        row[:] = 0.0
        add_row(rows, i, row)
        for p in range(width):
            query[p] = row[p] * rows.signature[p]
        row_norms[i] = inner(row, row)
        query_norms[i] = inner(query, query)


@njit(cache=True, nogil=True)
def mean_rows(features: Floats, weight: Floats, order: Ints, starts: Ints, means: Floats) -> None:
    """means[c] = the weighted mean feature of the items order[starts[c]:starts[c + 1]]."""
    total = np.empty(features.shape[1])
    for c in range(means.shape[0]):
        total[:] = 0.0
        mass = 0.0
        for t in range(starts[c], starts[c + 1]):
            mass += weight[order[t]]
            for p in range(total.shape[0]):
                total[p] += weight[order[t]] * features[order[t], p]
        for p in range(total.shape[0]):
            means[c, p] = total[p] / mass
