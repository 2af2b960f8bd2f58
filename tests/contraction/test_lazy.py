"""DLAEC makes the merges of the naive rule; the result of DLAEC and DAppLAEC is optimal under joins."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from clusterfug import DenseProblem, dense_multicut
from clusterfug.contraction import lazy as module
from clusterfug.contraction.lazy import lazy
from clusterfug.neighbours.exact import Neighbours, exact_neighbours
from clusterfug.refinement.budget import Budget


def assert_naive_merges(rng, n, d, k):
    X = rng.integers(-2, 3, size=(n, d)).astype(float)
    alpha = rng.integers(0, 3, size=n).astype(float)
    result = dense_multicut(DenseProblem(X, alpha=alpha), algorithm="dlaec", k=k)
    assert result.merges.tolist() == reference.lazy(reference.cost_matrix(X, alpha=alpha), k)
    assert result.inside == result.merges["cost"].sum()


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60), d=st.integers(1, 5), k=st.integers(1, 7))
def test_merges_are_those_of_the_naive_rule(seed, n, d, k):
    assert_naive_merges(np.random.default_rng(seed), n, d, k)


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(4))
def test_merges_of_small_problems_are_those_of_the_naive_rule(seed):
    assert_naive_merges(np.random.default_rng(seed), 25, 2, 2)


@pytest.mark.kernels
@pytest.mark.parametrize("budget", [Budget(0.0), Budget()])
def test_contraction_of_equal_items_ends_with_its_budget(monkeypatch, budget):
    """Of many equal items the lists name the same few, and every merge looks at all others."""
    problem = DenseProblem(np.repeat(np.eye(2), 30, axis=0), 0.5)
    whole = lazy(problem, exact_neighbours(problem, 2), 2)
    monkeypatch.setattr(module, "_WORK_PER_CALL", 1000)
    monkeypatch.setattr(module, "_MAX_ARCS_PER_MERGE", 1)
    part = lazy(problem, exact_neighbours(problem, 2), 2, budget=budget)
    assert len(part) < len(whole)
    assert part.tolist() == whole[: len(part)].tolist()
    assert lazy(problem, exact_neighbours(problem, 2), 2).tolist() == whole.tolist()


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 60))
def test_no_two_clusters_of_the_result_attract(seed, n):
    """All pairs are searched at the end, so the result is optimal under joins."""
    problem = DenseProblem(np.random.default_rng(seed).normal(size=(n, 3)), 0.3)
    for algorithm in ("dlaec", "dgaec-inc"):
        clusters = problem.contract(dense_multicut(problem, algorithm=algorithm).labels)
        if clusters.n > 1:
            assert exact_neighbours(clusters, 1).costs.max() <= 1e-9


def test_digits_have_the_published_objective(digits):
    result = dense_multicut(DenseProblem(digits, 0.2), algorithm="dlaec")
    assert result.inside == pytest.approx(42353.5, abs=0.1)
    assert dense_multicut(DenseProblem(digits, 0.4), algorithm="dlaec").n_clusters == 53


@pytest.mark.parametrize("ann", ["hnsw", "ivf"])
@pytest.mark.parametrize("n", [1, 2, 5, 300])
def test_equal_items_are_one_cluster(n, ann):
    """faiss leaves slots empty and repeats items if all are equal."""
    pytest.importorskip("faiss")
    problem = DenseProblem(np.ones((n, 3), dtype=np.float32), 0.4)
    result = dense_multicut(problem, algorithm="dapplaec", ann=ann)
    assert result.n_clusters == 1
    assert result.inside == pytest.approx(n * (n - 1) / 2 * 2.6)


def test_dapplaec_is_close_to_dlaec_and_repeatable(digits):
    pytest.importorskip("faiss")
    problem = DenseProblem(digits.astype(np.float32), 0.4)
    exact = dense_multicut(problem, algorithm="dlaec")
    results = [dense_multicut(problem, algorithm="dapplaec") for _ in range(2)]
    assert results[0].inside > 0.99 * exact.inside
    np.testing.assert_array_equal(results[0].merges, results[1].merges)


def test_pairs_that_an_approximate_search_misses_are_merged(rng, monkeypatch):
    pytest.importorskip("faiss")

    def nothing(problem, k, *_):
        return Neighbours(np.full((problem.n, k), -1), np.full((problem.n, k), -np.inf))

    problem = DenseProblem(rng.normal(size=(50, 3)), 0.4)
    monkeypatch.setattr("clusterfug.neighbours.approximate.approximate_neighbours", nothing)
    expected = dense_multicut(problem, algorithm="dlaec").merges
    assert len(expected) > 0
    np.testing.assert_array_equal(dense_multicut(problem, algorithm="dapplaec").merges, expected)


@pytest.mark.kernels
def test_progress_counts_merges(rng, monkeypatch):
    monkeypatch.setattr("clusterfug.contraction.lazy._WORK_PER_CALL", 10)
    seen = []
    problem = DenseProblem(rng.normal(size=(60, 3)), 0.4)
    dense_multicut(problem, algorithm="dlaec", callback=lambda *event: seen.append(event))
    done = [done for phase, done, total in seen if phase == "contraction" and total == 60]
    assert len(done) > 5
    assert done == sorted(done)
