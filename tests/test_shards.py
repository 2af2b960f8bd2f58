"""Problems that are solved shard by shard, because memory is limited."""

import numpy as np
import pytest

from clusterfug import DenseProblem, dense_multicut, shards
from clusterfug.result import agreement
from clusterfug.shards import items_of_shard, pools, solve_bytes


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(shards, "LEAST", 8)


def mixture(rng, n, clusters, d=16, noise=0.6):
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    z = rng.normal(size=(n, d))
    labels = rng.integers(clusters, size=n)
    X = centres[labels] + noise * z / np.linalg.norm(z, axis=1, keepdims=True)
    return X / np.linalg.norm(X, axis=1, keepdims=True), labels


def limit(items, d=16):
    """Memory for so many items at a time."""
    return items * solve_bytes(1, d)


def test_how_many_items_at_a_time():
    assert items_of_shard(1000, 16, None) == 1000
    assert items_of_shard(1000, 16, limit(1000)) == 1000
    assert items_of_shard(1000, 16, limit(1000) - 1) == 999
    assert items_of_shard(1000, 16, limit(100)) == 100
    assert items_of_shard(1000, 16, 1) == 8
    assert items_of_shard(10**9, 16, limit(10**8)) == shards.MOST


@pytest.mark.parametrize("size", [7, 20, 59])
def test_every_pool_is_a_problem_of_the_items_so_far(rng, size):
    X, _ = mixture(rng, 60, 4)
    problem = DenseProblem(X, 0.3, sample_weight=rng.uniform(0.5, 2, size=60))
    seen = 0
    for pool in pools(problem, size):
        seen = min(60, seen + size)
        assert pool.node.shape == (seen,)
        assert pool.nodes.n == pool.node.max() + 1
        part = problem.subset(slice(0, seen))
        again = part.contract(pool.node)
        np.testing.assert_allclose(pool.nodes.rows.features, again.rows.features, atol=1e-12)
        np.testing.assert_allclose(pool.nodes.rows.alpha, again.rows.alpha, atol=1e-12)
    assert seen == 60


def test_a_pool_goes_on_from_another(rng):
    X, _ = mixture(rng, 60, 4)
    problem = DenseProblem(X, 0.3)
    every = list(pools(problem, 16))
    rest = list(pools(problem, 16, every[1]))
    assert len(rest) == len(every) - 2
    np.testing.assert_array_equal(rest[-1].node, every[-1].node)


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("order", ["random", "sorted"])
def test_well_separated_clusters_do_not_depend_on_shards(rng, algorithm, order):
    X, truth = mixture(rng, 120, 5, noise=0.3)
    if order == "sorted":
        truth = np.sort(truth)
        X, truth = mixture_like(rng, truth)
    for items in (10, 30, 64):
        result = dense_multicut(X, 0.4, algorithm=algorithm, memory_limit=limit(items))
        assert [phase.name for phase in result.trace] == ["shards", "refinement"]
        assert agreement(result.labels, truth) == 1
        assert result.objective == pytest.approx(DenseProblem(X, 0.4).objective(result.labels))
        assert result.trace[-1].move_optimal
        assert result.trace[-1].join_optimal


def mixture_like(rng, labels, d=16):
    """Features of such clusters."""
    centres = np.eye(d)[: labels.max() + 1]
    X = centres[labels] + 0.05 * rng.normal(size=(len(labels), d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), labels


@pytest.mark.large
@pytest.mark.parametrize("order", ["random", "sorted"])
def test_quality_does_not_depend_on_sharding(rng, order):
    X, truth = mixture(rng, 3000, 40, noise=1.0)
    if order == "sorted":
        X = X[np.argsort(truth, kind="stable")]
    whole = dense_multicut(X, 0.3, algorithm="fast").inside
    for count in (2, 4, 16, 64):
        found = dense_multicut(X, 0.3, algorithm="fast", memory_limit=limit(3000 // count))
        assert found.inside >= 0.99 * whole


def test_costs_of_all_kinds(rng):
    X, _ = mixture(rng, 80, 4)
    for costs in (
        {"alpha": rng.uniform(0.4, 0.7, size=80)},
        {"threshold": "local"},
        {"threshold": 0.3, "sample_weight": rng.integers(0, 3, size=80).astype(float)},
        {"threshold": -0.2},
    ):
        problem = DenseProblem(X, **costs)
        result = dense_multicut(X, memory_limit=limit(20), **costs)
        assert result.trace[0].name == "shards"
        assert result.objective == pytest.approx(problem.objective(result.labels))
        assert result.inside >= 0.98 * dense_multicut(X, **costs).inside


def test_labels_to_start_from_need_no_shards(rng):
    X, truth = mixture(rng, 80, 4)
    result = dense_multicut(X, 0.3, init=truth, memory_limit=limit(20))
    assert [phase.name for phase in result.trace] == ["refinement"]
    assert result.inside >= DenseProblem(X, 0.3).inside(truth)


def test_a_memory_map_is_read_where_it_is(rng, tmp_path):
    X, _ = mixture(rng, 90, 4)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    a = dense_multicut(mapped, 0.3, memory_limit=limit(25))
    b = dense_multicut(X, 0.3, memory_limit=limit(25))
    np.testing.assert_array_equal(a.labels, b.labels)
    assert a.objective == b.objective


def test_progress_is_told(rng):
    X, _ = mixture(rng, 80, 4)
    seen = []
    dense_multicut(X, 0.3, memory_limit=limit(20), callback=lambda *what: seen.append(what))
    assert [done for phase, done, _ in seen if phase == "shards"] == [20, 40, 60, 80]
