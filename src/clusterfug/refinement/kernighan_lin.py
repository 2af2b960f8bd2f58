"""Kernighan-Lin with joins and splits, on a part.

Between two clusters nodes change sides one after the other, always the one that gains most or loses least,
each once; then the best prefix of that chain is kept. With an empty second cluster that is a split. A chain
climbs out of local optima that no single move leaves.
"""

import numpy as np

from clusterfug.costs import Floats, Ints
from clusterfug.kernels import kernel
from clusterfug.refinement.part import ALONE, CLUSTERS, Part, climb, put

_PATIENCE = 50  # steps of a chain without a new best prefix


@kernel
def kernighan_lin(part: Part) -> None:
    """Chains between all pairs of clusters, joins and splits, until none gains; ends in a move-optimum."""
    m = part.labels.shape[0]
    climb(part, 0)
    fresh = np.ones(m + 1, dtype=np.bool_)
    nodes, gains = np.empty(m, dtype=np.int64), np.empty(m)
    highest = np.empty(m + 1)
    slots = np.empty(m + 1, dtype=np.int64)
    while fresh.any():
        now = fresh.copy()
        fresh[:] = False
        count = part.counts[CLUSTERS]
        slots[:count] = part.slots[:count]
        for s in range(count):
            a = slots[s]
            if now[a] and part.sizes[a] > 2:
                two_way(part, a, ALONE, nodes, gains, fresh)
            highest_costs(part, a, highest)
            for t in range(count):
                b = slots[t]
                there = s != t and part.sizes[a] > 0 and part.sizes[b] > 0
                # A pair is tried from the side that has a node with friends on the other.
                if there and (now[a] or now[b]) and highest[b] > 0 and not join(part, a, b, fresh):
                    two_way(part, a, b, nodes, gains, fresh)
        climb_fresh(part, fresh)


@kernel
def highest_costs(part: Part, a: int, highest: Floats) -> None:
    """The most that a node of cluster a costs to each cluster."""
    highest[:] = -np.inf
    for v in range(part.labels.shape[0]):
        if part.labels[v] == a:
            for slot in part.slots[: part.counts[CLUSTERS]]:
                highest[slot] = max(highest[slot], part.table[slot, v])


@kernel
def climb_fresh(part: Part, fresh: Ints) -> None:
    """Climb, and note the clusters that change."""
    before = part.labels.copy()
    climb(part, 0)
    for v in range(before.shape[0]):
        if part.labels[v] != before[v]:
            fresh[before[v]] = fresh[part.labels[v]] = True


@kernel
def join(part: Part, a: int, b: int, fresh: Ints) -> bool:
    """Join two clusters if that is a gain."""
    gain = 0.0
    for v in range(part.labels.shape[0]):
        if part.labels[v] == a:
            gain += part.table[b, v]
    if not gain > part.tolerance:
        return False
    for v in range(part.labels.shape[0]):
        if part.labels[v] == a:
            put(part, v, b)
    fresh[b] = True
    return True


@kernel
def two_way(part: Part, a: int, b: int, nodes: Ints, gains: Floats, fresh: Ints) -> bool:
    """The best prefix of a chain between clusters a and b (or a new one, if b is ALONE), if it gains."""
    count = 0
    for v in range(part.labels.shape[0]):
        if part.labels[v] == a or part.labels[v] == b:
            home = part.labels[v]
            other = 0.0
            if home == b:
                other = part.table[a, v]
            elif b != ALONE:
                other = part.table[b, v]
            nodes[count] = v
            gains[count] = other - part.table[home, v]
            count += 1
    total = 0.0
    best = part.tolerance
    length = 0
    # nodes[:step] have changed sides; the others wait.
    for step in range(count):
        if step - length >= _PATIENCE:
            break
        top = step
        for t in range(step + 1, count):
            if gains[t] > gains[top]:
                top = t
        nodes[step], nodes[top] = nodes[top], nodes[step]
        gains[step], gains[top] = gains[top], gains[step]
        v = nodes[step]
        total += gains[step]
        for t in range(step + 1, count):
            change = 2 * part.costs[v, nodes[t]]
            gains[t] += change if part.labels[nodes[t]] == part.labels[v] else -change
        if total > best:
            best = total
            length = step + 1
    if length == 0:
        return False
    for v in nodes[:length]:
        if part.labels[v] == b:
            put(part, v, a)
        else:
            b = put(part, v, b)  # the first to be alone opens the cluster that the others go to
    fresh[a] = fresh[b] = True
    return True
