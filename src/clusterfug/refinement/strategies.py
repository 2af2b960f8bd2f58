"""The names: what `fast`, `auto` and `best` do. Each is a road of steps, to be left after any of them."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from clusterfug.kernels import Progress
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.iterated import WHOLE, polish, search
from clusterfug.refinement.multilevel import Problem, Refined, multilevel, refine

_STARTS = 4  # of `best`, where a problem is one part
_NODES = 500  # of a neighbourhood that `auto` polishes
_CHEAP = 20  # `auto` polishes if there are so many times more items than that

Steps = Iterator[tuple[str, Refined]]


def fast(
    problem: Problem,
    init: NDArray[np.int64] | None,
    budget: Budget,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Steps:
    """Multilevel moves and joins, from labels 0..K-1 or from singletons."""
    labels = multilevel(problem, budget, progress=progress) if init is None else init
    if max(problem.inside(labels), 0.0) < problem.all_singletons:
        labels = np.zeros(problem.n, dtype=np.int64)
    yield "multilevel", refine(problem, labels, budget)


def auto(
    problem: Problem,
    init: NDArray[np.int64] | None,
    budget: Budget,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Steps:
    """`fast`; then Kernighan-Lin and a little shaking, where that is cheap.

    It is where the problem is small, or so large that the costs of neighbourhoods are little beside
    those of all pairs, which have been looked at once to find neighbours.
    """
    for name, refined in fast(problem, init, budget, rng, progress):
        yield name, refined
    if not WHOLE < problem.n < _CHEAP * _NODES:
        nodes = problem.n if problem.n <= WHOLE else _NODES
        labels = polish(problem, refined.labels, nodes, rng, budget)
        yield "kernighan-lin", refine(problem, labels, budget)


def best(
    problem: Problem,
    init: NDArray[np.int64] | None,
    budget: Budget,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Steps:
    """`fast`; then iterated local search, for small problems from several starts."""
    for name, refined in fast(problem, init, budget, rng, progress):
        yield name, refined
    kept, inside = refined.labels, problem.inside(refined.labels)
    for start in range(_STARTS if problem.n <= WHOLE else 1):
        first = multilevel(problem, budget, rng) if start > 0 else kept
        for labels in search(problem, first, budget, rng):
            if progress is not None:
                progress("search", *budget.spent())
            if problem.inside(labels) > inside:
                kept, inside = labels, problem.inside(labels)
                yield "search", Refined(kept, False, False)
    yield "search", refine(problem, kept, Budget())


STRATEGIES = {"fast": fast, "auto": auto, "best": best}
