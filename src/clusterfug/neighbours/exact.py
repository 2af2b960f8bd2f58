"""Exact search for the k most attractive partners of every item, in O(n k) memory plus one block of scores.

A blocked float32 matrix product over half of all pairs (costs are symmetric) only selects candidates. They
are scored again in float64. Where the k-th cost does not exceed the costs of the rejected items by more
than the rounding error of the product, all items are scored in float64. So the result, ties included,
depends neither on BLAS nor on the number of threads.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution import threads
from clusterfug.execution.jit import Progress, kernel, reduction
from clusterfug.problems.cost_kernels import ExtendedRows, Floats, Ints, cost_to_item, query_of_item
from clusterfug.problems.dense import DenseProblem

_BLOCK = 2048  # rows and columns of one block of scores: 16 MiB
_SPARE_CANDIDATES = 8  # candidates per item beyond k
_STRIDE = 64  # scores that are compared with the candidates at once
_WORK_PER_CALL = 100_000_000  # multiplications per kernel call: well under a second


class Neighbours(NamedTuple):
    """Partners of item i in row i, in decreasing order of their costs; equal costs by increasing index."""

    ids: NDArray[np.int64]  # (n, k)
    costs: NDArray[np.float64]  # (n, k)


def exact_neighbours(
    problem: DenseProblem, k: int, progress: Progress | None = None, split: int = 0
) -> Neighbours:
    """Return the k partners of largest cost of every item, or all other items if there are fewer.

    With a split, the partners of items 0..split-1 are among the items from `split` on, and the reverse; k
    is clipped to the number of items on the smaller side.
    """
    n = problem.n
    fewest = min(split, n - split) if split else n - 1
    k = min(k, fewest)
    found = Neighbours(np.empty((n, k), dtype=np.int64), np.empty((n, k)))
    if k == 0:
        return found
    candidates, limits = _candidates(problem, min(fewest, k + _SPARE_CANDIDATES), progress, split)
    step = max(1, _WORK_PER_CALL // (candidates.shape[1] * problem.d))
    is_unclear = np.zeros(n, dtype=np.bool_)
    for start in range(0, n, step):
        rescore(problem.rows, candidates, limits, start, min(n, start + step), *found, is_unclear)
    unclear = np.flatnonzero(is_unclear)
    step = max(1, _WORK_PER_CALL // (n * problem.d))
    for start in range(0, len(unclear), step):
        search_items(problem.rows, unclear[start : start + step], *found, split)
    return found


def _candidates(
    problem: DenseProblem, count: int, progress: Progress | None, split: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Return the `count` partners of largest score of every item, and upper bounds on all other costs.

    A score is the float32 product plus a bound on its rounding error, rounding * |query_i| |g_j|, which one
    more column of the product adds. So the score of the last candidate bounds the cost of every other item.
    (Numbers that are too small for float32 become 0, which is another error of all scores.)
    """
    n, d = problem.n, problem.d
    # Queries and rows are scaled (by powers of two: no rounding) to length <= 1: no score overflows.
    scales = query_scale, row_scale = tuple(2.0 ** -np.frexp(norms.max())[1] for norms in problem.norms)
    rounding = np.sqrt((d + 16) * np.finfo(np.float32).eps)
    query_slack, row_slack = (
        rounding * norms * scale for norms, scale in zip(problem.norms, scales, strict=True)
    )
    best = np.full((n, count), -np.inf, dtype=np.float32)
    ids = np.full((n, count), -1, dtype=np.int32)
    scores = np.empty((min(n, _BLOCK), min(n, _BLOCK)), dtype=np.float32)
    end = split or n
    for top in range(0, end, _BLOCK):
        threads.check_stop()
        bottom = min(end, top + _BLOCK)
        queries = problem.queries(top, bottom, np.float32, query_scale, spare=1)
        queries[:, -1] = query_slack[top:bottom]
        for left in range(split or top, n, _BLOCK):
            right = min(n, left + _BLOCK)
            columns = problem.extended(left, right, np.float32, row_scale, spare=1)
            columns[:, -1] = row_slack[left:right]
            block = np.matmul(queries, columns.T, out=scores[: bottom - top, : right - left])
            update_candidates(block, top, left, best, ids)
        if progress is not None:
            progress("neighbours", bottom * (2 * n - bottom), n * n)
    underflow = 4 * (d + 16) * float(np.finfo(np.float32).smallest_subnormal)
    limits = (best[:, -1] + underflow) / query_scale / row_scale
    others = np.where(np.arange(n) < split, n - split, split) if split else np.full(n, n - 1)
    limits[others == count] = -np.inf  # every other item is a candidate
    return ids, limits


