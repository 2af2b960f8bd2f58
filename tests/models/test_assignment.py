"""Assignment of items to the clusters with the most similar means."""

import numpy as np
import pytest

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
