"""The dense multicut problem: features and a signature define the costs of all pairs.

This is where the road starts: a `DenseProblem` is validated input, and everything after it (neighbours,
contraction, result) asks it for costs. The features are kept as they lie, never as an n x n matrix.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import blocks, checks
from clusterfug.assign import cluster_means, most_similar
from clusterfug.costs import Rows, cost_inside, costs_to_items, own_costs, squared_norms, sum_rows
from clusterfug.result import number_by_first_appearance
from clusterfug.strength import Costs, cost_columns

_WORK = 100_000_000  # numbers a kernel touches before it returns to Python, so that Ctrl-C works


class DenseProblem:
    """Weighted correlation clustering of n items on the complete graph, in factorised form.

    The cost of a pair is an indefinite inner product,

        cost(i, j) = w_i w_j (sum_d sigma_d f_id f_jd  -  threshold)                        or
        cost(i, j) = w_i w_j (sum_d sigma_d f_id f_jd -/+ alpha_i alpha_j),

    positive when the pair attracts. A clustering pays the cost of every pair it separates.

    Parameters
    ----------
    X : array of shape (n, d)
        One row of features per item, used as it is (nothing is normalised). float32 and float64 in C
        order are not copied, memory maps included; float16 and small integers become float32.
    threshold : float or "local", default=0.4
        The number subtracted from every inner product. Negative prefers larger clusters. "local" is one
        per item that follows from the features, see `local_alpha`.
    alpha : float or array of shape (n,), optional
        Used instead of `threshold`: the paper's affinity strength, one number or one per item, >= 0.
        A scalar alpha with ``prefer="small"`` is ``threshold=alpha**2``.
    prefer : {"small", "large"}, default="small"
        The sign of the alpha term: "small" subtracts it, "large" adds it.
    sample_weight : array of shape (n,), optional
        Item i counts as that many items (>= 0). An item of weight 0 takes no part in the clustering
        and is labelled afterwards, like a new point.
    strictness, n_neighbors
        Of ``threshold="local"``: 0.6, and 100 or two thirds of the items, unless told otherwise.
    signature : array of shape (d,), optional
        +1 or -1 per feature column; all +1 by default. It does not go with ``threshold="local"``.
    """

    def __init__(
        self,
        X: Any,
        threshold: float | str = 0.4,
        *,
        alpha: Any = None,
        prefer: str = "small",
        sample_weight: Any = None,
        strictness: float | None = None,
        n_neighbors: int | None = None,
        signature: Any = None,
    ) -> None:
        costs = Costs(threshold, alpha, prefer, sample_weight, strictness, n_neighbors)
        if costs.is_local and signature is not None:
            raise ValueError('signature does not go with threshold="local": leave one of them out')
        features = checks.features(X)
        n, d = features.shape
        column, last, weight = cost_columns(features, costs)
        self.threshold = -last if alpha is None and not costs.is_local else None
        signs = np.ones(d) if signature is None else checks.numeric("signature", signature)
        if signs.shape != (d,) or not np.all(np.abs(signs) == 1):
            raise ValueError(f"signature must be {d} numbers, each +1 or -1")
        self.rows = Rows(
            read_only(features),
            read_only(column),
            read_only(weight),
            read_only(np.append(signs, last).astype(np.float64)),
        )
        with np.errstate(over="ignore"):
            checks.costs_in_range(self.largest_cost, n)

    @classmethod
    def from_costs(cls, costs: Any) -> "DenseProblem":
        """The problem of an explicit complete graph: costs[i, j] is the cost of the pair i, j.

        Any symmetric matrix factorises: with eigenvalues l_d and eigenvectors v_d the features are
        sqrt(|l_d|) v_d and the signature is the sign of l_d. The diagonal is in no cost; it is kept
        (unless it is a thousand times the largest cost) because a matrix of low rank is one only with its
        diagonal. Costs are exact up to rounding: of equal ones, any may be taken first.
        """
        matrix = checks.features(costs, "costs").astype(np.float64)
        n = len(matrix)
        if matrix.shape != (n, n):
            raise ValueError(f"a cost matrix must be square, not {matrix.shape}")
        diagonal = matrix.diagonal().copy()
        np.fill_diagonal(matrix, 0.0)
        largest = np.abs(matrix).max()
        uneven = np.argwhere(np.abs(matrix - matrix.T) > 1e-6 * largest)
        if len(uneven):
            i, j = uneven[0]
            raise ValueError(
                f"a cost matrix must be symmetric: costs[{i}, {j}] is {matrix[i, j]:g} "
                f"but costs[{j}, {i}] is {matrix[j, i]:g}"
            )
        np.fill_diagonal(matrix, np.clip(diagonal, -1e3 * largest, 1e3 * largest))
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        kept = np.abs(values) > n * np.finfo(np.float64).eps * np.abs(values).max()
        if not kept.any():
            return cls(np.zeros((n, 1)), threshold=0.0)
        values, vectors = values[kept], vectors[:, kept]
        return cls(vectors * np.sqrt(np.abs(values)), threshold=0.0, signature=np.sign(values))

    def contract(self, labels: NDArray[np.int64]) -> "DenseProblem":
        """The problem whose items are the clusters 0..K-1 of these labels: their rows add.

        Any clustering of it keeps inside what the same clustering of the items keeps inside, less what
        the labels themselves do.
        """
        sums = self.sums(labels, int(labels.max()) + 1)
        features = np.ascontiguousarray(sums[:, :-1])
        return self._with_rows(features, sums[:, -1].copy(), np.ones(len(sums)))

    def sums(self, labels: NDArray[np.int64], k: int) -> NDArray[np.float64]:
        """The extended rows of clusters 0..k-1."""
        sums = np.zeros((k, self.d + 1))
        for part in self.parts():
            sum_rows(self.rows, np.arange(self.n)[part], labels[part], sums)
        return sums

    def beside(self, *others: "DenseProblem") -> "DenseProblem":
        """The problem of these items and those of others, which have the same signature."""
        arrays = zip(self.rows[:3], *(other.rows[:3] for other in others), strict=True)
        return self._with_rows(*(np.concatenate(parts) for parts in arrays))

    def subset(self, items: NDArray[np.int64] | slice) -> "DenseProblem":
        """The problem of some of the items; of a slice without a copy."""
        features, alpha, weight, _ = self.rows
        return self._with_rows(features[items], alpha[items], weight[items])

    def _with_rows(self, *arrays: NDArray[Any]) -> "DenseProblem":
        """A problem with the same signature and these features, alpha and weights."""
        features, alpha, weight = arrays
        return DenseProblem.of(Rows(features, alpha, weight, self.rows.signature))

    @classmethod
    def of(cls, rows: Rows) -> "DenseProblem":
        """The problem of rows that are known to be in order."""
        problem = object.__new__(cls)
        problem.threshold = None
        problem.rows = Rows(*map(read_only, rows))
        return problem

    @property
    def n(self) -> int:
        return int(self.rows.features.shape[0])

    @property
    def d(self) -> int:
        return int(self.rows.features.shape[1])

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.rows = Rows(*map(read_only, self.rows))  # pickling forgets that arrays are read-only

    def __repr__(self) -> str:
        costs = "alpha" if self.threshold is None else f"threshold={self.threshold:g}"
        return f"DenseProblem(n={self.n}, d={self.d}, {costs})"

    def extended(
        self, start: int, stop: int, dtype: Any, scale: float = 1.0, spare: int = 0
    ) -> NDArray[Any]:
        """Extended rows start..stop-1 times a scale: a fresh block of d + 1 columns and spare zeros."""
        features, alpha = self.rows.features[start:stop], self.rows.alpha[start:stop]
        factor = self.rows.weight[start:stop] * scale
        block = np.zeros((stop - start, self.d + 1 + spare), dtype=dtype)
        if np.all(factor == factor[0]) and 1e-30 < factor[0] < 1e30:  # one product, without leaving dtype
            np.multiply(features, dtype(factor[0]), out=block[:, : self.d], casting="same_kind")
        else:
            np.multiply(features, factor[:, None], out=block[:, : self.d], casting="same_kind")
        block[:, self.d] = factor * alpha
        return block

    def queries(
        self, start: int, stop: int, dtype: Any, scale: float = 1.0, spare: int = 0
    ) -> NDArray[Any]:
        """The same rows times the signature: queries @ rows.T are costs."""
        block = self.extended(start, stop, dtype, scale, spare)
        signature, last = self.rows.signature[:-1], self.rows.signature[-1]
        if np.any(signature < 0):
            block[:, : self.d] *= signature.astype(dtype)
        factor = self.rows.weight[start:stop] * scale
        block[:, self.d] = factor * self.rows.alpha[start:stop] * last
        return block

    def closeness(self, i: int) -> NDArray[Any]:
        """What item i costs to every item: larger is closer."""
        query = self.queries(i, i + 1, np.float64)[0]
        costs = np.empty(self.n)
        for part in self.parts():
            costs_to_items(self.rows, query, part.start, part.stop, costs)
        return costs

    def group_costs(self, items: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """The costs between groups 0..m-1 of items; 0 on the diagonal."""
        sums = np.zeros((int(groups.max()) + 1, self.d + 1))
        sum_rows(self.rows, items, groups, sums)
        costs = blocks.product(sums * self.rows.signature, sums.T)
        np.fill_diagonal(costs, 0.0)
        return costs

    @cached_property
    def norms(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lengths of the queries and of the extended rows."""
        squares = np.empty(self.n), np.empty(self.n)
        for part in self.parts():
            squared_norms(self.rows, part.start, part.stop, *squares)
        return np.sqrt(squares[0]), np.sqrt(squares[1])

    @cached_property
    def own_costs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What every item costs to itself, and numbers u with |cost(i, j)| <= u_i u_j."""
        own, magnitudes = np.empty(self.n), np.empty(self.n)
        for part in self.parts():
            own_costs(self.rows, part.start, part.stop, own, magnitudes)
        return own, magnitudes

    @property
    def largest_cost(self) -> float:
        """No pair of items costs more than this, either way."""
        query_norms, row_norms = self.norms
        return float(query_norms.max() * row_norms.max())

    def parts(self) -> Iterator[slice]:
        """All items, in parts of about _WORK numbers."""
        step = max(1, _WORK // (self.d + 1))
        for start in range(0, self.n, step):
            yield slice(start, min(self.n, start + step))

    def inside(self, labels: Any) -> float:
        """Total cost of the pairs that share a label: what the clustering keeps. O(n d), float64."""
        labels = checks.labels(labels, self.n)
        items = np.argsort(labels, kind="stable")
        labels = labels[items]
        seen = np.zeros(self.d + 1)
        total = 0.0
        for part in self.parts():
            if part.start and labels[part.start] != labels[part.start - 1]:
                seen[:] = 0.0
            total += cost_inside(self.rows, items[part], labels[part], seen)
        return total

    @cached_property
    def all_singletons(self) -> float:
        """Objective of the clustering that cuts every pair: the total cost of all pairs."""
        return self.inside(np.zeros(self.n, dtype=np.int64))

    def objective(self, labels: Any) -> float:
        """Total cost of the pairs i < j with different labels, in float64 from the labels alone."""
        return self.all_singletons - self.inside(labels)

    def label_weightless(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels with the items of weight 0 moved to the cluster of most similar mean feature."""
        features, _, weight, signature = self.rows
        absent = np.flatnonzero(weight == 0)
        if not len(absent):
            return labels
        labels = labels.copy()
        present = weight > 0
        labels[present] = number_by_first_appearance(labels[present])
        labels[absent] = 0  # anywhere: without weight they do not change a mean
        means = cluster_means(features, labels, weight)
        means *= signature[:-1].astype(means.dtype)
        labels[absent] = most_similar(features, means, absent)
        return number_by_first_appearance(labels)


def objective(
    X: Any,
    labels: Any,
    threshold: float | str = 0.4,
    *,
    alpha: Any = None,
    prefer: str = "small",
    sample_weight: Any = None,
    strictness: float | None = None,
    n_neighbors: int | None = None,
) -> float:
    """Objective of a clustering: the total cost of the pairs of items that `labels` separates.

    Parameters are those of `DenseProblem`, or X is a `DenseProblem`. Computed in float64 in O(n d).
    """
    costs = Costs(threshold, alpha, prefer, sample_weight, strictness, n_neighbors)
    problem = as_problem(X, costs)
    return problem.objective(labels)


def as_problem(X: Any, costs: Costs) -> DenseProblem:
    """X if it is a problem already (then it takes no cost options), else the problem of features X."""
    if not isinstance(X, DenseProblem):
        return DenseProblem(X, **costs._asdict())
    checks.no_costs(costs)
    return X


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only view: the solver never writes to its input, and kernels compile for one type."""
    view = array.view()
    view.flags.writeable = False
    return view
