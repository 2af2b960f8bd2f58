"""Problems that are solved in shards because of a memory limit: quality, costs of all kinds, options."""

import numpy as np
import pytest
from makers import clusters_of, memory_for, mixture, pair_costs, separated
from reference import assert_optimal

from clusterfug import DenseProblem, Local, dense_multicut, local_alpha
from clusterfug.execution.sharded import source
from clusterfug.result import compact, number_by_first_appearance


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("order", ["random", "sorted", "dealt"])
def test_well_separated_clusters_do_not_depend_on_shards(rng, algorithm, order):
    """Also where a cluster extends over all shards, with one item in each."""
    X, truth = separated(rng, 64, 5)
    if order != "random":
        truth = np.sort(truth) if order == "sorted" else np.arange(64) % 5
        X = np.eye(8)[truth] + 0.01 * rng.normal(size=(64, 8))
    problem = DenseProblem(X / np.linalg.norm(X, axis=1, keepdims=True), 0.4)
    for items in (8, 9, 16, 31, 32, 63):
        result = dense_multicut(X, 0.4, algorithm=algorithm, memory_limit=memory_for(items, 8))
        assert [phase.name for phase in result.trace] == ["shards", "refinement"]
        assert clusters_of(result.labels) == clusters_of(truth)
        np.testing.assert_array_equal(result.labels, number_by_first_appearance(truth))
        assert result.objective == pytest.approx(problem.objective(result.labels))
        assert result.inside == pytest.approx(problem.inside(result.labels))
        assert result.trace[-1].move_optimal
        assert result.trace[-1].join_optimal
        assert (result.algorithm, result.n_iter, len(result.merges)) == (algorithm, 0, 0)
        assert (result.costs.value, result.preprocessing.metric) == (0.4, "cosine")


