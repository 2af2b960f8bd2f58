"""DLAEC and DAppLAEC: the naive rule merge by merge, certificates, and approximate search."""

import sys

import numpy as np
import pytest
import reference
from conftest import INTERPRETED
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfug import DenseProblem, dense_multicut
from clusterfug.neighbours import approximate
from clusterfug.neighbours.exact import Neighbours, nearest

LARGEST = 14 if INTERPRETED else 60


@settings(max_examples=10 if INTERPRETED else 200)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, LARGEST), d=st.integers(1, 5), k=st.integers(1, 7))
def test_the_rule_of_the_paper_merge_by_merge(seed, n, d, k):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, d)).astype(float)
    alpha = rng.integers(0, 3, size=n).astype(float)
    costs = reference.cost_matrix(X, alpha=alpha)
    result = dense_multicut(X, alpha=alpha, algorithm="dlaec", k=k)
    assert result.merges.tolist() == reference.lazy(costs, k)
    assert result.inside == result.merges["cost"].sum()


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, LARGEST))
def test_no_two_clusters_of_the_result_attract(seed, n):
    """A full neighbourhood is searched at the end, so the result is optimal under joins."""
    problem = DenseProblem(np.random.default_rng(seed).normal(size=(n, 3)), 0.3)
    for algorithm in ("dlaec", "dgaec-inc"):
        clusters = problem.contract(dense_multicut(problem, algorithm=algorithm).labels)
        if clusters.n > 1:
            assert nearest(clusters, 1).costs.max() <= 1e-9


@pytest.mark.large
def test_digits_as_published(digits):
    assert dense_multicut(digits, 0.2, algorithm="dlaec").inside == pytest.approx(42353.5, abs=0.1)
    assert dense_multicut(digits, 0.4, algorithm="dlaec").n_clusters == 53


@pytest.mark.parametrize("ann", ["hnsw", "ivf"])
def test_approximate_neighbours_are_items_with_their_costs(rng, ann):
    pytest.importorskip("faiss")
    problem = DenseProblem(
        rng.normal(size=(300, 5)).astype(np.float32), sample_weight=rng.random(300) + 0.5
    )
    found = approximate.approximate(problem, 4, ann)
    full = nearest(problem, 299)
    for i in range(300):
        held = found.costs[i] > -np.inf
        ids = found.ids[i][held]
        assert len(set(ids.tolist())) == len(ids)
        assert i not in ids
        costs = dict(zip(full.ids[i].tolist(), full.costs[i].tolist(), strict=True))
        np.testing.assert_allclose([costs[j] for j in ids.tolist()], found.costs[i][held], rtol=1e-12)
    assert np.mean(found.ids == full.ids[:, :4]) > 0.7


@pytest.mark.parametrize("ann", ["hnsw", "ivf"])
@pytest.mark.parametrize("n", [1, 2, 5, 300])
def test_duplicates_and_empty_slots_cost_nothing(n, ann):
    """All items equal: faiss leaves slots empty and repeats itself, the answer is one cluster."""
    pytest.importorskip("faiss")
    result = dense_multicut(np.ones((n, 3), dtype=np.float32), algorithm="dapplaec", ann=ann)
    assert result.n_clusters == 1
    assert result.inside == pytest.approx(n * (n - 1) / 2 * 2.6)


@pytest.mark.large
def test_dapplaec_is_close_to_dlaec_and_repeatable(digits):
    pytest.importorskip("faiss")
    X = digits.astype(np.float32)
    exact = dense_multicut(X, algorithm="dlaec")
    results = [dense_multicut(X, algorithm="dapplaec") for _ in range(2)]
    assert results[0].inside > 0.99 * exact.inside
    np.testing.assert_array_equal(results[0].merges, results[1].merges)


def test_an_approximate_search_that_finds_nothing_is_no_proof(rng, monkeypatch):
    pytest.importorskip("faiss")

    def nothing(problem, k, *_):
        return Neighbours(np.full((problem.n, k), -1), np.full((problem.n, k), -np.inf))

    X = rng.normal(size=(50, 3))
    monkeypatch.setattr("clusterfug.cpu.approximate", nothing)
    expected = dense_multicut(X, algorithm="dlaec").merges
    assert len(expected) > 0
    np.testing.assert_array_equal(dense_multicut(X, algorithm="dapplaec").merges, expected)


def test_without_faiss_one_line_names_the_extra(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    X = rng.normal(size=(20, 3))
    with pytest.raises(ImportError, match=r"pip install 'clusterfug\[ann\]'"):
        dense_multicut(X, algorithm="dapplaec")
    assert dense_multicut(X).algorithm == "auto"


def test_ann_goes_with_dapplaec(rng):
    with pytest.raises(ValueError, match="ann goes with dapplaec, not with dlaec"):
        dense_multicut(np.eye(3), algorithm="dlaec", ann="ivf")
    with pytest.raises(ValueError, match="unknown ann 'lsh': choose one of hnsw, ivf"):
        dense_multicut(np.eye(3), algorithm="dapplaec", ann="lsh")


def test_progress_of_lazy_contraction(rng, monkeypatch):
    monkeypatch.setattr("clusterfug.contraction.lazy._WORK", 10)
    seen = []
    dense_multicut(rng.normal(size=(60, 3)), algorithm="dlaec", callback=lambda *event: seen.append(event))
    done = [done for phase, done, total in seen if phase == "contraction" and total == 60]
    assert len(done) > 5
    assert done == sorted(done)
