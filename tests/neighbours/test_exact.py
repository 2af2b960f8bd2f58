"""Exact search finds the k best partners in float64 for any block size, with any ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import best_partners, cost_matrix

from clusterfug import DenseProblem
from clusterfug.neighbours import exact


def assert_best_partners(X, k):
    found = exact.exact_neighbours(DenseProblem(X, 1.0), k)
    ids, costs = best_partners(cost_matrix(X, 1.0), k)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.costs, costs)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60), k=st.integers(1, 70), values=st.integers(1, 3))
def test_ties_go_to_the_lowest_index(seed, n, k, values):
    rng = np.random.default_rng(seed)
    assert_best_partners(rng.integers(-values, values + 1, size=(n, 2)).astype(np.float32), k)


@pytest.mark.kernels
def test_ties_of_small_problems_go_to_the_lowest_index(rng, monkeypatch):
    monkeypatch.setattr(exact, "_BLOCK", 16)
    assert_best_partners(rng.integers(-1, 2, size=(40, 2)).astype(np.float32), 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e25])
def test_the_result_does_not_depend_on_blocks_and_scale(rng, monkeypatch, dtype, scale):
    monkeypatch.setattr(exact, "_BLOCK", 7)
    monkeypatch.setattr(exact, "_WORK_PER_CALL", 100)
    X = (rng.normal(size=(50, 4)) * scale).astype(dtype)
    found = exact.exact_neighbours(DenseProblem(X, 0.0), 3)
    ids, costs = best_partners(cost_matrix(X, 0.0), 3)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.costs, costs, rtol=1e-9)


def test_differences_below_single_precision_are_seen():
    """The best partners differ by less than a float32 product shows, and come after all candidates."""
    n, ulp = 60, np.float32(2.0**-11)
    X = np.tile(np.array([4096, 4096, -8192], dtype=np.float32), (n, 1))
    X[0] = 1
    X[[55, 57], [0, 1]] += ulp
    assert len(set((X[1:] @ X[0]).tolist())) == 1  # not visible in the product
    problem = DenseProblem(X, 0.0)
    found = exact.exact_neighbours(problem, 3)
    assert found.ids[0].tolist() == [55, 57, 1]
    assert found.costs[0].tolist() == [ulp, ulp, 0]
    assert exact.exact_neighbours(problem, 3, split=1).ids[0].tolist() == [55]


@pytest.mark.parametrize("seed", range(5))
def test_partners_that_a_float32_product_cannot_rank_are_in_order(seed):
    """200 items differ in the last digits of float32."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=64) + 1e-6 * rng.normal(size=(200, 64))).astype(np.float32)
    problem = DenseProblem(X, 0.4)
    found = exact.exact_neighbours(problem, 3)
    ids, costs = np.empty((200, 3), dtype=np.int64), np.empty((200, 3))
    exact.search_items(problem.rows, np.arange(200), ids, costs, 0)
    np.testing.assert_array_equal(found.ids, ids)


@pytest.mark.parametrize("split", [1, 3, 20, 39])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_partners_are_on_the_other_side_of_a_split(monkeypatch, rng, split, dtype):
    monkeypatch.setattr(exact, "_BLOCK", 8)
    X = rng.normal(size=(40, 3)).astype(dtype)
    costs = cost_matrix(X, 0.4)
    costs[:split, :split] = costs[split:, split:] = -np.inf
    found = exact.exact_neighbours(DenseProblem(X, 0.4), 4, split=split)
    ids, best = best_partners(costs, min(4, split, 40 - split))
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.costs, best, rtol=1e-6)


@pytest.mark.parametrize("longer", [slice(0, 20), slice(20, 50)])
def test_ties_beyond_a_split_go_to_the_lowest_index(longer):
    """There are more equal partners than candidates, and items on the same side attract each other more."""
    X = np.ones((50, 2), dtype=np.float32)
    X[longer] = 2
    found = exact.exact_neighbours(DenseProblem(X, 0.4), 2, split=20)
    assert (found.ids[:20] == [20, 21]).all()
    assert (found.ids[20:] == [0, 1]).all()


def test_progress_counts_all_pairs(rng, monkeypatch):
    monkeypatch.setattr(exact, "_BLOCK", 16)
    seen = []
    exact.exact_neighbours(
        DenseProblem(rng.normal(size=(40, 2)), 0.4), 2, lambda *event: seen.append(event)
    )
    assert seen == [("neighbours", 1024, 1600), ("neighbours", 1536, 1600), ("neighbours", 1600, 1600)]
