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

#: What the core is given for one of the problems.
Run = tuple[Any, Solver, Execution]
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
    runs: dict[int, Run],
    names: list[Any],
    *,
    invalid: dict[int, Exception],
    n_jobs: int,
    client: Any,
    bound: bool,
    callback: Progress | None,
) -> list[Clustering]:
    """Return the results in the order of the names, or raise `SolveManyError` when all others are solved.

    `runs` holds the valid problems by position, `invalid` the errors of the others.
    """
    _check_packs(runs, bound)
    runs = _with_own_generators(runs)
    if client is None:
        solved = _solved(runs, n_jobs, bound)
    else:
        from clusterfug.execution.dask.batch import solved_on_cluster

        solved = solved_on_cluster(runs, client, bound)
    outcomes: Outcomes = dict(invalid)
    with closing(solved):
        for found in solved:
            outcomes |= found
            if callback is not None:
                callback("problems", len(outcomes), len(names))
    results: list[Clustering | None] = [None] * len(names)
    errors = {}
    for t, outcome in sorted(outcomes.items()):
        if isinstance(outcome, Exception):
            errors[names[t]] = outcome
        else:
            results[t] = outcome
    if errors:
        raise SolveManyError(results, errors)
    return [result for result in results if result is not None]


def _with_own_generators(runs: dict[int, Run]) -> dict[int, Run]:
    """Return the runs with a child of their solver's Generator for each; a seed is the same for all."""
    state = next((getattr(solver, "random_state", None) for _, solver, _ in runs.values()), None)
    if not isinstance(state, np.random.Generator):
        return runs
    return {
        t: (problem, replace(solver, random_state=child), execution)  # type: ignore[call-arg]
        for (t, (problem, solver, execution)), child in zip(
            runs.items(), state.spawn(len(runs)), strict=True
        )
    }


def _check_packs(runs: dict[int, Run], bound: bool) -> None:
    """Raise errors for what packs on a GPU cannot do, before any work."""
    for problem, _, execution in runs.values():
        if execution.kind != "torch":
            continue
        if bound:
            raise ValueError("many problems on a GPU have no bounds: use lower_bound, or device='cpu'")
        if problem.needs_selection:
            raise ValueError(
                "many problems on a GPU select no strictness: give a threshold or threshold='local', "
                "or use device='cpu'"
            )


def _solved(runs: dict[int, Run], n_jobs: int, bound: bool) -> Generator[Outcomes]:
    """Yield results and errors by position as they come: packs on devices first, then the CPU."""
    packs: dict[Execution, list[int]] = {}
    on_cpu: dict[int, Run] = {}
    for t, run in runs.items():
        if run[2].kind == "torch":
            packs.setdefault(run[2], []).append(t)
        else:
            on_cpu[t] = run
    for execution, positions in packs.items():
        from clusterfug.execution.torch.solve import solve_packed

        problems, solvers, _ = zip(*(runs[t] for t in positions), strict=True)
        for found in solve_packed(problems, solvers[0], execution):
            yield {
                positions[t]: problems[t].described(result) if isinstance(result, Clustering) else result
                for t, result in found.items()
            }
    if on_cpu:
        yield from _side_by_side(on_cpu, n_jobs, bound)


def _side_by_side(runs: dict[int, Run], n_jobs: int, bound: bool) -> Generator[Outcomes]:
    """Solve problems on the CPU, one thread each, the largest first."""
    stop = Event()

    def solve(t: int) -> Clustering | Exception:
        with threads.single_threaded(stop):
            return solve_or_error(runs[t], bound, lambda *_: threads.check_stop())

    with ThreadPoolExecutor(min(n_jobs, len(runs)), thread_name_prefix="clusterfug-many") as pool:
        try:
            largest_first = sorted(runs, key=lambda t: -runs[t][0].expected_work)
            running = {pool.submit(solve, t): t for t in largest_first}
            for future in as_completed(running):
                yield {running[future]: future.result()}
        except BaseException:  # after Ctrl-C running threads stop at their next check
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def solve_or_error(run: Run, bound: bool, callback: Progress | None = None) -> Clustering | Exception:
    """Return the clustering of one problem, or the error that the core raised."""
    try:
        return core.solve(*run, bound=bound, callback=callback)
    except Exception as error:
        return error
