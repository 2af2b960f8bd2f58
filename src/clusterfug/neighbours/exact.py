"""The k most attractive partners of every item, exactly, in O(n k) memory beyond one small block.

Scores come from a blocked matrix product in the features' own precision; it only *nominates*. The
nominees are re-scored in float64, and a row whose k-th partner is not clear of the rejected ones by
more than the rounding error of the product is searched again in float64. So the answer, ties
included, depends neither on BLAS nor on the number of threads.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from clusterfug.costs import Floats, Ints, Rows, cost_to_row, query_of_row
from clusterfug.problem import DenseProblem

_ROWS, _COLUMNS = 1024, 4096  # one block of scores: 16 MiB in float32
_WORK = 100_000_000  # multiplications per kernel call, well under a second

Progress = Callable[[str, int, int], None]


class Neighbours(NamedTuple):
    """Row i: partners of item i by falling cost, equal costs by rising index."""

    ids: NDArray[np.int64]  # (n, k)
    costs: NDArray[np.float64]  # (n, k)


def nearest(problem: DenseProblem, k: int, progress: Progress | None = None) -> Neighbours:
    """The k partners of largest cost of every item; k is clipped to n - 1."""
    n, rows = problem.n, problem.rows
    k = min(k, n - 1)
    found = Neighbours(np.empty((n, k), dtype=np.int64), np.empty((n, k)))
    if k == 0:
        return found
    # Queries and rows are scaled (by powers of two: no rounding) to length <= 1: no score overflows.
    query_norms, row_norms = problem.norms
    query_scale, row_scale = (2.0 ** -np.frexp(norms.max())[1] for norms in problem.norms)
    dtype = rows.features.dtype
    rounding = (problem.d + 8) * np.finfo(dtype).eps
    error = rounding * query_norms * row_norms.max()  # of a score, bounds |<query, row>| rounding
    nominees = min(n - 1, 2 * k + 8)
    scores = np.empty((min(n, _ROWS), min(n, _COLUMNS)), dtype=dtype)
    for top in range(0, n, _ROWS):
        bottom = min(n, top + _ROWS)
        queries = problem.extended(top, bottom) * (rows.signature * query_scale).astype(dtype)
        best = np.full((bottom - top, nominees), -np.inf, dtype=dtype)
        ids = np.full((bottom - top, nominees), -1, dtype=np.int64)
        for left in range(0, n, _COLUMNS):
            right = min(n, left + _COLUMNS)
            block = scores[: bottom - top, : right - left]
            columns = problem.extended(left, right)
            columns *= dtype.type(row_scale)
            np.matmul(queries, columns.T, out=block)
            nominate(block, top, left, best, ids)
        unscaled = best[:, -1] / (query_scale * row_scale)
        limit = unscaled + error[top:bottom] if nominees < n - 1 else np.full(bottom - top, -np.inf)
        unclear = np.zeros(bottom - top, dtype=np.bool_)
        rescore(rows, ids, limit, top, found.ids, found.costs, unclear)
        again = np.flatnonzero(unclear) + top
        step = max(1, _WORK // (n * problem.d))
        for start in range(0, len(again), step):
            search(rows, again[start : start + step], found.ids, found.costs)
        if progress is not None:
            progress("neighbours", bottom, n)
    return found


@njit(cache=True, nogil=True)
def precedes(cost: float, partner: int, other_cost: float, other_partner: int) -> bool:
    """The order of partners in a row: larger cost first, then the lower index."""
    return cost > other_cost or (cost == other_cost and partner < other_partner)


@njit(cache=True, nogil=True)
def insert(ids: Ints, costs: Floats, length: int, partner: int, cost: float) -> int:
    """Insert into a sorted row that holds `length` entries; a full row drops its last. New length."""
    if length < ids.shape[0]:
        length += 1
    elif not precedes(cost, partner, costs[length - 1], ids[length - 1]):
        return length
    at = length - 1
    while at > 0 and precedes(cost, partner, costs[at - 1], ids[at - 1]):
        ids[at] = ids[at - 1]
        costs[at] = costs[at - 1]
        at -= 1
    ids[at] = partner
    costs[at] = cost
    return length


@njit(cache=True, nogil=True)
def nominate(scores: Floats, top: int, left: int, best: Floats, ids: Ints) -> None:
    """Take the largest scores of a block into the sorted rows of nominees (all slots count as full)."""
    last = best.shape[1] - 1
    for r in range(scores.shape[0]):
        bar = best[r, last]
        for c in range(scores.shape[1]):
            if scores[r, c] > bar and left + c != top + r:
                insert(ids[r], best[r], last + 1, left + c, scores[r, c])
                bar = best[r, last]


@njit(cache=True, nogil=True)
def rescore(
    rows: Rows, nominees: Ints, limit: Floats, top: int, ids: Ints, costs: Floats, unclear: Ints
) -> None:
    """The k best nominees of each row in float64; unclear where an item not nominated may be better."""
    query = np.empty(rows.signature.shape[0])
    k = ids.shape[1]
    for r in range(nominees.shape[0]):
        i = top + r
        query_of_row(rows, i, query)
        length = 0
        for t in range(nominees.shape[1]):
            j = nominees[r, t]
            length = insert(ids[i], costs[i], length, j, cost_to_row(rows, query, j))
        unclear[r] = costs[i, k - 1] <= limit[r]


@njit(cache=True, nogil=True)
def search(rows: Rows, which: Ints, ids: Ints, costs: Floats) -> None:
    """Exact search of the given rows against all items, in float64."""
    query = np.empty(rows.signature.shape[0])
    for i in which:
        query_of_row(rows, i, query)
        length = 0
        for j in range(rows.features.shape[0]):
            if j != i:
                length = insert(ids[i], costs[i], length, j, cost_to_row(rows, query, j))
