"""More clusters than one task may have: partners of nodes, groups, moves by blocks, values on disk."""

import gc
import os
import resource
import tempfile

import numpy as np
import pytest
from makers import clusters_of, limit, mixture, separated
from test_shards import check_optimal, cost_matrix, disturbed, problem_of, walk_of, want

from clusterfug import DenseProblem, dense_multicut
from clusterfug.execution import threads
from clusterfug.execution.sharded import engine, rounds, source, tasks
from clusterfug.execution.sharded import gather as gathering
from clusterfug.execution.sharded.checkpoint import Checkpoint
from clusterfug.execution.sharded.engine import Errands, Here
from clusterfug.execution.sharded.gather import Nodes, best, gather, grouped, partners
from clusterfug.execution.sharded.spill import spilled
from clusterfug.execution.sharded.totals import add_worths, totals_of
from clusterfug.execution.sharded.walk import Pool
from clusterfug.neighbours.exact import Neighbours
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import refine


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(source, "LEAST", 8)


# Sums


def test_what_blocks_are_worth_adds_up(rng):
    labels = np.sort(rng.integers(0, 5, size=30))
    problem = problem_of(rng, sample_weight=np.where(labels == 3, 0.0, 2.0))
    totals = totals_of(problem, labels)
    worth = add_worths([totals.stretch(start, start + 2).worth for start in (0, 2, 4)])
    assert worth.inside == pytest.approx(problem.inside(labels))
    assert worth.all_pairs == pytest.approx(problem.all_singletons)
    assert worth.weightless == np.count_nonzero(labels == 3) > 0


# Partners


@pytest.mark.parametrize("size", [1, 4, 7, 30])
@pytest.mark.parametrize("costs", [{}, {"threshold": -0.3}, {"signature": [1, 1, -1, 1, 1, -1]}])
def test_partners_are_those_that_attract_most(rng, size, costs):
    problem = problem_of(rng, noise=2.0, **costs)
    nodes = [Nodes(problem.subset(part), part.stop - part.start) for part in threads.slices(30, size)]
    matrix = cost_matrix(problem)
    np.fill_diagonal(matrix, -np.inf)
    found = [Here().value(part) for part in gathering._partners(Here(), nodes)]
    ids, best = np.vstack([part.ids for part in found]), np.vstack([part.costs for part in found])
    expected = np.sort(matrix, axis=1)[:, ::-1][:, : 1 if size in (4, 7) else 4]  # the last block is small
    expected = np.where(expected > 0, expected, -np.inf)
    np.testing.assert_allclose(best[:, : expected.shape[1]], expected, atol=1e-9)
    attracted = best > -np.inf
    assert attracted.any()
    np.testing.assert_allclose(np.take_along_axis(matrix, ids, axis=1)[attracted], best[attracted])


def test_what_is_no_more_than_rounding_does_not_attract():
    X = np.array([[1e8, 1.0], [-1.0, 1e8]])  # they cost 0, up to rounding
    X[1, 1] += 1e-8
    problem = DenseProblem(X, 0.0)
    (found,) = partners(problem)
    assert (found.costs == -np.inf).all()


def test_the_best_of_what_is_known_and_what_is_new():
    known = Neighbours(np.array([[3, 1, 0, 0]]), np.array([[5.0, 2.0, -np.inf, -np.inf]]))
    found = (None, Neighbours(np.array([[0, 1, 2, 3]]), np.array([[5.0, 4.0, 3.0, 1.0]])))
    ids, costs = best(known, found, 1, 10)
    assert ids.tolist() == [[3, 10, 11, 12]]
    assert costs.tolist() == [[5.0, 5.0, 4.0, 3.0]]


# Groups


def edges(n, *pairs):
    """Lists of partners with these attractions."""
    ids, costs = np.zeros((n, 4), dtype=np.int64), np.full((n, 4), -np.inf)
    for i, j, cost in pairs:
        at = np.count_nonzero(costs[i] > -np.inf)
        ids[i, at], costs[i, at] = j, cost
    return Neighbours(ids, costs)


def groups_of(found, most):
    return [group.tolist() for group in grouped(found, most)]


