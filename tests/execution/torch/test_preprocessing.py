"""Preprocessing of tensors: the same as that of arrays, and the same clusters."""

import numpy as np
import pytest
import torch
from makers import around_axes

from clusterfug import dense_multicut
from clusterfug.costs.preprocessing import Preprocessing, mean_feature, prepare
from clusterfug.execution.torch import preprocessing as gpu


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "inner_product"])
@pytest.mark.parametrize("weight", [None, np.arange(60) % 4.0])
def test_tensors_are_preprocessed_as_arrays_are(backend, rng, monkeypatch, metric, center, weight):
    monkeypatch.setattr(gpu, "_BLOCK_ENTRIES", 50)  # in several blocks
    X = rng.normal(size=(60, 5)) * rng.uniform(1e-3, 1e3, size=(60, 1)) + 2.0
    X[7] = 0
    there = torch.tensor(X, device=backend)
    found, mean = gpu.prepare_tensor(there, Preprocessing(metric, center), weight)
    expected_mean = mean_feature(X, weight) if center else None
    expected = prepare(X, metric, expected_mean)
    np.testing.assert_allclose(found.cpu().numpy(), expected, rtol=1e-12, atol=1e-12)
    assert (mean is None) == (expected_mean is None)
    if mean is not None:
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-12)
    assert torch.equal(there.cpu(), torch.tensor(X))  # not written to


def test_rows_equal_to_the_mean_become_zero(backend):
    X = torch.full((6, 3), 0.1, dtype=torch.float64, device=backend)
    found, _ = gpu.prepare_tensor(X, Preprocessing("cosine", True), None)
    assert not found.any()


def test_centring_may_leave_the_range_of_float32(backend):
    X = torch.full((5, 3), 3e38, device=backend)
    X[0] *= -1
    found, _ = gpu.prepare_tensor(X, Preprocessing("inner_product", True), None)
    assert torch.isfinite(found).all()


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e200])
def test_bad_values_are_found_before_rows_are_scaled(backend, value):
    X = torch.eye(4, dtype=torch.float64, device=backend)
    X[2, 1] = value
    with pytest.raises(ValueError, match="row 2, column 1"):
        gpu.prepare_tensor(X, Preprocessing("cosine"), None)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "bool"])
def test_results_are_at_least_float32(backend, rng, dtype):
    X = torch.tensor(rng.integers(0, 2, size=(20, 4))).to(getattr(torch, dtype)).to(backend)
    found, _ = gpu.prepare_tensor(X, Preprocessing("cosine"), None)
    assert found.dtype == (torch.float64 if dtype == "float64" else torch.float32)


def test_tensors_and_arrays_have_the_same_default_clusters(backend, rng):
    X, _ = around_axes(rng, 60)
    X *= rng.uniform(0.5, 5, size=(60, 1))
    for options in ({}, {"center": True}, {"threshold": 0.3}):
        expected = dense_multicut(X, algorithm="fast", **options)
        found = dense_multicut(torch.tensor(X, device=backend), device=backend, algorithm="fast", **options)
        np.testing.assert_array_equal(found.labels, expected.labels)
        assert found.objective == pytest.approx(expected.objective)
        assert found.preprocessing == expected.preprocessing
        assert type(found.costs) is type(expected.costs)
