"""Moves of single items on features."""

import numpy as np
import pytest
from makers import pair_costs
from reference import best_single_change

from clusterfug import DenseProblem, dense_multicut
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.feature_clusters import clusters_of
from clusterfug.refinement.feature_moves import move_to_best
from clusterfug.result import compact


@pytest.mark.kernels
def test_more_items_become_singletons_than_there_are_spare_slots():
    problem = DenseProblem(np.zeros((300, 1)), 0.1)  # all pairs repel
    labels, move_optimal = problem.move_items(np.zeros(300, dtype=np.int64), Budget())
    assert move_optimal
    assert len(np.unique(labels)) == 300


def test_large_clusters_in_float32_are_move_optimal_in_float64(rng):
    """Sums of many rows cancel, so that products in single precision do not decide moves."""
    X = 10 + 0.05 * rng.normal(size=(400, 3)).astype(np.float32)
    problem = DenseProblem(X.astype(np.float32), 300.0)
    costs = pair_costs(problem)
    labels = dense_multicut(problem, algorithm="fast").labels
    assert max(best_single_change(costs, labels)) <= 1e-9 * np.abs(costs).sum()


@pytest.mark.parametrize("scale", [1e14, 1e-14, 1.0])
def test_the_scale_of_the_features_changes_nothing(scale):
    X = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]]) * scale
    result = dense_multicut(DenseProblem(X, 0.4 * scale**2), algorithm="fast", init=[0, 1, 0, 1])
    assert result.labels.tolist() == [0, 0, 1, 1]


def test_light_items_beside_heavy_ones_are_moved():
    X = np.repeat(np.eye(2), 5, axis=0)
    weight = np.repeat([1e-6, 1e6], 5)
    result = dense_multicut(DenseProblem(X, 0.4, sample_weight=weight), algorithm="fast")
    assert result.labels.tolist() == [0] * 5 + [1] * 5


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(3))
def test_a_pass_from_singletons_improves(seed):
    problem = DenseProblem(np.random.default_rng(seed).normal(size=(25, 2)), 0.2)
    labels = problem.first_moves(problem.partners())
    assert sorted(set(labels.tolist())) == list(range(labels.max() + 1))
    assert problem.inside(labels) > 0


@pytest.mark.kernels
def test_moves_to_the_best_of_all_clusters_gain(rng):
    problem = DenseProblem(rng.normal(size=(20, 2)), 0.1)
    labels = compact(rng.integers(0, 5, 20))
    clusters = clusters_of(problem, labels)
    assert move_to_best(problem, clusters, np.arange(20), Budget()) > 0
    assert problem.inside(clusters.labels) > problem.inside(labels)


def test_without_time_no_item_moves(rng):
    problem = DenseProblem(rng.normal(size=(50, 3)), 0.3)
    labels = compact(rng.integers(0, 5, 50))
    found, move_optimal = problem.move_items(labels, Budget(0.0))
    assert not move_optimal
    assert found.tolist() == labels.tolist()
    result = dense_multicut(problem, algorithm="fast", time_limit=0)
    assert not result.trace[-1].move_optimal
    assert result.inside >= 0
