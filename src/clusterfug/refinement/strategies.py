"""The names: what `fast`, `auto` and `best` do. Each is a road of steps, to be left after any of them."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.gaec import gaec
from clusterfug.contraction.history import labels_of_merges
from clusterfug.contraction.lazy import lazy
from clusterfug.graph import GraphProblem
from clusterfug.kernels import Progress
from clusterfug.neighbours.exact import nearest
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.iterated import WHOLE, polish, search
from clusterfug.refinement.multilevel import Problem, Refined, multilevel, refine

_STARTS = 4  # of `best`, where a problem is one part
_NEIGHBOURS = 5  # of lazy contraction
_NODES = 500  # of a neighbourhood that `auto` polishes
_CHEAP = 2.5e9  # multiplications: a tenth of a second
_LITTLE = 20  # times more items than nodes of a neighbourhood: little beside the search for neighbours

Steps = Iterator[tuple[str, Refined]]
Strategy = Callable[
    [Problem, NDArray[np.int64] | None, Budget, np.random.Generator, Progress | None], Steps
]


def fast(
    problem: Problem,
    init: NDArray[np.int64] | None,
    budget: Budget,
    rng: np.random.Generator,
    progress: Progress | None,
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
    progress: Progress | None,
) -> Steps:
    """`fast`; where it is cheap a second start, Kernighan-Lin and a little shaking."""
    nodes = problem.n if problem.n <= WHOLE else _NODES
    cheap = problem.n * nodes * problem.d <= _CHEAP
    little = problem.n >= _LITTLE * nodes
    for name, refined in fast(problem, init, budget, rng, progress):
        yield name, refined
    if cheap and not budget.over():
        refined = _better(problem, refined, _from_contraction(problem, budget))
        yield "contraction", refined
    if cheap or little:
        labels = polish(problem, refined.labels, nodes, rng, budget)
        yield "kernighan-lin", refine(problem, labels, budget)


def best(
    problem: Problem,
    init: NDArray[np.int64] | None,
    budget: Budget,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Steps:
    """`fast` and a second start; then iterated local search, for small problems from several starts."""
    for name, refined in fast(problem, init, budget, rng, progress):
        yield name, refined
    if not budget.over():
        refined = _better(problem, refined, _from_contraction(problem, budget))
        yield "contraction", refined
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


def _from_contraction(problem: Problem, budget: Budget) -> Refined:
    """A start of another kind: lazy contraction of features, GAEC on a graph."""
    if isinstance(problem, GraphProblem):
        merges = gaec(problem.edges, problem.costs, problem.n)
    else:
        merges = lazy(problem, nearest(problem, _NEIGHBOURS), _NEIGHBOURS)
    return refine(problem, labels_of_merges(problem.n, merges), budget)


def _better(problem: Problem, first: Refined, second: Refined) -> Refined:
    return second if problem.inside(second.labels) > problem.inside(first.labels) else first


STRATEGIES: dict[str, Strategy] = {"fast": fast, "auto": auto, "best": best}
