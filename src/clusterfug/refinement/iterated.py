"""Iterated local search: Kernighan-Lin and shaking on neighbourhoods of a problem, or on all of it.

A neighbourhood is some clusters around an item, as a `Part`: the costs of all pairs of their nodes. What is
gained there is gained in the whole problem, since its other clusters stay as they are. Of a large cluster
only the nodes nearest to the item are free; the rest is one node. The same code serves features and graphs:
a problem says how close items are to an item and what groups of items cost each other.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.refinement.budget import Budget
from clusterfug.refinement.kernighan_lin import kernighan_lin
from clusterfug.refinement.multilevel import Problem
from clusterfug.refinement.part import Part, part_of
from clusterfug.refinement.shake import shake
from clusterfug.result import compact

#: A problem of no more items is one part: its cost matrix takes 32 MB.
WHOLE = 2000

_NODES = 1000  # of a neighbourhood at most
_SHARE = 3  # a cluster has at most a third of them to itself
_CLUSTERS = 100  # of a neighbourhood at most
_STEPS = 20  # of shaking in an iteration at least; one per node otherwise
_ROUNDS = 2  # of shaking a whole problem that is only polished, as long as they find something
_POLISH = 4  # neighbourhoods that are only polished are shaken a quarter as long
_PATIENCE = 50  # iterations without success, for every part of the problem
_ROUNDING = 1e-12  # a gain counts if it is larger than this times the costs at a node


class Neighbourhood(NamedTuple):
    items: NDArray[np.int64]
    groups: NDArray[np.int64]  # node of the part that each item belongs to
    part: Part


def search(
    problem: Problem, labels: NDArray[np.int64], budget: Budget, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """The best labels so far after every iteration, until nothing improves or the budget is over."""
    return (_shake_whole if problem.n <= WHOLE else _shake_parts)(problem, labels, budget, rng)


def polish(
    problem: Problem, labels: NDArray[np.int64], nodes: int, rng: np.random.Generator, budget: Budget
) -> NDArray[np.int64]:
    """Kernighan-Lin and a little shaking on neighbourhoods, those of large clusters first.

    Every cluster of three items or more is in one of them. A problem that is one part is one neighbourhood.
    """
    sizes = np.bincount(labels)[labels]
    if problem.n <= WHOLE:
        nodes, share, rounds = problem.n, 1, _ROUNDS
    else:
        share, rounds = _POLISH, 1
        sizes[sizes <= 2] = 0
    seen = sizes == 0
    for i in np.argsort(-sizes, kind="stable"):
        if not seen[i] and not budget.over():
            near = neighbourhood(problem, labels, int(i), nodes)
            seen[near.items] = True
            labels = _shaken(labels, near, rng, share, rounds)
    return labels


def _shake_whole(
    problem: Problem, labels: NDArray[np.int64], budget: Budget, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    n = problem.n
    costs = problem.group_costs(np.arange(n), np.arange(n))
    best, quiet = labels, 0
    while quiet < _PATIENCE and budget.spend():
        part = _part(costs, labels)  # afresh: a table that many moves changed has rounding errors
        before = part.inside[0]
        if quiet == 0:
            kernighan_lin(part)
        shake(part, rng, max(_STEPS, n))
        quiet += 1
        labels = part.labels
        if part.inside[0] > before + part.tolerance:
            best, quiet = compact(labels), 0
        yield best


def _shake_parts(
    problem: Problem, labels: NDArray[np.int64], budget: Budget, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    quiet = 0
    while quiet < _PATIENCE * (1 + problem.n // _NODES) and budget.spend():
        near = neighbourhood(problem, labels, int(rng.integers(problem.n)), _NODES)
        better = _shaken(labels, near, rng, 1)
        quiet += 1
        if better is not labels:
            labels, quiet = better, 0
        yield labels


def _shaken(
    labels: NDArray[np.int64], near: Neighbourhood, rng: np.random.Generator, share: int, rounds: int = 1
) -> NDArray[np.int64]:
    """The labels with a better neighbourhood; the labels themselves if it found none.

    A round of shaking that finds nothing is the last.
    """
    part = near.part
    before = part.inside[0]
    kernighan_lin(part)
    steps = max(_STEPS, len(part.labels) // share)
    for _ in range(rounds):
        last = part.inside[0]
        shake(part, rng, -(-steps // rounds))
        if not part.inside[0] > last + part.tolerance:
            break
    if not part.inside[0] > before + part.tolerance:
        return labels
    better = labels.copy()
    better[near.items] = len(labels) + part.labels[near.groups]
    return compact(better)


def neighbourhood(problem: Problem, labels: NDArray[np.int64], i: int, nodes: int) -> Neighbourhood:
    """The clusters around item i, with at most so many nodes."""
    closeness = problem.closeness(i)
    sizes = np.bincount(labels)
    mean = np.bincount(labels, weights=closeness) / sizes
    mean[labels[i]] = np.inf
    whole = nodes >= problem.n
    free = sizes if whole else np.minimum(sizes, nodes // _SHARE)
    near = np.argsort(-mean, kind="stable")[: None if whole else _CLUSTERS]
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
    return Neighbourhood(items, groups, _part(problem.group_costs(items, groups), labels[items[first]]))


def _part(costs: NDArray[np.float64], labels: NDArray[np.int64]) -> Part:
    return part_of(costs, labels, _ROUNDING * float(np.abs(costs).sum(axis=1).max()))
