"""Labels of a contraction history."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clusterfug.contraction.history import labels_of_merges
from clusterfug.result import MERGE, number_by_first_appearance


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30))
def test_labels_are_those_of_merging_sets(seed, n):
    rng = np.random.default_rng(seed)
    sets, merges = {i: [i] for i in range(n)}, []
    for _ in range(int(rng.integers(n))):
        i, j = sorted(rng.choice(list(sets), size=2, replace=False).tolist())
        sets[i] += sets.pop(j)
        merges.append((i, j, 1.0))
    expected = np.empty(n, dtype=np.int64)
    for i, items in sets.items():
        expected[items] = i
    labels = labels_of_merges(n, np.array(merges, dtype=MERGE))
    assert labels.tolist() == number_by_first_appearance(expected).tolist()
