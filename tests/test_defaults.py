"""Defaults are the same at every entry point, "not given" is no value, and contradictions are errors."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from makers import blobs, unit
from sklearn.datasets import load_digits

from clusterfug import (
    Alpha,
    CostModel,
    DenseMulticut,
    DenseProblem,
    GraphProblem,
    Local,
    SolveManyError,
    Threshold,
    core,
    dense_multicut,
    lower_bound,
    objective,
    solve_many,
    threshold_path,
    verify_bound,
)
from clusterfug.costs.models import Column
from clusterfug.solvers import BestSearch


@pytest.fixture
def features(rng):
    return blobs(rng, 40)


@pytest.fixture(scope="module")
def raw_digits():
    """Pixels of digits as they are: all cosines are high."""
    return load_digits().data


def fit(X, threshold=None, **options):
    return DenseMulticut(threshold, **options).fit(X)


def solve_some(X, threshold=None, **options):
    return solve_many([X, X[:3]], threshold, **options)


ENTRY_POINTS = [dense_multicut, fit, solve_some]


def no_work(monkeypatch):
    """Make solving anything a failure."""
    monkeypatch.setattr(core, "execute", lambda *arguments, **options: pytest.fail("a problem was solved"))


@pytest.mark.parametrize("solve", ENTRY_POINTS)
@pytest.mark.parametrize("threshold", [0.4, 0.5, 0])
def test_a_threshold_beside_a_target_is_an_error(features, solve, threshold, monkeypatch):
    no_work(monkeypatch)
    with pytest.raises(ValueError, match="n_clusters chooses a local threshold: leave out threshold"):
        solve(features, threshold, n_clusters=3)


@pytest.mark.parametrize("threshold", [0.4, 0.5, "auto", "local", Threshold(0.4)])
def test_a_threshold_beside_a_problem_is_an_error(features, threshold, monkeypatch):
    no_work(monkeypatch)
    problem = DenseProblem(features, 0.2)
    bound = lower_bound(problem)
    for entry_point in (
        lambda: dense_multicut(problem, threshold),
        lambda: objective(problem, [0] * 40, threshold),
        lambda: lower_bound(problem, threshold),
        lambda: verify_bound(problem, bound, threshold),
    ):
        with pytest.raises(
            ValueError, match="X is a DenseProblem, which has its costs: leave out threshold"
        ):
            entry_point()
    with pytest.raises(SolveManyError, match="leave out threshold"):
        solve_many([problem], threshold)
    for name, value in (("metric", "cosine"), ("center", False), ("n_clusters", 3), ("alpha", 0.3)):
        with pytest.raises(ValueError, match=f"leave out {name}"):
            dense_multicut(problem, **{name: value})


@pytest.mark.parametrize("solve", ENTRY_POINTS)
@pytest.mark.parametrize("threshold", [0.4, 0.9, "auto", "local"])
def test_a_threshold_beside_alpha_is_an_error(features, solve, threshold, monkeypatch):
    no_work(monkeypatch)
    with pytest.raises(ValueError, match="alpha is used instead of a threshold: leave out threshold"):
        solve(features, threshold, alpha=0.3)


@pytest.mark.parametrize(
    "name", ["threshold", "alpha", "strictness", "n_neighbors", "n_clusters", "prefer"]
)
def test_a_path_has_no_other_costs_than_its_thresholds(features, name, monkeypatch):
    no_work(monkeypatch)
    with pytest.raises((TypeError, ValueError), match=name) as caught:
        threshold_path(features, [0.2, 0.4], **{name: 3})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("algorithm", ["auto", "dlaec"])
def test_a_path_with_bounds_has_one_for_every_result(features, algorithm):
    path = threshold_path(features, [0.0, 0.3, 0.6], algorithm=algorithm, bound=True)
    for threshold, result in zip(path.thresholds, path, strict=True):
        assert result.lower_bound == lower_bound(features, float(threshold)).value
        assert result.lower_bound <= result.objective
        assert verify_bound(features, result.bound, float(threshold))
        assert result.costs == Threshold(threshold)
    assert all(result.bound is None for result in threshold_path(features, [0.0, 0.3]))


def test_a_path_of_a_problem_is_an_error_that_says_what_to_do(features):
    with pytest.raises(
        ValueError, match="X is a DenseProblem, which has its costs: give features"
    ) as caught:
        threshold_path(DenseProblem(features, 0.2), [0.1, 0.2])
    assert "\n" not in str(caught.value)


def test_the_objective_of_a_graph_is_the_sum_of_the_edges_it_cuts():
    graph = GraphProblem([[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -3.0])
    assert objective(graph, [0, 0, 1]) == -2
    assert objective(graph, [0, 1, 2]) == 0
    with pytest.raises(ValueError, match="X is a GraphProblem, which has its costs: leave out threshold"):
        objective(graph, [0, 0, 1], 0.4)


@pytest.mark.parametrize(
    ("options", "several"),
    [
        ({}, False),
        ({"center": True}, True),
        ({"metric": "inner_product"}, True),
        ({"metric": "inner_product", "center": True}, True),
    ],
)
def test_a_warning_about_one_cluster_of_raw_digits_is_true(raw_digits, options, several):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = dense_multicut(raw_digits, "auto", algorithm="fast", **options)
    advice = [str(warning.message) for warning in caught]
    largest = np.bincount(result.labels).max()
    assert (result.n_clusters > 1) == several
    assert len(advice) == (largest >= 0.98 * len(raw_digits))
    assert not (options.get("center") and advice)
    for text in advice:
        assert ("all items" in text) == (result.n_clusters == 1)
        assert result.n_clusters == 1 or f"{largest:,} of {len(raw_digits):,} items" in text


def test_raw_digits_are_centred_on_request(raw_digits):
    centred = dense_multicut(raw_digits, 0.3, center=True, algorithm="fast")
    features = unit(raw_digits - raw_digits.mean(axis=0))
    expected = dense_multicut(DenseProblem(features, 0.3), algorithm="fast")
    np.testing.assert_array_equal(centred.labels, expected.labels)
    assert centred.preprocessing.center


def test_one_cluster_of_raw_digits_comes_with_one_line_of_advice(raw_digits):
    with pytest.warns(UserWarning, match="one cluster holds") as caught:
        result = dense_multicut(raw_digits, threshold=0.4, algorithm="fast")
    assert np.bincount(result.labels).max() >= 0.98 * len(raw_digits)
    [advice] = [str(warning.message) for warning in caught]
    assert "center=True" in advice
    assert "\n" not in advice
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dense_multicut(raw_digits, threshold=0.4, center=True, algorithm="fast")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "magic"}, "unknown algorithm 'magic'"),
        ({"algorithm": "gaec"}, "gaec"),
        ({"max_iter": 3}, "max_iter goes with best"),
        ({"time_limit": -1}, "time_limit must be at least 0"),
        ({"precision": "half"}, "unknown precision 'half'"),
        ({"memory_limit": "lots"}, "memory_limit must be bytes"),
        ({"bound": True}, "many problems on a GPU have no bounds"),
        ({"bound": 1}, "bound must be True or False"),
        ({"threshold": None}, "many problems on a GPU select no strictness"),
        ({"alpha": 0.3}, "alpha is used instead of a threshold"),
        ({"n_jobs": 2}, "n_jobs is for the CPU"),
        ({"metric": "euclid"}, "unknown metric 'euclid'"),
        ({"center": 1}, "center must be True or False"),
    ],
)
def test_options_of_many_problems_are_checked_before_any_is_solved(features, options, message, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(
        "clusterfug.execution.torch.solve.solve_packed",
        lambda *arguments: pytest.fail("a problem was solved"),
    )
    no_work(monkeypatch)
    with pytest.raises((ValueError, TypeError), match=message):
        solve_many([features, features[:5]], **{"threshold": 0.4, "device": torch.device("cpu")} | options)


@pytest.fixture(params=[{}, {"center": True}, {"metric": "inner_product"}])
def default(request, features):
    """Preprocessing, and the result of `dense_multicut` without any costs."""
    return request.param, dense_multicut(features, bound=True, **request.param)


def test_without_costs_every_entry_point_speaks_of_the_same_problem(features, default):
    options, result = default
    model = fit(features, bound=True, **options)
    np.testing.assert_array_equal(model.labels_, result.labels)
    assert model.objective_ == result.objective
    assert model.result_.costs == result.costs
    assert model.lower_bound_ == result.lower_bound
    [one] = solve_many([features], **options)
    assert (one.objective, one.costs) == (result.objective, result.costs)
    assert objective(features, result.labels, **options) == pytest.approx(result.objective, rel=1e-12)
    bound = lower_bound(features, **options)
    assert bound.value == pytest.approx(result.lower_bound, rel=1e-12)
    assert verify_bound(features, bound, **options)
    assert not verify_bound(features, bound, 0.4, **options)
    assert objective(features, result.labels, 0.4, **options) != pytest.approx(result.objective)


def test_a_clustering_brings_its_costs_and_preprocessing_to_objective(features, default):
    options, result = default
    assert isinstance(result.costs, Local)
    assert objective(features, result) == pytest.approx(result.objective, rel=1e-12)
    given = objective(features, result.labels, result.costs, **options)
    assert given == pytest.approx(result.objective, rel=1e-12)


@pytest.mark.parametrize(
    "costs",
    [
        {"threshold": 0.3, "center": True},
        {"threshold": "local", "strictness": 0.8, "metric": "inner_product"},
        {"alpha": np.linspace(0.4, 0.8, 40)},
        {"n_clusters": 3},
    ],
)
def test_the_objective_of_a_clustering_is_its_own_whatever_its_costs(features, costs):
    result = dense_multicut(features, algorithm="fast", **costs)
    assert objective(features, result) == pytest.approx(result.objective, rel=1e-12)


def test_objective_takes_what_is_not_given_from_the_clustering(rng):
    X, weight = 1 + rng.normal(size=(40, 5)), rng.uniform(0.5, 2, 40)
    result = dense_multicut(X, 0.3, center=True, sample_weight=weight)
    assert objective(X, result, sample_weight=weight) == result.objective
    assert objective(X, result, 0.1, sample_weight=weight) == objective(
        X, result.labels, 0.1, center=True, sample_weight=weight
    )
    with pytest.raises(ValueError, match="solved with weights, which it does not hold: give sample_weight"):
        objective(X, result)
    problem = DenseProblem(X, 0.3)
    solved = dense_multicut(problem)
    assert objective(problem, solved) == solved.objective
    with pytest.raises(ValueError, match="give that problem, or a threshold"):
        objective(X, solved)


def test_predict_preprocesses_as_fit_did(rng):
    X = 1 + rng.normal(size=(40, 5))
    model = DenseMulticut(0.3, metric="cosine").fit(X)
    expected = model.predict(X)
    np.testing.assert_array_equal(model.set_params(metric="inner_product").predict(X), expected)


def test_a_solver_as_a_value_takes_no_other_options(rng):
    X = rng.normal(size=(12, 3))
    for options in ({"init": np.zeros(12, int)}, {"max_iter": 0}, {"random_state": 3}):
        with pytest.raises(ValueError, match=f"the solver brings its options: give {next(iter(options))}"):
            dense_multicut(X, 0.3, algorithm=BestSearch(max_iter=2), **options)
    assert DenseMulticut(0.3, algorithm=BestSearch(max_iter=2)).fit(X).result_.algorithm == "best"


def test_what_is_given_replaces_one_parameter_of_the_costs_of_a_clustering(rng):
    X = 1 + rng.normal(size=(40, 5))
    result = dense_multicut(X, Local(0.8, 7), center=True)
    assert objective(X, result, strictness=0.8) == result.objective
    assert objective(X, result, n_neighbors=7) == result.objective
    assert objective(X, result, "local", strictness=0.5) == objective(
        X, result.labels, Local(0.5, 7), center=True
    )
    assert objective(X, result, alpha=0.5) == objective(X, result.labels, alpha=0.5, center=True)
    result = dense_multicut(X, alpha=0.5, prefer="large", center=True)
    assert objective(X, result, alpha=0.5) == objective(X, result, prefer="large") == result.objective


def test_a_clustering_stands_for_its_costs(rng):
    X, weight = 1 + rng.normal(size=(40, 5)), rng.uniform(0.5, 2, 40)
    result = dense_multicut(X, 0.3, center=True, sample_weight=weight)
    again = dense_multicut(X, result, algorithm="gaec", sample_weight=weight)
    assert (again.costs, again.preprocessing) == (result.costs, result.preprocessing)
    assert objective(X, result.labels, result, sample_weight=weight) == result.objective
    bound = lower_bound(X, result, sample_weight=weight)
    assert float(bound) == float(lower_bound(X, 0.3, center=True, sample_weight=weight))
    assert verify_bound(X, bound, result, sample_weight=weight)
    with pytest.raises(ValueError, match="give sample_weight"):
        lower_bound(X, result)


def test_costs_of_two_problems_are_an_error(features):
    result = dense_multicut(features, 0.3)
    with pytest.raises(ValueError, match="to use those of the DenseProblem, give its labels"):
        objective(DenseProblem(features, 0.5), result)
    for call in (objective, lower_bound):
        arguments = (features,) if call is lower_bound else (features, result.labels)
        with pytest.raises(ValueError, match="n_clusters is for solving: give the clustering"):
            call(*arguments, n_clusters=3)
        with pytest.raises(TypeError, match="treshold is no parameter of costs: they are threshold, alpha"):
            call(*arguments, treshold=0.3)


@pytest.mark.parametrize(
    "given", [{"prefer": "large"}, {"strictness": 0.5}, {"alpha": 0.5}, {"n_clusters": 3}], ids=str
)
@pytest.mark.parametrize("model", [Threshold(0.3), Local(0.5), Alpha(0.3)], ids=lambda model: model.name)
def test_a_cost_model_has_its_parameters_already(features, model, given):
    with pytest.raises(
        ValueError, match=f"a cost model has its parameters already: leave out {next(iter(given))}"
    ):
        dense_multicut(features, model, **given)


def test_a_clustering_of_a_cost_model_that_is_not_registered_brings_it(features):
    @dataclass(frozen=True)
    class Half(CostModel):
        name = "half"

        def column(self, features, weight, device=None):
            return Column(np.full(len(features), 0.5), -1.0)

    result = dense_multicut(features, Half())
    assert objective(features, result) == result.objective
    assert objective(features, result, 0.3) == objective(features, result.labels, 0.3)
