"""One round of moves of items in many shards: scored in their shards, decided together.

Every shard scores its items against the sums of all clusters, in blocks of clusters if there are many, and
returns those that may gain by moving. They are few as a rule, and move sequentially in one task, against
the sums of that moment, so inside grows with every move. A cluster that has not changed since its items
were last move-optimal attracts none of them, so only clusters that changed, and their items, are scored
again.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.sharded.totals import ClusterTotals, add_totals
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.protocol import GAIN_TOLERANCE
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.candidate_lists import (
    CandidateLists,
    empty_candidate_lists,
    gain_tolerances,
    least_gains,
    max_gains,
    score_clusters,
    update_stay_costs,
)
from clusterfug.refinement.feature_clusters import CLOCK, UNUSED, clusters_from_sums, with_spare_slots
from clusterfug.refinement.feature_moves import apply_listed_moves, move_rounds, move_to_best

Flags = NDArray[np.bool_]


class ShardScores(NamedTuple):
    """Scores of the items of a shard against the clusters considered so far."""

    labels: NDArray[np.integer[Any]]
    in_changed: Flags  # whether the cluster of the item has changed
    #: Candidate lists, the minimum clear gains of moves, and the gains up to which none counts; None before
    #: the first cluster.
    scored: tuple[CandidateLists, NDArray[np.float64], NDArray[np.float64]] | None = None


class MoveCandidates(NamedTuple):
    """Items of a shard that may gain by moving, as a problem with candidate clusters."""

    items: NDArray[np.int64]
    problem: DenseProblem
    labels: NDArray[np.int64]
    lists: CandidateLists
    close: bool  # other items have gains that may count, but are not clear

    def summary(self) -> tuple[NDArray[np.int64], bool]:
        """Return what the driver needs to know."""
        return self.items, self.close

    def clusters(self) -> NDArray[np.int64]:
        """Return the numbers of the items' own clusters and of those in their lists."""
        _, width = self.lists.ids.shape
        listed = self.lists.ids[np.arange(width) < self.lists.length[:, None]]
        return np.unique(np.concatenate([self.labels, listed]))


class MoveDecision(NamedTuple):
    """Labels of the candidates after the moves; new singletons have the numbers after the last cluster."""

    labels: NDArray[np.int64]
    unsettled: NDArray[np.int64]  # clusters with items that may still gain by moving
    close: bool  # there are gains that may count, but are not clear


def score_block(
    problem: DenseProblem, exact: bool, scores: ShardScores, totals: ClusterTotals, changed: Flags
) -> ShardScores:
    """Return the scores after scoring the items against one more block of consecutive clusters.

    `changed` says which of the clusters changed since all others were settled.
    """
    if scores.scored is None:
        lists, clear, least = empty_candidate_lists(problem.n), np.zeros(problem.n), np.zeros(problem.n)
    else:
        lists = CandidateLists(*(array.copy() for array in scores.scored[0]))
        clear, least = scores.scored[1].copy(), scores.scored[2].copy()
    first = totals.ids[0]
    lists.ids[:] -= first  # numbered from 0 in this block; other clusters are out of range
    labels = scores.labels.astype(np.int64) - first
    clusters = clusters_from_sums(problem, labels, totals.sums, totals.sizes, totals.mass)
    at_home = np.flatnonzero((labels >= 0) & (labels < len(totals.ids)))
    update_stay_costs(problem, clusters, lists, at_home)
    clear[at_home], least[at_home] = gain_tolerances(clusters, at_home), least_gains(clusters, at_home)
    inside, outside = np.flatnonzero(scores.in_changed), np.flatnonzero(~scores.in_changed)
    score_clusters(problem, clusters, lists, inside, np.arange(len(totals.ids)), exact)
    score_clusters(problem, clusters, lists, outside, np.flatnonzero(changed), exact)
    lists.ids[:] += first
    return scores._replace(scored=(lists, clear, least))


def select_candidates(problem: DenseProblem, scores: ShardScores, all_in_changed: bool) -> MoveCandidates:
    """Return the items that may clearly gain by moving, and all items in changed clusters if requested.

    A gain of another item is a close call if it exceeds a tolerated share of its costs to its own and to
    the other cluster: the magnitudes of their terms are at least that large, and are not known here.
    """
    labels, in_changed, scored = scores
    assert scored is not None
    lists, clear, least = scored
    # An item outside changed clusters is attracted to no unscored cluster more than to its own.
    lists = lists._replace(bar=np.where(in_changed, lists.bar, np.maximum(lists.bar, lists.stay)))
    gains = max_gains(lists)
    share = GAIN_TOLERANCE * (np.abs(lists.stay) + np.abs(gains + lists.stay))
    close = bool(np.any((gains > np.where(least < 0, least, share)) & (gains <= clear)))
    items = np.flatnonzero((gains > clear) | (in_changed & all_in_changed))
    lists = CandidateLists._make([*(array[items] for array in lists[:-1]), lists.scored])
    return MoveCandidates(items, problem.subset(items), labels[items].astype(np.int64), lists, close)


def decide_moves(
    k: int, until_optimal: bool, parts: list[ClusterTotals], candidates: list[MoveCandidates]
) -> MoveDecision:
    """Move the candidates, with all other items fixed: until no candidate gains by moving, or once.

    There are k clusters; `parts` has at least those of the candidates and of their lists.
    """
    first, *others = candidates
    problem = first.problem.concatenate(*(part.problem for part in others))
    totals = add_totals(*parts) if len(parts) > 1 else parts[0]
    ids = totals.ids
    labels = np.searchsorted(ids, np.concatenate([part.labels for part in candidates]))
    per_item = zip(*(part.lists[:-1] for part in candidates), strict=True)
    lists = CandidateLists._make([*map(np.concatenate, per_item), np.zeros(1, dtype=np.int64)])
    lists.ids[:] = np.searchsorted(ids, lists.ids)
    clusters = with_spare_slots(clusters_from_sums(problem, labels, totals.sums, totals.sizes, totals.mass))
    hidden_clusters = len(ids) < k
    if until_optimal:
        elsewhere = totals.sums - problem.sums(labels, len(ids))
        optimal = move_rounds(problem, clusters, lists, Budget(), elsewhere, hidden_clusters)
        unsettled = labels[:0] if optimal else labels
    else:
        unclear = apply_listed_moves(problem, clusters, lists, only_clear=True)
        if clusters.counts[CLOCK] == 0 and not hidden_clusters:
            move_to_best(problem, clusters, unclear, Budget())
            unclear = unclear[:0]
        unsettled = labels if clusters.counts[UNUSED] == 0 else labels[unclear]
    numbers = np.concatenate([ids, np.arange(k, k + len(clusters.sizes) - len(ids))])
    return MoveDecision(numbers[clusters.labels], np.unique(ids[unsettled]), bool(clusters.close.any()))
