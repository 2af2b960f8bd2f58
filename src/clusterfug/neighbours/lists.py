"""The incremental neighbour graph: a short sorted list of partners per node, outdated by contraction.

The list of node u describes some moment: the best partners of u then, and a *floor*, the cost that every
other node then stayed at or below. Contraction makes entries stale (a partner is no longer the node it
was), and stale entries are skipped. What is left of a list is a bound:

    a node that has existed unchanged since that moment and is not in the list of u
    costs at most the floor of u.

A new node m = ij inherits the lists of its parts (the paper's incremental neighbours): an old node in
neither list costs at most floor_i + floor_j. The paper stops there, and misses nodes that were made after
the lists were (docs/how-it-works.md has seven nodes that show it). Here those are scored as well, so of
any two nodes the newer one knows the older, and the pair of largest cost is the head of a list. Where a
list has run empty its floor is a *promise*: u is searched again only if its promise is the largest of all,
and never if it is not attractive.
"""

from typing import NamedTuple

import numpy as np

from clusterfug.execution.jit import kernel
from clusterfug.neighbours.exact import Neighbours, insert
from clusterfug.problems.cost_kernels import Floats, Ints

NEVER = np.iinfo(np.int64).max


class Lists(NamedTuple):
    ids: Ints  # (n, k) partners, best first
    costs: Floats  # (n, k)
    head: Ints  # (n,) position of the first entry that is not known to be stale
    length: Ints  # (n,)
    floor: Floats  # (n,)
    known: Ints  # (n,) the moment a list describes, counted in contractions
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
        known=np.zeros(n, dtype=np.int64),
        made=np.zeros(n, dtype=np.int64),
    )


@kernel
def has_partner(lists: Lists, u: int) -> bool:
    """Move the head of u past stale entries; whether an entry is left."""
    head = lists.head[u]
    while head < lists.length[u] and is_stale(lists, u, head):
        head += 1
    lists.head[u] = head
    return head < lists.length[u]


@kernel
def is_stale(lists: Lists, u: int, at: int) -> bool:
    return lists.made[lists.ids[u, at]] > lists.known[u]


@kernel
def fill(lists: Lists, u: int, nodes: Ints, costs: Floats, now: int, floor: float) -> None:
    """Make the list of u from its costs to some nodes; all others are known to cost at most `floor`."""
    k = lists.ids.shape[1]
    length = 0
    rejected = floor
    for t in range(nodes.shape[0]):
        if nodes[t] == u or not costs[t] > floor:
            continue
        if length == k:
            rejected = max(rejected, min(costs[t], lists.costs[u, k - 1]))
        length = insert(lists.ids[u], lists.costs[u], length, nodes[t], costs[t])
    finish(lists, u, length, rejected, now)


@kernel
def finish(lists: Lists, u: int, length: int, floor: float, now: int) -> None:
    """The list of u is complete for this moment."""
    lists.floor[u] = floor
    lists.head[u] = 0
    lists.length[u] = length
    lists.known[u] = now


@kernel
def best_or_promise(lists: Lists, u: int) -> float:
    """What the best partner of u costs, or at most costs: the head of a fresh list, or its floor."""
    return lists.costs[u, 0] if lists.length[u] > 0 else lists.floor[u]
