"""Groups of similar items."""

import numpy as np

from clusterfug import DenseProblem
from clusterfug.bounds.groups import groups_of


def test_groups_are_the_clusters_where_these_are_clear(rng):
    X = np.repeat(np.eye(4), 50, axis=0) + 0.01 * rng.normal(size=(200, 4))
    order = rng.permutation(200)
    groups = groups_of(DenseProblem(X[order], 0.4), 60)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(200))
    assert sorted(map(len, groups)) == [50] * 4
    assert all(len(set((order[group] // 50).tolist())) == 1 for group in groups)


def test_equal_items_are_divided_into_groups_of_about_equal_size():
    groups = groups_of(DenseProblem(np.ones((10, 3)), 0.4), 3)
    assert [len(group) for group in groups] == [2, 3, 2, 3]
