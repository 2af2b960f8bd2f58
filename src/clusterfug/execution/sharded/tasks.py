"""The tasks of a sharded run: functions of their arguments alone, so that any process can run them."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.costs.models import CostModel
from clusterfug.costs.preprocessing import prepare, sum_feature
from clusterfug.execution.sharded.moves import (
    Flags,
    MoveCandidates,
    ShardScores,
    score_block,
    select_candidates,
)
from clusterfug.execution.sharded.source import FileRows
from clusterfug.execution.sharded.totals import ClusterTotals, cluster_totals
from clusterfug.models.assignment import most_similar
from clusterfug.problems.dense import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import Refined, multilevel, refine
from clusterfug.refinement.strategies import STRATEGIES, Start

#: Labels of the items of a shard, in a small integer type.
ShardLabels = NDArray[np.integer[Any]]
#: Labels of a shard, and the similarities of its items of weight 0 to their clusters.
WeightlessLabels = tuple[ShardLabels, NDArray[np.float64] | None]


class Recipe(NamedTuple):
    """How the rows of a shard become a problem."""

    start: int = 0  # first item of the shard, for error messages
    costs: CostModel | None = None
    weight: NDArray[np.float64] | None = None
    metric: str = "inner_product"
    mean: NDArray[np.float64] | None = None


def shard_problem(rows: Any, recipe: Recipe) -> DenseProblem:
    """Return the problem of a shard, given as an array, as `FileRows` or as a problem."""
    if isinstance(rows, DenseProblem):
        return rows
    features = prepare(_read(rows, recipe.start), recipe.metric, recipe.mean)
    problem = DenseProblem(features, recipe.costs)
    if recipe.weight is not None:  # not an argument of DenseProblem, which refuses weights that are all 0
        problem = DenseProblem.from_rows(problem.rows._replace(weight=recipe.weight))
    return problem


def _read(rows: Any, start: int) -> NDArray[Any]:
    return rows.read() if isinstance(rows, FileRows) else checks.features(rows, first=start)


def sum_shard(rows: Any, recipe: Recipe) -> NDArray[np.float64]:
    """Return the (weighted) sum of the rows of a shard."""
    return sum_feature(_read(rows, recipe.start), recipe.weight)


def solve_shard(known: Any, rows: Any, recipe: Recipe) -> tuple[NDArray[np.int64], DenseProblem]:
    """Return the labels of a shard, unless they are known, and the contracted problem."""
    problem = shard_problem(rows, recipe)
    labels = known
    if labels is None:
        weighted = np.flatnonzero(problem.rows.weight)
        labels = np.zeros(problem.n, dtype=np.int64)  # items of weight 0 are labelled in the end
        if len(weighted) == problem.n:
            labels = _solve(problem)
        elif len(weighted):
            labels[weighted] = _solve(problem.subset(weighted))
    return labels, problem.contract(labels)


def solve_pool(
    known: Any, first: DenseProblem, *others: DenseProblem
) -> tuple[NDArray[np.int64], DenseProblem]:
    """Return the labels of the nodes of pools, unless they are known, and the contracted problem."""
    nodes = first.concatenate(*others)
    labels = _solve(nodes) if known is None else known
    return labels, nodes.contract(labels)


def _solve(problem: DenseProblem) -> NDArray[np.int64]:
    return refine(problem, multilevel(problem, Budget()), Budget()).labels


def solve_at_once(
    algorithm: str,
    labels: Any,
    time_limit: float,
    rng: np.random.Generator,
    first: DenseProblem,
    *others: DenseProblem,
) -> Refined:
    """Return the result of an algorithm on all items, starting from labels if there are any."""
    problem = first.concatenate(*others) if others else first
    *_, (_, refined) = STRATEGIES[algorithm](Start(problem, labels, Budget(time_limit), rng))
    return refined


def total_shard(rows: Any, recipe: Recipe, labels: ShardLabels) -> ClusterTotals:
    """Return the totals of the clusters in a shard."""
    return cluster_totals(shard_problem(rows, recipe), labels.astype(np.int64))


def score_shard(
    rows: Any, recipe: Recipe, exact: bool, scores: ShardScores, totals: ClusterTotals, changed: Flags
) -> ShardScores:
    """Score a shard against a block of the clusters."""
    return score_block(shard_problem(rows, recipe), exact, scores, totals, changed)


def shard_candidates(
    rows: Any,
    recipe: Recipe,
    exact: bool,
    all_in_changed: bool,
    scores: ShardScores,
    totals: ClusterTotals,
    changed: Flags,
) -> MoveCandidates:
    """Score a shard against the last block of the clusters, and return its candidates for moves."""
    problem = shard_problem(rows, recipe)
    return select_candidates(problem, score_block(problem, exact, scores, totals, changed), all_in_changed)


def join_clusters(totals: ClusterTotals) -> tuple[NDArray[np.int64], bool]:
    """Return labels of the clusters by which those that gain from it are joined.

    Also return whether it is certain that no further join improves them.
    """
    nodes = totals.contracted()
    return nodes.move_items(multilevel(nodes, Budget()), Budget())


def label_weightless(
    rows: Any, recipe: Recipe, labelled: WeightlessLabels, totals: ClusterTotals
) -> WeightlessLabels:
    """Assign the items of weight 0 to the clusters of most similar mean, if no earlier one is closer."""
    features, _, weight, signature = shard_problem(rows, recipe).rows
    labels, earlier = labelled
    items, weighted = np.flatnonzero(weight == 0), np.flatnonzero(totals.weight)
    if not len(items) or not len(weighted):
        return labelled
    means = totals.sums[weighted, :-1] / totals.weight[weighted, None] * signature[:-1]
    best = most_similar(features, means.astype(features.dtype), items)
    similarity = np.einsum("id,id->i", features[items].astype(np.float64), means[best])
    if earlier is None:
        earlier = np.full(len(items), -np.inf)
    closer = similarity > earlier
    labels = labels.copy()
    labels[items[closer]] = totals.ids[weighted[best[closer]]]
    return labels, np.maximum(similarity, earlier)
