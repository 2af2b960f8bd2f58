"""Separation of star inequalities."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import symmetric

from clusterfug.exact.stars import violated_stars


@settings(max_examples=50)
@given(labels=st.lists(st.integers(0, 3), min_size=2, max_size=8), seed=st.integers(0, 99))
def test_clusterings_violate_no_star_and_violated_triangles_are_found(labels, seed):
    labels = np.array(labels)
    together = (labels[:, None] == labels).astype(float)
    assert violated_stars(together, set(), 10) == []
    n = len(labels)
    x = symmetric(n, np.random.default_rng(seed).uniform(size=n * (n - 1) // 2))
    broken = any(
        x[a, b] + x[b, c] - x[a, c] > 1.001 for a in range(n) for b in range(n) for c in range(n) if a != c
    )
    assert broken <= bool(violated_stars(x, set(), 10))
    for hub, *members in violated_stars(x, set(), 10):
        assert x[hub, members].sum() - x[np.ix_(members, members)].sum() / 2 > 1


@pytest.mark.kernels
def test_stars_are_distinct_new_and_at_most_as_many_as_asked_for(rng):
    x = symmetric(20, rng.uniform(size=190) ** 3)
    known = set(violated_stars(x, set(), 30))
    assert len(known) == 60  # triangles, and as many stars
    more = violated_stars(x, known, 30)
    assert len(set(more)) == len(more)
    assert not known & set(more)
    assert max(map(len, more)) > 3
