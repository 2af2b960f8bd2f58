"""Clusters of a `DenseProblem` while items move: sums and slots; costs; one move and its minimum gain.

Used by `feature_moves` and by the moves of sharded problems.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import inlined, kernel
from clusterfug.problems.cost_kernels import (
    ExtendedRows,
    Floats,
    Ints,
    add_row,
    cost_to_item,
    cost_to_rest,
    cost_to_row,
    query_of_item,
    sum_rows,
)
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.protocol import GAIN_TOLERANCE

#: If an item leaves a cluster whose rest has a smaller share of its magnitude, the rest is added up anew.
MIN_REST_SHARE = 1e-3

#: Maximum number of unused slots for new clusters. When they are used up, the state is built anew.
MAX_SPARE_SLOTS = 1 << 16
_MIN_SPARE_SLOTS = 64

# Indices into FeatureClusterState.counts.
UNUSED, CLOCK = range(2)


class FeatureClusterState(NamedTuple):
    """Clusters in slots: one slot per cluster, and some unused slots. Times are numbers of moves."""

    labels: Ints  # (n,) slot of each item
    sums: Floats  # (slots, d + 1) extended row of each cluster
    summed: Ints  # (slots,) False if the sum is missing: a singleton in the slot of its index
    sizes: Ints  # (slots,) number of items
    mass: Floats  # (slots,) total magnitude of the items
    changed: Ints  # (slots,) time of the last change of the cluster
    evaluated: Ints  # (n,) time at which moves of the item were last evaluated, -1 for never
    magnitudes: Floats  # (n,) u with |cost(i, j)| <= u_i u_j
    close: Floats  # (n,) largest gain of the move evaluated last if it is a close call, see `move_if_clear`
    unused: Ints  # (slots,) stack of unused slots
    counts: Ints  # (2,) number of unused slots; clock: number of moves so far


def singleton_clusters(problem: DenseProblem) -> FeatureClusterState:
    """State in which every item is a singleton in the slot of its index, without sums."""
    n = problem.n
    sums, sizes = np.empty((n, problem.d + 1)), np.ones(n, dtype=np.int64)
    state = clusters_from_sums(problem, np.arange(n), sums, sizes, problem.magnitudes.copy())
    return state._replace(summed=np.zeros(n, dtype=np.bool_))


def clusters_of(problem: DenseProblem, labels: NDArray[np.int64]) -> FeatureClusterState:
    """State of the clusters of labels 0..K-1, with their sums and spare slots."""
    sums = problem.sums(labels, int(labels.max()) + 1)
    mass = np.bincount(labels, weights=problem.magnitudes)
    return with_spare_slots(clusters_from_sums(problem, labels, sums, np.bincount(labels), mass))


def clusters_from_sums(
    problem: DenseProblem, labels: NDArray[np.int64], sums: Floats, sizes: Ints, mass: Floats
) -> FeatureClusterState:
    """State of clusters with known sums, without spare slots: to move items, use `with_spare_slots`."""
    slots = len(sums)
    return FeatureClusterState(
        labels=labels,
        sums=sums,
        summed=np.ones(slots, dtype=np.bool_),
        sizes=sizes,
        mass=mass,
        changed=np.zeros(slots, dtype=np.int64),
        evaluated=np.full(problem.n, -1),
        magnitudes=problem.magnitudes,
        close=np.zeros(problem.n),
        unused=np.arange(slots)[::-1].copy(),
        counts=np.zeros(2, dtype=np.int64),
    )


def with_spare_slots(clusters: FeatureClusterState) -> FeatureClusterState:
    """Copy of the state with unused slots for new clusters, ready for moves."""
    n, k = len(clusters.labels), len(clusters.sizes)
    spare = _MIN_SPARE_SLOTS + min(n // 8, MAX_SPARE_SLOTS)

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


def recompute_sums(
    problem: DenseProblem, clusters: FeatureClusterState, slots: NDArray[np.int64], elsewhere: Floats | None
) -> None:
    """Recompute the sums of some clusters, because rounding errors accumulate in sums that are updated.

    `elsewhere` has the contribution of items that are not in the problem to the first slots.
    """
    clusters.sums[slots] = 0.0
    if elsewhere is not None:
        shared = slots[slots < len(elsewhere)]
        clusters.sums[shared] = elsewhere[shared]
    fresh = np.zeros(len(clusters.sizes), dtype=np.bool_)
    fresh[slots] = True
    items = np.flatnonzero(fresh[clusters.labels])
    sum_rows(problem.rows, items, clusters.labels[items], clusters.sums)
    if elsewhere is None:
        mass = np.bincount(clusters.labels[items], clusters.magnitudes[items], len(clusters.mass))
        clusters.mass[slots] = mass[slots]


@inlined
def cost_to_cluster(rows: ExtendedRows, clusters: FeatureClusterState, query: Floats, slot: int) -> float:
    """Cost between the item of a query and the cluster in a slot, by their features."""
    if clusters.summed[slot]:
        return cost_to_row(rows, query, clusters.sums[slot])
    return cost_to_item(rows, query, slot)


@inlined
def stay_cost(rows: ExtendedRows, clusters: FeatureClusterState, i: int, query: Floats) -> float:
    """Cost of item i to the other items of its cluster, by their features."""
    home = clusters.labels[i]
    if clusters.sizes[home] == 1:
        return 0.0
    return cost_to_rest(rows, query, clusters.sums[home])


@inlined
def outweighs_rest(clusters: FeatureClusterState, i: int) -> bool:
    """Whether an item is longer than the other items of its cluster together.

    Then rounding of the sum of the cluster may hide its costs to them.
    """
    home = clusters.labels[i]
    return clusters.sizes[home] > 1 and 2 * clusters.magnitudes[i] > clusters.mass[home]


@inlined
def move_if_clear(
    rows: ExtendedRows, clusters: FeatureClusterState, i: int, gain: float, to: int, tolerance: float
) -> bool:
    """Move item i to a cluster (-1: a new one) if that clearly has a gain. Returns whether it moved.

    A gain is clear if it counts however large the terms of the costs are, by the inequality of Cauchy and
    Schwarz; `tolerance` is that of the costs along edges. Smaller ones are close calls, which
    `close_call_pass` decides.
    """
    home = clusters.labels[i]
    clusters.evaluated[i] = clusters.counts[CLOCK]
    masses = clusters.mass[home] + (clusters.mass[to] if to >= 0 else 0.0)
    limit = GAIN_TOLERANCE * clusters.magnitudes[i] * masses + tolerance
    if gain > limit:
        return move(rows, clusters, i, to)
    clusters.close[i] = max(gain + (limit if outweighs_rest(clusters, i) else 0.0), 0.0)
    return False


@kernel
def move(rows: ExtendedRows, clusters: FeatureClusterState, i: int, to: int) -> bool:
    """Move item i to a cluster (-1: a new one). Returns False if that is impossible."""
    home = clusters.labels[i]
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
    clusters.close[i] = 0.0
    clusters.sizes[to] += 1
    clusters.mass[to] += clusters.magnitudes[i]
    clusters.sizes[home] -= 1
    clusters.mass[home] -= clusters.magnitudes[i]
    if clusters.sizes[home] == 0:
        clusters.mass[home] = 0.0
        clusters.unused[clusters.counts[UNUSED]] = home
        clusters.counts[UNUSED] += 1
    else:
        remove_row(rows, clusters, i, home)
    clusters.counts[CLOCK] += 1
    clusters.changed[to] = clusters.changed[home] = clusters.counts[CLOCK]
    return True


@kernel
def remove_row(rows: ExtendedRows, clusters: FeatureClusterState, i: int, home: int) -> None:
    """Remove the row of item i, which has left, from the sum of a cluster.

    If nearly all of the sum was that row, little of the rest would be left: it is added up again.
    """
    if clusters.mass[home] < MIN_REST_SHARE * clusters.magnitudes[i]:
        rest = np.empty(rows.signature.shape[0])
        if sum_members(rows, clusters, home, -1, rest):
            clusters.sums[home] = rest
            return
    subtract_row(rows, i, clusters.sums[home])


@kernel
def sum_members(
    rows: ExtendedRows, clusters: FeatureClusterState, slot: int, but: int, out: Floats
) -> bool:
    """out = the sum of the rows of the items of a cluster, without item `but` (-1 for none).

    Returns False if the cluster has items that are not in the problem.
    """
    out[:] = 0.0
    count = 0
    for j in range(clusters.labels.shape[0]):
        if clusters.labels[j] == slot:
            count += 1
            if j != but:
                add_row(rows, j, out)
    return count == clusters.sizes[slot]


@kernel
def subtract_row(rows: ExtendedRows, i: int, out: Floats) -> None:
    """out -= the extended row of item i."""
    d = rows.features.shape[1]
    for p in range(d):
        out[p] -= rows.weight[i] * rows.features[i, p]
    out[d] -= rows.weight[i] * rows.alpha[i]


@kernel
def stay_costs(rows: ExtendedRows, clusters: FeatureClusterState, items: Ints, stay: Floats) -> None:
    """stay[i] = cost of item i to the other items of its cluster by features, for the given items."""
    query = np.empty(rows.signature.shape[0])
    for i in items:
        stay[i] = 0.0
        if clusters.sizes[clusters.labels[i]] > 1:
            query_of_item(rows, i, query)
            stay[i] = stay_cost(rows, clusters, i, query)
