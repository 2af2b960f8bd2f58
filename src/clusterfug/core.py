"""The core: `solve(problem, solver, execution)` returns a `Clustering`.

The functions of `api.py`, the estimator, the command line, threshold paths and batches call it, never each
other. Selection calls `execute` for its candidates. `Recorder` and `recorded` are the only places where a
`Clustering` is built.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import clock
from clusterfug.result import MERGE, Clustering, Phase, number_by_first_appearance

if TYPE_CHECKING:
    from clusterfug.bounds.certificate import LowerBound
    from clusterfug.execution.jit import Progress
    from clusterfug.execution.plan import Execution
    from clusterfug.problems.features import FeatureProblem
    from clusterfug.problems.protocol import Problem, Reduction, Solvable
    from clusterfug.solvers import Solver

#: Modules that execute a solver, by the kind of execution; each has a function `execute`.
EXECUTORS = {
    "cpu": "clusterfug.execution.cpu",
    "torch": "clusterfug.execution.torch.solve",
    "sharded": "clusterfug.execution.sharded.solve",
    "dask": "clusterfug.execution.dask.solve",
}


def solve(
    problem: "Solvable",
    solver: "Solver",
    execution: "Execution",
    *,
    bound: bool = False,
    callback: "Progress | None" = None,
) -> Clustering:
    """Solve a problem with a solver, where the execution says, and return the clustering.

    The result carries the cost model that was solved and the preprocessing. With ``bound=True`` it has a
    lower bound on the objective, too.
    """
    if problem.needs_all_items or not execution.is_sharded:
        problem = problem.prepared(execution.device)
    if problem.has_strictness:
        from clusterfug.selection.select import solve_selected

        result = solve_selected(
            cast("FeatureProblem", problem), solver, execution, bound=bound, callback=callback
        )
    else:
        result = execute(problem, solver, execution, bound=bound, callback=callback)
    result = problem.described(result)
    return result if execution.is_sharded else problem.advised(result)


def execute(
    problem: "Solvable",
    solver: "Solver",
    execution: "Execution",
    *,
    bound: bool = False,
    callback: "Progress | None" = None,
) -> Clustering:
    """Solve a problem whose costs are known, without selection."""
    executor = import_module(EXECUTORS[execution.kind])
    result: Clustering = executor.execute(problem, solver, execution, bound, callback)
    return result


class _Step(NamedTuple):
    name: str
    end: float  # seconds of the clock
    labels: NDArray[np.int64]
    move_optimal: bool
    join_optimal: bool


class Recorder:
    """Time and labels at the end of every phase of a run on the CPU, and the `Clustering` that they
    make.
    """

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm
        self.begin = clock()
        self.merges: NDArray[Any] = np.empty(0, dtype=MERGE)
        self.n_iter = 0
        self.bound: LowerBound | None = None
        self._steps: list[_Step] = []

    def phase(
        self, name: str, labels: NDArray[np.int64], move_optimal: bool = False, join_optimal: bool = False
    ) -> None:
        """Record the end of a phase; a phase of the same name as the last one replaces it."""
        step = _Step(name, clock(), labels, move_optimal, join_optimal)
        if self._steps and self._steps[-1].name == name:
            self._steps.pop()
        self._steps.append(step)

    @property
    def has_labels(self) -> bool:
        return bool(self._steps)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels at the end of the last phase."""
        return self._steps[-1].labels

    @property
    def last_seconds(self) -> float:
        """Seconds that the last phase took."""
        begin = self._steps[-2].end if len(self._steps) > 1 else self.begin
        return self._steps[-1].end - begin

    def clustering(self, problem: "Problem", reduction: "Reduction") -> Clustering:
        """Return the result for a problem whose reduction was solved: labels are costed in float64."""
        trace = []
        last = self.begin
        for name, end, step_labels, *optimal in self._steps:
            labels = final_labels(problem, reduction.to_items(step_labels))
            inside, objective = problem.costs_of(labels)
            trace.append(Phase(name, end - last, int(labels.max()) + 1, objective, *optimal))
            last = end
        merges = reduction.merges_of_items(self.merges)
        return recorded(self.algorithm, labels, inside, trace, self.begin, merges, self.n_iter, self.bound)


def recorded(
    algorithm: str,
    labels: NDArray[np.int64],
    inside: float,
    trace: Sequence[Phase],
    begin: float,
    merges: NDArray[Any] | None = None,
    n_iter: int = 0,
    bound: "LowerBound | None" = None,
) -> Clustering:
    """Return the `Clustering` of labels that are costed already; its objective is that of the last
    phase.
    """
    return Clustering(
        labels=labels,
        objective=trace[-1].objective,
        inside=inside,
        merges=np.empty(0, dtype=MERGE) if merges is None else merges,
        algorithm=algorithm,
        n_iter=n_iter,
        seconds=clock() - begin,
        trace=tuple(trace),
        bound=bound,
    )


def final_labels(problem: "Problem", labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return labels numbered by first appearance, with items of weight 0 assigned to clusters."""
    return problem.label_weightless(number_by_first_appearance(labels))
