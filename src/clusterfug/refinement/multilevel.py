"""Multilevel refinement: move items, contract the clusters, move clusters (that is joining), uncontract.

The same code serves features and graphs; `moves` and `graph_moves` have the same three functions.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.graph import GraphProblem
from clusterfug.problem import DenseProblem
from clusterfug.refinement import graph_moves, moves
from clusterfug.refinement.budget import Budget

Problem = DenseProblem | GraphProblem


class Refined(NamedTuple):
    """Labels 0..K-1, and what is certain about them: no single move, no single join improves them."""

    labels: NDArray[np.int64]
    move_optimal: bool
    join_optimal: bool


def multilevel(
    problem: Problem,
    budget: Budget,
    rng: np.random.Generator | None = None,
    partners: Any = None,
) -> NDArray[np.int64]:
    """Labels from singletons: moves along the neighbour graph, then moves of clusters, level by level.

    The order of the items follows from the costs, or is random with a generator. `partners` is that of
    `road_of(problem)`, if it is known already. What is left to do is to move the items: `refine`.
    """
    road = road_of(problem)
    labels = road.first_moves(problem, road.partners(problem) if partners is None else partners, rng)
    if int(labels.max()) + 1 == problem.n:
        return labels
    contracted = problem.contract(labels)
    return road.moves(contracted, multilevel(contracted, budget), budget)[0][labels]


def refine(problem: Problem, labels: NDArray[np.int64], budget: Budget) -> Refined:
    """Moves and joins from given labels until neither improves; never worse than the labels."""
    road = road_of(problem)
    while True:
        labels, settled = road.moves(problem, labels, budget)
        if not settled:
            return Refined(labels, False, False)
        contracted = problem.contract(labels)
        joined = multilevel(contracted, budget)
        if int(joined.max()) + 1 == contracted.n:
            return Refined(labels, True, True)
        labels = road.moves(contracted, joined, budget)[0][labels]


def road_of(problem: Problem) -> ModuleType:
    """Moves on features or on a graph."""
    return graph_moves if isinstance(problem, GraphProblem) else moves
