"""GAEC on the complete graph with all costs in memory: the matrix road, n^2 numbers.

The matrix is made by one blocked product over half of all pairs. Contraction adds two rows; nodes keep
short lists of partners as on the feature road (neighbours/lists.py), and a search reads a row instead of
scoring features. Columns are never written: of two nodes the row of the newer one is right, and a row that
is needed again is first brought up to date from the contractions since it was.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.greedy import most_attractive
from clusterfug.contraction.history import record
from clusterfug.contraction.queue import Queue, largest, queue_of, set_key
from clusterfug.execution.jit import Progress, kernel
from clusterfug.neighbours.exact import Neighbours, insert
from clusterfug.neighbours.lists import NEVER, Lists, best_or_promise, finish, has_partner, lists_of
from clusterfug.problems.cost_kernels import Floats
from clusterfug.problems.dense import DenseProblem
from clusterfug.result import MERGE

_SMALL = 4096  # up to here costs are kept in float64 whatever the features are: 128 MiB at most
_BLOCK = 1024
_PARTNERS = 5  # kept per node, as on the feature road
_WORK = 50_000_000  # costs touched per kernel call: a fraction of a second


class State(NamedTuple):
    costs: Floats  # (n, n); a row is right for the moment that its node's list describes, -inf for itself
    queue: Queue  # at least the cost of a node's best partner; -inf for nodes that are gone
    merges: Any  # (n,) contraction history, MERGE records


def matrix_bytes(problem: DenseProblem) -> int:
    """Memory that `cost_matrix` needs."""
    return problem.n**2 * _dtype(problem).itemsize


def _dtype(problem: DenseProblem) -> np.dtype[Any]:
    """float64 where it costs little or single precision would overflow or vanish."""
    features, weight = problem.rows.features, problem.rows.weight
    size = max(features.max(), -features.min()) * weight.max()
    if problem.n > _SMALL and size > 1e-10 and problem.largest_cost * problem.n**2 < 1e37:
        return features.dtype
    return np.dtype(np.float64)


def cost_matrix(problem: DenseProblem, progress: Progress | None = None) -> Floats:
    """All pair costs, (n, n) and symmetric to the last bit, with -inf on the diagonal."""
    n, dtype = problem.n, _dtype(problem)
    costs = np.empty((n, n), dtype=dtype)
    columns = problem.extended(0, n, dtype.type)
    for top in range(0, n, _BLOCK):
        bottom = min(n, top + _BLOCK)
        queries = problem.queries(top, bottom, dtype.type)
        np.matmul(queries, columns[top:].T, out=costs[top:bottom, top:])
        mirror(costs, top, bottom)
        if progress is not None:
            progress("neighbours", bottom * (2 * n - bottom), n * n)
    return costs


@kernel
def mirror(costs: Floats, top: int, bottom: int) -> None:
    """Copy rows top..bottom-1 right of the diagonal to the columns below it, tile by tile."""
    tile = 32
    n = costs.shape[0]
    for left in range(top, n, tile):
        right = min(n, left + tile)
        for above in range(top, bottom, tile):
            below = min(bottom, above + tile)
            for c in range(left, right):
                for r in range(above, min(below, c)):
                    costs[c, r] = costs[r, c]
    for r in range(top, bottom):
        costs[r, r] = -np.inf


def contract_matrix(costs: Floats, progress: Progress | None = None) -> NDArray[np.void]:
    """The contraction history of GAEC on a matrix of costs, which is used up."""
    n = len(costs)
    k = min(_PARTNERS, n - 1)
    lists = lists_of(Neighbours(np.empty((n, k), dtype=np.int64), np.full((n, k), -np.inf)))
    state = State(
        costs=costs,
        queue=queue_of(n, np.inf if k else -np.inf),
        merges=np.empty(n, dtype=MERGE),
    )
    for start in range(0, n, _BLOCK):
        fill_all(lists, costs, start, min(n, start + _BLOCK))
    done, finished = 0, False
    while not finished:
        done, finished = contract(lists, state, done, _WORK)
        if progress is not None:
            progress("contraction", done, n)
    return state.merges[:done].copy()


@kernel
def fill_all(lists: Lists, costs: Floats, start: int, stop: int) -> None:
    for u in range(start, stop):
        fill_from_row(lists, u, costs[u], 0)


@kernel
def fill_from_row(lists: Lists, u: int, row: Floats, now: int) -> None:
    """Make the list of u from its costs to all nodes; -inf where there is none."""
    stride = 64
    k = lists.ids.shape[1]
    length = 0
    floor = -np.inf
    for start in range(0, row.shape[0], stride):
        stop = min(row.shape[0], start + stride)
        if largest(row[start:stop]) <= floor:
            continue
        for v in range(start, stop):
            if row[v] > floor:
                if length == k:
                    floor = max(floor, min(row[v], lists.costs[u, k - 1]))
                length = insert(lists.ids[u], lists.costs[u], length, v, row[v])
    finish(lists, u, length, floor, now)


@kernel
def bring_up_to_date(lists: Lists, state: State, u: int, done: int) -> None:
    """Replay in row u the contractions since its list was made; the list has to be filled next."""
    row = state.costs[u]
    for t in range(lists.known[u], done):
        i, j = state.merges[t]["i"], state.merges[t]["j"]
        row[j] = -np.inf
        if lists.made[i] == t + 1:  # still the node that was made then
            row[i] = state.costs[i, u]


@kernel
def contract(lists: Lists, state: State, done: int, work: int) -> tuple[int, bool]:
    """Contract until no pair attracts or about `work` costs were touched.

    Returns the number of contractions in all, and whether they are complete.
    """
    n = state.costs.shape[0]
    while work > 0:
        u = most_attractive(lists, state.queue)
        if u < 0:
            return done, True
        bring_up_to_date(lists, state, u, done)
        work -= 2 * n
        if has_partner(lists, u):
            v, cost = lists.ids[u, lists.head[u]], lists.costs[u, lists.head[u]]
            bring_up_to_date(lists, state, v, done)
            i, j = min(u, v), max(u, v)
            record(state.merges[done], i, j, cost)
            done += 1
            row = state.costs[i]
            row += state.costs[j]
            row[i] = row[j] = -np.inf
            lists.made[i] = done
            lists.made[j] = NEVER
            set_key(state.queue, j, -np.inf)
            work -= 4 * n
            u = i
        fill_from_row(lists, u, state.costs[u], done)
        set_key(state.queue, u, best_or_promise(lists, u))
    return done, False
