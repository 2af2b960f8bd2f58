"""Execution of many problems: side by side on the CPU with one thread each, in packs on a GPU, or on dask.

`api.solve_many` calls `solve_batch`. Every problem is solved by the core.
"""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from clusterfug import core
from clusterfug.execution import threads
from clusterfug.execution.jit import Progress
from clusterfug.execution.plan import Execution
from clusterfug.result import Clustering
from clusterfug.solvers import Solver

#: Results and errors by the positions of the problems.
Outcomes = dict[int, Clustering | Exception]


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


def solve_batch(
    work: dict[int, Any],
    names: list[Any],
    solver: Solver,
    executions: dict[int, Execution],
    *,
    invalid: dict[int, Exception],
    n_jobs: int,
    client: Any = None,
    bound: bool = False,
    callback: Progress | None = None,
) -> list[Clustering]:
    """Return the results in the order of the names, or raise `SolveManyError` when all others are solved.

    `work` and `executions` hold the valid problems by position, `invalid` the errors of the others.
    """
    _check_packs(work, executions, bound)
    solvers = _solvers(solver, work)
    if client is None:
        outcomes = _solved(work, solvers, executions, n_jobs, bound)
    else:
        from clusterfug.execution.dask.batch import solved_on_cluster

        outcomes = solved_on_cluster(work, solvers, executions, client, bound)
    return _collected(names, outcomes, invalid, callback)


def _check_packs(work: dict[int, Any], executions: dict[int, Execution], bound: bool) -> None:
    """Raise errors for what packs on a GPU cannot do, before any work."""
    for t, problem in work.items():
        if executions[t].kind != "torch":
            continue
        if bound:
            raise ValueError("many problems on a GPU have no bounds: use lower_bound, or device='cpu'")
        if problem.needs_selection:
            raise ValueError(
                "many problems on a GPU select no strictness: give a threshold or threshold='local', "
                "or use device='cpu'"
            )


def _solvers(solver: Solver, work: dict[int, Any]) -> dict[int, Solver]:
    """Return a solver per problem: a seed is the same for all, a Generator has a child for each."""
    state = getattr(solver, "random_state", None)
    if not isinstance(state, np.random.Generator):
        return dict.fromkeys(work, solver)
    children = state.spawn(len(work))
    return {
        t: replace(solver, random_state=child)  # type: ignore[call-arg]
        for t, child in zip(sorted(work), children, strict=True)
    }


def _collected(
    names: list[Any],
    outcomes: Generator[Outcomes],
    invalid: dict[int, Exception],
    callback: Progress | None,
) -> list[Clustering]:
    results: list[Clustering | None] = [None] * len(names)
    errors = dict(invalid)
    done = len(invalid)
    with closing(outcomes):
        for found in outcomes:
            for t, result in found.items():
                if isinstance(result, Exception):
                    errors[t] = result
                else:
                    results[t] = result
            done += len(found)
            if callback is not None:
                callback("problems", done, len(names))
    if errors:
        raise SolveManyError(results, {names[t]: errors[t] for t in sorted(errors)})
    return [result for result in results if result is not None]


def _solved(
    work: dict[int, Any],
    solvers: dict[int, Solver],
    executions: dict[int, Execution],
    n_jobs: int,
    bound: bool,
) -> Generator[Outcomes]:
    """Yield results and errors by position as they come: packs on devices first, then the CPU."""
    packs: dict[Any, list[int]] = {}
    for t in work:
        packs.setdefault(executions[t] if executions[t].kind == "torch" else None, []).append(t)
    on_cpu = packs.pop(None, [])
    for execution, positions in packs.items():
        from clusterfug.execution.torch.solve import solve_packed

        problems = [work[t] for t in positions]
        for found in solve_packed(problems, solvers[positions[0]], execution):
            yield {
                positions[t]: problems[t].described(result) if isinstance(result, Clustering) else result
                for t, result in found.items()
            }
    if on_cpu:
        yield from _side_by_side(work, on_cpu, solvers, executions, n_jobs, bound)


def _side_by_side(
    work: dict[int, Any],
    positions: list[int],
    solvers: dict[int, Solver],
    executions: dict[int, Execution],
    n_jobs: int,
    bound: bool,
) -> Generator[Outcomes]:
    """Solve problems on the CPU, one thread each, the largest first."""
    stop = Event()

    def solve(t: int) -> Clustering:
        with threads.single_threaded(stop):
            return core.solve(work[t], solvers[t], executions[t], bound=bound, callback=_check_stop)

    with ThreadPoolExecutor(min(n_jobs, len(positions)), thread_name_prefix="clusterfug-many") as pool:
        try:
            largest_first = sorted(positions, key=lambda t: -work[t].expected_work)
            running = {pool.submit(solve, t): t for t in largest_first}
            for future in as_completed(running):
                outcome: Clustering | Exception
                try:
                    outcome = future.result()
                except Exception as error:
                    outcome = error
                yield {running[future]: outcome}
        except BaseException:  # after Ctrl-C running threads stop at their next check
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _check_stop(phase: str, done: int, total: int) -> None:
    threads.check_stop()
