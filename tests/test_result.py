"""Results: the agreement of two clusterings."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from clusterfug.result import agreement


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), clusters=st.integers(1, 8))
def test_agreement_is_the_adjusted_rand_index(seed, n, clusters):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(clusters, size=n), rng.integers(clusters, size=n)
    b = np.where(rng.random(n) < 0.5, a, b)
    assert agreement(a, b) == pytest.approx(adjusted_rand_score(a, b))
    weight = rng.integers(0, 4, size=n)
    weight[0] += 2
    expected = adjusted_rand_score(np.repeat(a, weight), np.repeat(b, weight))
    assert agreement(a, b, weight.astype(float)) == pytest.approx(expected)


def test_agreement_of_trivial_clusterings():
    one, alone = np.zeros(9, dtype=np.int64), np.arange(9)
    assert agreement(one, one) == agreement(alone, alone) == agreement(one[:1], alone[:1]) == 1
    assert agreement(one, alone) == agreement(alone, one) == 0


@pytest.mark.parametrize("weight", [0.05, 0.3, 0.9])
def test_agreement_is_at_most_1_however_small_weights_are(rng, weight):
    for _ in range(20):
        a, b = rng.integers(4, size=(2, 30))
        assert agreement(a, b, np.full(30, weight)) <= 1 + 1e-9
        assert agreement(a, a, np.full(30, weight)) == pytest.approx(1)
