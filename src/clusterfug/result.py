"""`Clustering`, the result of `core.solve`: the labels, what they cost, and how they were found."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from clusterfug.bounds.certificate import LowerBound
    from clusterfug.costs.models import CostModel
    from clusterfug.costs.preprocessing import Preprocessing
    from clusterfug.problems.links import Links
    from clusterfug.selection.candidates import Choice

#: One record per contraction: node j was merged into node i (i < j) at this cost. A node is named by
#: the lowest item in it.
MERGE = np.dtype([("i", np.int64), ("j", np.int64), ("cost", np.float64)])
_TINY = float(np.finfo(np.float64).tiny)
#: The last phase of a search that Ctrl-C ended.
INTERRUPTED = "interrupted"


class Phase(NamedTuple):
    """One phase of a run: its name, how long it took, and the clustering at its end."""

    name: str
    seconds: float
    n_clusters: int
    objective: float
    move_optimal: bool = False  # no single item can improve the clustering by moving
    join_optimal: bool = False  # no two clusters can improve it by joining
    passes: float | None = None  # searches for neighbours so far, in all pairs of items; only on a GPU


class Distance(NamedTuple):
    """How far a clustering is from a lower bound."""

    objective: float
    inside: float
    bound: "LowerBound"

    @property
    def missing(self) -> float:
        """How much better the best clustering may be; 0 if that may be rounding."""
        missing = self.objective - self.bound.value
        return missing if missing > 2 * self.bound.rounding else 0.0

    @property
    def gap(self) -> float:
        """As a share of the bound."""
        return self.missing / max(abs(self.bound.value), _TINY)

    @property
    def gap_inside(self) -> float:
        """As a share of inside: the bound's inside over ours, minus one."""
        return self.missing / self.inside if self.inside > 0 else (np.inf if self.missing > 0 else 0.0)


@dataclass(frozen=True, eq=False)
class Clustering:
    """A clustering and its certificate of cost.

    Attributes
    ----------
    labels : int64 array of shape (n,)
        Cluster of each item, 0..n_clusters-1, numbered by first appearance.
    objective : float
        Total cost of the pairs the clustering separates, recomputed in float64 from the labels.
    inside : float
        What was gained over cutting every pair: the total cost of the pairs kept together.
    merges : structured array with fields i, j, cost
        The contraction history: ``for i, j, cost in result.merges``. Empty for "auto", "fast" and "best".
    algorithm : str
    n_iter : int
        Iterations of the search of "best"; 0 for the others.
    seconds : float
        Wall time of the run, without that of the bound (``bound.seconds``).
    bound : LowerBound or None
        Why no clustering has a much smaller objective, if that was asked for (``bound=True``) or found
        ("exact"). `lower_bound` is its value.
    gap, gap_inside : float or None
        How far from optimal the clustering is at most: objective minus lower bound, as a share of the
        bound, and as a share of `inside`, which no constant flatters.
    optimal : bool
        Whether it is proven that no clustering is better, but for rounding.
    choice : Choice or None
        How strict a local threshold is, and why (``threshold="auto"`` or "local", ``n_clusters=``).
    costs : CostModel or None
        The cost model that was solved: ``objective(X, labels, result.costs)`` speaks of the same problem.
        Of ``threshold="auto"`` and ``n_clusters=`` it is the `Local` that was selected. None for a
        `DenseProblem` or a graph, which have their costs.
    preprocessing : Preprocessing or None
        Metric and centring of the features that were solved.
    weighted : bool
        Whether the features were solved with ``sample_weight``, which is not part of the result.
    links : Links or None
        What was known about pairs of items (``must_link=`` and others).
    broken_links : int
        Number of links that the clustering breaks; 0 if they are hard.
    trace : tuple of Phase
        Seconds, clusters and objective after each phase; and whether it is certain that no single move
        and no single join improves the clustering (``trace[-1].move_optimal``, ``join_optimal``).
    """

    labels: NDArray[np.int64]
    objective: float
    inside: float
    merges: NDArray[Any]
    algorithm: str
    n_iter: int
    seconds: float
    trace: tuple[Phase, ...]
    bound: "LowerBound | None" = None
    choice: "Choice | None" = None
    costs: "CostModel | None" = None
    preprocessing: "Preprocessing | None" = None
    weighted: bool = False
    links: "Links | None" = None

    @property
    def broken_links(self) -> int:
        """Number of links that the clustering breaks."""
        return 0 if self.links is None else self.links.broken(self.labels)

    @property
    def lower_bound(self) -> float | None:
        """No clustering has a smaller objective."""
        return None if self.bound is None else self.bound.value

    @property
    def gap(self) -> float | None:
        """How far the objective may be from the best, as a share of the bound."""
        return None if self.bound is None else Distance(self.objective, self.inside, self.bound).gap

    @property
    def gap_inside(self) -> float | None:
        """How far inside may be from the best, as a share of inside."""
        return None if self.bound is None else Distance(self.objective, self.inside, self.bound).gap_inside

    @property
    def optimal(self) -> bool:
        """Whether it is proven that no clustering is better, but for rounding."""
        return self.gap == 0

    @property
    def n_clusters(self) -> int:
        return int(self.labels.max()) + 1

    def __repr__(self) -> str:
        return (
            f"Clustering(items={len(self.labels)}, n_clusters={self.n_clusters}, "
            f"objective={self.objective:.2f}, inside={self.inside:.2f}, "
            f"algorithm={self.algorithm!r}, seconds={self.seconds:.2f})"
        )


def compact(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The same clustering with labels 0..K-1, in the order of the old ones."""
    return np.unique(labels, return_inverse=True)[1]


def number_by_first_appearance(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The same clustering with labels 0..K-1 in the order in which clusters first appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]


def agreement(
    labels: NDArray[np.int64], others: NDArray[np.int64], weight: NDArray[np.float64] | None = None
) -> float:
    """Adjusted Rand index of two clusterings 0..K-1: 1 if they are equal, about 0 if by chance."""

    def pairs(of: NDArray[np.int64]) -> float:
        sizes = np.bincount(of, weights=weight)
        return float((sizes * np.maximum(sizes - 1, 0)).sum() / 2)

    both = pairs(compact(labels * (int(others.max()) + 1) + others))
    first, second, every = pairs(labels), pairs(others), pairs(np.zeros_like(labels))
    expected = first * second / every if every > 0 else 0.0
    most = (first + second) / 2
    return (both - expected) / (most - expected) if most != expected else 1.0
