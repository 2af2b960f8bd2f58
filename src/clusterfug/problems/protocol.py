"""What a kind of problem implements: `Solvable` for the core and the executions, `Problem` for algorithms.

`DenseProblem` and `GraphProblem` are problems. A `FeatureProblem` is solvable: it becomes a problem when
its features are read. A new kind of cost is one more class; no algorithm asks which kind it has. The
algorithms stay in their own packages: a problem selects the implementation for its kind and imports it when
it is first called.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import Progress

if TYPE_CHECKING:
    from clusterfug.bounds.certificate import Certificate
    from clusterfug.bounds.pairs import Repulsion
    from clusterfug.problems.links import Links
    from clusterfug.refinement.budget import Budget
    from clusterfug.result import Clustering


#: A gain counts if it exceeds this share of the magnitudes of the terms that it is the sum of. A smaller
#: one may be rounding: "no single move improves" means that none gains more. (2^-53 is about 1e-16; the
#: rest is for sums of many terms.)
GAIN_TOLERANCE = 1e-12
_EPSILON = float(np.finfo(np.float64).eps)


class Solvable(ABC):
    """A problem, or what one is computed from: all that the core, the plan and executions know of it."""

    kind: ClassVar[str]
    #: Where it can be solved: "cpu", "torch" (tensors on a device), "sharded", "dask".
    executions: ClassVar[frozenset[str]]
    #: Whether parameters of the costs are selected from the data before the problem is solved.
    needs_selection: bool = False
    #: Whether the costs are a local threshold, whose strictness is given or selected.
    has_strictness: bool = False
    #: Whether the features are in files, to be read in parts or at once.
    is_stored: bool = False
    #: Whether costs depend on the neighbours of each item, which shards do not know.
    needs_all_items: bool = False

    @property
    def noun(self) -> str:
        """How errors call it."""
        return f"a {self.kind} problem"

    @property
    @abstractmethod
    def expected_work(self) -> int:
        """Number of pairs that have a cost, to solve large problems first."""

    @abstractmethod
    def linked(self, links: "Links") -> "Solvable":
        """Return the problem with what is known about pairs of its items."""

    def prepared(self, device: Any = None) -> Self:
        """Return the problem with checked and preprocessed features, for the CPU or for a device."""
        return self

    @abstractmethod
    def resolved(self) -> "Problem":
        """Return the problem on the CPU, with its costs."""

    def described(self, result: "Clustering") -> "Clustering":
        """Return the result with cost model and preprocessing, if the problem has them."""
        return result

    def advised(self, result: "Clustering") -> "Clustering":
        """Return the result, with a warning where another preprocessing would be better."""
        return result


class LabelCosts(NamedTuple):
    """What a clustering costs: every pair is in one of the two sums."""

    inside: float  # total cost of the pairs that share a label
    objective: float  # total cost of the other pairs


class GroupCosts(NamedTuple):
    """Costs between groups of items."""

    costs: NDArray[np.float64]  # (m, m) symmetric, with a zero diagonal
    magnitude: float  # of the terms of the costs of a group to all others: the largest of their sums
    apart: NDArray[np.bool_] | None = None  # (m, m) groups that must be apart; None: there are none

    @property
    def tolerance(self) -> float:
        """Minimum gain of a move of a group."""
        tolerance = GAIN_TOLERANCE * self.magnitude
        if self.apart is not None:  # rounding of the costs of groups that must be apart
            tolerance += 32 * _EPSILON * self.penalty * int(self.apart.sum(axis=1).max())
        return tolerance

    @property
    def penalty(self) -> float:
        """What it costs in `constrained` to put two groups together that must be apart."""
        if self.apart is None:
            return 0.0
        magnitudes = np.abs(self.costs)
        return float(magnitudes[~self.apart].sum() or magnitudes.max(initial=0.0) or 1.0)

    @property
    def constrained(self) -> NDArray[np.float64]:
        """Costs with which it never pays to put groups together that must be apart: a penalty for them.

        The penalty exceeds what all other costs can make up for. If these are multiples of a number, it is
        one, too.
        """
        return self.costs if self.apart is None else np.where(self.apart, -self.penalty, self.costs)


class Reduction(NamedTuple):
    """A problem with fewer items, and which of them stands for each item of the original one."""

    problem: "Problem"
    node_of: NDArray[np.int64] | None  # None: every item stands for itself

    def to_items(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels of the items from labels of the nodes."""
        return labels if self.node_of is None else labels[self.node_of]

    def merges_of_items(self, merges: NDArray[Any]) -> NDArray[Any]:
        """A contraction history of the nodes, each named by its lowest item."""
        if self.node_of is None or not len(merges):
            return merges
        lowest = np.unique(self.node_of, return_index=True)[1]
        merges = merges.copy()
        ends = lowest[merges["i"]], lowest[merges["j"]]
        merges["i"], merges["j"] = np.minimum(*ends), np.maximum(*ends)
        return merges


