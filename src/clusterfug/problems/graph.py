"""The multicut problem of an explicit graph: a simple graph and one cost per edge, validated.

Pairs of nodes that are not joined by an edge cost 0.
"""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.execution.jit import Progress, kernel
from clusterfug.problems.cost_kernels import mirror
from clusterfug.problems.protocol import GroupCosts, LabelCosts, Problem
from clusterfug.result import number_by_first_appearance

if TYPE_CHECKING:
    from clusterfug.bounds.certificate import Certificate
    from clusterfug.bounds.pairs import Repulsion
    from clusterfug.refinement.budget import Budget

_MAX_NODES = 2**31 - 1
_MAX_EDGES = 2**30 - 1  # two half-edges each, counted in int32
_MAX_DISTANCE = 4  # edges on a path from a node to the nodes that count as close to it
_MAX_EXPANDED = 1000  # nodes per distance whose neighbours are visited
_MAX_ASYMMETRY = 1e-6  # relative difference of the two entries of an edge: rounding, of float32 too
_MAX_EXACT_INTEGER = 2**53  # integers of smaller magnitude are exact in float64
_EPSILON = float(np.finfo(np.float64).eps)
_CHEAP_NODES = 20_000  # a graph of this size is polished in about a second


class Adjacency(NamedTuple):
    """Edges by node in compressed form: those of node v are at starts[v]:starts[v + 1]."""

    starts: NDArray[np.int64]  # (n + 1,)
    ends: NDArray[np.int64]  # (2 m,)
    costs: NDArray[np.float64]  # (2 m,)


