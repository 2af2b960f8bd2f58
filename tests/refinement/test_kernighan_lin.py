"""Kernighan-Lin leaves local optima that no single move leaves; no step of a part loses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import best_single_change

from clusterfug.refinement.kernighan_lin import kernighan_lin
from clusterfug.refinement.part import climb, make_part
from clusterfug.refinement.shake import shake
from clusterfug.result import number_by_first_appearance


def assert_no_step_loses(rng, m):
    costs = rng.normal(size=(m, m))
    costs = np.triu(costs, 1) + np.triu(costs, 1).T
    part = make_part(costs, rng.integers(0, m, size=m), 1e-9)
    inside = [part.inside[0]]
    for step in (lambda: climb(part, 0), lambda: kernighan_lin(part), lambda: shake(part, rng, 30)):
        step()
        inside.append(part.inside[0])
        assert make_part(costs, part.labels, 1e-9).inside[0] == pytest.approx(part.inside[0], abs=1e-9)
        assert best_single_change(costs, part.labels)[0] <= 1e-8
    assert np.all(np.diff(inside) >= -1e-8)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 14))
def test_climbing_kernighan_lin_and_shaking_never_lose(seed, m):
    assert_no_step_loses(np.random.default_rng(seed), m)


@pytest.mark.kernels
@pytest.mark.parametrize("seed", [0, 1, 12])  # with seed 12 climbing continues after a chain
def test_climbing_kernighan_lin_and_shaking_of_small_parts_never_lose(seed):
    assert_no_step_loses(np.random.default_rng(seed), 12)


@pytest.mark.kernels
def test_a_chain_splits_a_cluster_that_no_single_move_leaves():
    """Two triangles that attract inside and repel each other, in one cluster."""
    costs = np.full((6, 6), -1.0)
    costs[:3, :3] = costs[3:, 3:] = 2.0
    np.fill_diagonal(costs, 0.0)
    part = make_part(costs, np.zeros(6, dtype=np.int64), 1e-9)
    climb(part, 0)
    assert len(np.unique(part.labels)) == 1  # a node costs 4 to its triangle and -3 to the other
    kernighan_lin(part)
    assert number_by_first_appearance(part.labels).tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.kernels
def test_a_chain_exchanges_two_nodes():
    """No single move has a gain, the chain of two has."""
    costs = np.full((4, 4), -2.0)
    costs[0, 2] = costs[2, 0] = costs[1, 3] = costs[3, 1] = 3.0
    costs[0, 1] = costs[1, 0] = costs[2, 3] = costs[3, 2] = 2.0
    np.fill_diagonal(costs, 0.0)
    part = make_part(costs, np.array([0, 0, 1, 1]), 1e-9)
    kernighan_lin(part)
    assert part.inside[0] == 6.0


@pytest.mark.kernels
def test_a_chain_without_gain_ends_early_and_changes_nothing():
    part = make_part(np.ones((60, 60)) - np.eye(60), np.zeros(60, dtype=np.int64), 1e-9)
    kernighan_lin(part)
    assert set(part.labels.tolist()) == {0}
