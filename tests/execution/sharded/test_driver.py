"""The driver of sharded runs: pools, rounds of moves, joins, and the size of tasks."""

import numpy as np
import pytest
from makers import clusters_of, mixture, noisy_problem, pair_costs, sharded_driver
from reference import assert_optimal

from clusterfug import DenseProblem, dense_multicut
from clusterfug.execution.sharded import driver as driver_module
from clusterfug.execution.sharded import tasks
from clusterfug.execution.sharded.checkpoint import Checkpoint, DriverState
from clusterfug.execution.sharded.driver import Driver, Pool, RunEvaluation, Shard
from clusterfug.execution.sharded.engine import LocalEngine
from clusterfug.execution.sharded.moves import MoveDecision, decide_moves, score_block
from clusterfug.refinement import strategies
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import refine
from clusterfug.result import compact


def all_changed(labels, **state):
    return DriverState(labels, np.ones(labels.max() + 1, dtype=bool), **state)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("size", "max_items"), [(16, 16), (4, 16), (4, 4), (3, 3), (5, 1), (1, 1)])
def test_no_move_and_no_join_improves_the_result(seed, size, max_items):
    rng = np.random.default_rng(seed)
    problem = noisy_problem(rng, 16, noise=1.5, dtype=[np.float32, np.float64][seed % 2])
    costs = pair_costs(problem)
    for init in (None, rng.integers(0, 6, size=16), np.arange(16), np.zeros(16, dtype=np.int64)):
        start = None if init is None else compact(init)
        driver = sharded_driver(problem, size, max_items, ["fast", "auto"][seed // 2])
        *_, (name, refined, evaluation) = driver.phases(start)
        assert name == "refinement"
        assert refined.move_optimal
        assert refined.join_optimal
        assert sorted(set(refined.labels)) == list(range(refined.labels.max() + 1))
        assert_optimal(costs, refined.labels)
        assert evaluation.inside == pytest.approx(problem.inside(refined.labels))
        assert evaluation.objective == pytest.approx(problem.objective(refined.labels))
        if init is not None:
            assert evaluation.inside >= problem.inside(init) - 1e-9


@pytest.mark.parametrize("max_items", [2, 3, 8])
def test_refinement_ends_where_costs_are_exactly_zero(max_items):
    """Bounds do not decide, and no item gains."""
    X = np.eye(10, dtype=np.float32)[np.arange(30) % 10]
    problem = DenseProblem(X, 0.0)
    *_, (_, refined, _) = sharded_driver(problem, 5, max_items).phases(None)
    assert refined.move_optimal
    assert_optimal(pair_costs(problem), refined.labels)


def test_no_task_has_more_clusters_than_it_may(monkeypatch, rng):
    """Nodes, sums and groups: at most twice as many as a shard has items, unless moves are decided."""
    most, seen = 10, []
    X, _ = mixture(rng, 120, 60, noise=0.3)

    def watched(self, function, *arguments):
        value = function(*arguments)
        for thing in [*arguments, *(value if isinstance(value, tuple) else [value])]:
            sums = getattr(thing, "sums", None)
            if isinstance(thing, DenseProblem):
                seen.append(thing.n)
            elif sums is not None and not callable(sums):
                seen.append(len(sums))
        return value

    monkeypatch.setattr(LocalEngine, "submit", watched)
    monkeypatch.setattr(
        LocalEngine, "submit_alone", lambda self, function, *arguments: function(*arguments)
    )
    problem = DenseProblem(X, 0.7)
    *_, (_, refined, _) = sharded_driver(problem, most, most).phases(None)
    assert refined.labels.max() + 1 > 3 * most
    assert refined.join_optimal
    assert max(seen) <= 2 * most
    assert_optimal(pair_costs(problem), refined.labels)


def test_a_pool_waits_for_its_labels_once():
    """And does not keep the task."""
    pool, calls = Pool((3, 6), []), []
    pool.wait_for_labels = lambda: calls.append(1) or np.array([0, 1, 0])
    assert (pool.size, pool.labels.tolist(), pool.name) == (2, [0, 1, 0], "shard-3-6")
    assert calls == [1]
    assert "wait_for_labels" not in vars(pool)


# Rounds of moves


def record_rounds(monkeypatch, problem):
    """A list of inside before, inside after, number of groups and proposed labels of every round."""
    rounds, accept = [], Driver._accept

    def recorded(self, state, evaluation, proposed, unsettled, groups):
        after, evaluation_after = accept(self, state, evaluation, proposed, unsettled, groups)
        rounds.append((evaluation.inside, evaluation_after.inside, len(groups), proposed))
        assert evaluation_after.inside == pytest.approx(problem.inside(after.labels))
        return after, evaluation_after

    monkeypatch.setattr(Driver, "_accept", recorded)
    return rounds


@pytest.mark.parametrize(("size", "max_items"), [(5, 19), (5, 5), (4, 2), (1, 1)])
def test_inside_never_falls_from_round_to_round(monkeypatch, rng, size, max_items):
    problem = noisy_problem(rng, 20, noise=2.0)
    rounds = record_rounds(monkeypatch, problem)
    in_groups = 0
    for init in (compact(rng.integers(0, 8, size=20)), np.arange(20), np.zeros(20, dtype=np.int64)):
        rounds.clear()
        list(sharded_driver(problem, size, max_items).phases(init))
        assert len(rounds) > 1
        assert all(after >= before - 1e-9 for before, after, *_ in rounds)
        in_groups += sum(groups > 1 for _, _, groups, _ in rounds)
    assert in_groups > 0


def test_groups_in_conflict_do_not_lower_inside(monkeypatch):
    """Two items swap places, each because the other is not there: together they gain nothing."""
    X = np.array([[1.0, 0.0], [0.0, 1.0]] * 6)
    problem = DenseProblem(X, 0.5)
    rounds = record_rounds(monkeypatch, problem)
    *_, (_, refined, _) = sharded_driver(problem, 1, 1).phases(np.arange(12) // 2)
    assert any(groups > 1 for _, _, groups, _ in rounds)
    assert all(after >= before for before, after, *_ in rounds)
    assert clusters_of(refined.labels) == {frozenset(range(0, 12, 2)), frozenset(range(1, 12, 2))}


def test_singletons_of_different_groups_are_different_clusters(monkeypatch):
    problem = DenseProblem(np.eye(12), 0.5)
    rounds = record_rounds(monkeypatch, problem)
    *_, (_, refined, _) = sharded_driver(problem, 3, 3).phases(np.zeros(12, dtype=np.int64))
    *_, groups, proposed = rounds[0]
    assert groups == 4
    assert len(set(proposed)) == 12
    assert refined.labels.max() == 11


@pytest.mark.parametrize("max_items", [40, 99])
def test_more_new_singletons_than_slots_take_several_rounds(max_items):
    labels = np.zeros(100, dtype=np.int64)
    *_, (_, refined, _) = sharded_driver(DenseProblem(np.eye(100), 0.5), 40, max_items).phases(labels)
    assert len(set(refined.labels)) == 100


def test_items_outside_changed_clusters_count_as_candidates(monkeypatch, rng):
    """Few items are in changed clusters, but these attract more items than a task may have."""
    sizes = []

    def counted(k, until_optimal, parts, candidates):
        sizes.append(sum(len(part.items) for part in candidates))
        return decide_moves(k, until_optimal, parts, candidates)

    monkeypatch.setattr(driver_module, "decide_moves", counted)
    driver = sharded_driver(noisy_problem(rng, 60, noise=2.0), 10, 12, "fast")
    labels = np.arange(60) % 30
    before = driver._evaluate(labels)
    state, after = driver._move_items(DriverState(labels, np.arange(30) < 4), before)
    assert sum(sizes) > 12
    assert max(sizes) <= 12
    assert after.inside > before.inside
    assert len(state.changed) == state.labels.max() + 1


def test_unsettled_clusters_are_scored_in_the_next_round(monkeypatch, rng):
    def undecided(k, until_optimal, parts, candidates):
        return MoveDecision(np.concatenate([part.labels for part in candidates]), np.array([1]), False)

    monkeypatch.setattr(driver_module, "decide_moves", undecided)
    driver, state = sharded_driver(noisy_problem(rng, 12), 4, 1), all_changed(np.arange(12) % 3)
    after, _ = driver._move_items(state, driver._evaluate(state.labels))
    assert after.changed.tolist() == [False, True, False]


def test_many_items_move_in_groups(rng):
    """The result from random labels, decided in small groups, is about as good as without shards."""
    X, _ = mixture(rng, 600, 15, d=16, noise=1.0)
    problem = DenseProblem(X, 0.3)
    whole = dense_multicut(problem, algorithm="fast").inside
    init = compact(rng.integers(0, 90, size=600))
    *_, (_, refined, evaluation) = sharded_driver(problem, 60, 60).phases(init)
    assert refined.move_optimal
    assert evaluation.inside >= 0.97 * whole


# Accepted moves


class ScriptedDriver(Driver):
    """A driver whose objectives are given by the number of evaluations so far."""

    def __init__(self, problem, objective):
        shards = [Shard(0, problem.n, problem, tasks.Recipe())]
        super().__init__(shards, LocalEngine(), Checkpoint(None, {}), Budget(), 1)
        self.evaluated, self.objective = [], objective

    def _evaluate(self, labels):
        self.evaluated.append(labels)
        return RunEvaluation(None, 0.0, self.objective(len(self.evaluated)), 0)


NO_COSTS = RunEvaluation(None, 0.0, 0.0, 0)


@pytest.mark.parametrize("falls_at", [1, 2, 3, 4, None])
def test_smaller_shares_of_the_moves_are_tried_until_the_objective_falls(rng, falls_at):
    """All of them, a half, a quarter; then those of the first group with any move, in any case."""
    n = 40
    state = all_changed(np.arange(n) % 4, n_rounds=5)
    proposed = np.where(np.arange(n) < 8, state.labels, (state.labels + 1) % 4)
    groups = [np.arange(8), np.arange(8, 20), np.arange(20, n)]
    driver = ScriptedDriver(noisy_problem(rng, n), lambda count: -1.0 if count == falls_at else 1.0)
    after, evaluation = driver._accept(state, NO_COSTS, proposed, np.zeros(4, dtype=bool), groups)
    moved = [int(np.count_nonzero(labels != state.labels)) for labels in driver.evaluated]
    assert len(moved) == (falls_at or 4)
    assert evaluation.objective == (-1.0 if falls_at else 1.0)
    assert moved[0] == 32
    if len(moved) == 4:
        assert moved[0] > moved[1] > moved[2] > 0
        np.testing.assert_array_equal(np.flatnonzero(after.labels != state.labels), groups[1])
    assert after.n_rounds == 6
    assert after.changed.all()


def test_the_moves_of_one_group_are_accepted_at_once(rng):
    state = all_changed(np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    proposed = np.array([0, 0, 0, 0, 1, 1, 1, 2])
    driver = ScriptedDriver(noisy_problem(rng, 8), lambda count: 1.0)
    unsettled = np.array([True, False])
    after, _ = driver._accept(state, NO_COSTS, proposed, unsettled, [np.arange(8)])
    assert len(driver.evaluated) == 1
    np.testing.assert_array_equal(after.labels, proposed)
    assert after.changed.tolist() == [True, True, True]


def test_without_moves_nothing_is_evaluated(rng):
    state = all_changed(np.arange(8) % 2, n_rounds=3)
    driver = ScriptedDriver(noisy_problem(rng, 8), lambda count: 1.0)
    unsettled = np.array([False, True])
    after, same = driver._accept(state, NO_COSTS, state.labels.copy(), unsettled, [np.arange(8)])
    assert same is NO_COSTS
    assert driver.evaluated == []
    assert (after.changed.tolist(), after.n_rounds) == ([False, True], 4)


def test_clusters_with_rejected_moves_are_not_settled(rng):
    """Only one of two moves is accepted: the cluster of the other item is scored again."""
    state = all_changed(np.arange(8) // 2)
    proposed = np.array([1, 0, 1, 1, 3, 2, 3, 3])
    driver = ScriptedDriver(noisy_problem(rng, 8), lambda count: 1.0)
    groups = [np.array([0]), np.array([4])]
    after, _ = driver._accept(state, NO_COSTS, proposed, np.zeros(4, dtype=bool), groups)
    np.testing.assert_array_equal(after.labels, [1, 0, 1, 1, 2, 2, 3, 3])
    assert after.changed.tolist() == [True, True, True, False]


# Exact scores


def blurred_problem():
    """Sums so long that float32 hides that of 12 items only the first and the last attract each other."""
    X = np.zeros((12, 14), dtype=np.float32)
    X[0, 0], X[11, 0] = 2, 2
    for at in range(1, 11):
        X[at, 0], X[at, at] = -1, 1e6
    return DenseProblem(X, 2.0)


def test_items_that_bounds_do_not_decide_get_exact_scores(monkeypatch):
    used = []

    def recorded(problem, exact, *arguments):
        used.append(exact)
        return score_block(problem, exact, *arguments)

    monkeypatch.setattr(tasks, "score_block", recorded)
    *_, (_, refined, _) = sharded_driver(blurred_problem(), 3, 3).phases(np.arange(12))
    assert refined.move_optimal
    assert refined.join_optimal
    assert clusters_of(refined.labels) == {frozenset({0, 11}), *(frozenset({at}) for at in range(1, 11))}
    assert True in used


def test_a_checkpoint_keeps_that_exact_scores_are_needed(tmp_path):
    """Stopped after any round, a run continues as if it had not been."""

    class StopError(Exception):
        pass

    class StoppingCheckpoint(Checkpoint):
        def save_state(self, state):
            super().save_state(state)
            saved.append(state)
            if len(saved) == stop:
                raise StopError

    def solve(folder):
        with StoppingCheckpoint(folder, {}) as checkpoint:
            driver = sharded_driver(blurred_problem(), 3, 3)
            driver.checkpoint = checkpoint
            *_, (_, refined, _) = driver.phases(np.arange(12))
        return refined

    saved, stop = [], 0
    whole = solve(tmp_path / "whole")
    undisturbed = list(saved)
    assert any(state.exact for state in undisturbed)
    for stop in range(1, len(undisturbed)):
        saved = []
        with pytest.raises(StopError):
            solve(tmp_path / str(stop))
        np.testing.assert_array_equal(solve(tmp_path / str(stop)).labels, whole.labels)
        for state, expected in zip(saved, undisturbed, strict=True):
            assert (state.n_rounds, state.exact) == (expected.n_rounds, expected.exact)


# Problems that fit in one task


def test_auto_polishes_a_problem_that_fits_in_one_task(monkeypatch):
    """From pooled shards: never worse than those, and better than moves and joins alone."""
    polish, polished, gained = strategies.polish, [], 0.0

    def counted(problem, *arguments):
        polished.append(problem.n)
        return polish(problem, *arguments)

    monkeypatch.setattr(strategies, "polish", counted)
    for seed in range(5):
        problem, inside = noisy_problem(np.random.default_rng(seed), 40, noise=3.0), {}
        for algorithm, max_items, times in (("fast", 40, 0), ("auto", 39, 0), ("auto", 40, 1)):
            polished.clear()
            phases = sharded_driver(problem, 10, max_items, algorithm).phases(None)
            (first, pooled, before), (name, refined, evaluation) = phases
            assert (first, name) == ("shards", "refinement")
            assert polished == [40] * times
            assert refined.move_optimal
            assert refined.join_optimal
            assert_optimal(pair_costs(problem), refined.labels)
            assert evaluation.inside == pytest.approx(problem.inside(refined.labels))
            assert evaluation.inside >= before.inside - 1e-9
            inside[algorithm, max_items] = evaluation.inside
            if algorithm == "fast":
                alone = refine(problem, strategies.or_single_cluster(problem, pooled.labels), Budget())
                np.testing.assert_array_equal(refined.labels, alone.labels)
        assert inside["auto", 40] >= inside["fast", 40] - 1e-9
        gained += inside["auto", 40] - inside["fast", 40]
    assert gained > 1e-3


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("size", [40, 10])
def test_a_problem_that_fits_in_one_task_makes_no_rounds(monkeypatch, rng, size, algorithm):
    """One task gets all items, with labels to start from or without, and the remaining time."""
    calls, solve_at_once = [], tasks.solve_at_once

    def recorded(algorithm, labels, time_limit, rng, *parts):
        calls.append((algorithm, labels, time_limit, sum(part.n for part in parts)))
        return solve_at_once(algorithm, labels, time_limit, rng, *parts)

    monkeypatch.setattr(tasks, "solve_at_once", recorded)
    for name in ("shard_candidates", "join_clusters"):
        monkeypatch.delattr(tasks, name)
    problem, init = noisy_problem(rng, 40, noise=2.0), compact(rng.integers(0, 6, size=40))
    for start in (None, init):
        for seconds in (None, 1000.0, 0.0):
            driver = sharded_driver(problem, size, 40, algorithm)
            driver.budget = Budget(seconds)
            *shards, (_, refined, evaluation) = driver.phases(start)
            assert [phase for phase, *_ in shards] == ["shards"] * (start is None and size < 40)
            labels = shards[0][1].labels if shards else start
            (call,) = calls
            calls.clear()
            assert call[1] is labels
            assert call[0::3] == (algorithm, 40)
            assert 0 <= call[2] <= (np.inf if seconds is None else seconds)
            assert (call[2] > 900) == (seconds != 0)
            assert refined.move_optimal == refined.join_optimal == (seconds != 0)
            if labels is not None:
                assert evaluation.inside >= problem.inside(labels) - 1e-9
