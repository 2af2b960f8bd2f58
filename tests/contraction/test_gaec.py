"""GAEC on explicit graphs makes the merges of textbook GAEC on the full matrix."""

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import random_links, random_mixed

from clusterfug import DenseProblem, dense_multicut, multicut
from clusterfug.contraction import gaec as gaec_module
from clusterfug.contraction.history import labels_of_merges


def full_matrix(edges, costs, n):
    full = np.zeros((n, n))
    for (i, j), cost in zip(edges, costs, strict=True):
        full[i, j] += cost
        full[j, i] += cost
    return full


def random_edges(rng, n, m, whole):
    """Edges with parallel ones, whose costs are small integers or normal."""
    edges = rng.integers(0, n, size=(m, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    costs = rng.integers(-3, 5, size=len(edges)) if whole else rng.normal(0.3, 1, size=len(edges))
    return edges, costs.astype(np.float64)


@st.composite
def graphs(draw, whole):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(2, 60))
    return *random_edges(rng, n, draw(st.integers(1, 4 * n)), whole), n


def assert_textbook_merges(edges, costs, n):
    # A missing edge costs 0, and 0 does not attract, so the full matrix is the same problem.
    full = full_matrix(edges, costs, n)
    result = multicut(edges, costs, n, algorithm="gaec")
    assert result.merges.tolist() == reference.gaec(full)
    assert result.objective == reference.objective(full, result.labels)


@given(graph=graphs(whole=True))
def test_merges_with_ties_are_those_of_the_textbook(graph):
    assert_textbook_merges(*graph)


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(5))
def test_merges_of_small_graphs_are_those_of_the_textbook(seed):
    assert_textbook_merges(*random_edges(np.random.default_rng(seed), 25, 100, whole=True), 25)


@given(graph=graphs(whole=False))
def test_every_merge_takes_the_largest_cost(graph):
    edges, costs, n = graph
    merges = multicut(edges, costs, n, algorithm="gaec").merges
    reference.assert_greedy(full_matrix(edges, costs, n), merges)


@pytest.mark.kernels
@pytest.mark.parametrize("whole", [True, False])
def test_a_heap_that_has_to_grow_changes_nothing(rng, monkeypatch, whole):
    edges, costs = random_edges(rng, 40, 300, whole)
    expected = multicut(edges, costs, algorithm="gaec").merges
    make = gaec_module._empty_heap
    monkeypatch.setattr(gaec_module, "_empty_heap", lambda size: make(size - 40))
    monkeypatch.setattr(gaec_module, "_WORK_PER_CALL", 10)
    np.testing.assert_array_equal(multicut(edges, costs, algorithm="gaec").merges, expected)


@pytest.mark.parametrize("ties", [False, True])
def test_the_heap_stays_small_when_the_lowest_item_of_a_hub_keeps_changing(ties, monkeypatch):
    """The hub of a star has the highest index and absorbs its leaves from the highest down."""
    n = 3000
    edges = np.stack([np.arange(n), np.full(n, n)], axis=1)
    costs = np.ones(n) if ties else np.arange(1.0, n + 1)
    sizes = []
    enlarged = gaec_module._enlarged
    monkeypatch.setattr(
        gaec_module, "_enlarged", lambda heap, size: sizes.append(size) or enlarged(heap, size)
    )
    merges = multicut(edges, costs, algorithm="gaec").merges
    order = np.arange(n) if ties else np.arange(n)[::-1]
    np.testing.assert_array_equal(merges["cost"], costs[order])
    np.testing.assert_array_equal(
        np.maximum(merges["i"], merges["j"]), np.append(n, order[1:] if ties else order[:-1])
    )
    assert max(sizes, default=0) < 20 * n


@pytest.mark.parametrize("algorithm", ["gaec", "auto"])
def test_the_complete_graph_as_edges_has_the_result_of_the_features(digits, algorithm):
    """600 digits as 179,700 explicit edges."""
    X = digits[:600]
    i, j = np.triu_indices(600, 1)
    result = multicut(np.stack([i, j], axis=1), (X @ X.T - 0.3)[i, j], algorithm=algorithm)
    expected = dense_multicut(DenseProblem(X, 0.3), algorithm=algorithm)
    np.testing.assert_array_equal(result.labels, expected.labels)
    assert result.objective == pytest.approx(expected.objective, rel=1e-9)


@pytest.mark.kernels
@settings(max_examples=50)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), attracting=st.booleans())
def test_edges_with_features_have_the_costs_of_both(seed, n, attracting):
    """All given edges contract, in the order of the textbook if no cost of features is positive."""
    problem, costs = random_mixed(np.random.default_rng(seed), n, whole=True, attracting=attracting)
    i, j = np.triu_indices(n, 1)
    pairs = np.stack([i, j], axis=1)
    sparse = costs[i, j] - problem.dense.costs_of_pairs(pairs)
    merges = gaec_module.gaec(pairs, sparse, n, None, problem.dense)
    if attracting:
        contraction = reference.Contraction(costs)
        for a, b, cost in merges.tolist():
            assert contraction.costs[a, b] >= cost > 0  # it may have risen since
            contraction.merge(a, b)
        assert contraction.best()[2] <= 0
    else:
        assert merges.tolist() == reference.gaec(costs)
        edges = problem.graph.edges
        few = gaec_module.gaec(edges, problem.graph.costs, n, None, problem.dense)
        assert few.tolist() == reference.gaec(costs)


@pytest.mark.kernels
def test_edges_of_infinite_cost_keep_their_ends_apart(rng, monkeypatch):
    monkeypatch.setattr(gaec_module, "_WORK_PER_CALL", 20)
    problem, costs = random_mixed(rng, 30, whole=True)
    _, _, apart = random_links(rng, 30)
    costs[apart] = -np.inf
    i, j = np.triu_indices(30, 1)
    sparse = costs[i, j] - problem.dense.costs_of_pairs(np.stack([i, j], axis=1))
    merges = gaec_module.gaec(np.stack([i, j], axis=1), sparse, 30, None, problem.dense)
    labels = labels_of_merges(30, merges)
    assert len(merges)
    assert not (labels[:, None] == labels)[apart].any()
