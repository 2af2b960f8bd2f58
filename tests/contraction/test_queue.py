"""The queue of nodes against a plain array."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterfug.contraction.queue import first_with_key, largest_key, set_key, uniform_queue


@pytest.mark.kernels
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 700))
def test_the_largest_key_and_the_first_node_that_has_it(seed, n):
    rng = np.random.default_rng(seed)
    queue, keys = uniform_queue(n, 3.0), np.full(n, 3.0)
    for _ in range(30):
        u, key = int(rng.integers(n)), float(rng.choice([-np.inf, 0.0, 1.0, 2.0, 3.0]))
        set_key(queue, u, key)
        keys[u] = key
        top = keys.max()
        assert largest_key(queue) == top
        start = int(rng.integers(n))
        nodes = np.flatnonzero(keys[start:] == top) + start
        assert first_with_key(queue, top, start) == (nodes[0] if len(nodes) else -1)


@pytest.mark.kernels
def test_blocks_without_the_largest_key_are_skipped():
    queue = uniform_queue(700, 0.0)
    set_key(queue, 600, 1.0)
    assert first_with_key(queue, 1.0, 0) == 600
    assert first_with_key(queue, 1.0, 601) == -1
