"""Shaking a part: perturb a few clusters, climb, and revert the step if the result is worse.

Equally good clusterings are accepted, so that the search can cross plateaus.
"""

import numpy as np

from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Ints
from clusterfug.refinement.part import ALONE, CLUSTERS, Part, climb, move_node

_N_DISSOLVED = 32  # expected number of nodes that become singletons when a cluster is dissolved
_MAX_MIXED = 8  # nodes moved by one call of `mix`


@kernel
def shake(part: Part, rng: np.random.Generator, steps: int) -> None:
    """Perturb and climb `steps` times. The labels have to be move-optimal, and are so afterwards."""
    m = part.labels.shape[0]
    kept = np.empty(m, dtype=np.int64)
    for _ in range(steps):
        kept[:] = part.labels
        before = part.inside[0]
        perturb(part, rng, int(rng.integers(0, m)))
        climb(part, int(rng.integers(0, m)))
        if part.inside[0] < before - part.tolerance:
            restore(part, kept)
            part.inside[0] = before


@kernel
def restore(part: Part, kept: Ints) -> None:
    """Restore move-optimal labels."""
    for v in range(kept.shape[0]):
        if part.labels[v] != kept[v]:
            move_node(part, v, kept[v])
    part.dirty[:] = False


@kernel
def perturb(part: Part, rng: np.random.Generator, v: int) -> None:
    """Dissolve, mix, join or split clusters around node v, at random."""
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
                move_node(part, u, large)
    elif kind == 3:
        split(part, rng, v)


@kernel
def attractive(part: Part, rng: np.random.Generator, v: int) -> int:
    """Random cluster other than that of v, preferring large costs to v; ALONE if none is drawn."""
    best = ALONE
    for slot in part.slots[: part.counts[CLUSTERS]]:
        better = best == ALONE or part.table[slot, v] > part.table[best, v]
        if better and slot != part.labels[v] and rng.random() < 0.5:
            best = slot
    return best


@kernel
def dissolve(part: Part, rng: np.random.Generator, slot: int) -> None:
    """Make singletons of the nodes of a cluster, or of a sample of about _N_DISSOLVED of them."""
    share = _N_DISSOLVED / part.sizes[slot]
    for u in range(part.labels.shape[0]):
        if part.labels[u] == slot and part.sizes[slot] > 1 and rng.random() < share:
            move_node(part, u, ALONE)


@kernel
def mix(part: Part, rng: np.random.Generator, v: int, other: int) -> None:
    """Move some nodes, mostly ones that v attracts, to the cluster of v, to another, or to new clusters."""
    m = part.labels.shape[0]
    for _ in range(1 + rng.integers(0, _MAX_MIXED)):
        u = int(rng.integers(0, m))
        for _ in range(8):
            if part.costs[v, u] > 0:
                break
            u = int(rng.integers(0, m))
        choice = rng.integers(0, 3)
        to = part.labels[v] if choice == 0 else other if choice == 1 else ALONE
        if to == ALONE:
            if part.sizes[part.labels[u]] > 1:
                move_node(part, u, ALONE)
        elif to != part.labels[u] and part.sizes[to] > 0:
            move_node(part, u, to)


@kernel
def split(part: Part, rng: np.random.Generator, v: int) -> None:
    """Split the cluster of v between v and a node of small cost to it."""
    home = part.labels[v]
    far = ALONE
    for u in range(part.labels.shape[0]):
        if part.labels[u] == home and u != v and rng.random() < 0.5:
            far = u if far == ALONE or part.costs[v, u] < part.costs[v, far] else far
    if far == ALONE:
        return
    new = move_node(part, far, ALONE)
    for u in range(part.labels.shape[0]):
        if part.sizes[new] > 4 * _N_DISSOLVED:
            return
        if part.labels[u] == home and u != v and part.costs[far, u] > part.costs[v, u]:
            move_node(part, u, new)
