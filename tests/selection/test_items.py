"""Silhouettes and costs of a selection's items, against scikit-learn and the dense problem."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import around_axes, unit
from sklearn.metrics import silhouette_score

from clusterfug.costs.models import Auto
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import number_by_first_appearance
from clusterfug.selection.items import selection_items, silhouette


def items(X, weight=None):
    return selection_items(FeatureProblem(X, Auto(), weight), None)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(3, 30), clusters=st.integers(2, 6))
def test_silhouette_is_that_of_cosine_distances(seed, n, clusters):
    rng = np.random.default_rng(seed)
    X = unit(rng.normal(size=(n, 3)))
    X[rng.random(n) < 0.2] = X[0]  # duplicates
    labels = number_by_first_appearance(rng.integers(clusters, size=n))
    distances = np.maximum(1 - X @ X.T, 0)
    np.fill_diagonal(distances, 0)
    several = 1 < labels.max() + 1 < n
    expected = silhouette_score(distances, labels, metric="precomputed") if several else 0
    assert silhouette(items(X), labels) == pytest.approx(expected, abs=1e-6)


def test_singletons_and_one_cluster_have_silhouette_0(rng):
    X = unit(rng.normal(size=(12, 3)))
    assert silhouette(items(X), np.arange(12)) == 0
    assert silhouette(items(X), np.zeros(12, dtype=np.int64)) == 0
    assert silhouette(items(np.zeros((12, 3))), np.arange(12) % 2) == 0


def test_the_silhouette_of_rows_of_any_length_is_between_minus_1_and_1(rng):
    for _ in range(20):
        X = rng.normal(size=(15, 3)) * rng.uniform(0.1, 10, size=(15, 1))
        assert -1 <= silhouette(items(X), rng.permutation(np.arange(15) % 4)) <= 1


def test_silhouette_counts_weights_as_repetitions(rng):
    X, _ = around_axes(rng, 30, noise=0.5)
    labels, weight = np.arange(30) % 7, rng.integers(0, 4, size=30)
    repeated = items(np.repeat(X, weight, axis=0))
    expected = silhouette(repeated, np.repeat(labels, weight))
    assert silhouette(items(X, weight), labels) == pytest.approx(expected)


def test_singletons_have_silhouette_0_whatever_their_weight(rng):
    X, _ = around_axes(rng, 30, noise=0.5)
    assert silhouette(items(X, np.full(30, 3.0)), np.arange(30)) == 0


def test_clusters_of_weight_0_are_ignored(rng):
    X = unit(np.repeat([[1.0, 0], [-1, 0]], 6, axis=0) + 0.3 * rng.normal(size=(12, 2)))
    labels, weight = np.arange(12) // 6, np.ones(12)
    expected = silhouette(items(X), labels)
    assert expected == pytest.approx(silhouette_score(X, labels, metric="cosine"))
    X, labels = np.vstack([X, X[:2]]), np.append(labels, [2, 2])
    assert silhouette(items(X, np.append(weight, [0, 0])), labels) == pytest.approx(expected)


def test_the_silhouette_is_a_mean_over_a_sample_in_blocks(rng, monkeypatch):
    X, y = around_axes(rng, 31, noise=0.5)
    few = items(X)
    whole = silhouette(few, y)
    monkeypatch.setattr("clusterfug.selection.items._BLOCK_ENTRIES", 9)
    assert silhouette(few, y) == pytest.approx(whole)
    monkeypatch.setattr("clusterfug.selection.items._MAX_SAMPLE", 4)
    taken = 0

    def rows(some):
        nonlocal taken
        taken += len(some)
        return few.rows(some)

    assert silhouette(few._replace(rows=rows), y) == pytest.approx(whole, abs=0.5)
    assert taken == 4
