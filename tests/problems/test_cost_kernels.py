"""Kernels of the cost law that no test of a problem compares with a naive reference."""

import numpy as np
import pytest

from clusterfug.problems.cost_kernels import mean_rows


@pytest.mark.kernels
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mean_rows_are_weighted_means(rng, dtype):
    features, weight = rng.normal(size=(9, 3)).astype(dtype), rng.random(9) + 0.1
    items, starts = rng.permutation(9), np.array([0, 2, 9])
    means = np.empty((2, 3), dtype=dtype)
    mean_rows(features, weight, items, starts, means)
    expected = [np.average(features[i], axis=0, weights=weight[i]) for i in (items[:2], items[2:])]
    np.testing.assert_allclose(means, expected, rtol=1e-6)
