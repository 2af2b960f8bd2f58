"""Mixed problems against the full matrix of their costs, and against all feasible clusterings."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import random_links, random_mixed
from reference import (
    best_feasible_change,
    best_single_change,
    cost_matrix,
    feasible_optimum,
    gaec,
    is_feasible,
    node_costs,
    objective,
    optimum,
)
from threadpoolctl import threadpool_limits

import clusterfug
from clusterfug import (
    DenseProblem,
    GraphProblem,
    MixedProblem,
    dense_multicut,
    lower_bound,
    multicut,
    solve_many,
    verify_bound,
)
from clusterfug.problems import mixed as module
from clusterfug.result import compact

ALGORITHMS = ("gaec", "fast", "auto", "best", "exact")
REFINED = ALGORITHMS[1:]
SEEDS = st.integers(0, 2**32 - 1)


def solve(problem, algorithm, **keywords):
    options = {"max_iter": 3} if algorithm == "best" else {}
    return multicut(problem, algorithm=algorithm, **options, **keywords)


def no_links(n):
    return np.arange(n), np.zeros((n, n), dtype=bool)


@pytest.fixture(params=["as it is", "as a graph"])
def path(request, monkeypatch):
    """Small problems are solved as complete graphs; those of this fixture also as large ones are."""
    monkeypatch.setattr(module, "MAX_COMPLETE", 0 if request.param == "as it is" else 64)


@given(seed=SEEDS, n=st.integers(1, 15), whole=st.booleans(), attracting=st.booleans())
def test_costs_are_those_of_features_and_edges_together(seed, n, whole, attracting):
    rng = np.random.default_rng(seed)
    problem, costs = random_mixed(rng, n, whole, attracting)
    labels = compact(rng.integers(0, 4, size=n))
    same = labels[:, None] == labels
    assert problem.objective(labels) == pytest.approx(objective(costs, labels), abs=1e-9)
    assert problem.inside(labels) == pytest.approx(costs[same].sum() / 2, abs=1e-9)
    assert problem.all_singletons == pytest.approx(costs.sum() / 2, abs=1e-9)
    items = np.flatnonzero(rng.random(n) < 0.7)
    if len(items):
        at = np.ix_(items, items)
        found = problem.subset(items).group_costs(np.arange(len(items)), np.arange(len(items)))
        np.testing.assert_allclose(found.costs, costs[at], atol=1e-9)
    between, _ = node_costs(costs, labels, same & False)
    found = problem.group_costs(np.arange(n), labels)
    np.testing.assert_allclose(found.costs, between, atol=1e-9)
    assert found.apart is None
    contracted = problem.contract(labels)
    np.testing.assert_allclose(
        contracted.group_costs(np.arange(contracted.n), np.arange(contracted.n)).costs, between, atol=1e-9
    )
    if problem.dense.may_attract:
        i = int(rng.integers(n))
        others = np.arange(n) != i
        np.testing.assert_allclose(problem.closeness(i)[others], costs[i, others], atol=1e-9)


@pytest.mark.kernels
@settings(max_examples=30)
@given(seed=SEEDS, whole=st.booleans())
def test_the_complete_graph_has_the_same_costs(seed, whole):
    problem, costs = random_mixed(np.random.default_rng(seed), 9, whole)
    graph = problem.complete_graph()
    np.testing.assert_allclose(graph.costs, costs[np.triu_indices(9, 1)], atol=1e-12)
    assert graph.has_whole_costs == problem.has_whole_costs == whole


@settings(max_examples=40)
@given(seed=SEEDS, n=st.integers(2, 6), whole=st.booleans(), complete=st.sampled_from([0, 64]))
def test_exact_finds_the_best_feasible_clustering(seed, n, whole, complete):
    rng = np.random.default_rng(seed)
    problem, costs = random_mixed(rng, n, whole)
    links, groups, apart = random_links(rng, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_COMPLETE", complete)
        free, linked = multicut(problem, algorithm="exact"), multicut(problem, algorithm="exact", **links)
    assert free.optimal
    assert linked.optimal
    assert free.objective == pytest.approx(optimum(costs), abs=1e-9)
    assert linked.objective == pytest.approx(feasible_optimum(costs, groups, apart), abs=1e-9)
    assert linked.bound.value <= linked.objective
    assert is_feasible(linked.labels, groups, apart)
    assert linked.broken_links == 0


@settings(max_examples=25)
@given(seed=SEEDS, whole=st.booleans(), complete=st.sampled_from([0, 64]))
def test_bounds_hold_for_every_feasible_clustering(seed, whole, complete):
    rng = np.random.default_rng(seed)
    problem, costs = random_mixed(rng, 7, whole)
    links, groups, apart = random_links(rng, 7)
    best = feasible_optimum(costs, groups, apart)
    for method in ("trivial", "triangles"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MAX_COMPLETE", complete)
            bound = lower_bound(problem, method=method, **links)
            assert bound.value <= best + 1e-12
            assert verify_bound(problem, bound, **links)
            false = replace(bound, value=bound.value + 1e-6 + 2 * bound.rounding + (1 if whole else 0))
            assert not verify_bound(problem, false, **links)


def test_a_bound_of_other_links_is_rejected(rng, path):
    problem, _ = random_mixed(rng, 40)
    links = {"cannot_link": [[0, i] for i in range(1, 40)]}
    bound = lower_bound(problem, **links)
    assert verify_bound(problem, bound, **links)
    assert bound.value > lower_bound(problem).value
    assert not verify_bound(problem, bound)
    assert not verify_bound(problem, bound, must_link=[[0, 1]])


@pytest.mark.parametrize("attracting", [True, False])
@pytest.mark.parametrize("algorithm", [pytest.param("fast", marks=pytest.mark.kernels), "auto", "best"])
def test_claims_of_large_problems_are_true(rng, algorithm, attracting):
    """Of problems that are not solved as complete graphs, with links and without."""
    for whole in (True, False):
        problem, costs = random_mixed(rng, 90, whole, attracting)
        links, groups, apart = random_links(rng, 90)
        init = rng.integers(0, 5, size=90)  # violates links
        for given_links, of_groups, of_apart in (({}, *no_links(90)), (links, groups, apart)):
            for start in (None, init):
                result = solve(problem, algorithm, init=start, **given_links)
                assert result.objective == pytest.approx(objective(costs, result.labels), abs=1e-9)
                assert is_feasible(result.labels, of_groups, of_apart)
                assert result.trace[-1].move_optimal
                assert result.trace[-1].join_optimal
                gains = best_feasible_change(costs, result.labels, of_groups, of_apart)
                assert max(gains) <= 1e-9
        assert max(best_single_change(costs, solve(problem, algorithm).labels)) <= 1e-9


@settings(max_examples=30)
@given(seed=SEEDS, n=st.integers(2, 40), attracting=st.booleans(), complete=st.sampled_from([0, 64]))
def test_gaec_makes_the_merges_of_the_textbook_on_all_costs(seed, n, attracting, complete):
    rng = np.random.default_rng(seed)
    problem, costs = random_mixed(rng, n, whole=True, attracting=attracting)
    links, groups, apart = random_links(rng, n)
    nodes, barred = node_costs(costs, groups, apart)
    nodes[barred] = -np.inf
    lowest = np.unique(groups, return_index=True)[1]
    order = np.argsort(lowest)  # the nodes are numbered by their lowest items
    nodes = nodes[np.ix_(order, order)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MAX_COMPLETE", complete)
        assert multicut(problem, algorithm="gaec").merges.tolist() == gaec(costs)
        result = multicut(problem, algorithm="gaec", **links)
    named = [(lowest[order[i]], lowest[order[j]], cost) for i, j, cost in gaec(nodes)]
    assert result.merges.tolist() == named


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_links_that_leave_one_clustering(rng, path, algorithm):
    problem, _ = random_mixed(rng, 12)
    pairs = np.stack(np.triu_indices(12, 1), axis=1)
    chain = np.stack([np.arange(11), np.arange(1, 12)], axis=1)
    bound = algorithm != "exact"
    result = solve(problem, algorithm, must_link=chain, bound=bound)
    assert (result.n_clusters, result.objective, result.optimal) == (1, 0.0, True)
    for links in (
        {"cannot_link": pairs},
        {"exclusive": ["a"] * 12},
        {"cannot_link": pairs, "exclusive": [3] * 12},
    ):
        result = solve(problem, algorithm, bound=bound, **links)
        assert result.n_clusters == 12
        assert result.optimal
        assert result.objective == pytest.approx(problem.all_singletons)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("n", [1, 2])
def test_problems_of_one_and_two_items(path, algorithm, n):
    problem = MixedProblem(np.ones((n, 1)), [[0, 1]][: n - 1], [-3.0][: n - 1], threshold=0.5)
    result = solve(problem, algorithm, bound=algorithm != "exact")
    assert result.labels.tolist() == list(range(n))
    assert result.objective == (-2.5 if n == 2 else 0.0)
    if algorithm != "gaec":
        assert result.optimal
    linked = solve(problem, algorithm, must_link=[[0, n - 1]], exclusive=[1, -1][:n])
    assert linked.labels.tolist() == [0] * n


@pytest.mark.parametrize("algorithm", REFINED)
def test_labels_to_start_from_may_violate_links(rng, path, algorithm):
    problem, costs = random_mixed(rng, 14)
    links = {
        "must_link": [[0, 13]],
        "cannot_link": [[i, i + 1] for i in range(1, 12)],
        "exclusive": [0] * 5 + [-1] * 9,
    }
    for init in (np.zeros(14, dtype=int), np.arange(14)):
        result = solve(problem, algorithm, init=init, **links)
        assert result.broken_links == 0
        assert result.links.broken(result.labels) == 0
        assert result.objective == pytest.approx(objective(costs, result.labels))


def test_items_without_weight_obey_links(rng, path):
    X, weight = rng.normal(size=(40, 3)), np.ones(40)
    weight[10:30] = 0.0
    links = {
        "must_link": [[10, 0], [11, 12]],
        "cannot_link": [[13, i] for i in range(10)],
        "exclusive": np.where((np.arange(40) >= 14) & (np.arange(40) < 20), 1, -1),
    }
    for algorithm in ("gaec", "fast", "auto"):
        result = solve(DenseProblem(X, 0.2, sample_weight=weight), algorithm, **links)
        assert result.broken_links == 0
        assert result.objective == pytest.approx(
            objective(cost_matrix(X, 0.2, sample_weight=weight), result.labels)
        )
        free = np.arange(20, 30)  # without weight and links: with the most similar mean
        kept = np.setdiff1d(np.arange(40), free)
        member = (result.labels[kept] == np.arange(result.n_clusters)[:, None]) * np.maximum(
            weight[kept], 1e-9
        )
        means = member @ X[kept] / member.sum(axis=1, keepdims=True)
        np.testing.assert_array_equal(result.labels[free], np.argmax(X[free] @ means.T, axis=1))


def test_soft_links_are_edges(rng, path):
    problem, costs = random_mixed(rng, 10)
    links = {
        "must_link": [[0, 1], [2, 0]],
        "cannot_link": [[0, 2], [3, 4]],
        "exclusive": [5, 5, 5] + [-1] * 7,
    }
    result = multicut(problem, algorithm="exact", link_weight=0.7, **links)
    for (i, j), sign in [
        ((0, 1), 1),
        ((0, 2), 1),
        ((3, 4), -1),
        ((0, 1), -1),
        ((0, 2), -1),
        ((1, 2), -1),
    ]:
        costs[i, j] += 0.7 * sign
        costs[j, i] += 0.7 * sign
    assert result.objective == pytest.approx(objective(costs, result.labels))
    separated = int(result.labels[0] != result.labels[1]) + int(result.labels[0] != result.labels[2])
    together = sum(result.labels[i] == result.labels[j] for i, j in [(0, 2), (3, 4), (0, 1), (1, 2)])
    assert result.broken_links == separated + together
    assert clusterfug.objective(problem, result.labels, link_weight=0.7, **links) == result.objective


def test_copies_and_threads_give_the_same_labels(rng):
    problem, _ = random_mixed(rng, 200, dtype=np.float32)
    links, _, _ = random_links(rng, 200)
    for algorithm in ("fast", "auto", "best", "gaec"):
        result = solve(problem, algorithm, **links)
        with threadpool_limits(1):
            again = solve(pickle.loads(pickle.dumps(problem)), algorithm, **links)
        np.testing.assert_array_equal(again.labels, result.labels)


def test_every_public_function_takes_a_mixed_problem(rng):
    problem, costs = random_mixed(rng, 80)
    one, other = multicut(problem), dense_multicut(problem, bound=True)
    np.testing.assert_array_equal(one.labels, other.labels)
    [batched] = solve_many([problem])
    np.testing.assert_array_equal(one.labels, batched.labels)
    assert (
        clusterfug.objective(problem, one) == one.objective == pytest.approx(objective(costs, one.labels))
    )
    assert other.bound.value <= one.objective
    assert verify_bound(problem, other.bound)
    labels = compact(rng.integers(0, 50, size=80))
    contracted = problem.contract(labels)
    bound = lower_bound(contracted)
    assert verify_bound(contracted, bound)
    assert bound.value <= multicut(contracted).objective
    assert repr(problem).startswith("MixedProblem(n=80, ")


def test_edges_are_pairs_a_matrix_or_a_graph(rng):
    from scipy.sparse import coo_array

    X, edges, costs = rng.normal(size=(6, 2)), np.array([[0, 1], [4, 2]]), np.array([2.0, -1.0])
    matrix = coo_array((costs, edges.T), shape=(6, 6)).tocsr()
    matrix = matrix + matrix.T
    labels = [0, 0, 1, 1, 0, 2]
    expected = MixedProblem(X, edges, costs, threshold=0.1).objective(labels)
    for problem in (
        MixedProblem(X, matrix, threshold=0.1),
        MixedProblem(X, GraphProblem(edges, costs, 6), threshold=0.1),
        MixedProblem(DenseProblem(X, 0.1), edges, costs),
    ):
        assert problem.objective(labels) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        (([[0, 9]], [1.0]), {"threshold": 0.1}, "edge 0 names node 9"),
        ((GraphProblem([[0, 9]], [1.0]),), {"threshold": 0.1}, "X has 6 items, but the edges are of 10"),
        (([[0, 1]], [1.0]), {}, "give threshold or alpha"),
        (([[0, 1]],), {"threshold": 0.1}, "costs are missing"),
        (([[0, 1]], [np.nan]), {"threshold": 0.1}, "costs must be finite"),
    ],
)  # fmt: skip
def test_wrong_parts_are_one_line(rng, arguments, keywords, message):
    with pytest.raises(ValueError, match=message):
        MixedProblem(rng.normal(size=(6, 2)), *arguments, **keywords)


@pytest.mark.parametrize("algorithm", ["dgaec", "dgaec-inc", "dlaec", "dapplaec"])
def test_algorithms_on_features_alone_refuse_edges_and_links(rng, algorithm):
    problem, _ = random_mixed(rng, 20)
    with pytest.raises(
        ValueError, match="a mixed problem is solved by auto, fast, best, exact, gaec, not by"
    ):
        multicut(problem, algorithm=algorithm)
    with pytest.raises(ValueError, match="a problem with links is solved by"):
        dense_multicut(rng.normal(size=(9, 2)), 0.3, must_link=[[0, 1]], algorithm=algorithm)


def test_costs_beside_a_problem_are_refused(rng):
    problem, _ = random_mixed(rng, 9)
    with pytest.raises(ValueError, match="leave out threshold"):
        dense_multicut(problem, 0.3)
    with pytest.raises(ValueError, match="leave out alpha"):
        MixedProblem(problem.dense, [[0, 1]], [1.0], alpha=0.5)
    linked = problem.linked(multicut(problem, cannot_link=[[0, 1]]).links)
    with pytest.raises(ValueError, match="give all links at once"):
        multicut(linked, must_link=[[2, 3]])


def test_a_clustering_with_links_is_of_its_own_items(rng):
    X = rng.normal(size=(20, 3))
    result = dense_multicut(X, 0.3, must_link=[[0, 19]], cannot_link=[[1, 2]])
    assert clusterfug.objective(X, result) == result.objective
    np.testing.assert_array_equal(dense_multicut(X, result).labels, result.labels)
    with pytest.raises(ValueError, match="links are of 20 items, but X has 10"):
        dense_multicut(X[:10], result)


def test_a_memory_limit_that_links_ignore_is_refused(rng):
    with pytest.raises(ValueError, match="memory_limit"):
        dense_multicut(rng.normal(size=(20, 3)), 0.3, must_link=[[0, 1]], memory_limit=1000)
