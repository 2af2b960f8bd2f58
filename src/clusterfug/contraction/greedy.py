"""DGAEC and DGAECInc (Algorithms 2 and 3): exact greedy contraction on features, O(n d + n k) memory.

Each step merges the pair of largest cost among all pairs, found in the incremental neighbour graph;
with k = 1 this is DGAEC, with k = 5 DGAECInc. Both make the merges of GAEC on the full matrix, the
ties included. Items are read where they lie; only contracted nodes get a row of their own, in float64.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from clusterfug.contraction.history import MERGE, record
from clusterfug.costs import Floats, Ints, Rows, add_row, cost_to_row, inner
from clusterfug.neighbours.exact import Neighbours, Progress
from clusterfug.neighbours.lists import Lists, announce, fill, lists_of, promise_or_best
from clusterfug.problem import DenseProblem

_WORK = 200_000_000  # multiplications per kernel call: a fraction of a second

# Counters of a contraction, in State.counts.
ACTIVE, MERGES, SUMS, FREE = range(4)


class State(NamedTuple):
    sums: Floats  # rows of contracted nodes, (n // 2, d + 1) float64: each holds two items or more
    sum_of: Ints  # (n,) which row of sums a node has, -1 for an item on its own
    free: Ints  # (n // 2,) stack of rows of sums that can be used again
    active: Ints  # (n,) the nodes that exist, rising; a node is named by its lowest item
    scores: Floats  # (n,) costs of one node to the active nodes
    query: Floats  # (d + 1,)
    merges: Any  # (n,) contraction history, MERGE records
    counts: Ints


def greedy(
    problem: DenseProblem, neighbours: Neighbours, progress: Progress | None = None
) -> NDArray[np.void]:
    """The contraction history of exact greedy contraction, from (and in) the exact neighbours."""
    n, width = problem.n, problem.d + 1
    lists = lists_of(neighbours)
    state = State(
        sums=np.empty((n // 2, width)),
        sum_of=np.full(n, -1, dtype=np.int64),
        free=np.empty(n // 2, dtype=np.int64),
        active=np.arange(n),
        scores=np.empty(n),
        query=np.empty(width),
        merges=np.empty(n, dtype=MERGE),
        counts=np.array([n, 0, 0, 0]),
    )
    while not contract(problem.rows, lists, state, _WORK):
        if progress is not None:
            progress("contraction", int(state.counts[MERGES]), n)
    return state.merges[: state.counts[MERGES]].copy()


@njit(cache=True, nogil=True)
def contract(rows: Rows, lists: Lists, state: State, work: int) -> bool:
    """Contract until no pair attracts (True) or about `work` multiplications are done (False)."""
    width = state.query.shape[0]
    while work > 0:
        u = most_attractive(lists, state)
        if u < 0:
            return True
        if lists.length[u] == 0:  # a promise at the top of all nodes: find out
            score(rows, state, u)
            active = state.active[: state.counts[ACTIVE]]
            fill(lists, u, active, state.scores)
        else:
            v = lists.ids[u, 0]
            i, j = min(u, v), max(u, v)
            record(state.merges[state.counts[MERGES]], i, j, lists.costs[u, 0])
            state.counts[MERGES] += 1
            merge(rows, state, i, j)
            score(rows, state, i)
            active = state.active[: state.counts[ACTIVE]]
            fill(lists, i, active, state.scores)
            announce(lists, i, j, active, state.scores)
        work -= state.counts[ACTIVE] * (width + 8)
    return False


@njit(cache=True, nogil=True)
def most_attractive(lists: Lists, state: State) -> int:
    """The node whose best partner (or promise of one) costs most; -1 if nothing attracts.

    Equal costs: a promise first, since it may turn out to be any pair of that cost, then the pair
    with the smaller lowest index, then the other index.
    """
    best = -1
    best_cost = 0.0
    best_low = best_high = -1
    for t in range(state.counts[ACTIVE]):
        u = state.active[t]
        cost = promise_or_best(lists, u)
        if cost < best_cost or cost <= 0.0:
            continue
        low = high = -1
        if lists.length[u] > 0:
            low, high = min(u, lists.ids[u, 0]), max(u, lists.ids[u, 0])
        if cost > best_cost or low < best_low or (low == best_low and high < best_high):
            best, best_cost, best_low, best_high = u, cost, low, high
    return best


@njit(cache=True, nogil=True)
def merge(rows: Rows, state: State, i: int, j: int) -> None:
    """Contract j into i: their rows add (the contraction lemma)."""
    counts = state.counts
    row_i, row_j = state.sum_of[i], state.sum_of[j]
    if row_i >= 0 and row_j >= 0:
        state.sums[row_i] += state.sums[row_j]
        state.free[counts[FREE]] = row_j
        counts[FREE] += 1
    elif row_i >= 0:
        add_row(rows, j, state.sums[row_i])
    elif row_j >= 0:
        add_row(rows, i, state.sums[row_j])
        state.sum_of[i] = row_j
    else:
        if counts[FREE] > 0:
            counts[FREE] -= 1
            row = state.free[counts[FREE]]
        else:
            row = counts[SUMS]
            counts[SUMS] += 1
        state.sums[row] = 0.0
        add_row(rows, i, state.sums[row])
        add_row(rows, j, state.sums[row])
        state.sum_of[i] = row
    at = np.searchsorted(state.active[: counts[ACTIVE]], j)
    for t in range(at, counts[ACTIVE] - 1):
        state.active[t] = state.active[t + 1]
    counts[ACTIVE] -= 1


@njit(cache=True, nogil=True)
def score(rows: Rows, state: State, u: int) -> None:
    """state.scores[t] = cost of u to the t-th active node."""
    query = state.query
    query[:] = 0.0
    if state.sum_of[u] >= 0:
        query += state.sums[state.sum_of[u]]
    else:
        add_row(rows, u, query)
    query *= rows.signature
    for t in range(state.counts[ACTIVE]):
        v = state.active[t]
        if state.sum_of[v] >= 0:
            state.scores[t] = inner(query, state.sums[state.sum_of[v]])
        else:
            state.scores[t] = cost_to_row(rows, query, v)
