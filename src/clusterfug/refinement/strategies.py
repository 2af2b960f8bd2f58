"""The algorithms `fast`, `auto` and `best`: which steps they take, in which order.

Each is a generator that yields a name and the best labels so far after every step, so that the caller can
record the steps and stop after any of them.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.history import labels_of_merges
from clusterfug.execution.jit import Progress
from clusterfug.problems.protocol import Problem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.iterated import MAX_PART_ITEMS, iterated_local_search, polish
from clusterfug.refinement.multilevel import Refined, cycle, multilevel, refine

_N_STARTS = 4  # starting points of `best`, if the problem is small enough to be one part
#: Cycles at most, and the share of inside that a cycle gains if another one follows.
MAX_CYCLES = 8
MIN_CYCLE_GAIN = 3e-4
_POLISHED_NODES = 500  # nodes of a neighbourhood in polishing

Steps = Iterator[tuple[str, Refined]]


class Start(NamedTuple):
    """What a strategy is given: the problem, labels 0..K-1 (or None for singletons), and its limits."""

    problem: Problem
    init: NDArray[np.int64] | None
    budget: Budget
    rng: np.random.Generator
    progress: Progress | None = None


def fast_steps(start: Start) -> Steps:
    """Multilevel moves and joins."""
    yield from _polished_steps(start, with_cycles=False, second_start=False, polishing=False)


def auto_steps(start: Start) -> Steps:
    """`fast`, then cycles, and a second start and polishing where the problem says that they are cheap."""
    second_start = start.problem.affords_second_start(_POLISHED_NODES)
    polishing = start.problem.affords_polishing(_POLISHED_NODES)
    yield from _polished_steps(start, True, second_start, polishing)


def best_steps(start: Start) -> Steps:
    """All steps of `auto`, then iterated local search, from several starts if the problem is small."""
    problem, _, budget, rng, progress = start
    for name, refined in _polished_steps(start, with_cycles=True, second_start=True, polishing=True):
        yield name, refined
    kept, objective = refined.labels, problem.objective(refined.labels)
    for number in range(_N_STARTS if problem.n <= MAX_PART_ITEMS else 1):
        if objective <= budget.objective_bound or (number > 0 and budget.over()):
            break
        current = multilevel(problem, budget, rng) if number > 0 else kept
        for labels in iterated_local_search(problem, current, budget, rng):
            if progress is not None:
                progress("search", *budget.spent())
            if labels is current:
                continue
            current = labels
            if problem.objective(labels) < objective:
                kept, objective = labels, problem.objective(labels)
                yield "search", Refined(kept, False, False)
                if objective <= budget.objective_bound:
                    break
    if refined.move_optimal:  # the labels were optimal before the search, so restoring it takes little time
        yield "search", refine(problem, kept, Budget())


def _polished_steps(start: Start, with_cycles: bool, second_start: bool, polishing: bool) -> Steps:
    """Multilevel refinement; then, if requested, cycles, a second start from contraction, and polishing."""
    problem, init, budget, rng, progress = start
    partners: Any = None
    init = None if init is None else problem.feasible(init)
    if init is None or problem.inside(init) < 0:
        partners = problem.partners(progress)
        init = multilevel(problem, budget, partners=partners)
    refined = refine(problem, or_single_cluster(problem, init), budget)
    yield "multilevel", refined
    for _ in range(MAX_CYCLES if with_cycles else 0):
        labels = cycle(problem, refined.labels, budget, rng)
        if labels is refined.labels:
            break
        before = problem.inside(refined.labels)
        refined = _better(problem, refined, refine(problem, labels, budget))
        yield "cycles", refined
        if not problem.inside(refined.labels) > before + MIN_CYCLE_GAIN * abs(before):
            break
    if second_start and not budget.over():
        if partners is None:
            partners = problem.partners(progress)
        labels = problem.feasible(labels_of_merges(problem.n, problem.contract_partners(partners, budget)))
        refined = _better(problem, refined, refine(problem, labels, budget))
        yield "contraction", refined
    if polishing and not budget.over():
        labels = polish(problem, refined.labels, _POLISHED_NODES, rng, budget)
        refined = _better(problem, refined, refine(problem, labels, budget))
        yield "kernighan-lin", refined


def or_single_cluster(problem: Problem, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The labels, or a single cluster of all items if its objective is lower and it is feasible."""
    if not problem.objective(labels) > 0:
        return labels
    whole = problem.feasible(np.zeros(problem.n, dtype=np.int64))
    return whole if problem.objective(whole) < problem.objective(labels) else labels


def _better(problem: Problem, first: Refined, second: Refined) -> Refined:
    """The result of smaller objective; the first if both are equal."""
    return second if problem.objective(second.labels) < problem.objective(first.labels) else first


STRATEGIES: dict[str, Callable[[Start], Steps]] = {
    "fast": fast_steps,
    "auto": auto_steps,
    "best": best_steps,
}
