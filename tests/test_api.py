"""The public functions: their examples, and how arguments become a problem."""

import doctest
import importlib

import numpy as np
import pytest
from makers import around_axes
from reference import cost_matrix
from reference import objective as naive_objective

from clusterfug import (
    DenseProblem,
    GraphProblem,
    Local,
    Preprocessing,
    Threshold,
    dense_multicut,
    lower_bound,
    multicut,
    objective,
    verify_bound,
)


@pytest.mark.parametrize("module", ["api", "models.estimator", "costs.local"])
def test_examples_in_the_docstrings_are_true(module):
    failed, tried = doctest.testmod(importlib.import_module(f"clusterfug.{module}"))
    assert tried > 0
    assert failed == 0


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("metric", ["cosine", "inner_product"])
def test_metric_and_center_are_preprocessing_of_the_features(rng, metric, center):
    X = rng.normal(size=(30, 4)) + 0.5
    features = X - X.mean(axis=0) if center else X
    if metric == "cosine":
        features = features / np.linalg.norm(features, axis=1, keepdims=True)
    problem = DenseProblem(features, 0.3)
    costs = {"threshold": 0.3, "metric": metric, "center": center}
    result = dense_multicut(X, **costs)
    expected = dense_multicut(problem)
    np.testing.assert_array_equal(result.labels, expected.labels)
    assert result.objective == pytest.approx(expected.objective, rel=1e-9)
    assert (result.costs, result.preprocessing) == (Threshold(0.3), Preprocessing(metric, center))
    assert objective(X, result.labels, **costs) == pytest.approx(expected.objective, rel=1e-9)
    bound = lower_bound(X, **costs)
    assert bound.value == pytest.approx(lower_bound(problem).value, rel=1e-6)
    assert verify_bound(X, bound, **costs)


def test_the_objective_is_that_of_the_definition(rng):
    X, labels = rng.normal(size=(20, 3)), rng.integers(4, size=20)
    weight = rng.integers(1, 4, size=20)
    for options in (
        {"threshold": 0.4},
        {"alpha": 0.5},
        {"alpha": np.linspace(0, 1, 20), "prefer": "large"},
    ):
        for more in ({}, {"sample_weight": weight}):
            expected = naive_objective(cost_matrix(X, **options, **more), labels)
            found = objective(X, labels, metric="inner_product", **options, **more)
            assert found == pytest.approx(expected, rel=1e-9)
            assert DenseProblem(X, **options, **more).objective(labels) == pytest.approx(expected, rel=1e-9)


def test_objective_bound_and_verification_take_problems(rng):
    X, labels = rng.normal(size=(20, 3)), rng.integers(4, size=20)
    dense = DenseProblem(X, 0.4)
    i, j = np.triu_indices(20, 1)
    graph = GraphProblem(np.stack([i, j], axis=1), (X @ X.T - 0.4)[i, j])
    expected = naive_objective(cost_matrix(X, 0.4), labels)
    for problem in (dense, graph):
        assert objective(problem, labels) == pytest.approx(expected)
        bound = lower_bound(problem)
        assert bound.value <= expected
        assert verify_bound(problem, bound)
    with pytest.raises(TypeError, match="X is a GraphProblem: use multicut"):
        dense_multicut(graph)


def test_a_clustering_of_a_problem_has_the_objective_of_the_problem():
    graph = GraphProblem([[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -3.0])
    result = multicut(graph)
    assert objective(graph, result) == result.objective
    dense = DenseProblem(np.eye(3), 0.4)
    result = dense_multicut(dense)
    assert objective(dense, result) == result.objective


def test_costs_that_are_given_replace_those_of_a_clustering(rng):
    X, _ = around_axes(rng, 30)
    result = dense_multicut(X, "local", strictness=0.8)
    assert result.costs == Local(0.8)
    assert objective(X, result, 0.2) == pytest.approx(objective(X, result.labels, 0.2))
    assert objective(X, result, 0.2) != pytest.approx(result.objective)


@pytest.mark.parametrize(
    "costs",
    [
        {"threshold": 0.3},
        {"alpha": 0.5},
        {"alpha": np.linspace(0, 1, 30), "prefer": "large"},
        {"threshold": "local"},
        {},
    ],
    ids=["threshold", "alpha", "prefer large", "local", "auto"],
)
@pytest.mark.parametrize("algorithm", ["gaec", "fast", "auto", "exact"])
def test_links_go_with_all_costs(rng, costs, algorithm):
    X, weight = around_axes(rng, 30)[0], rng.integers(1, 3, size=30)
    links = {
        "must_link": [[0, 1], [1, 2]],
        "cannot_link": [[0, 5], [3, 4]],
        "exclusive": [""] * 10 + ["a"] * 10 + ["b"] * 10,
    }
    with np.errstate(all="raise"):
        result = dense_multicut(X, **costs, **links, sample_weight=weight, algorithm=algorithm, bound=True)
    assert result.broken_links == result.links.broken(result.labels) == 0
    assert result.bound.value <= result.objective
    known = {"threshold": result.costs, "sample_weight": weight}
    assert objective(X, result.labels, **known) == pytest.approx(result.objective)
    assert objective(X, result.labels, **known, **links) == pytest.approx(result.objective)
    bound = lower_bound(X, **known, **links)
    assert bound.value <= result.objective
    assert verify_bound(X, bound, **known, **links)
    if result.bound.certificate is not None:
        assert verify_bound(X, result.bound, **known, **links)


def test_links_of_float32_features_and_of_graphs(rng):
    X = rng.normal(size=(25, 3))
    pairs = np.stack(np.triu_indices(25, 1), axis=1)
    links = {"cannot_link": [[0, 1], [2, 3]], "must_link": [[4, 5]]}
    expected = dense_multicut(DenseProblem(X, 0.2), **links, algorithm="exact")
    graph = GraphProblem(pairs, cost_matrix(X, 0.2)[tuple(pairs.T)], 25)
    for result in (
        multicut(graph, **links, algorithm="exact"),
        multicut(pairs, graph.costs, 25, **links, algorithm="exact"),
        dense_multicut(X.astype(np.float32), 0.2, metric="inner_product", **links, algorithm="exact"),
    ):
        assert result.optimal
        assert result.objective == pytest.approx(expected.objective, rel=1e-6)


def test_a_graph_is_for_multicut_with_links_too():
    graph = GraphProblem([[0, 1]], [1.0])
    for links in ({}, {"must_link": [[0, 1]]}):
        with pytest.raises(TypeError, match="use multicut"):
            dense_multicut(graph, **links)


def test_links_without_pairs_change_nothing(rng):
    X = rng.normal(size=(20, 3))
    expected = dense_multicut(X, 0.2)
    result = dense_multicut(
        X, 0.2, must_link=[], cannot_link=np.empty((0, 2), dtype=int), exclusive=range(20)
    )
    np.testing.assert_array_equal(result.labels, expected.labels)
    assert result.objective == expected.objective


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"device": "cuda"}, "leave out the device"),
        ({"checkpoint": "run"}, "checkpoint goes with features"),
        ({"n_clusters": 3, "threshold": None}, "leave it out, or the links"),
        ({"algorithm": "dgaec"}, "is solved by auto, fast, best, exact, gaec, not by dgaec"),
        ({"cannot_link": [[0, 1]]}, "cannot be together"),
    ],
)
def test_what_does_not_go_with_links_is_one_line(rng, keywords, message):
    with pytest.raises(ValueError, match=message):
        dense_multicut(rng.normal(size=(9, 2)), **({"threshold": 0.3, "must_link": [[0, 1]]} | keywords))
