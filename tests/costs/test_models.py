"""Cost models: the costs they define, which arguments describe them, and their settings."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import reference
from makers import blobs, unit

from clusterfug import (
    Alpha,
    Auto,
    CostModel,
    DenseMulticut,
    DenseProblem,
    Local,
    Threshold,
    dense_multicut,
    local_alpha,
    lower_bound,
    objective,
    solve_many,
    verify_bound,
)
from clusterfug.costs.models import NAMED, Column, TargetClusters, cost_model, from_settings, register
from clusterfug.solvers import names

RAW = {"metric": "inner_product"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, Auto()),
        ({"n_neighbors": 7}, Auto(7)),
        ({"threshold": "auto", "n_neighbors": 7}, Auto(7)),
        ({"threshold": 0}, Threshold(0.0)),
        ({"threshold": 0.4}, Threshold(0.4)),
        ({"threshold": Threshold(0.3)}, Threshold(0.3)),
        ({"threshold": "local"}, Local(0.6)),
        ({"strictness": 0.9}, Local(0.9)),
        ({"threshold": "local", "strictness": 0.9, "n_neighbors": 3}, Local(0.9, 3)),
        ({"n_clusters": 5}, TargetClusters(None, 5, 5)),
        ({"threshold": "local", "n_clusters": (2, 5), "n_neighbors": 3}, TargetClusters(3, 2, 5)),
    ],
)
def test_arguments_describe_a_model(arguments, expected):
    assert cost_model(**arguments) == expected


def test_alpha_describes_a_model():
    model = cost_model(alpha=[0.5, 1.0], prefer="large")
    assert isinstance(model, Alpha)
    assert model.prefer == "large"
    np.testing.assert_array_equal(model.alpha, [0.5, 1.0])


@pytest.mark.parametrize(
    "model", [Threshold(0.4), Alpha(0.5, "large"), Local(0.7, 9), Auto(), TargetClusters(None, 2, 5)]
)
def test_settings_are_json_that_describes_the_model(model):
    settings = json.loads(json.dumps(model.settings()))
    assert settings["name"] == model.name
    assert from_settings(settings).settings() == model.settings()


@pytest.mark.parametrize("alpha", [[0.5, 1.0], np.array([0.5, 1.0])])
def test_settings_do_not_hold_one_number_per_item(alpha):
    settings = Alpha(alpha).settings()
    assert settings["alpha"] == "per item"
    with pytest.raises(ValueError, match="the costs have one number per item, which is not stored"):
        from_settings(settings)
    with pytest.raises(ValueError, match="unknown cost model 'other': choose one of"):
        from_settings({"name": "other"})


def test_a_registered_model_is_available_by_name(monkeypatch, rng):
    monkeypatch.setattr("clusterfug.costs.models.NAMED", dict(NAMED))

    @register
    @dataclass(frozen=True)
    class Median(CostModel):
        """The threshold is the median similarity."""

        name: ClassVar[str] = "median"
        needs_all_items: ClassVar[bool] = False

        def column(self, features, weight, device=None):
            similarities = (features @ features.T)[np.triu_indices(len(features), 1)]
            return Column(np.ones(len(features)), -float(np.median(similarities)))

    X = unit(blobs(rng, 20))
    result = dense_multicut(X, "median")
    similarities = (X @ X.T)[np.triu_indices(20, 1)]
    expected = dense_multicut(X, float(np.median(similarities)))
    np.testing.assert_array_equal(result.labels, expected.labels)
    assert result.objective == pytest.approx(expected.objective)
    assert result.costs == Median()
    np.testing.assert_array_equal(DenseMulticut("median").fit(X).labels_, expected.labels)
    with pytest.raises(ValueError, match="strictness goes with"):
        dense_multicut(X, "median", strictness=0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_local_problem_has_the_costs_of_its_alpha(rng, dtype):
    X = blobs(rng, 30).astype(dtype)
    weight = rng.integers(0, 3, size=30)
    for options in ({}, {"strictness": 1.5}, {"n_neighbors": 4}, {"sample_weight": weight}):
        problem = DenseProblem(X, "local", **options)
        alpha = local_alpha(X, **options)
        costs = reference.cost_matrix(X, alpha=alpha, sample_weight=options.get("sample_weight"))
        everything = 0, 30, np.float64
        found = problem.queries(*everything) @ problem.extended(*everything).T
        np.testing.assert_allclose(found, costs, rtol=1e-9, atol=1e-9)
        assert np.shares_memory(problem.rows.features, X)
        assert repr(problem) == "DenseProblem(n=30, d=4, alpha)"


def test_objective_and_bounds_of_a_local_threshold_are_those_of_its_alpha(rng):
    X, labels = blobs(rng, 30), rng.integers(0, 5, size=30)
    weight = rng.integers(1, 4, size=30)
    local = RAW | {"threshold": "local", "strictness": 0.9, "n_neighbors": 6, "sample_weight": weight}
    alpha = local_alpha(X, 0.9, n_neighbors=6, sample_weight=weight)
    plain = RAW | {"alpha": alpha, "sample_weight": weight}
    costs = reference.cost_matrix(X, alpha=alpha, sample_weight=weight)
    assert objective(X, labels, **local) == pytest.approx(reference.objective(costs, labels))
    for method in ("trivial", "triangles"):
        bound = lower_bound(X, **local, method=method)
        assert bound.value == lower_bound(X, **plain, method=method).value
        assert verify_bound(X, bound, **local)
        assert verify_bound(X, bound, **plain)
        assert not verify_bound(X, bound, **(local | {"strictness": 2.0}))


@pytest.mark.parametrize("algorithm", names())
def test_every_algorithm_solves_a_local_problem(rng, algorithm):
    if algorithm == "dapplaec":
        pytest.importorskip("faiss")
    X = unit(blobs(rng, 30))
    options = {"algorithm": algorithm} | ({"max_iter": 2} if algorithm == "best" else {})
    local = {"strictness": 0.8, "n_neighbors": 5}
    result = dense_multicut(X, "local", **local, **options, **RAW)
    alpha = local_alpha(X, 0.8, n_neighbors=5)
    plain = dense_multicut(X, alpha=alpha, **options, **RAW)
    assert result.algorithm == algorithm
    np.testing.assert_array_equal(result.labels, plain.labels)
    assert result.objective == pytest.approx(objective(X, result.labels, "local", **local))
    assert result.inside == pytest.approx(DenseProblem(X, alpha=alpha).inside(result.labels))
    assert 1 < result.n_clusters < 30
    problem = DenseProblem(X, "local", **local)
    np.testing.assert_array_equal(dense_multicut(problem, **options).labels, plain.labels)


def test_the_choice_of_a_given_strictness_says_so(rng):
    X = blobs(rng, 20)
    choice = dense_multicut(X, "local", strictness=0.7, algorithm="fast", **RAW).choice
    assert (choice.strictness, choice.target, choice.met, choice.rows()) == (0.7, None, True, [])
    assert choice.reason == "strictness 0.7, as given"
    np.testing.assert_array_equal(choice.alpha, local_alpha(X, 0.7))
    assert dense_multicut(X, "local", algorithm="fast").choice.strictness == 0.6
    assert dense_multicut(X, alpha=choice.alpha, algorithm="fast").choice is None
    for name in ("candidates", "n_clusters", "silhouette", "agreement", "scores"):
        column = getattr(choice, name)
        assert column.shape == (0,)
        assert column.dtype == (np.int64 if name == "n_clusters" else np.float64)


def test_options_reach_a_local_problem(rng):
    X = blobs(rng, 30)
    init = rng.integers(0, 4, size=30)
    weight = rng.integers(0, 3, size=30)
    local = {"threshold": "local", "sample_weight": weight}
    seen = []
    options = {"algorithm": "fast", "init": init, "time_limit": 100, "bound": True}
    result = dense_multicut(X, **local, **options, callback=lambda *call: seen.append(call))
    assert result.objective <= objective(X, init, **local)
    assert result.objective == pytest.approx(objective(X, result.labels, **local))
    assert verify_bound(X, result.bound, **local)
    assert result.bound.value <= result.objective
    assert seen
    refined = dense_multicut(X, "local", algorithm="dlaec", k=3, refine=True)
    assert refined.trace[-1].name == "refinement"


def test_a_larger_strictness_gives_more_clusters(rng):
    X = unit(blobs(rng, 50, d=6, noise=0.8))
    results = [dense_multicut(X, "local", strictness=s, algorithm="fast") for s in (0.2, 1.0, 3.0)]
    counts = [result.n_clusters for result in results]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("algorithm", ["fast", "dgaec"])
def test_scale_changes_costs_but_no_label(rng, algorithm):
    X = blobs(rng, 40, noise=0.8)
    expected = dense_multicut(X, "local", algorithm=algorithm, **RAW)
    for scale in (3.7, 1e-3, 1e20):
        result = dense_multicut(X * scale, "local", algorithm=algorithm, **RAW)
        np.testing.assert_array_equal(result.labels, expected.labels)
        assert result.objective == pytest.approx(scale**2 * expected.objective)


def test_many_local_problems_are_solved_as_one_by_one(rng):
    problems = [blobs(rng, n) for n in (30, 5, 1, 17)]
    for result, X in zip(solve_many(problems, threshold="local", strictness=0.9), problems, strict=True):
        alone = dense_multicut(X, "local", strictness=0.9)
        np.testing.assert_array_equal(result.labels, alone.labels)
        assert result.objective == alone.objective
        np.testing.assert_array_equal(result.choice.alpha, alone.choice.alpha)


GOOD = np.eye(4)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"threshold": 0.3, "strictness": 0.5}, ValueError, 'strictness goes with threshold="local"'),
        ({"threshold": 0.3, "n_neighbors": 3}, ValueError, 'n_neighbors goes with threshold="local"'),
        ({"threshold": Threshold(0.3), "strictness": 0.5}, ValueError, "already: leave out strictness"),
        ({"threshold": Local(0.3), "n_neighbors": 3}, ValueError, "already: leave out n_neighbors"),
        ({"threshold": "auto", "strictness": 0.5}, ValueError, "leave out strictness"),
        ({"alpha": 0.5, "strictness": 0.5}, ValueError, "strictness goes with"),
        ({"threshold": "local", "alpha": 0.5, "strictness": 0.5}, ValueError, "alpha is used instead"),
        ({"threshold": "local", "strictness": -0.1}, ValueError, "strictness must be at least 0, not -0.1"),
        ({"threshold": "local", "strictness": np.nan}, ValueError, "strictness must be a finite number"),
        ({"threshold": "local", "strictness": "x"}, TypeError, "strictness must be a number, not 'x'"),
        ({"threshold": "local", "n_neighbors": 0}, ValueError, "n_neighbors must be at least 1, not 0"),
        ({"threshold": "local", "n_neighbors": 2.5}, TypeError, "n_neighbors must be a whole number"),
        ({"threshold": "local", "prefer": "large"}, ValueError, 'prefer="large" goes with alpha'),
        ({"threshold": "local", "sample_weight": np.zeros(4)}, ValueError, "zero everywhere"),
        (
            {"threshold": "near"},
            ValueError,
            'must be a number or one of "local", "auto", "neighbours", not \'near\'',
        ),
    ],
)
def test_errors_are_the_same_line_at_every_entry_point(options, error, message):
    bound = lower_bound(GOOD, 0.4)
    for entry_point in (
        DenseProblem,
        dense_multicut,
        lower_bound,
        lambda X, **options: objective(X, [0, 0, 1, 1], **options),
        lambda X, **options: verify_bound(X, bound, **options),
        lambda X, sample_weight=None, **options: DenseMulticut(**options).fit(X, None, sample_weight),
    ):
        with pytest.raises(error, match=message) as caught:
            entry_point(GOOD, **options)
        assert "\n" not in str(caught.value)


def test_a_model_of_some_items_has_their_parameters():
    items = slice(1, 3)
    assert Threshold(0.4).of_items(items) == Threshold(0.4)
    assert Alpha(0.5).of_items(items).alpha == 0.5
    np.testing.assert_array_equal(Alpha([1.0, 2.0, 3.0, 4.0], "large").of_items(items).alpha, [2.0, 3.0])


def test_a_model_that_is_selected_has_no_costs_yet():
    with pytest.raises(ValueError, match="auto costs are selected first"):
        Auto().column(GOOD, np.ones(4))


def test_a_target_has_no_strictness():
    with pytest.raises(ValueError, match="n_clusters chooses a local threshold: leave out strictness"):
        dense_multicut(GOOD, n_clusters=2, strictness=0.5)
    with pytest.raises(ValueError, match=r"n_clusters goes with .*, not with alpha: leave out n_clusters"):
        dense_multicut(GOOD, n_clusters=2, alpha=0.5)


def test_a_dense_problem_does_not_select_its_costs():
    for options in (
        {"threshold": "auto"},
        {"threshold": Auto()},
        {"threshold": TargetClusters(None, 2, 3)},
    ):
        with pytest.raises(
            ValueError, match='is selected by dense_multicut; here it is a number or "local"'
        ):
            DenseProblem(GOOD, **options)
    with pytest.raises(ValueError, match="a DenseProblem needs its costs: give threshold or alpha"):
        DenseProblem(GOOD)


def test_a_signature_does_not_go_with_a_local_threshold():
    with pytest.raises(ValueError, match='signature does not go with threshold="local"'):
        DenseProblem(GOOD, "local", signature=[1, 1, 1, -1])