class Problem(Solvable):
    """Correlation clustering of items 0..n-1: a clustering pays the cost of every pair that it cuts.

    A pair of positive cost attracts, a pair of negative cost repels. Labels are int64 arrays of shape (n,).
    Where a method takes labels 0..K-1, every number from 0 to K-1 occurs.
    """

    n: int  # number of items

    def resolved(self) -> "Problem":
        return self

    # The objective.

    @abstractmethod
    def costs_of(self, labels: Any) -> "LabelCosts":
        """Total costs of the pairs that share a label, and of those that do not, in float64.

        Each is the sum of its own pairs: a difference of sums would hide small costs of the pairs that are
        cut behind huge costs of pairs that are kept together.
        """

    def inside(self, labels: Any) -> float:
        """Total cost of the pairs that share a label."""
        return self.costs_of(labels).inside

    def objective(self, labels: Any) -> float:
        """Total cost of the pairs that the labels separate."""
        return self.costs_of(labels).objective

    @cached_property
    def all_singletons(self) -> float:
        """Objective of the clustering that cuts every pair: the total cost of all pairs."""
        return self.inside(np.zeros(self.n, dtype=np.int64))

    def linked(self, links: "Links") -> "Problem":
        """The problem with what is known about pairs of items."""
        from clusterfug.problems.mixed import MixedProblem

        return MixedProblem.with_links(self, links)

    def reduced(self) -> "Reduction":
        """The problem to solve: items that must be together are one item of it."""
        return Reduction(self, None)

    def feasible(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Labels 0..K-1 in which items that must be apart are apart; the given ones if they are."""
        return labels

    def label_weightless(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Final labels: items without influence on any cost are assigned to a plausible cluster."""
        return labels

    # Derived problems and costs between groups.

    @abstractmethod
    def contract(self, labels: NDArray[np.int64]) -> "Problem":
        """Contracted problem whose items are the clusters 0..K-1 of the labels; costs between clusters add.

        For labels of the contracted problem ``inside`` is that of the same clustering of the items, less
        the ``inside`` of the labels that were contracted.
        """

    @abstractmethod
    def closeness(self, i: int) -> NDArray[np.float64]:
        """Closeness of every item to item i, shape (n,). Only the order matters: larger is closer."""

    @abstractmethod
    def group_costs(self, items: NDArray[np.int64], groups: NDArray[np.int64]) -> GroupCosts:
        """Costs between groups of items; ``groups[t]`` in 0..m-1 is the group of ``items[t]``."""

    # Contraction.

    @abstractmethod
    def greedy_merges(
        self, memory_limit: int, progress: Progress | None, searched: Callable[[], None]
    ) -> NDArray[Any]:
        """Contraction history of GAEC, in limited memory; `searched` is called when costs are known."""

    # Local search.

    @abstractmethod
    def partners(self, progress: Progress | None = None) -> Any:
        """Input of `first_moves` and `contract_partners`, in a format of the problem's own."""

    @abstractmethod
    def first_moves(self, partners: Any, rng: np.random.Generator | None = None) -> NDArray[np.int64]:
        """Labels 0..K-1 after a few passes of single-item moves, starting from singletons.

        The order of the items follows from the costs, or is random if a generator is given.
        """

    def subdivide(self, labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64] | None:
        """Labels of parts of the clusters: moves along edges from singletons within every cluster.

        None if only a search among all pairs would find the parts.
        """
        return None

    @abstractmethod
    def move_items(self, labels: NDArray[np.int64], budget: "Budget") -> tuple[NDArray[np.int64], bool]:
        """Apply improving single-item moves to labels 0..K-1 until none is left or the budget is over.

        Returns labels 0..K'-1, and True if they are move-optimal: no single move improves them.
        """

    def join_clusters(self, labels: NDArray[np.int64], budget: "Budget") -> tuple[NDArray[np.int64], bool]:
        """Move whole clusters 0..K-1 of the labels until no such move is left or the budget is over.

        Returns labels of the clusters, and True if they are join-optimal: no join improves them.
        """
        return self.contract(labels).move_items(np.arange(int(labels.max()) + 1), budget)

    @abstractmethod
    def any_attracts(self, partners: Any) -> bool:
        """Whether any two items attract each other, from what `partners` returned."""

    @abstractmethod
    def contract_partners(self, partners: Any, budget: "Budget") -> NDArray[np.void]:
        """Contraction history of a greedy contraction, a start that differs from `first_moves`.

        It may end early when the time of the budget is over. `partners` may be overwritten.
        """

    @abstractmethod
    def affords_second_start(self, nodes: int) -> bool:
        """Whether contraction, and polishing in neighbourhoods of `nodes` nodes, take about a second."""

    def affords_polishing(self, nodes: int) -> bool:
        """Whether polishing in neighbourhoods of `nodes` nodes is cheap, in itself or relatively."""
        return self.affords_second_start(nodes)

    # Lower bounds.

    @property
    def has_whole_costs(self) -> bool:
        """Whether all costs are integers with sums that are exact in float64: then so are objectives."""
        return False

    @abstractmethod
    def cost_error(self, pairs: NDArray[Any] | None = None) -> float:
        """Upper bound on the rounding errors of the costs of all pairs, or of some (m, 2)."""

    @abstractmethod
    def repulsion_error(self) -> float:
        """Upper bound on the rounding errors of the costs of pairs that may repel.

        Pairs that attract beyond doubt are left out: their costs are in no sum of negative costs, and
        no good clustering cuts them.
        """

    def pair_errors(self, pairs: NDArray[Any]) -> NDArray[np.float64]:
        """Upper bounds on the rounding errors of the costs of some pairs, shape (m,) for pairs (m, 2)."""
        return np.zeros(len(pairs))

    @abstractmethod
    def repulsion(self, pairs: NDArray[Any], progress: Progress | None = None) -> "Repulsion":
        """Sum of the negative costs of all pairs except `pairs`, and the costs of `pairs`.

        `pairs` has shape (m, 2), lower item first, and is sorted lexicographically. Pairs that must
        be apart may count with their costs, whatever the sign.
        """

    def always_cut(self, pairs: NDArray[Any]) -> NDArray[np.bool_]:
        """Which of some pairs must be apart: every clustering pays their costs."""
        return np.zeros(len(pairs), dtype=np.bool_)

    @abstractmethod
    def pack_triangles(
        self, memory_limit: int | None, time_limit: float | None, progress: Progress | None
    ) -> "Certificate":
        """Certificate of a lower bound, made of conflicted triangles, without its residuals."""
