"""Execution of many problems on a dask cluster, in batches. `execution/batch.py` calls it."""

from collections.abc import Generator
from typing import Any

from clusterfug import core
from clusterfug.execution import threads
from clusterfug.execution.dask.cluster import Cluster, WorkersDiedError, connected
from clusterfug.execution.plan import Execution
from clusterfug.solvers import Solver

_BATCH_WORK = 10_000_000  # pairs of items, or edges, of a batch: about a second


def solved_on_cluster(
    work: dict[int, Any], solvers: dict[int, Solver], client: Any, bound: bool
) -> Generator[dict[int, Any]]:
    """Yield results and errors by position, batch by batch, the largest problems first."""
    with connected(client) as opened:
        cluster = Cluster(opened)

        def submit(batch: list[int]) -> tuple[list[int], Any]:
            arguments = [(work[t], solvers[t]) for t in batch]
            return batch, cluster.submit(solve_on_worker, arguments, bound)

        running = [submit(batch) for batch in _batches(work)]
        for batch, future in running:
            try:
                found = cluster.value(future)
            except WorkersDiedError as error:
                # Any problem of the batch may be the cause: each is tried alone.
                found = [error] if len(batch) == 1 else [_alone(cluster, submit, t) for t in batch]
            yield dict(zip(batch, found, strict=True))


def _alone(cluster: Cluster, submit: Any, t: int) -> Any:
    try:
        return cluster.value(submit([t])[1])[0]
    except WorkersDiedError as error:
        return error


def _batches(work: dict[int, Any]) -> list[list[int]]:
    batches: list[list[int]] = []
    room = 0
    for t in sorted(work, key=lambda t: -work[t].expected_work):
        if not batches or work[t].expected_work > room:
            batches.append([])
            room = _BATCH_WORK
        batches[-1].append(t)
        room -= work[t].expected_work
    return batches


def solve_on_worker(problems: list[tuple[Any, Solver]], bound: bool) -> list[Any]:
    """Return results, or what went wrong, of a batch that is solved on one thread."""
    found: list[Any] = []
    with threads.alone():
        for problem, solver in problems:
            try:
                found.append(core.solve(problem, solver, Execution(), bound=bound))
            except Exception as error:
                found.append(error)
    return found
