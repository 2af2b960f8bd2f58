"""Moves of single nodes on an explicit graph: the same three functions as `moves` has for features.

A node costs something only to the clusters of its neighbours, so a pass over all nodes is a pass over the
edges. Nodes whose neighbours have stayed where they were are not asked again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import blocks
from clusterfug.costs import Floats, Ints
from clusterfug.graph import Adjacency, GraphProblem
from clusterfug.kernels import Progress, kernel
from clusterfug.refinement.budget import Budget
from clusterfug.result import compact

_WORK = 20_000_000  # half-edges per kernel call: a fraction of a second
_PASSES = 4  # before clusters become the nodes of the next level
ROUNDING = 1e-12  # a gain counts if it is larger than this times the sizes of the costs at a node


class Clusters(NamedTuple):
    labels: Ints  # (n,) slot of each node
    sizes: Ints  # (n,)
    unused: Ints  # (n,) stack of unused slots
    left: Ints  # (1,) how many
    restless: Ints  # (n,) whether a node, or a neighbour, moved since it was asked
    cost: Floats  # (n,) of the node in hand to each slot, 0 between nodes
    tolerance: Floats  # (n,)


def partners(graph: GraphProblem, progress: Progress | None = None) -> NDArray[np.float64]:
    """What `first_moves` needs to know: the cost of the best edge of every node."""
    best = np.full(graph.n, -np.inf)
    for end in (0, 1):
        np.maximum.at(best, graph.edges[:, end], graph.costs)
    return best


def first_moves(
    graph: GraphProblem, best: NDArray[np.float64], rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Labels by a few passes of moves from singletons; nodes with the best edge first, or at random."""
    clusters = _clusters(graph, np.arange(graph.n))
    order = np.argsort(-best, kind="stable") if rng is None else rng.permutation(graph.n)
    for _ in range(_PASSES):
        if not _pass(graph, clusters, order):
            break
    return compact(clusters.labels)


def moves(graph: GraphProblem, labels: NDArray[np.int64], budget: Budget) -> tuple[NDArray[np.int64], bool]:
    """Better labels (0..K-1), and whether no single move improves them."""
    clusters = _clusters(graph, labels)
    order = np.arange(graph.n)
    while not budget.over():
        if not _pass(graph, clusters, order):
            return compact(clusters.labels), True
    return compact(clusters.labels), False


def _clusters(graph: GraphProblem, labels: NDArray[np.int64]) -> Clusters:
    n, k = graph.n, int(labels.max()) + 1
    size = np.zeros(n)
    for end in (0, 1):
        np.add.at(size, graph.edges[:, end], np.abs(graph.costs))
    return Clusters(
        labels=labels.copy(),
        sizes=np.bincount(labels, minlength=n),
        unused=np.arange(n)[::-1].copy(),
        left=np.array([n - k]),
        restless=np.ones(n, dtype=np.bool_),
        cost=np.zeros(n),
        tolerance=ROUNDING * size,
    )


def _pass(graph: GraphProblem, clusters: Clusters, order: NDArray[np.int64]) -> int:
    step = max(1, _WORK * graph.n // (2 * len(graph.costs) + graph.n))
    moved = 0
    for start in range(0, graph.n, step):
        blocks.look()
        moved += move_nodes(graph.adjacency, clusters, order[start : start + step])
    return moved


@kernel
def move_nodes(graph: Adjacency, clusters: Clusters, nodes: Ints) -> int:
    """Move nodes, one after the other, to the best cluster of a neighbour, or to be alone."""
    moved = 0
    for v in nodes:
        if not clusters.restless[v]:
            continue
        clusters.restless[v] = False
        start, stop = graph.starts[v], graph.starts[v + 1]
        for at in range(start, stop):
            clusters.cost[clusters.labels[graph.ends[at]]] += graph.costs[at]
        home = clusters.labels[v]
        best = 0.0
        to = -1
        for at in range(start, stop):
            slot = clusters.labels[graph.ends[at]]
            cost = clusters.cost[slot]
            if slot != home and (cost > best or (cost == best and to > slot)):
                best = cost
                to = slot
        gain = best - clusters.cost[home]
        for at in range(start, stop):
            clusters.cost[clusters.labels[graph.ends[at]]] = 0.0
        if not gain > clusters.tolerance[v] or (to < 0 and clusters.sizes[home] == 1):
            continue
        if to < 0:
            clusters.left[0] -= 1
            to = clusters.unused[clusters.left[0]]
        clusters.labels[v] = to
        clusters.sizes[to] += 1
        clusters.sizes[home] -= 1
        if clusters.sizes[home] == 0:
            clusters.unused[clusters.left[0]] = home
            clusters.left[0] += 1
        for at in range(start, stop):
            clusters.restless[graph.ends[at]] = True
        moved += 1
    return moved
