"""What is done to a shard or to pools: functions of their arguments alone, to be run anywhere."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.assign import most_similar
from clusterfug.preprocess import prepare, sum_feature
from clusterfug.problem import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.moves import moves
from clusterfug.refinement.multilevel import Refined, multilevel, refine
from clusterfug.refinement.strategies import STRATEGIES
from clusterfug.shards import rounds
from clusterfug.shards.rounds import Decided, Wanting
from clusterfug.shards.source import Stretch
from clusterfug.shards.totals import Totals, totals_of
from clusterfug.strength import Costs

Scene = tuple[Totals, NDArray[np.bool_]]
Few = NDArray[np.integer[Any]]


class Recipe(NamedTuple):
    """How the rows of a shard become a problem."""

    start: int  # its first item, for errors
    costs: Costs = Costs()
    metric: str = "inner_product"
    mean: NDArray[np.float64] | None = None


def problem_of(rows: Any, recipe: Recipe) -> DenseProblem:
    """The problem of a shard: of rows, of something that reads them, or what is one already."""
    if isinstance(rows, DenseProblem):
        return rows
    features = prepare(rows_of(rows, recipe.start), recipe.metric, recipe.mean)
    problem = DenseProblem(features, **recipe.costs._replace(sample_weight=None)._asdict())
    if recipe.costs.sample_weight is not None:  # which may be 0 for all of them
        problem = DenseProblem.of(problem.rows._replace(weight=recipe.costs.sample_weight))
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
    nodes = first.beside(*others)
    labels = _solve(nodes) if known is None else known
    return labels, nodes.contract(labels)


def _solve(problem: DenseProblem) -> NDArray[np.int64]:
    return refine(problem, multilevel(problem, Budget()), Budget()).labels


def total(rows: Any, recipe: Recipe, labels: Few) -> Totals:
    return totals_of(problem_of(rows, recipe), labels.astype(np.int64))


def value(totals: Totals) -> tuple[float, float, int]:
    """What the clusters keep inside, what all pairs cost, and how many items have no weight."""
    return totals.inside, totals.all_pairs, totals.weightless


def scene(totals: Totals, changed: NDArray[np.bool_]) -> Scene:
    """What a round starts from: sums of all clusters, and which of them are not settled."""
    return totals, changed


def want(rows: Any, recipe: Recipe, labels: Few, scene: Scene, stirred_too: bool) -> Wanting:
    return rounds.want(problem_of(rows, recipe), labels.astype(np.int64), *scene, stirred_too)


def who(wanting: Wanting) -> NDArray[np.int64]:
    return wanting.items


def decide(scene: Scene, to_the_end: bool, *wanting: Wanting) -> Decided:
    return rounds.decide(scene[0], to_the_end, *wanting)


def finish(
    algorithm: str,
    labels: Any,
    time_limit: float,
    rng: np.random.Generator,
    first: DenseProblem,
    *others: DenseProblem,
) -> Refined:
    """What an algorithm makes of all items, from labels if there are any."""
    problem = first.beside(*others) if others else first
    steps = STRATEGIES[algorithm](problem, labels, Budget(time_limit), rng, None)
    *_, (_, refined) = steps
    return refined


def join_clusters(totals: Totals) -> NDArray[np.int64]:
    """Labels of the clusters: which of them are better off together."""
    clusters = totals.clusters
    return moves(clusters, multilevel(clusters, Budget()), Budget())[0]


def label_weightless(rows: Any, recipe: Recipe, labels: Few, totals: Totals) -> NDArray[np.int64]:
    """Labels with the items of weight 0 in the cluster of most similar mean feature."""
    features, _, weight, signature = problem_of(rows, recipe).rows
    absent, clusters = np.flatnonzero(weight == 0), np.flatnonzero(totals.weight)
    means = totals.sums[clusters, :-1] / totals.weight[clusters, None] * signature[:-1]
    result = labels.astype(np.int64)
    if len(absent):
        result[absent] = clusters[most_similar(features, means.astype(features.dtype), absent)]
    return result
