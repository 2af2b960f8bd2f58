"""The queue of keys against a plain array."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clusterfug.contraction.queue import largest_key, next_at, queue_of, set_key


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 700))
def test_the_largest_key_and_who_has_it(seed, n):
    rng = np.random.default_rng(seed)
    queue, plain = queue_of(n, 3.0), np.full(n, 3.0)
    for _ in range(60):
        u, key = int(rng.integers(n)), float(rng.choice([-np.inf, 0.0, 1.0, 2.0, 3.0]))
        set_key(queue, u, key)
        plain[u] = key
        top = plain.max()
        assert largest_key(queue) == top
        start = int(rng.integers(n))
        holders = np.flatnonzero(plain[start:] == top) + start
        assert next_at(queue, top, start) == (holders[0] if len(holders) else -1)
