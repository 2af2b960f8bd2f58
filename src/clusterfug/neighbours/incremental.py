"""The incremental neighbour graph: a short sorted list of partners per node, updated during contraction.

Time is the number of contractions. The list of node u describes one time: the best partners of u, and a
*floor*, an upper bound on the costs of all other nodes. Later contractions make entries stale (the partner
is no longer the same node), and stale entries are skipped. What remains is a bound:

    a node that has existed unchanged since that time and is not in the list of u costs at most the floor.

A new node m = ij inherits the lists of its parts (the paper's incremental neighbours): an old node in
neither list costs at most floor_i + floor_j. The paper stops there, and misses nodes that are newer than
the lists (docs/how-it-works.md has an example of seven nodes). Here those are scored as well, so of any two
nodes the list of the newer one accounts for the older one, and the pair of largest cost is the head of a
list. A list without entries is searched again only if its floor is positive and the largest bound of all.
"""

from typing import NamedTuple

import numpy as np

from clusterfug.execution.jit import kernel
from clusterfug.neighbours.exact import Neighbours, insert, largest_value
from clusterfug.problems.cost_kernels import Floats, Ints

NEVER = np.iinfo(np.int64).max
_STRIDE = 64  # costs that are compared with the floor of a list at once


class NeighbourLists(NamedTuple):
    """Sorted partners of every node, with the time that each list describes."""

    ids: Ints  # (n, k) partners, in decreasing order of their costs
    costs: Floats  # (n, k)
    head: Ints  # (n,) position of the first entry that is not known to be stale
    length: Ints  # (n,)
    floor: Floats  # (n,) upper bound on the costs of nodes that are not listed
    list_time: Ints  # (n,) time that the list describes
    node_time: Ints  # (n,) time at which the node was made; NEVER once it is part of another


def initial_lists(neighbours: Neighbours) -> NeighbourLists:
    """Return the lists at time 0, from an exact search of all items."""
    ids, costs = neighbours
    n, k = ids.shape
    return NeighbourLists(
        ids=ids,
        costs=costs,
        head=np.zeros(n, dtype=np.int64),
        length=np.full(n, k, dtype=np.int64),
        floor=np.full(n, -np.inf) if k == n - 1 else costs[:, -1].copy(),
        list_time=np.zeros(n, dtype=np.int64),
        node_time=np.zeros(n, dtype=np.int64),
    )


@kernel
def has_partner(lists: NeighbourLists, u: int) -> bool:
    """Advance the head of the list of u past stale entries. Return whether an entry is left."""
    head = lists.head[u]
    while head < lists.length[u] and is_stale(lists, u, head):
        head += 1
    lists.head[u] = head
    return head < lists.length[u]


@kernel
def is_stale(lists: NeighbourLists, u: int, at: int) -> bool:
    """Return whether the partner at a position of the list of u has changed since the list was made."""
    return lists.node_time[lists.ids[u, at]] > lists.list_time[u]


@kernel
def fill_list(lists: NeighbourLists, u: int, nodes: Ints, costs: Floats, now: int, floor: float) -> float:
    """Make the list of u from its costs to some nodes (in increasing order); others cost at most `floor`.

    Returns the cost of the best partner, or an upper bound on it if no node is listed.
    """
    k = lists.ids.shape[1]
    length = 0
    for start in range(0, nodes.shape[0], _STRIDE):
        stop = min(nodes.shape[0], start + _STRIDE)
        if largest_value(costs[start:stop]) <= floor:
            continue
        for t in range(start, stop):
            if costs[t] > floor and nodes[t] != u:
                if length == k:
                    floor = max(floor, min(costs[t], lists.costs[u, k - 1]))
                length = insert(lists.ids[u], lists.costs[u], length, nodes[t], costs[t])
    lists.floor[u] = floor
    lists.head[u] = 0
    lists.length[u] = length
    lists.list_time[u] = now
    return lists.costs[u, 0] if length > 0 else floor
