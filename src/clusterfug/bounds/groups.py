"""Similar items in groups: of a large problem only the triangles within groups are packed."""

import numpy as np
from numpy.typing import NDArray

from clusterfug.problem import DenseProblem

_ROUNDS = 15


def groups_of(problem: DenseProblem, most: int) -> list[NDArray[np.int64]]:
    """All items in groups of at most so many, of about equal sizes."""
    return _halves(problem, np.arange(problem.n), most)


def _halves(problem: DenseProblem, items: NDArray[np.int64], most: int) -> list[NDArray[np.int64]]:
    """Split in two by 2-means with given sizes, until groups are small enough."""
    count = -(-len(items) // most)
    if count == 1:
        return [np.sort(items)]
    features = problem.rows.features[items]
    left = count // 2 * len(items) // count
    scores = features @ _principal(features)
    for _ in range(_ROUNDS):
        order = np.argsort(scores, kind="stable")
        difference = features[order[:left]].mean(axis=0) - features[order[left:]].mean(axis=0)
        scores = -(features @ difference)
    return _halves(problem, items[order[:left]], most) + _halves(problem, items[order[left:]], most)


def _principal(features: NDArray[np.float64]) -> NDArray[np.float64]:
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
