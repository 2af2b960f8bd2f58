"""Assignment of items to the clusters with the most similar means."""

import numpy as np
import pytest

from clusterfug import DenseMulticut
from clusterfug.models import assignment
from clusterfug.models.assignment import cluster_means, most_similar


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cluster_means_are_weighted_means(rng, dtype):
    X = rng.normal(size=(30, 4)).astype(dtype)
    labels = np.append(np.arange(3), rng.integers(3, size=27))
    weight = rng.uniform(0.1, 2, size=30)
    means = cluster_means(X, labels, weight)
    assert means.dtype == dtype
    for c in range(3):
        expected = np.average(X[labels == c].astype(np.float64), axis=0, weights=weight[labels == c])
        np.testing.assert_allclose(means[c], expected, rtol=1e-6)


def test_the_most_similar_mean_has_the_largest_inner_product(rng, monkeypatch):
    monkeypatch.setattr(assignment, "_BLOCK_ENTRIES", 50)
    X, means = rng.normal(size=(30, 4)), rng.normal(size=(5, 4))
    expected = np.argmax(X @ means.T, axis=1)
    np.testing.assert_array_equal(most_similar(X, means), expected)
    some = rng.permutation(30)[:7]
    np.testing.assert_array_equal(most_similar(X, means, some), expected[some])


@pytest.mark.parametrize("scale", [1e-23, 1e-30, 1e15, 1e20, 1e30])
def test_products_beyond_the_range_of_float32_are_compared(rng, scale):
    X, means = (rng.normal(size=(n, 4)).astype(np.float32) for n in (30, 5))
    expected = most_similar(X, means)
    assert len(np.unique(expected)) == 5
    scaled = (X * scale).astype(np.float32), (means * scale).astype(np.float32)
    np.testing.assert_array_equal(most_similar(*scaled), expected)
    np.testing.assert_array_equal(most_similar(scaled[0], means), expected)


@pytest.mark.parametrize("scale", [1e-23, 1e20])
def test_new_and_weightless_rows_of_any_scale_are_assigned(rng, scale):
    X = (np.repeat(np.eye(3), 10, axis=0) + 0.05 * rng.normal(size=(30, 3))).astype(np.float32)
    weight = np.arange(30) % 10 != 7
    expected = np.repeat(np.arange(3), 10)
    for factor in (1, scale):
        model = DenseMulticut(0.5 * factor**2, metric="inner_product")
        scaled = (X * factor).astype(np.float32)
        np.testing.assert_array_equal(model.fit(scaled, sample_weight=weight).labels_, expected)
        np.testing.assert_array_equal(model.predict(scaled, nearest=True), expected)
