"""One round of moves of items in many shards: scored in their shards, decided together.

Every shard scores its items against the sums of all clusters, in blocks if they are many, and names those
that may gain by moving. They are few, as a rule, and move one after the other in one place, against the
sums of that moment; so inside rises with every move. A cluster that has not changed since its items were
last settled attracts none of them, so only clusters that have changed are scored again, and the items in
them.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.sharded.totals import Totals, add
from clusterfug.problems.dense import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.candidate_lists import (
    CandidateLists,
    empty_candidate_lists,
    gain_tolerances,
    max_gains,
    score_clusters,
    update_stay_costs,
)
from clusterfug.refinement.feature_clusters import CLOCK, UNUSED, clusters_from_sums, with_spare_slots
from clusterfug.refinement.feature_moves import apply_listed_moves, move_rounds, move_to_best

Flags = NDArray[np.bool_]
_PER_ITEM = CandidateLists._fields[:-1]


class Scores(NamedTuple):
    """What the items of a shard know of the clusters they were scored against so far."""

    labels: NDArray[np.integer[Any]]
    stirred: Flags  # whether the item's cluster has changed
    found: tuple[CandidateLists, NDArray[np.float64]] | None = (
        None  # lists; gains that are no larger are rounding
    )


class Wanting(NamedTuple):
    """Items of a shard that may gain by moving, as a problem; and where they might go."""

    items: NDArray[np.int64]
    problem: DenseProblem
    labels: NDArray[np.int64]
    lists: CandidateLists

    @property
    def clusters(self) -> NDArray[np.int64]:
        """Numbers of the clusters where they are or might go."""
        _, width = self.lists.ids.shape
        listed = self.lists.ids[np.arange(width) < self.lists.length[:, None]]
        return np.unique(np.concatenate([self.labels, listed]))


class Decided(NamedTuple):
    """Labels of the items that wanted to move; new clusters, of items that went to be alone, come last."""

    labels: NDArray[np.int64]
    unsettled: NDArray[np.int64]  # clusters with items that may still want to go


def score(problem: DenseProblem, exact: bool, scores: Scores, totals: Totals, changed: Flags) -> Scores:
    """Score the items against more clusters, with consecutive numbers.

    `changed` are those that changed since all else was settled.
    """
    if scores.found is None:
        lists, least = empty_candidate_lists(problem.n), np.zeros(problem.n)
    else:
        lists, least = CandidateLists(*(array.copy() for array in scores.found[0])), scores.found[1].copy()
    first = totals.ids[0]
    lists.ids[:] -= first  # they are numbered from 0 here; others are out of range
    labels = scores.labels.astype(np.int64) - first
    clusters = clusters_from_sums(problem, labels, totals.sums, totals.sizes, totals.mass)
    home = np.flatnonzero((labels >= 0) & (labels < len(totals.ids)))
    update_stay_costs(problem, clusters, lists, home)
    least[home] = gain_tolerances(clusters, home)
    stirred, others = np.flatnonzero(scores.stirred), np.flatnonzero(~scores.stirred)
    score_clusters(problem, clusters, lists, stirred, np.arange(len(totals.ids)), exact)
    score_clusters(problem, clusters, lists, others, np.flatnonzero(changed), exact)
    lists.ids[:] += first
    return scores._replace(found=(lists, least))


def want(problem: DenseProblem, scores: Scores, stirred_too: bool) -> Wanting:
    """Who may gain by moving, or is in a cluster that is not settled, if those are wanted too."""
    labels, stirred, found = scores
    assert found is not None
    lists, least = found
    no_more = np.where(stirred, lists.bar, np.maximum(lists.bar, lists.stay))  # any other cluster attracts
    lists = lists._replace(bar=no_more)
    items = np.flatnonzero((max_gains(lists) > least) | (stirred & stirred_too))
    few = lists._replace(**{name: getattr(lists, name)[items] for name in _PER_ITEM})
    return Wanting(items, problem.subset(items), labels[items].astype(np.int64), few)


def decide(k: int, to_the_end: bool, parts: list[Totals], wanting: list[Wanting]) -> Decided:
    """Move the items that want to, as if all others stood still; until none of them wants to, or once.

    There are k clusters; at least those are given where items are or might go.
    """
    first, *others = wanting
    problem = first.problem.concatenate(*(part.problem for part in others))
    totals = add(*parts) if len(parts) > 1 else parts[0]
    ids = totals.ids
    labels = np.searchsorted(ids, np.concatenate([part.labels for part in wanting]))
    lists = empty_candidate_lists(problem.n)._replace(
        **{name: np.concatenate([getattr(part.lists, name) for part in wanting]) for name in _PER_ITEM}
    )
    lists.ids[:] = np.searchsorted(ids, lists.ids)
    clusters = with_spare_slots(clusters_from_sums(problem, labels, totals.sums, totals.sizes, totals.mass))
    hidden = len(ids) < k
    if to_the_end:
        elsewhere = totals.sums - problem.sums(labels, len(ids))
        settled = move_rounds(problem, clusters, lists, Budget(), elsewhere, hidden)
        unsettled = labels[:0] if settled else labels
    else:
        unclear = apply_listed_moves(problem, clusters, lists)
        if clusters.counts[CLOCK] == 0 and not hidden:
            move_to_best(problem, clusters, unclear, Budget())
            unclear = unclear[:0]
        unsettled = labels if clusters.counts[UNUSED] == 0 else labels[unclear]
    names = np.concatenate([ids, np.arange(k, k + len(clusters.sizes) - len(ids))])
    return Decided(names[clusters.labels], np.unique(ids[unsettled]))
