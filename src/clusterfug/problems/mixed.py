"""The mixed problem: features define the costs of all pairs, and edges add to the costs of some.

The cost of a pair is cost(i, j) = <g_i, g_j> + S_ij with the extended rows g of a `DenseProblem` and the
sparse symmetric costs S of a `GraphProblem`. Contraction adds up rows and edges, and the n x n matrix is
never formed. Some pairs may be required to be together or apart: other clusterings are not feasible.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.execution.jit import Progress, kernel
from clusterfug.problems.apart import NO_PAIRS, Apart
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.graph import GraphProblem, as_graph, by_node
from clusterfug.problems.links import Links
from clusterfug.problems.protocol import GAIN_TOLERANCE, GroupCosts, LabelCosts, Problem, Reduction
from clusterfug.refinement.sparse_costs import NO_TERMS, SparseTerms
from clusterfug.result import number_by_first_appearance

if TYPE_CHECKING:
    from clusterfug.bounds.certificate import Certificate
    from clusterfug.bounds.pairs import Repulsion
    from clusterfug.neighbours.exact import Neighbours
    from clusterfug.refinement.budget import Budget
    from clusterfug.result import Clustering

#: A problem of at most this many items, whose costs are integers, is solved as the complete graph of them.
MAX_COMPLETE = 64
_EPSILON = float(np.finfo(np.float64).eps)
_MAX_EXACT_INTEGER = 2**53  # integers of smaller magnitude are exact in float64


class MixedPartners(NamedTuple):
    """Candidates for the first moves and for contraction."""

    neighbours: "Neighbours"  # by features alone; without columns if no cost of features is positive
    best: NDArray[np.float64]  # (n,) largest cost of the item, over its edges and neighbours


class MixedProblem(Problem):
    """Features, edges with costs, and pairs of items that must be apart.

    Parameters
    ----------
    X : array of shape (n, d) or DenseProblem
    edges, costs
        Sparse symmetric costs that are added to those of the features: an integer array of shape (m, 2) and
        one cost per edge, a scipy sparse matrix, or a `GraphProblem`.
    threshold, **costs_of_features
        As for `DenseProblem`: alpha, prefer, sample_weight, strictness, n_neighbors, signature.
    """

    kind: ClassVar[str] = "mixed"
    executions: ClassVar[frozenset[str]] = frozenset({"cpu"})

    def __init__(
        self, X: Any, edges: Any, costs: Any = None, threshold: Any = None, **costs_of_features: Any
    ) -> None:
        if isinstance(X, DenseProblem):
            given = {"threshold": threshold} | costs_of_features
            for name, value in given.items():
                if value is not None:
                    raise ValueError(f"X is a DenseProblem, which has its costs: leave out {name}")
            dense = X
        else:
            dense = DenseProblem(X, threshold, **costs_of_features)
        matrix_or_graph = costs is None
        graph = as_graph(edges, costs, None if matrix_or_graph else dense.n)
        if graph.n != dense.n:
            raise ValueError(f"X has {dense.n} items, but the edges are of {graph.n}: give as many")
        self._set_parts(dense, graph, Apart.nothing(), None)

    @classmethod
    def of_parts(
        cls,
        dense: DenseProblem,
        graph: GraphProblem,
        apart: Apart,
        together: NDArray[np.int64] | None = None,
    ) -> "MixedProblem":
        """Problem of parts with the same items, which are already validated."""
        problem = object.__new__(MixedProblem)
        problem._set_parts(dense, graph, apart, together)
        return problem

    def _set_parts(
        self, dense: DenseProblem, graph: GraphProblem, apart: Apart, together: NDArray[np.int64] | None
    ) -> None:
        """Set the parts; items of the same number 0..K-1 in `together` must be together."""
        self.dense, self.graph, self.apart, self.together = dense, graph, apart, together
        self.links: Links | None = None

    @classmethod
    def with_links(cls, problem: Problem, links: Links) -> "MixedProblem":
        """A problem with what is known about pairs of its items.

        Hard links restrict which clusterings are feasible; soft ones are costs.
        """
        n = problem.n
        if links.n != n:
            raise ValueError(f"the links are of {links.n:,} items, but the problem has {n:,}")
        if isinstance(problem, MixedProblem):
            if problem.links is not None:
                raise ValueError("the problem has links already: give all links at once")
            dense, graph = problem.dense, problem.graph
        elif isinstance(problem, GraphProblem):
            dense, graph = DenseProblem(np.zeros((n, 1), dtype=np.float32), 0.0), problem
        else:
            assert isinstance(problem, DenseProblem)
            dense, graph = problem, GraphProblem(NO_PAIRS, [], n)
        if links.weight is None:
            together = links.groups if len(links.must) else None
            linked = cls.of_parts(dense, graph, Apart.of_links(links), together)
        else:
            cannot = Apart.of_links(links).all_pairs()
            edges = np.concatenate([graph.edges, links.must, cannot])
            signs = np.append(np.ones(len(links.must)), -np.ones(len(cannot)))
            costs = np.concatenate([graph.costs, links.weight * signs])
            linked = cls.of_parts(dense, GraphProblem(edges, costs, n), Apart.nothing())
        linked.links = links
        return linked

    def described(self, result: "Clustering") -> "Clustering":
        return replace(result, links=self.links)

    @property
    def n(self) -> int:  # type: ignore[override]
        return self.dense.n

    @property
    def shape(self) -> tuple[int, int]:
        return self.dense.shape

    @property
    def noun(self) -> str:
        return "a mixed problem" if self.links is None else "a problem with links"

    @property
    def expected_work(self) -> int:
        """Pairs of items, or edges where only those may attract."""
        return self.n**2 if self.dense.may_attract else self.graph.expected_work + self.n

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(n={self.n}, d={self.dense.d}, edges={len(self.graph.costs)})"

    # The objective.

    def costs_of(self, labels: Any) -> LabelCosts:
        """Total costs of the pairs that share a label, and of the others, in O(n d + m)."""
        labels = checks.labels(labels, self.n)
        sums = zip(self.dense.costs_of(labels), self.graph.costs_of(labels), strict=True)
        return LabelCosts(*(float(dense + sparse) for dense, sparse in sums))

    def reduced(self) -> Reduction:
        """The problem of the groups of items that must be together, in the simplest form it has."""
        if self.together is not None:
            return Reduction(self.contract(self.together).reduced().problem, self.together)
        if not self.apart.is_empty:
            return Reduction(self, None)
        if not len(self.graph.costs):
            return Reduction(self.dense, None)
        is_small = self.n <= MAX_COMPLETE and self.has_whole_costs
        return Reduction(self.complete_graph() if is_small else self, None)

    def complete_graph(self) -> GraphProblem:
        """The same problem with the cost of every pair as an edge, of costs that are exact."""
        pairs = np.stack(np.triu_indices(self.n, 1), axis=1)
        costs = self.dense.costs_of_pairs(pairs) + self.graph.repulsion(pairs).aside
        return GraphProblem(pairs, costs, self.n)

    def feasible(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.apart.separated(labels)

    def label_weightless(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels in which items of weight 0 that nothing ties to others are with the most similar mean.

        Items without any cost, such as nodes without edges, are alone.
        """
        absent, costless = self.dense.rows.weight == 0, self.dense.magnitudes == 0
        if not costless.any():
            return labels
        tied = np.zeros(self.n, dtype=np.bool_)
        tied[self.graph.edges.ravel()] = tied[self.apart.items()] = True
        if self.together is not None:
            tied |= np.bincount(self.together)[self.together] > 1
        labels = np.where(costless & ~absent & ~tied, self.n + np.arange(self.n), labels)
        return self.dense.label_absent(number_by_first_appearance(labels), absent & ~tied)

    # Derived problems and costs between groups.

    def contract(self, labels: NDArray[np.int64]) -> "MixedProblem":
        """Contracted problem whose items are the clusters 0..K-1 of the labels: rows and edges add."""
        return MixedProblem.of_parts(
            self.dense.contract(labels), self.graph.contract(labels), self.apart.contract(labels)
        )  # of feasible labels, which keep together what must be

    def subset(self, items: NDArray[np.int64]) -> "MixedProblem":
        """Problem of some of the items."""
        at = np.full(self.n, -1)
        at[items] = np.arange(len(items))
        return MixedProblem.of_parts(
            self.dense.subset(items), self.graph.subset(at, len(items)), self.apart.subset(at)
        )

    def closeness(self, i: int) -> NDArray[np.float64]:
        """Cost of item i to every item; distances along edges where only those may attract."""
        if not self.dense.may_attract:
            return self.graph.closeness(i)
        closeness = self.dense.closeness(i).astype(np.float64)
        starts, ends, costs = self.graph.adjacency
        closeness[ends[starts[i] : starts[i + 1]]] += costs[starts[i] : starts[i + 1]]
        return closeness

    def group_costs(self, items: NDArray[np.int64], groups: NDArray[np.int64]) -> GroupCosts:
        """Costs between the groups 0..m-1 of items."""
        dense, sparse = (part.group_costs(items, groups) for part in (self.dense, self.graph))
        apart = self.apart.between(items, groups, self.n)
        return GroupCosts(dense.costs + sparse.costs, dense.magnitude + sparse.magnitude, apart)

    # Contraction.

    def greedy_merges(
        self, memory_limit: int, progress: Progress | None, searched: Callable[[], None]
    ) -> NDArray[Any]:
        """Return the merges of GAEC: on the edges where only those may attract, else on all costs."""
        if not self.dense.may_attract:
            from clusterfug.contraction.gaec import gaec

            edges, sparse = self._sparse_pairs(self.apart.all_pairs())
            searched()
            return gaec(edges, sparse, self.n, progress, self.dense)
        from clusterfug.contraction.matrix import contract_matrix, cost_matrix, require_memory

        require_memory(self.dense, memory_limit)
        costs = cost_matrix(self.dense, progress)
        add_symmetric(costs, *self._sparse_pairs(self.apart.all_pairs()))
        searched()
        return contract_matrix(costs, progress)

    def _sparse_pairs(
        self, apart: NDArray[np.int64], others: NDArray[np.int64] = NO_PAIRS
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Distinct pairs, lower item first, with their sparse costs: -inf if apart, of others 0."""
        pairs = np.concatenate([apart, self.graph.edges, others])
        infinite, zero = np.full(len(apart), -np.inf), np.zeros(len(others))
        costs = np.concatenate([infinite, self.graph.costs, zero])
        keys, first = np.unique(pairs[:, 0] * self.n + pairs[:, 1], return_index=True)
        return np.stack([keys // self.n, keys % self.n], axis=1), costs[first]

    # Local search.

    @cached_property
    def terms(self) -> SparseTerms:
        """Edges and groups as moves read them."""
        pairs, groups = self.apart.pairs, self.apart.compressed_groups(self.n)
        if not len(pairs) and not len(self.graph.costs):
            return SparseTerms(*NO_TERMS[:4], *groups)
        starts, ends, numbers = by_node(np.concatenate([self.graph.edges, pairs]), self.n)
        costs = np.concatenate([self.graph.costs, np.full(len(pairs), -np.inf)])[numbers]
        finite = np.where(costs > -np.inf, np.abs(costs), 0.0)
        total = np.add.reduceat(np.append(finite, 0.0), starts[:-1])
        degree = np.diff(starts)
        clear = np.where(degree > 0, (GAIN_TOLERANCE + _EPSILON * degree) * total, 0.0)
        return SparseTerms(starts, ends, costs, clear, *groups)

    def partners(self, progress: Progress | None = None) -> MixedPartners:
        """Neighbours by features, if their costs may be positive, and the best cost of every item."""
        from clusterfug.neighbours.exact import Neighbours, exact_neighbours
        from clusterfug.refinement.feature_moves import N_NEIGHBOURS

        if self.dense.may_attract:
            neighbours = exact_neighbours(self.dense, N_NEIGHBOURS, progress)
        else:
            neighbours = Neighbours(np.empty((self.n, 0), dtype=np.int64), np.empty((self.n, 0)))
        best = neighbours.costs[:, 0].copy() if neighbours.costs.shape[1] else np.full(self.n, -np.inf)
        edges = self.graph.edges
        costs = self.dense.costs_of_pairs(edges) + self.graph.costs
        for end in (0, 1):
            np.maximum.at(best, edges[:, end], costs)
        return MixedPartners(neighbours, best)

    def first_moves(
        self, partners: MixedPartners, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        from clusterfug.refinement.feature_moves import first_feature_moves

        return first_feature_moves(self.dense, partners.neighbours, rng, self.terms, partners.best)

    def subdivide(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64] | None:
        if self.dense.may_attract:
            return None
        within = MixedProblem.of_parts(self.dense, self.graph.within(labels), self.apart)
        return within.first_moves(within.partners(), rng)

    def move_items(self, labels: NDArray[np.int64], budget: "Budget") -> tuple[NDArray[np.int64], bool]:
        from clusterfug.refinement.feature_moves import feature_moves

        return feature_moves(self.dense, labels, budget, self.terms)

    def join_clusters(self, labels: NDArray[np.int64], budget: "Budget") -> tuple[NDArray[np.int64], bool]:
        clusters = self.contract(labels)
        clusters.dense.parts = self.dense, labels  # so that the terms of costs have their true magnitudes
        return clusters.move_items(np.arange(clusters.n), budget)

    def any_attracts(self, partners: MixedPartners) -> bool:
        return self.n > 1 and bool(partners.best.max() > 0)

    def contract_partners(self, partners: MixedPartners, budget: "Budget") -> NDArray[np.void]:
        """Contraction history of GAEC along edges and neighbours, with all costs between the nodes."""
        from clusterfug.contraction.gaec import gaec

        n, (ids, costs) = self.n, partners.neighbours
        attracts = costs > 0
        near = np.stack([np.repeat(np.arange(n), attracts.sum(axis=1)), ids[attracts]], axis=1)
        edges, sparse = self._sparse_pairs(self.apart.pairs, np.sort(near, axis=1))
        return gaec(edges, sparse, n, None, self.dense)

    def affords_second_start(self, nodes: int) -> bool:
        """Whether it is cheap: beside cycles along edges, only for small problems."""
        if self.dense.may_attract:
            return self.dense.affords_second_start(nodes)
        return self.n <= 2 * nodes

    def affords_polishing(self, nodes: int) -> bool:
        return self.dense.affords_polishing(nodes) if self.dense.may_attract else self.n <= 2 * nodes

    # Lower bounds.

    @property
    def has_whole_costs(self) -> bool:
        """Whether all numbers of features and edges are integers with exact sums."""
        features, alpha, weight, signature = self.dense.rows
        arrays = (features, alpha, weight, signature)
        if not self.graph.has_whole_costs or not all(np.all(x == np.round(x)) for x in arrays):
            return False
        largest = self.dense.largest_cost * float(self.n) ** 2 + float(np.abs(self.graph.costs).sum())
        return bool(largest < _MAX_EXACT_INTEGER)

    def cost_error(self, pairs: NDArray[Any] | None = None) -> float:
        """Upper bound on the rounding errors of the costs of all pairs, or of some."""
        return 0.0 if self.has_whole_costs else self.dense.cost_error(pairs) + self.graph.cost_error(pairs)

    def repulsion_error(self) -> float:
        if self.has_whole_costs:
            return 0.0
        edges = self.graph.edges
        costs = self.dense.costs_of_pairs(edges) + self.graph.costs
        doubtful = edges[costs <= self.pair_errors(edges)]  # others attract beyond doubt
        known = np.concatenate([doubtful, self.apart.known_pairs()])
        return self.dense.repulsion_error() + self.cost_error(known)

    def pair_errors(self, pairs: NDArray[Any]) -> NDArray[np.float64]:
        if self.has_whole_costs:
            return np.zeros(len(pairs))
        sparse = np.abs(self.graph.repulsion(pairs).aside)
        return self.dense.pair_errors(pairs) + _EPSILON * sparse + self.graph.parallel_error

    def repulsion(self, pairs: NDArray[Any], progress: Progress | None = None) -> "Repulsion":
        from clusterfug.bounds.pairs import mixed_repulsion

        return mixed_repulsion(self, pairs, progress)

    def always_cut(self, pairs: NDArray[Any]) -> NDArray[np.bool_]:
        return self.apart.includes(pairs)

    def scaled_costs(self) -> tuple[NDArray[Any], float]:
        """All pair costs in units of the number that comes with them, to pack triangles."""
        costs, unit_of_features = self.dense.scaled_costs()
        unit = max(unit_of_features, float(np.abs(self.graph.costs).max(initial=0.0)))
        costs *= unit_of_features / unit
        add_symmetric(costs, self.graph.edges, self.graph.costs / unit)
        apart = self.apart.known_pairs()
        add_symmetric(costs, apart, np.full(len(apart), -float(np.abs(costs).sum(dtype=np.float64)) - 1.0))
        return costs, unit

    def divided(self, max_size: int) -> list[NDArray[np.int64]]:
        """All items in groups of similar ones, of at most `max_size`."""
        return self.dense.divided(max_size)

    def pack_triangles(
        self, memory_limit: int | None, time_limit: float | None, progress: Progress | None
    ) -> "Certificate":
        """Certificate of triangles packed within groups of similar items."""
        from clusterfug.bounds.triangles import pack_features

        return pack_features(self, memory_limit, time_limit, progress)


@kernel
def add_symmetric(matrix: NDArray[Any], edges: NDArray[Any], costs: NDArray[Any]) -> None:
    """Add the costs of edges to both of their entries of a matrix."""
    for e in range(costs.shape[0]):
        matrix[edges[e, 0], edges[e, 1]] += costs[e]
        matrix[edges[e, 1], edges[e, 0]] += costs[e]
