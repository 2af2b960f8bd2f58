"""Execution in shards: parts of the items are solved one after the other, here or on a dask cluster."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import __version__, checks
from clusterfug.core import recorded
from clusterfug.costs.models import Alpha
from clusterfug.execution import threads
from clusterfug.execution.jit import Progress
from clusterfug.execution.plan import Execution
from clusterfug.execution.sharded import tasks
from clusterfug.execution.sharded.checkpoint import Checkpoint, digest
from clusterfug.execution.sharded.engine import Engine, Here, tree
from clusterfug.execution.sharded.source import Files, most_items, settings_of
from clusterfug.execution.sharded.walk import Known, Shard, Walk
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import Clustering, Phase, number_by_first_appearance
from clusterfug.solvers import Solver
from clusterfug.solvers.base import starting_labels
from clusterfug.solvers.local_search import LocalSearch


def execute(
    problem: Any, solver: Solver, execution: Execution, bound: bool, callback: Progress | None
) -> Clustering:
    """Solve a problem that is too large to solve at once, part after part in this process."""
    engine = Here(execution.memory_limit is not None)
    most = most_items(problem.shape[1], execution.memory_limit)
    if isinstance(problem, FeatureProblem):
        if isinstance(problem.X, Files):
            return solve_files(problem, solver, execution, engine, callback)
        if not (problem.is_prepared or problem.preprocessing.is_identity):
            X = checks.numeric("X", problem.X)
            checks.rectangle(X)
            rows = [(part.start, part.stop, X[part]) for part in threads.slices(len(X), most)]
            identity = "" if execution.checkpoint is None else digest(X)
            return solve_rows(rows, problem, solver, execution, engine, most, identity, callback)
    dense = problem.dense()
    shards = [
        Shard(part.start, part.stop, dense.subset(part), tasks.Recipe(part.start))
        for part in threads.slices(dense.n, most)
    ]
    settings = {} if execution.checkpoint is None else settings_of(dense)
    return solve_shards(shards, solver, execution, engine, most, settings, callback)


def solve_files(
    problem: FeatureProblem,
    solver: Solver,
    execution: Execution,
    engine: Engine,
    callback: Progress | None,
) -> Clustering:
    """Solve a problem whose features are in files; tasks read the parts that they need."""
    files: Files = problem.X
    most = most_items(files.d, execution.memory_limit)
    parts = [(part.start, part.stop) for part in threads.slices(files.n, most)]
    rows = [(*part, files.stretch(*part)) for part in parts]
    return solve_rows(rows, problem, solver, execution, engine, most, files.identity, callback)


def solve_rows(
    rows: list[tuple[int, int, Any]],
    problem: FeatureProblem,
    solver: Solver,
    execution: Execution,
    engine: Engine,
    most: int,
    identity: str,
    callback: Progress | None,
) -> Clustering:
    """Solve a problem whose rows come in parts: (first item, item after the last, rows)."""
    n = rows[-1][1]
    weight = None if problem.sample_weight is None else checks.weights(problem.sample_weight, n)
    costs = problem.costs
    if isinstance(costs, Alpha):
        costs = Alpha(checks.per_item("alpha", costs.alpha, n), costs.prefer)
    mean = None
    if problem.preprocessing.center:
        sums = (
            engine.submit(tasks.sum_of_rows, part, start, None if weight is None else weight[start:stop])
            for start, stop, part in rows
        )
        total = engine.value(tree(sums, lambda group: engine.submit(tasks.add_sums, *group)))
        mean = total / (n if weight is None else weight.sum())
    shards = []
    for start, stop, part in rows:
        items = slice(start, stop)
        recipe = tasks.Recipe(
            start,
            costs.of_items(items),
            None if weight is None else weight[items],
            problem.preprocessing.metric,
            mean,
        )
        shards.append(Shard(start, stop, part, recipe))
    settings = {
        "features": identity,
        "costs": digest(costs.name, *vars(costs).values()),
        "weights": digest(weight),
        "metric": problem.preprocessing.metric,
        "centre": problem.preprocessing.center,
    }
    return solve_shards(shards, solver, execution, engine, most, settings, callback)


def solve_shards(
    shards: list[Shard],
    solver: Solver,
    execution: Execution,
    engine: Engine,
    most: int,
    settings: dict[str, Any],
    callback: Progress | None,
) -> Clustering:
    """Solve shards, and return the clustering of all items."""
    assert isinstance(solver, LocalSearch)  # by the plan
    begin = last = time.perf_counter()
    n = shards[-1].stop
    init, rng = starting_labels(solver.init, n), solver.generator
    settings = settings | {
        "version": __version__,
        "items": n,
        "shards": digest(most, *((shard.start, shard.stop) for shard in shards)),
        "algorithm": solver.name,
        "init": digest(init),
        "seed": digest(rng.bit_generator.state),
    }
    with Checkpoint(execution.checkpoint, settings) as kept:
        walk = Walk(shards, engine, kept, solver.budget(), most, solver.name, rng, callback)
        trace = []
        for name, refined, known in walk.steps(init):
            now, count = time.perf_counter(), int(refined.labels.max()) + 1
            objective = known.all_pairs - known.inside
            trace.append(Phase(name, now - last, count, objective, *refined[1:]))
            last = now
        labels = _labelled(walk, refined.labels, known)
    trace[-1] = trace[-1]._replace(n_clusters=int(labels.max()) + 1)
    return recorded(solver.name, labels, known.inside, trace, begin)


def _labelled(walk: Walk, labels: NDArray[np.int64], known: Known) -> NDArray[np.int64]:
    """Labels numbered by first appearance, also those of items without weight."""
    if known.weightless:
        labels = walk.label_weightless(labels, known)
    return number_by_first_appearance(labels)
