"""What every solver is: a frozen dataclass of options that runs on a problem and reports its phases.

`core.solve` calls `Solver.run`; `solvers/__init__.py` has the registry.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks

if TYPE_CHECKING:
    from clusterfug.core import Recorder
    from clusterfug.execution.jit import Progress
    from clusterfug.problems.protocol import Problem, Reduction


class Context(NamedTuple):
    """What a solver is given beside the problem."""

    record: "Recorder"
    progress: "Progress | None" = None
    memory_limit: int | None = None
    objective_bound: float = -np.inf  # no objective is smaller, but for rounding


TIME_LIMIT_DOC = "seconds after which refinement stops; by default 60 for best and exact, none for others"


def option(default: Any, doc: str) -> Any:
    """Declare an option of a solver: its default, and the description that the documentation shows."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """How to search for a clustering. The fields of a subclass are its options, declared by `option`."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for documentation and help
    memory: ClassVar[str] = "n d"
    problems: ClassVar[frozenset[str]] = frozenset({"features", "graph", "mixed"})
    #: Where it runs: "cpu", "torch" (tensors on a device), "sharded", "dask".
    executions: ClassVar[frozenset[str]] = frozenset({"cpu"})

    #: Whether `run` records a lower bound of its own.
    proves_optimality: ClassVar[bool] = False

    @abstractmethod
    def run(self, problem: "Problem", context: Context) -> None:
        """Solve the problem, and record labels at the end of every phase."""

    def check(self, n: int) -> None:  # noqa: B027
        """Raise the errors that the number of items or missing packages cause, before any work."""

    def on_nodes(self, reduction: "Reduction") -> "Solver":
        """Return the solver for a reduced problem."""
        return self

    @property
    def refines(self) -> bool:
        """Whether the result is refined by moves and joins."""
        return True

    @property
    def given_seconds(self) -> float | None:
        """The time limit, if one was given: bounds and candidates of a selection have it, too."""
        return getattr(self, "time_limit", None)

    @classmethod
    def options(cls) -> dict[str, str]:
        """Return the names of the options, and what they mean."""
        return {each.name: each.metadata.get("doc", "") for each in fields(cls)}


def starting_labels(init: Any, n: int) -> NDArray[np.int64] | None:
    """Return the labels to start from as 0..K-1; None for singletons."""
    from clusterfug.result import compact

    return None if init is None else compact(checks.labels(init, n, "init"))
