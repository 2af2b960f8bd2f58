"""The names: what `fast`, `auto` and `best` do. Each is a road of steps, to be left after any of them."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.gaec import gaec
from clusterfug.contraction.history import labels_of_merges
from clusterfug.contraction.lazy import lazy
from clusterfug.graph import GraphProblem
from clusterfug.kernels import Progress
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.iterated import WHOLE, polish, search
from clusterfug.refinement.moves import NEIGHBOURS
from clusterfug.refinement.multilevel import Problem, Refined, multilevel, refine, road_of

_STARTS = 4  # of `best`, where a problem is one part
_NODES = 500  # of a neighbourhood that is polished
_CHEAP = 4e9  # multiplications: a fraction of a second
_LITTLE = 20  # times more items than nodes of a neighbourhood: little beside the search for neighbours
_GRAPH = 20_000  # nodes of a graph that is polished in about a second

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
    yield from _polished(problem, init, budget, rng, progress, False, False)


def auto(
    problem: Problem,
    init: NDArray[np.int64] | None,
    budget: Budget,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Steps:
    """`fast`; where it is cheap a second start, Kernighan-Lin and a little shaking."""
    cheap, little = problem.n <= _GRAPH, False
    if not isinstance(problem, GraphProblem):
        cheap = problem.n * min(problem.n, _NODES) * problem.d <= _CHEAP
        little = problem.n >= _LITTLE * _NODES
    yield from _polished(problem, init, budget, rng, progress, cheap, cheap or little)


def best(
    problem: Problem,
    init: NDArray[np.int64] | None,
    budget: Budget,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Steps:
    """All that `auto` does at most; then iterated local search, for small problems from several starts."""
    for name, refined in _polished(problem, init, budget, rng, progress, True, True):
        yield name, refined
    kept, inside = refined.labels, problem.inside(refined.labels)
    for start in range(_STARTS if problem.n <= WHOLE else 1):
        if inside >= budget.enough or (start > 0 and budget.over()):
            break
        first = multilevel(problem, budget, rng) if start > 0 else kept
        for labels in search(problem, first, budget, rng):
            if progress is not None:
                progress("search", *budget.spent())
            if labels is first:
                continue
            first = labels
            if problem.inside(labels) > inside:
                kept, inside = labels, problem.inside(labels)
                yield "search", Refined(kept, False, False)
                if inside >= budget.enough:
                    break
    if refined.move_optimal:  # so it takes little to be so again
        yield "search", refine(problem, kept, Budget())


def _polished(
    problem: Problem,
    init: NDArray[np.int64] | None,
    budget: Budget,
    rng: np.random.Generator,
    progress: Progress | None,
    second_start: bool,
    shaken: bool,
) -> Steps:
    partners = None
    if init is None or problem.inside(init) < 0:
        partners = road_of(problem).partners(problem, progress)
        init = multilevel(problem, budget, partners=partners)
    refined = refine(problem, or_all_together(problem, init), budget)
    yield "multilevel", refined
    if second_start and not budget.over():
        if partners is None:
            partners = road_of(problem).partners(problem, progress)
        refined = _better(problem, refined, _from_contraction(problem, partners, budget))
        yield "contraction", refined
    if shaken and not budget.over():
        labels = polish(problem, refined.labels, _NODES, rng, budget)
        refined = _better(problem, refined, refine(problem, labels, budget))
        yield "kernighan-lin", refined


def or_all_together(problem: Problem, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """The labels, or all items in one cluster if that is better."""
    if problem.inside(labels) < problem.all_singletons:
        return np.zeros(problem.n, dtype=np.int64)
    return labels


def _from_contraction(problem: Problem, partners: Any, budget: Budget) -> Refined:
    """A start of another kind: GAEC on a graph, lazy contraction of features (uses the partners up)."""
    if isinstance(problem, GraphProblem):
        merges = gaec(problem.edges, problem.costs, problem.n)
    else:
        merges = lazy(problem, partners, NEIGHBOURS)
    return refine(problem, labels_of_merges(problem.n, merges), budget)


def _better(problem: Problem, first: Refined, second: Refined) -> Refined:
    return second if problem.inside(second.labels) > problem.inside(first.labels) else first


STRATEGIES: dict[str, Strategy] = {"fast": fast, "auto": auto, "best": best}
