"""Multilevel refinement: move items, contract the clusters, move clusters (joins), and project back.

The algorithm is the same for every kind of problem; `Problem.first_moves` and `Problem.move_items` do the
work of one level.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.protocol import Problem
from clusterfug.refinement.budget import Budget
from clusterfug.result import compact

_MAX_ROUNDS = 1000  # of moves and joins: a safety limit


class Refined(NamedTuple):
    """Labels 0..K-1, and whether it is certain that no single move and no single join improves them."""

    labels: NDArray[np.int64]
    move_optimal: bool
    join_optimal: bool


def multilevel(
    problem: Problem, budget: Budget, rng: np.random.Generator | None = None, partners: Any = None
) -> NDArray[np.int64]:
    """Labels from singletons: moves between neighbours, then moves of the resulting clusters, recursively.

    The labels need not be move-optimal for the items themselves; see `refine`. With a generator the items
    of the first level are visited in random order. `partners` are those of the problem if they are known.
    """
    labels = problem.first_moves(problem.partners() if partners is None else partners, rng)
    if int(labels.max()) + 1 == problem.n:
        return labels
    contracted = problem.contract(labels)
    return contracted.move_items(multilevel(contracted, budget), budget)[0][labels]


def cycle(
    problem: Problem, labels: NDArray[np.int64], budget: Budget, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Labels after a cycle: divide the clusters, move their parts, and so on with parts of these parts.

    A part of a cluster moves as a whole where none of its items would move alone. The result is never worse
    than labels 0..K-1 that are given, and the same if the problem cannot be divided.
    """
    parts = problem.subdivide(labels, rng)
    if parts is None or budget.over() or not labels.max() < parts.max() < problem.n - 1:
        return labels
    contracted = problem.contract(parts)
    first = np.unique(parts, return_index=True)[1]
    moved, _ = contracted.move_items(compact(labels[first]), budget)
    moved = cycle(contracted, moved, budget, rng)
    return problem.move_items(moved[parts], budget)[0]


def refine(problem: Problem, labels: NDArray[np.int64], budget: Budget) -> Refined:
    """Alternate moves and joins, starting from labels 0..K-1, until neither improves the objective.

    The result is never worse than the given labels.
    """
    for _ in range(_MAX_ROUNDS):
        labels, move_optimal = problem.move_items(labels, budget)
        if not move_optimal:
            break
        contracted = problem.contract(labels)
        partners = contracted.partners()
        if not contracted.any_attracts(partners):
            return Refined(labels, True, True)
        joined = multilevel(contracted, budget, partners=partners)
        if int(joined.max()) + 1 < contracted.n:
            joined, _ = contracted.move_items(joined, budget)
        else:  # what attracts may be a rounding error
            joined, join_optimal = problem.join_clusters(labels, budget)
            if int(joined.max()) + 1 == contracted.n:
                return Refined(labels, True, join_optimal)
        labels = joined[labels]
    return Refined(labels, False, False)
