"""DLAEC and DAppLAEC: lazy contraction, which uses a neighbour graph up before it searches again.

A round takes the neighbour graph of a problem and contracts its most attractive arcs. A new node keeps
those neighbours of its parts that pass the paper's bound, the nodes that named one of its parts name it
instead if it is no worse than what they name, and nobody searches. When no attractive arc is left the
round is over: the nodes become the items of a smaller problem, which is searched anew. The last round
finds nothing, so no two clusters of the result attract each other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.greedy import MERGES, State, merge, score, start
from clusterfug.contraction.history import labels_of_merges, record
from clusterfug.contraction.queue import largest_key, next_at, set_key
from clusterfug.execution import threads
from clusterfug.execution.jit import Progress, kernel
from clusterfug.neighbours.exact import Neighbours, insert, nearest
from clusterfug.problems.cost_kernels import ExtendedRows, Floats, Ints
from clusterfug.problems.dense import DenseProblem
from clusterfug.result import MERGE

_WORK = 100_000_000  # multiplications per kernel call: a fraction of a second

# What a node is to a pair that is contracted, in State.marked.
NAMED, NAMER = 1, 2


class Arcs(NamedTuple):
    """The neighbour graph: who names whom, both ways. A node named by u is in the list of u."""

    ids: Ints  # (n, k) whom a node names, best first
    costs: Floats  # (n, k)
    length: Ints  # (n,)
    floor: Floats  # (n,) the last bar that a node did not pass, for a list that is empty
    namers: Ints  # (n,) first arc of the linked list of those who name a node, -1 for none
    namer: Ints  # (2 n k,) who the arc comes from; it may have stopped naming the node
    following: Ints  # (2 n k,) next arc to the same node; or next unused arc
    unused: Ints  # (1,) first unused arc


def lazy(
    problem: DenseProblem, neighbours: Neighbours, k: int, progress: Progress | None = None
) -> NDArray[np.void]:
    """The contraction history of lazy contraction; later rounds find k neighbours by exact search."""
    n = problem.n
    lowest = np.arange(n)  # the lowest item of each node of the round
    rounds = [np.empty(0, dtype=MERGE)]
    searched = False  # the first neighbours may be approximate: finding nothing in them is no proof
    while len(merges := _round(problem, neighbours, n, progress)) or not searched:
        if len(merges):
            labels = labels_of_merges(problem.n, merges)
            for end in "ij":
                merges[end] = lowest[merges[end]]
            rounds.append(merges)
            lowest = lowest[np.unique(labels, return_index=True)[1]]
            problem = problem.contract(labels)
        neighbours = nearest(problem, k)
        searched = True
    return np.concatenate(rounds)


def _round(
    problem: DenseProblem, neighbours: Neighbours, total: int, progress: Progress | None
) -> NDArray[np.void]:
    n, k = neighbours.ids.shape
    arcs = Arcs(
        ids=neighbours.ids,
        costs=neighbours.costs,
        length=np.count_nonzero(neighbours.costs > -np.inf, axis=1),
        floor=np.full(n, -np.inf),
        namers=np.full(n, -1, dtype=np.int64),
        namer=np.empty(2 * n * k, dtype=np.int64),
        following=np.arange(1, 2 * n * k + 1),
        unused=np.zeros(1, dtype=np.int64),
    )
    state = start(problem)
    add_all(arcs, state)
    while not contract(problem.rows, arcs, state, _WORK):
        threads.look()
        if progress is not None:
            progress("contraction", int(total - n + state.counts[MERGES]), total)
    return state.merges[: state.counts[MERGES]].copy()


@kernel
def contract(rows: ExtendedRows, arcs: Arcs, state: State, work: int) -> bool:
    """Contract until no arc attracts (True) or about `work` multiplications are done (False)."""
    counts = state.counts
    while work > 0:
        cost = largest_key(state.queue)
        if not cost > 0:
            return True
        u = next_at(state.queue, cost, 0)
        i, j = min(u, arcs.ids[u, 0]), max(u, arcs.ids[u, 0])
        record(state.merges[counts[MERGES]], i, j, cost)
        counts[MERGES] += 1
        # Nodes that neither part names cost at most this to the new node (if they are as old).
        bound = bar_of(arcs, i) + bar_of(arcs, j)
        nodes = affected(arcs, state, i, j)
        merge(rows, state, i, j)
        costs = score(rows, state, i, nodes)
        arcs.length[i] = arcs.length[j] = 0
        arcs.floor[i] = bound
        for t in range(nodes.shape[0]):
            v = nodes[t]
            if state.marked[v] & NAMED and costs[t] >= bound:
                arcs.length[i] = insert(arcs.ids[i], arcs.costs[i], arcs.length[i], v, costs[t])
            if state.marked[v] & NAMER:
                rename(arcs, v, i, j, costs[t])
                refresh_key(arcs, state, v)
            state.marked[v] = 0
        for at in range(arcs.length[i]):
            add_arc(arcs, i, arcs.ids[i, at])
        refresh_key(arcs, state, i)
        refresh_key(arcs, state, j)
        work -= nodes.shape[0] * state.query.shape[0] + 1000
    return False


@kernel
def bar_of(arcs: Arcs, u: int) -> float:
    """What a node has to cost to be named by u."""
    return arcs.costs[u, arcs.length[u] - 1] if arcs.length[u] > 0 else arcs.floor[u]


@kernel
def refresh_key(arcs: Arcs, state: State, u: int) -> None:
    set_key(state.queue, u, arcs.costs[u, 0] if arcs.length[u] > 0 else -np.inf)


@kernel
def affected(arcs: Arcs, state: State, i: int, j: int) -> Ints:
    """The nodes that i or j names, and those that name i or j, each once and marked as what they are.

    The arcs to i and j become unused.
    """
    count = 0
    for u in (i, j):
        for v in arcs.ids[u, : arcs.length[u]]:
            if v != i and v != j:
                if state.marked[v] == 0:
                    state.nodes[count] = v
                    count += 1
                state.marked[v] |= NAMED
        arc = arcs.namers[u]
        arcs.namers[u] = -1
        while arc >= 0:
            v = arcs.namer[arc]
            if v != i and v != j and u in arcs.ids[v, : arcs.length[v]]:
                if state.marked[v] == 0:
                    state.nodes[count] = v
                    count += 1
                state.marked[v] |= NAMER
            after = arcs.following[arc]
            arcs.following[arc] = arcs.unused[0]
            arcs.unused[0] = arc
            arc = after
    return state.nodes[:count]


@kernel
def rename(arcs: Arcs, u: int, i: int, j: int, cost: float) -> None:
    """In the list of u, put the new node i at this cost in the place of the parts i and j.

    Only if it is no worse than the last in the list (which may be one of the parts).
    """
    bar = arcs.floor[u] = bar_of(arcs, u)
    kept = 0
    for at in range(arcs.length[u]):
        if arcs.ids[u, at] != i and arcs.ids[u, at] != j:
            arcs.ids[u, kept] = arcs.ids[u, at]
            arcs.costs[u, kept] = arcs.costs[u, at]
            kept += 1
    if cost >= bar:
        kept = insert(arcs.ids[u], arcs.costs[u], kept, i, cost)
        add_arc(arcs, u, i)
    arcs.length[u] = kept


@kernel
def add_arc(arcs: Arcs, u: int, v: int) -> None:
    arc = arcs.unused[0]
    arcs.unused[0] = arcs.following[arc]
    arcs.namer[arc] = u
    arcs.following[arc] = arcs.namers[v]
    arcs.namers[v] = arc


@kernel
def add_all(arcs: Arcs, state: State) -> None:
    """Arcs and keys of all lists, at the start of a round."""
    for u in range(arcs.length.shape[0]):
        for at in range(arcs.length[u]):
            add_arc(arcs, u, arcs.ids[u, at])
        refresh_key(arcs, state, u)
