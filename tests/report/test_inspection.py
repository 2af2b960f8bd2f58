"""Inspections agree with direct computations."""

import numpy as np
import pytest

from clusterfug.report.inspection import inspect


def test_all_pairs_of_a_small_set(rng):
    X = rng.normal(size=(40, 3)) + 2
    X[5] = X[3]
    X[7] = 0
    found = inspect(X)
    norms = np.linalg.norm(X, axis=1)
    assert (found.n, found.d, found.dtype, found.zero_rows, found.duplicates) == (40, 3, "float64", 1, 1)
    assert (found.norm_min, found.norm_max) == pytest.approx((0, norms.max()))
    assert found.norm_mean == pytest.approx(norms.mean())
    unit = np.divide(X, norms[:, None], out=np.zeros_like(X), where=norms[:, None] > 0)
    pairs = (unit @ unit.T)[np.triu_indices(40, 1)]
    present = unit[norms > 0]
    assert found.mean_cosine == pytest.approx((present @ present.T)[np.triu_indices(39, 1)].mean())
    assert found.pairs == 780
    for q, value in found.quantiles.items():
        assert value == pytest.approx(np.quantile(pairs, q), abs=1e-12)
    for t, share in found.attracting.items():
        assert share == pytest.approx(np.mean(pairs > t))
    assert len(found.advice) == 3
    assert "--center" in found.advice[0]


def test_centring_and_metric(rng):
    X = rng.normal(size=(30, 4)) + 3
    centred = X - X.mean(axis=0)
    pairs = (centred @ centred.T)[np.triu_indices(30, 1)]
    found = inspect(X, "inner_product", center=True)
    assert found.quantiles[0.5] == pytest.approx(np.median(pairs))
    assert found.advice == ()  # the mean cosine is high, but --center is on already
    assert inspect(X).quantiles[0.5] > 0.5


def test_a_sample_of_many_pairs_is_repeatable_and_close(rng):
    X = rng.normal(size=(1000, 3))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    share = np.mean((unit @ unit.T)[np.triu_indices(1000, 1)] > 0.5)
    found = inspect(X)
    assert found == inspect(X)
    assert found.pairs == 200_000
    assert found.attracting[0.5] == pytest.approx(share, abs=0.01)
    assert inspect(X, random_state=1).quantiles != found.quantiles


def test_one_item_has_no_pairs():
    found = inspect(np.ones((1, 2)))
    assert (found.pairs, found.quantiles, found.attracting) == (0, {}, {})


def test_zero_and_negative_zero_are_the_same():
    assert inspect(np.array([[0.0, 1.0], [-0.0, 1.0]])).duplicates == 1


def test_zero_rows_are_no_duplicates_and_tiny_rows_are_not_zero():
    found = inspect(np.zeros((5, 2)))
    assert (found.zero_rows, found.duplicates, len(found.advice)) == (5, 0, 1)
    found = inspect(np.eye(3) * 1e-170)
    assert (found.zero_rows, found.duplicates) == (0, 0)
