"""Moves of items in many shards: candidates of a shard, and decisions on the candidates of several."""

import numpy as np
import pytest
from makers import mixture, noisy_problem, pair_costs

from clusterfug import DenseProblem
from clusterfug.execution import threads
from clusterfug.execution.sharded.moves import ShardScores, decide_moves, score_block, select_candidates
from clusterfug.execution.sharded.totals import cluster_totals
from clusterfug.result import compact


def candidates_of(problem, labels, totals, changed, all_in_changed, block=99, exact=False):
    """Candidates for moves, scored against blocks of that many clusters."""
    scores = ShardScores(labels, changed[labels])
    for part in threads.slices(len(changed), block):
        some = totals.block(part.start, part.stop)
        scores = score_block(problem, exact, scores, some, changed[part])
    return select_candidates(problem, scores, all_in_changed)


def decide(totals, until_optimal, *candidates):
    return decide_moves(len(totals.ids), until_optimal, [totals], list(candidates))


def partly_mislabelled(rng, dtype=np.float64):
    """A problem, labels of five clusters that are wrong for a few items, and costs of items to clusters."""
    X, truth = mixture(rng, 40, 5, d=6, noise=0.8)
    problem = DenseProblem(X.astype(dtype), 0.25)
    labels = np.where(np.arange(40) % 4, truth, rng.integers(0, 5, size=40))
    return problem, labels, pair_costs(problem) @ np.eye(5)[labels]


def hidden_attraction():
    """A problem with sums so long that float32 hides that item 0 attracts only the last of six items."""
    X = np.zeros((6, 7), dtype=np.float32)
    X[0, 0], X[5, 0] = 1, 0.5
    for at in range(1, 5):
        X[at, 0], X[at, at] = -1, 1e6
    problem, labels = DenseProblem(X, 0.0), np.arange(6)
    return problem, labels, cluster_totals(problem, labels), np.ones(6, dtype=bool)


# Candidates


def test_candidates_are_the_items_that_gain(rng):
    problem, labels, to = partly_mislabelled(rng)
    totals = cluster_totals(problem, labels)
    stay = to[np.arange(40), labels]
    gains = np.maximum(to.max(axis=1), 0) > stay + 1e-9
    everything = np.ones(5, dtype=bool)
    assert 0 < gains.sum() < 40
    for part in (slice(0, 40), slice(0, 13), slice(13, 40)):
        shard = problem.subset(part)
        found = candidates_of(shard, labels[part], totals, everything, False)
        np.testing.assert_array_equal(found.items, np.flatnonzero(gains[part]))
        np.testing.assert_array_equal(found.labels, labels[part][found.items])
        np.testing.assert_array_equal(found.problem.rows.features, shard.rows.features[found.items])
        np.testing.assert_allclose(found.lists.stay, stay[part][found.items])
        found = candidates_of(shard, labels[part], totals, everything, True)
        np.testing.assert_array_equal(found.items, np.arange(shard.n))
        found = candidates_of(shard, labels[part], totals, ~everything, True)
        assert found.items.tolist() == np.flatnonzero(stay[part] < -1e-9).tolist()


def test_only_changed_clusters_are_scored(rng):
    problem, labels, to = partly_mislabelled(rng)
    totals = cluster_totals(problem, labels)
    stay = to[np.arange(40), labels]
    for c in range(5):
        found = candidates_of(problem, labels, totals, np.arange(5) == c, False)
        best = np.maximum(np.where(labels == c, to.max(axis=1), to[:, c]), 0)
        assert found.items.tolist() == np.flatnonzero(best > stay + 1e-9).tolist()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_candidates_do_not_depend_on_blocks_of_clusters(rng, block, exact):
    problem, labels, _ = partly_mislabelled(rng)
    totals = cluster_totals(problem, labels)
    for changed in (np.ones(5, dtype=bool), np.arange(5) == 2):
        whole = candidates_of(problem, labels, totals, changed, False, exact=exact)
        found = candidates_of(problem, labels, totals, changed, False, block, exact)
        assert len(whole.items)
        np.testing.assert_array_equal(found.items, whole.items)
        np.testing.assert_array_equal(found.labels, whole.labels)
        np.testing.assert_array_equal(found.lists.length, whole.lists.length)
        np.testing.assert_allclose(found.lists.stay, whole.lists.stay)
        np.testing.assert_allclose(found.lists.bar, whole.lists.bar)
        listed = np.arange(4) < whole.lists.length[:, None]
        np.testing.assert_array_equal(found.lists.ids[listed], whole.lists.ids[listed])
        np.testing.assert_allclose(found.lists.costs[listed], whole.lists.costs[listed])
        assert set(found.clusters()) == {*whole.labels.tolist(), *whole.lists.ids[listed].tolist()}


