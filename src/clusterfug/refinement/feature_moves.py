"""Moves of single items on features: each item joins the cluster that attracts it most.

For `DenseProblem`, and for `MixedProblem`, whose costs along edges are given as `SparseTerms`: an item is
also evaluated for all clusters to which it has an edge.

Candidates come from blocked products (`candidate_lists`). Moves are decided one after the other in float64,
against the sums of that moment, so every move improves the objective. After a round only the clusters that
changed are scored again. When no bound of an item exceeds its cost to its own cluster, no single move
improves the clustering: it is move-optimal.

Gains that may be rounding errors are left for the end: they are compared with the magnitudes of the terms
of the costs (`GAIN_TOLERANCE`), for which the absolute rows of all items are added up.
"""

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution import threads
from clusterfug.execution.jit import kernel
from clusterfug.neighbours.exact import Neighbours
from clusterfug.problems.cost_kernels import (
    ExtendedRows,
    Floats,
    Ints,
    cost_to_row,
    query_of_item,
    term_magnitude,
)
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.protocol import GAIN_TOLERANCE
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.candidate_lists import (
    CandidateLists,
    drop_changed,
    empty_candidate_lists,
    gain_tolerances,
    least_gains,
    max_gains,
    score_clusters,
    update_stay_costs,
)
from clusterfug.refinement.feature_clusters import (
    CLOCK,
    MIN_REST_SHARE,
    UNUSED,
    FeatureClusterState,
    clusters_of,
    cost_to_cluster,
    move,
    move_if_clear,
    recompute_sums,
    singleton_clusters,
    stay_cost,
    sum_members,
)
from clusterfug.refinement.sparse_costs import (
    NO_SPARSE,
    NO_TERMS,
    SparseState,
    SparseTerms,
    edges_changed,
    gather_edges,
    gather_magnitudes,
    is_open,
    move_groups,
    release_edges,
    sparse_state,
)
from clusterfug.result import compact

#: Number of partners per item in the neighbour graph.
N_NEIGHBOURS = 5

_WORK_PER_CALL = 50_000_000  # multiplications per kernel call: a fraction of a second
_MAX_FIRST_PASSES = 8  # passes along the neighbour graph
_MAX_ROUNDS = 10_000  # of moves and scoring: a safety limit
_MAX_PASSES = 4  # passes over the items between two scorings
_MIN_MOVED_SHARE = 0.002  # a pass that moves a smaller share of the items is the last


