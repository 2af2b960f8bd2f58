"""The paper's solvers: "gaec", "dgaec", "dgaec-inc", "dlaec" and "dapplaec". Kernels are in
`contraction/`.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.solvers.base import TIME_LIMIT_DOC, Context, Solver, option

if TYPE_CHECKING:
    from clusterfug.problems.protocol import Problem

#: Approximate searches of `dapplaec`.
INDEXES = ("hnsw", "ivf")
#: Bytes that `gaec` may take for its n x n costs by default.
MEMORY_LIMIT = 4 * 2**30


@dataclass(frozen=True, kw_only=True)
class Contraction(Solver):
    """Merge pairs until none attracts; refine the result if asked to."""

    refine: bool = option(False, "refine the result by moves and joins")
    time_limit: float | None = option(None, TIME_LIMIT_DOC)

    def __post_init__(self) -> None:
        checks.flag("refine", self.refine)
        if self.time_limit is not None and not self.refine:
            raise ValueError(f"time_limit goes with refinement: use refine=True with {self.name}")
        object.__setattr__(self, "time_limit", checks.time_limit(self.time_limit))

    @property
    def refines(self) -> bool:
        return bool(self.refine)

    def run(self, problem: "Problem", context: Context) -> None:
        from clusterfug.contraction.history import labels_of_merges
        from clusterfug.refinement.budget import Budget
        from clusterfug.refinement.multilevel import refine
        from clusterfug.refinement.strategies import or_single_cluster

        record = context.record
        record.merges = self.merges(problem, context)
        labels = labels_of_merges(problem.n, record.merges)
        record.phase("contraction", labels)
        if self.refine:
            budget = Budget(self.time_limit, None, context.objective_bound)
            record.phase("refinement", *refine(problem, or_single_cluster(problem, labels), budget))

    @abstractmethod
    def merges(self, problem: Any, context: Context) -> NDArray[Any]:
        """Return the contraction history."""


@dataclass(frozen=True, kw_only=True)
class Gaec(Contraction):
    """Greedy additive edge contraction (Algorithm 1), with all costs in memory."""

    name: ClassVar[str] = "gaec"
    summary: ClassVar[str] = "Algorithm 1: contracts the pair of largest cost; all costs in memory"
    memory: ClassVar[str] = "n²"

    def merges(self, problem: Any, context: Context) -> NDArray[Any]:
        limit = MEMORY_LIMIT if context.memory_limit is None else context.memory_limit
        return problem.greedy_merges(limit, context.progress, lambda: _searched(problem, context))


@dataclass(frozen=True, kw_only=True)
class NeighbourContraction(Contraction):
    """Contraction on features with a list of neighbours per node."""

    problems: ClassVar[frozenset[str]] = frozenset({"features"})
    neighbours: ClassVar[int] = 5  # kept per node by default
    k: int | None = option(None, "neighbours kept per node; 1 for dgaec and 5 for the others by default")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.k is not None:
            object.__setattr__(self, "k", checks.count("k", self.k))

    def merges(self, problem: Any, context: Context) -> NDArray[Any]:
        k = self.k or self.neighbours
        neighbours = self.search(problem, k, context)
        _searched(problem, context)
        return self.contract(problem, neighbours, k, context)

    def search(self, problem: Any, k: int, context: Context) -> Any:
        from clusterfug.neighbours.exact import exact_neighbours

        return exact_neighbours(problem, k, context.progress)

    @abstractmethod
    def contract(self, problem: Any, neighbours: Any, k: int, context: Context) -> NDArray[Any]: ...


@dataclass(frozen=True, kw_only=True)
class Dgaec(NeighbourContraction):
    """Algorithm 2: the merges of GAEC on features alone, one neighbour per node."""

    name: ClassVar[str] = "dgaec"
    summary: ClassVar[str] = "Algorithm 2: the same merges on features alone, one neighbour per node"
    neighbours: ClassVar[int] = 1

    def contract(self, problem: Any, neighbours: Any, k: int, context: Context) -> NDArray[Any]:
        from clusterfug.contraction.greedy import greedy

        return greedy(problem, neighbours, context.progress)


@dataclass(frozen=True, kw_only=True)
class DgaecInc(Dgaec):
    """Algorithms 2 and 3: the same merges; new nodes inherit five neighbours, so there are fewer
    searches.
    """

    name: ClassVar[str] = "dgaec-inc"
    summary: ClassVar[str] = (
        "Algorithms 2, 3: the same merges, new nodes inherit neighbours: fewer searches"
    )
    neighbours: ClassVar[int] = 5


@dataclass(frozen=True, kw_only=True)
class Dlaec(NeighbourContraction):
    """Lazy contraction: a neighbour graph is used up before the next search."""

    name: ClassVar[str] = "dlaec"
    summary: ClassVar[str] = "lazy contraction: uses a neighbour graph up before it searches again; faster"

    def contract(self, problem: Any, neighbours: Any, k: int, context: Context) -> NDArray[Any]:
        from clusterfug.contraction.lazy import lazy

        return lazy(problem, neighbours, k, context.progress)


@dataclass(frozen=True, kw_only=True)
class Dapplaec(Dlaec):
    """Lazy contraction with an approximate first search (needs faiss)."""

    name: ClassVar[str] = "dapplaec"
    summary: ClassVar[str] = "lazy contraction with an approximate first search (extra [ann]: faiss)"
    ann: str = option("hnsw", "index of the approximate search, hnsw or ivf")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.one_of("ann", self.ann, INDEXES)

    def check(self, n: int) -> None:
        from clusterfug.neighbours.approximate import require_faiss

        require_faiss()

    def search(self, problem: Any, k: int, context: Context) -> Any:
        from clusterfug.neighbours.approximate import approximate_neighbours

        return approximate_neighbours(problem, k, self.ann, context.progress)


def _searched(problem: "Problem", context: Context) -> None:
    """Record the end of the neighbour search: no item has a partner yet."""
    context.record.phase("neighbours", np.arange(problem.n))
