"""All pairs of a problem in float64, block by block: what the pairs that repel add up to.

The one pass that every bound stands on. Some pairs may be set aside: their costs are told, and they are
left out of the sum.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import blocks, checks
from clusterfug.costs import Floats, Ints
from clusterfug.graph import GraphProblem
from clusterfug.kernels import Progress, kernel
from clusterfug.problem import DenseProblem, as_problem
from clusterfug.strength import Costs

_BLOCK = 1024  # rows and columns of one block: 8 MiB
_ROUNDING = float(np.finfo(np.float64).eps)

Problem = DenseProblem | GraphProblem


def problem_of(X: Any, costs: Costs) -> Problem:
    """A graph as it is, or the problem of features."""
    if isinstance(X, GraphProblem):
        checks.no_costs(costs, "GraphProblem")
        return X
    return as_problem(checks.on_host(X), costs)


class Repulsion(NamedTuple):
    """Sums over all pairs of a problem."""

    total: float  # of the negative costs of the pairs that were not set aside
    error: float  # by which rounding may have changed the sum of all negative costs, at most
    aside: NDArray[np.float64]  # costs of the pairs that were


def repulsion(problem: Problem, pairs: NDArray[Any], progress: Progress | None = None) -> Repulsion:
    """The sum of all negative costs but those of `pairs` (i < j, sorted), and the costs of these."""
    if isinstance(problem, GraphProblem):
        return _of_graph(problem, pairs)
    n = problem.n
    starts = np.searchsorted(pairs[:, 0], np.arange(n + 1))
    ends = np.ascontiguousarray(pairs[:, 1])
    aside = np.empty(len(pairs))
    sums: list[float] = []
    for rows in blocks.slices(n, _BLOCK):
        sums.extend(_sums_of_rows(problem, rows, starts, ends, aside))
        if progress is not None:
            progress("bound", rows.stop * (2 * n - rows.stop), n * n)
    total = math.fsum(sums)
    return Repulsion(total, cost_error(problem) + 2 * _BLOCK * _ROUNDING * abs(total), aside)


def cost_error(problem: Problem) -> float:
    """By how much rounding changes the sum of all costs at most: each by (d + 16) roundings of u_i u_j."""
    if isinstance(problem, GraphProblem):
        return 0.0
    _, magnitudes = problem.own_costs
    return (problem.d + 16) * _ROUNDING * math.fsum(magnitudes.tolist()) ** 2


def pair_errors(problem: Problem, pairs: NDArray[Any]) -> NDArray[np.float64]:
    """By how much rounding changes the costs of some pairs at most."""
    if isinstance(problem, GraphProblem):
        return np.zeros(len(pairs))
    _, magnitudes = problem.own_costs
    return (problem.d + 16) * _ROUNDING * magnitudes[pairs[:, 0]] * magnitudes[pairs[:, 1]]


def _sums_of_rows(
    problem: DenseProblem, rows: slice, starts: Ints, ends: Ints, aside: Floats
) -> list[float]:
    """The sums of the blocks of some rows, from the diagonal on."""
    queries = problem.queries(rows.start, rows.stop, np.float64)
    sums = np.zeros(-(-(problem.n - rows.start) // _BLOCK))

    def block(columns: slice) -> None:
        costs = queries @ problem.extended(columns.start, columns.stop, np.float64).T
        at = (columns.start - rows.start) // _BLOCK
        sums[at] = sum_negatives(costs, rows.start, columns.start, starts, ends, aside)

    blocks.each(
        block, (columns for columns in blocks.slices(problem.n, _BLOCK) if columns.start >= rows.start)
    )
    return sums.tolist()


def _of_graph(graph: GraphProblem, pairs: NDArray[Any]) -> Repulsion:
    keys = graph.edges[:, 0] * graph.n + graph.edges[:, 1]
    wanted = pairs[:, 0].astype(np.int64) * graph.n + pairs[:, 1]
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    aside, rest = np.zeros(len(pairs)), graph.costs.copy()
    if len(keys):
        there = keys[at] == wanted
        aside[there] = graph.costs[at[there]]
        rest[at[there]] = 0.0
    total = math.fsum(rest[rest < 0].tolist())
    return Repulsion(total, 64 * _ROUNDING * float(np.abs(graph.costs).sum()), aside)


@kernel
def sum_negatives(costs: Floats, top: int, left: int, starts: Ints, ends: Ints, aside: Floats) -> float:
    """The sum of the negative costs of a block right of the diagonal, without the pairs set aside."""
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
