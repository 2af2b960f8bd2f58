"""The door: shards go in, a `Clustering` comes out."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import __version__, blocks, checks
from clusterfug.kernels import Progress
from clusterfug.options import ON_GPU, Task
from clusterfug.preprocess import METRICS
from clusterfug.problem import DenseProblem
from clusterfug.result import MERGE, Clustering, Phase, number_by_first_appearance
from clusterfug.shards import tasks
from clusterfug.shards.checkpoint import Checkpoint, digest
from clusterfug.shards.engine import Engine, Here, tree
from clusterfug.shards.source import Files, most_items, settings_of
from clusterfug.shards.walk import Known, Shard, Walk
from clusterfug.strength import Costs


def check_task(task: Task) -> None:
    """What cannot be done shard by shard, before any work."""
    if task.algorithm not in ON_GPU:
        raise ValueError(f"shards are solved by {' and '.join(ON_GPU)}, not by {task.algorithm}")
    if task.chooses or task.costs.is_local:
        raise ValueError(
            "a local threshold looks at the neighbours of all items, which shards do not know: give a "
            "number (what is chosen for a sample, say), or alpha"
        )
    if task.bound:
        raise ValueError("shards have no bound: leave it out")


def solve_problem(problem: DenseProblem, task: Task, callback: Progress | None) -> Clustering:
    """The clustering of a problem that is too large to solve at once, here."""
    most = most_items(problem.d, task.memory_limit)
    shards = [
        Shard(part.start, part.stop, problem.subset(part), tasks.Recipe(part.start))
        for part in blocks.slices(problem.n, most)
    ]
    settings = {} if task.checkpoint is None else settings_of(problem)
    return solve_shards(shards, task, Here(task.memory_limit is not None), most, settings, callback)


def solve_files(
    files: Files,
    task: Task,
    engine: Engine | None = None,
    metric: str = "inner_product",
    center: bool = False,
    callback: Progress | None = None,
) -> Clustering:
    """The clustering of files that are read in parts, where tasks run."""
    most = most_items(files.d, task.memory_limit)
    parts = [(part.start, part.stop) for part in blocks.slices(files.n, most)]
    rows = [(*part, files.stretch(*part)) for part in parts]
    engine = engine or Here(task.memory_limit is not None)
    return solve_rows(rows, task, engine, metric, center, most, files.identity, callback)


def solve_rows(
    rows: list[tuple[int, int, Any]],
    task: Task,
    engine: Engine,
    metric: str,
    center: bool,
    most: int,
    identity: str,
    callback: Progress | None,
) -> Clustering:
    """The clustering of rows in parts: first item, item after the last, the rows."""
    check_task(task)
    checks.one_of("metric", metric, METRICS)
    checks.flag("center", center)
    n = rows[-1][1]
    _, alpha, prefer, weight, *_ = task.costs
    alpha = None if alpha is None else checks.per_item("alpha", alpha, n)
    weight = None if weight is None else checks.weights(weight, n)
    mean = None
    if center:
        sums = (
            engine.submit(tasks.sum_of_rows, part, start, None if weight is None else weight[start:stop])
            for start, stop, part in rows
        )
        total = engine.value(tree(sums, lambda group: engine.submit(tasks.add_sums, *group)))
        mean = total / (n if weight is None else weight.sum())
    shards = []
    for start, stop, part in rows:
        of_items = (None if values is None else values[start:stop] for values in (alpha, weight))
        costs = Costs(task.threshold, next(of_items), prefer, next(of_items))
        shards.append(Shard(start, stop, part, tasks.Recipe(start, costs, metric, mean)))
    settings = {
        "features": identity,
        "threshold": None if alpha is not None else float(task.threshold),
        "alpha": digest(alpha, prefer),
        "weights": digest(weight),
        "metric": metric,
        "centre": center,
    }
    return solve_shards(shards, task, engine, most, settings, callback)


def solve_shards(
    shards: list[Shard],
    task: Task,
    engine: Engine,
    most: int,
    settings: dict[str, Any],
    callback: Progress | None,
) -> Clustering:
    begin = last = time.perf_counter()
    n = shards[-1].stop
    init = task.refinement.start(n)
    settings = settings | {
        "version": __version__,
        "items": n,
        "shards": digest(most, *((shard.start, shard.stop) for shard in shards)),
        "algorithm": task.algorithm,
        "init": digest(init),
        "seed": digest(task.refinement.rng.bit_generator.state),
    }
    with Checkpoint(task.checkpoint, settings) as kept:
        budget, rng = task.refinement.budget(), task.refinement.rng
        walk = Walk(shards, engine, kept, budget, most, task.algorithm, rng, callback)
        trace = []
        for name, refined, known in walk.steps(init):
            now, count = time.perf_counter(), int(refined.labels.max()) + 1
            objective = known.all_pairs - known.inside
            trace.append(Phase(name, now - last, count, objective, *refined[1:]))
            last = now
        labels = _labelled(walk, refined.labels, known)
    return Clustering(
        labels=labels,
        objective=objective,
        inside=known.inside,
        merges=np.empty(0, dtype=MERGE),
        algorithm=task.algorithm,
        n_iter=0,
        seconds=time.perf_counter() - begin,
        trace=(*trace[:-1], trace[-1]._replace(n_clusters=int(labels.max()) + 1)),
    )


def _labelled(walk: Walk, labels: NDArray[np.int64], known: Known) -> NDArray[np.int64]:
    """Labels numbered by first appearance, also those of items without weight."""
    if known.weightless:
        labels = walk.label_weightless(labels, known)
    return number_by_first_appearance(labels)
