"""Execution in shards, one after the other in this process. `execution.dask.solve` shares its functions."""

from dataclasses import replace
from typing import Any

import numpy as np

from clusterfug import __version__, checks
from clusterfug.core import recorded
from clusterfug.costs.models import Alpha
from clusterfug.costs.preprocessing import AS_GIVEN
from clusterfug.execution import threads
from clusterfug.execution.jit import Progress, clock
from clusterfug.execution.plan import Execution
from clusterfug.execution.sharded import tasks
from clusterfug.execution.sharded.checkpoint import Checkpoint, digest
from clusterfug.execution.sharded.driver import Driver, Shard
from clusterfug.execution.sharded.engine import Engine, LocalEngine, tree_reduce
from clusterfug.execution.sharded.source import max_items
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import Clustering, Phase, number_by_first_appearance
from clusterfug.solvers import Solver
from clusterfug.solvers.base import starting_labels
from clusterfug.solvers.local_search import LocalSearch


def execute(
    problem: Any, solver: Solver, execution: Execution, bound: bool, callback: Progress | None
) -> Clustering:
    """Solve a problem that is too large to solve at once."""
    engine = LocalEngine(execution.memory_limit is not None)
    if isinstance(problem, DenseProblem):
        return _solve_dense(problem, solver, execution, engine, callback)
    if not problem.is_stored:
        if problem.is_prepared:
            problem = replace(problem, preprocessing=AS_GIVEN)
        X = checks.numeric("X", checks.on_host(problem.X))
        checks.rectangle(X)
        problem = replace(problem, X=X)
    return solve_features(problem, solver, execution, engine, callback)


def _solve_dense(
    problem: DenseProblem, solver: Solver, execution: Execution, engine: Engine, callback: Progress | None
) -> Clustering:
    parts = threads.slices(problem.n, max_items(problem.d, execution.memory_limit))
    shards = [Shard(part.start, part.stop, problem.subset(part), tasks.Recipe()) for part in parts]
    settings = {}
    if execution.checkpoint is not None:
        features, alpha, weight, signature = problem.rows
        settings = {
            "features": digest(features),
            "costs": digest(alpha, signature),
            "weights": digest(weight),
        }
    return solve_shards(shards, problem.d, solver, execution, engine, settings, callback)


def solve_features(
    problem: FeatureProblem,
    solver: Solver,
    execution: Execution,
    engine: Engine,
    callback: Progress | None,
) -> Clustering:
    """Solve a problem whose features are an array, or in files that tasks read in parts."""
    X = problem.X
    identity = ""
    if execution.checkpoint is not None:
        identity = X.identity if problem.is_stored else digest(X)
    n, d = problem.shape
    parts = threads.slices(n, max_items(d, execution.memory_limit))
    rows = [(part.start, part.stop, X[part]) for part in parts]
    return solve_rows(rows, problem, solver, execution, engine, identity, callback)


def solve_rows(
    rows: list[tuple[int, int, Any]],
    problem: FeatureProblem,
    solver: Solver,
    execution: Execution,
    engine: Engine,
    identity: str,
    callback: Progress | None,
) -> Clustering:
    """Solve a problem whose rows are given in parts: (first item, item after the last, rows)."""
    n, d = problem.shape
    weight = None if problem.sample_weight is None else checks.weights(problem.sample_weight, n)
    costs = problem.costs
    if isinstance(costs, Alpha):
        costs = Alpha(checks.per_item("alpha", costs.alpha, n), costs.prefer)
    metric = problem.preprocessing.metric
    shards = []
    for start, stop, part in rows:
        items = slice(start, stop)
        weight_of_items = None if weight is None else weight[items]
        recipe = tasks.Recipe(start, costs.of_items(items), weight_of_items, metric)
        shards.append(Shard(start, stop, part, recipe))
    if problem.preprocessing.center:
        sums = (engine.submit(tasks.sum_shard, shard.rows, shard.recipe) for shard in shards)
        total = engine.value(tree_reduce(sums, lambda group: engine.submit(np.add, *group)))
        mean = total / (n if weight is None else weight.sum())
        shards = [shard._replace(recipe=shard.recipe._replace(mean=mean)) for shard in shards]
    settings = {
        "features": identity,
        "costs": digest(costs.name, *vars(costs).values()),
        "weights": digest(weight),
        "metric": metric,
        "center": problem.preprocessing.center,
    }
    return solve_shards(shards, d, solver, execution, engine, settings, callback)


def solve_shards(
    shards: list[Shard],
    d: int,
    solver: Solver,
    execution: Execution,
    engine: Engine,
    settings: dict[str, Any],
    callback: Progress | None,
) -> Clustering:
    """Solve shards of items with d features, and return the clustering of all items."""
    assert isinstance(solver, LocalSearch)  # by the plan
    begin = last = clock()
    n, most = shards[-1].stop, max_items(d, execution.memory_limit)
    init, rng = starting_labels(solver.init, n), solver.generator
    settings = settings | {
        "version": __version__,
        "items": n,
        "shards": digest(most, *((shard.start, shard.stop) for shard in shards)),
        "algorithm": solver.name,
        "init": digest(init),
        "seed": digest(rng.bit_generator.state),
    }
    trace = []
    with Checkpoint(execution.checkpoint, settings) as checkpoint:
        driver = Driver(shards, engine, checkpoint, solver.budget(), most, solver.name, rng, callback)
        for name, refined, evaluation in driver.phases(init):
            now, count = clock(), int(refined.labels.max()) + 1
            trace.append(Phase(name, now - last, count, evaluation.objective, *refined[1:]))
            last = now
        labels = refined.labels
        if evaluation.weightless:
            labels = driver.label_weightless(labels, evaluation)
    labels = number_by_first_appearance(labels)
    trace[-1] = trace[-1]._replace(n_clusters=int(labels.max()) + 1)
    return recorded(solver.name, labels, evaluation.inside, trace, begin)