@kernel
def precedes(cost: float, partner: int, other_cost: float, other_partner: int) -> bool:
    """Return whether a partner comes before another: larger cost first, then the lower index."""
    return cost > other_cost or (cost == other_cost and partner < other_partner)


@kernel
def insert(ids: Ints, costs: Floats, length: int, partner: int, cost: float) -> int:
    """Insert into a sorted row of `length` entries; a full row drops its last. Return the new length."""
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
def largest_value(values: Floats) -> float:
    """Return the maximum of an array."""
    top = values[0]
    for t in range(values.shape[0]):
        top = max(top, values[t])
    return top


@reduction
def has_candidate(scores: Floats, row_minimum: float, column_minima: Floats) -> bool:
    """Return whether some score exceeds the minimum of its row or of its column."""
    highest = scores[0]
    margin = scores[0] - column_minima[0]
    for c in range(scores.shape[0]):
        highest = max(highest, scores[c])
        margin = max(margin, scores[c] - column_minima[c])
    return highest > row_minimum or margin > 0


@kernel
def update_candidates(scores: Floats, top: int, left: int, best: Floats, ids: Ints) -> None:
    """Insert the largest scores of a block into the sorted candidates of its rows and of its columns."""
    n_columns = scores.shape[1]
    last = best.shape[1] - 1
    # A block on the diagonal has each pair twice: its columns are its rows.
    minima = np.full(n_columns, np.inf, dtype=best.dtype)
    if top != left:
        minima[:] = best[left : left + n_columns, last]
    for r in range(scores.shape[0]):
        i = top + r
        for start in range(0, n_columns, _STRIDE):
            stop = min(n_columns, start + _STRIDE)
            if not has_candidate(scores[r, start:stop], best[i, last], minima[start:stop]):
                continue
            for c in range(start, stop):
                j = left + c
                score = scores[r, c]
                if score > best[i, last] and i != j:
                    insert(ids[i], best[i], last + 1, j, score)
                if score > minima[c]:
                    insert(ids[j], best[j], last + 1, i, score)
                    minima[c] = best[j, last]


@kernel
def rescore(
    rows: ExtendedRows,
    candidates: Ints,
    limits: Floats,
    start: int,
    stop: int,
    ids: Ints,
    costs: Floats,
    is_unclear: Ints,
) -> None:
    """Find the k best candidates of items start..stop-1 in float64.

    An item is unclear if the cost of an item that is no candidate may be larger.
    """
    query = np.empty(rows.signature.shape[0])
    k = ids.shape[1]
    for i in range(start, stop):
        query_of_item(rows, i, query)
        length = 0
        for j in candidates[i]:
            length = insert(ids[i], costs[i], length, j, cost_to_item(rows, query, j))
        is_unclear[i] = not costs[i, k - 1] > limits[i]


@kernel
def search_items(rows: ExtendedRows, items: Ints, ids: Ints, costs: Floats, split: int) -> None:
    """Find the k best partners of some items among all (beyond a split, if there is one), in float64."""
    query = np.empty(rows.signature.shape[0])
    for i in items:
        query_of_item(rows, i, query)
        length = 0
        for j in range(rows.features.shape[0]):
            if j != i and (split == 0 or (i < split) != (j < split)):
                length = insert(ids[i], costs[i], length, j, cost_to_item(rows, query, j))
