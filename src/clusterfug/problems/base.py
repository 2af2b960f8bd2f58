"""`Solvable`: what `core.solve`, the plan and the executions know about every kind of problem.

`DenseProblem` and `GraphProblem` are problems already, so the defaults are theirs. A `FeatureProblem`
becomes one when its features are read. A new kind declares its name and where it can be solved.
"""

from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from clusterfug.problems.protocol import Problem
    from clusterfug.result import Clustering


class Solvable:
    """A problem, or what one is computed from."""

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
    def expected_work(self) -> int:
        """Number of pairs that have a cost, to solve large problems first."""
        raise NotImplementedError

    def prepared(self, device: Any = None) -> Self:
        """Return the problem with checked and preprocessed features, for the CPU or for a device."""
        return self

    def resolved(self) -> "Problem":
        """Return the problem on the CPU, with its costs."""
        return self  # type: ignore[return-value]

    def described(self, result: "Clustering") -> "Clustering":
        """Return the result with cost model and preprocessing, if the problem has them."""
        return result

    def advised(self, result: "Clustering") -> "Clustering":
        """Return the result, with a warning where another preprocessing would be better."""
        return result
