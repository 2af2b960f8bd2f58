"""Problems that are solved shard by shard: trees of parts, sums, moves of items in many shards."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import clusters_of, limit, mixture, separated

from clusterfug import DenseProblem, dense_multicut, lower_bound
from clusterfug.checks import memory
from clusterfug.execution import threads
from clusterfug.execution.sharded import rounds, source, tasks, walk
from clusterfug.execution.sharded.checkpoint import Checkpoint, Place
from clusterfug.execution.sharded.engine import Here, tree
from clusterfug.execution.sharded.totals import add, totals_of
from clusterfug.execution.sharded.walk import Shard, Walk
from clusterfug.refinement import strategies
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import refine
from clusterfug.result import agreement, compact, number_by_first_appearance


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(source, "LEAST", 8)


def problem_of(rng, n=30, clusters=4, noise=1.0, dtype=np.float64, **costs):
    X, _ = mixture(rng, n, clusters, d=6, noise=noise)
    return DenseProblem(X.astype(dtype), **({"threshold": 0.25} | costs))


def cost_matrix(problem):
    everyone = np.arange(problem.n)
    return problem.group_costs(everyone, everyone)


# Trees


def test_a_tree_of_pairs():
    assert tree("a", "".join) == "a"
    assert tree("ab", lambda group: f"({''.join(group)})") == "(ab)"
    assert tree("abcd", lambda group: f"({''.join(group)})") == "((ab)(cd))"
    assert tree("abcdefg", lambda group: f"({''.join(group)})") == "(((ab)(cd))((ef)g))"


def test_what_is_left_at_the_end_may_be_combined_in_another_way():
    def tree_of(text):
        return tree(text, lambda group: f"({''.join(group)})", finish=lambda group: f"[{''.join(group)}]")

    assert tree_of("a") == "a"
    assert tree_of("ab") == "[ab]"
    assert tree_of("abcdefg") == "[((ab)(cd))((ef)g)]"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(0, 12))
def test_a_tree_keeps_order_and_limit_and_combines_two_at_least(sizes, most):
    groups = []

    def combine(group):
        groups.append(group)
        return max(size for size, _ in group), [at for _, items in group for at in items]

    size, items = tree(((size, [at]) for at, size in enumerate(sizes)), combine, lambda pair: pair[0], most)
    assert items == list(range(len(sizes)))
    assert size == max(sizes)
    assert all(len(group) > 1 for group in groups)
    for group in groups:
        first = [size for size, _ in group[:-1]]
        assert len(group) == 2 or sum(first) <= most or group[-1][1][-1] == len(sizes) - 1


def test_groups_are_as_large_as_the_limit_allows():
    groups = []

    def combine(group):
        groups.append(list(group))
        return 3

    tree([3, 3, 3, 3, 3, 3, 3, 3], combine, lambda size: size, 12)
    assert groups[0] == [3, 3, 3, 3]
    groups.clear()
    tree([5, 7, 1, 100, 100, 1], combine, lambda size: size, 12)
    assert groups[:2] == [[5, 7], [1, 100]]


@pytest.mark.parametrize("count", [1, 2, 3, 64, 100])
def test_few_items_are_waiting(count):
    """No more than two on every level, and every item is combined before the next ones come."""
    alive = most = 0

    def items():
        nonlocal alive, most
        for at in range(count):
            alive += 1
            most = max(most, alive)
            yield at

    def combine(group):
        nonlocal alive
        alive -= len(group) - 1
        return group

    tree(items(), combine)
    assert alive == 1
    assert most <= 2 * max(1, int(np.ceil(np.log2(count)))) + 1


# Sums

COSTS = ({}, {"alpha": 0.5}, {"alpha": None, "sample_weight": [0.0, 2.0, 1.0] * 10}, {"threshold": -0.3})


@pytest.mark.parametrize(
    "costs", [*COSTS, {"signature": [1, 1, -1, 1, 1, -1]}, {"prefer": "large", "alpha": 0.3}]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_totals_add_up_to_what_a_problem_says(rng, costs, dtype):
    problem = problem_of(rng, dtype=dtype, **costs)
    labels = rng.integers(0, 5, size=30)
    items, weight = problem.extended(0, 30, np.float64), problem.rows.weight
    for ends in ([0, 30], [0, 1, 30], [0, 7, 8, 19, 30], range(31)):
        parts = [slice(*span) for span in pairwise(ends)]
        totals = add(*(totals_of(problem.subset(part), labels[part]) for part in parts))
        assert totals.ids.tolist() == np.unique(labels).tolist()
        for at, c in enumerate(totals.ids):
            np.testing.assert_allclose(totals.sums[at], items[labels == c].sum(axis=0), atol=1e-12)
            assert totals.weight[at] == pytest.approx(weight[labels == c].sum())
            assert totals.mass[at] == pytest.approx(problem.own_costs[1][labels == c].sum())
            assert totals.sizes[at] == np.count_nonzero(labels == c)
        assert totals.weightless.sum() == np.count_nonzero(weight == 0)
        assert totals.own.sum() == pytest.approx(problem.own_costs[0].sum())
        assert totals.worth.inside == pytest.approx(problem.inside(labels))
        assert totals.worth.all_pairs == pytest.approx(problem.all_singletons)
        np.testing.assert_array_equal(totals.signature, problem.rows.signature)


def test_totals_are_added_whatever_clusters_the_parts_have(rng):
    problem = problem_of(rng)
    labels = np.sort(rng.integers(0, 9, size=30)) * 3
    parts = [totals_of(problem.subset(part), labels[part]) for part in (slice(0, 9), slice(9, 30))]
    whole = totals_of(problem, labels)
    for found in (add(*parts), add(*parts[::-1]), add(parts[0], parts[1])):
        for one, other in zip(found, whole, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)


def test_clusters_as_items_cost_what_their_items_cost(rng):
    problem = problem_of(rng, sample_weight=rng.uniform(0.5, 2, size=30))
    labels = compact(rng.integers(0, 5, size=30))
    clusters, contracted = totals_of(problem, labels).clusters, problem.contract(labels)
    np.testing.assert_allclose(cost_matrix(clusters), cost_matrix(contracted), atol=1e-12)


# Moves


def walk_of(problem, size, most, algorithm="auto"):
    shards = [
        Shard(
            start,
            min(problem.n, start + size),
            problem.subset(slice(start, start + size)),
            tasks.Recipe(0),
        )
        for start in range(0, problem.n, size)
    ]
    return Walk(shards, Here(), Checkpoint(None, {}), Budget(), most, algorithm)


def check_optimal(costs, labels):
    """By brute force: no item gains by moving, to any cluster or alone, and no two clusters by joining."""
    members = np.eye(int(labels.max()) + 1)[labels]
    to = costs @ members
    stay = to[np.arange(len(labels)), labels]
    assert np.all(to.max(axis=1) <= stay + 1e-9)
    assert np.all(stay >= -1e-9)
    between = members.T @ to
    np.fill_diagonal(between, -np.inf)
    assert between.max(initial=-np.inf) <= 1e-9


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("size", "most"), [(40, 40), (10, 40), (10, 10), (5, 5), (7, 1), (1, 1)])
def test_after_a_walk_no_move_and_no_join_improves(seed, size, most):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng, 40, noise=1.5, dtype=[np.float32, np.float64][seed % 2])
    costs = cost_matrix(problem)
    for init in (None, rng.integers(0, 6, size=40), np.arange(40), np.zeros(40, dtype=np.int64)):
        start = None if init is None else compact(init)
        algorithm = ["fast", "auto"][seed // 2]
        *_, (name, refined, known) = walk_of(problem, size, most, algorithm).steps(start)
        assert name == "refinement"
        assert refined.move_optimal
        assert refined.join_optimal
        assert sorted(set(refined.labels)) == list(range(refined.labels.max() + 1))
        check_optimal(costs, refined.labels)
        assert known.inside == pytest.approx(problem.inside(refined.labels))
        assert known.all_pairs == pytest.approx(problem.all_singletons)
        if init is not None:
            assert known.inside >= problem.inside(init) - 1e-9


def insides_of(monkeypatch, problem, size, most, init):
    """What is inside after every round, and how many groups decided in it."""
    found, before = [], Walk._accepted

    def accepted(self, place, known, proposed, unsettled, groups):
        result = before(self, place, known, proposed, unsettled, groups)
        found.append((known.inside, result[1].inside, len(groups)))
        assert result[1].inside == pytest.approx(problem.inside(result[0].labels))
        return result

    monkeypatch.setattr(Walk, "_accepted", accepted)
    *_, (_, refined, _) = walk_of(problem, size, most).steps(init)
    monkeypatch.setattr(Walk, "_accepted", before)
    return found, refined


@pytest.mark.parametrize(("size", "most"), [(10, 49), (10, 10), (5, 2), (1, 1)])
def test_inside_never_falls_from_round_to_round(monkeypatch, rng, size, most):
    problem = problem_of(rng, 50, noise=2.0)
    several = 0
    for init in (compact(rng.integers(0, 8, size=50)), np.arange(50), np.zeros(50, dtype=np.int64)):
        found, _ = insides_of(monkeypatch, problem, size, most, init)
        assert len(found) > 1
        assert all(after >= before - 1e-9 for before, after, _ in found)
        several += sum(groups > 1 for *_, groups in found)
    assert several > 0


def want(problem, labels, totals, changed, stirred_too, most=99, exact=False):
    """Who wants to move, from sums of so many clusters at a time."""
    scores = rounds.Scores(labels, changed[labels])
    for part in threads.slices(len(changed), most):
        some = totals.stretch(part.start, part.stop)
        scores = rounds.score(problem, exact, scores, some, changed[part])
    return rounds.want(problem, scores, stirred_too)


def decide(totals, to_the_end, *wanting):
    return rounds.decide(len(totals.ids), to_the_end, [totals], list(wanting))


def disturbed(rng):
    """Some items in five clusters that are good for most of them."""
    X, truth = mixture(rng, 40, 5, d=6, noise=0.8)
    return DenseProblem(X, 0.25), np.where(np.arange(40) % 4, truth, rng.integers(0, 5, size=40))


def test_who_wants_to_move_is_who_gains(rng):
    problem, labels = disturbed(rng)
    totals = totals_of(problem, labels)
    to = cost_matrix(problem) @ np.eye(5)[labels]
    stay = to[np.arange(40), labels]
    gains = np.maximum(to.max(axis=1), 0) > stay + 1e-9
    everything = np.ones(5, dtype=bool)
    assert 0 < gains.sum() < 40
    for part in (slice(0, 40), slice(0, 13), slice(13, 40)):
        shard = problem.subset(part)
        found = want(shard, labels[part], totals, everything, False)
        np.testing.assert_array_equal(found.items, np.flatnonzero(gains[part]))
        np.testing.assert_array_equal(found.labels, labels[part][found.items])
        np.testing.assert_array_equal(found.problem.rows.features, shard.rows.features[found.items])
        np.testing.assert_allclose(found.lists.stay, stay[part][found.items])
        found = want(shard, labels[part], totals, everything, True)
        np.testing.assert_array_equal(found.items, np.arange(shard.n))
        found = want(shard, labels[part], totals, ~everything, True)
        assert found.items.tolist() == np.flatnonzero(stay[part] < -1e-9).tolist()


def test_only_clusters_that_changed_are_looked_at(rng):
    problem, labels = disturbed(rng)
    totals = totals_of(problem, labels)
    to = cost_matrix(problem) @ np.eye(5)[labels]
    stay = to[np.arange(40), labels]
    for c in range(5):
        changed = np.arange(5) == c
        found = want(problem, labels, totals, changed, False)
        best = np.maximum(np.where(labels == c, to.max(axis=1), to[:, c]), 0)
        assert found.items.tolist() == np.flatnonzero(best > stay + 1e-9).tolist()


@pytest.mark.parametrize("to_the_end", [False, True])
def test_items_decide_as_if_all_others_stood_still(rng, to_the_end):
    problem = problem_of(rng, 40, noise=2.0)
    labels = compact(rng.integers(0, 5, size=40))
    totals, changed = totals_of(problem, labels), np.ones(5, dtype=bool)
    parts = [slice(0, 10), slice(10, 24), slice(24, 40)]
    every = [want(problem.subset(part), labels[part], totals, changed, to_the_end) for part in parts]
    decided = decide(totals, to_the_end, *every)
    who = np.concatenate([part.start + found.items for part, found in zip(parts, every, strict=True)])
    after = labels.copy()
    after[who] = decided.labels
    assert problem.inside(after) > problem.inside(labels)
    if to_the_end:
        assert not len(decided.unsettled)
        costs = cost_matrix(problem)
        to = costs @ np.eye(after.max() + 1)[after]
        assert np.all(np.maximum(to.max(axis=1), 0) <= to[np.arange(40), after] + 1e-9)


def test_some_items_decide_to_the_end_while_others_are_elsewhere(rng):
    """The sums of clusters with items of other shards are summed again after moves: they keep those."""
    problem = problem_of(rng, 60, noise=2.0)
    labels = compact(rng.integers(0, 5, size=60))
    totals = totals_of(problem, labels)
    few = slice(0, 15)
    wanting = want(problem.subset(few), labels[few], totals, np.ones(5, dtype=bool), True)
    decided = decide(totals, True, wanting)
    after = np.concatenate([decided.labels, labels[15:]])
    to = (cost_matrix(problem) @ np.eye(after.max() + 1)[after])[few]
    assert problem.inside(after) > problem.inside(labels)
    assert np.all(np.maximum(to.max(axis=1), 0) <= to[np.arange(15), after[few]] + 1e-9)


# Moves that are decided in groups


class Sums(Walk):
    """A walk whose sums are told by hand: what is inside follows from how many items moved."""

    def __init__(self, problem, better):
        shards = [Shard(0, problem.n, problem, tasks.Recipe(0))]
        super().__init__(shards, Here(), Checkpoint(None, {}), Budget(), 1)
        self.asked, self.better = [], better

    def _know(self, labels):
        self.asked.append(labels)
        return walk.Known(None, self.better(len(self.asked)), 0.0, 0)


@pytest.mark.parametrize("rises_at", [1, 2, 3, 4, None])
def test_a_smaller_share_of_moves_is_tried_until_inside_rises(rng, rises_at):
    """All of them, a half, a quarter; then those of the first group that wants anything, come what may."""
    problem, n = problem_of(rng, 40), 40
    place = walk.Place(np.arange(n) % 4, np.ones(4, dtype=bool), turn=5)
    proposed = np.where(np.arange(n) < 8, place.labels, (place.labels + 1) % 4)
    groups = [np.arange(8), np.arange(8, 20), np.arange(20, n)]
    told = Sums(problem, lambda asked: 1.0 if asked == rises_at else -1.0)
    before = walk.Known(None, 0.0, 0.0, 0)
    after, known = told._accepted(place, before, proposed, np.zeros(4, dtype=bool), groups)
    moved = [int(np.count_nonzero(labels != place.labels)) for labels in told.asked]
    assert len(moved) == (rises_at or 4)
    assert known.inside == (1.0 if rises_at else -1.0)
    assert moved[0] == 32
    if len(moved) == 4:
        assert moved[0] > moved[1] > moved[2] > 0
        np.testing.assert_array_equal(np.flatnonzero(after.labels != place.labels), groups[1])
    assert after.turn == 6
    assert after.changed.all()


def test_one_group_needs_no_test(rng):
    problem = problem_of(rng, 8)
    place = walk.Place(np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.ones(2, dtype=bool))
    proposed = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    told = Sums(problem, lambda asked: -1.0)
    still = np.array([True, False])
    after, _ = told._accepted(place, walk.Known(None, 0.0, 0.0, 0), proposed, still, [np.arange(8)])
    assert len(told.asked) == 1
    np.testing.assert_array_equal(after.labels, proposed)
    assert after.changed.tolist() == [True, True, True]


def test_who_wants_nothing_changes_nothing(rng):
    problem = problem_of(rng, 8)
    place = walk.Place(np.arange(8) % 2, np.ones(2, dtype=bool), turn=3)
    told = Sums(problem, lambda asked: -1.0)
    known, still = walk.Known(None, 0.0, 0.0, 0), np.array([False, True])
    after, same = told._accepted(place, known, place.labels.copy(), still, [np.arange(8)])
    assert same is known
    assert told.asked == []
    assert (after.changed.tolist(), after.turn) == ([False, True], 4)


def test_clusters_whose_items_were_held_back_are_not_settled(rng):
    """Of two that want to move only one does: the cluster of the other is looked at again."""
    problem = problem_of(rng, 8)
    place = walk.Place(np.arange(8) // 2, np.ones(4, dtype=bool))
    proposed = np.array([1, 0, 1, 1, 3, 2, 3, 3])
    told = Sums(problem, lambda asked: -1.0)
    groups = [np.array([0]), np.array([4])]
    known = walk.Known(None, 0.0, 0.0, 0)
    after, _ = told._accepted(place, known, proposed, np.zeros(4, dtype=bool), groups)
    np.testing.assert_array_equal(after.labels, [1, 0, 1, 1, 2, 2, 3, 3])
    assert after.changed.tolist() == [True, True, True, False]


def test_clusters_that_are_not_settled_are_looked_at_again(monkeypatch, rng):
    problem = problem_of(rng, 12)
    going = walk_of(problem, 4, 1)
    place = walk.Place(np.arange(12) % 3, np.ones(3, dtype=bool))

    def undecided(k, to_the_end, parts, wanting):
        return rounds.Decided(np.concatenate([part.labels for part in wanting]), np.array([1]))

    monkeypatch.setattr(walk, "decide", undecided)
    after, _ = going._round(place, going._know(place.labels))
    assert after.changed.tolist() == [False, True, False]


def test_who_lost_all_listed_clusters_is_not_settled():
    """Four clusters attract it most, but their items leave first; a fifth is not on its list."""
    costs = np.zeros((7, 7))
    costs[0, 1:] = [5, 4, 3, 2, 1, -1000]
    costs[1:5, 6] = 100
    problem = DenseProblem.from_costs(costs + costs.T)
    labels, part = np.arange(7), slice(0, 5)
    totals = totals_of(problem, labels)
    wanting = want(problem.subset(part), labels[part], totals, np.ones(7, dtype=bool), False)
    decided = decide(totals, False, wanting)
    assert decided.labels.tolist() == [0, 6, 6, 6, 6]
    assert 0 in decided.unsettled


def test_who_is_not_sure_looks_at_all_clusters():
    """Sums so long that rounding hides that four clusters repel: the fifth attracts."""
    X = np.zeros((6, 7), dtype=np.float32)
    X[0, 0], X[5, 0] = 1, 0.5
    for at in range(1, 5):
        X[at, 0], X[at, at] = -1, 1e6
    problem, labels = DenseProblem(X, 0.0), np.arange(6)
    totals, part = totals_of(problem, labels), slice(0, 1)
    wanting = want(problem.subset(part), labels[part], totals, np.ones(6, dtype=bool), False)
    assert wanting.lists.ids[0].tolist() == [1, 2, 3, 4]
    assert decide(totals, False, wanting).labels.tolist() == [5]


@pytest.mark.parametrize("to_the_end", [False, True])
def test_more_items_to_be_alone_than_there_are_slots(to_the_end):
    problem, labels = DenseProblem(np.eye(100), 0.5), np.zeros(100, dtype=np.int64)
    totals = totals_of(problem, labels)
    wanting = want(problem, labels, totals, np.ones(1, dtype=bool), True)
    decided = decide(totals, to_the_end, wanting)
    assert 10 < len(set(decided.labels)) < 100
    assert decided.unsettled.tolist() == [0]
    *_, (_, refined, _) = walk_of(problem, 40, 99 if to_the_end else 40).steps(labels)
    assert len(set(refined.labels)) == 100


def test_groups_in_conflict_do_not_make_it_worse(monkeypatch):
    """Two items swap places, each because the other is not there: together they gain nothing."""
    X = np.array([[1.0, 0.0], [0.0, 1.0]] * 6)
    problem = DenseProblem(X, 0.5)
    init = compact(np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]))
    found, refined = insides_of(monkeypatch, problem, 1, 1, init)
    assert any(groups > 1 for *_, groups in found)
    assert all(after >= before for before, after, _ in found)
    assert clusters_of(refined.labels) == {frozenset(range(0, 12, 2)), frozenset(range(1, 12, 2))}


def test_items_of_several_groups_are_alone_each_by_itself(monkeypatch):
    """Items that leave in groups that do not know of each other do not meet in a new cluster."""
    X = np.eye(12)
    problem, proposals, before = DenseProblem(X, 0.5), [], Walk._accepted

    def accepted(self, place, known, proposed, unsettled, groups):
        proposals.append((len(groups), proposed))
        return before(self, place, known, proposed, unsettled, groups)

    monkeypatch.setattr(Walk, "_accepted", accepted)
    *_, (_, refined, _) = walk_of(problem, 3, 3).steps(np.zeros(12, dtype=np.int64))
    groups, proposed = proposals[0]
    assert groups == 4
    assert len(set(proposed)) == 12
    assert refined.labels.max() == 11


# The whole road


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("order", ["random", "sorted", "dealt"])
def test_well_separated_clusters_do_not_depend_on_shards(rng, algorithm, order):
    """Also where a cluster is spread over all shards, one item in each."""
    X, truth = separated(rng, 64, 5)
    if order != "random":
        truth = np.sort(truth) if order == "sorted" else np.arange(64) % 5
        X = np.eye(8)[truth] + 0.01 * rng.normal(size=(64, 8))
    problem = DenseProblem(X, 0.4)
    for items in (8, 9, 16, 31, 32, 63):
        result = dense_multicut(X, 0.4, algorithm=algorithm, memory_limit=limit(items, 8))
        assert [phase.name for phase in result.trace] == ["shards", "refinement"]
        assert clusters_of(result.labels) == clusters_of(truth)
        np.testing.assert_array_equal(result.labels, number_by_first_appearance(truth))
        assert result.objective == pytest.approx(problem.objective(result.labels))
        assert result.inside == pytest.approx(problem.inside(result.labels))
        assert result.trace[-1].move_optimal
        assert result.trace[-1].join_optimal
        assert (result.algorithm, result.n_iter, len(result.merges)) == (algorithm, 0, 0)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 63, 64])
def test_any_number_of_shards(monkeypatch, rng, count):
    monkeypatch.setattr(source, "LEAST", 1)
    X, truth = separated(rng, 64, 4)
    seen = []
    result = dense_multicut(
        X,
        0.4,
        memory_limit=limit(-(-64 // count), 8) - (count == 1),
        callback=lambda phase, done, total: seen.append((phase, done, total)),
    )
    assert clusters_of(result.labels) == clusters_of(truth)
    ends = [done for phase, done, total in seen if phase == "shards"]
    assert len(ends) == (2 if count == 1 else -(-64 // -(-64 // count)))
    assert ends == sorted(ends)
    assert ends[-1] == 64


def test_what_fits_is_solved_at_once(rng):
    X, _ = mixture(rng, 40, 4)
    at_once = dense_multicut(X, 0.3)
    for memory_limit in (None, limit(40, 8), 10**9):
        result = dense_multicut(X, 0.3, memory_limit=memory_limit)
        assert result.trace[0].name == "multilevel"
        np.testing.assert_array_equal(result.labels, at_once.labels)
    assert dense_multicut(X, 0.3, memory_limit=limit(40, 8) - 1).trace[0].name == "shards"
    best = dense_multicut(X, 0.3, algorithm="best", max_iter=1, memory_limit=1)
    assert best.trace[0].name == "multilevel"


def test_how_many_items_at_a_time():
    assert source.most_items(16, None) == source.MOST
    assert source.most_items(16, limit(100, 16)) == 100
    assert source.most_items(16, limit(100, 16) - 1) == 99
    assert source.most_items(16, 1) == 8
    assert source.most_items(16, limit(10**8, 16)) == source.MOST


@pytest.mark.large
@pytest.mark.parametrize("order", ["random", "sorted"])
def test_quality_does_not_depend_on_sharding(rng, order):
    X, truth = mixture(rng, 3000, 40, d=16, noise=1.0)
    if order == "sorted":
        X = X[np.argsort(truth, kind="stable")]
    whole = dense_multicut(X, 0.3, algorithm="fast").inside
    for count in (1, 2, 4, 16, 64):
        memory_limit = limit(-(-3000 // count), 16) - (count == 1)
        found = dense_multicut(X, 0.3, algorithm="fast", memory_limit=memory_limit)
        assert found.trace[-1].move_optimal
        assert found.inside >= 0.99 * whole


@pytest.mark.large
def test_many_items_move_in_groups(rng):
    """From labels that are far off, shard by shard: few at a time decide, and it is as good in the end."""
    X, _ = mixture(rng, 2000, 30, d=16, noise=1.0)
    problem = DenseProblem(X, 0.3)
    whole = dense_multicut(problem, algorithm="fast").inside
    *_, (_, refined, known) = walk_of(problem, 100, 100).steps(compact(rng.integers(0, 300, size=2000)))
    assert refined.move_optimal
    assert known.inside >= 0.97 * whole


WAYS = {
    "alpha": lambda rng: {"alpha": rng.uniform(0.4, 0.7, size=48)},
    "large": lambda rng: {"alpha": 0.2, "prefer": "large"},
    "local": lambda rng: {"threshold": "local"},
    "weights": lambda rng: {"threshold": 0.3, "sample_weight": rng.uniform(0.5, 2, size=48)},
    "zeros": lambda rng: {"threshold": 0.3, "sample_weight": rng.integers(0, 3, size=48).astype(float)},
    "a shard of zeros": lambda rng: {
        "threshold": 0.3,
        "sample_weight": np.where((np.arange(48) >= 12) & (np.arange(48) < 24), 0, 1),
    },
    "one item": lambda rng: {"threshold": 0.3, "sample_weight": (np.arange(48) == 30) * 1.0},
    "negative": lambda rng: {"threshold": -0.2},
    "zero": lambda rng: {"threshold": 0},
    "high": lambda rng: {"threshold": 2.0},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_costs_of_all_kinds(rng, way, dtype):
    X, _ = mixture(rng, 48, 4, noise=0.4)
    X, costs = X.astype(dtype), WAYS[way](rng)
    problem = DenseProblem(X, **costs)
    for algorithm in ("fast", "auto"):
        result = dense_multicut(X, algorithm=algorithm, memory_limit=limit(12, 8), **costs)
        assert result.trace[0].name == "shards"
        assert result.trace[-1].n_clusters == result.n_clusters
        np.testing.assert_array_equal(result.labels, number_by_first_appearance(result.labels))
        assert result.inside == pytest.approx(problem.inside(result.labels), abs=1e-9)
        assert result.objective == pytest.approx(problem.objective(result.labels), abs=1e-9)
        assert result.inside >= 0.85 * dense_multicut(X, algorithm="fast", **costs).inside - 1e-9
        present = np.flatnonzero(problem.rows.weight)
        check_optimal(cost_matrix(problem.subset(present)), compact(result.labels[present]))


def test_items_without_weight_are_labelled_as_at_once(rng):
    X, _ = separated(rng, 48, 4)
    weight = rng.integers(0, 3, size=48) * np.where(np.arange(48) < 36, 1.0, 0.0)
    weight[:12] = 0
    for dtype in (np.float32, np.float64):
        found = dense_multicut(X.astype(dtype), 0.4, sample_weight=weight, memory_limit=limit(12, 8))
        at_once = dense_multicut(X.astype(dtype), 0.4, sample_weight=weight)
        np.testing.assert_array_equal(found.labels, at_once.labels)


def test_all_together_if_that_is_better(rng):
    X = np.abs(rng.normal(size=(40, 8)))
    for options in ({}, {"init": np.arange(40), "time_limit": 0}):
        result = dense_multicut(X, -0.1, memory_limit=limit(10, 8), **options)
        assert result.n_clusters == 1
        assert result.objective == pytest.approx(0, abs=1e-9)


def test_labels_to_start_from_need_no_shards(rng):
    X, truth = mixture(rng, 60, 4)
    problem = DenseProblem(X, 0.3)
    init = np.where(np.arange(60) % 5, truth * 7 - 3, 100)
    result = dense_multicut(X, 0.3, algorithm="fast", init=init, memory_limit=limit(20, 8))
    assert [phase.name for phase in result.trace] == ["refinement"]
    assert result.inside > problem.inside(init)
    again = dense_multicut(X, 0.3, algorithm="fast", init=result.labels, memory_limit=limit(20, 8))
    np.testing.assert_array_equal(again.labels, result.labels)
    with pytest.raises(ValueError, match="one entry per item"):
        dense_multicut(X, 0.3, init=truth[:-1], memory_limit=limit(20, 8))


def test_a_memory_map_is_read_where_it_is(rng, tmp_path):
    X, _ = mixture(rng, 60, 4)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    a = dense_multicut(mapped, 0.3, memory_limit=limit(20, 8))
    b = dense_multicut(X, 0.3, memory_limit=limit(20, 8))
    np.testing.assert_array_equal(a.labels, b.labels)
    assert a.objective == b.objective


def test_two_runs_are_equal(rng):
    X, _ = mixture(rng, 60, 6, noise=1.5)
    a, b = (dense_multicut(X.astype(np.float32), 0.2, memory_limit=limit(9, 8)) for _ in range(2))
    np.testing.assert_array_equal(a.labels, b.labels)
    assert (a.objective, a.inside) == (b.objective, b.inside)


def test_progress_is_told(rng):
    X, _ = mixture(rng, 60, 4)
    seen = []
    dense_multicut(X, 0.3, memory_limit=limit(20, 8), callback=lambda *what: seen.append(what))
    assert seen[:3] == [("shards", done, 60) for done in (20, 40, 60)]
    assert seen[3:6] == [("moves", done, 60) for done in (20, 40, 60)]
    assert {phase for phase, *_ in seen[3:]} == {"moves"}


def test_no_time_is_enough_for_labels(rng):
    X, _ = mixture(rng, 60, 4, noise=1.0)
    for algorithm in ("fast", "auto"):
        for init in (None, np.arange(60) % 3):
            result = dense_multicut(
                X, 0.3, algorithm=algorithm, init=init, time_limit=0, memory_limit=limit(20, 8)
            )
            assert result.labels.shape == (60,)
            assert result.trace[-1].name == "refinement"
            assert not result.trace[-1].move_optimal
            assert not result.trace[-1].join_optimal
            assert result.inside == pytest.approx(DenseProblem(X, 0.3).inside(result.labels))


# What fits in one task


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("way", ["plain", "init", *WAYS])
def test_one_shard_is_solved_as_without_shards(monkeypatch, rng, way, algorithm):
    monkeypatch.setattr(source, "LEAST", 48)
    X, _ = mixture(rng, 48, 6, noise=1.5)
    options = WAYS[way](rng) if way in WAYS else {"threshold": 0.2}
    if way == "init":
        options["init"] = rng.integers(0, 6, size=48) * 7 - 3
    found, at_once = (
        dense_multicut(X, algorithm=algorithm, memory_limit=memory_limit, **options)
        for memory_limit in (limit(47, 8), None)
    )
    assert (found.trace[0].name, at_once.trace[0].name) == ("refinement", "multilevel")
    assert len(found.trace) == 1
    np.testing.assert_array_equal(found.labels, at_once.labels)
    assert found.objective == pytest.approx(at_once.objective, abs=1e-9)
    assert found.inside == pytest.approx(at_once.inside, abs=1e-9)
    assert found.trace[-1].n_clusters == at_once.n_clusters
    assert found.trace[-1].move_optimal
    assert found.trace[-1].join_optimal


def test_auto_polishes_what_fits_in_one_task(monkeypatch):
    """From shards that are pooled: never worse than those, and better than moves and joins alone."""
    polish, polished, gained = strategies.polish, [], 0.0

    def counted(problem, *arguments):
        polished.append(problem.n)
        return polish(problem, *arguments)

    monkeypatch.setattr(strategies, "polish", counted)
    for seed in range(5):
        problem, found = problem_of(np.random.default_rng(seed), 40, noise=3.0), {}
        for algorithm, most, times in (("fast", 40, 0), ("auto", 39, 0), ("auto", 40, 1)):
            polished.clear()
            (first, pooled, before), (name, refined, known) = walk_of(problem, 10, most, algorithm).steps(
                None
            )
            assert (first, name) == ("shards", "refinement")
            assert polished == [40] * times
            assert refined.move_optimal
            assert refined.join_optimal
            check_optimal(cost_matrix(problem), refined.labels)
            assert known.inside == pytest.approx(problem.inside(refined.labels))
            assert known.inside >= before.inside - 1e-9
            found[algorithm, most] = known.inside
            if algorithm == "fast":
                alone = refine(problem, strategies.or_single_cluster(problem, pooled.labels), Budget())
                np.testing.assert_array_equal(refined.labels, alone.labels)
        assert found["auto", 40] >= found["fast", 40] - 1e-9
        gained += found["auto", 40] - found["fast", 40]
    assert gained > 1e-3


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("size", [40, 10])
def test_what_fits_in_one_task_makes_no_rounds(monkeypatch, rng, size, algorithm):
    """One task gets all items, with labels to start from or without, and the time that is left."""
    given, finish = [], tasks.finish

    def seen(algorithm, labels, time_limit, rng, *parts):
        given.append((algorithm, labels, time_limit, sum(part.n for part in parts)))
        return finish(algorithm, labels, time_limit, rng, *parts)

    monkeypatch.setattr(tasks, "finish", seen)
    for name in ("want", "join_clusters"):
        monkeypatch.delattr(tasks, name)
    problem, init = problem_of(rng, 40, noise=2.0), compact(rng.integers(0, 6, size=40))
    for start in (None, init):
        for seconds in (None, 1000.0, 0.0):
            going = walk_of(problem, size, 40, algorithm)
            going.budget = Budget(seconds)
            *shards, (name, refined, known) = going.steps(start)
            assert [phase for phase, *_ in shards] == ["shards"] * (start is None and size < 40)
            labels = shards[0][1].labels if shards else start
            (called,) = given
            given.clear()
            assert called[1] is labels
            assert called[0::3] == (algorithm, 40)
            assert 0 <= called[2] <= (np.inf if seconds is None else seconds)
            assert (called[2] > 900) == (seconds != 0)
            assert refined.move_optimal == refined.join_optimal == (seconds != 0)
            if labels is not None:
                assert known.inside >= problem.inside(labels) - 1e-9


def test_one_item_and_equal_items():
    for X in (np.ones((1, 3)), np.ones((20, 3)), np.zeros((20, 3)), np.eye(20)):
        result = dense_multicut(X, 0.4, memory_limit=1)
        np.testing.assert_array_equal(result.labels, dense_multicut(X, 0.4).labels)


def test_a_problem_brings_its_costs(rng):
    X, _ = mixture(rng, 40, 4)
    signature = np.array([1, 1, 1, 1, 1, 1, -1, -1])
    problem = DenseProblem(X, 0.3, signature=signature)
    result = dense_multicut(problem, memory_limit=limit(10, 8))
    assert result.objective == pytest.approx(problem.objective(result.labels))
    check_optimal(cost_matrix(problem), result.labels)


def test_items_without_weight_know_the_signature():
    """The last item is like the first by its features, and like the second by the signs of them."""
    X = np.array([[1.0, 0.3]] * 6 + [[-1.0, -0.3]] * 6 + [[0.1, 1.0]])
    weight = np.append(np.ones(12), 0)
    problem = DenseProblem(X, 0.4, sample_weight=weight, signature=[1, -1])
    found, at_once = dense_multicut(problem, memory_limit=1), dense_multicut(problem)
    np.testing.assert_array_equal(found.labels, at_once.labels)
    assert found.labels[12] == found.labels[6] != found.labels[0]


def test_a_local_threshold_is_an_alpha(rng):
    X, _ = mixture(rng, 60, 4, noise=0.4)
    result = dense_multicut(X, "local", memory_limit=limit(20, 8))
    assert result.trace[0].name == "shards"
    assert agreement(result.labels, dense_multicut(X, "local").labels) > 0.9


# Memory as text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("600MB", 600_000_000),
        ("2 GiB", 2 * 2**30),
        ("0.5GB", 500_000_000),
        (".5 gb", 500_000_000),
        (" 1kB ", 1000),
        ("3KiB", 3072),
        ("7b", 7),
        ("1tb", 10**12),
        ("1TiB", 2**40),
        ("1.5MiB", 3 * 2**19),
        (600, 600),
    ],
)
def test_memory_as_text(text, number):
    assert memory("memory_limit", text) == number


@pytest.mark.parametrize(
    "text", ["", "600", "MB", "-2GB", "2 XB", "1e3MB", "2GB!", "1,5GB", "GiB2", "1..5GB"]
)
def test_what_is_no_memory_is_one_line(text):
    for solve in (dense_multicut, lower_bound):
        with pytest.raises(ValueError, match="memory_limit must be bytes, or a text such as") as error:
            solve(np.eye(3), memory_limit=text)
        assert str(error.value).count("\n") == 0
        assert repr(text) in str(error.value)


def test_no_memory_at_all():
    for value in ("0MB", "0.1B", 0, -5):
        with pytest.raises(ValueError, match="memory_limit must be at least 1"):
            dense_multicut(np.eye(3), memory_limit=value)
    for value in (1.5, True, [1]):
        with pytest.raises(TypeError, match="memory_limit must be a whole number"):
            dense_multicut(np.eye(3), memory_limit=value)


def test_memory_as_text_is_memory_as_a_number(rng):
    X, _ = mixture(rng, 60, 4)
    a = dense_multicut(X, 0.3, memory_limit="9441B")
    b = dense_multicut(X, 0.3, memory_limit=9441)
    assert a.trace[0].name == b.trace[0].name == "shards"
    np.testing.assert_array_equal(a.labels, b.labels)
    assert lower_bound(X, 0.3, memory_limit="1MB").value == lower_bound(X, 0.3, memory_limit=10**6).value
    with pytest.raises(MemoryError, match="memory_limit"):
        dense_multicut(X, 0.3, algorithm="gaec", memory_limit="1kB")


def test_too_much_memory():
    with pytest.raises(ValueError, match="memory_limit"):
        memory("memory_limit", "9" * 400 + "GB")


def test_the_seed_of_what_is_finished_in_one_task_counts(rng, tmp_path):
    X = mixture(rng, 60, 20, noise=2.0)[0]
    for seed in range(4):
        with_checkpoint = dense_multicut(X, 0.1, random_state=seed, checkpoint=tmp_path / f"{seed}")
        np.testing.assert_array_equal(
            with_checkpoint.labels, dense_multicut(X, 0.1, random_state=seed).labels
        )
    with pytest.raises(ValueError, match="other seed"):
        dense_multicut(X, 0.1, random_state=0, checkpoint=tmp_path / "3")


def test_outsiders_count_when_items_decide_together(monkeypatch, rng):
    """Few items are in clusters that changed, but they attract more than a task may have."""
    problem = problem_of(rng, 60, noise=2.0)
    going = walk_of(problem, 10, 12, "fast")
    sizes = []

    def seen(k, to_the_end, parts, wanting):
        sizes.append(sum(len(part.items) for part in wanting))
        return rounds.decide(k, to_the_end, parts, wanting)

    monkeypatch.setattr(walk, "decide", seen)
    labels = np.arange(60) % 30
    changed = np.zeros(30, dtype=np.bool_)
    changed[:4] = True
    known = going._know(labels)
    place, after = going._round(Place(labels, changed), known)
    assert sum(sizes) > 12
    assert max(sizes) <= 12
    assert after.inside > known.inside
    assert len(place.changed) == place.labels.max() + 1
