"""Exact search: the k best partners in float64, whatever the block sizes and however many ties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cost_matrix

from clusterfug import DenseProblem
from clusterfug.neighbours import exact


def naive(costs, k):
    """Per row the k largest costs, equal ones by the lower index."""
    n = len(costs)
    k = min(k, n - 1)
    ids = np.empty((n, k), dtype=np.int64)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        ids[i] = sorted(others, key=lambda j: (-costs[i, j], j))[:k]
    return ids, np.take_along_axis(costs, ids, axis=1)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60), k=st.integers(1, 70), values=st.integers(1, 3))
def test_ties_go_to_the_lowest_index(seed, n, k, values):
    X = np.random.default_rng(seed).integers(-values, values + 1, size=(n, 2)).astype(np.float32)
    found = exact.nearest(DenseProblem(X, 1.0), k)
    ids, costs = naive(cost_matrix(X, 1.0), k)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_array_equal(found.costs, costs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e25])
def test_blocks_and_scale_do_not_matter(rng, monkeypatch, dtype, scale):
    monkeypatch.setattr(exact, "_BLOCK", 7)
    monkeypatch.setattr(exact, "_WORK", 100)
    X = (rng.normal(size=(50, 4)) * scale).astype(dtype)
    found = exact.nearest(DenseProblem(X, 0.0), 3)
    ids, costs = naive(cost_matrix(X, 0.0), 3)
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.costs, costs, rtol=1e-9)


def test_near_ties_below_single_precision_are_told_apart():
    """The best partners differ by less than a float32 product shows, and come after all nominees."""
    n, ulp = 60, np.float32(2.0**-11)
    X = np.tile(np.array([4096, 4096, -8192], dtype=np.float32), (n, 1))
    X[0] = 1
    X[[55, 57], [0, 1]] += ulp
    assert len(set((X[1:] @ X[0]).tolist())) == 1  # invisible to the product
    found = exact.nearest(DenseProblem(X, 0.0), 3)
    assert found.ids[0].tolist() == [55, 57, 1]
    assert found.costs[0].tolist() == [ulp, ulp, 0]
    assert exact.nearest(DenseProblem(X, 0.0), 3, split=1).ids[0].tolist() == [55]


@pytest.mark.parametrize("seed", range(5))
def test_partners_that_rounding_mixes_up_are_put_in_order(seed):
    """200 items that differ in the last digits of float32: products cannot rank them."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=64) + 1e-6 * rng.normal(size=(200, 64))).astype(np.float32)
    problem = DenseProblem(X)
    found = exact.nearest(problem, 3)
    ids, costs = np.empty((200, 3), dtype=np.int64), np.empty((200, 3))
    exact.search(problem.rows, np.arange(200), ids, costs, 0)
    np.testing.assert_array_equal(found.ids, ids)


@pytest.mark.parametrize("split", [1, 3, 20, 39])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_partners_on_the_other_side(monkeypatch, rng, split, dtype):
    monkeypatch.setattr(exact, "_BLOCK", 8)
    X = rng.normal(size=(40, 3)).astype(dtype)
    costs = cost_matrix(X, 0.4)
    costs[:split, :split] = costs[split:, split:] = -np.inf
    found = exact.nearest(DenseProblem(X, 0.4), 4, split=split)
    ids, best = naive(costs, min(4, split, 40 - split))
    np.testing.assert_array_equal(found.ids, ids)
    np.testing.assert_allclose(found.costs, best, rtol=1e-6)


def test_equal_partners_on_the_other_side_by_index():
    """More than are nominated: rows are searched again, beyond the split only."""
    X = np.ones((50, 2), dtype=np.float32)
    for longer in (slice(0, 20), slice(20, 50)):  # those attract each other more
        X[:] = 1
        X[longer] = 2
        check_equal_partners(exact.nearest(DenseProblem(X), 2, split=20))


def check_equal_partners(found):
    assert (found.ids[:20] == [20, 21]).all()
    assert (found.ids[20:] == [0, 1]).all()


def test_progress_counts_pairs_to_the_end(rng, monkeypatch):
    monkeypatch.setattr(exact, "_BLOCK", 16)
    seen = []
    exact.nearest(DenseProblem(rng.normal(size=(40, 2))), 2, lambda *event: seen.append(event))
    assert seen == [("neighbours", 1024, 1600), ("neighbours", 1536, 1600), ("neighbours", 1600, 1600)]
