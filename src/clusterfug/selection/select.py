"""Solving with a local threshold: takes the given strictness, or calls `auto` or `target` to select one.

`core.solve` calls `solve_selected`; `api.py` calls `selected_costs` where costs are needed without a
clustering.
"""

from dataclasses import replace

from clusterfug.costs.models import CostModel, Local, TargetClusters
from clusterfug.execution.jit import Progress, clock
from clusterfug.execution.plan import Execution
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import Clustering
from clusterfug.selection.auto import clearest
from clusterfug.selection.candidates import StrictnessSearch
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
    """Return the clustering of prepared features with a local threshold, and its `Choice`."""
    begin = clock()
    costs = problem.costs
    solver.check(problem.shape[0])
    if isinstance(costs, TargetClusters):
        check_target(problem, solver, costs.low)
    search = StrictnessSearch(problem, solver, execution, bound, callback)
    if isinstance(costs, TargetClusters):
        result = with_target_count(search, costs.low, costs.high)
    elif isinstance(costs, Local):
        result = search.solve_final(
            costs.strictness, f"strictness {costs.strictness:g}, as given", search.init
        )
    else:
        result = clearest(search)
    seconds = clock() - begin
    if bound and result.bound is None:
        from clusterfug.bounds.compute import compute_bound

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
    """Return the cost model that is selected for prepared features, by the solver "fast"."""
    result = solve_selected(problem, make_solver("fast"), execution, callback=callback)
    assert result.costs is not None
    return result.costs
