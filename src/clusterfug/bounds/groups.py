"""Similar items in groups: of a large problem only the triangles within groups are packed."""

import numpy as np
from numpy.typing import NDArray

from clusterfug.problems.cost_kernels import Floats
from clusterfug.problems.dense import DenseProblem

_ROUNDS = 15


def groups_of(problem: DenseProblem, most: int) -> list[NDArray[np.int64]]:
    """All items in groups of at most so many, of about equal sizes."""
    items = np.arange(problem.n)
    if problem.n <= most:
        return [items]
    features = problem.rows.features
    largest = max(features.max(), -features.min())
    return _halves(features / largest if largest > 0 else features, items, most)


def _halves(features: Floats, items: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    """Split in two by 2-means with given sizes, until groups are small enough."""
    count = -(-len(items) // most)
    if count == 1:
        return [np.sort(items)]
    left = count // 2 * len(items) // count
    scores = features @ _principal(features)
    for _ in range(_ROUNDS):
        order = np.argsort(scores, kind="stable")
        here, there = order[:left], order[left:]
        scores = features @ (features[there].mean(axis=0) - features[here].mean(axis=0))
    return _halves(features[here], items[here], most) + _halves(features[there], items[there], most)


def _principal(features: Floats) -> Floats:
    """About the direction in which the features vary most."""
    mean = features.mean(axis=0)
    direction = features[np.argmax(np.square(features - mean).sum(axis=1))] - mean
    for _ in range(_ROUNDS):
        length = np.abs(direction).max()
        if length == 0:
            break
        direction = direction / length
        scores = features @ direction
        direction = (scores - scores.mean()) @ features
    return direction
