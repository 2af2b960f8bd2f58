"""Proofs: the best clustering of a few dozen nodes, or how much better than a given one it may be.

On the road it comes after refinement: it starts from good labels. `branch.py` does the work.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from clusterfug.exact.branch import Search
from clusterfug.execution import threads

_QUANTUM = 1e-5  # of the largest |cost|: a smaller one is of no use


class Proof(NamedTuple):
    """A clustering, and what is known of all others."""

    labels: NDArray[np.int64]
    bound: float  # no clustering has a smaller objective
    optimal: bool  # the objective of the labels is the bound, but for rounding


def prove(
    costs: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    deadline: float | None = None,
    look: Callable[[], None] = threads.look,
) -> Proof:
    """Improve labels until no clustering has a smaller objective, or the time is up.

    Parameters
    ----------
    costs : float64 array of shape (n, n)
        Symmetric; the diagonal does not matter.
    labels : int64 array of shape (n,)
        A good clustering to start from.
    deadline : float, optional
        When the time is up, on the clock of ``time.perf_counter()``.
    look : callable
        Called several times a second; may raise KeyboardInterrupt.
    """
    n = len(costs)
    i, j = np.triu_indices(n, 1)
    quantum = _quantum(costs[i, j])
    unit = quantum or 1.0
    costs = np.where(np.eye(n, dtype=bool), 0.0, costs / unit)
    weights = costs[i, j]
    found = np.empty(n, dtype=np.int64)
    most, proven = [], True
    # Nobody is attracted across components of attraction: some best clustering cuts all pairs between them.
    _, component = connected_components(costs > 0, directed=False)
    for c in np.argsort(np.bincount(component), kind="stable").tolist():  # the easy ones first
        nodes = np.flatnonzero(component == c)
        search = Search(costs[np.ix_(nodes, nodes)], whole=quantum > 0)
        search.consider(labels[nodes])
        search.run(deadline, look)
        found[nodes] = n * c + search.labels
        most.append(search.most)
        proven &= search.proven()
    objective = math.fsum(weights[found[i] != found[j]])
    bound = math.fsum([*weights.tolist(), *(-value for value in most)])
    if not quantum:  # whole numbers are exact
        bound -= 4 * np.finfo(np.float64).eps * float(np.abs(weights).sum())
    return Proof(found, float(unit * min(bound, objective)), bool(proven))


def _quantum(weights: NDArray[np.float64]) -> float:
    """What all costs are whole multiples of, exactly: then so is every objective. 0 if it is of no use.

    Euclid's algorithm; no remainder is rounded.
    """
    values = np.unique(np.abs(weights[weights != 0]))
    largest = values.max(initial=0.0)
    while len(values) > 1 and values[0] >= _QUANTUM * largest:
        remainders = np.fmod(values[1:], values[0])
        values = np.unique(np.append(remainders[remainders > 0], values[0]))
    return float(values[0]) if len(values) == 1 and values[0] >= _QUANTUM * largest else 0.0
