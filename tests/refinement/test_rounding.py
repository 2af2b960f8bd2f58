"""Gains that are rounding errors do not count, gains that are not do, however unequal items are."""

import numpy as np
import pytest
from makers import uneven_problem
from reference import assert_locally_optimal

from clusterfug import DenseProblem, dense_multicut, multicut
from clusterfug.problems.graph import GraphProblem
from clusterfug.problems.protocol import GAIN_TOLERANCE
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.feature_clusters import clusters_of
from clusterfug.refinement.feature_moves import feature_moves, negligible_gains
from clusterfug.refinement.multilevel import refine
from clusterfug.result import compact

ALGORITHMS = [{"algorithm": name} for name in ("fast", "auto", "exact")]
ALGORITHMS.append({"algorithm": "best", "max_iter": 3})


@pytest.mark.kernels
@pytest.mark.parametrize("options", ALGORITHMS, ids=lambda options: options["algorithm"])
@pytest.mark.parametrize(
    ("X", "threshold", "weight"),
    [
        ([[1.2], [1.2]], 1.44, [0.49, 1.6]),
        (np.outer([1, 1, 1, 1, -1, -1], [0.3, 0.7]), 0.58, [0.7, 1.3, 0.9, 1.1, 1.7, 0.3]),
        ([[2e-60], [1e-60]], 0.0, [0, 1]),
    ],
    ids=["two equal", "six on a line", "tiny"],
)
def test_costs_that_are_rounding_errors_do_not_make_a_search_endless(options, X, threshold, weight):
    for metric in ("inner_product", "cosine"):
        result = dense_multicut(X, threshold, sample_weight=weight, metric=metric, **options)
        assert result.trace[-1].move_optimal
        assert result.trace[-1].join_optimal


@pytest.mark.kernels
def test_kernighan_lin_ends_where_a_product_of_costs_is_not_symmetric():
    """`group_costs` is symmetric to the last bit, and its tolerance follows the terms, not their sum."""
    problem = DenseProblem([[1.2], [1.2]], 1.44, sample_weight=[0.49, 1.6])
    costs = problem.group_costs(np.arange(2), np.arange(2))
    np.testing.assert_array_equal(costs.costs, costs.costs.T)
    assert costs.tolerance > np.abs(costs.costs).max()


@pytest.mark.filterwarnings("ignore:one cluster holds all items")
@pytest.mark.parametrize("zeros", [2, 3])
@pytest.mark.parametrize("threshold", [-1e-30, 4e-31])
def test_tiny_costs_of_zero_rows_count(zeros, threshold):
    """Beside rows of length 3 the costs of rows of zeros, minus the threshold, look like rounding."""
    X = np.float32([[0, 0]] * zeros + [[3, 0]] * 2)
    for init in (None, np.arange(len(X)), np.array([0] * zeros + [1, 1])):
        result = dense_multicut(X, threshold, metric="inner_product", algorithm="fast", init=init)
        assert result.n_clusters == (1 if threshold < 0 else zeros + 1)
        assert result.trace[-1].move_optimal


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(40))
def test_negligible_gains_are_below_the_tolerance_of_every_move(seed):
    problem = uneven_problem(seed)
    labels = compact(np.random.default_rng(seed).integers(4, size=problem.n))
    clusters = clusters_of(problem, labels)
    terms = np.array(
        [problem.pair_terms(np.full(problem.n, i), np.arange(problem.n)) for i in range(problem.n)]
    )
    np.fill_diagonal(terms, 0.0)
    of_cluster = terms @ np.eye(labels.max() + 1)[labels]
    of_rest = of_cluster[np.arange(problem.n), labels]
    of_cluster[np.arange(problem.n), labels] = np.where(np.bincount(labels)[labels] > 1, 0.0, np.inf)
    least = GAIN_TOLERANCE * (of_rest + of_cluster.min(axis=1, initial=np.inf))
    assert np.all(negligible_gains(problem, clusters) <= least)


def test_equal_rows_at_a_threshold_of_their_length_have_no_close_calls(rng, monkeypatch):
    """All costs of equal rows are rounding errors, which no pass over all clusters has to tell."""
    X = np.repeat(rng.normal(size=(20, 16)), 4, axis=0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    monkeypatch.setattr("clusterfug.refinement.feature_moves.close_call_pass", None)
    result = dense_multicut(X, 1.0, metric="inner_product", algorithm="fast")
    assert result.trace[-1].move_optimal
    assert result.inside == pytest.approx(0, abs=1e-12)


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(150))
def test_certificates_hold_however_unequal_items_are(seed):
    problem = uneven_problem(seed)
    weighted = np.flatnonzero(problem.rows.weight)
    problem = problem.subset(weighted)
    start = np.random.default_rng(seed).integers(0, 3, size=problem.n)
    labels, move_optimal = feature_moves(problem, np.unique(start, return_inverse=True)[1], Budget())
    assert move_optimal
    assert_locally_optimal(problem, labels, joins=False)
    refined = refine(problem, labels, Budget())
    assert refined.move_optimal
    assert refined.join_optimal
    assert_locally_optimal(problem, refined.labels)


def test_a_long_row_does_not_hide_the_gains_of_its_own_moves():
    """The cost of the long row to itself is 1e16; less than 1 of its cost to the others would be left."""
    X = np.array([[1e8, 0.3], [0, -1e-8], [0, 2e-8], [-1e8, 1e-8]])
    labels, move_optimal = feature_moves(DenseProblem(X, 0.0), np.array([0, 0, 1, 2]), Budget())
    assert move_optimal
    assert_locally_optimal(DenseProblem(X, 0.0), labels, joins=False)
    assert labels[0] == labels[2] != labels[1]


@pytest.mark.parametrize("algorithm", ["fast", "auto", "exact"])
@pytest.mark.parametrize("seed", range(40))
def test_certificates_of_graphs_hold_however_unequal_costs_are(seed, algorithm):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 10))
    edges = np.argwhere(np.triu(rng.random((n, n)) < 0.7, 1))
    costs = rng.choice([-1, 1], size=len(edges)) * 10.0 ** rng.integers(-30, 30, size=len(edges))
    result = multicut(edges, costs, n, algorithm=algorithm)
    assert result.trace[-1].move_optimal
    matrix = np.zeros((n, n))
    matrix[tuple(edges.T)] = costs
    matrix += matrix.T
    to_clusters = matrix @ np.eye(n)[result.labels]
    magnitude = np.abs(matrix) @ np.eye(n)[result.labels]
    stay, of_stay = (of[np.arange(n), result.labels][:, None] for of in (to_clusters, magnitude))
    away = np.arange(n) != result.labels[:, None]
    assert np.all((to_clusters - stay <= 1e-11 * (magnitude + of_stay)) | ~away)


def test_the_node_of_a_graph_with_a_huge_edge_elsewhere_moves_for_a_small_gain():
    graph = GraphProblem([[0, 1], [0, 2], [1, 2]], [-1e28, 1e9, -1.0], 3)
    labels, move_optimal = graph.move_items(np.array([0, 1, 2]), Budget())
    assert move_optimal
    assert labels[0] == labels[2] != labels[1]
