"""solve_many on a dask cluster."""

from collections.abc import Generator, Iterable, Mapping
from typing import Any

from clusterfug import blocks
from clusterfug.distributed.cluster import Cluster, WorkersDiedError, connected
from clusterfug.kernels import Progress
from clusterfug.many import Outcomes, check_many, collected, expected_work, seeds_of, solve_one_thread

_BATCH = 10_000_000  # pairs of items, or edges: about a second


def solve_many(
    problems: Iterable[Any] | Mapping[Any, Any],
    *,
    client: Any = None,
    algorithm: str = "auto",
    callback: Progress | None = None,
    **options: Any,
) -> list[Any]:
    """Solve many problems on a cluster, in batches; every result is that of `clusterfug.solve_many`.

    Parameters
    ----------
    problems, algorithm, options
        As for `clusterfug.solve_many` on the CPU.
    client : distributed.Client or str, optional
        The cluster, or the address of its scheduler. By default the client that is there already.
    callback : callable, optional
        Called as ``callback("problems", done, total)`` after each batch.

    Returns
    -------
    list of Clustering
        In the order of the problems.

    Raises
    ------
    SolveManyError
        When all others are solved. It has `.results` and `.errors`.
    """
    check_many(algorithm, options)
    named = problems if isinstance(problems, Mapping) else dict(enumerate(problems))
    with connected(client) as opened:
        outcomes = _outcomes(list(named.values()), Cluster(opened), algorithm, options)
        return collected(list(named), outcomes, callback)


def _outcomes(
    work: list[Any], cluster: Cluster, algorithm: str, options: dict[str, Any]
) -> Generator[Outcomes]:
    """Results and errors by position, batch by batch, the largest problems first."""
    options = dict(options)
    seeds = seeds_of(options.pop("random_state", 0), len(work))

    def submit(batch: list[int]) -> tuple[list[int], Any]:
        arguments = [(work[t], seeds[t]) for t in batch]
        return batch, cluster.submit(solve_batch, arguments, algorithm, options)

    running = [submit(batch) for batch in _batches(work)]
    for batch, future in running:
        try:
            found = cluster.value(future)
        except WorkersDiedError as error:
            # Whoever is at a worker when it dies is suspected: one after the other, each is alone.
            found = [error] if len(batch) == 1 else [_alone(cluster, submit, t) for t in batch]
        yield dict(zip(batch, found, strict=True))


def _alone(cluster: Cluster, submit: Any, t: int) -> Any:
    try:
        return cluster.value(submit([t])[1])[0]
    except WorkersDiedError as error:
        return error


def _batches(work: list[Any]) -> list[list[int]]:
    batches: list[list[int]] = []
    room = 0
    for t in sorted(range(len(work)), key=lambda t: -expected_work(work[t])):
        if not batches or expected_work(work[t]) > room:
            batches.append([])
            room = _BATCH
        batches[-1].append(t)
        room -= expected_work(work[t])
    return batches


def solve_batch(problems: list[tuple[Any, Any]], algorithm: str, options: dict[str, Any]) -> list[Any]:
    """Results, or what went wrong, on one thread."""
    found: list[Any] = []
    with blocks.alone():
        for problem, seed in problems:
            try:
                found.append(solve_one_thread(problem, algorithm, seed, options))
            except Exception as error:
                found.append(error)
    return found