class GraphProblem(Problem):
    """Graph with attractive (> 0) and repulsive (< 0) edges; see `multicut` for the parameters.

    Attributes
    ----------
    edges : int64 array of shape (m, 2)
        Each pair once, lower node first, sorted lexicographically.
    costs : float64 array of shape (m,)
    n : int
        Number of nodes.
    parallel_error : float
        Upper bound on the total rounding error of the costs: those of parallel edges are added up.
    """

    kind: ClassVar[str] = "graph"
    executions: ClassVar[frozenset[str]] = frozenset({"cpu"})

    def __init__(self, edges: Any, costs: Any = None, n_nodes: int | None = None) -> None:
        if hasattr(edges, "tocoo"):
            if costs is not None or n_nodes is not None:
                raise ValueError(
                    "a sparse matrix already defines costs and nodes: leave out costs and n_nodes"
                )
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
                raise ValueError("the graph has no edges: give its number of nodes as n_nodes")
        self.n = checks.count("n_nodes", n_nodes)
        if highest >= self.n:
            at = int(np.argmax(edges.max(axis=1) >= self.n))
            raise ValueError(
                f"edge {at} names node {edges[at].max()}, but the graph has nodes 0..{self.n - 1}"
            )
        if self.n > _MAX_NODES or len(edges) > _MAX_EDGES:
            raise ValueError(
                f"at most {_MAX_NODES} nodes and {_MAX_EDGES} edges, not {self.n} and {len(edges)}"
            )
        self.edges, self.costs, self.parallel_error = _merge_parallel(edges, costs, self.n)

    def costs_of(self, labels: Any) -> LabelCosts:
        """Total costs of the edges whose ends share a label, and of the others."""
        labels = checks.labels(labels, self.n)
        kept = labels[self.edges[:, 0]] == labels[self.edges[:, 1]]
        return LabelCosts(float(self.costs[kept].sum()), float(self.costs[~kept].sum()))

    @property
    def expected_work(self) -> int:
        """Number of edges."""
        return len(self.costs)

    def greedy_merges(
        self, memory_limit: int, progress: Progress | None, searched: Callable[[], None]
    ) -> NDArray[Any]:
        """Return the merges of GAEC on the edges."""
        from clusterfug.contraction.gaec import gaec

        return gaec(self.edges, self.costs, self.n, progress)

    @cached_property
    def adjacency(self) -> Adjacency:
        """Edges by node, each edge twice."""
        starts, ends, numbers = by_node(self.edges, self.n)
        return Adjacency(starts, ends, self.costs[numbers])

    def contract(self, labels: NDArray[np.int64]) -> "GraphProblem":
        """Contracted graph whose nodes are the clusters 0..K-1 of the labels: parallel edges add."""
        ends = labels[self.edges]
        cut = ends[:, 0] != ends[:, 1]
        contracted = object.__new__(GraphProblem)
        contracted.n = int(labels.max()) + 1
        edges, costs, error = _merge_parallel(ends[cut], self.costs[cut], contracted.n)
        contracted.edges, contracted.costs = edges, costs
        contracted.parallel_error = self.parallel_error + error
        return contracted

    def subset(self, at: NDArray[np.int64], count: int) -> "GraphProblem":
        """Graph of `count` nodes, whose numbers there are in `at` (-1: not among them)."""
        ends = at[self.edges]
        kept = (ends >= 0).all(axis=1)
        part = object.__new__(GraphProblem)
        part.n = count
        part.edges, part.costs, error = _merge_parallel(ends[kept], self.costs[kept], count)
        part.parallel_error = self.parallel_error + error
        return part

    def closeness(self, i: int) -> NDArray[np.float64]:
        """1 / (1 + distance) for the nodes within a few edges of node i, 0 for all others."""
        closeness = np.zeros(self.n)
        frontier = np.array([i])
        closeness[i] = 1.0
        for distance in range(1, _MAX_DISTANCE + 1):
            ends = np.concatenate([_close_ends(self.adjacency, v) for v in frontier[:_MAX_EXPANDED]])
            frontier = np.unique(ends[closeness[ends] == 0])
            if not len(frontier):
                break
            closeness[frontier] = 1.0 / (1 + distance)
        return closeness

    def group_costs(self, items: NDArray[np.int64], groups: NDArray[np.int64]) -> GroupCosts:
        """Costs between the groups 0..m-1 of nodes."""
        m = int(groups.max()) + 1
        group_of = np.full(self.n, -1)
        group_of[items] = groups
        costs = np.zeros((m, m))
        add_group_costs(self.adjacency, items, group_of, costs)
        mirror(costs, 0, m)  # the edges of two groups may have been added in two orders
        np.fill_diagonal(costs, 0.0)
        return GroupCosts(costs, float(np.abs(costs).sum(axis=1).max()))

    def label_weightless(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels in which nodes without edges are alone."""
        isolated = np.bincount(self.edges.ravel(), minlength=self.n) == 0
        if not isolated.any():
            return labels
        return number_by_first_appearance(np.where(isolated, self.n + np.arange(self.n), labels))

    def partners(self, progress: Progress | None = None) -> NDArray[np.float64]:
        """Cost of the best edge of every node."""
        from clusterfug.refinement.graph_moves import best_edge_costs

        return best_edge_costs(self)

    def first_moves(
        self, partners: NDArray[np.float64], rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        from clusterfug.refinement.graph_moves import first_graph_moves

        return first_graph_moves(self, partners, rng)

    def subdivide(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        within = self.within(labels)
        return within.first_moves(within.partners(), rng)

    def within(self, labels: NDArray[np.int64]) -> "GraphProblem":
        """The same graph without the edges that the labels cut."""
        kept = labels[self.edges[:, 0]] == labels[self.edges[:, 1]]
        graph = object.__new__(GraphProblem)
        graph.n, graph.parallel_error = self.n, self.parallel_error
        graph.edges, graph.costs = self.edges[kept], self.costs[kept]
        return graph

    def move_items(self, labels: NDArray[np.int64], budget: "Budget") -> tuple[NDArray[np.int64], bool]:
        from clusterfug.refinement.graph_moves import graph_moves

        return graph_moves(self, labels, budget)

    def any_attracts(self, partners: NDArray[np.float64]) -> bool:
        return bool(partners.max() > 0)

    def contract_partners(self, partners: NDArray[np.float64], budget: "Budget") -> NDArray[np.void]:
        """Contraction history of GAEC, which needs no partners, and little time."""
        from clusterfug.contraction.gaec import gaec

        return gaec(self.edges, self.costs, self.n)

    def affords_second_start(self, nodes: int) -> bool:
        """Whether the graph is small enough to be polished in about a second."""
        return self.n <= _CHEAP_NODES

    @property
    def has_whole_costs(self) -> bool:
        are_whole = np.all(self.costs == np.round(self.costs)) and not self.parallel_error
        return bool(are_whole and np.abs(self.costs).sum() < _MAX_EXACT_INTEGER)

    def cost_error(self, pairs: NDArray[Any] | None = None) -> float:
        """Upper bound on the rounding errors of the costs of all edges, or of some, and of their sum."""
        costs = self.costs if pairs is None else self.repulsion(pairs).aside
        return self._sum_error(costs)

    def repulsion_error(self) -> float:
        return self._sum_error(self.costs[self.costs <= 0])

    def _sum_error(self, costs: NDArray[np.float64]) -> float:
        """Upper bound on the rounding errors of some costs, and of their sum; integers have none."""
        if self.has_whole_costs:
            return 0.0
        return self.parallel_error + 64 * _EPSILON * float(np.abs(costs).sum())

    def repulsion(self, pairs: NDArray[Any], progress: Progress | None = None) -> "Repulsion":
        from clusterfug.bounds.pairs import graph_repulsion

        return graph_repulsion(self, pairs)

    def pack_triangles(
        self, memory_limit: int | None, time_limit: float | None, progress: Progress | None
    ) -> "Certificate":
        """Certificate of conflicted cycles, packed as triangles."""
        from clusterfug.bounds.triangles import pack_graph

        return pack_graph(self, time_limit)


def by_node(edges: NDArray[Any], n: int) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.int64]]:
    """Edges by node, each edge twice: start of each node's edges, their other ends, and their indices."""
    both = np.concatenate([edges, edges[:, ::-1]])
    order = np.argsort(both[:, 0], kind="stable")
    starts = np.searchsorted(both[order, 0], np.arange(n + 1))
    return starts, both[order, 1].copy(), np.tile(np.arange(len(edges)), 2)[order]


def _close_ends(adjacency: Adjacency, v: int) -> NDArray[np.int64]:
    """Neighbours of node v with an attractive edge, or all neighbours if there is no such edge."""
    edges = slice(adjacency.starts[v], adjacency.starts[v + 1])
    ends, attract = adjacency.ends[edges], adjacency.costs[edges] > 0
    return ends[attract] if attract.any() else ends


@kernel
def add_group_costs(
    adjacency: Adjacency, items: NDArray[Any], group_of: NDArray[Any], costs: NDArray[Any]
) -> None:
    """costs[g, h] += costs of the edges from group g to group h; ``group_of`` is -1 for other nodes."""
    for v in items:
        for at in range(adjacency.starts[v], adjacency.starts[v + 1]):
            other = group_of[adjacency.ends[at]]
            if other >= 0:
                costs[group_of[v], other] += adjacency.costs[at]


def as_graph(edges: Any, costs: Any, n_nodes: int | None, kinds: type = GraphProblem) -> Any:
    """Return `edges` if it is a problem of these kinds (then without other arguments), else a graph."""
    if not isinstance(edges, kinds):
        return GraphProblem(edges, costs, n_nodes)
    if costs is not None or n_nodes is not None:
        name = type(edges).__name__
        raise ValueError(f"a {name} already defines costs and nodes: leave out costs and n_nodes")
    return edges


def _checked_edges(edges: Any) -> NDArray[np.int64]:
    """Edges as an int64 array of shape (m, 2), without negative nodes and loops."""
    edges = np.asarray(checks.as_array("edges", checks.unmasked("edges", edges)))
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
    """Costs as a finite float64 array of shape (m,)."""
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
) -> tuple[NDArray[np.int64], NDArray[np.float64], float]:
    """Sorted distinct edges (lower node first), sums of the costs of parallel edges, rounding errors."""
    keys = edges.min(axis=1) * n + edges.max(axis=1)
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.diff(keys, prepend=-1))
    keys, sums = keys[first], np.empty(len(first))
    error = sum_runs(costs[order], np.append(first, len(order)), sums)
    return np.stack([keys // n, keys % n], axis=1), sums, error


@kernel
def sum_runs(costs: NDArray[Any], starts: NDArray[Any], sums: NDArray[Any]) -> float:
    """sums[r] = the sum of costs[starts[r]:starts[r + 1]]. Returns the total magnitude of all roundings.

    The rounding of every addition is known exactly (Knuth's two-sum); it is 0 for integers.
    """
    error = 0.0
    for r in range(sums.shape[0]):
        total = costs[starts[r]]
        for at in range(starts[r] + 1, starts[r + 1]):
            rounded = total + costs[at]
            part = rounded - total
            error += abs((total - (rounded - part)) + (costs[at] - part))
            total = rounded
        sums[r] = total
    return error


def _pairs_of_matrix(
    matrix: Any,
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Edges, costs and number of nodes of a symmetric or strictly triangular sparse matrix."""
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"a sparse cost matrix must be square, not {matrix.shape}")
    if hasattr(matrix, "check_format"):
        try:
            matrix.check_format(full_check=True)  # compiled code of scipy trusts indices
        except ValueError as error:
            raise ValueError(f"the sparse matrix is broken: {error}") from None
    matrix = matrix.tocoo()
    checks.numeric("the sparse matrix", matrix.data)
    matrix = matrix.astype(np.float64).tocsr()  # sums duplicate entries, which integers may overflow
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
        difference, total = ((matrix + sign * matrix.T).tocsr() for sign in (-1, 1))
        uneven = (abs(difference) > _MAX_ASYMMETRY * abs(total)).tocoo()
        if uneven.nnz:
            i, j = int(uneven.row[0]), int(uneven.col[0])
            raise ValueError(
                f"the sparse matrix is neither symmetric nor triangular: entries ({i}, {j}) and "
                f"({j}, {i}) differ; use (A + A.T) / 2 or one triangle"
            )
        data = data / 2  # of both triangles, which are equal up to rounding: edges are added up
    return np.stack([rows, columns], axis=1), data, int(matrix.shape[0])
