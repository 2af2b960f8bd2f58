"""The incremental neighbour graph: a short sorted list of partners per node, outdated by contraction.

The list of node u is the result of a search at some moment: its k best partners then, and a *floor*,
the cost that every other node then stayed at or below. Contraction makes entries stale (a partner is no
longer the node it was), and stale entries are skipped, never replaced. What is left of a list is a bound:

    a node that has existed unchanged since u was searched and is not in the list of u
    costs at most the floor of u.

A node is searched when it is made. So of any two nodes the newer one knows the older, and the pair of
largest cost is the head of a list. Where a list has run empty its floor is a *promise*: u is searched
again only if its promise is the largest of all, and never if it is not attractive.

(The paper's incremental update fills the list of a new node from the lists and floors of its two parts.
That is no bound on nodes made since those lists were: see docs/how-it-works.md for the seven nodes that
show it. Here a new node is always searched.)
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from clusterfug.costs import Floats, Ints
from clusterfug.neighbours.exact import Neighbours, insert

NEVER = np.iinfo(np.int64).max


class Lists(NamedTuple):
    ids: Ints  # (n, k) partners, best first
    costs: Floats  # (n, k)
    head: Ints  # (n,) position of the first entry that is not known to be stale
    length: Ints  # (n,)
    floor: Floats  # (n,)
    searched: Ints  # (n,) when the list was made, counted in contractions
    made: Ints  # (n,) when the node itself was made; NEVER again after it was merged into another


def lists_of(neighbours: Neighbours) -> Lists:
    """Lists that start from an exact search of all items."""
    ids, costs = neighbours
    n, k = ids.shape
    return Lists(
        ids=ids,
        costs=costs,
        head=np.zeros(n, dtype=np.int64),
        length=np.full(n, k, dtype=np.int64),
        floor=np.full(n, -np.inf) if k == n - 1 else costs[:, -1].copy(),
        searched=np.zeros(n, dtype=np.int64),
        made=np.zeros(n, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def has_partner(lists: Lists, u: int) -> bool:
    """Move the head of u past stale entries; whether an entry is left."""
    head = lists.head[u]
    while head < lists.length[u] and lists.made[lists.ids[u, head]] > lists.searched[u]:
        head += 1
    lists.head[u] = head
    return head < lists.length[u]


@njit(cache=True, nogil=True)
def fill(lists: Lists, u: int, active: Ints, scores: Floats, now: int) -> None:
    """Make the list of u from its costs to all active nodes."""
    length = 0
    for t in range(active.shape[0]):
        if active[t] != u:
            length = insert(lists.ids[u], lists.costs[u], length, active[t], scores[t])
    k = lists.ids.shape[1]
    lists.floor[u] = lists.costs[u, k - 1] if 0 < k == length else -np.inf
    lists.head[u] = 0
    lists.length[u] = length
    lists.searched[u] = now
