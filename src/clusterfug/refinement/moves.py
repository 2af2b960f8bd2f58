"""Moves of single items, on features: every item goes where it is attracted most, until none improves.

With the sum F_C of the rows of each cluster an item i costs <query_i, F_C> to cluster C, so one product
(n x d)(d x K) scores every move there is. It runs in the features' own precision and only *nominates*: each
item keeps a short list of clusters with upper bounds on what they cost, and a bar that no other cluster
exceeds. Moves are decided one after the other in float64, against the sums of that moment, so the objective
rises with every move. After a round only the clusters that changed are scored again. When no list and no
bar exceeds what an item has in its own cluster, no single move improves the clustering: it is move-optimal.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import blocks
from clusterfug.costs import Floats, Ints, Rows, query_of_item
from clusterfug.kernels import Progress, kernel
from clusterfug.neighbours.exact import Neighbours, insert, nearest
from clusterfug.problem import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.clusters import (
    CLOCK,
    ROUNDING,
    UNUSED,
    Clusters,
    clusters_of,
    cost_to_cluster,
    settle,
    singletons,
    stay_cost,
    stay_costs,
    sum_again,
)
from clusterfug.result import compact

_BLOCK, _COLUMNS = 1024, 4096  # items and clusters of one block of scores: 16 MiB
_WORK = 50_000_000  # multiplications per kernel call: a fraction of a second
NEIGHBOURS = 5
_NOMINEES = 4
_FIRST_PASSES, _PASSES = 8, 4  # over the items: along the neighbour graph; between two scorings
_ENOUGH = 0.002  # a pass that moves a smaller share of the items is the last


class Lists(NamedTuple):
    """Where an item might go: upper bounds on what it costs to some clusters, and to all others."""

    ids: Ints  # (n, k) slots
    costs: Floats  # (n, k) falling
    length: Ints  # (n,)
    bar: Floats  # (n,) no cluster that is not listed costs more
    stay: Floats  # (n,) what the item costs to the rest of its cluster
    scored: Ints  # (1,) the time all of this holds for


def partners(problem: DenseProblem, progress: Progress | None = None) -> Neighbours:
    """What `first_moves` needs to know: the neighbour graph."""
    return nearest(problem, NEIGHBOURS, progress)


def first_moves(
    problem: DenseProblem, neighbours: Neighbours, rng: np.random.Generator | None = None
) -> NDArray[np.int64]:
    """Labels by moves along the neighbour graph, from singletons; items with the best partner first.

    With a generator the order is random instead.
    """
    n = problem.n
    if n == 1 or not neighbours.costs[:, 0].max() > 0:
        return np.arange(n)
    # Two items that are each other's best have the same cost: the next one decides.
    order = np.lexsort(-neighbours.costs.T[::-1]) if rng is None else rng.permutation(n)
    clusters = singletons(problem)
    ids = np.where(neighbours.costs > 0, neighbours.ids, np.arange(n)[:, None])
    step = max(1, _WORK // (NEIGHBOURS * problem.d))
    for _ in range(_FIRST_PASSES):
        moved = 0
        for start in range(0, n, step):
            blocks.look()
            moved += neighbour_pass(problem.rows, clusters, ids, order[start : start + step])
        if moved < _ENOUGH * n:
            break
    return compact(clusters.labels)


def moves(
    problem: DenseProblem, labels: NDArray[np.int64], budget: Budget
) -> tuple[NDArray[np.int64], bool]:
    """Better labels (0..K-1), and whether no single move improves them."""
    while not budget.over():
        clusters, lists = clusters_of(problem, labels), empty_lists(problem.n)
        everyone = np.arange(problem.n)
        stays(problem, clusters, lists, everyone)
        nominate(problem, clusters, lists, everyone, np.flatnonzero(clusters.sizes))
        settled = rounds(problem, clusters, lists, budget)
        labels = compact(clusters.labels)
        if settled:
            return labels, True
    return labels, False


def rounds(
    problem: DenseProblem,
    clusters: Clusters,
    lists: Lists,
    budget: Budget,
    elsewhere: Floats | None = None,
    hidden: bool = False,
) -> bool:
    """Move until nobody gains (True), or the time is up or there is no slot left to be alone in (False).

    `elsewhere` is what items that are not in the problem add to the sums of the clusters. If there are
    hidden clusters, which only lists know of, an item whose list leaves it open ends it (False).
    """
    everyone = np.arange(problem.n)
    while not budget.over():
        unclear = listed_moves(problem, clusters, lists)
        if clusters.counts[CLOCK] == lists.scored[0]:  # nobody moved
            if hidden:
                return not len(unclear)
            short = unclear[lists.length[unclear] < min(_NOMINEES, np.count_nonzero(clusters.sizes) - 1)]
            if len(short):
                lists.length[short], lists.bar[short] = 0, -np.inf
                nominate(problem, clusters, lists, short, np.flatnonzero(clusters.sizes))
                continue
            if not search(problem, clusters, unclear, budget):
                return not budget.over()
        if clusters.counts[UNUSED] == 0:
            return False
        changed = clusters.changed > lists.scored[0]
        slots = np.flatnonzero(changed & (clusters.sizes > 0))
        sum_again(problem, clusters, slots, elsewhere)
        stays(problem, clusters, lists, np.flatnonzero(changed[clusters.labels]))
        forget(lists, changed)
        nominate(problem, clusters, lists, everyone, slots)
        lists.scored[0] = clusters.counts[CLOCK]
    return False


def empty_lists(n: int) -> Lists:
    """Lists of n items that are not scored yet."""
    return Lists(
        ids=np.empty((n, _NOMINEES), dtype=np.int64),
        costs=np.empty((n, _NOMINEES)),
        length=np.zeros(n, dtype=np.int64),
        bar=np.full(n, -np.inf),
        stay=np.empty(n),
        scored=np.zeros(1, dtype=np.int64),
    )


def gains(lists: Lists) -> NDArray[np.float64]:
    """What items gain at most by moving."""
    most = np.where(lists.length > 0, lists.costs[:, 0], 0.0)
    return np.maximum(np.maximum(most, lists.bar), 0.0) - lists.stay


def rounding(clusters: Clusters, items: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.float64]:
    """What may be rounding of a gain."""
    return ROUNDING * clusters.magnitudes[items] * clusters.mass[clusters.labels[items]]


def listed_moves(problem: DenseProblem, clusters: Clusters, lists: Lists) -> NDArray[np.int64]:
    """Move items to clusters of their lists, those that gain most first; items whose bar left it open."""
    n, step = problem.n, max(1, _WORK // (_NOMINEES * problem.d))
    gain, least = gains(lists), rounding(clusters)
    unclear = np.flatnonzero(lists.bar - lists.stay > least)
    items = np.flatnonzero(gain > least)
    items = items[np.argsort(-gain[items], kind="stable")]
    clusters.seen[items] = -1
    for _ in range(_PASSES):
        moved = 0
        for start in range(0, len(items), step):
            moved += nominee_pass(problem.rows, clusters, lists, items[start : start + step])
        if moved < _ENOUGH * n:
            break
        items = np.argsort(lists.stay, kind="stable")  # all, the least attached first
    return unclear


def search(problem: DenseProblem, clusters: Clusters, items: NDArray[np.int64], budget: Budget) -> int:
    """Move items to the best cluster of all, where upper bounds leave it open; the number of moves."""
    step = max(1, _WORK // (len(clusters.sizes) * problem.d))
    moved = 0
    for start in range(0, len(items), step):
        if budget.over():
            break
        moved += search_pass(problem.rows, clusters, items[start : start + step])
    return moved


def stays(problem: DenseProblem, clusters: Clusters, lists: Lists, items: NDArray[np.int64]) -> None:
    step = max(1, _WORK // problem.d)
    for start in range(0, len(items), step):
        stay_costs(problem.rows, clusters, items[start : start + step], lists.stay)


def nominate(
    problem: DenseProblem,
    clusters: Clusters,
    lists: Lists,
    items: NDArray[np.int64],
    slots: NDArray[np.int64],
    exact: bool = False,
) -> None:
    """Score items against the clusters in these slots and take the best into their lists.

    Exact scores are no upper bounds but costs, up to rounding in float64.
    """
    for columns in blocks.slices(len(slots), _COLUMNS):
        _nominate_some(problem, clusters, lists, items, slots[columns], exact)


def _nominate_some(
    problem: DenseProblem,
    clusters: Clusters,
    lists: Lists,
    items: NDArray[np.int64],
    slots: NDArray[np.int64],
    exact: bool,
) -> None:
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
    if exact:
        slack[:] = 0.0
    whole = len(items) == problem.n

    def block(part: slice) -> None:
        features = rows.features[part] if whole else rows.features[items[part]]
        scores = blocks.scratch(len(features), len(slots), dtype)
        np.matmul(features, columns, out=scores)
        take_nominees(
            rows, scores, items[part], slots, 1 / scale, last, slack, magnitudes, clusters.labels, lists
        )

    blocks.each(block, blocks.slices(len(items), _BLOCK))


@kernel
def neighbour_pass(rows: Rows, clusters: Clusters, ids: Ints, items: Ints) -> int:
    """Move items, one after the other, to the best cluster among those of their neighbours."""
    query = np.empty(rows.signature.shape[0])
    candidates = np.empty(ids.shape[1], dtype=np.int64)
    moved = 0
    for i in items:
        home = clusters.labels[i]
        news = clusters.changed[home] > clusters.seen[i]
        count = 0
        for j in ids[i]:
            slot = clusters.labels[j]
            news = news or clusters.changed[slot] > clusters.seen[i]
            if slot != home and slot not in candidates[:count]:
                candidates[count] = slot
                count += 1
        if not news:
            continue
        query_of_item(rows, i, query)
        stay = stay_cost(rows, clusters, i, query)
        best = 0.0
        to = -1
        for slot in candidates[:count]:
            cost = cost_to_cluster(rows, clusters, query, slot)
            if cost > best:
                best = cost
                to = slot
        moved += settle(rows, clusters, i, best - stay, to)
    return moved


@kernel
def nominee_pass(rows: Rows, clusters: Clusters, lists: Lists, items: Ints) -> int:
    """Move items, one after the other, to the best cluster of their lists.

    A cluster that has not changed since it was scored costs no more than the list says, and an item
    whose clusters have not changed since it was seen last is not asked again.
    """
    query = np.empty(rows.signature.shape[0])
    scored = lists.scored[0]
    moved = 0
    for i in items:
        home = clusters.labels[i]
        news = clusters.changed[home] > clusters.seen[i] or clusters.seen[i] < 0
        for at in range(lists.length[i]):
            news = news or clusters.changed[lists.ids[i, at]] > clusters.seen[i]
        if not news:
            continue
        query_of_item(rows, i, query)
        stay = lists.stay[i]
        if clusters.changed[home] > scored:
            stay = stay_cost(rows, clusters, i, query)
        best = 0.0
        to = -1
        for at in range(lists.length[i]):
            slot = lists.ids[i, at]
            if slot == home or clusters.sizes[slot] == 0:
                continue
            if clusters.changed[slot] <= scored and not lists.costs[i, at] > max(best, stay):
                continue
            cost = cost_to_cluster(rows, clusters, query, slot)
            if cost > best:
                best = cost
                to = slot
        moved += settle(rows, clusters, i, best - stay, to)
    return moved


@kernel
def search_pass(rows: Rows, clusters: Clusters, items: Ints) -> int:
    """Move items, one after the other, to the best cluster of all."""
    query = np.empty(rows.signature.shape[0])
    moved = 0
    for i in items:
        query_of_item(rows, i, query)
        best = 0.0
        to = -1
        for slot in range(clusters.sizes.shape[0]):
            if slot != clusters.labels[i] and clusters.sizes[slot] > 0:
                cost = cost_to_cluster(rows, clusters, query, slot)
                if cost > best:
                    best = cost
                    to = slot
        moved += settle(rows, clusters, i, best - stay_cost(rows, clusters, i, query), to)
    return moved


@kernel
def take_nominees(
    rows: Rows,
    scores: Floats,
    items: Ints,
    slots: Ints,
    scale: float,
    last: Floats,
    slack: Floats,
    magnitudes: Floats,
    labels: Ints,
    lists: Lists,
) -> None:
    """Make upper bounds of scores, and take the largest into the lists of the items."""
    size = lists.ids.shape[1]
    for r in range(items.shape[0]):
        i = items[r]
        weight, alpha, magnitude = rows.weight[i], rows.weight[i] * rows.alpha[i], magnitudes[i]
        bar = lists.bar[i]
        for c in range(slots.shape[0]):
            cost = weight * (scale * scores[r, c]) + (alpha * last[c] + magnitude * slack[c])
            if cost > bar and slots[c] != labels[i]:
                if lists.length[i] == size:
                    bar = max(bar, min(cost, lists.costs[i, size - 1]))
                lists.length[i] = insert(lists.ids[i], lists.costs[i], lists.length[i], slots[c], cost)
        lists.bar[i] = bar


@kernel
def forget(lists: Lists, changed: Ints) -> None:
    """Drop the clusters that changed from all lists."""
    for i in range(lists.ids.shape[0]):
        kept = 0
        for at in range(lists.length[i]):
            if not changed[lists.ids[i, at]]:
                lists.ids[i, kept] = lists.ids[i, at]
                lists.costs[i, kept] = lists.costs[i, at]
                kept += 1
        lists.length[i] = kept
