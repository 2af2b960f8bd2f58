"""Decisions that are the same in every best clustering, because one cost outweighs all others of a node.

`prove.py` makes them before branch and cut. So a few huge costs do not hide the small ones: neither in the
rounding of a linear program nor in the tolerance for its gap.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

_MARGIN = 1e-9  # by which a cost has to exceed the others, as a share: more than the rounding of their sum


def dominated_groups(
    costs: NDArray[np.float64], errors: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return groups 0..m-1 of nodes that every best clustering keeps together, and the costs between them.

    If a pair (u, v) attracts more than all other pairs of u together, attractive or repulsive, then u gains
    by moving to the cluster of v. The costs are symmetric, with a diagonal of 0; so are upper bounds on
    their rounding errors.
    """
    groups = np.arange(len(costs))
    between, doubt = costs, errors.sum(axis=1)
    while len(between) > 1:
        partner = between.argmax(axis=1)
        largest = between.max(axis=1)
        others = np.abs(between).sum(axis=1) - largest
        joins = (largest > 0) & (largest > (1 + _MARGIN) * (others + doubt))
        if not joins.any():
            break
        joined = np.zeros(between.shape, dtype=np.bool_)
        joined[joins, partner[joins]] = True
        groups = connected_components(joined, directed=False)[1].astype(np.int64)[groups]
        between = _costs_between(costs, groups)
        doubt = np.bincount(groups, errors.sum(axis=1))  # that of pairs inside groups, too
    return groups, between


def _costs_between(costs: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the costs between groups 0..m-1, each rounded only once: costs of any size may cancel."""
    members = [np.flatnonzero(groups == g) for g in range(int(groups.max()) + 1)]
    between = np.zeros((len(members), len(members)))
    for g, of_g in enumerate(members):
        for h, of_h in enumerate(members[:g]):
            between[g, h] = between[h, g] = math.fsum(costs[np.ix_(of_g, of_h)].ravel().tolist())
    return between


def clipped(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return costs with the same best clusterings, of the same `inside`, without huge negative ones.

    If a pair repels more than all attractive pairs of one of its ends together, then that end gains by
    leaving: every best clustering cuts the pair, whatever its cost is beyond that.
    """
    attraction = np.maximum(costs, 0.0).sum(axis=1)
    return np.maximum(costs, -2 * attraction.max())
