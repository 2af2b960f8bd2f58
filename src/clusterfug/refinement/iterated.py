"""Iterated local search: Kernighan-Lin and shaking on neighbourhoods of a problem, and when it ends.

A neighbourhood consists of some clusters around an item, as a `Part` with the costs of all pairs of their
nodes. An improvement there is an improvement of the whole problem, since all other clusters stay the same.
Of a large cluster only the nodes closest to the item are free to move; the rest is one contracted node. The
problem provides the closeness of items to an item and the costs between groups of items.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.protocol import Problem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.kernighan_lin import kernighan_lin
from clusterfug.refinement.part import Part, make_part
from clusterfug.refinement.shake import shake
from clusterfug.result import compact

#: A problem of at most this many items is treated as one part, whose cost matrix takes 32 MB.
MAX_PART_ITEMS = 2000

_MAX_NODES = 1000  # free nodes of a neighbourhood
_CLUSTER_FRACTION = 3  # one cluster has at most 1/3 of the free nodes
_MAX_CLUSTERS = 100  # clusters of a neighbourhood
_MIN_SHAKES = 20  # shaking steps per iteration; one per node if there are more nodes
_POLISHING_ROUNDS = 2  # rounds of shaking when a whole problem is polished, while they find improvements
_POLISHING_FRACTION = 4  # neighbourhoods that are polished are shaken 1/4 as long
_MAX_STALLED = 50  # iterations without improvement before the search stops, per _MAX_NODES items


class Subproblem(NamedTuple):
    """Neighbourhood of an item as a part."""

    items: NDArray[np.int64]
    groups: NDArray[np.int64]  # node of the part that each item belongs to
    part: Part


def iterated_local_search(
    problem: Problem, labels: NDArray[np.int64], budget: Budget, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Yield the best labels so far after every iteration, until the search stalls or the budget ends."""
    return (_search_whole if problem.n <= MAX_PART_ITEMS else _search_parts)(problem, labels, budget, rng)


def polish(
    problem: Problem, labels: NDArray[np.int64], nodes: int, rng: np.random.Generator, budget: Budget
) -> NDArray[np.int64]:
    """Labels after Kernighan-Lin and a little shaking on neighbourhoods, those of large clusters first.

    Every cluster of three or more items is in at least one neighbourhood, which has at most `nodes` free
    nodes. A problem of at most MAX_PART_ITEMS items is a single neighbourhood.
    """
    sizes = np.bincount(labels)[labels]
    if problem.n <= MAX_PART_ITEMS:
        nodes, fraction, rounds = problem.n, 1, _POLISHING_ROUNDS
    else:
        fraction, rounds = _POLISHING_FRACTION, 1
        sizes[sizes <= 2] = 0
    covered = sizes == 0
    for i in np.argsort(-sizes, kind="stable"):
        if not covered[i] and not budget.over():
            subproblem = subproblem_around(problem, labels, int(i), nodes)
            covered[subproblem.items] = True
            labels = _improve(labels, subproblem, rng, fraction, rounds)
    return labels


def _search_whole(
    problem: Problem, labels: NDArray[np.int64], budget: Budget, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Iterated local search on all items at once."""
    n = problem.n
    costs = problem.group_costs(np.arange(n), np.arange(n))
    matrix = costs.constrained
    best, stalled = labels, 0
    while stalled < _MAX_STALLED and budget.spend():
        # Made anew, because rounding errors accumulate in a table that is updated.
        part = make_part(matrix, labels, costs.tolerance)
        before = part.inside[0]
        if stalled == 0:
            kernighan_lin(part)
        shake(part, rng, max(_MIN_SHAKES, n))
        stalled += 1
        labels = part.labels
        if part.inside[0] > before + part.tolerance:
            best, stalled = compact(labels), 0
        yield best


def _search_parts(
    problem: Problem, labels: NDArray[np.int64], budget: Budget, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Iterated local search on neighbourhoods of random items."""
    stalled = 0
    while stalled < _MAX_STALLED * (1 + problem.n // _MAX_NODES) and budget.spend():
        subproblem = subproblem_around(problem, labels, int(rng.integers(problem.n)), _MAX_NODES)
        better = _improve(labels, subproblem, rng, 1)
        stalled += 1
        if better is not labels:
            labels, stalled = better, 0
        yield labels


def _improve(
    labels: NDArray[np.int64],
    subproblem: Subproblem,
    rng: np.random.Generator,
    fraction: int,
    rounds: int = 1,
) -> NDArray[np.int64]:
    """Labels with an improved neighbourhood, or the given array itself if there is no improvement.

    The neighbourhood is shaken about once per `fraction` nodes, in several rounds. A round without
    improvement is the last.
    """
    part = subproblem.part
    before = part.inside[0]
    kernighan_lin(part)
    steps = max(_MIN_SHAKES, len(part.labels) // fraction)
    for _ in range(rounds):
        last = part.inside[0]
        shake(part, rng, -(-steps // rounds))
        if not part.inside[0] > last + part.tolerance:
            break
    if not part.inside[0] > before + part.tolerance:
        return labels
    better = labels.copy()
    better[subproblem.items] = len(labels) + part.labels[subproblem.groups]
    return compact(better)


def subproblem_around(problem: Problem, labels: NDArray[np.int64], i: int, nodes: int) -> Subproblem:
    """The clusters closest to item i, its own first, with at most `nodes` free nodes."""
    closeness = problem.closeness(i)
    sizes = np.bincount(labels)
    mean = np.bincount(labels, weights=closeness) / sizes
    mean[labels[i]] = np.inf
    whole = nodes >= problem.n
    free = sizes if whole else np.minimum(sizes, nodes // _CLUSTER_FRACTION)
    near = np.argsort(-mean, kind="stable")[: None if whole else _MAX_CLUSTERS]
    near = near[np.cumsum(free[near]) <= nodes]
    chosen = np.zeros(len(sizes), dtype=np.bool_)
    chosen[near] = True
    items = np.flatnonzero(chosen[labels])
    groups = np.arange(len(items))
    for c in near[sizes[near] > free[near]]:
        members = np.flatnonzero(labels[items] == c)
        rest = members[np.argsort(-closeness[items[members]], kind="stable")[free[c] :]]
        groups[rest] = rest.min()
    _, first, groups = np.unique(groups, return_index=True, return_inverse=True)
    costs = problem.group_costs(items, groups)
    return Subproblem(items, groups, make_part(costs.constrained, labels[items[first]], costs.tolerance))
