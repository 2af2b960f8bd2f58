"""Dual ascent: which triangles a pair is in."""

import numpy as np
import pytest

from clusterfug.bounds.ascent import incidence


@pytest.mark.kernels
def test_a_pair_lists_the_triangles_that_raise_and_lower_it():
    given = incidence(np.zeros(5), np.array([[0, 1, 2], [3, 0, 1]], dtype=np.int32))
    found = [given.of[given.starts[e] : given.starts[e + 1]].tolist() for e in range(5)]
    assert found == [[0, ~1], [~0, ~1], [~0], [1], []]