def test_who_attracts_each_other_is_in_one_group():
    found = edges(8, (0, 5, 1.0), (5, 0, 1.0), (2, 6, 3.0), (6, 2, 3.0), (6, 7, 2.0))
    assert groups_of(found, 8) == [[0, 2, 5, 6, 7]]
    assert groups_of(found, 4) == [[0, 5], [2, 6, 7]]
    assert groups_of(edges(5), 4) == []


def test_groups_are_packed_as_full_as_they_may_be():
    pairs = [(at, at + 1, 1.0) for at in range(0, 12, 2)]
    assert groups_of(edges(12, *pairs), 4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert groups_of(edges(12, *pairs), 5) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert groups_of(edges(12, *pairs), 6) == [list(range(6)), list(range(6, 12))]


def test_strong_attractions_come_first_and_nobody_with_a_partner_is_left_out():
    chain = edges(4, (0, 1, 1.0), (1, 2, 9.0), (2, 3, 2.0))
    assert groups_of(chain, 2) == [[0], [1, 2], [3]]
    assert groups_of(chain, 1) == [[0], [1, 2], [3]]
    assert groups_of(chain, 3) == [[0], [1, 2, 3]]
    assert groups_of(chain, 4) == [[0, 1, 2, 3]]


@pytest.mark.parametrize("most", [2, 3, 5, 9, 40])
def test_groups_are_not_too_large(rng, most):
    nodes = rng.permutation(40)
    few = [
        (i, j, cost) for i, j, cost in zip(nodes, np.roll(nodes, 1), rng.random(40), strict=True) if i % 5
    ]
    groups = groups_of(edges(40, *few), most)
    assert max(map(len, groups)) <= most
    assert sorted(node for group in groups for node in group) == sorted(
        {end for i, j, _ in few for end in (i, j)}
    )
    strongest = max(few, key=lambda edge: edge[2])
    assert any({strongest[0], strongest[1]} <= set(group) for group in groups)


# Joins


def gathered(problem, size, most):
    nodes = [
        Nodes(problem.subset(part), part.stop - part.start) for part in threads.slices(problem.n, size)
    ]
    return Errands(Here()).start(gather(Here(), nodes, most))()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("size", "most"), [(1, 1), (4, 8), (7, 3), (30, 30), (16, 16)])
def test_no_two_clusters_of_gathered_nodes_gain_by_joining(seed, size, most):
    rng = np.random.default_rng(seed)
    problem = problem_of(rng, clusters=8, noise=1.5, dtype=[np.float32, np.float64][seed % 2])
    labels = gathered(problem, size, most)
    assert sorted(set(labels)) == list(range(labels.max() + 1))
    members = np.eye(labels.max() + 1)[labels]
    between = members.T @ cost_matrix(problem) @ members
    np.fill_diagonal(between, 0)
    assert between.max() <= 1e-9
    assert problem.inside(labels) > 0


