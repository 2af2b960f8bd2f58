"""solve_many: many problems side by side, one thread each."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event
from typing import Any

import numpy as np

from clusterfug import blocks, checks
from clusterfug.graph import GraphProblem
from clusterfug.kernels import Progress
from clusterfug.problem import DenseProblem
from clusterfug.result import Clustering
from clusterfug.run import Refinement
from clusterfug.solve import ALGORITHMS, dense_multicut, multicut

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
    callback: Progress | None = None,
    **options: Any,
) -> list[Clustering]:
    """Solve many problems side by side: the largest first, each on one thread.

    Every result is what `dense_multicut` or `multicut` would have returned (of "gaec", up to rounding). A
    problem that fails does not stop the others.

    Parameters
    ----------
    problems : iterable, or mapping from names
        Arrays of features, `DenseProblem` or `GraphProblem`. With names an error says which one failed;
        without, it says the position.
    n_jobs : int, optional
        Problems solved at a time; all cores by default.
    algorithm : str, default="auto"
        As for `dense_multicut` (or `multicut`), which also takes the other options. `time_limit` is per
        problem; a Generator as `random_state` has a child for each, in their order.
    callback : callable, optional
        Called as ``callback("problems", done, total)`` after each.

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
    checks.one_of("algorithm", algorithm, ALGORITHMS)
    jobs = blocks.cores() if n_jobs in (None, -1) else checks.count("n_jobs", n_jobs)
    Refinement(algorithm, **{name: options[name] for name in _REFINEMENT if name in options})  # validated
    named = problems if isinstance(problems, Mapping) else dict(enumerate(problems))
    names, work = list(named), list(named.values())
    seeds = _seeds(options.pop("random_state", 0), len(work))
    stop = Event()

    def solve(problem: Any, seed: Any) -> Clustering:
        with blocks.alone(stop):
            run = multicut if isinstance(problem, GraphProblem) else dense_multicut
            return run(problem, algorithm=algorithm, random_state=seed, callback=_look, **options)

    results: list[Clustering | None] = [None] * len(work)
    errors: dict[Any, Exception] = {}
    with ThreadPoolExecutor(min(jobs, max(1, len(work))), thread_name_prefix="clusterfug-many") as pool:
        largest_first = sorted(range(len(work)), key=lambda t: -_size(work[t]))
        running = {pool.submit(solve, work[t], seeds[t]): t for t in largest_first}
        try:
            for done, future in enumerate(as_completed(running), 1):
                t = running[future]
                try:
                    results[t] = future.result()
                except Exception as error:
                    errors[names[t]] = error
                if callback is not None:
                    callback("problems", done, len(work))
        except BaseException:  # Ctrl-C: whoever runs sees it at the next look
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    if errors:
        raise SolveManyError(results, {name: errors[name] for name in names if name in errors})
    return [result for result in results if result is not None]


def _look(phase: str, done: int, total: int) -> None:
    blocks.look()


def _seeds(random_state: Any, n: int) -> list[Any]:
    """One for each problem: a seed is the same for all, a Generator has a child for each."""
    if isinstance(random_state, np.random.Generator):
        return list(random_state.spawn(n))
    return [random_state] * n


def _size(problem: Any) -> int:
    """Work to expect, roughly: pairs of items, or edges."""
    if isinstance(problem, GraphProblem):
        return len(problem.costs)
    if isinstance(problem, DenseProblem):
        return problem.n**2
    try:
        return len(problem) ** 2
    except TypeError:  # it is no array, and will fail
        return 0
