"""Perturbations of a part."""

import numpy as np
import pytest

from clusterfug.refinement.part import make_part
from clusterfug.refinement.shake import split


@pytest.mark.kernels
def test_a_split_moves_a_limited_number_of_nodes(rng):
    """Two halves of 150 nodes that attract inside, in one cluster: part of one half is moved."""
    half = np.arange(300) < 150
    costs = np.where(half[:, None] == half, 1.0, -1.0)
    np.fill_diagonal(costs, 0.0)
    part = make_part(costs, np.zeros(300, dtype=np.int64), 1e-9)
    split(part, rng, 0)
    moved = part.labels != part.labels[0]
    assert 1 < moved.sum() <= 129
    assert not (moved & half).any()
