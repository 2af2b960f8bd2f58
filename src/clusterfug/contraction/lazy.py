"""DLAEC and DAppLAEC: lazy contraction, which searches only when no arc of the neighbour graph attracts.

A round contracts the most attractive arcs of the neighbour graph of a problem. A new node keeps the
neighbours of its parts that satisfy the paper's bound; a node with an arc to one of the parts gets an arc
to the new node if its cost is at least that of the node's last arc. There is no search within a round. When
no arc attracts, the nodes become the items of a smaller problem, whose neighbour graph is searched. The
last round finds no attractive arc, so no two clusters of the result attract each other.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.greedy import (
    N_MERGES,
    FeatureContraction,
    merge_nodes,
    score_nodes,
    uncontracted,
)
from clusterfug.contraction.history import labels_of_merges, record_merge
from clusterfug.contraction.queue import first_with_key, largest_key, set_key
from clusterfug.execution import threads
from clusterfug.execution.jit import Progress, kernel
from clusterfug.neighbours.exact import Neighbours, exact_neighbours, insert
from clusterfug.problems.cost_kernels import ExtendedRows, Floats, Ints
from clusterfug.problems.dense import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.result import MERGE

_WORK_PER_CALL = 100_000_000  # multiplications per kernel call: a fraction of a second
_WORK_PER_ARC = 200  # what an arc of a contracted pair takes beside its cost, in multiplications
#: Arcs per merge, on average, at which contraction with a budget ends. Equal items have the same partners,
#: so most arcs enter a few nodes, and every merge would have to look at n of them.
_MAX_ARCS_PER_MERGE = 1000

# Bits of FeatureContraction.marked: whether a node is the head or the tail of an arc of a contracted pair.
IS_HEAD, IS_TAIL = 1, 2


class NeighbourArcs(NamedTuple):
    """The neighbour graph: the arcs that leave each node as a sorted list, those that enter it linked."""

    ids: Ints  # (n, k) heads of the arcs that leave a node, in decreasing order of cost
    costs: Floats  # (n, k)
    length: Ints  # (n,)
    floor: Floats  # (n,) minimum cost of an arc that leaves a node without arcs
    entering: Ints  # (n,) first arc of the linked list of those that enter a node, -1 for none
    tail: Ints  # (2 n k,) node that an arc leaves; the arc may have been removed from its list
    following: Ints  # (2 n k,) next arc that enters the same node; or next unused arc
    unused: Ints  # (1,) first unused arc


def lazy(
    problem: DenseProblem,
    neighbours: Neighbours,
    k: int,
    progress: Progress | None = None,
    budget: Budget | None = None,
) -> NDArray[np.void]:
    """Return the history of lazy contraction, from neighbours, which are overwritten.

    Later rounds find k neighbours of every node by exact search. With a budget, contraction ends when its
    time is over, or when it takes much more work than a start for local search is worth.
    """
    n = problem.n
    most = _MAX_ARCS_PER_MERGE * n * (problem.d + _WORK_PER_ARC) // _WORK_PER_CALL
    calls = 0

    def is_over() -> bool:
        nonlocal calls
        threads.check_stop()
        calls += 1
        return budget is not None and (budget.over() or calls > most + 1)

    lowest = np.arange(n)  # the lowest item of each node of the round
    rounds = [np.empty(0, dtype=MERGE)]
    is_exact = False  # the first neighbours may be approximate: other pairs may attract
    while len(merges := _round_merges(problem, neighbours, n, progress, is_over)) or not is_exact:
        if len(merges):
            labels = labels_of_merges(problem.n, merges)
            for end in "ij":
                merges[end] = lowest[merges[end]]
            rounds.append(merges)
            lowest = lowest[np.unique(labels, return_index=True)[1]]
            problem = problem.contract(labels)
        if is_over():
            break
        neighbours = exact_neighbours(problem, k)
        is_exact = True
    return np.concatenate(rounds)


def _round_merges(
    problem: DenseProblem,
    neighbours: Neighbours,
    total: int,
    progress: Progress | None,
    is_over: Callable[[], bool],
) -> NDArray[np.void]:
    """Return the merges of one round, until it is over; progress is relative to `total` items."""
    n, k = neighbours.ids.shape
    arcs = NeighbourArcs(
        ids=neighbours.ids,
        costs=neighbours.costs,
        length=np.count_nonzero(neighbours.costs > -np.inf, axis=1),
        floor=np.full(n, -np.inf),
        entering=np.full(n, -1, dtype=np.int64),
        tail=np.empty(2 * n * k, dtype=np.int64),
        following=np.arange(1, 2 * n * k + 1),
        unused=np.zeros(1, dtype=np.int64),
    )
    state = uncontracted(problem)
    link_arcs(arcs, state)
    while not contract_lazily(problem.rows, arcs, state, _WORK_PER_CALL) and not is_over():
        if progress is not None:
            progress("contraction", int(total - n + state.counts[N_MERGES]), total)
    return state.merges[: state.counts[N_MERGES]].copy()


@kernel
def contract_lazily(rows: ExtendedRows, arcs: NeighbourArcs, state: FeatureContraction, work: int) -> bool:
    """Contract for about `work` multiplications. Return True when no arc attracts any more."""
    counts = state.counts
    while work > 0:
        cost = largest_key(state.queue)
        if not cost > 0:
            return True
        u = first_with_key(state.queue, cost, 0)
        i, j = min(u, arcs.ids[u, 0]), max(u, arcs.ids[u, 0])
        record_merge(state.merges[counts[N_MERGES]], i, j, cost)
        counts[N_MERGES] += 1
        # A node without an arc from either part costs at most this to the new one (if it is as old).
        bound = minimum_cost(arcs, i) + minimum_cost(arcs, j)
        nodes = affected(arcs, state, i, j)
        merge_nodes(rows, state, i, j)
        costs = score_nodes(rows, state, i, nodes)
        arcs.length[i] = arcs.length[j] = 0
        arcs.floor[i] = bound
        for t in range(nodes.shape[0]):
            v = nodes[t]
            if state.marked[v] & IS_HEAD and costs[t] >= bound:
                arcs.length[i] = insert(arcs.ids[i], arcs.costs[i], arcs.length[i], v, costs[t])
            if state.marked[v] & IS_TAIL:
                replace_arc(arcs, v, i, j, costs[t])
                update_key(arcs, state, v)
            state.marked[v] = 0
        for at in range(arcs.length[i]):
            link_arc(arcs, i, arcs.ids[i, at])
        update_key(arcs, state, i)
        update_key(arcs, state, j)
        work -= nodes.shape[0] * (state.query.shape[0] + _WORK_PER_ARC) + 1000
    return False


@kernel
def minimum_cost(arcs: NeighbourArcs, u: int) -> float:
    """Return the minimum cost of a new arc that leaves u."""
    return arcs.costs[u, arcs.length[u] - 1] if arcs.length[u] > 0 else arcs.floor[u]


@kernel
def update_key(arcs: NeighbourArcs, state: FeatureContraction, u: int) -> None:
    """Set the key of u to the cost of its best arc."""
    set_key(state.queue, u, arcs.costs[u, 0] if arcs.length[u] > 0 else -np.inf)


@kernel
def affected(arcs: NeighbourArcs, state: FeatureContraction, i: int, j: int) -> Ints:
    """Return the heads of arcs that leave i or j and the tails of arcs that enter them (marked).

    The arcs that enter i and j become unused.
    """
    count = 0
    for u in (i, j):
        for v in arcs.ids[u, : arcs.length[u]]:
            if v != i and v != j:
                if state.marked[v] == 0:
                    state.nodes[count] = v
                    count += 1
                state.marked[v] |= IS_HEAD
        arc = arcs.entering[u]
        arcs.entering[u] = -1
        while arc >= 0:
            v = arcs.tail[arc]
            if v != i and v != j and u in arcs.ids[v, : arcs.length[v]]:
                if state.marked[v] == 0:
                    state.nodes[count] = v
                    count += 1
                state.marked[v] |= IS_TAIL
            after = arcs.following[arc]
            arcs.following[arc] = arcs.unused[0]
            arcs.unused[0] = arc
            arc = after
    return state.nodes[:count]


@kernel
def replace_arc(arcs: NeighbourArcs, u: int, i: int, j: int, cost: float) -> None:
    """Replace the arcs from u to the parts i and j by one to the new node i.

    There is none if its cost is less than that of the last arc that leaves u (perhaps to a part).
    """
    minimum = arcs.floor[u] = minimum_cost(arcs, u)
    kept = 0
    for at in range(arcs.length[u]):
        if arcs.ids[u, at] != i and arcs.ids[u, at] != j:
            arcs.ids[u, kept] = arcs.ids[u, at]
            arcs.costs[u, kept] = arcs.costs[u, at]
            kept += 1
    if cost >= minimum:
        kept = insert(arcs.ids[u], arcs.costs[u], kept, i, cost)
        link_arc(arcs, u, i)
    arcs.length[u] = kept


@kernel
def link_arc(arcs: NeighbourArcs, u: int, v: int) -> None:
    """Add the arc from u to v to those that enter v."""
    arc = arcs.unused[0]
    arcs.unused[0] = arcs.following[arc]
    arcs.tail[arc] = u
    arcs.following[arc] = arcs.entering[v]
    arcs.entering[v] = arc


@kernel
def link_arcs(arcs: NeighbourArcs, state: FeatureContraction) -> None:
    """Link the arcs of all lists and set all keys, at the start of a round."""
    for u in range(arcs.length.shape[0]):
        for at in range(arcs.length[u]):
            link_arc(arcs, u, arcs.ids[u, at])
        update_key(arcs, state, u)
