"""Solving with a local threshold: use the given strictness, or select one, and record the reason.

`core.solve` calls `solve_selected`; `api.py` calls `selected_costs` where costs are needed without a
clustering.
"""

import time
from dataclasses import replace

from clusterfug.bounds.compute import compute_bound
from clusterfug.costs.models import CostModel, Local, TargetClusters
from clusterfug.execution.jit import Progress
from clusterfug.execution.plan import Execution
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import Clustering
from clusterfug.selection.candidates import StrictnessSearch
from clusterfug.selection.clearest import clearest
from clusterfug.selection.target import check_target, with_target_count
from clusterfug.solvers import Solver, make_solver


def solve_selected(
    problem: FeatureProblem,
    solver: Solver,
    execution: Execution,
    *,
    bound: bool = False,
    callback: Progress | None = None,
) -> Clustering:
    """Return the clustering of prepared features by a local threshold, with its `Choice`."""
    begin = time.perf_counter()
    costs = problem.costs
    solver.check(problem.shape[0])
    if isinstance(costs, TargetClusters):
        check_target(problem, solver, costs.low)
    search = StrictnessSearch(problem, solver, execution, bound, callback)
    if isinstance(costs, TargetClusters):
        result = with_target_count(search, costs.low, costs.high)
    elif isinstance(costs, Local):
        result = search.final(costs.strictness, f"strictness {costs.strictness:g}, as given", search.init)
    else:
        result = clearest(search)
    seconds = time.perf_counter() - begin
    if bound and result.bound is None:
        assert result.choice is not None
        solved = search.problem(result.choice.strictness)
        found = compute_bound(solved, execution, time_limit=solver.given_seconds, callback=callback)
        result = replace(result, bound=found)
    elif result.bound is not None and not solver.proves_optimality:
        seconds -= result.bound.seconds
    return replace(result, seconds=seconds)


def selected_costs(
    problem: FeatureProblem, execution: Execution, callback: Progress | None = None
) -> CostModel:
    """Return the costs of a problem, with parameters selected where they have to be."""
    if not problem.costs.needs_selection:
        return problem.costs
    search = solve_selected(
        problem.prepared(execution.device), make_solver("fast"), execution, callback=callback
    )
    assert search.costs is not None
    return search.costs
