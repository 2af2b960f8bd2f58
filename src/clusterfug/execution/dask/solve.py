"""Execution on a dask cluster: shards are dask arrays' chunks or parts of files that workers can read."""

from dataclasses import replace
from typing import Any

import dask.array
import numpy as np

from clusterfug import checks
from clusterfug.execution.dask.cluster import Cluster, connected
from clusterfug.execution.jit import Progress
from clusterfug.execution.plan import Execution
from clusterfug.execution.sharded.checkpoint import digest
from clusterfug.execution.sharded.solve import solve_files, solve_rows
from clusterfug.execution.sharded.source import Files, most_items
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import Clustering
from clusterfug.solvers import Solver


def execute(
    problem: Any, solver: Solver, execution: Execution, bound: bool, callback: Progress | None
) -> Clustering:
    """Solve a problem on a cluster. The labels of a dask array are a dask array with the same chunks."""
    if not isinstance(problem, FeatureProblem) or not (
        checks.is_dask(problem.X) or isinstance(problem.X, Files)
    ):
        raise TypeError(
            "a cluster solves a dask array or files: give a path that its workers can read, or "
            "dask.array.from_array(X)"
        )
    with connected(execution.client) as client:
        cluster = Cluster(client)
        if isinstance(problem.X, Files):
            files = problem.X.absolute()  # workers may run in other folders
            return solve_files(replace(problem, X=files), solver, execution, cluster, callback)
        return _solve_array(problem, solver, execution, cluster, callback)


def _solve_array(
    problem: FeatureProblem,
    solver: Solver,
    execution: Execution,
    cluster: Cluster,
    callback: Progress | None,
) -> Clustering:
    X = problem.X
    checks.rectangle(X)
    if np.isnan(X.shape).any():
        raise ValueError("X has chunks of unknown size: call X.compute_chunk_sizes() first")
    most = most_items(X.shape[1], execution.memory_limit)
    chunks = X.rechunk({0: tuple(_at_most(X.chunks[0], most)), 1: -1})
    futures = cluster.compute(list(chunks.to_delayed()[:, 0]))
    stops = np.cumsum(chunks.chunks[0])
    rows = [
        (int(stop - size), int(stop), future)
        for size, stop, future in zip(chunks.chunks[0], stops, futures, strict=True)
    ]
    identity = ""
    if execution.checkpoint is not None:
        known = cluster.ahead(cluster.submit(digest, future) for future in futures)
        identity = digest(*map(cluster.value, known))
    result = solve_rows(rows, problem, solver, execution, cluster, most, identity, callback)
    return replace(result, labels=dask.array.from_array(result.labels, chunks=(X.chunks[0],)))


def _at_most(sizes: tuple[int, ...], most: int) -> list[int]:
    """Return the sizes of chunks, large ones split and empty ones left out."""
    return [min(most, size - start) for size in sizes for start in range(0, size, most)]
