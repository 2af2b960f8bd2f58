"""Shaking a part: disturb a few clusters, climb, keep what is no worse and take back the rest.

Equally good clusterings are kept, so that the search drifts over plateaus.
"""

import numpy as np

from clusterfug.costs import Ints
from clusterfug.kernels import kernel
from clusterfug.refinement.part import ALONE, CLUSTERS, Part, climb, put

_MANY = 32  # nodes that are set free at once, more or less
_MIXED = 8  # nodes that are sent elsewhere at once, at most


@kernel
def shake(part: Part, rng: np.random.Generator, steps: int) -> None:
    """Disturb and climb so many times."""
    m = part.labels.shape[0]
    kept = np.empty(m, dtype=np.int64)
    for _ in range(steps):
        kept[:] = part.labels
        before = part.inside[0]
        disturb(part, rng, int(rng.integers(0, m)))
        climb(part, int(rng.integers(0, m)))
        if part.inside[0] < before - part.tolerance:
            restore(part, kept)
            part.inside[0] = before


@kernel
def restore(part: Part, kept: Ints) -> None:
    """Put every node back where it was in a clustering that no move improves."""
    for v in range(kept.shape[0]):
        if part.labels[v] != kept[v]:
            put(part, v, kept[v])
    part.dirty[:] = False


@kernel
def disturb(part: Part, rng: np.random.Generator, v: int) -> None:
    """Dissolve, mix, join or split clusters around node v."""
    home = part.labels[v]
    other = attractive(part, rng, v)
    kind = rng.integers(0, 4)
    if kind == 0:
        dissolve(part, rng, home)
        if other != ALONE and rng.random() < 0.5:
            dissolve(part, rng, other)
    elif kind == 1:
        mix(part, rng, v, other)
    elif kind == 2 and other != ALONE:
        small, large = (home, other) if part.sizes[home] < part.sizes[other] else (other, home)
        for u in range(part.labels.shape[0]):
            if part.labels[u] == small:
                put(part, u, large)
    elif kind == 3:
        split(part, rng, v)


@kernel
def attractive(part: Part, rng: np.random.Generator, v: int) -> int:
    """Another cluster, one of those that v costs most to; ALONE if there is none."""
    best = ALONE
    for slot in part.slots[: part.counts[CLUSTERS]]:
        better = best == ALONE or part.table[slot, v] > part.table[best, v]
        if better and slot != part.labels[v] and rng.random() < 0.5:
            best = slot
    return best


@kernel
def dissolve(part: Part, rng: np.random.Generator, slot: int) -> None:
    """Set the nodes of a cluster free, or a sample of about _MANY of them."""
    share = _MANY / part.sizes[slot]
    for u in range(part.labels.shape[0]):
        if part.labels[u] == slot and part.sizes[slot] > 1 and rng.random() < share:
            put(part, u, ALONE)


@kernel
def mix(part: Part, rng: np.random.Generator, v: int, other: int) -> None:
    """Send some nodes, mostly ones that v attracts, to the cluster of v, to another, or to be alone."""
    m = part.labels.shape[0]
    for _ in range(1 + rng.integers(0, _MIXED)):
        u = int(rng.integers(0, m))
        for _ in range(8):
            if part.costs[v, u] > 0:
                break
            u = int(rng.integers(0, m))
        choice = rng.integers(0, 3)
        to = part.labels[v] if choice == 0 else other if choice == 1 else ALONE
        if to == ALONE:
            if part.sizes[part.labels[u]] > 1:
                put(part, u, ALONE)
        elif to != part.labels[u] and part.sizes[to] > 0:
            put(part, u, to)


@kernel
def split(part: Part, rng: np.random.Generator, v: int) -> None:
    """Split the cluster of v between v and a node that it repels."""
    home = part.labels[v]
    far = ALONE
    for u in range(part.labels.shape[0]):
        if part.labels[u] == home and u != v and rng.random() < 0.5:
            far = u if far == ALONE or part.costs[v, u] < part.costs[v, far] else far
    if far == ALONE:
        return
    new = put(part, far, ALONE)
    for u in range(part.labels.shape[0]):
        if part.sizes[new] > 4 * _MANY:
            return
        if part.labels[u] == home and u != v and part.costs[far, u] > part.costs[v, u]:
            put(part, u, new)
