"""A few nodes with the costs of all their pairs: the state on which Kernighan-Lin and shaking work.

A `Part` is a whole small problem, or a neighbourhood of a large one. table[c, v] is the total cost of node
v to the members of cluster c, so the gain of every move can be read off; a move adds a row of costs to one
row of the table and subtracts it from another. All kernels here update the table and the total `inside`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.result import compact

_MAX_MOVES_PER_NODE = 100  # of one call of `climb`: a safety limit

ALONE = -1  # as the target of a move: a new cluster
CLUSTERS = 0  # index into Part.counts


class Part(NamedTuple):
    """Nodes 0..m-1 and their clusters, in slots 0..m, some of which are unused."""

    costs: Floats  # (m, m) symmetric, with a zero diagonal
    table: Floats  # (m + 1, m) cost of a node to a cluster
    labels: Ints  # (m,) slot of each node
    sizes: Ints  # (m + 1,) number of nodes in each slot
    slots: Ints  # (m + 1,) permutation of the slots, those in use first
    at: Ints  # (m + 1,) position of each slot in `slots`
    dirty: Ints  # (m + 1,) whether the cluster has changed since the labels were last move-optimal
    counts: Ints  # (1,) number of clusters
    inside: Floats  # (1,) total cost of the pairs in the same cluster
    tolerance: float  # minimum gain of a move


def make_part(costs: NDArray[np.float64], labels: NDArray[np.int64], tolerance: float) -> Part:
    """Part with the given costs (symmetric, with a zero diagonal) and labels."""
    m = len(costs)
    part = Part(
        costs=costs,
        table=np.zeros((m + 1, m)),
        labels=compact(labels),
        sizes=np.zeros(m + 1, dtype=np.int64),
        slots=np.arange(m + 1),
        at=np.arange(m + 1),
        dirty=np.ones(m + 1, dtype=np.bool_),
        counts=np.zeros(1, dtype=np.int64),
        inside=np.zeros(1),
        tolerance=tolerance,
    )
    fill_table(part)
    return part


@kernel
def fill_table(part: Part) -> None:
    """Compute table, sizes and total cost from labels 0..K-1."""
    for v in range(part.labels.shape[0]):
        slot = part.labels[v]
        part.inside[0] += part.table[slot, v]  # cost to the members before v
        part.table[slot] += part.costs[v]
        part.sizes[slot] += 1
        part.counts[CLUSTERS] = max(part.counts[CLUSTERS], slot + 1)


@kernel
def move_node(part: Part, v: int, to: int) -> int:
    """Move node v to a cluster, or to a new one if `to` is ALONE. Returns the slot of the cluster."""
    home = part.labels[v]
    if to == ALONE:
        to = part.slots[part.counts[CLUSTERS]]
    if part.sizes[to] == 0:
        swap_slots(part, to, part.counts[CLUSTERS])
        part.counts[CLUSTERS] += 1
    part.inside[0] += part.table[to, v] - part.table[home, v]
    for u in range(part.labels.shape[0]):
        part.table[home, u] -= part.costs[v, u]
        part.table[to, u] += part.costs[v, u]
    part.labels[v] = to
    part.sizes[to] += 1
    part.sizes[home] -= 1
    part.dirty[to] = part.dirty[home] = True
    if part.sizes[home] == 0:
        part.table[home] = 0.0
        part.counts[CLUSTERS] -= 1
        swap_slots(part, home, part.counts[CLUSTERS])
    return to


@kernel
def swap_slots(part: Part, slot: int, position: int) -> None:
    """Exchange a slot with the slot at a position of ``part.slots``."""
    other = part.slots[position]
    part.slots[part.at[slot]] = other
    part.at[other] = part.at[slot]
    part.slots[position] = slot
    part.at[slot] = position


@kernel
def climb(part: Part, first: int) -> None:
    """Hill climbing: move nodes cyclically, beginning with node `first`, until no move has a gain.

    (Or until the number of moves reaches a limit, since the table accumulates rounding errors.) A move can
    have a gain only if the cluster that the node leaves or the one that it joins is dirty.
    """
    m = part.labels.shape[0]
    dirty = np.empty(m + 1, dtype=np.int64)
    stalled = 0  # nodes visited since the last move
    moves_left = _MAX_MOVES_PER_NODE * m
    v = first
    count = -1
    while stalled < m and moves_left > 0:
        if count < 0:
            count = 0
            for at in range(part.counts[CLUSTERS]):
                if part.dirty[part.slots[at]]:
                    dirty[count] = part.slots[at]
                    count += 1
        home = part.labels[v]
        stay = part.table[home, v]
        best = 0.0
        to = ALONE
        if part.dirty[home]:
            for at in range(part.counts[CLUSTERS]):
                slot = part.slots[at]
                if slot != home and part.table[slot, v] > best:
                    best = part.table[slot, v]
                    to = slot
        else:
            best = stay
            for slot in dirty[:count]:
                if part.table[slot, v] > best:
                    best = part.table[slot, v]
                    to = slot
        if best > stay + part.tolerance and not (to == ALONE and part.sizes[home] == 1):
            move_node(part, v, to)
            moves_left -= 1
            count = -1
            stalled = 0
        else:
            stalled += 1
        v = v + 1 if v + 1 < m else 0
    part.dirty[:] = False
