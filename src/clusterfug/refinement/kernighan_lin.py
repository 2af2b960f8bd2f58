"""Kernighan-Lin with joins and splits, on a part.

A chain moves nodes between two clusters one after the other, each node once and always the one with the
largest gain, which may be negative; then the best prefix of the chain is kept. With an empty second cluster
this is a split. Chains leave local optima that no single move leaves.
"""

import numpy as np

from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.refinement.part import ALONE, CLUSTERS, Part, climb, move_node

_MAX_ROUNDS = 100  # over all pairs of clusters: a safety limit
_MAX_STALLED = 50  # steps of a chain without a new best prefix before it ends


@kernel
def kernighan_lin(part: Part) -> None:
    """Apply chains between pairs of clusters, joins and splits until none has a gain.

    The resulting labels are move-optimal.
    """
    m = part.labels.shape[0]
    climb(part, 0)
    changed = np.ones(m + 1, dtype=np.bool_)
    nodes, gains = np.empty(m, dtype=np.int64), np.empty(m)
    highest = np.empty(m + 1)
    slots = np.empty(m + 1, dtype=np.int64)
    for _ in range(_MAX_ROUNDS):
        if not changed.any():
            break
        pending = changed.copy()
        changed[:] = False
        count = part.counts[CLUSTERS]
        slots[:count] = part.slots[:count]
        for s in range(count):
            a = slots[s]
            if pending[a] and part.sizes[a] > 2:
                two_way_chain(part, a, ALONE, nodes, gains, changed)
            highest_costs(part, a, highest)
            for t in range(count):
                b = slots[t]
                there = s != t and part.sizes[a] > 0 and part.sizes[b] > 0
                # A pair is tried from the side that has a node attracted by the other.
                if (
                    there
                    and (pending[a] or pending[b])
                    and highest[b] > 0
                    and not join_if_gain(part, a, b, changed)
                ):
                    two_way_chain(part, a, b, nodes, gains, changed)
        before = part.labels.copy()
        climb(part, 0)
        for v in range(m):
            if part.labels[v] != before[v]:
                changed[before[v]] = changed[part.labels[v]] = True


@kernel
def highest_costs(part: Part, a: int, highest: Floats) -> None:
    """highest[c] = maximum over the nodes of cluster a of their cost to cluster c."""
    highest[:] = -np.inf
    for v in range(part.labels.shape[0]):
        if part.labels[v] == a:
            for slot in part.slots[: part.counts[CLUSTERS]]:
                highest[slot] = max(highest[slot], part.table[slot, v])


@kernel
def join_if_gain(part: Part, a: int, b: int, changed: Ints) -> bool:
    """Join cluster a to cluster b if that has a gain. Returns whether they were joined."""
    gain = 0.0
    for v in range(part.labels.shape[0]):
        if part.labels[v] == a:
            gain += part.table[b, v]
    if not gain > part.tolerance:
        return False
    for v in range(part.labels.shape[0]):
        if part.labels[v] == a:
            move_node(part, v, b)
    changed[b] = True
    return True


@kernel
def two_way_chain(part: Part, a: int, b: int, nodes: Ints, gains: Floats, changed: Ints) -> None:
    """Apply the best prefix of a chain between cluster a and cluster b (a new one if b is ALONE)."""
    count = 0
    for v in range(part.labels.shape[0]):
        if part.labels[v] == a or part.labels[v] == b:
            home = part.labels[v]
            to = a if home == b else b
            nodes[count] = v
            gains[count] = (part.table[to, v] if to != ALONE else 0.0) - part.table[home, v]
            count += 1
    total = 0.0
    best = part.tolerance
    length = 0
    # nodes[:step] have changed sides, the others have not.
    for step in range(count):
        if step - length >= _MAX_STALLED:
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
        return
    for v in nodes[:length]:
        if part.labels[v] == b:
            move_node(part, v, a)
        else:
            b = move_node(part, v, b)  # the first node opens the new cluster, the others join it
    changed[a] = changed[b] = True
