"""Solvers that refine: "fast", "auto" and "best". Their steps are in `refinement/strategies.py`."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from clusterfug import checks
from clusterfug.result import INTERRUPTED
from clusterfug.solvers.base import (
    TIME_LIMIT_DOC,
    Context,
    Solver,
    option,
    starting_labels,
)

if TYPE_CHECKING:
    from clusterfug.problems.protocol import Problem, Reduction
    from clusterfug.refinement.budget import Budget

#: Seconds that `best` and `exact` search by default.
TIME_LIMIT = 60.0


@dataclass(frozen=True, kw_only=True)
class LocalSearch(Solver):
    """Moves, joins and what follows, from singletons or from given labels."""

    init: Any = option(None, "labels to start from; the result is no worse")
    time_limit: float | None = option(None, TIME_LIMIT_DOC)

    def __post_init__(self) -> None:
        object.__setattr__(self, "time_limit", checks.time_limit(self.time_limit))

    @property
    def generator(self) -> np.random.Generator:
        return np.random.default_rng(0)

    def budget(self, objective_bound: float = -np.inf) -> "Budget":
        from clusterfug.refinement.budget import Budget

        return Budget(self.time_limit, None, objective_bound)

    def check(self, n: int) -> None:
        starting_labels(self.init, n)

    def on_nodes(self, reduction: "Reduction") -> "LocalSearch":
        """Return the solver with initial labels of the nodes: each has that of its first item."""
        if self.init is None or reduction.node_of is None:
            return self
        first = np.unique(reduction.node_of, return_index=True)[1]
        return replace(self, init=checks.labels(self.init, len(reduction.node_of), "init")[first])

    def run(self, problem: "Problem", context: Context) -> None:
        from clusterfug.refinement.strategies import STRATEGIES, Start

        budget = self.budget(context.objective_bound)
        init = starting_labels(self.init, problem.n)
        steps = STRATEGIES[self.name](Start(problem, init, budget, self.generator, context.progress))
        try:
            for phase, refined in steps:
                context.record.phase(phase, *refined)
        finally:
            context.record.n_iter = budget.iterations


@dataclass(frozen=True, kw_only=True)
class FastSearch(LocalSearch):
    """Multilevel moves and joins until no single move and no single join improves the clustering."""

    name: ClassVar[str] = "fast"
    summary: ClassVar[str] = "multilevel moves and joins, until no single move and no single join improves"
    executions: ClassVar[frozenset[str]] = frozenset({"cpu", "torch", "sharded", "dask"})

    several_starts: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class RandomSearch(LocalSearch):
    """A local search with a seed."""

    random_state: Any = option(0, "seed: int, Generator, RandomState or None")

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.generator("random_state", self.random_state)

    @property
    def generator(self) -> np.random.Generator:
        return checks.generator("random_state", self.random_state)


@dataclass(frozen=True, kw_only=True)
class AutoSearch(RandomSearch):
    """`FastSearch` and, where it is cheap, a second start, Kernighan-Lin and a little perturbation."""

    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the default: fast and, where it is cheap, a second start and Kernighan-Lin"
    executions: ClassVar[frozenset[str]] = FastSearch.executions
    several_starts: ClassVar[bool] = True  # on a device, for small problems


@dataclass(frozen=True, kw_only=True)
class BestSearch(RandomSearch):
    """Iterated local search until `time_limit` or `max_iter`, or until nothing improves any more."""

    name: ClassVar[str] = "best"
    summary: ClassVar[str] = "iterated local search until time_limit (60 s), or until nothing improves"
    max_iter: int | None = option(None, "iterations, a budget that does not depend on the machine's speed")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_iter is not None:
            object.__setattr__(self, "max_iter", checks.count("max_iter", self.max_iter, 0))

    def budget(self, objective_bound: float = -np.inf) -> "Budget":
        from clusterfug.refinement.budget import Budget

        limit = self.time_limit
        if limit is None and self.max_iter is None:
            limit = TIME_LIMIT
        return Budget(limit, self.max_iter, objective_bound)

    def run(self, problem: "Problem", context: Context) -> None:
        """As every local search; Ctrl-C during the search keeps the best labels so far."""
        try:
            super().run(problem, context)
        except KeyboardInterrupt:
            if not context.record.has_labels:
                raise
            context.record.phase(INTERRUPTED, context.record.labels)
