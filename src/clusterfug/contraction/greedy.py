"""DGAEC and DGAECInc (Algorithms 2 and 3): exact greedy contraction on features, O(n d + n k) memory.

Each step merges the pair of largest cost among all pairs, found in the incremental neighbour graph:
DGAEC with k = 1, DGAECInc with k = 5. Both make the merges of GAEC on the full matrix, ties included. The
rows of items are those of the problem; only contracted nodes have a row of their own, in float64.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.history import record_merge
from clusterfug.contraction.queue import NodeQueue, first_with_key, largest_key, set_key, uniform_queue
from clusterfug.execution.jit import Progress, kernel
from clusterfug.neighbours.exact import Neighbours
from clusterfug.neighbours.incremental import (
    NEVER,
    NeighbourLists,
    fill_list,
    has_partner,
    initial_lists,
    is_stale,
)
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

_WORK_PER_CALL = 200_000_000  # multiplications per kernel call: a fraction of a second

# Indices into FeatureContraction.counts.
N_ACTIVE, N_MERGES, N_SUMS = range(3)


class FeatureContraction(NamedTuple):
    """A problem under contraction. The index of a node is its lowest item."""

    sums: Floats  # (n // 2, d + 1) float64, rows of contracted nodes, which have at least two items
    sum_of: Ints  # (n,) row of a node in `sums`, -1 for an item
    active: Ints  # (n,) nodes that exist, in increasing order
    queue: NodeQueue  # upper bound on the cost of a node's best partner; -inf for nodes that are gone
    nodes: Ints  # (n,) workspace: nodes to be scored
    scores: Floats  # (n,) workspace: costs of one node to them
    marked: Ints  # (n,) workspace, 0 between steps
    query: Floats  # (d + 1,) workspace
    merges: Any  # (n,) contraction history, MERGE records
    counts: Ints  # (3,)


def greedy(
    problem: DenseProblem, neighbours: Neighbours, progress: Progress | None = None
) -> NDArray[np.void]:
    """Return the history of exact greedy contraction, from exact neighbours, which are overwritten."""
    lists, state = initial_lists(neighbours), uncontracted(problem)
    while not contract_greedily(problem.rows, lists, state, _WORK_PER_CALL):
        if progress is not None:
            progress("contraction", int(state.counts[N_MERGES]), problem.n)
    return state.merges[: state.counts[N_MERGES]].copy()


def uncontracted(problem: DenseProblem) -> FeatureContraction:
    """Return the state in which every item is a node."""
    n, width = problem.n, problem.d + 1
    return FeatureContraction(
        sums=np.empty((n // 2, width)),
        sum_of=np.full(n, -1, dtype=np.int64),
        active=np.arange(n),
        queue=uniform_queue(n, np.inf),
        nodes=np.empty(n, dtype=np.int64),
        scores=np.empty(n),
        marked=np.zeros(n, dtype=np.int8),
        query=np.empty(width),
        merges=np.empty(n, dtype=MERGE),
        counts=np.array([n, 0, 0]),
    )


@kernel
def contract_greedily(
    rows: ExtendedRows, lists: NeighbourLists, state: FeatureContraction, work: int
) -> bool:
    """Contract for about `work` multiplications. Return True when no pair attracts any more."""
    counts = state.counts
    while work > 0:
        u = most_attractive(lists, state.queue)
        if u < 0:
            return True
        if has_partner(lists, u):
            v, cost = lists.ids[u, lists.head[u]], lists.costs[u, lists.head[u]]
            i, j = min(u, v), max(u, v)
            record_merge(state.merges[counts[N_MERGES]], i, j, cost)
            counts[N_MERGES] += 1
            floor = lists.floor[i] + lists.floor[j]
            nodes = candidates(lists, state, i, j)
            merge_nodes(rows, state, i, j)
            deactivate(state, j)
            lists.node_time[i] = counts[N_MERGES]
            lists.node_time[j] = NEVER
            set_key(state.queue, j, -np.inf)
            u = i
        else:
            floor = -np.inf
            nodes = state.active[: counts[N_ACTIVE]]
        costs = score_nodes(rows, state, u, nodes)
        set_key(state.queue, u, fill_list(lists, u, nodes, costs, counts[N_MERGES], floor))
        work -= nodes.shape[0] * state.query.shape[0] + 8 * counts[N_ACTIVE]
    return False


@kernel
def candidates(lists: NeighbourLists, state: FeatureContraction, i: int, j: int) -> Ints:
    """Return the nodes that may cost more than floor_i + floor_j to the node made of i and j.

    They are the nodes in either list, and the nodes that are newer than one of the lists.
    """
    oldest = min(lists.list_time[i], lists.list_time[j])
    for u in (i, j):
        for at in range(lists.head[u], lists.length[u]):
            if not is_stale(lists, u, at):
                state.marked[lists.ids[u, at]] = 1
    count = 0
    for t in range(state.counts[N_ACTIVE]):
        u = state.active[t]
        if (state.marked[u] > 0 or lists.node_time[u] > oldest) and u != i and u != j:
            state.nodes[count] = u
            count += 1
        state.marked[u] = 0
    return state.nodes[:count]


@kernel
def most_attractive(lists: NeighbourLists, queue: NodeQueue) -> int:
    """Return the node with the largest cost, or upper bound on the cost, of a partner; -1 if none attracts.

    Ties go to a bound, since any pair may turn out to have that cost, then to the pair with the lower
    index, then to the lower second index.
    """
    # Keys are upper bounds: the cost at the head of a list only decreases until the list is filled again.
    while True:
        top = largest_key(queue)
        if not top > 0:
            return -1
        best = best_low = best_high = -1
        u = first_with_key(queue, top, 0)
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
            u = first_with_key(queue, top, u + 1)
        if best >= 0:
            return best


@kernel
def merge_nodes(rows: ExtendedRows, state: FeatureContraction, i: int, j: int) -> None:
    """Merge node j into node i: their rows add (the contraction lemma)."""
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
        row = counts[N_SUMS]
        counts[N_SUMS] += 1
        state.sums[row] = 0.0
        add_row(rows, i, state.sums[row])
        add_row(rows, j, state.sums[row])
        state.sum_of[i] = row


@kernel
def deactivate(state: FeatureContraction, j: int) -> None:
    """Remove node j from the active nodes."""
    count = state.counts[N_ACTIVE]
    for t in range(np.searchsorted(state.active[:count], j), count - 1):
        state.active[t] = state.active[t + 1]
    state.counts[N_ACTIVE] = count - 1


@kernel
def score_nodes(rows: ExtendedRows, state: FeatureContraction, u: int, nodes: Ints) -> Floats:
    """Return the costs of node u to some nodes."""
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
