"""Execution on a dask cluster: shards are chunks of a dask array, or parts of files that workers read."""

from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import dask.array
import numpy as np

from clusterfug import checks
from clusterfug.execution.dask.engine import DaskEngine, connected
from clusterfug.execution.jit import Progress
from clusterfug.execution.plan import Execution
from clusterfug.execution.sharded.checkpoint import digest
from clusterfug.execution.sharded.solve import solve_features, solve_rows
from clusterfug.execution.sharded.source import max_items
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import Clustering
from clusterfug.solvers import Solver


def execute(
    problem: Any, solver: Solver, execution: Execution, bound: bool, callback: Progress | None
) -> Clustering:
    """Solve a problem on a cluster. The labels of a dask array are a dask array with the same chunks."""
    if not isinstance(problem, FeatureProblem) or not (problem.is_stored or checks.is_dask(problem.X)):
        raise TypeError(
            "a cluster solves a dask array or files: give a path that its workers can read, or "
            "dask.array.from_array(X)"
        )
    if problem.is_stored:
        problem = replace(problem, X=problem.X.absolute())  # workers may run in other folders
    else:
        checks.rectangle(problem.X)
        if np.isnan(problem.X.shape).any():
            raise ValueError("X has chunks of unknown size: call X.compute_chunk_sizes() first")
    with connected(execution.client) as client:
        solve = solve_features if problem.is_stored else _solve_array
        return solve(problem, solver, execution, DaskEngine(client), callback)


def _solve_array(
    problem: FeatureProblem,
    solver: Solver,
    execution: Execution,
    engine: DaskEngine,
    callback: Progress | None,
) -> Clustering:
    X = problem.X
    most = max_items(X.shape[1], execution.memory_limit)
    chunks = X.rechunk({0: tuple(_split_sizes(X.chunks[0], most)), 1: -1})
    futures = engine.compute(list(chunks.to_delayed()[:, 0]))
    spans = pairwise(accumulate(chunks.chunks[0], initial=0))
    rows = [(*span, future) for span, future in zip(spans, futures, strict=True)]
    identity = ""
    if execution.checkpoint is not None:
        digests = engine.prefetch(engine.submit(digest, future) for future in futures)
        identity = digest(*map(engine.value, digests))
    result = solve_rows(rows, problem, solver, execution, engine, identity, callback)
    return replace(result, labels=dask.array.from_array(result.labels, chunks=(X.chunks[0],)))


def _split_sizes(sizes: tuple[int, ...], most: int) -> list[int]:
    """Return the sizes of chunks, with large ones split and empty ones left out."""
    return [min(most, size - start) for size in sizes for start in range(0, size, most)]
