"""One round of moves of items in many shards: scored in their shards, decided together.

Every shard scores its items against the sums of all clusters and names those that may gain by moving. They
are few, as a rule, and move one after the other in one place, against the sums of that moment; so inside
rises with every move. A cluster that has not changed since its items were last settled attracts none of
them, so only clusters that have changed are scored again, and the items in them.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.problem import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.clusters import CLOCK, UNUSED, known_clusters, with_spare_slots
from clusterfug.refinement.moves import (
    Lists,
    empty_lists,
    gains,
    listed_moves,
    nominate,
    rounds,
    search,
    stays,
)
from clusterfug.shards.totals import Totals

_PER_ITEM = Lists._fields[:-1]


class Wanting(NamedTuple):
    """Items of a shard that may gain by moving, as a problem; and where they might go."""

    items: NDArray[np.int64]
    problem: DenseProblem
    labels: NDArray[np.int64]
    lists: Lists


class Decided(NamedTuple):
    """Labels of the items that wanted to move; new clusters, of items that went to be alone, come last."""

    labels: NDArray[np.int64]
    unsettled: NDArray[np.int64]  # clusters with items that may still want to go


def want(
    problem: DenseProblem,
    labels: NDArray[np.int64],
    totals: Totals,
    changed: NDArray[np.bool_],
    stirred_too: bool,
) -> Wanting:
    """Who may gain by moving, or is in a cluster that is not settled, if those are wanted too.

    `changed` are the clusters that changed since all else was settled.
    """
    clusters = known_clusters(problem, labels, totals.sums, totals.sizes, totals.mass)
    lists = empty_lists(problem.n)
    everyone = np.arange(problem.n)
    stays(problem, clusters, lists, everyone)
    stirred = changed[labels]
    nominate(problem, clusters, lists, everyone[stirred], totals.ids)
    nominate(problem, clusters, lists, everyone[~stirred], np.flatnonzero(changed))
    gain, rounding = gains(clusters, lists)
    lists.bar[~stirred] = np.maximum(lists.bar, lists.stay)[~stirred]  # no other cluster attracts more
    items = np.flatnonzero((gain > rounding) | (stirred & stirred_too))
    few = lists._replace(**{name: getattr(lists, name)[items] for name in _PER_ITEM})
    return Wanting(items, problem.subset(items), labels[items], few)


def decide(totals: Totals, to_the_end: bool, first: Wanting, *others: Wanting) -> Decided:
    """Move the items that want to, as if all others stood still; until none of them wants to, or once."""
    every = (first, *others)
    problem = first.problem.beside(*(wanting.problem for wanting in others))
    labels = np.concatenate([wanting.labels for wanting in every])
    lists = empty_lists(problem.n)._replace(
        **{name: np.concatenate([getattr(part.lists, name) for part in every]) for name in _PER_ITEM}
    )
    clusters = with_spare_slots(known_clusters(problem, labels, totals.sums, totals.sizes, totals.mass))
    if to_the_end:
        elsewhere = totals.sums - problem.sums(labels, len(totals.ids))
        settled = rounds(problem, clusters, lists, Budget(), elsewhere)
        return Decided(clusters.labels, np.unique(labels[:0] if settled else labels))
    unclear = listed_moves(problem, clusters, lists)
    if clusters.counts[CLOCK] == 0:
        search(problem, clusters, unclear, Budget())
        unclear = unclear[:0]
    unsettled = labels if clusters.counts[UNUSED] == 0 else labels[unclear]
    return Decided(clusters.labels, np.unique(unsettled))