def first_feature_moves(
    problem: DenseProblem,
    neighbours: Neighbours,
    rng: np.random.Generator | None = None,
    terms: SparseTerms = NO_TERMS,
    best: Floats | None = None,
) -> NDArray[np.int64]:
    """Labels 0..K-1 by moves along the neighbour graph and the edges, starting from singletons.

    Items are visited in decreasing order of the cost of their best partner, or in random order. `best` has
    these costs where there are edges.
    """
    n = problem.n
    keys = neighbours.costs if best is None else np.column_stack([best, neighbours.costs])
    if n == 1 or not keys[:, 0].max() > 0:
        return np.arange(n)
    # Mutually best partners have the same cost: the costs of the following partners break the tie.
    order = np.lexsort(-keys.T[::-1]) if rng is None else rng.permutation(n)
    clusters, sparse = singleton_clusters(problem), sparse_state(terms, np.arange(n), n)
    ids = np.where(neighbours.costs > 0, neighbours.ids, np.arange(n)[:, None])
    step = max(1, _WORK_PER_CALL // ((N_NEIGHBOURS + _mean_degree(terms)) * problem.d))
    for _ in range(_MAX_FIRST_PASSES):
        moved = 0
        for start in range(0, n, step):
            threads.check_stop()
            moved += neighbour_pass(problem.rows, clusters, sparse, ids, order[start : start + step])
        if moved < _MIN_MOVED_SHARE * n:
            break
    return compact(clusters.labels)


def feature_moves(
    problem: DenseProblem, labels: NDArray[np.int64], budget: Budget, terms: SparseTerms = NO_TERMS
) -> tuple[NDArray[np.int64], bool]:
    """Apply improving moves to labels 0..K-1 until none is left or the time is up.

    Returns labels 0..K'-1, and whether they are move-optimal.
    """
    for _ in range(_MAX_ROUNDS):
        if budget.over():
            break
        clusters, lists = clusters_of(problem, labels), empty_candidate_lists(problem.n)
        sparse = sparse_state(terms, labels, len(clusters.sizes))
        all_items, slots = np.arange(problem.n), np.flatnonzero(clusters.sizes)
        update_stay_costs(problem, clusters, lists, all_items, sparse)
        if problem.may_attract:
            score_clusters(problem, clusters, lists, all_items, slots, sparse=sparse)
        move_optimal = move_rounds(problem, clusters, lists, budget, sparse=sparse)
        labels = compact(clusters.labels)
        if move_optimal:
            return labels, True
        if clusters.counts[UNUSED]:  # the time or the limit of rounds is over
            break
    return labels, False


def move_rounds(
    problem: DenseProblem,
    clusters: FeatureClusterState,
    lists: CandidateLists,
    budget: Budget,
    elsewhere: Floats | None = None,
    hidden_clusters: bool = False,
    sparse: SparseState = NO_SPARSE,
) -> bool:
    """Alternate moves to listed clusters and scoring of the clusters that changed, until no item gains.

    Returns True if the clusters are move-optimal, False if the time ran out, or if there was no unused slot
    left for a new cluster. Clusters and (scored) lists are updated in place.

    `elsewhere` is the contribution of items that are not in the problem to the sums of the clusters; then
    only clear gains count. If there are hidden clusters, known only through the bounds in the lists, the
    function returns False as soon as these bounds do not exclude an improving move.
    """
    all_items = np.arange(problem.n)
    for _ in range(_MAX_ROUNDS):
        if budget.over():
            break
        unclear = apply_listed_moves(problem, clusters, lists, elsewhere is not None, sparse)
        if clusters.counts[CLOCK] == lists.scored[0]:  # no item moved
            if hidden_clusters:
                return not len(unclear)
            short = unclear[
                lists.length[unclear] < min(lists.ids.shape[1], np.count_nonzero(clusters.sizes) - 1)
            ]
            if len(short):
                lists.length[short], lists.bar[short] = 0, -np.inf
                slots = np.flatnonzero(clusters.sizes)
                score_clusters(problem, clusters, lists, short, slots, sparse=sparse)
                continue
            moved = move_to_best(problem, clusters, unclear, budget, sparse)
            if not moved and elsewhere is None:
                moved = move_close_calls(problem, clusters, budget, sparse)
            if not moved:
                return not budget.over()
        if clusters.counts[UNUSED] == 0:
            return False
        changed = clusters.changed > lists.scored[0]
        slots = np.flatnonzero(changed & (clusters.sizes > 0))
        recompute_sums(problem, clusters, slots, elsewhere)
        update_stay_costs(problem, clusters, lists, np.flatnonzero(changed[clusters.labels]), sparse)
        drop_changed(lists, changed)
        if problem.may_attract:
            score_clusters(problem, clusters, lists, all_items, slots, sparse=sparse)
        lists.scored[0] = clusters.counts[CLOCK]
    return False


def apply_listed_moves(
    problem: DenseProblem,
    clusters: FeatureClusterState,
    lists: CandidateLists,
    only_clear: bool,
    sparse: SparseState = NO_SPARSE,
) -> NDArray[np.int64]:
    """Move items to listed clusters, those with the largest possible gain first.

    Returns the items for which a cluster that is not listed may be better; with `only_clear`, clearly
    better.
    """
    n, degree = problem.n, _mean_degree(sparse)
    step = max(1, _WORK_PER_CALL // ((lists.ids.shape[1] + degree) * problem.d))
    gain, minimum = max_gains(lists), (gain_tolerances if only_clear else least_gains)(clusters)
    unclear = np.flatnonzero(lists.bar - lists.stay > minimum)
    may_gain = gain > minimum
    clusters.evaluated[may_gain] = -1
    if sparse.has_edges:
        has_edges = np.diff(sparse.starts) > 0
        clusters.close[~has_edges] = 0.0  # others are evaluated when a cluster next to them has changed
        items = np.flatnonzero(may_gain | has_edges)
    else:
        clusters.close[:] = 0.0
        items = np.flatnonzero(may_gain)
    items = items[np.argsort(-gain[items], kind="stable")]
    for _ in range(_MAX_PASSES):
        moved = 0
        for start in range(0, len(items), step):
            moved += candidate_pass(problem.rows, clusters, sparse, lists, items[start : start + step])
        if moved < _MIN_MOVED_SHARE * n:
            break
        # From now on all items, in increasing order of their cost to their own cluster.
        items = np.argsort(lists.stay, kind="stable")
    return unclear


def _mean_degree(terms: SparseTerms | SparseState) -> int:
    """Mean number of edges per item, rounded up."""
    return -(-len(terms.ends) // max(1, len(terms.starts) - 1))


def move_to_best(
    problem: DenseProblem,
    clusters: FeatureClusterState,
    items: NDArray[np.int64],
    budget: Budget,
    sparse: SparseState = NO_SPARSE,
) -> int:
    """Move items to the best of all clusters, scored exactly. Returns the number of moves."""
    step = max(1, _WORK_PER_CALL // (len(clusters.sizes) * problem.d))
    moved = 0
    for start in range(0, len(items), step):
        if budget.over():
            break
        moved += full_pass(problem.rows, clusters, sparse, items[start : start + step])
    return moved


def move_close_calls(
    problem: DenseProblem, clusters: FeatureClusterState, budget: Budget, sparse: SparseState
) -> int:
    """Decide the close calls among the evaluated moves. Returns the number of moves."""
    items = np.flatnonzero(clusters.close > negligible_gains(problem, clusters))
    if not len(items):
        return 0
    totals = problem.term_sums(clusters.labels, len(clusters.sizes))
    step = max(1, _WORK_PER_CALL // (2 * len(clusters.sizes) * problem.d + problem.n))
    moved = 0
    for start in range(0, len(items), step):
        if budget.over():
            break
        part = items[start : start + step]
        terms = problem.item_terms(part)
        moved += close_call_pass(problem.rows, clusters, sparse, part, terms, totals, problem.may_attract)
    return moved


def negligible_gains(problem: DenseProblem, clusters: FeatureClusterState) -> NDArray[np.float64]:
    """Gains of all items that do not count whatever the features are: by the last column of the rows alone.

    Every gain has the terms of the costs to the rest of the item's cluster, and, if it is a singleton, to
    another cluster. So gains that are rounding errors need no pass over all clusters.
    """
    d, home, last = problem.d, clusters.labels, problem.rows.weight * problem.rows.alpha
    column = np.abs(clusters.sums[:, d])
    rest = np.abs(clusters.sums[home, d] - last)
    terms = np.where(clusters.sizes[home] > 1, rest, column[clusters.sizes > 0].min())
    terms[(clusters.sizes[home] > 1) & (2 * clusters.magnitudes > clusters.mass[home])] = 0.0  # rounded
    return 0.5 * GAIN_TOLERANCE * abs(problem.rows.signature[d]) * np.abs(last) * terms


@kernel
def neighbour_pass(
    rows: ExtendedRows, clusters: FeatureClusterState, sparse: SparseState, ids: Ints, items: Ints
) -> int:
    """Move items sequentially to the best cluster of their neighbours. Returns the number of moves."""
    query = np.empty(rows.signature.shape[0])
    candidates = np.empty(ids.shape[1], dtype=np.int64)
    has_edges, has_groups = sparse.starts.shape[0] > 1, sparse.n_groups > 0
    edge_costs, adjacent_slots = sparse.cost, sparse.adjacent
    moved = 0
    for i in items:
        home = clusters.labels[i]
        outdated = clusters.changed[home] > clusters.evaluated[i]
        count = 0
        for j in ids[i]:
            slot = clusters.labels[j]
            outdated = outdated or clusters.changed[slot] > clusters.evaluated[i]
            if slot != home and slot not in candidates[:count]:
                candidates[count] = slot
                count += 1
        if has_edges and not outdated:
            outdated = edges_changed(sparse, clusters.labels, clusters.changed, i, clusters.evaluated[i])
        if not outdated:
            continue
        query_of_item(rows, i, query)
        adjacent = gather_edges(sparse, clusters.labels, i) if has_edges else 0
        stay = stay_cost(rows, clusters, i, query) + (edge_costs[home] if adjacent > 0 else 0.0)
        best = 0.0
        to = -1
        for t in range(count + adjacent):
            slot = candidates[t] if t < count else adjacent_slots[t - count]
            extra = edge_costs[slot] if adjacent > 0 else 0.0
            if slot == home or extra == -np.inf:
                continue
            cost = cost_to_cluster(rows, clusters, query, slot) + extra
            if cost > best and not (has_groups and not is_open(sparse, i, slot)):
                best = cost
                to = slot
        if has_edges:
            release_edges(sparse, adjacent)
        tolerance = sparse.clear[i] if has_edges else 0.0
        if move_if_clear(rows, clusters, i, best - stay, to, tolerance):
            moved += 1
            if has_groups:
                move_groups(sparse, i, home, clusters.labels[i])
    return moved


@kernel
def candidate_pass(
    rows: ExtendedRows,
    clusters: FeatureClusterState,
    sparse: SparseState,
    lists: CandidateLists,
    items: Ints,
) -> int:
    """Move items, one after the other, to the best of their listed clusters. Returns the number of moves.

    A cluster that has not changed since it was scored costs no more than its bound in the list. An item is
    skipped if none of its clusters has changed since its last evaluation.
    """
    query = np.empty(rows.signature.shape[0])
    scored = lists.scored[0]
    has_edges, has_groups = sparse.starts.shape[0] > 1, sparse.n_groups > 0
    edge_costs, adjacent_slots = sparse.cost, sparse.adjacent
    moved = 0
    for i in items:
        home = clusters.labels[i]
        outdated = clusters.changed[home] > clusters.evaluated[i] or clusters.evaluated[i] < 0
        for at in range(lists.length[i]):
            outdated = outdated or clusters.changed[lists.ids[i, at]] > clusters.evaluated[i]
        if has_edges and not outdated:
            outdated = edges_changed(sparse, clusters.labels, clusters.changed, i, clusters.evaluated[i])
        if not outdated:
            continue
        query_of_item(rows, i, query)
        adjacent = gather_edges(sparse, clusters.labels, i) if has_edges else 0
        stay = lists.stay[i]
        if clusters.changed[home] > scored:
            stay = stay_cost(rows, clusters, i, query) + (edge_costs[home] if adjacent > 0 else 0.0)
        best = 0.0
        to = -1
        listed = lists.length[i]
        for t in range(listed + adjacent):
            slot = lists.ids[i, t] if t < listed else adjacent_slots[t - listed]
            if slot == home or clusters.sizes[slot] == 0:
                continue
            extra = edge_costs[slot] if adjacent > 0 else 0.0
            is_bounded = t < listed and clusters.changed[slot] <= scored
            if is_bounded and not lists.costs[i, t] + extra > max(best, stay):
                continue
            cost = cost_to_cluster(rows, clusters, query, slot) + extra
            if cost > best and not (has_groups and not is_open(sparse, i, slot)):
                best = cost
                to = slot
        if has_edges:
            release_edges(sparse, adjacent)
        tolerance = sparse.clear[i] if has_edges else 0.0
        if move_if_clear(rows, clusters, i, best - stay, to, tolerance):
            moved += 1
            if has_groups:
                move_groups(sparse, i, home, clusters.labels[i])
    return moved


@kernel
def full_pass(rows: ExtendedRows, clusters: FeatureClusterState, sparse: SparseState, items: Ints) -> int:
    """Move items, one after the other, to the best of all clusters. Returns the number of moves."""
    query = np.empty(rows.signature.shape[0])
    has_edges, has_groups = sparse.starts.shape[0] > 1, sparse.n_groups > 0
    edge_costs = sparse.cost
    moved = 0
    for i in items:
        home = clusters.labels[i]
        query_of_item(rows, i, query)
        adjacent = gather_edges(sparse, clusters.labels, i) if has_edges else 0
        stay = stay_cost(rows, clusters, i, query) + (edge_costs[home] if adjacent > 0 else 0.0)
        best = 0.0
        to = -1
        for slot in range(clusters.sizes.shape[0]):
            if slot != home and clusters.sizes[slot] > 0:
                cost = cost_to_cluster(rows, clusters, query, slot) + (
                    edge_costs[slot] if adjacent > 0 else 0.0
                )
                if cost > best and not (has_groups and not is_open(sparse, i, slot)):
                    best = cost
                    to = slot
        if has_edges:
            release_edges(sparse, adjacent)
        tolerance = sparse.clear[i] if has_edges else 0.0
        if move_if_clear(rows, clusters, i, best - stay, to, tolerance):
            moved += 1
            if has_groups:
                move_groups(sparse, i, home, clusters.labels[i])
    return moved


@kernel
def close_call_pass(
    rows: ExtendedRows,
    clusters: FeatureClusterState,
    sparse: SparseState,
    items: Ints,
    terms: Floats,
    totals: Floats,
    to_all: bool,
) -> int:
    """Make the moves of some items whose gains count. Returns the number of moves.

    `terms` are the absolute rows of the items, `totals` those of the clusters, which are updated. Items
    move to any cluster, or only along their edges.
    """
    query = np.empty(rows.signature.shape[0])
    rest, rest_terms = np.empty(query.shape[0]), np.empty(query.shape[0])
    has_edges, has_groups = sparse.starts.shape[0] > 1, sparse.n_groups > 0
    edge_costs = sparse.cost
    moved = 0
    for t in range(items.shape[0]):
        i = items[t]
        home = clusters.labels[i]
        query_of_item(rows, i, query)
        stay = stay_cost(rows, clusters, i, query)
        for p in range(rest_terms.shape[0]):
            rest_terms[p] = max(totals[home, p] - terms[t, p], 0.0)
        magnitude = term_magnitude(rows, terms[t], rest_terms)
        hidden = MIN_REST_SHARE * term_magnitude(rows, terms[t], terms[t]) > magnitude
        if hidden and sum_members(rows, clusters, home, i, rest):
            stay = cost_to_row(rows, query, rest)
        adjacent = 0
        if has_edges:
            adjacent = gather_edges(sparse, clusters.labels, i)
            gather_magnitudes(sparse, clusters.labels, i)
            stay += sparse.cost[home]
            magnitude += sparse.magnitude[home]
        best, to = 0.0, home
        if clusters.sizes[home] > 1 and -stay > GAIN_TOLERANCE * magnitude:
            best, to = -stay, -1
        for number in range(clusters.sizes.shape[0] if to_all else adjacent):
            slot = number if to_all else sparse.adjacent[number]
            if slot == home or clusters.sizes[slot] == 0:
                continue
            cost = cost_to_cluster(rows, clusters, query, slot) + (
                edge_costs[slot] if adjacent > 0 else 0.0
            )
            gain = cost - stay
            if gain > best and not (has_groups and not is_open(sparse, i, slot)):
                others = term_magnitude(rows, terms[t], totals[slot])
                if has_edges:
                    others += sparse.magnitude[slot]
                if gain > GAIN_TOLERANCE * (magnitude + others):
                    best, to = gain, slot
        if has_edges:
            release_edges(sparse, adjacent)
        if to != home and move(rows, clusters, i, to):
            totals[clusters.labels[i]] += terms[t]
            moved += 1
            if has_groups:
                move_groups(sparse, i, home, clusters.labels[i])
    return moved
