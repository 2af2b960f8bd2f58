"""The sum of all negative pair costs of a problem, in float64.

Every lower bound needs this pass over all pairs. Some pairs may be set aside: their costs are returned and
left out of the sum. `repulsion` of a problem calls this module.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution import threads
from clusterfug.execution.jit import Progress, kernel
from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.graph import GraphProblem
from clusterfug.problems.mixed import MixedProblem

_BLOCK = 1024  # rows and columns of one block of costs: 8 MiB
_EPSILON = float(np.finfo(np.float64).eps)


class Repulsion(NamedTuple):
    """Sum over all pairs of a problem except those set aside."""

    total: float  # sum of the negative costs
    error: float  # upper bound on the rounding error of adding them up
    aside: NDArray[np.float64]  # costs of the pairs that were set aside


def dense_repulsion(
    problem: DenseProblem, pairs: NDArray[Any], progress: Progress | None = None
) -> Repulsion:
    """Return the sum of all negative costs except those of `pairs` (i < j, sorted), and their costs."""
    n = problem.n
    if not problem.may_attract:  # all costs are negative or 0
        aside, total = problem.costs_of_pairs(pairs), problem.all_singletons
        rest = total - math.fsum(aside.tolist())
        return Repulsion(rest, n * _EPSILON * abs(total), aside)
    starts = np.searchsorted(pairs[:, 0], np.arange(n + 1))
    ends = np.ascontiguousarray(pairs[:, 1])
    aside = np.empty(len(pairs))

    def negatives(queries: Floats, others: Floats, top: int, left: int) -> float:
        return sum_negatives(queries @ others.T, top, left, starts, ends, aside)

    total = _sum_of_blocks(problem, negatives, progress)
    return Repulsion(total, 2 * _BLOCK * _EPSILON * abs(total), aside)


def doubtful_terms(problem: DenseProblem, share: float) -> float:
    """Return the total magnitude of the terms of all costs that do not exceed a share of their terms."""

    def doubtful(queries: Floats, others: Floats, top: int, left: int) -> float:
        terms = np.abs(queries) @ np.abs(others).T
        terms[queries @ others.T > share * terms] = 0.0
        return float(np.triu(terms, 1 + top - left).sum())

    return _sum_of_blocks(problem, doubtful)


def _sum_of_blocks(
    problem: DenseProblem,
    block_sum: Callable[[Floats, Floats, int, int], float],
    progress: Progress | None = None,
) -> float:
    """Return the sum over all pairs, from a function that adds up one block of them.

    It is given the queries and the rows of two ranges of items, and the first item of each. Only pairs
    right of the diagonal count.
    """
    n, sums = problem.n, []
    for rows in threads.slices(n, _BLOCK):
        sums.extend(_sums_of_rows(problem, rows, block_sum))
        if progress is not None:
            progress("bound", rows.stop * (2 * n - rows.stop), n * n)
    return math.fsum(sums)


def _sums_of_rows(
    problem: DenseProblem, rows: slice, block_sum: Callable[[Floats, Floats, int, int], float]
) -> list[float]:
    """Return the sums of the blocks of some rows, from the diagonal to the right."""
    queries = problem.queries(rows.start, rows.stop, np.float64)
    sums = np.zeros(-(-(problem.n - rows.start) // _BLOCK))

    def block(columns: slice) -> None:
        others = problem.extended(columns.start, columns.stop, np.float64)
        at = (columns.start - rows.start) // _BLOCK
        sums[at] = block_sum(queries, others, rows.start, columns.start)

    threads.for_each(
        block, (columns for columns in threads.slices(problem.n, _BLOCK) if columns.start >= rows.start)
    )
    return sums.tolist()


def mixed_repulsion(
    problem: MixedProblem, pairs: NDArray[Any], progress: Progress | None = None
) -> Repulsion:
    """Return the sum of all negative costs except those of `pairs` (i < j, sorted), and their costs.

    Pairs that must be apart count with their costs, whatever the sign, unless they are too many.
    """
    n = problem.n
    apart = problem.apart.known_pairs()
    each = [known[:, 0].astype(np.int64) * n + known[:, 1] for known in (pairs, problem.graph.edges, apart)]
    keys = np.unique(np.concatenate(each))
    known = np.stack([keys // n, keys % n], axis=1)
    found = dense_repulsion(problem.dense, known, progress)
    costs = found.aside + graph_repulsion(problem.graph, known).aside
    given, cut = np.isin(keys, each[0]), np.isin(keys, each[2])
    counted = np.where(cut, costs, np.minimum(costs, 0.0))[~given]
    total = found.total + math.fsum(counted.tolist())
    error = found.error + 2 * _EPSILON * (abs(total) + float(np.abs(counted).sum()))
    return Repulsion(total, error, costs[given])


def graph_repulsion(graph: GraphProblem, pairs: NDArray[Any]) -> Repulsion:
    """Return the sum of all negative edge costs except those of `pairs`, and the costs of `pairs`."""
    keys = graph.edges[:, 0] * graph.n + graph.edges[:, 1]
    wanted = pairs[:, 0].astype(np.int64) * graph.n + pairs[:, 1]
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    aside, rest = np.zeros(len(pairs)), graph.costs.copy()
    if len(keys):
        there = keys[at] == wanted
        aside[there] = graph.costs[at[there]]
        rest[at[there]] = 0.0
    total = math.fsum(rest[rest < 0].tolist())
    return Repulsion(total, _EPSILON * abs(total), aside)


@kernel
def sum_negatives(costs: Floats, top: int, left: int, starts: Ints, ends: Ints, aside: Floats) -> float:
    """Return the sum of the negative costs of a block right of the diagonal, without the pairs set aside.

    The costs of these pairs are written to `aside`, in their order; `starts` and `ends` hold the pairs by
    their lower item.
    """
    total = 0.0
    for r in range(costs.shape[0]):
        i = top + r
        row = costs[r]
        stop = left + costs.shape[1]
        at = starts[i] + np.searchsorted(ends[starts[i] : starts[i + 1]], left)
        while at < starts[i + 1] and ends[at] < stop:
            aside[at] = row[ends[at] - left]
            row[ends[at] - left] = 0.0
            at += 1
        line = 0.0
        for c in range(max(0, i + 1 - left), costs.shape[1]):
            line += min(row[c], 0.0)
        total += line
    return total
