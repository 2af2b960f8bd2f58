"""DGAEC and DGAECInc (Algorithms 2 and 3): exact greedy contraction on features, O(n d + n k) memory.

Each step merges the pair of largest cost among all pairs, found in the incremental neighbour graph;
with k = 1 this is DGAEC, with k = 5 DGAECInc. Both make the merges of GAEC on the full matrix, the
ties included. Items are read where they lie; only contracted nodes get a row of their own, in float64.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.history import record
from clusterfug.contraction.queue import Queue, largest_key, next_at, queue_of, set_key
from clusterfug.execution.jit import Progress, kernel
from clusterfug.neighbours.exact import Neighbours
from clusterfug.neighbours.lists import NEVER, Lists, best_or_promise, fill, has_partner, is_stale, lists_of
from clusterfug.problems.cost_kernels import (
    ExtendedRows,
    Floats,
    Ints,
    add_row,
    apply_signature,
    cost_to_item,
    cost_to_row,
)
from clusterfug.problems.dense import DenseProblem
from clusterfug.result import MERGE

_WORK = 200_000_000  # multiplications per kernel call: a fraction of a second

# Counters of a contraction, in State.counts.
ACTIVE, MERGES, SUMS = range(3)


class State(NamedTuple):
    sums: Floats  # (n // 2, d + 1) float64, rows of contracted nodes: each begins as two items
    sum_of: Ints  # (n,) which row of sums a node has, -1 for an item on its own
    active: Ints  # (n,) the nodes that exist, rising; a node is named by its lowest item
    queue: Queue  # at least the cost of a node's best partner; -inf for nodes that are gone
    nodes: Ints  # (n,) nodes to be scored
    scores: Floats  # (n,) costs of one node to them
    marked: Ints  # (n,) all 0 between steps
    query: Floats  # (d + 1,)
    merges: Any  # (n,) contraction history, MERGE records
    counts: Ints


def greedy(
    problem: DenseProblem, neighbours: Neighbours, progress: Progress | None = None
) -> NDArray[np.void]:
    """The contraction history of exact greedy contraction, from (and in) the exact neighbours."""
    lists, state = lists_of(neighbours), start(problem)
    while not contract(problem.rows, lists, state, _WORK):
        if progress is not None:
            progress("contraction", int(state.counts[MERGES]), problem.n)
    return state.merges[: state.counts[MERGES]].copy()


def start(problem: DenseProblem) -> State:
    """Every item a node of its own."""
    n, width = problem.n, problem.d + 1
    return State(
        sums=np.empty((n // 2, width)),
        sum_of=np.full(n, -1, dtype=np.int64),
        active=np.arange(n),
        queue=queue_of(n, np.inf),
        nodes=np.empty(n, dtype=np.int64),
        scores=np.empty(n),
        marked=np.zeros(n, dtype=np.int8),
        query=np.empty(width),
        merges=np.empty(n, dtype=MERGE),
        counts=np.array([n, 0, 0]),
    )


@kernel
def contract(rows: ExtendedRows, lists: Lists, state: State, work: int) -> bool:
    """Contract until no pair attracts (True) or about `work` multiplications are done (False)."""
    counts = state.counts
    while work > 0:
        u = most_attractive(lists, state.queue)
        if u < 0:
            return True
        if has_partner(lists, u):
            v, cost = lists.ids[u, lists.head[u]], lists.costs[u, lists.head[u]]
            i, j = min(u, v), max(u, v)
            record(state.merges[counts[MERGES]], i, j, cost)
            counts[MERGES] += 1
            floor = lists.floor[i] + lists.floor[j]
            nodes = candidates(lists, state, i, j)
            merge(rows, state, i, j)
            deactivate(state, j)
            lists.made[i] = counts[MERGES]
            lists.made[j] = NEVER
            set_key(state.queue, j, -np.inf)
            u = i
        else:
            floor = -np.inf
            nodes = state.active[: counts[ACTIVE]]
        costs = score(rows, state, u, nodes)
        fill(lists, u, nodes, costs, counts[MERGES], floor)
        set_key(state.queue, u, best_or_promise(lists, u))
        work -= nodes.shape[0] * state.query.shape[0] + 8 * counts[ACTIVE]
    return False


@kernel
def candidates(lists: Lists, state: State, i: int, j: int) -> Ints:
    """The nodes that may cost more than floor_i + floor_j to the node made of i and j.

    Those in the list of i or of j, and those made after either list was.
    """
    moment = min(lists.known[i], lists.known[j])
    for u in (i, j):
        for at in range(lists.head[u], lists.length[u]):
            if not is_stale(lists, u, at):
                state.marked[lists.ids[u, at]] = 1
    count = 0
    for t in range(state.counts[ACTIVE]):
        u = state.active[t]
        if (state.marked[u] > 0 or lists.made[u] > moment) and u != i and u != j:
            state.nodes[count] = u
            count += 1
        state.marked[u] = 0
    return state.nodes[:count]


@kernel
def most_attractive(lists: Lists, queue: Queue) -> int:
    """The node whose best partner (or promise of one) costs most; -1 if nothing attracts.

    Equal costs: a promise first, since it may turn out to be any pair of that cost, then the pair
    with the smaller lowest index, then the other index.
    """
    # Keys are upper bounds: what is at the head of a list only falls until the list is filled again.
    while True:
        top = largest_key(queue)
        if not top > 0:
            return -1
        best = best_low = best_high = -1
        u = next_at(queue, top, 0)
        while u >= 0:
            found = has_partner(lists, u)
            cost = lists.costs[u, lists.head[u]] if found else lists.floor[u]
            if cost != top:
                set_key(queue, u, cost)
            elif not found:
                return u
            else:
                v = lists.ids[u, lists.head[u]]
                low, high = min(u, v), max(u, v)
                if best < 0 or low < best_low or (low == best_low and high < best_high):
                    best, best_low, best_high = u, low, high
            u = next_at(queue, top, u + 1)
        if best >= 0:
            return best


@kernel
def merge(rows: ExtendedRows, state: State, i: int, j: int) -> None:
    """Contract j into i: their rows add (the contraction lemma)."""
    counts = state.counts
    row_i, row_j = state.sum_of[i], state.sum_of[j]
    if row_i >= 0 and row_j >= 0:
        state.sums[row_i] += state.sums[row_j]
    elif row_i >= 0:
        add_row(rows, j, state.sums[row_i])
    elif row_j >= 0:
        add_row(rows, i, state.sums[row_j])
        state.sum_of[i] = row_j
    else:
        row = counts[SUMS]
        counts[SUMS] += 1
        state.sums[row] = 0.0
        add_row(rows, i, state.sums[row])
        add_row(rows, j, state.sums[row])
        state.sum_of[i] = row


@kernel
def deactivate(state: State, j: int) -> None:
    count = state.counts[ACTIVE]
    for t in range(np.searchsorted(state.active[:count], j), count - 1):
        state.active[t] = state.active[t + 1]
    state.counts[ACTIVE] = count - 1


@kernel
def score(rows: ExtendedRows, state: State, u: int, nodes: Ints) -> Floats:
    """Costs of u to the given nodes."""
    query = state.query
    query[:] = 0.0
    if state.sum_of[u] >= 0:
        query += state.sums[state.sum_of[u]]
    else:
        add_row(rows, u, query)
    apply_signature(rows, query)
    for t in range(nodes.shape[0]):
        v = nodes[t]
        if state.sum_of[v] >= 0:
            state.scores[t] = cost_to_row(rows, query, state.sums[state.sum_of[v]])
        else:
            state.scores[t] = cost_to_item(rows, query, v)
    return state.scores[: nodes.shape[0]]
