"""Execution of many problems on a dask cluster, in batches. `execution/batch.py` calls it."""

from collections.abc import Generator
from typing import Any

from clusterfug.execution import threads
from clusterfug.execution.batch import Outcomes, Run, solve_or_error
from clusterfug.execution.dask.engine import DaskEngine, WorkersDiedError, connected

_WORK_PER_BATCH = 10_000_000  # pairs of items, or edges: about a second


def solved_on_cluster(runs: dict[int, Run], client: Any, bound: bool) -> Generator[Outcomes]:
    """Yield results and errors by position, batch by batch, the largest problems first."""
    with connected(client) as opened:
        engine = DaskEngine(opened)

        def submit(batch: list[int]) -> Any:
            return engine.submit(solve_on_worker, [runs[t] for t in batch], bound)

        def outcomes(batch: list[int], future: Any) -> list[Any]:
            try:
                return engine.value(future)
            except WorkersDiedError as error:
                # Any problem of the batch may be the cause: each is tried alone.
                return [error] if len(batch) == 1 else [outcomes([t], submit([t]))[0] for t in batch]

        batches = _batches({t: problem for t, (problem, *_) in runs.items()})
        for batch, future in [(batch, submit(batch)) for batch in batches]:
            yield dict(zip(batch, outcomes(batch, future), strict=True))


def _batches(work: dict[int, Any]) -> list[list[int]]:
    """Return the positions of the problems in batches of limited work, the largest problems first."""
    batches: list[list[int]] = []
    room = 0
    for t in sorted(work, key=lambda t: -work[t].expected_work):
        if not batches or work[t].expected_work > room:
            batches.append([])
            room = _WORK_PER_BATCH
        batches[-1].append(t)
        room -= work[t].expected_work
    return batches


def solve_on_worker(runs: list[Run], bound: bool) -> list[Any]:
    """Return the results or errors of a batch that is solved on one thread."""
    with threads.single_threaded():
        return [solve_or_error(run, bound) for run in runs]
