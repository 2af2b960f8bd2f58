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
from clusterfug.neighbours.lists import NEVER, Lists, fill, has_partner, lists_of
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
    lists, state = start(problem, neighbours)
    while not contract(problem.rows, lists, state, _WORK):
        if progress is not None:
            progress("contraction", int(state.counts[MERGES]), problem.n)
    return state.merges[: state.counts[MERGES]].copy()


def start(problem: DenseProblem, neighbours: Neighbours) -> tuple[Lists, State]:
    """Every item a node of its own."""
    n, width = problem.n, problem.d + 1
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
    return lists_of(neighbours), state


@njit(cache=True, nogil=True)
def contract(rows: Rows, lists: Lists, state: State, work: int) -> bool:
    """Contract until no pair attracts (True) or about `work` multiplications are done (False)."""
    while work > 0:
        u = most_attractive(lists, state)
        if u < 0:
            return True
        if has_partner(lists, u):
            v, cost = lists.ids[u, lists.head[u]], lists.costs[u, lists.head[u]]
            i, j = min(u, v), max(u, v)
            record(state.merges[state.counts[MERGES]], i, j, cost)
            state.counts[MERGES] += 1
            merge(rows, state, i, j)
            lists.made[i] = state.counts[MERGES]
            lists.made[j] = NEVER
            u = i
        score(rows, state, u)
        active = state.active[: state.counts[ACTIVE]]
        fill(lists, u, active, state.scores, state.counts[MERGES])
        work -= active.shape[0] * (state.query.shape[0] + 8)
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
        cost, low, high = lists.floor[u], -1, -1
        if has_partner(lists, u):
            v = lists.ids[u, lists.head[u]]
            cost, low, high = lists.costs[u, lists.head[u]], min(u, v), max(u, v)
        if cost > best_cost or (
            cost == best_cost and (low < best_low or (low == best_low and high < best_high))
        ):
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
