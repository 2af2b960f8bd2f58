"""The incremental neighbour graph: one short sorted list of partners per node, kept true by contraction.

What makes greedy contraction exact is one invariant per node u, with its *floor* (cost, index):

    every active node that is not in the list of u comes at or after the floor of u
    (larger cost first, then the lower index).

So the best partner of u is the head of its list; if the list has run empty, the floor is a promise:
the best partner costs at most that much. A promise is resolved by a search only if it reaches the top
of all nodes, and never if it is not attractive. The paper's incremental update bounds a new node by the
floors of its parts alone, which misses nodes merged later; here a new node is scored against every
active node once and *announced* to their lists, so the invariant holds for nodes of any age.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from clusterfug.costs import Floats, Ints
from clusterfug.neighbours.exact import Neighbours, insert, precedes


class Lists(NamedTuple):
    ids: Ints  # (n, k) partners, best first
    costs: Floats  # (n, k)
    length: Ints  # (n,) entries in use
    floor_cost: Floats  # (n,)
    floor_id: Ints  # (n,)


def lists_of(neighbours: Neighbours) -> Lists:
    """Lists that start from an exact search: the floor of a full list is its last entry."""
    ids, costs = neighbours
    n, k = ids.shape
    complete = k == n - 1  # nobody is outside the list
    return Lists(
        ids=ids,
        costs=costs,
        length=np.full(n, k, dtype=np.int64),
        floor_cost=np.full(n, -np.inf) if complete else costs[:, -1].copy(),
        floor_id=np.full(n, -1, dtype=np.int64) if complete else ids[:, -1].copy(),
    )


@njit(cache=True, nogil=True)
def promise_or_best(lists: Lists, u: int) -> float:
    """Cost of the best partner of u, or an upper bound on it while the list is empty."""
    return lists.costs[u, 0] if lists.length[u] > 0 else lists.floor_cost[u]


@njit(cache=True, nogil=True)
def fill(lists: Lists, u: int, active: Ints, scores: Floats) -> None:
    """Make the list of u from its costs to all active nodes."""
    length = 0
    for t in range(active.shape[0]):
        if active[t] != u:
            length = insert(lists.ids[u], lists.costs[u], length, active[t], scores[t])
    lists.length[u] = length
    k = lists.ids.shape[1]
    if length < k or k == 0:
        lists.floor_cost[u] = -np.inf
        lists.floor_id[u] = -1
    else:
        lists.floor_cost[u] = lists.costs[u, k - 1]
        lists.floor_id[u] = lists.ids[u, k - 1]


@njit(cache=True, nogil=True)
def announce(lists: Lists, u: int, gone: int, active: Ints, scores: Floats) -> None:
    """Tell all active nodes that u is a new node (made of the old u and `gone`) at these costs."""
    k = lists.ids.shape[1]
    for t in range(active.shape[0]):
        v = active[t]
        if v == u:
            continue
        ids, costs = lists.ids[v], lists.costs[v]
        kept = 0
        for p in range(lists.length[v]):
            if ids[p] != u and ids[p] != gone:
                ids[kept] = ids[p]
                costs[kept] = costs[p]
                kept += 1
        if precedes(scores[t], u, lists.floor_cost[v], lists.floor_id[v]):
            if kept == k:  # the entry that falls out is the best one outside
                lists.floor_cost[v] = costs[k - 1]
                lists.floor_id[v] = ids[k - 1]
            kept = insert(ids, costs, kept, u, scores[t])
        lists.length[v] = kept
