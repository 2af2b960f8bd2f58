"""Lower bounds: below every clustering, close to the optimum, and part of every result on request."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import conflicting, pair_costs
from reference import certified_sum, cost_matrix, optimum

from clusterfug import (
    DenseMulticut,
    DenseProblem,
    GraphProblem,
    dense_multicut,
    lower_bound,
    multicut,
    solve_many,
    verify_bound,
)
from clusterfug.bounds.pairs import doubtful_terms

METHODS = ("trivial", "triangles")


@st.composite
def problems(draw, most=7):
    """Small problems of all kinds, with their matrices of costs."""
    n = draw(st.integers(1, most))
    d = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.normal(size=(n, d))
    if draw(st.booleans()):
        X = X[rng.integers(n, size=n)]  # duplicates
    if draw(st.booleans()):
        X = np.round(X)  # ties, zeros
    kind = draw(st.sampled_from(["threshold", "alpha", "large", "weights", "costs", "graph"]))
    threshold = draw(st.sampled_from([-0.5, 0.0, 0.3, 1.0]))
    if kind == "threshold":
        return DenseProblem(X, threshold), cost_matrix(X, threshold)
    if kind in ("alpha", "large"):
        alpha = rng.uniform(0, 1.5, size=n)
        prefer = "small" if kind == "alpha" else "large"
        return DenseProblem(X, alpha=alpha, prefer=prefer), cost_matrix(X, alpha=alpha, prefer=prefer)
    if kind == "weights":
        weight = rng.integers(0, 4, size=n)
        weight[0] += 1
        costs = cost_matrix(X, threshold, sample_weight=weight)
        return DenseProblem(X, threshold, sample_weight=weight), costs
    costs = rng.normal(size=(n, n))
    costs = costs + costs.T
    if kind == "costs":
        return DenseProblem.from_costs(costs), costs
    costs *= rng.uniform(size=(n, n)) < 0.7
    costs = np.round(2 * np.triu(costs, 1)) / draw(st.sampled_from([1, 2]))
    i, j = np.nonzero(costs)
    return GraphProblem(np.stack([i, j], 1), costs[i, j], n), costs + costs.T


@settings(max_examples=60)
@given(problems())
def test_no_clustering_is_below_a_bound(made):
    problem, costs = made
    best = optimum(costs)
    tolerance = 1e-9 * (1 + np.abs(costs).sum())
    values = []
    for method in METHODS:
        bound = lower_bound(problem, method=method)
        values.append(float(bound))
        assert bound.value <= best + tolerance
        assert verify_bound(problem, bound)
        proven = certified_sum(costs, bound.certificate)
        integer = isinstance(problem, GraphProblem) and np.all(costs == np.round(costs))
        expected = math.ceil(proven - tolerance) if integer else proven
        assert bound.value == pytest.approx(expected, abs=tolerance)
    assert values[1] >= values[0] - tolerance
    for algorithm in ("fast", "auto"):
        result = (multicut if isinstance(problem, GraphProblem) else dense_multicut)(
            problem, algorithm=algorithm, bound=True
        )
        assert result.lower_bound <= best + tolerance <= result.objective + 2 * tolerance
        assert result.gap >= 0
        assert result.gap_inside >= 0
        assert not result.optimal or result.objective == pytest.approx(best, abs=tolerance)


@settings(max_examples=8)
@given(st.integers(0, 2**32), st.integers(12, 30), st.sampled_from([0.1, 0.3, 0.5]))
def test_the_exact_optimum_is_between_bound_and_heuristics(seed, n, threshold):
    X = conflicting(np.random.default_rng(seed), n, 4, 8, 1.0)
    exact = dense_multicut(X, threshold, algorithm="exact", time_limit=np.inf)
    assert exact.optimal
    assert lower_bound(X, threshold).value <= exact.objective
    for algorithm in ("fast", "auto", "gaec", "dlaec"):
        assert exact.objective <= dense_multicut(X, threshold, algorithm=algorithm).objective + 1e-9


def test_the_trivial_bound_is_the_sum_of_all_negative_costs(rng, monkeypatch):
    monkeypatch.setattr("clusterfug.bounds.pairs._BLOCK", 128)  # more items than a block has rows
    X = conflicting(rng, 300, d=5)
    costs = cost_matrix(X, 0.3)
    upper = costs[np.triu_indices(len(X), 1)]
    bound = lower_bound(X, 0.3, method="trivial")
    assert bound.value == pytest.approx(upper[upper < 0].sum(), rel=1e-11)
    assert bound.value < math.fsum(upper[upper < 0].tolist())  # rounded down
    assert verify_bound(X, bound, 0.3)


def test_a_large_constant_does_not_make_a_suboptimal_clustering_optimal():
    edges = [[0, 1], [2, 3], [3, 4], [4, 5], [2, 4], [3, 5], [2, 5]]
    graph = GraphProblem(edges, [-1e10, 2, 3, 2, -2, -2, -1])
    worse = multicut(graph, algorithm="gaec", bound=True)
    best = multicut(graph, algorithm="exact")
    assert best.optimal
    assert worse.objective > best.objective
    assert not worse.optimal
    assert worse.gap > 0
    nothing = GraphProblem([[0, 1], [1, 2]], [5.0, 5.0])
    assert multicut(nothing, algorithm="fast", bound=True).gap == 0


@pytest.mark.parametrize("costs", [[-1.5, -2.0], [0.0, 0.0], [-1.0, 1e-60], [1.0, 1e-60]])
def test_a_graph_without_conflicts_is_solved_to_optimality(costs):
    result = multicut([[0, 1], [1, 2]], costs, bound=True)
    assert result.optimal
    assert result.lower_bound == pytest.approx(sum(cost for cost in costs if cost < 0))


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e12, 1e30])
def test_bounds_scale_with_the_costs(rng, scale):
    X = conflicting(rng, 40)
    expected = lower_bound(DenseProblem(X, 0.3)).value
    problem = DenseProblem(X * scale, 0.3 * scale**2)
    scaled = lower_bound(problem)
    assert scaled.value == pytest.approx(expected * scale**2, rel=1e-3)
    assert verify_bound(problem, scaled)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_features_of_any_type_have_a_bound(rng, dtype):
    X = conflicting(rng, 20).astype(dtype)
    assert verify_bound(X, lower_bound(X, 0.4), 0.4)


@pytest.mark.parametrize(
    ("X", "threshold"),
    [(np.ones((1, 3)), 0.4), (np.ones((5, 3)), 0.4), (np.eye(5), 0.4), (np.zeros((4, 2)), 0.0)],
)
def test_degenerate_problems_are_solved_to_optimality(X, threshold):
    result = dense_multicut(X, threshold, bound=True)
    assert result.gap == 0
    assert result.gap_inside == 0
    assert result.optimal
    assert verify_bound(X, result.bound, threshold)


def test_a_graph_without_edges_is_solved_to_optimality():
    assert multicut(GraphProblem(np.empty((0, 2), dtype=int), [], 3), bound=True).optimal


def test_best_stops_when_it_is_proven_optimal(rng):
    X = conflicting(rng, 100, 6, 32, 0.5)
    result = dense_multicut(X, 0.4, algorithm="best", bound=True, max_iter=10_000)
    assert result.optimal
    assert result.n_iter < 10
    without = dense_multicut(X, 0.4, algorithm="best", max_iter=20)
    assert without.n_iter == 20
    assert without.lower_bound is without.gap is without.gap_inside is None
    assert not without.optimal


def test_gaps_follow_from_objective_inside_and_bound(rng):
    X = conflicting(rng, 100, 8, 12, 1.2)
    result = dense_multicut(X, 0.3, algorithm="gaec", bound=True)
    bound = lower_bound(X, 0.3).value
    assert result.lower_bound == bound
    assert result.gap == pytest.approx((result.objective - bound) / abs(bound))
    singletons = DenseProblem(X, 0.3).all_singletons
    assert result.gap_inside == pytest.approx((singletons - bound) / result.inside - 1)


def test_every_entry_point_attaches_the_same_bound(rng):
    X = conflicting(rng, 20)
    model = DenseMulticut(threshold=0.3, metric="inner_product", bound=True).fit(X)
    problem = DenseProblem(X, 0.3)
    assert model.gap_ == model.result_.gap >= 0
    assert model.lower_bound_ == lower_bound(problem).value
    plain = DenseMulticut(threshold=0.3).fit(X)
    assert plain.gap_ is None
    assert plain.lower_bound_ is None
    [first, second] = solve_many([problem, GraphProblem([[0, 1]], [1.0])], bound=True)
    assert first.gap == model.gap_
    assert second.optimal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "sdp"}, "unknown method 'sdp': choose one of trivial, triangles, auto"),
        ({"time_limit": -1}, "time_limit"),
        ({"memory_limit": 0}, "memory_limit"),
        ({"device": "tpu"}, "unknown device"),
        ({"method": "trivial", "time_limit": 1}, "time_limit is for packing triangles"),
        ({"method": "trivial", "memory_limit": 1}, "memory_limit is for triangles or a GPU"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        lower_bound(np.eye(3), 0.3, **options)


def test_bad_input_is_named():
    graph = GraphProblem([[0, 1]], [1.0])
    with pytest.raises(ValueError, match="X is a GraphProblem, which has its costs: leave out threshold"):
        lower_bound(graph, 0.3)
    with pytest.raises(ValueError, match="X is a DenseProblem, which has its costs: leave out threshold"):
        lower_bound(DenseProblem(np.eye(3), 0.4), 0.3)
    with pytest.raises(ValueError, match="a graph problem is solved on the CPU: leave out the device"):
        lower_bound(graph, device="tpu")
    with pytest.raises(TypeError, match="bound"):
        dense_multicut(np.eye(3), bound="triangles")
    with pytest.raises(ValueError, match="row 0"):
        lower_bound([[np.nan, 1.0]])


def test_progress_is_reported_for_triangles_and_for_the_sum(rng):
    seen = []
    lower_bound(conflicting(rng, 30), 0.3, callback=lambda *event: seen.append(event))
    assert [phase for phase, _, _ in seen] == ["triangles", "bound"]
    assert all(done == total for _, done, total in seen)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_trivial_bound_of_a_device_is_that_of_the_cpu(backend, rng, weighted):
    X = conflicting(rng, 300)
    weight = rng.integers(0, 3, size=300) if weighted else None
    here = lower_bound(X, 0.3, sample_weight=weight, method="trivial")
    there = lower_bound(X, 0.3, sample_weight=weight, method="trivial", device=backend)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    assert there.method == "trivial"
    assert verify_bound(X, there, 0.3, sample_weight=weight)


def test_the_rounding_of_a_device_follows_the_terms_of_costs(backend, rng):
    """The longest rows have few terms in common: their lengths would give a thousand times as much."""
    X = rng.normal(size=(300, 4)) * 10.0 ** rng.integers(-6, 6, size=(300, 4))
    given = {"threshold": 0.3, "metric": "inner_product"}
    here, there = (lower_bound(X, method="trivial", device=d, **given) for d in ("cpu", backend))
    assert there.value == pytest.approx(here.value, rel=1e-9)
    assert here.rounding / 2 < there.rounding < here.rounding * 2
    assert verify_bound(X, there, **given)


def test_a_result_of_a_device_has_a_bound(backend, rng):
    import torch

    X = torch.from_numpy(conflicting(rng, 20)).to(backend)
    result = dense_multicut(X, 0.3, device=backend, bound=True)
    assert result.gap is not None
    assert verify_bound(X, result.bound, 0.3)
    with pytest.raises(ValueError, match="many problems on a GPU have no bounds"):
        solve_many([X], 0.3, device=backend, bound=True)


@pytest.mark.parametrize(
    "options", [{"time_limit": -1}, {"method": "trivial", "time_limit": 1}, {"method": "best"}]
)
def test_bad_arguments_are_errors_before_costs_are_selected(rng, monkeypatch, options):
    monkeypatch.setattr(
        "clusterfug.selection.select.selected_costs", lambda *_: pytest.fail("costs were selected")
    )
    with pytest.raises(ValueError, match=r"time_limit|method"):
        lower_bound(rng.normal(size=(9, 3)), **options)


def test_one_long_row_does_not_hide_the_gap():
    rng = np.random.default_rng(6)
    X = np.zeros((8, 4))
    X[:7, :3] = rng.normal(size=(7, 3))
    X[7, 3] = 1e8
    raw = {"threshold": 0.4, "metric": "inner_product", "bound": True}
    greedy, best = (dense_multicut(X, algorithm=name, **raw) for name in ("gaec", "exact"))
    assert greedy.objective > best.objective + 1
    assert not greedy.optimal
    assert greedy.lower_bound <= best.objective


def two_long_rows(seed, n, d, threshold):
    """Features of n random items and of two that attract each other by 1e16; the costs of the others."""
    X = np.zeros((n + 2, d + 1))
    X[:n, :d] = np.random.default_rng(seed).normal(size=(n, d))
    X[n:, d] = 1e8
    return X, DenseProblem(X[:n], threshold)


def test_pairs_that_attract_strongly_do_not_hide_the_gap():
    X, _ = two_long_rows(6, 7, 3, 0.4)
    raw = {"threshold": 0.4, "metric": "inner_product"}
    greedy, best = (dense_multicut(X, algorithm=name, bound=True, **raw) for name in ("gaec", "exact"))
    assert greedy.objective > best.objective + 1
    assert not greedy.optimal
    assert best.optimal
    assert best.bound.rounding < 1e-8
    assert best.lower_bound <= best.objective
    assert greedy.lower_bound <= best.objective
    assert verify_bound(X, greedy.bound, **raw)


@pytest.mark.parametrize("seed", range(3))
def test_the_margin_for_rounding_is_that_of_costs_that_may_repel(backend, seed):
    X, others = two_long_rows(seed, 30, 6, 0.2)
    raw = {"threshold": 0.2, "metric": "inner_product"}
    alone = lower_bound(others, method="trivial")
    for device in ("cpu", backend):
        bound = lower_bound(X, method="trivial", device=device, **raw)
        assert bound.value == pytest.approx(alone.value - 2 * 30 * 0.2, rel=1e-9)
        assert bound.rounding < 1e-10 * abs(bound.value)
        assert verify_bound(X, bound, **raw)


def test_one_huge_edge_does_not_hide_the_others(rng):
    i, j = np.triu_indices(12, 1)
    edges, costs = np.stack([i, j], axis=1), rng.normal(size=len(i))
    alone = lower_bound(GraphProblem(edges, costs), method="trivial")
    graph = GraphProblem(np.append(edges, [[12, 13]], axis=0), np.append(costs, 1e16))
    trivial, triangles = (lower_bound(graph, method=method) for method in METHODS)
    assert trivial.value == pytest.approx(alone.value, rel=1e-9)
    assert triangles.value > trivial.value + 1
    for bound in (trivial, triangles):
        assert bound.rounding < 1e-10 * abs(bound.value)
        assert verify_bound(graph, bound)


def test_doubtful_terms_are_those_of_pairs_that_may_repel(rng, monkeypatch):
    X = rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-3, 4, size=(20, 1))
    problem = DenseProblem(X, 0.5)
    i, j = np.triu_indices(20, 1)
    terms, costs = problem.pair_terms(i, j), pair_costs(problem)[i, j]
    for share in (1e-15, 0.5):
        monkeypatch.setattr("clusterfug.bounds.pairs._BLOCK", 7)
        expected = terms[costs <= share * terms].sum()
        assert doubtful_terms(problem, share) == pytest.approx(expected, rel=1e-12)
