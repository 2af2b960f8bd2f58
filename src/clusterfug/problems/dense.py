"""The dense multicut problem: features and a signature define the costs of all pairs.

A `DenseProblem` holds validated input. Neighbour search, contraction, refinement and bounds obtain all
costs from it. The features are stored as they are given; the n x n cost matrix is never formed.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.costs.models import CostModel, Threshold, cost_model
from clusterfug.execution import threads
from clusterfug.execution.jit import Progress
from clusterfug.models.assignment import cluster_means, most_similar
from clusterfug.problems.cost_kernels import (
    ExtendedRows,
    add_costs,
    add_terms_before,
    costs_of_pairs,
    costs_to_items,
    mirror,
    own_costs,
    query_of_item,
    squared_norms,
    sum_absolute_rows,
    sum_rows,
)
from clusterfug.problems.factorisation import factorise
from clusterfug.problems.protocol import GroupCosts, LabelCosts, Problem
from clusterfug.result import compact, number_by_first_appearance

if TYPE_CHECKING:
    from clusterfug.bounds.certificate import Certificate
    from clusterfug.bounds.pairs import Repulsion
    from clusterfug.neighbours.exact import Neighbours
    from clusterfug.refinement.budget import Budget

_WORK_PER_CALL = 100_000_000  # numbers a kernel reads before it returns to Python, so that Ctrl-C works
_EPSILON = float(np.finfo(np.float64).eps)
_PAIR_ENTRIES = 1 << 22  # of absolute rows of pairs at a time
_CHEAP_WORK = 4e9  # multiplications: a fraction of a second
_MANY_NEIGHBOURHOODS = 20  # from this number on, polishing is cheap compared to the neighbour search


class DenseProblem(Problem):
    """Weighted correlation clustering of n items on the complete graph, in factorised form.

    The cost of a pair is an indefinite inner product,

        cost(i, j) = w_i w_j (sum_d sigma_d f_id f_jd  -  threshold)                        or
        cost(i, j) = w_i w_j (sum_d sigma_d f_id f_jd -/+ alpha_i alpha_j),

    positive when the pair attracts. A clustering pays the cost of every pair it separates.

    Parameters
    ----------
    X : array of shape (n, d)
        One row of features per item. Nothing is normalised. float32 and float64 arrays in C order are not
        copied, memory maps included; float16 and small integers are converted to float32.
    threshold : float, "local" or CostModel
        The number subtracted from every inner product. Negative values prefer larger clusters. "local"
        derives an affinity strength per item from the features, see `local_alpha`. Either it or `alpha`
        is required.
    alpha : float or array of shape (n,), optional
        Used instead of `threshold`: the paper's affinity strength, one number or one per item, >= 0.
        A scalar alpha with ``prefer="small"`` is ``threshold=alpha**2``.
    prefer : {"small", "large"}, default="small"
        The sign of the alpha term: "small" subtracts it, "large" adds it.
    sample_weight : array of shape (n,), optional
        Item i counts as ``sample_weight[i]`` items (>= 0). Items of weight 0 take no part in the clustering
        and are assigned afterwards, like new points.
    strictness, n_neighbors
        Parameters of ``threshold="local"``. The defaults are 0.6, and 100 or two thirds of the items.
    signature : array of shape (d,), optional
        +1 or -1 per feature column, all +1 by default. Cannot be combined with ``threshold="local"``.
    """

    kind: ClassVar[str] = "features"
    executions: ClassVar[frozenset[str]] = frozenset({"cpu", "torch", "sharded"})

    def __init__(
        self,
        X: Any,
        threshold: float | str | CostModel | None = None,
        *,
        alpha: Any = None,
        prefer: str = "small",
        sample_weight: Any = None,
        strictness: float | None = None,
        n_neighbors: int | None = None,
        signature: Any = None,
    ) -> None:
        if threshold is None and alpha is None and strictness is None:
            raise ValueError("a DenseProblem needs its costs: give threshold or alpha")
        costs = cost_model(
            threshold, alpha=alpha, prefer=prefer, strictness=strictness, n_neighbors=n_neighbors
        )
        if costs.needs_selection:
            raise ValueError(
                f'threshold="{costs.name}" is selected by dense_multicut; here it is a number or "local"'
            )
        if costs.needs_all_items and signature is not None:
            raise ValueError(f'signature does not go with threshold="{costs.name}": leave one of them out')
        features = checks.features(X)
        n, d = features.shape
        weight = checks.optional_weights(sample_weight, n)
        column, last = costs.column(features, weight)
        self.threshold = costs.value if isinstance(costs, Threshold) else None
        self.parts: tuple[DenseProblem, NDArray[np.int64]] | None = None
        signs = np.ones(d) if signature is None else checks.numeric("signature", signature)
        if signs.shape != (d,) or not np.all(np.abs(signs) == 1):
            raise ValueError(f"signature must be {d} numbers, each +1 or -1")
        self.rows = ExtendedRows(
            read_only(features),
            read_only(column),
            read_only(weight),
            read_only(np.append(signs, last).astype(np.float64)),
        )
        with np.errstate(over="ignore"):
            checks.costs_in_range(self.largest_cost, n)

    @classmethod
    def from_costs(cls, costs: Any) -> "DenseProblem":
        """Problem of an explicit complete graph: costs[i, j] is the cost of the pair i, j.

        Any symmetric matrix factorises, see `factorise`. The diagonal enters no cost. It is kept (clipped
        to a thousand times the largest cost) because a matrix of low rank has low rank only with its
        diagonal. Costs are exact up to rounding, so ties between equal costs may be broken arbitrarily.
        """
        features, signature = factorise(costs)
        if not len(signature):
            return cls(np.zeros((len(features), 1)), threshold=0.0)
        return cls(features, threshold=0.0, signature=signature)

    def contract(self, labels: NDArray[np.int64]) -> "DenseProblem":
        """Contracted problem whose items are the clusters 0..K-1 of the labels: their extended rows add."""
        return DenseProblem.from_sums(self.sums(labels, int(labels.max()) + 1), self.rows.signature)

    def sums(self, labels: NDArray[np.int64], k: int) -> NDArray[np.float64]:
        """Extended rows of the clusters 0..k-1, shape (k, d + 1)."""
        sums = np.zeros((k, self.d + 1))
        for block in self.blocks():
            sum_rows(self.rows, np.arange(self.n)[block], labels[block], sums)
        return sums

    def term_sums(self, labels: NDArray[np.int64], k: int) -> NDArray[np.float64]:
        """Sums of the absolute extended rows of the clusters 0..k-1, shape (k, d + 1).

        With them the magnitude of the terms of a cost is a product. Sums of rows may cancel, those of
        their absolute values do not.
        """
        if self.parts is not None:
            whole, cluster_of = self.parts
            return whole.term_sums(labels[cluster_of], k)
        sums = np.zeros((k, self.d + 1))
        for block in self.blocks():
            sum_absolute_rows(self.rows, np.arange(self.n)[block], labels[block], sums)
        return sums

    def item_terms(self, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """Absolute extended rows of some items; of an item that is a cluster, the sum of its items'."""
        if self.parts is not None:
            return self._terms_of_parts[items]
        return self.subset(items).term_sums(np.arange(len(items)), len(items))

    @cached_property
    def _terms_of_parts(self) -> NDArray[np.float64]:
        assert self.parts is not None
        whole, cluster_of = self.parts
        return whole.term_sums(cluster_of, self.n)

    def pair_terms(self, heads: NDArray[np.int64], tails: NDArray[np.int64]) -> NDArray[np.float64]:
        """Magnitudes of the terms of the costs of some pairs of items: sums of absolute products."""
        terms = np.empty(len(heads))
        for some in threads.slices(len(heads), max(1, _PAIR_ENTRIES // (self.d + 1))):
            absolute = self.item_terms(heads[some]) * self.item_terms(tails[some])
            terms[some] = absolute @ np.abs(self.rows.signature)
        return terms

    def concatenate(self, *others: "DenseProblem") -> "DenseProblem":
        """Problem of the items of this problem followed by those of others with the same signature."""
        arrays = zip(self.rows[:3], *(other.rows[:3] for other in others), strict=True)
        return self._with_rows(*(np.concatenate(parts) for parts in arrays))

    def subset(self, items: NDArray[np.int64] | slice) -> "DenseProblem":
        """Problem of some of the items. A slice is not copied."""
        features, alpha, weight, _ = self.rows
        return self._with_rows(features[items], alpha[items], weight[items])

    def _with_rows(self, *arrays: NDArray[Any]) -> "DenseProblem":
        """Problem with the same signature and the given features, alpha and weights."""
        features, alpha, weight = arrays
        return DenseProblem.from_rows(ExtendedRows(features, alpha, weight, self.rows.signature))

    @classmethod
    def from_rows(cls, rows: ExtendedRows) -> "DenseProblem":
        """Problem of rows that are already validated."""
        problem = object.__new__(cls)
        problem.threshold, problem.parts = None, None
        problem.rows = ExtendedRows(*map(read_only, rows))
        return problem

    @classmethod
    def from_sums(cls, sums: NDArray[np.float64], signature: NDArray[np.float64]) -> "DenseProblem":
        """Problem whose items are sets of items, from the sums of their extended rows."""
        features, alpha = np.ascontiguousarray(sums[:, :-1]), sums[:, -1].copy()
        return cls.from_rows(ExtendedRows(features, alpha, np.ones(len(sums)), signature))

    @property
    def n(self) -> int:  # type: ignore[override]
        return int(self.rows.features.shape[0])

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.d

    @property
    def expected_work(self) -> int:
        """Pairs of items."""
        return self.n**2

    @property
    def d(self) -> int:
        """Number of feature columns."""
        return int(self.rows.features.shape[1])

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.rows = ExtendedRows(*map(read_only, self.rows))  # pickling loses the read-only flag

    def __repr__(self) -> str:
        costs = "alpha" if self.threshold is None else f"threshold={self.threshold:g}"
        return f"DenseProblem(n={self.n}, d={self.d}, {costs})"

    def extended(
        self, start: int, stop: int, dtype: Any, scale: float = 1.0, spare: int = 0
    ) -> NDArray[Any]:
        """New array of the extended rows start..stop-1 times a scale: d + 1 columns, then `spare` zeros."""
        return self._product_rows(start, stop, dtype, scale, spare, 1.0)

    def _product_rows(
        self, start: int, stop: int, dtype: Any, scale: float, spare: int, last: float
    ) -> NDArray[Any]:
        """The same rows with the last column times a number."""
        features, alpha = self.rows.features[start:stop], self.rows.alpha[start:stop]
        factor = self.rows.weight[start:stop] * scale
        block = np.zeros((stop - start, self.d + 1 + spare), dtype=dtype)
        if np.all(factor == factor[0]) and 1e-30 < factor[0] < 1e30:  # one product in dtype
            np.multiply(features, dtype(factor[0]), out=block[:, : self.d], casting="same_kind")
        else:
            np.multiply(features, factor[:, None], out=block[:, : self.d], casting="same_kind")
        block[:, self.d] = factor * alpha * last
        return block

    def queries(
        self, start: int, stop: int, dtype: Any, scale: float = 1.0, spare: int = 0
    ) -> NDArray[Any]:
        """The same rows times the signature, so that ``queries @ extended.T`` are costs."""
        signature, last = self.rows.signature[:-1], float(self.rows.signature[-1])
        block = self._product_rows(start, stop, dtype, scale, spare, last)
        if np.any(signature < 0):
            block[:, : self.d] *= signature.astype(dtype)
        return block

    def closeness(self, i: int) -> NDArray[Any]:
        """Cost of item i to every item."""
        query, costs = np.empty(self.d + 1), np.empty(self.n)
        query_of_item(self.rows, i, query)
        for block in self.blocks():
            costs_to_items(self.rows, query, block.start, block.stop, costs)
        return costs

    def costs_of_pairs(self, pairs: NDArray[Any]) -> NDArray[np.float64]:
        """Costs of some pairs (m, 2), in float64."""
        costs = np.empty(len(pairs))
        step = max(1, _WORK_PER_CALL // (self.d + 1))
        for some in threads.slices(len(pairs), step):
            costs_of_pairs(self.rows, pairs[some].astype(np.int64), costs[some])
        return costs

    def group_costs(self, items: NDArray[np.int64], groups: NDArray[np.int64]) -> GroupCosts:
        """Costs between the groups 0..m-1 of items."""
        sums = np.zeros((int(groups.max()) + 1, self.d + 1))
        sum_rows(self.rows, items, groups, sums)
        costs = threads.product(sums * self.rows.signature, sums.T)
        mirror(costs, 0, len(costs))  # a product is symmetric only up to rounding
        np.fill_diagonal(costs, 0.0)
        mass = np.bincount(groups, weights=self.magnitudes[items])
        return GroupCosts(costs, float((mass * (mass.sum() - mass)).max()))

    @cached_property
    def norms(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Euclidean norms of the queries and of the extended rows."""
        squares = np.empty(self.n), np.empty(self.n)
        for block in self.blocks():
            squared_norms(self.rows, block.start, block.stop, *squares)
        return np.sqrt(squares[0]), np.sqrt(squares[1])

    @property
    def own_costs(self) -> NDArray[np.float64]:
        """Cost of every item to itself."""
        return self._own_costs_and_magnitudes[0]

    @property
    def magnitudes(self) -> NDArray[np.float64]:
        """Numbers u with |cost(i, j)| <= u_i u_j, also if all terms of the cost are taken absolutely."""
        return self._own_costs_and_magnitudes[1]

    @cached_property
    def _own_costs_and_magnitudes(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        own, magnitudes = np.empty(self.n), np.empty(self.n)
        for block in self.blocks():
            own_costs(self.rows, block.start, block.stop, own, magnitudes)
        if self.parts is not None:
            whole, cluster_of = self.parts
            magnitudes = np.bincount(cluster_of, weights=whole.magnitudes).astype(np.float64)
        return own, magnitudes

    @cached_property
    def may_attract(self) -> bool:
        """Whether a cost may be positive: False if no term of any cost is."""
        features, alpha, _, signature = self.rows
        attracting = signature > 0
        if np.any(features[0, attracting[:-1]]):  # the usual case, without a pass over all features
            return True
        low = np.append(features.min(axis=0), alpha.min())
        high = np.append(features.max(axis=0), alpha.max())
        return bool(np.any(np.where(attracting, (low != 0) | (high != 0), (low < 0) & (high > 0))))

    @property
    def largest_cost(self) -> float:
        """Upper bound on the absolute cost of a pair of items."""
        query_norms, row_norms = self.norms
        return float(query_norms.max() * row_norms.max())

    def blocks(self) -> Iterator[slice]:
        """Consecutive blocks of items, each of about _WORK_PER_CALL numbers."""
        step = max(1, _WORK_PER_CALL // (self.d + 1))
        for start in range(0, self.n, step):
            yield slice(start, min(self.n, start + step))

    def costs_of(self, labels: Any) -> LabelCosts:
        """Total costs of the pairs that share a label, and of the others, in O(n d) time and float64."""
        labels = compact(checks.labels(labels, self.n))
        insides, across = self.cluster_costs(labels, int(labels.max()) + 1)
        return LabelCosts(float(insides.sum()), across)

    def cluster_costs(self, labels: NDArray[np.int64], k: int) -> tuple[NDArray[np.float64], float]:
        """Total costs of the pairs in each of the clusters 0..k-1, and of the pairs between them."""
        items = np.argsort(labels, kind="stable")
        labels = labels[items]
        seen, insides, across = np.zeros((2, self.d + 1)), np.zeros(k), 0.0
        for block in self.blocks():
            across += add_costs(self.rows, items, labels, block.start, block.stop, seen, insides)
        return insides, float(across)

    def greedy_merges(
        self, memory_limit: int, progress: Progress | None, searched: Callable[[], None]
    ) -> NDArray[Any]:
        """Return the merges of GAEC on the full cost matrix; `searched` is called when it is computed."""
        from clusterfug.contraction.matrix import contract_matrix, cost_matrix, require_memory

        require_memory(self, memory_limit)
        costs = cost_matrix(self, progress)
        searched()
        return contract_matrix(costs, progress)

    def label_weightless(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels in which each item of weight 0 is in the cluster with the most similar mean feature."""
        return self.label_absent(labels, self.rows.weight == 0)

    def label_absent(self, labels: NDArray[np.int64], is_absent: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Labels in which each absent item, of weight 0, is in the cluster with the most similar mean."""
        features, _, weight, signature = self.rows
        absent = np.flatnonzero(is_absent)
        if not len(absent):
            return labels
        labels = labels.copy()
        labels[~is_absent] = number_by_first_appearance(labels[~is_absent])
        labels[absent] = 0  # an arbitrary cluster: without weight they do not change its mean
        if np.any(weight[~is_absent] == 0):  # these have a mean, too, where they are among themselves
            weight = np.where(is_absent, 0.0, np.maximum(weight, np.finfo(np.float64).tiny))
        means = cluster_means(features, labels, weight)
        means *= signature[:-1].astype(means.dtype)
        labels[absent] = most_similar(features, means, absent)
        return number_by_first_appearance(labels)

    def partners(self, progress: Progress | None = None) -> "Neighbours":
        """Neighbour graph: the most attractive partners of every item."""
        from clusterfug.neighbours.exact import exact_neighbours
        from clusterfug.refinement.feature_moves import N_NEIGHBOURS

        return exact_neighbours(self, N_NEIGHBOURS, progress)

    def first_moves(
        self, partners: "Neighbours", rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        from clusterfug.refinement.feature_moves import first_feature_moves

        return first_feature_moves(self, partners, rng)

    def move_items(self, labels: NDArray[np.int64], budget: "Budget") -> tuple[NDArray[np.int64], bool]:
        from clusterfug.refinement.feature_moves import feature_moves

        return feature_moves(self, labels, budget)

    def join_clusters(self, labels: NDArray[np.int64], budget: "Budget") -> tuple[NDArray[np.int64], bool]:
        clusters = self.contract(labels)
        clusters.parts = self, labels  # so that the terms of costs have their true magnitudes
        return clusters.move_items(np.arange(clusters.n), budget)

    def any_attracts(self, partners: "Neighbours") -> bool:
        return self.n > 1 and bool(partners.costs[:, 0].max() > 0)

    def contract_partners(self, partners: "Neighbours", budget: "Budget") -> NDArray[np.void]:
        """Contraction history of lazy contraction; the partners are overwritten."""
        from clusterfug.contraction.lazy import lazy
        from clusterfug.refinement.feature_moves import N_NEIGHBOURS

        return lazy(self, partners, N_NEIGHBOURS, budget=budget)

    def affords_second_start(self, nodes: int) -> bool:
        """Whether the costs in all neighbourhoods of `nodes` nodes are computed in under a second."""
        return self.n * min(self.n, nodes) * self.d <= _CHEAP_WORK

    def affords_polishing(self, nodes: int) -> bool:
        return self.affords_second_start(nodes) or self.n >= _MANY_NEIGHBOURHOODS * nodes

    def cost_error(self, pairs: NDArray[Any] | None = None) -> float:
        """Upper bound on the rounding errors of the costs of all pairs, or of some.

        They are (d + 16) roundings of the terms. Only pairs count: an item of large magnitude among small
        ones has no cost to itself.
        """
        if pairs is not None:
            return 2 * self._rounding_share * float(self.pair_terms(*pairs.T).sum())
        sums = np.zeros(self.d + 1)
        terms = sum(add_terms_before(self.rows, block.start, block.stop, sums) for block in self.blocks())
        return 2 * self._rounding_share * float(terms)

    def repulsion_error(self) -> float:
        from clusterfug.bounds.pairs import doubtful_terms

        return 2 * self._rounding_share * doubtful_terms(self, self._rounding_share)

    @property
    def _rounding_share(self) -> float:
        """Upper bound on the rounding error of a cost, as a share of the magnitudes of its terms."""
        return (self.d + 16) * _EPSILON

    def pair_errors(self, pairs: NDArray[Any]) -> NDArray[np.float64]:
        magnitudes = self.magnitudes
        return self._rounding_share * magnitudes[pairs[:, 0]] * magnitudes[pairs[:, 1]]

    def repulsion(self, pairs: NDArray[Any], progress: Progress | None = None) -> "Repulsion":
        from clusterfug.bounds.pairs import dense_repulsion

        return dense_repulsion(self, pairs, progress)

    def scaled_costs(self) -> tuple[NDArray[Any], float]:
        """All pair costs in units of the number that comes with them, to pack triangles."""
        from clusterfug.bounds.packing import scaled_costs

        return scaled_costs(self)

    def divided(self, max_size: int) -> list[NDArray[np.int64]]:
        """All items in groups of similar ones, of at most `max_size`."""
        from clusterfug.bounds.groups import groups_of

        return groups_of(self, max_size)

    def pack_triangles(
        self, memory_limit: int | None, time_limit: float | None, progress: Progress | None
    ) -> "Certificate":
        """Certificate of triangles packed within groups of similar items."""
        from clusterfug.bounds.triangles import pack_features

        return pack_features(self, memory_limit, time_limit, progress)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: the solver never writes to its input, and kernels compile for one type."""
    view = array.view()
    view.flags.writeable = False
    return view
