"""Execution on the CPU, all items at once: compiled kernels and BLAS."""

from typing import Any

from clusterfug.core import Recorder
from clusterfug.execution.jit import Progress
from clusterfug.execution.plan import Execution
from clusterfug.result import Clustering
from clusterfug.solvers import Context, Solver


def execute(
    problem: Any, solver: Solver, execution: Execution, bound: bool, callback: Progress | None
) -> Clustering:
    """Solve a problem; a lower bound is computed first, so that a search can stop when it reaches it."""
    record = Recorder(solver.name)
    problem = problem.resolved()
    reduction = problem.reduced()
    solver = solver.on_nodes(reduction)
    solver.check(reduction.problem.n)
    context = Context(record, callback, execution.memory_limit)
    if bound and not solver.proves_optimality:
        from clusterfug.bounds.compute import bound_problem

        record.bound = bound_problem(problem, time_limit=solver.given_seconds, progress=callback)
        record.begin += record.bound.seconds
        reached = record.bound.value + 2 * record.bound.rounding
        context = context._replace(objective_bound=reached)
    solver.run(reduction.problem, context)
    return record.clustering(problem, reduction)
