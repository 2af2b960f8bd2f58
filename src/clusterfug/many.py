"""solve_many: many problems side by side, one thread each; on a GPU many at once."""

from collections.abc import Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import fields
from threading import Event
from typing import Any

import numpy as np

from clusterfug import blocks, checks
from clusterfug.gpu.device import choose, is_given
from clusterfug.kernels import Progress
from clusterfug.options import ALGORITHMS, PRECISIONS, Refinement, Task
from clusterfug.result import Clustering
from clusterfug.solve import dense_multicut, multicut

#: Results and errors by the positions of the problems.
Outcomes = dict[int, Clustering | Exception]

_REFINEMENT = ("refine", "init", "time_limit", "max_iter", "random_state")


class SolveManyError(RuntimeError):
    """Some of many problems could not be solved; the others were.

    Attributes
    ----------
    results : list of Clustering, with None where a problem failed
    errors : dict from the names of the failed problems to their exceptions
    """

    def __init__(self, results: list[Clustering | None], errors: dict[Any, Exception]) -> None:
        self.results, self.errors = results, errors
        shown = [f"{name!r}: {error}" for name, error in list(errors.items())[:3]]
        if len(errors) > 3:
            shown.append(f"and {len(errors) - 3} more")
        super().__init__(
            f"{len(errors)} of {len(results)} problems failed, the results of the others are kept in "
            f"this error's .results; {'; '.join(shown)}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return SolveManyError, (self.results, self.errors)


def solve_many(
    problems: Iterable[Any] | Mapping[Any, Any],
    *,
    n_jobs: int | None = None,
    algorithm: str = "auto",
    device: Any = None,
    precision: str = "fast",
    callback: Progress | None = None,
    **options: Any,
) -> list[Clustering]:
    """Solve many problems side by side: the largest first, each on one thread.

    On a GPU as many problems as fit are solved at once. There a result is about as good as that of
    `dense_multicut`, but may be another one.

    Otherwise every result is what `dense_multicut` or `multicut` would have returned (of "gaec", up to
    rounding). A problem that fails does not stop the others.

    Parameters
    ----------
    problems : iterable, or mapping from names
        Features, `DenseProblem` or `GraphProblem`. With names an error says which one failed;
        without, it says the position.
    n_jobs : int, optional
        Problems solved at a time on the CPU; all cores by default. It does not go with a device.
    algorithm : str, default="auto"
        As for `dense_multicut` (or `multicut`), which also takes the other options. `time_limit` is per
        problem (on a GPU per pack of problems that are solved at once, as is `seconds` of a result); a
        Generator as `random_state` has a child for each, in their order.
    device, precision
        As for `dense_multicut`. Graphs are solved on the CPU.
    callback : callable, optional
        Called as ``callback("problems", done, total)`` after each, or after each pack.

    Returns
    -------
    list of Clustering
        In the order of the problems.

    Raises
    ------
    SolveManyError
        When all others are solved. It has `.results` and `.errors`.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import solve_many
    >>> pair, triple = np.eye(2), np.ones((3, 1))
    >>> [result.n_clusters for result in solve_many([pair, triple])]
    [2, 1]
    """
    check_many(algorithm, options)
    jobs = blocks.cores() if n_jobs in (None, -1) else checks.count("n_jobs", n_jobs)
    if n_jobs is not None and is_given(device):
        raise ValueError("n_jobs is for the CPU: leave it out with a device")
    checks.one_of("precision", precision, PRECISIONS)
    named = problems if isinstance(problems, Mapping) else dict(enumerate(problems))
    outcomes = _solved(list(named.values()), jobs, algorithm, device, precision, options)
    return collected(list(named), outcomes, callback)


def check_many(algorithm: str, options: dict[str, Any]) -> None:
    """Options that are wrong whatever the problems are."""
    checks.one_of("algorithm", algorithm, ALGORITHMS)
    Refinement(algorithm, **{name: options[name] for name in _REFINEMENT if name in options})  # validated
    for name in options:
        if name not in {field.name for field in fields(Task)} - {"checkpoint"}:
            raise TypeError(f"solve_many() got an unexpected keyword argument {name!r}")


def collected(
    names: list[Any], outcomes: Generator[Outcomes], callback: Progress | None
) -> list[Clustering]:
    """The results in their order, or a `SolveManyError` when all that can be solved is."""
    results: list[Clustering | None] = [None] * len(names)
    errors: dict[Any, Exception] = {}
    done = 0
    with closing(outcomes):
        for found in outcomes:
            for t, result in found.items():
                if isinstance(result, Exception):
                    errors[names[t]] = result
                else:
                    results[t] = result
            done += len(found)
            if callback is not None:
                callback("problems", done, len(names))
    if errors:
        raise SolveManyError(results, {name: errors[name] for name in names if name in errors})
    return [result for result in results if result is not None]


def _solved(
    work: list[Any], jobs: int, algorithm: str, device: Any, precision: str, options: dict[str, Any]
) -> Generator[Outcomes]:
    """Results and errors by position, as they come: those on devices first."""
    on_cpu = []
    for place, positions in _places(work, device, algorithm).items():
        if place is None:
            on_cpu = positions
            continue
        from clusterfug.gpu.solve import solve_packed

        if options.get("bound"):
            raise ValueError("many problems on a GPU have no bounds: use lower_bound, or device='cpu'")
        task = Task(algorithm=algorithm, precision=precision, **options)
        if task.chooses:
            raise ValueError(
                "many problems on a GPU choose no strictness: use threshold='local', or device='cpu'"
            )
        for found in solve_packed([work[t] for t in positions], task, place):
            yield {positions[t]: result for t, result in found.items()}
    if on_cpu:
        yield from _side_by_side(work, on_cpu, jobs, algorithm, options)


def _places(work: list[Any], device: Any, algorithm: str) -> dict[Any, list[int]]:
    """Positions of the problems by the device that they are for; None is the CPU."""
    places: dict[Any, list[int]] = {}
    chosen: dict[Any, Any] = {}
    for t, X in enumerate(work):
        if checks.is_problem(X, "GraphProblem"):
            if is_given(device):
                raise ValueError("a graph is solved on the CPU: leave out the device")
            place = None
        else:
            here = X.device if checks.on_gpu(X) else None
            if here not in chosen:
                chosen[here] = choose(device, algorithm, X)
            place = chosen[here]
        places.setdefault(place, []).append(t)
    return places


def _side_by_side(
    work: list[Any], positions: list[int], jobs: int, algorithm: str, options: dict[str, Any]
) -> Generator[Outcomes]:
    """Problems on the CPU, one thread each."""
    options = dict(options)
    seeds = dict(zip(positions, seeds_of(options.pop("random_state", 0), len(positions)), strict=True))
    stop = Event()

    def solve(t: int) -> Clustering:
        with blocks.alone(stop):
            return solve_one_thread(work[t], algorithm, seeds[t], options)

    with ThreadPoolExecutor(min(jobs, len(positions)), thread_name_prefix="clusterfug-many") as pool:
        running = {
            pool.submit(solve, t): t for t in sorted(positions, key=lambda t: -expected_work(work[t]))
        }
        try:
            for future in as_completed(running):
                outcome: Clustering | Exception
                try:
                    outcome = future.result()
                except Exception as error:
                    outcome = error
                yield {running[future]: outcome}
        except BaseException:  # Ctrl-C: whoever runs sees it at the next look
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def solve_one_thread(problem: Any, algorithm: str, seed: Any, options: dict[str, Any]) -> Clustering:
    """One of many, in a thread that works alone."""
    on_cpu = {"algorithm": algorithm, "random_state": seed, "callback": _look, **options}
    if checks.is_problem(problem, "GraphProblem"):
        return multicut(problem, **on_cpu)
    return dense_multicut(problem, device="cpu", **on_cpu)


def _look(phase: str, done: int, total: int) -> None:
    blocks.look()


def seeds_of(random_state: Any, n: int) -> list[Any]:
    """One for each problem: a seed is the same for all, a Generator has a child for each."""
    if isinstance(random_state, np.random.Generator):
        return list(random_state.spawn(n))
    return [random_state] * n


def expected_work(problem: Any) -> int:
    """Work to expect, roughly: pairs of items, or edges."""
    if checks.is_problem(problem, "GraphProblem"):
        return len(problem.costs)
    if checks.is_problem(problem, "DenseProblem"):
        return problem.n**2
    try:
        return len(problem) ** 2
    except TypeError:  # it is no array, and will fail
        return 0
