"""The clusters while items move: their sums, masses and slots; what an item costs to them; one move."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.costs import Floats, Ints, Rows, add_row, cost_to_item, cost_to_row, query_of_item, sum_rows
from clusterfug.kernels import kernel
from clusterfug.problem import DenseProblem

#: A gain counts if it is larger than this times the most that the item could cost to the two clusters.
ROUNDING = 1e-13

#: Slots to be alone in, at most: when they are used up, slots are dealt out afresh.
SPARE = 1 << 16

# Clusters.counts
UNUSED, CLOCK = range(2)


class Clusters(NamedTuple):
    """The clusters in slots: one per cluster, some of them unused."""

    labels: Ints  # (n,) slot of each item
    sums: Floats  # (slots, d + 1) the extended row of each cluster
    summed: Ints  # (slots,) False for an item alone in the slot of its number, which needs no sum
    sizes: Ints  # (slots,)
    mass: Floats  # (slots,) total magnitude of the items
    changed: Ints  # (slots,) when the cluster last changed
    seen: Ints  # (n,) when the item last thought of moving
    own: Floats  # (n,) what an item costs to itself: it is in the sum of its cluster
    magnitudes: Floats  # (n,) numbers u with |cost(i, j)| <= u_i u_j
    unused: Ints  # (slots,) stack of unused slots
    counts: Ints  # how many slots are unused; the clock: moves so far


def singletons(problem: DenseProblem) -> Clusters:
    """Every item alone, in the slot of its number; no sums yet."""
    n = problem.n
    own, magnitudes = problem.own_costs
    return Clusters(
        labels=np.arange(n),
        sums=np.empty((n, problem.d + 1)),
        summed=np.zeros(n, dtype=np.bool_),
        sizes=np.ones(n, dtype=np.int64),
        mass=magnitudes.copy(),
        changed=np.zeros(n, dtype=np.int64),
        seen=np.full(n, -1),
        own=own,
        magnitudes=magnitudes,
        unused=np.empty(n, dtype=np.int64),
        counts=np.zeros(2, dtype=np.int64),
    )


def clusters_of(problem: DenseProblem, labels: NDArray[np.int64]) -> Clusters:
    """The clusters of labels 0..K-1 with their sums, and some slots to be alone in."""
    sums = problem.sums(labels, int(labels.max()) + 1)
    mass = np.bincount(labels, weights=problem.own_costs[1])
    return with_spare_slots(known_clusters(problem, labels, sums, np.bincount(labels), mass))


def known_clusters(
    problem: DenseProblem, labels: NDArray[np.int64], sums: Floats, sizes: Ints, mass: Floats
) -> Clusters:
    """Clusters whose sums are known, as they are: nobody can move before there are spare slots."""
    slots = len(sums)
    own, magnitudes = problem.own_costs
    return Clusters(
        labels=labels,
        sums=sums,
        summed=np.ones(slots, dtype=np.bool_),
        sizes=sizes,
        mass=mass,
        changed=np.zeros(slots, dtype=np.int64),
        seen=np.full(problem.n, -1),
        own=own,
        magnitudes=magnitudes,
        unused=np.arange(slots)[::-1].copy(),
        counts=np.zeros(2, dtype=np.int64),
    )


def with_spare_slots(clusters: Clusters) -> Clusters:
    """A copy to move items in, with some slots to be alone in."""
    n, k = len(clusters.labels), len(clusters.sizes)
    spare = 64 + min(n // 8, SPARE)

    def longer(array: NDArray[Any], value: int) -> NDArray[Any]:
        return np.concatenate([array, np.full((spare, *array.shape[1:]), value, dtype=array.dtype)])

    return clusters._replace(
        labels=clusters.labels.copy(),
        sums=longer(clusters.sums, 0),
        summed=longer(clusters.summed, True),
        sizes=longer(clusters.sizes, 0),
        mass=longer(clusters.mass, 0),
        changed=longer(clusters.changed, 0),
        unused=np.arange(k + spare)[::-1].copy(),
        counts=np.array([spare, 0]),
    )


def sum_again(
    problem: DenseProblem, clusters: Clusters, slots: NDArray[np.int64], elsewhere: Floats | None
) -> None:
    """Sum the rows of these clusters afresh: sums that items came to and left have rounding errors.

    `elsewhere` is what items that are not in the problem add to the first of them.
    """
    clusters.sums[slots] = 0.0
    if elsewhere is not None:
        shared = slots[slots < len(elsewhere)]
        clusters.sums[shared] = elsewhere[shared]
    fresh = np.zeros(len(clusters.sizes), dtype=np.bool_)
    fresh[slots] = True
    items = np.flatnonzero(fresh[clusters.labels])
    sum_rows(problem.rows, items, clusters.labels[items], clusters.sums)


@kernel
def cost_to_cluster(rows: Rows, clusters: Clusters, query: Floats, slot: int) -> float:
    if clusters.summed[slot]:
        return cost_to_row(rows, query, clusters.sums[slot])
    return cost_to_item(rows, query, slot)


@kernel
def stay_cost(rows: Rows, clusters: Clusters, i: int, query: Floats) -> float:
    """What item i costs to the rest of its cluster."""
    home = clusters.labels[i]
    if clusters.sizes[home] == 1:
        return 0.0
    return cost_to_row(rows, query, clusters.sums[home]) - clusters.own[i]


@kernel
def settle(rows: Rows, clusters: Clusters, i: int, gain: float, to: int) -> bool:
    """Move item i to a cluster (-1: to be alone) if that is a gain; whether it moved."""
    home = clusters.labels[i]
    clusters.seen[i] = clusters.counts[CLOCK]
    masses = clusters.mass[home] + (clusters.mass[to] if to >= 0 else 0.0)
    if not gain > ROUNDING * clusters.magnitudes[i] * masses:
        return False
    if to < 0:
        if clusters.sizes[home] == 1 or clusters.counts[UNUSED] == 0:
            return False
        clusters.counts[UNUSED] -= 1
        to = clusters.unused[clusters.counts[UNUSED]]
        clusters.summed[to] = True
        clusters.sums[to] = 0.0
    elif not clusters.summed[to]:
        clusters.summed[to] = True
        clusters.sums[to] = 0.0
        add_row(rows, to, clusters.sums[to])
    add_row(rows, i, clusters.sums[to])
    clusters.labels[i] = to
    clusters.sizes[to] += 1
    clusters.mass[to] += clusters.magnitudes[i]
    clusters.sizes[home] -= 1
    clusters.mass[home] -= clusters.magnitudes[i]
    if clusters.sizes[home] == 0:
        clusters.mass[home] = 0.0
        clusters.unused[clusters.counts[UNUSED]] = home
        clusters.counts[UNUSED] += 1
    else:
        leave(rows, i, clusters.sums[home])
    clusters.counts[CLOCK] += 1
    clusters.changed[to] = clusters.changed[home] = clusters.counts[CLOCK]
    return True


@kernel
def leave(rows: Rows, i: int, out: Floats) -> None:
    """out -= the extended row of item i."""
    d = rows.features.shape[1]
    for p in range(d):
        out[p] -= rows.weight[i] * rows.features[i, p]
    out[d] -= rows.weight[i] * rows.alpha[i]


@kernel
def stay_costs(rows: Rows, clusters: Clusters, items: Ints, stay: Floats) -> None:
    query = np.empty(rows.signature.shape[0])
    for i in items:
        stay[i] = 0.0
        if clusters.sizes[clusters.labels[i]] > 1:
            query_of_item(rows, i, query)
            stay[i] = stay_cost(rows, clusters, i, query)
