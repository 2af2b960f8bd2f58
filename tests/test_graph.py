"""GAEC on explicit graphs."""

import numpy as np
import pytest
import reference
from conftest import INTERPRETED
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from clusterfug import multicut
from clusterfug.contraction import gaec as gaec_module
from clusterfug.problems.graph import GraphProblem


def full_matrix(edges, costs, n):
    full = np.zeros((n, n))
    for (i, j), cost in zip(edges, costs, strict=True):
        full[i, j] += cost
        full[j, i] += cost
    return full


@st.composite
def graphs(draw, integers):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(2, 12 if INTERPRETED else 60))
    m = draw(st.integers(1, 4 * n))
    edges = rng.integers(0, n, size=(m, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    costs = rng.integers(-3, 5, size=len(edges)) if integers else rng.normal(0.3, 1, size=len(edges))
    return edges, costs.astype(np.float64), n


@settings(max_examples=300 if not INTERPRETED else 20)
@given(graph=graphs(integers=True))
def test_ties_agree_merge_by_merge(graph):
    edges, costs, n = graph
    # A missing edge costs nothing and zero merges nothing, so the full matrix is the same problem.
    expected = reference.gaec(full_matrix(edges, costs, n))
    result = multicut(edges, costs, n, algorithm="gaec")
    assert result.merges.tolist() == expected
    assert result.objective == reference.objective(full_matrix(edges, costs, n), result.labels)


@given(graph=graphs(integers=False))
def test_every_merge_takes_the_largest_cost(graph):
    edges, costs, n = graph
    merges = multicut(edges, costs, n, algorithm="gaec").merges
    reference.assert_greedy(full_matrix(edges, costs, n), merges)


def test_the_heap_grows_when_it_must(rng, monkeypatch):
    """A heap with room for little more than its first entries gives the same merges."""
    edges = rng.integers(0, 40, size=(300, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    costs = rng.integers(-1, 3, size=len(edges)).astype(float)
    expected = multicut(edges, costs, algorithm="gaec").merges
    make = gaec_module._heap
    monkeypatch.setattr(gaec_module, "_heap", lambda size: make(size - 40))
    monkeypatch.setattr(gaec_module, "_WORK", 10)
    np.testing.assert_array_equal(multicut(edges, costs, algorithm="gaec").merges, expected)


@pytest.mark.large
@pytest.mark.parametrize("ties", [False, True])
def test_a_hub_that_keeps_getting_a_lower_name(ties, monkeypatch):
    """A star whose hub has the highest number absorbs its leaves from the top down."""
    n = 3000
    edges = np.stack([np.arange(n), np.full(n, n)], axis=1)
    costs = np.ones(n) if ties else np.arange(1.0, n + 1)
    sizes = []
    grown = gaec_module._grown
    monkeypatch.setattr(gaec_module, "_grown", lambda *a: sizes.append(len(grown(*a).costs)) or grown(*a))
    merges = multicut(edges, costs, algorithm="gaec").merges
    order = np.arange(n) if ties else np.arange(n)[::-1]
    np.testing.assert_array_equal(merges["cost"], costs[order])
    np.testing.assert_array_equal(
        np.maximum(merges["i"], merges["j"]), np.append(n, order[1:] if ties else order[:-1])
    )
    assert max(sizes, default=0) < 20 * n  # the heap does not fill with old entries


def test_parallel_edges_add_in_either_direction():
    result = multicut([[0, 1], [1, 0], [1, 2]], [2.0, -3.0, 1.0])
    assert result.labels.tolist() == [0, 1, 1]
    assert (result.objective, result.inside) == (-1.0, 1.0)


def test_isolated_nodes_stay_alone():
    assert multicut([[1, 3]], [1.0], n_nodes=6).labels.tolist() == [0, 1, 2, 1, 3, 4]
    assert multicut(np.empty((0, 2), dtype=int), [], n_nodes=3).n_clusters == 3


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.coo_matrix, sparse.lil_array, sparse.dok_array])
def test_sparse_matrices_symmetric_or_triangular(kind, rng):
    full = np.triu(rng.normal(size=(12, 12)) * (rng.random((12, 12)) < 0.5), 1)
    edges = np.argwhere(full)
    expected = multicut(edges, full[full != 0], 12)
    for matrix in (full, full.T, full + full.T):
        result = multicut(kind(matrix))
        np.testing.assert_array_equal(result.merges, expected.merges)
        assert result.objective == pytest.approx(expected.objective, rel=1e-12)


def test_a_graph_problem_is_used_as_it_is():
    graph = GraphProblem([[0, 1], [1, 2]], [1.0, -1.0])
    assert multicut(graph).labels.tolist() == [0, 0, 1]
    assert graph.objective([0, 0, 1]) == -1.0
    with pytest.raises(ValueError, match="leave out costs and n_nodes"):
        multicut(graph, [1.0])


@pytest.mark.large
def test_a_large_graph_matches_the_dense_road(digits):
    """The complete graph of 600 digits as 179,700 explicit edges."""
    from clusterfug import dense_multicut

    X = digits[:600]
    i, j = np.triu_indices(600, 1)
    result = multicut(np.stack([i, j], axis=1), (X @ X.T - 0.3)[i, j])
    expected = dense_multicut(X, 0.3)
    np.testing.assert_array_equal(result.labels, expected.labels)
    assert result.objective == pytest.approx(expected.objective, rel=1e-9)
