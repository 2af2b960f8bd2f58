"""The sparse part of a mixed problem while items move, against the matrix of all costs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import random_links, random_mixed
from reference import best_feasible_change

from clusterfug import DenseProblem, MixedProblem
from clusterfug.problems.apart import Apart
from clusterfug.problems.graph import GraphProblem
from clusterfug.problems.links import make_links
from clusterfug.refinement import feature_moves as moves
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.candidate_lists import empty_candidate_lists, update_stay_costs
from clusterfug.refinement.feature_clusters import clusters_of, singleton_clusters
from clusterfug.refinement.sparse_costs import (
    NO_SPARSE,
    NO_TERMS,
    SparseTerms,
    edges_changed,
    gather_edges,
    gather_magnitudes,
    is_open,
    move_groups,
    position_of,
    release_edges,
    sparse_state,
)
from clusterfug.result import compact

SEEDS = st.integers(0, 2**32 - 1)


def linked(rng, n, whole=False, attracting=True):
    """A mixed problem of items that must be apart, the matrix of its costs, and which items these are."""
    problem, costs = random_mixed(rng, n, whole, attracting)
    links, _, apart = random_links(rng, n)
    links = make_links(n, cannot_link=links["cannot_link"], exclusive=links["exclusive"])
    return MixedProblem.of_parts(problem.dense, problem.graph, Apart.of_links(links)), costs, apart


def feasible(problem, rng):
    return problem.feasible(compact(rng.integers(0, 4, size=problem.n)))


def keys_of(state):
    return sorted(state.keys[state.keys >= 0].tolist())


@pytest.mark.kernels
@settings(max_examples=50)
@given(seed=SEEDS, n=st.integers(1, 30), groups=st.integers(1, 40))
def test_the_hash_table_holds_the_groups_of_each_cluster(seed, n, groups):
    """Items move at random to clusters where they may be; positions collide, and gaps are closed."""
    rng = np.random.default_rng(seed)
    belongs = rng.random((n, groups)) < 3 / groups
    members = np.argwhere(belongs)
    starts = np.searchsorted(members[:, 0], np.arange(n + 1))
    terms = SparseTerms(*NO_TERMS[:4], starts, members[:, 1].copy())
    labels = np.arange(n)
    state = sparse_state(terms, labels, n)
    for _ in range(60):
        i, to = rng.integers(n, size=2)
        there = belongs[labels == to].any(axis=0) if to != labels[i] else np.zeros(groups, dtype=bool)
        shared = bool((there & belongs[i]).any())
        if to == labels[i]:
            continue
        if state.n_groups:
            assert is_open(state, i, to) == (not shared)
        if not shared and state.n_groups:
            move_groups(state, i, labels[i], to)
            labels[i] = to
            expected = np.unique(labels[members[:, 0]] * state.n_groups + members[:, 1])
            assert keys_of(state) == expected.tolist()
            for key in expected:
                assert state.keys[position_of(state.keys, key)] == key
            assert state.keys[position_of(state.keys, n * groups + 1)] < 0


@pytest.mark.kernels
@settings(max_examples=30)
@given(seed=SEEDS, n=st.integers(2, 15), whole=st.booleans())
def test_costs_along_edges_are_sums_over_the_clusters(seed, n, whole):
    rng = np.random.default_rng(seed)
    problem, _, _ = linked(rng, n, whole)
    sparse = np.zeros((n, n))
    sparse[tuple(problem.graph.edges.T)] = problem.graph.costs
    sparse += sparse.T
    finite = np.abs(sparse)  # of pairs that must be apart, too
    for i, j in problem.apart.pairs:
        sparse[i, j] = sparse[j, i] = -np.inf
    labels = compact(rng.integers(0, 4, size=n))
    state = sparse_state(problem.terms, labels, n)
    if not state.has_edges:
        return
    with np.errstate(invalid="ignore"):
        for i in range(n):
            count = gather_edges(state, labels, i)
            gather_magnitudes(state, labels, i)
            known = np.zeros((n, n), dtype=bool)
            known[tuple(problem.graph.edges.T)] = known[tuple(problem.apart.pairs.T)] = True
            near = np.unique(labels[(known | known.T)[i]])
            assert sorted(state.adjacent[:count].tolist()) == near.tolist()
            for c in range(n):
                costs = sparse[i, labels == c]
                assert state.cost[c] == pytest.approx(costs.sum(), abs=1e-12)
                assert state.magnitude[c] == pytest.approx(finite[i, labels == c].sum(), abs=1e-12)
            release_edges(state, count)
            changed = np.where(np.arange(n) == labels[rng.integers(n)], 5, 1)
            assert edges_changed(state, labels, changed, i, 3) == bool((changed[near] > 3).any())
        for column in (state.cost, state.magnitude, state.is_adjacent):
            assert not column.any()
    own = problem.terms.clear
    assert np.all(own >= 0.999e-12 * finite.sum(axis=1))
    assert np.all(own <= 1e-11 * finite.sum(axis=1))


@pytest.mark.kernels
def test_the_cost_to_the_own_cluster_has_those_of_edges(rng):
    problem, costs, _ = linked(rng, 20)
    labels = feasible(problem, rng)
    lists = empty_candidate_lists(20)
    clusters = clusters_of(problem.dense, labels)
    update_stay_costs(
        problem.dense, clusters, lists, np.arange(20), sparse_state(problem.terms, labels, 20)
    )
    same = (labels[:, None] == labels) & ~np.eye(20, dtype=bool)
    np.testing.assert_allclose(lists.stay, (costs * same).sum(axis=1), atol=1e-9)


@pytest.mark.kernels
@settings(max_examples=25)
@given(seed=SEEDS, n=st.integers(2, 25), whole=st.booleans(), attracting=st.booleans())
def test_moves_end_where_no_feasible_move_gains(seed, n, whole, attracting):
    rng = np.random.default_rng(seed)
    problem, costs, apart = linked(rng, n, whole, attracting)
    start = feasible(problem, rng)
    labels, move_optimal = problem.move_items(start, Budget())
    assert move_optimal
    assert not (labels[:, None] == labels)[apart].any()
    assert problem.objective(labels) <= problem.objective(start) + 1e-9
    assert best_feasible_change(costs, labels, np.arange(n), apart)[0] <= 1e-9


@pytest.mark.kernels
@settings(max_examples=25)
@given(seed=SEEDS, n=st.integers(1, 25), attracting=st.booleans(), in_order=st.booleans())
def test_first_moves_are_feasible_and_gain(seed, n, attracting, in_order):
    rng = np.random.default_rng(seed)
    problem, costs, apart = linked(rng, n, attracting=attracting)
    partners = problem.partners()
    if costs.max() > 1e-9:
        assert problem.any_attracts(partners)
    labels = problem.first_moves(partners, None if in_order else rng)
    assert not (labels[:, None] == labels)[apart].any()
    assert problem.inside(labels) >= 0
    assert sorted(set(labels.tolist())) == list(range(labels.max() + 1))


@pytest.mark.kernels
@pytest.mark.parametrize("attracting", [True, False])
def test_joins_of_clusters_are_feasible_and_gain(rng, attracting):
    problem, _, _ = linked(rng, 40, attracting=attracting)
    labels = feasible(problem, rng)
    joined, certain = problem.join_clusters(labels, Budget())
    found = joined[labels]
    assert certain
    assert problem.feasible(found) is found or np.array_equal(problem.feasible(found), found)
    assert problem.objective(found) <= problem.objective(labels)


@pytest.mark.kernels
def test_items_move_to_the_best_of_all_clusters_where_they_may(rng):
    problem, _, apart = linked(rng, 30)
    labels = feasible(problem, rng)
    clusters = clusters_of(problem.dense, labels)
    sparse = sparse_state(problem.terms, labels, len(clusters.sizes))
    assert moves.move_to_best(problem.dense, clusters, np.arange(30), Budget(), sparse) > 0
    assert problem.inside(clusters.labels) > problem.inside(labels)
    assert not (clusters.labels[:, None] == clusters.labels)[apart].any()


@pytest.mark.kernels
@pytest.mark.parametrize("cost", [1e-13, -1e-13, 1.0, -1.0])
@pytest.mark.parametrize("labels", [[0, 1, 2, 3], [0, 1, 2, 2]])
def test_gains_that_are_small_beside_features_are_close_calls(cost, labels):
    """Rows of length 1e10 are orthogonal to those of items 2 and 3, whose pair costs what its edge does."""
    X = np.array([[1e10, 0.0], [-1e10, 0.0], [0.0, 0.0], [0.0, 0.0]])
    problem = MixedProblem(X, [[2, 3]], [cost], threshold=0.0)
    found, move_optimal = problem.move_items(np.array(labels), Budget())
    assert move_optimal
    assert (found[2] == found[3]) == (cost > 0)
    assert found[0] != found[1]


@pytest.mark.kernels
def test_costs_along_edges_that_are_rounding_errors_do_not_make_moves_endless():
    """0.1 + 0.2 - 0.3 is 5.6e-17 in float64."""
    for cost in (0.3, -0.3):
        edges, costs = [[0, 1], [0, 2], [0, 3]], [0.1, 0.2, -0.3]
        problem = MixedProblem(np.zeros((4, 1)), edges, np.array(costs) * np.sign(cost), threshold=0.0)
        for labels in ([0, 0, 0, 0], [0, 1, 1, 1]):
            found, move_optimal = problem.move_items(np.array(labels), Budget())
            assert move_optimal
            assert problem.objective(found) <= problem.objective(labels) + 1e-15


def test_problems_without_edges_and_groups_have_no_terms(rng):
    problem = MixedProblem.of_parts(
        DenseProblem(rng.normal(size=(5, 2)), 0.1),
        GraphProblem(np.empty((0, 2), int), [], 5),
        Apart.nothing(),
    )
    assert not problem.terms.has_edges
    assert not NO_SPARSE.has_edges
    assert NO_SPARSE.n_groups == 0
    labels = np.array([0, 0, 1, 1, 2])
    expected = problem.dense.move_items(labels, Budget())
    np.testing.assert_array_equal(problem.move_items(labels, Budget())[0], expected[0])
    assert singleton_clusters(problem.dense).sizes.tolist() == [1] * 5


def test_without_time_no_item_moves(rng):
    problem, _, _ = linked(rng, 30)
    labels = feasible(problem, rng)
    found, move_optimal = problem.move_items(labels, Budget(0.0))
    assert not move_optimal
    np.testing.assert_array_equal(found, labels)