def test_blocks_of_one_kin_are_not_searched_again(monkeypatch, rng):
    """Two problems were solved: only pairs between them are new."""
    X, _ = mixture(rng, 40, 6)
    problem = DenseProblem(X, 0.3)
    halves = [problem.subset(part) for part in (slice(0, 20), slice(20, 40))]
    halves = [half.contract(refine(half, np.arange(20), Budget()).labels) for half in halves]
    sizes, searched = [], gathering.partners

    def seen(*blocks):
        sizes.append([block.n for block in blocks])
        return searched(*blocks)

    monkeypatch.setattr(gathering, "partners", seen)
    found = []
    for kins in ((None, None), (0, 1)):
        sizes.clear()
        nodes = [
            Nodes(half.subset(part), part.stop - part.start, kin)
            for half, kin in zip(halves, kins, strict=True)
            for part in threads.slices(half.n, -(-half.n // 2))
        ]
        found.append((Errands(Here()).start(gather(Here(), nodes, 40))(), len(sizes)))
    (all_pairs, many), (new_pairs, few) = found
    np.testing.assert_array_equal(all_pairs, new_pairs)
    assert (many, few) == (10, 4)
    lone = Nodes(halves[0], halves[0].n, 0)
    assert Errands(Here()).start(gather(Here(), [lone], 40))().tolist() == list(range(lone.size))


def test_nodes_that_attract_nobody_stay_as_they_are():
    X = np.eye(12)
    assert gathered(DenseProblem(X, 0.5), 5, 5).tolist() == list(range(12))
    assert gathered(DenseProblem(X, 0.0), 5, 5).tolist() == list(range(12))  # all pairs cost 0
    assert gathered(DenseProblem(X[np.arange(12) % 4], 0.5), 5, 5).tolist() == [0, 1, 2, 3] * 3


def test_gathering_finds_what_is_well_separated_whatever_the_blocks(rng):
    X, truth = separated(rng, 40, 6)
    for size, most in ((1, 2), (3, 3), (10, 5), (10, 40)):
        assert clusters_of(gathered(DenseProblem(X, 0.4), size, most)) == clusters_of(truth)


def test_it_ends_where_solving_does_not_join(monkeypatch, rng):
    """What attracts by hardly more than rounding may be none for the solver."""
    monkeypatch.setattr(tasks, "join", lambda known, *parts: (np.arange(parts[0].n), parts[0]))
    problem = problem_of(rng, 12)
    assert gathered(problem, 12, 12).tolist() == list(range(12))


# Moves


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_scores_do_not_depend_on_blocks(rng, most, exact):
    problem, labels = disturbed(rng)
    totals = totals_of(problem, labels)
    for changed in (np.ones(5, dtype=bool), np.arange(5) == 2):
        whole = want(problem, labels, totals, changed, False, exact=exact)
        found = want(problem, labels, totals, changed, False, most, exact)
        assert len(whole.items)
        np.testing.assert_array_equal(found.items, whole.items)
        np.testing.assert_array_equal(found.labels, whole.labels)
        np.testing.assert_array_equal(found.lists.length, whole.lists.length)
        np.testing.assert_allclose(found.lists.stay, whole.lists.stay)
        np.testing.assert_allclose(found.lists.bar, whole.lists.bar)
        here = np.arange(4) < whole.lists.length[:, None]
        np.testing.assert_array_equal(found.lists.ids[here], whole.lists.ids[here])
        np.testing.assert_allclose(found.lists.costs[here], whole.lists.costs[here])
        assert set(found.clusters) == {*whole.labels.tolist(), *whole.lists.ids[here].tolist()}


def test_a_block_does_not_change_what_it_was_given(rng):
    problem, labels = disturbed(rng)
    totals, changed = totals_of(problem, labels), np.ones(5, dtype=bool)
    first = rounds.score(
        problem, False, rounds.Scores(labels, changed[labels]), totals.stretch(0, 3), changed[:3]
    )
    kept = [array.copy() for array in (*first.found[0], first.found[1])]
    rounds.want(problem, rounds.score(problem, False, first, totals.stretch(3, 5), changed[3:]), False)
    for array, before in zip((*first.found[0], first.found[1]), kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_exact_scores_are_costs(rng):
    problem, labels = disturbed(rng)
    problem = DenseProblem(problem.rows.features.astype(np.float32), 0.25)
    totals, changed = totals_of(problem, labels), np.ones(5, dtype=bool)
    to = cost_matrix(problem) @ np.eye(5)[labels]
    for exact, tolerance in ((True, 1e-12), (False, 1e-4)):
        found = want(problem, labels, totals, changed, True, exact=exact)
        lists = found.lists
        expected = np.take_along_axis(to, lists.ids, axis=1)
        assert (lists.length == 4).all()
        np.testing.assert_allclose(lists.costs, expected, atol=tolerance)
        assert exact or (lists.costs > expected + 1e-9).all()  # upper bounds


@pytest.mark.parametrize("exact", [False, True])
def test_outsiders_know_the_clusters_that_changed_and_a_bar_for_all_others(rng, exact):
    """No cluster that did not change attracts more than their own."""
    problem, labels = disturbed(rng)
    problem = DenseProblem(problem.rows.features.astype(np.float32), 0.25)
    totals, outsiders = totals_of(problem, labels), 0
    to = cost_matrix(problem) @ np.eye(5)[labels]
    for c in range(5):
        found = want(problem, labels, totals, np.arange(5) == c, False, exact=exact)
        for at, item in enumerate(found.items):
            if labels[item] != c:
                outsiders += 1
                assert found.lists.ids[at, : found.lists.length[at]].tolist() == [c]
                assert found.lists.bar[at] == found.lists.stay[at]
                assert (abs(found.lists.costs[at, 0] - to[item, c]) < 1e-12) == exact
    assert outsiders > 0


@pytest.mark.parametrize("to_the_end", [False, True])
def test_items_need_the_clusters_of_their_lists_only(rng, to_the_end):
    problem = problem_of(rng, 60, clusters=12, noise=1.0)
    labels = rng.permutation(np.arange(60) % 12)
    totals, changed = totals_of(problem, labels), np.ones(12, dtype=bool)
    few = slice(0, 2)
    wanting = want(problem.subset(few), labels[few], totals, changed, False)
    assert len(wanting.items)
    assert len(wanting.clusters) < 12
    wanting.lists.bar[:] = -np.inf  # nobody asks for more
    whole = rounds.decide(12, to_the_end, [totals], [wanting])
    ids = wanting.clusters
    parts = [totals.of(ids[:2]), totals.of(ids[2:])]
    some = rounds.decide(12, to_the_end, parts, [wanting])
    assert some.labels.tolist() == whole.labels.tolist()
    assert some.labels.tolist() != wanting.labels.tolist()
    assert set(some.unsettled) == set(whole.unsettled) == set()


@pytest.mark.parametrize("to_the_end", [False, True])
def test_whoever_goes_to_be_alone_gets_a_new_number(to_the_end):
    problem, labels = DenseProblem(np.eye(6), 0.5), np.array([0, 0, 1, 1, 2, 2])
    totals = totals_of(problem, labels)
    wanting = want(problem.subset(slice(4, 6)), labels[4:], totals, np.ones(3, dtype=bool), False)
    decided = rounds.decide(3, to_the_end, [totals.of(wanting.labels)], [wanting])
    assert sorted(decided.labels) == [2, 3]


@pytest.mark.parametrize("to_the_end", [False, True])
def test_who_is_not_sure_about_hidden_clusters_is_not_settled(to_the_end):
    """As in test_shards, but that the fifth cluster, which attracts, is not there: bounds say nothing."""
    X = np.zeros((6, 7), dtype=np.float32)
    X[0, 0], X[5, 0] = 1, 0.5
    for at in range(1, 5):
        X[at, 0], X[at, at] = -1, 1e6
    problem, labels = DenseProblem(X, 0.0), np.arange(6)
    totals, changed = totals_of(problem, labels), np.ones(6, dtype=bool)
    wanting = want(problem.subset(slice(0, 1)), labels[:1], totals, changed, False)
    assert wanting.clusters.tolist() == [0, 1, 2, 3, 4]
    decided = rounds.decide(6, to_the_end, [totals.of(wanting.clusters)], [wanting])
    assert decided.labels.tolist() == [0]
    assert decided.unsettled.tolist() == [0]
    wanting = want(problem.subset(slice(0, 1)), labels[:1], totals, changed, False, exact=True)
    assert wanting.lists.ids[0, 0] == 5
    assert rounds.decide(6, to_the_end, [totals.of(wanting.clusters)], [wanting]).labels.tolist() == [5]


# The whole road


def blurred():
    """Sums so long that float32 hides that of 12 items only the first and the last attract each other."""
    X = np.zeros((12, 14), dtype=np.float32)
    X[0, 0], X[11, 0] = 2, 2
    for at in range(1, 11):
        X[at, 0], X[at, at] = -1, 1e6
    return DenseProblem(X, 2.0)


def test_bounds_that_are_not_enough_end_with_exact_scores(monkeypatch):
    problem, used, score = blurred(), [], rounds.score
    monkeypatch.setattr(
        rounds, "score", lambda problem, exact, *rest: used.append(exact) or score(problem, exact, *rest)
    )
    *_, (_, refined, _) = walk_of(problem, 3, 3).steps(np.arange(12))
    assert refined.move_optimal
    assert refined.join_optimal
    assert clusters_of(refined.labels) == {frozenset({0, 11}), *(frozenset({at}) for at in range(1, 11))}
    assert True in used


def test_a_checkpoint_knows_that_exact_scores_are_needed(tmp_path):
    """Stopped after any round, a walk goes on as if it had not been."""

    class StopError(Exception):
        pass

    class Stopping(Checkpoint):
        def keep(self, place):
            super().keep(place)
            kept.append(place)
            if len(kept) == stop:
                raise StopError

    def walked(folder):
        with Stopping(folder, {}) as checkpoint:
            going = walk_of(blurred(), 3, 3)
            going.checkpoint = checkpoint
            *_, (_, refined, _) = going.steps(np.arange(12))
        return refined

    kept, stop = [], 0
    whole = walked(tmp_path / "whole")
    undisturbed = list(kept)
    assert any(place.exact for place in undisturbed)
    for stop in range(1, len(undisturbed)):
        kept = []
        with pytest.raises(StopError):
            walked(tmp_path / str(stop))
        np.testing.assert_array_equal(walked(tmp_path / str(stop)).labels, whole.labels)
        for place, expected in zip(kept, undisturbed, strict=True):
            assert (place.turn, place.exact) == (expected.turn, expected.exact)


@pytest.mark.parametrize("most", [2, 3, 8])
def test_ties_end(most):
    """All pairs of different kinds cost exactly 0: nobody is sure, and nobody gains."""
    X = np.eye(10, dtype=np.float32)[np.arange(30) % 10]
    *_, (_, refined, _) = walk_of(DenseProblem(X, 0.0), 5, most).steps(None)
    assert refined.move_optimal
    check_optimal(cost_matrix(DenseProblem(X, 0.0)), refined.labels)


def test_no_task_has_more_clusters_than_it_may(monkeypatch, rng):
    """Nodes, sums and groups: twice as many as a shard has items, at most; but where items decide."""
    most, seen = 10, []
    X, _ = mixture(rng, 120, 60, noise=0.3)

    def watched(function, *arguments):
        value = function(*arguments)
        things = [*arguments, *value] if isinstance(value, tuple) else [*arguments, value]
        for thing in things:
            sums = getattr(thing, "sums", None)
            if isinstance(thing, DenseProblem):
                seen.append(thing.n)
            elif sums is not None and not callable(sums):
                seen.append(len(sums))
        return value

    monkeypatch.setattr(Here, "submit", lambda self, *arguments: watched(*arguments))
    problem = DenseProblem(X, 0.7)
    *_, (_, refined, _) = walk_of(problem, most, most).steps(None)
    assert refined.labels.max() + 1 > 3 * most
    assert refined.join_optimal
    assert max(seen) <= 2 * most
    check_optimal(cost_matrix(problem), refined.labels)


@pytest.mark.parametrize("kind", ["weights", "alpha", "float32"])
def test_many_clusters_with_costs_of_all_kinds(rng, kind):
    X, _ = mixture(rng, 90, 40, noise=0.4)
    costs = {"threshold": 0.6}
    if kind == "weights":
        costs["sample_weight"] = rng.integers(0, 3, size=90).astype(float)
    elif kind == "alpha":
        costs = {"alpha": rng.uniform(0.6, 0.9, size=90)}
    else:
        X = X.astype(np.float32)
    result = dense_multicut(X, memory_limit=limit(8, 8), algorithm="fast", **costs)
    whole = dense_multicut(X, algorithm="fast", **costs)
    assert result.n_clusters > 16
    assert result.trace[-1].join_optimal
    assert result.inside >= 0.95 * whole.inside
    assert DenseProblem(X, **costs).inside(result.labels) == pytest.approx(result.inside)


def test_items_without_weight_find_the_most_similar_of_many_clusters(rng):
    X, truth = np.eye(24)[np.arange(96) % 24] + 0.02 * rng.normal(size=(96, 24)), np.arange(96) % 24
    weight = np.ones(96)
    weight[::7] = 0
    result = dense_multicut(X, 0.4, sample_weight=weight, memory_limit=limit(8, 24))
    assert result.n_clusters == 24
    assert clusters_of(result.labels) == clusters_of(truth)


# On disk


def test_values_on_disk_are_the_same(rng):
    problem = DenseProblem(rng.normal(size=(70_000, 2)), 0.3)
    labels = rng.integers(0, 9, size=70_000)
    value = (labels, problem, {"more": labels[:3]}, None)
    found = spilled(value)
    np.testing.assert_array_equal(found[0], labels)
    np.testing.assert_array_equal(found[1].rows.features, problem.rows.features)
    assert found[1].inside(found[0]) == problem.inside(labels)
    assert found[2]["more"].tolist() == labels[:3].tolist()
    assert found[3] is None
    found[0][:] = 7  # a copy of those pages
    assert labels.max() == 8
    for array in (found[0], found[1].rows.features):
        assert array.ctypes.data % 64 == 0
        assert not array.flags.owndata


def test_small_values_stay_where_they_are():
    value = (np.arange(10), "text")
    assert spilled(value) is value


def test_labels_are_asked_for_once():
    """And what they were asked from, a future on a cluster, is let go."""
    pool, asked = Pool((3, 6), []), []
    pool.collect = lambda: asked.append(1) or np.array([0, 1, 0])
    assert (pool.size, pool.labels.tolist(), pool.name) == (2, [0, 1, 0], "shard-3-6")
    assert asked == [1]
    assert "collect" not in vars(pool)


def test_a_file_goes_with_its_large_arrays():
    """Labels are kept for long, the nodes beside them are not."""
    labels, nodes = spilled((np.arange(10), np.zeros(200_000)))
    assert labels.tolist() == list(range(10))
    before = mappings()
    del nodes
    gc.collect()
    assert mappings() == before - 1


def test_files_are_left_for_others():
    """Half of what a process may have open: what comes later stays in memory."""
    limits, room = resource.getrlimit(resource.RLIMIT_NOFILE), open_files() + 10
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * room, limits[1]))
    try:
        values = [spilled(np.full(200_000, at)) for at in range(2 * room)]
        assert open_files() < 2 * room
        assert [value.flags.owndata for value in values] == [False] * room + [True] * room
        assert [value[0] for value in values] == list(range(2 * room))
        del values[0]
        gc.collect()
        assert not spilled(np.zeros(200_000)).flags.owndata
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def open_files():
    return len(os.listdir("/proc/self/fd"))


def mappings():
    """Of files without a name."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return sum("(deleted)" in line for line in maps)


def test_files_go_with_their_values(rng):
    before = open_files(), mappings()
    values = [spilled(rng.normal(size=200_000)) for _ in range(5)]
    assert mappings() == before[1] + 5
    del values
    gc.collect()
    assert (open_files(), mappings()) == before


def test_only_limited_memory_goes_to_disk():
    big = np.zeros(200_000)
    assert Here().submit(tasks.same, big) is big
    assert not Here(limited=True).submit(tasks.same, big).flags.owndata


@pytest.mark.parametrize("kind", ["array", "path"])
def test_a_memory_limit_sends_what_waits_to_disk(monkeypatch, rng, tmp_path, kind):
    X, _ = mixture(rng, 60, 10)
    np.save(tmp_path / "x.npy", X)
    given, seen = X if kind == "array" else tmp_path / "x.npy", []
    monkeypatch.setattr(engine, "spilled", lambda value: seen.append(value) or value)
    dense_multicut(given, memory_limit=limit(8, 8))
    assert seen
    seen.clear()
    dense_multicut(given, checkpoint=tmp_path / "kept")
    assert not seen


def test_no_room_on_disk_is_one_line(monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(
        OSError, match=r"folder for temporary files, .*: No space left on device; set TMPDIR"
    ):
        spilled(np.zeros(200_000))


# Errands


class Later:
    """An engine whose tasks are done when they were waited for."""

    def __init__(self):
        self.finished, self.waits = set(), []

    def done(self, task):
        return task in self.finished

    def wait(self, tasks):
        self.waits.append(list(tasks))
        self.finished.add(tasks[-1])

    def value(self, task):
        assert task in self.finished
        return task.upper()


def errand(*names):
    values = []
    for name in names:
        values += yield [name, name + name]
    return values


def test_errands_go_on_while_others_wait():
    engine = Later()
    errands = Errands(engine)
    first, second = errands.start(errand("a", "b")), errands.start(errand("x", "y"))
    assert engine.waits == []
    assert first() == ["A", "AA", "B", "BB"]
    assert {"x", "xx", "y"} <= {task for tasks in engine.waits for task in tasks}
    assert second() == ["X", "XX", "Y", "YY"]


def test_an_errand_without_tasks_and_one_that_fails():
    def nothing():
        return 3
        yield

    def broken():
        yield ["a"]
        raise ValueError("broken")

    assert Errands(Later()).start(nothing())() == 3
    result = Errands(Later()).start(broken())
    with pytest.raises(ValueError, match="broken"):
        result()
