"""Branch and cut: the bound of a box."""

import math

import numpy as np
import pytest
from makers import symmetric
from reference import optimum

from clusterfug.exact import branch


@pytest.mark.parametrize("integer", [False, True])
def test_the_bound_of_a_box_is_never_below_the_optimum(integer, monkeypatch):
    monkeypatch.setattr(branch, "kernighan_lin", lambda part: None)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        costs = symmetric(7, rng.choice([1.0, -1.0], size=21) if integer else rng.normal(size=21))
        search = branch.BranchAndCut(costs, integer=integer)
        search.consider(np.arange(7))
        search.consider = lambda labels: None  # nothing better is ever found
        most, boxes = search._explore(search.most, (np.zeros(21), np.ones(21)), None)
        assert boxes
        assert most >= math.fsum([*np.triu(costs, 1).ravel(), -optimum(costs)])


def test_what_follows_from_fixed_pairs_is_fixed():
    search = branch.BranchAndCut(symmetric(4, 1.0), integer=True)
    i, j = search._i, search._j
    lower, upper = np.zeros(6), np.ones(6)
    lower[(i == 0) & (j == 1)] = 1  # 0 and 1 are together, 1 and 2 are cut
    upper[(i == 1) & (j == 2)] = 0
    fixed_lower, fixed_upper = search._propagated(lower, upper)
    np.testing.assert_array_equal(fixed_lower, lower)
    assert fixed_upper[(i == 0) & (j == 2)] == 0  # so 0 and 2 are cut
    assert fixed_upper.sum() == 4
    lower[(i == 0) & (j == 2)] = 1
    assert search._propagated(lower, upper) is None
