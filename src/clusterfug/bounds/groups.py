"""Division of the items of a large problem into groups of similar ones, by 2-means."""

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.cost_kernels import Floats
from clusterfug.problems.dense import DenseProblem

_ITERATIONS = 15  # of 2-means, and of the power method


def groups_of(problem: DenseProblem, max_size: int) -> list[NDArray[np.int64]]:
    """Return all items in groups of at most `max_size`, of about equal sizes."""
    items = np.arange(problem.n)
    if problem.n <= max_size:
        return [items]
    features = problem.rows.features
    largest = max(features.max(), -features.min())
    return _bisected(features / largest if largest > 0 else features, items, max_size)


def _bisected(features: Floats, items: NDArray[np.int64], max_size: int) -> list[NDArray[np.int64]]:
    """Split in two by 2-means with given sizes, until groups are small enough."""
    count = -(-len(items) // max_size)
    if count == 1:
        return [np.sort(items)]
    left = count // 2 * len(items) // count
    scores = features @ _principal(features)
    for _ in range(_ITERATIONS):
        order = np.argsort(scores, kind="stable")
        here, there = order[:left], order[left:]
        scores = features @ (features[there].mean(axis=0) - features[here].mean(axis=0))
    return [g for half in (here, there) for g in _bisected(features[half], items[half], max_size)]


def _principal(features: Floats) -> Floats:
    """Return roughly the direction of largest variance, by the power method."""
    mean = features.mean(axis=0)
    direction = features[np.argmax(np.square(features - mean).sum(axis=1))] - mean
    for _ in range(_ITERATIONS):
        length = np.abs(direction).max()
        if length == 0:
            break
        direction = direction / length
        scores = features @ direction
        direction = (scores - scores.mean()) @ features
    return direction
