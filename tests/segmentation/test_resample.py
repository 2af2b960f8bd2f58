"""Resampling agrees with its definition, pixel by pixel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import interpolation

from clusterfug.segmentation.resample import axis, interpolate, resize_bilinear, resize_nearest


@pytest.mark.kernels
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_interpolation_is_bilinear(h, w, height, width, seed):
    features = np.random.default_rng(seed).normal(size=(h, w, 3)).astype(np.float32)
    rows, columns = np.nonzero(np.ones((height, width)))
    out = np.zeros((height * width, 4), dtype=np.float32)
    interpolate(features, axis(h, height), axis(w, width), rows, columns, out)
    expected = interpolation(features, (height, width))
    np.testing.assert_allclose(out[:, :3].reshape(height, width, 3), expected, atol=1e-5)
    np.testing.assert_allclose(
        resize_bilinear(features[:, :, 0], (height, width)), expected[:, :, 0], atol=1e-5
    )


def test_maps_grow_by_repetition_and_shrink_to_centres():
    small = np.array([[1, 2], [3, 4]])
    np.testing.assert_array_equal(resize_nearest(small, (4, 6)), np.kron(small, np.ones((2, 3), dtype=int)))
    np.testing.assert_array_equal(resize_nearest(resize_nearest(small, (6, 6)), (2, 2)), small)
