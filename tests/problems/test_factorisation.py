"""Explicit cost matrices as features and a signature."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import pair_costs

from clusterfug import DenseProblem, dense_multicut


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 25), rank=st.integers(0, 4))
def test_any_symmetric_matrix_factorises(seed, n, rank):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n, rank))
    costs = (half * rng.choice([-1, 1], size=rank)) @ half.T
    problem = DenseProblem.from_costs(costs)
    pairs = np.triu_indices(n, 1)
    tolerance = 1e-10 * max(1, np.abs(costs).max())
    np.testing.assert_allclose(pair_costs(problem)[pairs], costs[pairs], atol=tolerance)
    if n > 4:  # then no entry of the diagonal is a thousand times the largest cost
        assert problem.d <= max(1, rank)


def test_a_matrix_that_is_not_square_symmetric_and_finite_is_an_error():
    with pytest.raises(ValueError, match="square"):
        DenseProblem.from_costs(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"symmetric: costs\[0, 1\] is 1 but costs\[1, 0\] is 2"):
        DenseProblem.from_costs([[0, 1], [2, 0]])
    with pytest.raises(ValueError, match="row 1"):
        DenseProblem.from_costs([[0, 1], [np.nan, 0]])


def test_the_diagonal_enters_no_cost():
    costs = np.array([[0.0, 1, -2], [1, 0, 3], [-2, 3, 0]])
    expected = dense_multicut(DenseProblem.from_costs(costs), algorithm="dgaec-inc").labels
    for diagonal in (1e18, -1e9, [0, 5, 1e20]):
        np.fill_diagonal(costs, diagonal)
        result = dense_multicut(DenseProblem.from_costs(costs), algorithm="dgaec-inc")
        np.testing.assert_array_equal(result.labels, expected)
        np.testing.assert_allclose(result.merges["cost"], [3])
    costs[0, 1] = 9
    with pytest.raises(ValueError, match="symmetric"):
        DenseProblem.from_costs(costs)
