"""The `Problem` protocol: all that contraction, refinement, bounds and exact solvers know about the costs.

`DenseProblem` and `GraphProblem` implement it. A new kind of cost is one more class with these methods; no
algorithm asks which kind it has. The algorithms stay in their own packages: a problem selects the
implementation for its kind and imports it when it is first called.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import Progress

if TYPE_CHECKING:
    from clusterfug.bounds.certificate import Certificate
    from clusterfug.bounds.pairs import Repulsion
    from clusterfug.refinement.budget import Budget


class Problem(Protocol):
    """Correlation clustering of items 0..n-1: a clustering pays the cost of every pair that it cuts.

    A pair of positive cost attracts, a pair of negative cost repels. Labels are int64 arrays of shape (n,).
    Where a method takes labels 0..K-1, every number from 0 to K-1 occurs.
    """

    @property
    def n(self) -> int:
        """Number of items."""
        ...

    # The objective.

    @property
    def all_singletons(self) -> float:
        """Objective of the clustering that cuts every pair: the total cost of all pairs."""
        ...

    def inside(self, labels: Any) -> float:
        """Total cost of the pairs that share a label, in float64."""
        ...

    def objective(self, labels: Any) -> float:
        """Total cost of the pairs that the labels separate: ``all_singletons - inside(labels)``."""
        ...

    def label_weightless(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels in which items without influence on any cost are assigned to a plausible cluster.

        Returns the labels themselves if there are no such items.
        """
        ...

    # Derived problems and costs between groups.

    def contract(self, labels: NDArray[np.int64]) -> "Problem":
        """Contracted problem whose items are the clusters 0..K-1 of the labels; costs between clusters add.

        For labels of the contracted problem ``inside`` is that of the same clustering of the items, less
        the ``inside`` of the labels that were contracted.
        """
        ...

    def closeness(self, i: int) -> NDArray[np.float64]:
        """Closeness of every item to item i, shape (n,). Only the order matters: larger is closer."""
        ...

    def group_costs(self, items: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """Symmetric matrix (m, m) of the costs between groups of items, with a zero diagonal.

        ``groups[t]`` in 0..m-1 is the group of ``items[t]``.
        """
        ...

    # Contraction.

    def greedy_merges(
        self, memory_limit: int, progress: Progress | None, searched: Callable[[], None]
    ) -> NDArray[Any]:
        """Contraction history of GAEC, within so many bytes; `searched` is called when costs are known."""
        ...

    # Local search.

    def partners(self, progress: Progress | None = None) -> Any:
        """Input of `first_moves` and `contract_partners`, in a format of the problem's own."""
        ...

    def first_moves(self, partners: Any, rng: np.random.Generator | None = None) -> NDArray[np.int64]:
        """Labels 0..K-1 after a few passes of single-item moves, starting from singletons.

        The order of the items follows from the costs, or is random if a generator is given.
        """
        ...

    def move_items(self, labels: NDArray[np.int64], budget: "Budget") -> tuple[NDArray[np.int64], bool]:
        """Apply improving single-item moves to labels 0..K-1 until none is left or the budget is over.

        Returns labels 0..K'-1, and True if they are move-optimal: no single move improves them.
        """
        ...

    def contract_partners(self, partners: Any) -> NDArray[np.void]:
        """Contraction history of a greedy contraction, a start that differs from `first_moves`.

        `partners` may be overwritten.
        """
        ...

    def affords_second_start(self, nodes: int) -> bool:
        """Whether contraction, and polishing in neighbourhoods of `nodes` nodes, take about a second."""
        ...

    def affords_polishing(self, nodes: int) -> bool:
        """Whether polishing in neighbourhoods of `nodes` nodes is cheap, in itself or relatively."""
        ...

    # Lower bounds.

    @property
    def has_whole_costs(self) -> bool:
        """Whether all costs are integers with sums that are exact in float64: then so are objectives."""
        ...

    @property
    def cost_error(self) -> float:
        """Upper bound on the rounding error of a sum over the costs of distinct pairs."""
        ...

    def pair_errors(self, pairs: NDArray[Any]) -> NDArray[np.float64]:
        """Upper bounds on the rounding errors of the costs of some pairs, shape (m,) for pairs (m, 2)."""
        ...

    def repulsion(self, pairs: NDArray[Any], progress: Progress | None = None) -> "Repulsion":
        """Sum of the negative costs of all pairs except `pairs`, and the costs of `pairs`.

        `pairs` has shape (m, 2), lower item first, and is sorted lexicographically.
        """
        ...

    def pack_triangles(
        self, memory_limit: int | None, time_limit: float | None, progress: Progress | None
    ) -> "Certificate":
        """Certificate of a lower bound, made of conflicted triangles, without its residuals."""
        ...
