"""Execution of many problems on a dask cluster, in batches. `execution/batch.py` calls it."""

from collections.abc import Generator
from typing import Any

from clusterfug import core
from clusterfug.execution import threads
from clusterfug.execution.dask.engine import DaskEngine, WorkersDiedError, connected
from clusterfug.execution.plan import Execution
from clusterfug.solvers import Solver

_WORK_PER_BATCH = 10_000_000  # pairs of items, or edges: about a second


def solved_on_cluster(
    work: dict[int, Any],
    solvers: dict[int, Solver],
    executions: dict[int, Execution],
    client: Any,
    bound: bool,
) -> Generator[dict[int, Any]]:
    """Yield results and errors by position, batch by batch, the largest problems first."""
    with connected(client) as opened:
        engine = DaskEngine(opened)

        def submit(batch: list[int]) -> tuple[list[int], Any]:
            arguments = [(work[t], solvers[t], executions[t]) for t in batch]
            return batch, engine.submit(solve_on_worker, arguments, bound)

        def outcomes(batch: list[int], future: Any) -> list[Any]:
            try:
                return engine.value(future)
            except WorkersDiedError as error:
                # Any problem of the batch may be the cause: each is tried alone.
                return [error] if len(batch) == 1 else [outcomes(*submit([t]))[0] for t in batch]

        for batch, future in [submit(batch) for batch in _batches(work)]:
            yield dict(zip(batch, outcomes(batch, future), strict=True))


def _batches(work: dict[int, Any]) -> list[list[int]]:
    batches: list[list[int]] = []
    room = 0
    for t in sorted(work, key=lambda t: -work[t].expected_work):
        if not batches or work[t].expected_work > room:
            batches.append([])
            room = _WORK_PER_BATCH
        batches[-1].append(t)
        room -= work[t].expected_work
    return batches


def solve_on_worker(problems: list[tuple[Any, Solver, Execution]], bound: bool) -> list[Any]:
    """Return the results or errors of a batch that is solved on one thread."""
    found: list[Any] = []
    with threads.single_threaded():
        for problem, solver, execution in problems:
            try:
                found.append(core.solve(problem, solver, execution, bound=bound))
            except Exception as error:
                found.append(error)
    return found
