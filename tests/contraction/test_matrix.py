"""GAEC on a matrix of costs: the matrix itself, and the precision in which it is stored."""

import numpy as np
import pytest
from reference import cost_matrix, gaec

from clusterfug import DenseProblem, dense_multicut
from clusterfug.contraction import matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_matrix_has_all_costs_and_is_exactly_symmetric(rng, monkeypatch, dtype):
    monkeypatch.setattr(matrix, "_BLOCK", 30)
    monkeypatch.setattr(matrix, "_MAX_DOUBLE_ITEMS", 0)
    X = rng.normal(size=(100, 5)).astype(dtype)
    problem = DenseProblem(X, 0.4)
    costs = matrix.cost_matrix(problem)
    assert costs.dtype == dtype
    assert costs.nbytes == matrix.matrix_bytes(problem)
    np.testing.assert_array_equal(costs, costs.T)
    np.testing.assert_array_equal(costs.diagonal(), -np.inf)
    np.fill_diagonal(costs, 0)
    expected = cost_matrix(X, 0.4)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(costs, expected, atol=20 * np.finfo(dtype).eps)


def test_whole_costs_in_single_precision_have_the_merges_of_the_textbook(rng, monkeypatch):
    """Above a number of items, costs are stored in the precision of the features."""
    monkeypatch.setattr(matrix, "_MAX_DOUBLE_ITEMS", 0)
    X = rng.integers(-3, 4, size=(40, 5)).astype(np.float32)
    merges = dense_multicut(DenseProblem(X, 2.0), algorithm="gaec").merges
    assert merges.tolist() == gaec(cost_matrix(X, 2.0))


@pytest.mark.kernels
def test_progress_counts_merges(rng, monkeypatch):
    monkeypatch.setattr(matrix, "_WORK_PER_CALL", 10)
    seen = []
    merges = matrix.contract_matrix(
        matrix.cost_matrix(DenseProblem(rng.normal(size=(30, 3)), 0.4)), lambda *event: seen.append(event)
    )
    assert {(phase, total) for phase, _, total in seen} == {("contraction", 30)}
    done = [done for _, done, _ in seen]
    assert done == sorted(done)
    assert len(set(done)) > 5
    assert done[-1] == len(merges)


@pytest.mark.parametrize("weight", [1e39, 1e-50, 1.0])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_scales_beyond_single_precision_change_nothing(rng, weight, scale, monkeypatch):
    monkeypatch.setattr(matrix, "_MAX_DOUBLE_ITEMS", 0)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    expected = dense_multicut(DenseProblem(X, 0.5), algorithm="gaec").labels
    problem = DenseProblem(X * np.float32(scale), 0.5 * scale**2, sample_weight=np.full(60, weight))
    for algorithm in ("gaec", "dgaec", "dgaec-inc"):
        np.testing.assert_array_equal(dense_multicut(problem, algorithm=algorithm).labels, expected)
