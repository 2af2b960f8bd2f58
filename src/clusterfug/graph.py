"""The multicut problem of an explicit graph: a simple graph and one cost per edge, validated."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.kernels import kernel

_MOST_NODES = 2**31 - 1
_MOST_EDGES = 2**30 - 1  # two half-edges each, counted in int32
_STEPS, _RING = 4, 1000  # how far a neighbourhood reaches, and how many nodes of a step it follows


class Adjacency(NamedTuple):
    """The edges of each node v: ends[starts[v]:starts[v + 1]], with their costs."""

    starts: NDArray[np.int64]  # (n + 1,)
    ends: NDArray[np.int64]  # (2 m,)
    costs: NDArray[np.float64]  # (2 m,)


class GraphProblem:
    """A graph with attractive (> 0) and repulsive (< 0) edges; see `multicut` for the parameters.

    Attributes
    ----------
    edges : int64 array of shape (m, 2)
        Each pair once, lower node first, sorted.
    costs : float64 array of shape (m,)
    n : int
        Number of nodes.
    """

    def __init__(self, edges: Any, costs: Any = None, n_nodes: int | None = None) -> None:
        if hasattr(edges, "tocoo"):
            if costs is not None or n_nodes is not None:
                raise ValueError("a sparse matrix brings its costs and nodes: give nothing beside it")
            edges, costs, n_nodes = _pairs_of_matrix(edges)
        elif costs is None:
            raise ValueError(
                "costs are missing: give edges (m, 2) and costs (m,), or a scipy sparse matrix "
                "(for a full matrix use DenseProblem.from_costs)"
            )
        edges = _checked_edges(edges)
        costs = _checked_costs(costs, len(edges))
        highest = int(edges.max()) if len(edges) else -1
        if n_nodes is None:
            n_nodes = highest + 1
            if n_nodes == 0:
                raise ValueError("the graph has no edges: say how many nodes it has with n_nodes")
        self.n = checks.count("n_nodes", n_nodes)
        if highest >= self.n:
            at = int(np.argmax(edges.max(axis=1) >= self.n))
            raise ValueError(
                f"edge {at} names node {edges[at].max()}, but the graph has nodes 0..{self.n - 1}"
            )
        if self.n > _MOST_NODES or len(edges) > _MOST_EDGES:
            raise ValueError(
                f"at most {_MOST_NODES} nodes and {_MOST_EDGES} edges, not {self.n} and {len(edges)}"
            )
        self.edges, self.costs = _merge_parallel(edges, costs, self.n)

    def inside(self, labels: Any) -> float:
        """Total cost of the edges whose ends share a label."""
        labels = checks.labels(labels, self.n)
        kept = labels[self.edges[:, 0]] == labels[self.edges[:, 1]]
        return float(self.costs[kept].sum())

    @cached_property
    def adjacency(self) -> Adjacency:
        """The edges by node, each twice."""
        starts, ends, numbers = by_node(self.edges, self.n)
        return Adjacency(starts, ends, self.costs[numbers])

    def contract(self, labels: NDArray[np.int64]) -> "GraphProblem":
        """The graph whose nodes are the clusters 0..K-1 of these labels: parallel edges add."""
        ends = labels[self.edges]
        cut = ends[:, 0] != ends[:, 1]
        contracted = object.__new__(GraphProblem)
        contracted.n = int(labels.max()) + 1
        contracted.edges, contracted.costs = _merge_parallel(ends[cut], self.costs[cut], contracted.n)
        return contracted

    def closeness(self, i: int) -> NDArray[np.float64]:
        """How near every node is to node i: 1 over the steps to it and one more, 0 if that is far."""
        closeness = np.zeros(self.n)
        ring = np.array([i])
        closeness[i] = 1.0
        for steps in range(1, _STEPS + 1):
            ends = np.concatenate([_ends_of(self.adjacency, v) for v in ring[:_RING]])
            ring = np.unique(ends[closeness[ends] == 0])
            if not len(ring):
                break
            closeness[ring] = 1.0 / (1 + steps)
        return closeness

    def group_costs(self, items: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """The costs between groups 0..m-1 of nodes; 0 on the diagonal."""
        m = int(groups.max()) + 1
        group_of = np.full(self.n, -1)
        group_of[items] = groups
        costs = np.zeros((m, m))
        add_group_costs(self.adjacency, items, group_of, costs)
        np.fill_diagonal(costs, 0.0)
        return costs

    @cached_property
    def all_singletons(self) -> float:
        """Objective of the clustering that cuts every edge: the total cost."""
        return float(self.costs.sum())

    def objective(self, labels: Any) -> float:
        """Total cost of the edges that the labels cut."""
        return self.all_singletons - self.inside(labels)


def by_node(edges: NDArray[Any], n: int) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """Edges by node, each twice: where those of a node start, their other ends, and their numbers."""
    both = np.concatenate([edges, edges[:, ::-1]])
    order = np.argsort(both[:, 0], kind="stable")
    starts = np.searchsorted(both[order, 0], np.arange(n + 1))
    return starts, both[order, 1].copy(), np.tile(np.arange(len(edges)), 2)[order]


def _ends_of(adjacency: Adjacency, v: int) -> NDArray[np.int64]:
    """The neighbours of node v that it attracts, or all if it attracts none."""
    edges = slice(adjacency.starts[v], adjacency.starts[v + 1])
    ends, attract = adjacency.ends[edges], adjacency.costs[edges] > 0
    return ends[attract] if attract.any() else ends


@kernel
def add_group_costs(
    adjacency: Adjacency, items: NDArray[Any], group_of: NDArray[Any], costs: NDArray[Any]
) -> None:
    for v in items:
        for at in range(adjacency.starts[v], adjacency.starts[v + 1]):
            other = group_of[adjacency.ends[at]]
            if other >= 0:
                costs[group_of[v], other] += adjacency.costs[at]


def as_graph(edges: Any, costs: Any, n_nodes: int | None) -> GraphProblem:
    """`edges` if it is a graph problem already (then nothing goes beside it), else the problem."""
    if not isinstance(edges, GraphProblem):
        return GraphProblem(edges, costs, n_nodes)
    if costs is not None or n_nodes is not None:
        raise ValueError("a GraphProblem brings its costs and nodes: give nothing beside it")
    return edges


def _checked_edges(edges: Any) -> NDArray[np.int64]:
    edges = np.asarray(edges)
    if edges.size == 0:
        edges = edges.reshape(0, 2).astype(np.int64)
    if edges.dtype.kind not in "iu":
        raise TypeError(f"edges must be integers, not {edges.dtype}")
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ValueError(f"edges must have shape (m, 2), not {edges.shape}")
    edges = edges.astype(np.int64, copy=False)
    negative = np.flatnonzero((edges < 0).any(axis=1))
    if len(negative):
        raise ValueError(f"edge {negative[0]} names a negative node: {edges[negative[0]].min()}")
    loops = np.flatnonzero(edges[:, 0] == edges[:, 1])
    if len(loops):
        raise ValueError(f"edge {loops[0]} joins node {edges[loops[0], 0]} to itself: remove self-loops")
    return edges


def _checked_costs(costs: Any, m: int) -> NDArray[np.float64]:
    costs = checks.numeric("costs", costs)
    if costs.shape != (m,):
        raise ValueError(f"costs must have one number per edge, shape ({m},), not {costs.shape}")
    costs = costs.astype(np.float64, copy=False)
    bad = np.flatnonzero(~(np.abs(costs) <= checks.LARGEST))
    if len(bad):
        raise ValueError(f"costs must be finite numbers: {costs[bad[0]]} at edge {bad[0]}")
    return costs


def _merge_parallel(
    edges: NDArray[np.int64], costs: NDArray[np.float64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sum the costs of edges with the same ends."""
    keys = edges.min(axis=1) * n + edges.max(axis=1)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    keys = keys[first]
    summed = np.add.reduceat(costs[order], first) if len(first) else costs
    return np.stack([keys // n, keys % n], axis=1), summed


def _pairs_of_matrix(
    matrix: Any,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Edges, costs and number of nodes of a symmetric or strictly triangular sparse matrix."""
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a sparse cost matrix must be square, not {matrix.shape}")
    matrix = matrix.tocsr()  # sums duplicate entries
    checks.numeric("the sparse matrix", matrix.data)
    coo = matrix.tocoo()
    rows, columns = (np.asarray(x, dtype=np.int64) for x in (coo.row, coo.col))
    stored = coo.data != 0
    rows, columns, data = rows[stored], columns[stored], coo.data[stored]
    if np.any(rows == columns):
        node = int(rows[np.argmax(rows == columns)])
        raise ValueError(f"the sparse matrix has a self-loop: entry ({node}, {node}); empty its diagonal")
    upper = rows < columns
    data = _checked_costs(data, len(data))
    if upper.any() and not upper.all():
        difference = (matrix - matrix.T).tocoo()
        uneven = np.flatnonzero(difference.data != 0)
        if len(uneven):
            i, j = int(difference.row[uneven[0]]), int(difference.col[uneven[0]])
            raise ValueError(
                f"the sparse matrix is neither symmetric nor triangular: entries ({i}, {j}) and "
                f"({j}, {i}) differ; use (A + A.T) / 2 or one triangle"
            )
        rows, columns, data = rows[upper], columns[upper], data[upper]
    return np.stack([rows, columns], axis=1), data, int(matrix.shape[0])