@pytest.mark.parametrize("count", [1, 2, 3, 5, 16, 63, 64])
def test_any_number_of_shards(monkeypatch, rng, count):
    monkeypatch.setattr(source, "MIN_SHARD_ITEMS", 1)
    X, truth = separated(rng, 64, 4)
    seen = []
    result = dense_multicut(
        X,
        0.4,
        memory_limit=memory_for(-(-64 // count), 8) - (count == 1),
        callback=lambda phase, done, total: seen.append((phase, done, total)),
    )
    assert clusters_of(result.labels) == clusters_of(truth)
    ends = [done for phase, done, total in seen if phase == "shards"]
    assert len(ends) == (2 if count == 1 else -(-64 // -(-64 // count)))
    assert ends == sorted(ends)
    assert ends[-1] == 64


def test_a_problem_within_the_memory_limit_is_solved_at_once(rng):
    X, _ = mixture(rng, 40, 4)
    at_once = dense_multicut(X, 0.3)
    for memory_limit in (None, memory_for(40, 8), 10**9):
        result = dense_multicut(X, 0.3, memory_limit=memory_limit)
        assert result.trace[0].name == "multilevel"
        np.testing.assert_array_equal(result.labels, at_once.labels)
    limit = memory_for(40, 8) - 1
    sharded, by_text = (dense_multicut(X, 0.3, memory_limit=value) for value in (limit, f"{limit}B"))
    assert sharded.trace[0].name == by_text.trace[0].name == "shards"
    np.testing.assert_array_equal(sharded.labels, by_text.labels)
    best = dense_multicut(X, 0.3, algorithm="best", max_iter=1, memory_limit=1)
    assert best.trace[0].name == "multilevel"


@pytest.mark.parametrize("order", ["random", "sorted"])
def test_quality_does_not_depend_on_shards(rng, order):
    X, truth = mixture(rng, 3000, 40, d=16, noise=1.0)
    if order == "sorted":
        X = X[np.argsort(truth, kind="stable")]
    whole = dense_multicut(X, 0.3, algorithm="fast").inside
    for count in (1, 4, 64):
        memory_limit = memory_for(-(-3000 // count), 16) - (count == 1)
        found = dense_multicut(X, 0.3, algorithm="fast", memory_limit=memory_limit)
        assert found.trace[-1].move_optimal
        assert found.inside >= 0.99 * whole


COSTS = {
    "alpha": lambda rng: {"alpha": rng.uniform(0.4, 0.7, size=48)},
    "large": lambda rng: {"alpha": 0.2, "prefer": "large"},
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


@pytest.mark.parametrize("kind", COSTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_costs_of_all_kinds(rng, kind, dtype):
    X, _ = mixture(rng, 48, 4, noise=0.4)
    X, costs = X.astype(dtype), COSTS[kind](rng)
    problem = DenseProblem(X, **costs)
    whole = dense_multicut(X, algorithm="fast", metric="inner_product", **costs)
    for algorithm in ("fast", "auto"):
        result = dense_multicut(
            X, algorithm=algorithm, metric="inner_product", memory_limit=memory_for(12, 8), **costs
        )
        assert result.trace[0].name == "shards"
        assert result.trace[-1].n_clusters == result.n_clusters
        np.testing.assert_array_equal(result.labels, number_by_first_appearance(result.labels))
        assert result.inside == pytest.approx(problem.inside(result.labels), abs=1e-9)
        assert result.objective == pytest.approx(problem.objective(result.labels), abs=1e-9)
        assert result.inside >= 0.85 * whole.inside - 1e-9
        weighted = np.flatnonzero(problem.rows.weight)
        assert_optimal(pair_costs(problem.subset(weighted)), compact(result.labels[weighted]))


@pytest.mark.parametrize("kind", ["weights", "alpha", "float32"])
def test_more_clusters_than_a_task_may_have(rng, kind):
    X, _ = mixture(rng, 90, 40, noise=0.4)
    costs = {"threshold": 0.6}
    if kind == "weights":
        costs["sample_weight"] = rng.integers(0, 3, size=90).astype(float)
    elif kind == "alpha":
        costs = {"alpha": rng.uniform(0.6, 0.9, size=90)}
    else:
        X = X.astype(np.float32)
    options = costs | {"algorithm": "fast", "metric": "inner_product"}
    result = dense_multicut(X, memory_limit=memory_for(8, 8), **options)
    assert result.n_clusters > 16
    assert result.trace[-1].join_optimal
    assert result.inside >= 0.95 * dense_multicut(X, **options).inside
    assert DenseProblem(X, **costs).inside(result.labels) == pytest.approx(result.inside)


@pytest.mark.parametrize("center", [False, True])
def test_rows_are_preprocessed_in_their_shards(rng, center):
    X, _ = mixture(rng, 60, 4, noise=0.4)
    Z = X * rng.uniform(0.5, 2, size=(60, 1)) + 0.3 * center
    result = dense_multicut(Z, 0.3, center=center, memory_limit=memory_for(20, 8))
    W = Z - Z.mean(axis=0) if center else Z
    problem = DenseProblem(W / np.linalg.norm(W, axis=1, keepdims=True), 0.3)
    assert result.trace[0].name == "shards"
    assert result.objective == pytest.approx(problem.objective(result.labels))
    assert_optimal(pair_costs(problem), result.labels)


def test_items_without_weight_are_labelled_as_at_once(rng):
    X, _ = separated(rng, 48, 4)
    weight = rng.integers(0, 3, size=48) * np.where(np.arange(48) < 36, 1.0, 0.0)
    weight[:12] = 0
    for dtype in (np.float32, np.float64):
        found = dense_multicut(X.astype(dtype), 0.4, sample_weight=weight, memory_limit=memory_for(12, 8))
        at_once = dense_multicut(X.astype(dtype), 0.4, sample_weight=weight)
        np.testing.assert_array_equal(found.labels, at_once.labels)


def test_items_without_weight_are_assigned_to_the_most_similar_of_many_clusters(rng):
    X, truth = np.eye(24)[np.arange(96) % 24] + 0.02 * rng.normal(size=(96, 24)), np.arange(96) % 24
    weight = np.ones(96)
    weight[::7] = 0
    result = dense_multicut(X, 0.4, sample_weight=weight, memory_limit=memory_for(8, 24))
    assert result.n_clusters == 24
    assert clusters_of(result.labels) == clusters_of(truth)


def test_items_without_weight_are_assigned_with_the_signature():
    """The last item is similar to the first by its features, and to the seventh by the signature."""
    X = np.array([[1.0, 0.3]] * 6 + [[-1.0, -0.3]] * 6 + [[0.1, 1.0]])
    weight = np.append(np.ones(12), 0)
    problem = DenseProblem(X, 0.4, sample_weight=weight, signature=[1, -1])
    found, at_once = dense_multicut(problem, memory_limit=1), dense_multicut(problem)
    np.testing.assert_array_equal(found.labels, at_once.labels)
    assert found.labels[12] == found.labels[6] != found.labels[0]


def test_a_single_cluster_if_that_is_better(rng):
    X = np.abs(rng.normal(size=(40, 8)))
    for options in ({}, {"init": np.arange(40), "time_limit": 0}):
        result = dense_multicut(X, -0.1, memory_limit=memory_for(10, 8), **options)
        assert result.n_clusters == 1
        assert result.objective == pytest.approx(0, abs=1e-9)


def test_with_initial_labels_shards_are_not_solved(rng):
    X, truth = mixture(rng, 60, 4)
    options = {"threshold": 0.3, "algorithm": "fast", "memory_limit": memory_for(20, 8)}
    init = np.where(np.arange(60) % 5, truth * 7 - 3, 100)
    result = dense_multicut(X, init=init, **options)
    assert [phase.name for phase in result.trace] == ["refinement"]
    assert result.inside > DenseProblem(X, 0.3).inside(init)
    again = dense_multicut(X, init=result.labels, **options)
    np.testing.assert_array_equal(again.labels, result.labels)
    with pytest.raises(ValueError, match="one entry per item"):
        dense_multicut(X, init=truth[:-1], **options)


def test_a_memory_map_gives_the_result_of_the_array(rng, tmp_path):
    X, _ = mixture(rng, 60, 4)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    a, b = (dense_multicut(array, 0.3, memory_limit=memory_for(20, 8)) for array in (mapped, X))
    np.testing.assert_array_equal(a.labels, b.labels)
    assert a.objective == b.objective


def test_two_runs_are_equal(rng):
    X, _ = mixture(rng, 60, 6, noise=1.5)
    a, b = (dense_multicut(X.astype(np.float32), 0.2, memory_limit=memory_for(9, 8)) for _ in range(2))
    np.testing.assert_array_equal(a.labels, b.labels)
    assert (a.objective, a.inside) == (b.objective, b.inside)


def test_progress_is_reported(rng):
    X, _ = mixture(rng, 60, 4)
    seen = []
    dense_multicut(X, 0.3, memory_limit=memory_for(20, 8), callback=lambda *call: seen.append(call))
    assert seen[:3] == [("shards", done, 60) for done in (20, 40, 60)]
    assert seen[3:6] == [("moves", done, 60) for done in (20, 40, 60)]
    assert {phase for phase, *_ in seen[3:]} == {"moves"}


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("init", [None, np.arange(60) % 3], ids=["shards", "init"])
def test_a_time_limit_of_zero_returns_labels(rng, algorithm, init):
    X, _ = mixture(rng, 60, 4, noise=1.0)
    result = dense_multicut(
        X, 0.3, algorithm=algorithm, init=init, time_limit=0, memory_limit=memory_for(20, 8)
    )
    assert result.labels.shape == (60,)
    assert result.trace[-1].name == "refinement"
    assert not result.trace[-1].move_optimal
    assert not result.trace[-1].join_optimal
    assert result.inside == pytest.approx(DenseProblem(X, 0.3).inside(result.labels))


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("kind", ["plain", "init", *COSTS])
def test_one_shard_is_solved_as_without_shards(monkeypatch, rng, kind, algorithm):
    monkeypatch.setattr(source, "MIN_SHARD_ITEMS", 48)
    X, _ = mixture(rng, 48, 6, noise=1.5)
    options = COSTS[kind](rng) if kind in COSTS else {"threshold": 0.2}
    if kind == "init":
        options["init"] = rng.integers(0, 6, size=48) * 7 - 3
    found, at_once = (
        dense_multicut(X, algorithm=algorithm, memory_limit=memory_limit, **options)
        for memory_limit in (memory_for(47, 8), None)
    )
    assert (found.trace[0].name, at_once.trace[0].name) == ("refinement", "multilevel")
    assert len(found.trace) == 1
    np.testing.assert_array_equal(found.labels, at_once.labels)
    assert found.objective == pytest.approx(at_once.objective, abs=1e-9)
    assert found.inside == pytest.approx(at_once.inside, abs=1e-9)
    assert found.trace[-1].n_clusters == at_once.n_clusters
    assert found.trace[-1].move_optimal
    assert found.trace[-1].join_optimal


@pytest.mark.parametrize("X", [np.ones((1, 3)), np.ones((20, 3)), np.zeros((20, 3)), np.eye(20)])
def test_one_item_and_equal_items(X):
    result = dense_multicut(X, 0.4, memory_limit=1)
    np.testing.assert_array_equal(result.labels, dense_multicut(X, 0.4).labels)


def test_a_dense_problem_has_its_costs(rng):
    X, _ = mixture(rng, 40, 4)
    problem = DenseProblem(X, 0.3, signature=np.array([1, 1, 1, 1, 1, 1, -1, -1]))
    result = dense_multicut(problem, memory_limit=memory_for(10, 8))
    assert result.objective == pytest.approx(problem.objective(result.labels))
    assert_optimal(pair_costs(problem), result.labels)


def test_a_local_threshold_goes_to_shards_as_an_alpha(rng, tmp_path):
    X, _ = mixture(rng, 60, 4, noise=0.4)
    limit = memory_for(20, 8)
    result = dense_multicut(X, "local", memory_limit=limit, algorithm="fast")
    assert result.costs == Local()
    by_alpha = dense_multicut(X, alpha=local_alpha(X), memory_limit=limit, algorithm="fast")
    np.testing.assert_array_equal(result.labels, by_alpha.labels)
    assert by_alpha.trace[0].name == "shards"
    assert dense_multicut(X, memory_limit=limit).choice is not None
    np.save(tmp_path / "x.npy", X)
    for features, options in ((str(tmp_path / "x.npy"), {}), (X, {"checkpoint": tmp_path / "run"})):
        with pytest.raises(ValueError, match="which shards do not know: give a number as threshold"):
            dense_multicut(features, "local", memory_limit=limit, **options)


def test_the_seed_counts_where_all_items_fit_in_one_task(rng, tmp_path):
    X = mixture(rng, 60, 20, noise=2.0)[0]
    for seed in range(4):
        with_checkpoint = dense_multicut(X, 0.1, random_state=seed, checkpoint=tmp_path / f"{seed}")
        without = dense_multicut(X, 0.1, random_state=seed)
        np.testing.assert_array_equal(with_checkpoint.labels, without.labels)
    with pytest.raises(ValueError, match="other seed"):
        dense_multicut(X, 0.1, random_state=0, checkpoint=tmp_path / "3")


def test_huge_costs_that_are_kept_do_not_change_the_objective(rng):
    X = np.zeros((40, 4))
    X[:, :3] = rng.normal(size=(40, 3))
    X[[3, 35]] = 0, 0, 0, 1e8
    result = dense_multicut(X, 0.4, metric="inner_product", memory_limit=1)
    assert result.labels[3] == result.labels[35]
    exact = DenseProblem(X, 0.4).objective(result.labels)
    others = np.flatnonzero(~np.isin(np.arange(40), [3, 35]))
    alone = DenseProblem(X[others], 0.4).objective(result.labels[others])
    assert result.objective == pytest.approx(exact, rel=1e-12)
    assert result.objective == pytest.approx(alone - 0.4 * 2 * 38, rel=1e-12)
