"""Moves of single nodes on an explicit graph, for `GraphProblem`; the counterpart of `feature_moves`.

A node has a cost only to the clusters of its neighbours, so a pass over all nodes is a pass over the edges.
A node is evaluated again only after it or one of its neighbours has moved.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution import threads
from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.problems.graph import Adjacency, GraphProblem
from clusterfug.problems.protocol import GAIN_TOLERANCE
from clusterfug.refinement.budget import Budget
from clusterfug.result import compact

_WORK_PER_CALL = 20_000_000  # half-edges per kernel call: a fraction of a second
_MAX_FIRST_PASSES = 4  # passes from singletons, before the clusters become the nodes of the next level
_MAX_PASSES = 10_000  # a safety limit
_EPSILON = float(np.finfo(np.float64).eps)


class GraphClusterState(NamedTuple):
    """Clusters of the nodes of a graph, in slots 0..n-1, some of which are unused."""

    labels: Ints  # (n,) slot of each node
    sizes: Ints  # (n,) number of nodes in each slot
    unused: Ints  # (n,) stack of unused slots
    n_unused: Ints  # (1,) height of the stack
    active: Ints  # (n,) whether the node or a neighbour has moved since the node was evaluated
    cost: Floats  # (n,) cost of the node that is evaluated to each slot; 0 between nodes
    magnitude: Floats  # (n,) absolute cost of the node that is evaluated to each slot; 0 between nodes
    clear: Floats  # (n,) gain of a move of the node that counts, whatever the clusters


def best_edge_costs(graph: GraphProblem) -> NDArray[np.float64]:
    """Cost of the best edge of every node, -inf for isolated nodes."""
    best = np.full(graph.n, -np.inf)
    for end in (0, 1):
        np.maximum.at(best, graph.edges[:, end], graph.costs)
    return best


def first_graph_moves(
    graph: GraphProblem, best: NDArray[np.float64], rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Labels 0..K-1 after a few passes of moves from singletons.

    Nodes are visited in decreasing order of their best edge costs, or in random order.
    """
    state = _cluster_state(graph, np.arange(graph.n))
    order = np.argsort(-best, kind="stable") if rng is None else rng.permutation(graph.n)
    for _ in range(_MAX_FIRST_PASSES):
        if not _move_pass(graph, state, order):
            break
    return compact(state.labels)


def graph_moves(
    graph: GraphProblem, labels: NDArray[np.int64], budget: Budget
) -> tuple[NDArray[np.int64], bool]:
    """Apply improving moves to labels 0..K-1 until none is left or the time is up.

    Returns labels 0..K'-1, and whether they are move-optimal.
    """
    state = _cluster_state(graph, labels)
    order = np.arange(graph.n)
    for _ in range(_MAX_PASSES + graph.n):
        if budget.over():
            break
        if not _move_pass(graph, state, order):
            return compact(state.labels), True
    return compact(state.labels), False


def _cluster_state(graph: GraphProblem, labels: NDArray[np.int64]) -> GraphClusterState:
    """State of the clusters of labels 0..K-1, with all nodes active."""
    n, k = graph.n, int(labels.max()) + 1
    magnitude = np.zeros(n)
    for end in (0, 1):
        np.add.at(magnitude, graph.edges[:, end], np.abs(graph.costs))
    return GraphClusterState(
        labels=labels.copy(),
        sizes=np.bincount(labels, minlength=n),
        unused=np.arange(n)[::-1].copy(),
        n_unused=np.array([n - k]),
        active=np.ones(n, dtype=np.bool_),
        cost=np.zeros(n),
        magnitude=np.zeros(n),
        clear=(GAIN_TOLERANCE + _EPSILON * np.diff(graph.adjacency.starts)) * magnitude,
    )


def _move_pass(graph: GraphProblem, state: GraphClusterState, order: NDArray[np.int64]) -> int:
    """Number of moves in one pass over all nodes."""
    step = max(1, _WORK_PER_CALL * graph.n // (2 * len(graph.costs) + graph.n))
    moved = 0
    for start in range(0, graph.n, step):
        threads.check_stop()
        moved += move_nodes(graph.adjacency, state, order[start : start + step])
    return moved


@kernel
def move_nodes(graph: Adjacency, state: GraphClusterState, nodes: Ints) -> int:
    """Move nodes, one after the other, to the best cluster of a neighbour or to a new cluster.

    Returns the number of moves.
    """
    moved = 0
    for v in nodes:
        if not state.active[v]:
            continue
        state.active[v] = False
        start, stop = graph.starts[v], graph.starts[v + 1]
        for at in range(start, stop):
            state.cost[state.labels[graph.ends[at]]] += graph.costs[at]
        home = state.labels[v]
        best = 0.0
        to = -1
        for at in range(start, stop):
            slot = state.labels[graph.ends[at]]
            cost = state.cost[slot]
            if slot != home and (cost > best or (cost == best and to > slot)):
                best = cost
                to = slot
        gain = best - state.cost[home]
        if 0 < gain <= state.clear[v]:
            gain, to = counting_gain(graph, state, v)
        for at in range(start, stop):
            state.cost[state.labels[graph.ends[at]]] = 0.0
        if not gain > 0 or (to < 0 and state.sizes[home] == 1):
            continue
        if to < 0:
            state.n_unused[0] -= 1
            to = state.unused[state.n_unused[0]]
        state.labels[v] = to
        state.sizes[to] += 1
        state.sizes[home] -= 1
        if state.sizes[home] == 0:
            state.unused[state.n_unused[0]] = home
            state.n_unused[0] += 1
        for at in range(start, stop):
            state.active[graph.ends[at]] = True
        moved += 1
    return moved


@kernel
def counting_gain(graph: Adjacency, state: GraphClusterState, v: int) -> tuple[float, int]:
    """Return the largest gain of node v that counts, and the cluster (-1: a new one); 0 if none counts.

    A gain counts if it exceeds a share of the absolute costs of the node to the two clusters.
    """
    start, stop = graph.starts[v], graph.starts[v + 1]
    for at in range(start, stop):
        state.magnitude[state.labels[graph.ends[at]]] += abs(graph.costs[at])
    share = GAIN_TOLERANCE + _EPSILON * (stop - start)
    home = state.labels[v]
    stay, least = state.cost[home], share * state.magnitude[home]
    best, to = (-stay if -stay > least else 0.0), -1
    for at in range(start, stop):
        slot = state.labels[graph.ends[at]]
        gain = state.cost[slot] - stay
        counts = slot != home and gain > least + share * state.magnitude[slot]
        if counts and (gain > best or (gain == best and to > slot)):
            best, to = gain, slot
    for at in range(start, stop):
        state.magnitude[state.labels[graph.ends[at]]] = 0.0
    return best, to
