"""Modularity, the constant Potts model and cluster editing, against networkx and naive counts."""

import doctest
import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import all_partitions
from scipy.sparse import coo_array

from clusterfug import (
    GraphProblem,
    cluster_editing,
    constant_potts,
    dense_multicut,
    lower_bound,
    modularity,
    multicut,
    verify_bound,
)
from clusterfug.problems import graph_objectives
from clusterfug.problems import mixed as module

SEEDS = st.integers(0, 2**32 - 1)


def random_weights(rng, n):
    """Distinct edges, at least one, and their weights, some of which are 0."""
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    edges = pairs[rng.random(len(pairs)) < 0.4]
    edges = edges if len(edges) else pairs[:1]
    weights = rng.choice([1.0, 2.5, 0.0], size=len(edges)) if rng.random() < 0.5 else rng.random(len(edges))
    weights[0] = 1.0
    return edges, weights


def networkx_modularity(edges, weights, n, labels, resolution):
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_weighted_edges_from(
        (int(i), int(j), float(w)) for (i, j), w in zip(edges, weights, strict=True)
    )
    parts = [set(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)]
    return nx.algorithms.community.modularity(graph, parts, resolution=resolution)


def potts_quality(edges, weights, labels, resolution, sizes):
    total = sum(w for (i, j), w in zip(edges, weights, strict=True) if labels[i] == labels[j])
    n = len(labels)
    same = [(i, j) for i in range(n) for j in range(i) if labels[i] == labels[j]]
    return total - resolution * sum(sizes[i] * sizes[j] for i, j in same)


def edits(edges, labels):
    """Edges between clusters, and pairs in a cluster that are no edge."""
    known = {tuple(sorted(edge)) for edge in np.asarray(edges).tolist()}
    n = len(labels)
    return sum(((j, i) in known) != (labels[i] == labels[j]) for i in range(n) for j in range(i))


@given(seed=SEEDS, n=st.integers(2, 12), resolution=st.sampled_from([0.0, 0.3, 1.0, 2.0]))
def test_values_are_those_of_networkx_and_naive_counts(seed, n, resolution):
    rng = np.random.default_rng(seed)
    edges, weights = random_weights(rng, n)
    labels, sizes = rng.integers(0, 4, size=n), rng.random(n) * 2
    expected = networkx_modularity(edges, weights, n, labels, resolution)
    assert modularity(edges, weights, n, resolution=resolution).value(labels) == pytest.approx(
        expected, abs=1e-12
    )
    potts = constant_potts(edges, weights, n, resolution=resolution, node_weights=sizes)
    assert potts.value(labels) == pytest.approx(
        potts_quality(edges, weights, labels, resolution, sizes), abs=1e-9
    )
    assert cluster_editing(edges, n).value(labels) == edits(edges, labels)


@settings(max_examples=25)
@given(
    seed=SEEDS,
    n=st.integers(2, 7),
    resolution=st.sampled_from([0.3, 1.0]),
    complete=st.sampled_from([0, 64]),
)
def test_exact_finds_the_best_value(seed, n, resolution, complete):
    edges, weights = random_weights(np.random.default_rng(seed), n)
    problems = (
        (modularity(edges, weights, n, resolution=resolution), max),
        (constant_potts(edges, weights, n, resolution=resolution), max),
        (cluster_editing(edges, n), min),
    )
    for problem, best_of in problems:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MAX_COMPLETE", complete)
            result = multicut(problem, algorithm="exact")
        assert result.optimal
        best = best_of(problem.value(labels) for labels in all_partitions(n))
        assert problem.value(result) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("complete", [0, 64])
def test_the_karate_club_is_solved_to_optimality(complete, monkeypatch):
    """Its largest modularity is 0.4198 (Brandes et al., On modularity clustering, 2008)."""
    monkeypatch.setattr(module, "MAX_COMPLETE", complete)
    edges = np.array(nx.karate_club_graph().edges)
    problem = modularity(edges)
    result = multicut(problem, bound=True)
    assert round(problem.value(result), 4) == 0.4198
    assert verify_bound(problem, result.bound)
    assert lower_bound(problem, method="trivial").value <= result.bound.value <= result.objective
    again = multicut(pickle.loads(pickle.dumps(problem)))
    np.testing.assert_array_equal(again.labels, result.labels)
    np.testing.assert_array_equal(dense_multicut(problem).labels, result.labels)


def test_large_graphs_are_move_and_join_optimal(rng):
    graph = nx.gnm_random_graph(150, 400, seed=1)
    edges = np.array(graph.edges)
    for problem in (modularity(edges, n_nodes=150), cluster_editing(edges, 150)):
        result = multicut(problem, algorithm="fast", bound=True)
        assert result.trace[-1].move_optimal
        assert result.trace[-1].join_optimal
        value, sign = problem.value(result), -1 if problem.value(np.arange(150)) > 1 else 1
        for i in range(150):
            for c in (*np.unique(result.labels[edges[(edges == i).any(axis=1)]]), 150):
                moved = result.labels.copy()
                moved[i] = c
                assert sign * problem.value(moved) <= sign * value + 1e-9


def test_graphs_are_edges_matrices_or_problems(rng):
    edges, weights = random_weights(rng, 9)
    labels = rng.integers(0, 3, size=9)
    matrix = coo_array((weights, edges.T), shape=(9, 9))
    for make in (modularity, lambda *graph: constant_potts(*graph, resolution=0.5)):
        expected = make(edges, weights, 9).value(labels)
        assert make(matrix + matrix.T).value(labels) == pytest.approx(expected)
        assert make(GraphProblem(edges, weights, 9)).value(labels) == pytest.approx(expected)
    doubled = np.concatenate([edges, edges[:, ::-1]])
    assert cluster_editing(doubled, 9).value(labels) == edits(edges, labels)
    assert modularity(doubled, n_nodes=9).value(labels) == pytest.approx(
        modularity(edges, n_nodes=9).value(labels)
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e-20, 1e20, 1e145])
def test_the_scale_of_the_weights_changes_no_modularity(rng, scale):
    edges, weights = random_weights(rng, 12)
    expected, scaled = modularity(edges, weights, 12), modularity(edges, weights * scale, 12)
    labels = multicut(expected).labels
    np.testing.assert_array_equal(multicut(scaled).labels, labels)
    assert scaled.value(labels) == pytest.approx(expected.value(labels))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: modularity([], n_nodes=3), "edges of positive weight"),
        (lambda: modularity([[0, 1]], [0.0]), "edges of positive weight"),
        (lambda: modularity([[0, 1], [1, 2]], [1.0, -2.0]), r"not be negative: -2 of edge \(1, 2\)"),
        (lambda: modularity([[0, 0]]), "joins node 0 to itself"),
        (lambda: modularity([[0, 1]], resolution=-1), "resolution must be at least 0"),
        (lambda: modularity([[0, 1]], [1.0, 2.0]), "one number per edge"),
        (lambda: modularity(3), "edges must"),
        (lambda: constant_potts([[0, 1]], resolution=None), "resolution must be a number"),
        (lambda: constant_potts([[0, 1]], resolution=1.0, node_weights=[1.0]), "node_weights"),
        (lambda: cluster_editing("abc"), "edges must"),
        (lambda: cluster_editing([[0, 1]]).value([0, 0, 0]), "one entry per item"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_one_line(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_examples_in_the_docstrings_are_true():
    failed, tried = doctest.testmod(graph_objectives)
    assert tried > 0
    assert failed == 0
