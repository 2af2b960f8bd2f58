"""The state of a part: its table of costs, moves, hill climbing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterfug.refinement.part import ALONE, make_part, move_node
from clusterfug.refinement.shake import restore
from clusterfug.result import compact


@pytest.mark.kernels
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 12))
def test_moves_update_the_table_and_can_be_reverted(seed, m):
    rng = np.random.default_rng(seed)
    costs = rng.integers(-3, 4, size=(m, m)).astype(float)
    costs = np.triu(costs, 1) + np.triu(costs, 1).T
    part = make_part(costs, compact(rng.integers(0, m, size=m)), 1e-9)
    before = part.labels.copy()
    for v in rng.integers(0, m, size=20):
        to = rng.choice([ALONE, part.labels[rng.integers(m)]])
        if to != part.labels[v] and not (to == ALONE and part.sizes[part.labels[v]] == 1):
            move_node(part, v, to)
        fresh = make_part(costs, part.labels, 1e-9)
        assert part.inside[0] == fresh.inside[0]
        assert sorted(part.sizes[part.sizes > 0]) == sorted(fresh.sizes[fresh.sizes > 0])
        for slot in np.unique(part.labels):
            assert part.table[slot].tolist() == costs[part.labels == slot].sum(axis=0).tolist()
    restore(part, before)
    assert part.labels.tolist() == before.tolist()
    assert part.inside[0] == make_part(costs, before, 1e-9).inside[0]