def test_scoring_a_block_does_not_change_earlier_scores(rng):
    problem, labels, _ = partly_mislabelled(rng)
    totals, changed = cluster_totals(problem, labels), np.ones(5, dtype=bool)
    scores = ShardScores(labels, changed[labels])
    first = score_block(problem, False, scores, totals.block(0, 3), changed[:3])
    copies = [array.copy() for array in (*first.scored[0], first.scored[1])]
    select_candidates(problem, score_block(problem, False, first, totals.block(3, 5), changed[3:]), False)
    for array, copy in zip((*first.scored[0], first.scored[1]), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_exact_scores_are_costs(rng):
    problem, labels, to = partly_mislabelled(rng, np.float32)
    totals, changed = cluster_totals(problem, labels), np.ones(5, dtype=bool)
    for exact, tolerance in ((True, 1e-12), (False, 1e-4)):
        lists = candidates_of(problem, labels, totals, changed, True, exact=exact).lists
        expected = np.take_along_axis(to, lists.ids, axis=1)
        assert (lists.length == 4).all()
        np.testing.assert_allclose(lists.costs, expected, atol=tolerance)
        assert exact or (lists.costs > expected + 1e-9).all()  # upper bounds


@pytest.mark.parametrize("exact", [False, True])
def test_items_outside_changed_clusters_list_only_those(rng, exact):
    """Their cost to any other cluster is bounded by that to their own."""
    problem, labels, to = partly_mislabelled(rng, np.float32)
    totals, outside = cluster_totals(problem, labels), 0
    for c in range(5):
        found = candidates_of(problem, labels, totals, np.arange(5) == c, False, exact=exact)
        for at, item in enumerate(found.items):
            if labels[item] != c:
                outside += 1
                assert found.lists.ids[at, : found.lists.length[at]].tolist() == [c]
                assert found.lists.bar[at] == found.lists.stay[at]
                assert (abs(found.lists.costs[at, 0] - to[item, c]) < 1e-12) == exact
    assert outside > 0


# Decisions


def assert_move_optimal(problem, labels, items):
    to = (pair_costs(problem) @ np.eye(labels.max() + 1)[labels])[items]
    stay = to[np.arange(len(to)), labels[items]]
    assert np.all(np.maximum(to.max(axis=1), 0) <= stay + 1e-9)


@pytest.mark.parametrize("until_optimal", [False, True])
def test_candidates_of_several_shards_move_together(rng, until_optimal):
    problem = noisy_problem(rng, 40, noise=2.0)
    labels = compact(rng.integers(0, 5, size=40))
    totals, changed = cluster_totals(problem, labels), np.ones(5, dtype=bool)
    parts = [slice(0, 10), slice(10, 24), slice(24, 40)]
    candidates = [
        candidates_of(problem.subset(part), labels[part], totals, changed, until_optimal) for part in parts
    ]
    decided = decide(totals, until_optimal, *candidates)
    after = labels.copy()
    items = [part.start + found.items for part, found in zip(parts, candidates, strict=True)]
    after[np.concatenate(items)] = decided.labels
    assert problem.inside(after) > problem.inside(labels)
    if until_optimal:
        assert not len(decided.unsettled)
        assert_move_optimal(problem, after, slice(0, 40))


def test_items_elsewhere_stay_in_the_sums(rng):
    """The sums of clusters with items of other shards are recomputed after moves."""
    problem = noisy_problem(rng, 60, noise=2.0)
    labels = compact(rng.integers(0, 5, size=60))
    totals = cluster_totals(problem, labels)
    few = slice(0, 15)
    candidates = candidates_of(problem.subset(few), labels[few], totals, np.ones(5, dtype=bool), True)
    decided = decide(totals, True, candidates)
    after = np.concatenate([decided.labels, labels[15:]])
    assert problem.inside(after) > problem.inside(labels)
    assert_move_optimal(problem, after, few)


def test_an_item_whose_listed_clusters_are_gone_is_not_settled():
    """Four clusters attract it most, but their items leave first; a fifth is not on its list."""
    costs = np.zeros((7, 7))
    costs[0, 1:] = [5, 4, 3, 2, 1, -1000]
    costs[1:5, 6] = 100
    problem = DenseProblem.from_costs(costs + costs.T)
    labels, part = np.arange(7), slice(0, 5)
    totals = cluster_totals(problem, labels)
    candidates = candidates_of(problem.subset(part), labels[part], totals, np.ones(7, dtype=bool), False)
    decided = decide(totals, False, candidates)
    assert decided.labels.tolist() == [0, 6, 6, 6, 6]
    assert 0 in decided.unsettled


def test_an_unclear_item_is_scored_against_all_clusters():
    """Rounding hides that four clusters repel: the fifth attracts."""
    problem, labels, totals, changed = hidden_attraction()
    part = slice(0, 1)
    candidates = candidates_of(problem.subset(part), labels[part], totals, changed, False)
    assert candidates.lists.ids[0].tolist() == [1, 2, 3, 4]
    assert decide(totals, False, candidates).labels.tolist() == [5]


@pytest.mark.parametrize("until_optimal", [False, True])
def test_an_unclear_item_is_not_settled_if_clusters_are_missing(until_optimal):
    """Without the totals of the fifth cluster bounds do not decide; exact scores put it on the list."""
    problem, labels, totals, changed = hidden_attraction()
    part = slice(0, 1)
    for exact, clusters, label, unsettled in ((False, [0, 1, 2, 3, 4], 0, [0]), (True, None, 5, None)):
        candidates = candidates_of(problem.subset(part), labels[part], totals, changed, False, exact=exact)
        assert clusters is None or candidates.clusters().tolist() == clusters
        assert not exact or candidates.lists.ids[0, 0] == 5
        known = totals.select(candidates.clusters())
        decided = decide_moves(6, until_optimal, [known], [candidates])
        assert decided.labels.tolist() == [label]
        assert unsettled is None or decided.unsettled.tolist() == unsettled


@pytest.mark.parametrize("until_optimal", [False, True])
def test_candidates_need_only_the_totals_of_their_lists(rng, until_optimal):
    problem = noisy_problem(rng, 60, clusters=12, noise=1.0)
    labels = rng.permutation(np.arange(60) % 12)
    totals, changed = cluster_totals(problem, labels), np.ones(12, dtype=bool)
    few = slice(0, 2)
    candidates = candidates_of(problem.subset(few), labels[few], totals, changed, False)
    ids = candidates.clusters()
    assert len(candidates.items)
    assert len(ids) < 12
    candidates.lists.bar[:] = -np.inf  # no other cluster attracts
    whole = decide(totals, until_optimal, candidates)
    parts = [totals.select(ids[:2]), totals.select(ids[2:])]
    some = decide_moves(12, until_optimal, parts, [candidates])
    assert some.labels.tolist() == whole.labels.tolist()
    assert some.labels.tolist() != candidates.labels.tolist()
    assert set(some.unsettled) == set(whole.unsettled) == set()


@pytest.mark.parametrize("until_optimal", [False, True])
def test_a_new_singleton_has_a_new_number(until_optimal):
    problem, labels = DenseProblem(np.eye(6), 0.5), np.array([0, 0, 1, 1, 2, 2])
    totals = cluster_totals(problem, labels)
    part = slice(4, 6)
    candidates = candidates_of(problem.subset(part), labels[part], totals, np.ones(3, dtype=bool), False)
    decided = decide_moves(3, until_optimal, [totals.select(candidates.labels)], [candidates])
    assert sorted(decided.labels) == [2, 3]


@pytest.mark.parametrize("until_optimal", [False, True])
def test_a_cluster_is_not_settled_when_slots_for_singletons_run_out(until_optimal):
    problem, labels = DenseProblem(np.eye(100), 0.5), np.zeros(100, dtype=np.int64)
    totals = cluster_totals(problem, labels)
    candidates = candidates_of(problem, labels, totals, np.ones(1, dtype=bool), True)
    decided = decide(totals, until_optimal, candidates)
    assert 10 < len(set(decided.labels)) < 100
    assert decided.unsettled.tolist() == [0]
