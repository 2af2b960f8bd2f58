"""A few nodes with the costs of all their pairs: the table on which Kernighan-Lin and shaking work.

A `Part` is a whole small problem, or a neighbourhood of a large one. table[c, v] is what node v costs to
the members of cluster c, so every move is known at once; a move adds a row of costs to one row of the table
and takes it from another. All kernels here keep the table and the total `inside` up to date.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.costs import Floats, Ints
from clusterfug.kernels import kernel
from clusterfug.result import compact

ALONE = -1
CLUSTERS = 0  # in Part.counts


class Part(NamedTuple):
    """Nodes 0..m-1 in clusters, which are slots 0..m."""

    costs: Floats  # (m, m), symmetric, 0 on the diagonal
    table: Floats  # (m + 1, m) what a node costs to a cluster
    labels: Ints  # (m,)
    sizes: Ints  # (m + 1,)
    slots: Ints  # (m + 1,) the used slots first
    at: Ints  # (m + 1,) where a slot is among them
    dirty: Ints  # (m + 1,) whether the cluster changed since all nodes were content
    counts: Ints  # (1,) how many clusters there are
    inside: Floats  # (1,) total cost of the pairs in the same cluster
    tolerance: float  # what a gain has to exceed


def part_of(costs: NDArray[np.float64], labels: NDArray[np.int64], tolerance: float) -> Part:
    """The part with these costs (symmetric, the diagonal 0) and labels."""
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
    fill(part)
    return part


@kernel
def fill(part: Part) -> None:
    """Table, sizes and total from the labels 0..K-1."""
    for v in range(part.labels.shape[0]):
        slot = part.labels[v]
        part.inside[0] += part.table[slot, v]  # those before v
        part.table[slot] += part.costs[v]
        part.sizes[slot] += 1
        part.counts[CLUSTERS] = max(part.counts[CLUSTERS], slot + 1)


@kernel
def put(part: Part, v: int, to: int) -> int:
    """Move node v to a cluster, or to be ALONE; the cluster it is in then."""
    home = part.labels[v]
    if to == ALONE:
        to = part.slots[part.counts[CLUSTERS]]
    if part.sizes[to] == 0:
        swap(part, to, part.counts[CLUSTERS])
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
        swap(part, home, part.counts[CLUSTERS])
    return to


@kernel
def swap(part: Part, slot: int, position: int) -> None:
    """Bring a slot to a position of the list of slots."""
    other = part.slots[position]
    part.slots[part.at[slot]] = other
    part.at[other] = part.at[slot]
    part.slots[position] = slot
    part.at[slot] = position


@kernel
def climb(part: Part, first: int) -> None:
    """Move nodes, one after the other from node `first` on, until none gains.

    A node may gain only if its own cluster is dirty, or by going to one that is.
    """
    m = part.labels.shape[0]
    dirty = np.empty(m + 1, dtype=np.int64)
    quiet = 0  # nodes seen since the last move
    v = first
    count = -1
    while quiet < m:
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
            put(part, v, to)
            count = -1
            quiet = 0
        else:
            quiet += 1
        v = v + 1 if v + 1 < m else 0
    part.dirty[:] = False
