"""Proofs for a few dozen nodes: the best clustering, or how much better than the given one it may be.

The solver "exact" calls `prove` after refinement, with good labels to start from.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from clusterfug.exact.branch import BranchAndCut
from clusterfug.exact.dominance import clipped, dominated_groups

MIN_QUANTUM = 1e-5  # of the largest |cost|: the bounds of finer costs are not rounded to multiples


class Proof(NamedTuple):
    """A clustering and a lower bound."""

    labels: NDArray[np.int64]
    bound: float  # no clustering has a smaller objective
    optimal: bool  # whether the labels attain the bound, but for rounding
    rounding: float  # by which their objective may exceed the bound nevertheless
    open_pairs: NDArray[np.int64]  # (m, 2) those that were not contracted


def prove(
    costs: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    counted: NDArray[np.float64] | None = None,
    errors: NDArray[np.float64] | None = None,
    deadline: float | None = None,
) -> Proof:
    """Return labels improved until no clustering has a smaller objective, or until the deadline.

    If the costs contain penalties for pairs that must be apart, `counted` are the costs of the objective.

    The costs are symmetric, and so are upper bounds on their rounding errors, by default 0; their diagonals
    do not matter. The deadline is one of `jit.clock`.
    """
    n = len(costs)
    i, j = np.triu_indices(n, 1)
    quantum = _quantum(costs[i, j] if counted is None else np.append(costs[i, j], counted[i, j]))
    unit = quantum or 1.0
    costs = np.where(np.eye(n, dtype=bool), 0.0, costs / unit)
    weights = costs[i, j] if counted is None else counted[i, j] / unit
    errors = np.zeros((n, n)) if errors is None else np.where(np.eye(n, dtype=bool), 0.0, errors / unit)
    groups, between = dominated_groups(costs, errors)
    labels = labels[np.unique(groups, return_index=True)[1]]
    found = np.empty(len(between), dtype=np.int64)
    most, proven = [], True
    tolerance = 0.0
    # Every best clustering cuts all pairs between components that attractive pairs connect.
    _, component = connected_components(between > 0, directed=False)
    for c in np.argsort(np.bincount(component), kind="stable").tolist():  # small ones first
        nodes = np.flatnonzero(component == c)
        search = BranchAndCut(clipped(between[np.ix_(nodes, nodes)]), integer=quantum > 0)
        search.consider(labels[nodes])
        search.run(deadline)
        found[nodes] = n * c + search.labels
        most.append(search.most)
        tolerance += search.tolerance
        proven &= search.proven
    found = found[groups]
    objective = math.fsum(weights[found[i] != found[j]])
    bound = math.fsum([*weights[groups[i] != groups[j]].tolist(), *(-value for value in most)])
    error = 0.0  # integers are exact
    if not quantum:
        error = np.finfo(np.float64).eps * (4 * float(np.abs(between).sum()) + abs(bound))
    lowest = min(bound - error, objective)
    rounding = float(unit * (tolerance + 2 * error))
    open_pairs = np.stack([i, j], axis=1)[groups[i] != groups[j]]
    return Proof(found, float(unit * lowest), bool(proven), rounding, open_pairs)


def _quantum(weights: NDArray[np.float64]) -> float:
    """Return the largest number of which all costs, and so all objectives, are exact multiples.

    0 if it is too small to be useful. By Euclid's algorithm, in which no remainder is rounded.
    """
    values = np.unique(np.abs(weights[weights != 0]))
    largest = values.max(initial=0.0)
    while len(values) > 1 and values[0] >= MIN_QUANTUM * largest:
        remainders = np.fmod(values[1:], values[0])
        values = np.unique(np.append(remainders[remainders > 0], values[0]))
    return float(values[0]) if len(values) == 1 and values[0] >= MIN_QUANTUM * largest else 0.0
