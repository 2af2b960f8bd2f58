"""Candidate clusters for moves of single items on features.

The lists are of costs by features; those along edges are known to be few, and `feature_moves` adds them.
With the sum F_C of the extended rows of each cluster C, item i has cost <query_i, F_C> to C, so one product
(n x d)(d x K) scores all moves. The product runs in the precision of the features and only selects
candidates: each item keeps a short list of clusters with upper bounds on its costs to them, and an upper
bound (`bar`) on its cost to all other clusters. `feature_moves` and sharded moves decide in float64.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution import threads
from clusterfug.execution.jit import kernel
from clusterfug.neighbours.exact import insert
from clusterfug.problems.cost_kernels import ExtendedRows, Floats, Ints
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.protocol import GAIN_TOLERANCE
from clusterfug.refinement.feature_clusters import FeatureClusterState, stay_costs
from clusterfug.refinement.sparse_costs import (
    NO_SPARSE,
    SparseState,
    add_edge_costs_to_own,
)

_N_CANDIDATES = 4  # clusters in the list of an item
_BLOCK_ITEMS, _BLOCK_CLUSTERS = 1024, 4096  # of one block of scores: 16 MiB in float32
_WORK_PER_CALL = 50_000_000  # multiplications per kernel call: a fraction of a second


class CandidateLists(NamedTuple):
    """Candidate clusters of every item: upper bounds on its cost to listed and to all other clusters."""

    ids: Ints  # (n, k) slots of the listed clusters
    costs: Floats  # (n, k) upper bounds on the costs to them, in decreasing order
    length: Ints  # (n,) number of listed clusters
    bar: Floats  # (n,) upper bound on the cost to any cluster that is not listed
    stay: Floats  # (n,) cost of the item to the other items of its cluster, edges included
    scored: Ints  # (1,) time (number of moves) at which all of this was computed


class Margins(NamedTuple):
    """What turns the scores of some clusters into upper bounds on costs."""

    scale: float  # a score is the product of features divided by it
    lost: float  # by numbers that are too small for the precision of the scores, per unit of weight
    last: Floats  # last entries of the queries of the clusters
    slack: Floats  # rounding of the product, per unit of an item's magnitude


def empty_candidate_lists(n: int) -> CandidateLists:
    """Lists of n items that are not scored yet."""
    return CandidateLists(
        ids=np.empty((n, _N_CANDIDATES), dtype=np.int64),
        costs=np.empty((n, _N_CANDIDATES)),
        length=np.zeros(n, dtype=np.int64),
        bar=np.full(n, -np.inf),
        stay=np.empty(n),
        scored=np.zeros(1, dtype=np.int64),
    )


def max_gains(lists: CandidateLists) -> NDArray[np.float64]:
    """Upper bounds on the gains of the items by a move."""
    most = np.where(lists.length > 0, lists.costs[:, 0], 0.0)
    return np.maximum(np.maximum(most, lists.bar), 0.0) - lists.stay


def gain_tolerances(
    clusters: FeatureClusterState, items: NDArray[np.int64] | slice = slice(None)
) -> NDArray[np.float64]:
    """Minimum clear gains of the items if they leave their clusters."""
    return GAIN_TOLERANCE * clusters.magnitudes[items] * clusters.mass[clusters.labels[items]]


def least_gains(
    clusters: FeatureClusterState, items: NDArray[np.int64] | slice = slice(None)
) -> NDArray[np.float64]:
    """Computed gains of the items up to which their true gains do not count.

    0, or less for an item that outweighs the rest of its cluster: its cost to them is less accurate.
    """
    labels = clusters.labels[items]
    outweighs = (clusters.sizes[labels] > 1) & (2 * clusters.magnitudes[items] > clusters.mass[labels])
    return np.where(outweighs, -gain_tolerances(clusters, items), 0.0)


def update_stay_costs(
    problem: DenseProblem,
    clusters: FeatureClusterState,
    lists: CandidateLists,
    items: NDArray[np.int64],
    sparse: SparseState = NO_SPARSE,
) -> None:
    """Recompute ``lists.stay`` of some items."""
    step = max(1, _WORK_PER_CALL // problem.d)
    for start in range(0, len(items), step):
        stay_costs(problem.rows, clusters, items[start : start + step], lists.stay)
    if sparse.has_edges:
        add_edge_costs_to_own(sparse, clusters.labels, items, lists.stay)


def score_clusters(
    problem: DenseProblem,
    clusters: FeatureClusterState,
    lists: CandidateLists,
    items: NDArray[np.int64],
    slots: NDArray[np.int64],
    exact: bool = False,
    sparse: SparseState = NO_SPARSE,
) -> None:
    """Score items against the clusters in some slots, and insert the best ones into their lists.

    Scores are upper bounds on costs; with `exact=True` they are costs, up to rounding in float64.
    """
    for columns in threads.slices(len(slots), _BLOCK_CLUSTERS):
        _score_slots(problem, clusters, lists, items, slots[columns], exact, sparse)


def _score_slots(
    problem: DenseProblem,
    clusters: FeatureClusterState,
    lists: CandidateLists,
    items: NDArray[np.int64],
    slots: NDArray[np.int64],
    exact: bool,
    sparse: SparseState,
) -> None:
    """Score items against the clusters in at most _BLOCK_CLUSTERS slots."""
    rows, d, magnitudes = problem.rows, problem.d, clusters.magnitudes
    sums = clusters.sums[slots]
    lengths = np.sqrt(np.einsum("cd,cd->c", sums[:, :d], sums[:, :d]))
    last = sums[:, d] * rows.signature[d]
    single = not exact and rows.features.dtype == np.float32 and problem.norms[1].max() < 1e30
    dtype = np.float32 if single else np.float64
    scale = 2.0 ** -np.frexp(max(lengths.max(), 1e-300))[1]  # a power of two: no rounding
    columns = (sums[:, :d] * (rows.signature[:d] * scale)).astype(dtype).T
    # The product of the features is rounded in dtype, the rest in float64.
    slack = (d + 16) * np.finfo(dtype).eps * lengths + 1e-15 * clusters.mass[slots]
    # Numbers that are too small for dtype become 0.
    lost = 4 * (d + 16) * float(np.finfo(dtype).smallest_subnormal) / scale
    slack += lost
    if exact:
        slack[:] = lost = 0.0
    whole = len(items) == problem.n
    column_of = np.full(len(clusters.sizes) if sparse.n_groups else 0, -1)
    if sparse.n_groups:
        column_of[slots] = np.arange(len(slots))

    def block(part: slice) -> None:
        features = rows.features[part] if whole else rows.features[items[part]]
        scores = threads.scratch(len(features), len(slots), dtype)
        np.matmul(features, columns, out=scores)
        margins = Margins(1 / scale, lost, last, slack)
        if sparse.n_groups:
            exclude_slots(sparse, clusters.labels, column_of, scores, items[part])
        insert_candidates(rows, scores, items[part], slots, margins, magnitudes, clusters.labels, lists)

    threads.for_each(block, threads.slices(len(items), _BLOCK_ITEMS))


@kernel
def exclude_slots(state: SparseState, labels: Ints, column_of: Ints, scores: Floats, items: Ints) -> None:
    """Set scores of the clusters that exclude an item by a group to -inf, until they change."""
    for r in range(items.shape[0]):
        for g in state.groups[state.group_starts[items[r]] : state.group_starts[items[r] + 1]]:
            for member in state.members[state.member_starts[g] : state.member_starts[g + 1]]:
                column = column_of[labels[member]]
                if column >= 0:
                    scores[r, column] = -np.inf


@kernel
def insert_candidates(
    rows: ExtendedRows,
    scores: Floats,
    items: Ints,
    slots: Ints,
    margins: Margins,
    magnitudes: Floats,
    labels: Ints,
    lists: CandidateLists,
) -> None:
    """Turn scores into upper bounds on costs, and insert the largest into the lists of the items."""
    size = lists.ids.shape[1]
    for r in range(items.shape[0]):
        i = items[r]
        weight, alpha, magnitude = rows.weight[i], rows.weight[i] * rows.alpha[i], magnitudes[i]
        bar = lists.bar[i]
        for c in range(slots.shape[0]):
            cost = weight * (margins.scale * scores[r, c] + margins.lost) + (
                alpha * margins.last[c] + magnitude * margins.slack[c]
            )
            if cost > bar and slots[c] != labels[i]:
                if lists.length[i] == size:
                    bar = max(bar, min(cost, lists.costs[i, size - 1]))
                lists.length[i] = insert(lists.ids[i], lists.costs[i], lists.length[i], slots[c], cost)
        lists.bar[i] = bar


@kernel
def drop_changed(lists: CandidateLists, changed: Ints) -> None:
    """Remove the clusters that changed from all lists."""
    for i in range(lists.ids.shape[0]):
        kept = 0
        for at in range(lists.length[i]):
            if not changed[lists.ids[i, at]]:
                lists.ids[i, kept] = lists.ids[i, at]
                lists.costs[i, kept] = lists.costs[i, at]
                kept += 1
        lists.length[i] = kept
