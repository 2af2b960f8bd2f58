"""Graph problems: edges, sparse matrices, contraction, costs between groups."""

from fractions import Fraction

import numpy as np
import pytest
from makers import pair_costs, random_graph
from scipy import sparse

from clusterfug import lower_bound, multicut
from clusterfug.problems.graph import GraphProblem
from clusterfug.result import compact


def test_parallel_edges_add_in_either_direction():
    result = multicut([[0, 1], [1, 0], [1, 2]], [2.0, -3.0, 1.0])
    assert result.labels.tolist() == [0, 1, 1]
    assert (result.objective, result.inside) == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("costs", "error"),
    [([0.1, 0.2, -0.3], 2.0**-55), ([0.5, 0.5, -3.0], 0.0), ([-1.0, -(2.0**-53), 1.0], 2.0**-53)],
)
def test_bounds_know_the_rounding_of_sums_of_parallel_edges(costs, error):
    graph = GraphProblem([[0, 1], [1, 0], [0, 1]], costs)
    exact = sum(map(Fraction, costs))
    assert graph.parallel_error >= abs(graph.costs[0] - exact)
    assert graph.parallel_error == pytest.approx(error, abs=0)
    for method in ("trivial", "triangles"):
        assert lower_bound(graph, method=method).value <= min(exact, 0)


def test_isolated_nodes_are_singletons():
    assert multicut([[1, 3]], [1.0], n_nodes=6).labels.tolist() == [0, 1, 2, 1, 3, 4]
    assert multicut(np.empty((0, 2), dtype=int), [], n_nodes=3).n_clusters == 3


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.coo_matrix, sparse.lil_array, sparse.dok_array])
def test_sparse_matrices_are_symmetric_or_triangular(kind, rng):
    full = np.triu(rng.normal(size=(12, 12)) * (rng.random((12, 12)) < 0.5), 1)
    edges = np.argwhere(full)
    for algorithm in ("auto", "gaec"):
        expected = multicut(edges, full[full != 0], 12, algorithm=algorithm)
        for matrix in (full, full.T, full + full.T):
            result = multicut(kind(matrix), algorithm=algorithm)
            np.testing.assert_array_equal(result.labels, expected.labels)
            np.testing.assert_array_equal(result.merges, expected.merges)
            assert result.objective == pytest.approx(expected.objective, rel=1e-12)


def test_the_two_halves_of_a_symmetric_matrix_may_differ_by_rounding(rng):
    full = np.triu(rng.normal(size=(12, 12)), 1)
    full += full.T
    rounded = full.copy()
    upper = np.triu_indices(12, 1)
    rounded[upper] *= 1 + 2.0**-52
    expected, result = (multicut(sparse.csr_array(matrix)) for matrix in (full, rounded))
    np.testing.assert_array_equal(result.labels, expected.labels)
    assert result.objective == pytest.approx(expected.objective, rel=1e-14)
    rounded[0, 1] *= 1 + 1e-5
    with pytest.raises(ValueError, match=r"entries \(0, 1\) and \(1, 0\) differ"):
        multicut(sparse.csr_array(rounded))


def test_a_graph_problem_is_used_as_it_is():
    graph = GraphProblem([[0, 1], [1, 2]], [1.0, -1.0])
    assert multicut(graph).labels.tolist() == [0, 0, 1]
    assert graph.objective([0, 0, 1]) == -1.0
    with pytest.raises(ValueError, match="leave out costs and n_nodes"):
        multicut(graph, [1.0])


def test_the_objective_of_a_contracted_graph_is_that_of_its_nodes(rng):
    graph = random_graph(rng, 30, 0.4)
    labels = compact(rng.integers(0, 6, size=30))
    contracted = graph.contract(labels)
    joined = rng.integers(0, 3, size=contracted.n)
    assert contracted.inside(joined) + graph.inside(labels) == pytest.approx(graph.inside(joined[labels]))


@pytest.mark.kernels
def test_costs_between_groups_are_sums_over_edges(rng):
    graph = random_graph(rng, 12, 0.5)
    expected = np.zeros((12, 12))
    expected[tuple(graph.edges.T)] = graph.costs
    np.testing.assert_array_equal(pair_costs(graph), expected + expected.T)
    items, groups = np.arange(10), np.arange(10) // 3
    sums = np.add.reduceat(
        np.add.reduceat((expected + expected.T)[:10, :10], [0, 3, 6, 9]), [0, 3, 6, 9], 1
    )
    np.fill_diagonal(sums, 0)
    np.testing.assert_allclose(graph.group_costs(items, groups).costs, sums, atol=1e-12)


def test_closeness_falls_with_the_distance_and_is_0_beyond_a_few_edges():
    path = GraphProblem(np.stack([np.arange(7), np.arange(1, 8)], axis=1), np.ones(7))
    assert path.closeness(0).tolist() == [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 0, 0, 0]


@pytest.mark.parametrize("algorithm", ["fast", "auto", "best", "exact", "gaec"])
def test_nodes_without_edges_stay_alone(algorithm):
    edges, costs = [[3, 1], [3, 0], [2, 1], [0, 2], [1, 0]], [-2, 3, -4, 3, 3]
    options = {"max_iter": 3} if algorithm == "best" else {}
    result = multicut(edges, costs, 6, algorithm=algorithm, **options)
    assert np.count_nonzero(result.labels == result.labels[4]) == 1
    assert np.count_nonzero(result.labels == result.labels[5]) == 1
    assert result.n_clusters == result.trace[-1].n_clusters == int(result.labels.max()) + 1
    assert result.inside == GraphProblem(edges, costs, 6).inside(result.labels)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.float32])
def test_duplicate_entries_of_sparse_matrices_add_in_float64(dtype):
    cost = np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else 0.1
    matrix = sparse.coo_array((np.array([cost, cost], dtype), ([0, 0], [1, 1])), shape=(2, 2))
    assert GraphProblem(matrix).costs.tolist() == [2 * float(dtype(cost))]


def test_masked_edges_are_refused():
    with pytest.raises(TypeError, match="edges is a masked array"):
        multicut(np.ma.masked_array([[0, 1], [1, 2]], [[0, 0], [1, 1]]), [1.0, 1.0])


@pytest.mark.parametrize("algorithm", ["gaec", "fast", "auto", "best", "exact"])
def test_huge_costs_that_are_kept_do_not_change_the_objective(algorithm):
    """All pairs together cost 1e16 plus 0.5, which is 1e16 in float64."""
    result = multicut([[0, 1], [2, 3], [3, 4], [2, 4]], [1e16, 1.0, -1.5, 1.0], algorithm=algorithm)
    assert result.objective == result.trace[-1].objective == -0.5
