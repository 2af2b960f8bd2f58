"""The k most attractive partners of every item, exactly, in O(n k) memory beyond one block of scores.

Scores come from a blocked float32 matrix product over half of all pairs (costs are symmetric); it only
*nominates*. The nominees are re-scored in float64, and a row whose k-th partner is not clear of the
rejected ones by more than the rounding error of the product is searched again in float64. So the
answer, ties included, depends neither on BLAS nor on the number of threads.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution import threads
from clusterfug.execution.jit import Progress, kernel, reduction
from clusterfug.problems.cost_kernels import ExtendedRows, Floats, Ints, cost_to_item, query_of_item
from clusterfug.problems.dense import DenseProblem

_BLOCK = 2048  # rows and columns of one block of scores: 16 MiB
_WORK = 100_000_000  # multiplications per kernel call, well under a second


class Neighbours(NamedTuple):
    """Row i: partners of item i by falling cost, equal costs by rising index."""

    ids: NDArray[np.int64]  # (n, k)
    costs: NDArray[np.float64]  # (n, k)


def nearest(problem: DenseProblem, k: int, progress: Progress | None = None, split: int = 0) -> Neighbours:
    """The k partners of largest cost of every item; k is clipped to the number of others.

    With a split, items look for partners on the other side of it only: those before it among those from
    there on, and the other way round; k is clipped to the number of items on the smaller side.
    """
    n = problem.n
    fewest = min(split, n - split) if split else n - 1
    k = min(k, fewest)
    found = Neighbours(np.empty((n, k), dtype=np.int64), np.empty((n, k)))
    if k == 0:
        return found
    nominees, limits = _nominate(problem, min(fewest, k + 8), progress, split)
    step = max(1, _WORK // (nominees.shape[1] * problem.d))
    unclear = np.zeros(n, dtype=np.bool_)
    for start in range(0, n, step):
        rescore(problem.rows, nominees, limits, start, min(n, start + step), *found, unclear)
    again = np.flatnonzero(unclear)
    step = max(1, _WORK // (n * problem.d))
    for start in range(0, len(again), step):
        search(problem.rows, again[start : start + step], *found, split)
    return found


def _nominate(
    problem: DenseProblem, count: int, progress: Progress | None, split: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """For every item `count` partners of largest score, and a limit on the cost of all others.

    A score is the float32 product plus a bound on its rounding error, rounding * |g_i| |g_j|, which one
    more column of the product adds; so whoever is not nominated costs at most the last score that is.
    """
    n, d = problem.n, problem.d
    # Queries and rows are scaled (by powers of two: no rounding) to length <= 1: no score overflows.
    query_scale, row_scale = (2.0 ** -np.frexp(norms.max())[1] for norms in problem.norms)
    rounding = (d + 16) * np.finfo(np.float32).eps * max(1.0, abs(problem.rows.signature[-1]))
    slack = np.sqrt(rounding) * problem.norms[1]
    best = np.full((n, count), -np.inf, dtype=np.float32)
    ids = np.full((n, count), -1, dtype=np.int32)
    scores = np.empty((min(n, _BLOCK), min(n, _BLOCK)), dtype=np.float32)
    end = split or n
    for top in range(0, end, _BLOCK):
        threads.look()
        bottom = min(end, top + _BLOCK)
        queries = problem.queries(top, bottom, np.float32, query_scale, spare=1)
        queries[:, -1] = slack[top:bottom] * query_scale
        for left in range(split or top, n, _BLOCK):
            right = min(n, left + _BLOCK)
            columns = problem.extended(left, right, np.float32, row_scale, spare=1)
            columns[:, -1] = slack[left:right] * row_scale
            block = np.matmul(queries, columns.T, out=scores[: bottom - top, : right - left])
            nominate(block, top, left, best, ids)
        if progress is not None:
            progress("neighbours", bottom * (2 * n - bottom), n * n)
    limits = best[:, -1] / (query_scale * row_scale)
    others = np.where(np.arange(n) < split, n - split, split) if split else np.full(n, n - 1)
    limits[others == count] = -np.inf  # all of them are nominated
    return ids, limits


@kernel
def precedes(cost: float, partner: int, other_cost: float, other_partner: int) -> bool:
    """The order of partners in a row: larger cost first, then the lower index."""
    return cost > other_cost or (cost == other_cost and partner < other_partner)


@kernel
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


@reduction
def holds_candidate(scores: Floats, bar: float, bars: Floats) -> bool:
    """Whether some score is above the bar of its row or of its column."""
    highest = scores[0]
    margin = scores[0] - bars[0]
    for c in range(scores.shape[0]):
        highest = max(highest, scores[c])
        margin = max(margin, scores[c] - bars[c])
    return highest > bar or margin > 0


@kernel
def nominate(scores: Floats, top: int, left: int, best: Floats, ids: Ints) -> None:
    """Take the largest scores of a block into the sorted nominees of its rows and of its columns."""
    stride = 64
    n_columns = scores.shape[1]
    last = best.shape[1] - 1
    # A block on the diagonal holds each pair twice: its columns are its rows.
    bars = np.full(n_columns, np.inf, dtype=best.dtype)
    if top != left:
        bars[:] = best[left : left + n_columns, last]
    for r in range(scores.shape[0]):
        i = top + r
        for start in range(0, n_columns, stride):
            stop = min(n_columns, start + stride)
            if not holds_candidate(scores[r, start:stop], best[i, last], bars[start:stop]):
                continue
            for c in range(start, stop):
                j = left + c
                score = scores[r, c]
                if score > best[i, last] and i != j:
                    insert(ids[i], best[i], last + 1, j, score)
                if score > bars[c]:
                    insert(ids[j], best[j], last + 1, i, score)
                    bars[c] = best[j, last]


@kernel
def rescore(
    rows: ExtendedRows,
    nominees: Ints,
    limits: Floats,
    start: int,
    stop: int,
    ids: Ints,
    costs: Floats,
    unclear: Ints,
) -> None:
    """The k best nominees of each row in float64; unclear where an item not nominated may be better."""
    query = np.empty(rows.signature.shape[0])
    k = ids.shape[1]
    for i in range(start, stop):
        query_of_item(rows, i, query)
        length = 0
        for j in nominees[i]:
            length = insert(ids[i], costs[i], length, j, cost_to_item(rows, query, j))
        unclear[i] = not costs[i, k - 1] > limits[i]


@kernel
def search(rows: ExtendedRows, which: Ints, ids: Ints, costs: Floats, split: int) -> None:
    """Exact search of the given rows against all items (beyond a split, if there is one), in float64."""
    query = np.empty(rows.signature.shape[0])
    for i in which:
        query_of_item(rows, i, query)
        length = 0
        for j in range(rows.features.shape[0]):
            if j != i and (split == 0 or (i < split) != (j < split)):
                length = insert(ids[i], costs[i], length, j, cost_to_item(rows, query, j))
