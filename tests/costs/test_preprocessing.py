"""Preprocessing: centring, scaling to length 1, and features that share a common part."""

import numpy as np
import pytest
from makers import unit

from clusterfug import DenseMulticut, Preprocessing
from clusterfug.costs import preprocessing
from clusterfug.costs.preprocessing import AS_GIVEN, mean_feature, prepare, share_common_part


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_centred_and_scaled_block_by_block(rng, dtype, weighted, monkeypatch):
    monkeypatch.setattr(preprocessing, "_BLOCK_BYTES", 200)
    X = (rng.normal(size=(40, 3)) + 1).astype(dtype)
    weight = rng.uniform(size=40) if weighted else None
    mean = mean_feature(X, weight)
    np.testing.assert_allclose(mean, np.average(X.astype(np.float64), axis=0, weights=weight))
    assert prepare(X, "inner_product") is X
    tolerance = {"rtol": 1e-6 if dtype == np.float32 else 1e-12}
    exact = X.astype(np.float64)
    np.testing.assert_allclose(prepare(X, "cosine"), unit(exact), **tolerance)
    np.testing.assert_allclose(prepare(X, "cosine", mean), unit(exact - mean), rtol=1e-5)
    np.testing.assert_allclose(prepare(X, "inner_product", mean), exact - mean, rtol=1e-5)
    assert prepare(X, "cosine").dtype == dtype


def test_extreme_lengths_are_normalised(rng):
    X = rng.normal(size=(30, 3))
    expected = DenseMulticut().fit_predict(X)
    for scale in (1e-200, 1e140):
        np.testing.assert_array_equal(DenseMulticut().fit_predict(X * scale), expected)


@pytest.mark.parametrize("value", [0.1, 0.3, 1.0, 1e10])
def test_rows_equal_to_the_mean_are_zero_when_centred(value):
    assert DenseMulticut(center=True).fit(np.full((6, 4), value)).n_clusters_ == 6
    assert DenseMulticut(center=True).fit(np.full((7, 4), value, dtype=np.float32)).n_clusters_ == 7


@pytest.mark.parametrize("metric", ["cosine", "inner_product"])
def test_centring_may_leave_the_range_of_float32(metric):
    X = np.full((5, 3), 3e38, dtype=np.float32)
    X[0] *= -1
    centred = prepare(X, metric, mean_feature(X))
    assert np.isfinite(centred).all()
    assert DenseMulticut(0.5, center=True, metric=metric).fit_predict(X).tolist() == [0, 1, 1, 1, 1]


def test_features_with_an_offset_share_a_common_part(rng):
    X = rng.normal(size=(50, 4))
    assert not share_common_part(X)
    assert share_common_part(X + 5)
    assert not share_common_part(np.ones((50, 4)))  # copies of one row
    weight = np.zeros(50)
    weight[:5] = 1
    assert share_common_part(np.where(np.arange(50)[:, None] < 5, X + 5, X), weight)


def test_preprocessing_is_checked():
    assert AS_GIVEN.is_identity
    assert not Preprocessing().is_identity
    assert not Preprocessing("inner_product", True).is_identity
    with pytest.raises(ValueError, match="unknown metric 'euclid': choose one of cosine, inner_product"):
        Preprocessing("euclid")
    with pytest.raises(TypeError, match="center must be True or False, not 1"):
        Preprocessing(center=1)
