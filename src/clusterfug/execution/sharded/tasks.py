"""What is done to a shard or to pools: functions of their arguments alone, to be run anywhere."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.costs.models import CostModel
from clusterfug.costs.preprocessing import prepare, sum_feature
from clusterfug.execution.sharded import rounds
from clusterfug.execution.sharded.rounds import Flags, Scores, Wanting
from clusterfug.execution.sharded.source import Stretch
from clusterfug.execution.sharded.totals import Totals, Worth, totals_of
from clusterfug.models.assignment import most_similar
from clusterfug.problems.dense import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import Refined, multilevel, refine
from clusterfug.refinement.strategies import STRATEGIES

Few = NDArray[np.integer[Any]]
#: Labels of a shard, and how similar its items of weight 0 are to their clusters.
Labelled = tuple[Few, NDArray[np.float64] | None]


class Recipe(NamedTuple):
    """How the rows of a shard become a problem."""

    start: int  # its first item, for errors
    costs: CostModel | None = None
    weight: NDArray[np.float64] | None = None
    metric: str = "inner_product"
    mean: NDArray[np.float64] | None = None


def problem_of(rows: Any, recipe: Recipe) -> DenseProblem:
    """The problem of a shard: of rows, of something that reads them, or what is one already."""
    if isinstance(rows, DenseProblem):
        return rows
    features = prepare(rows_of(rows, recipe.start), recipe.metric, recipe.mean)
    problem = DenseProblem(features, recipe.costs)
    if recipe.weight is not None:  # which may be 0 for all of them
        problem = DenseProblem.from_rows(problem.rows._replace(weight=recipe.weight))
    return problem


def rows_of(rows: Any, start: int) -> NDArray[Any]:
    return rows.read() if isinstance(rows, Stretch) else checks.features(rows, first=start)


def sum_of_rows(rows: Any, start: int, weight: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """The (weighted) sum of the rows of a shard."""
    return sum_feature(rows_of(rows, start), weight)


def add_sums(*sums: NDArray[np.float64]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = np.sum(sums, axis=0)
    return total


def solve(known: Any, rows: Any, recipe: Recipe) -> tuple[NDArray[np.int64], DenseProblem]:
    """Labels of a shard, or those that are known, and its clusters as a problem."""
    problem = problem_of(rows, recipe)
    labels = known
    if labels is None:
        present = np.flatnonzero(problem.rows.weight)
        labels = np.zeros(problem.n, dtype=np.int64)  # those of weight 0 may be anywhere
        if len(present) == problem.n:
            labels = _solve(problem)
        elif len(present):
            labels[present] = _solve(problem.subset(present))
    return labels, problem.contract(labels)


def join(known: Any, first: DenseProblem, *others: DenseProblem) -> tuple[NDArray[np.int64], DenseProblem]:
    """Labels of the nodes of pools, or those that are known, and their clusters as a problem."""
    nodes = first.concatenate(*others)
    labels = _solve(nodes) if known is None else known
    return labels, nodes.contract(labels)


def _solve(problem: DenseProblem) -> NDArray[np.int64]:
    return refine(problem, multilevel(problem, Budget()), Budget()).labels


def total(rows: Any, recipe: Recipe, labels: Few) -> Totals:
    return totals_of(problem_of(rows, recipe), labels.astype(np.int64))


def worth(totals: Totals) -> Worth:
    return totals.worth


def same(value: Any) -> Any:
    """To be sent once, for many tasks."""
    return value


def score(rows: Any, recipe: Recipe, exact: bool, scores: Scores, totals: Totals, changed: Flags) -> Scores:
    """Score a shard against some of the clusters."""
    return rounds.score(problem_of(rows, recipe), exact, scores, totals, changed)


def want(
    rows: Any,
    recipe: Recipe,
    exact: bool,
    stirred_too: bool,
    scores: Scores,
    totals: Totals,
    changed: Flags,
) -> Wanting:
    """Score a shard against the last of the clusters: who wants to move?"""
    problem = problem_of(rows, recipe)
    return rounds.want(problem, rounds.score(problem, exact, scores, totals, changed), stirred_too)


def who(wanting: Wanting) -> NDArray[np.int64]:
    return wanting.items


def where(wanting: Wanting) -> NDArray[np.int64]:
    return wanting.clusters


def finish(
    algorithm: str,
    labels: Any,
    time_limit: float,
    rng: np.random.Generator,
    first: DenseProblem,
    *others: DenseProblem,
) -> Refined:
    """What an algorithm makes of all items, from labels if there are any."""
    problem = first.concatenate(*others) if others else first
    steps = STRATEGIES[algorithm](problem, labels, Budget(time_limit), rng, None)
    *_, (_, refined) = steps
    return refined


def clusters(totals: Totals) -> DenseProblem:
    return totals.clusters


def join_clusters(totals: Totals) -> NDArray[np.int64]:
    """Labels of the clusters: which of them are better off together."""
    nodes = totals.clusters
    return nodes.move_items(multilevel(nodes, Budget()), Budget())[0]


def label_weightless(rows: Any, recipe: Recipe, labelled: Labelled, totals: Totals) -> Labelled:
    """Items of weight 0 go to the cluster of most similar mean feature, if it is one of these."""
    features, _, weight, signature = problem_of(rows, recipe).rows
    labels, before = labelled
    absent, here = np.flatnonzero(weight == 0), np.flatnonzero(totals.weight)
    if not len(absent) or not len(here):
        return labelled
    means = totals.sums[here, :-1] / totals.weight[here, None] * signature[:-1]
    best = most_similar(features, means.astype(features.dtype), absent)
    similarity = np.einsum("id,id->i", features[absent].astype(np.float64), means[best])
    better = np.full(len(absent), True) if before is None else similarity > before
    labels = labels.copy()
    labels[absent[better]] = totals.ids[here[best[better]]]
    return labels, similarity if before is None else np.maximum(similarity, before)
