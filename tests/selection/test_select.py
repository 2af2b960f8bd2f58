"""Solving with a local threshold: options, initial labels, time, and errors before any work."""

import numpy as np
import pytest
from makers import around_axes, assert_same_clusters, gaussian_mixture
from reference import assert_selected

from clusterfug import DenseProblem, GraphProblem, core, dense_multicut

GOOD = np.eye(4)


def solve(X, threshold=None, **options):
    """Solve rows as they are."""
    return dense_multicut(X, threshold, metric="inner_product", **options)


def test_items_of_weight_0_change_nothing(rng):
    X, _ = gaussian_mixture(rng, 40, 4, 8, 0.6)
    weight = (np.arange(40) % 4 > 0).astype(float)
    for options in ({"threshold": "auto"}, {"n_clusters": 7}):
        result = solve(X, sample_weight=weight, algorithm="fast", **options)
        alone = solve(X[weight > 0], algorithm="fast", **options)
        assert_same_clusters(result.labels[weight > 0], alone.labels)
        assert result.n_clusters == alone.n_clusters
        assert result.choice.strictness == pytest.approx(alone.choice.strictness)
        assert_selected(result, X, sample_weight=weight)


@pytest.fixture
def runs(monkeypatch):
    """The problem, the solver and the result of every run of a selection."""
    runs = []
    execute = core.execute

    def recorded(problem, solver, *arguments, **options):
        runs.append((problem, solver, execute(problem, solver, *arguments, **options)))
        return runs[-1][-1]

    monkeypatch.setattr(core, "execute", recorded)
    return runs


@pytest.mark.parametrize("way", [{"threshold": "auto"}, {"n_clusters": 9}])
def test_only_the_first_run_starts_from_init(rng, runs, way):
    X, _ = gaussian_mixture(rng, 40, 4, 8, 1.2)
    init = rng.integers(5, size=40)
    result = assert_selected(solve(X, init=init, algorithm="fast", **way), X)
    first, *others = (solver.init for _, solver, _ in runs)
    np.testing.assert_array_equal(first, init)
    assert not any(np.array_equal(start, init) for start in others)
    assert result.seconds >= sum(found.seconds for _, _, found in runs)


@pytest.mark.parametrize("algorithm", ["auto", "best", "exact"])
def test_the_last_run_starts_from_the_labels_of_the_candidate(rng, runs, algorithm):
    X, _ = gaussian_mixture(rng, 30, 4, 8, 1.2)
    more = {"max_iter": 1} if algorithm == "best" else {}
    result = assert_selected(solve(X, "auto", algorithm=algorithm, **more), X)
    *candidates, (problem, solver, _) = runs
    assert [solver.name for _, solver, _ in candidates] == ["fast"] * len(result.choice.candidates)
    assert solver.name == algorithm
    alpha = problem.costs.alpha
    [best] = [found for other, _, found in candidates if np.array_equal(other.costs.alpha, alpha)]
    np.testing.assert_array_equal(solver.init, best.labels)
    assert result.objective <= best.objective


@pytest.mark.parametrize("algorithm", ["fast", "auto", "best", "exact", "dlaec"])
@pytest.mark.parametrize("threshold", ["auto", "local"])
def test_seconds_include_all_phases(rng, algorithm, threshold):
    X, _ = gaussian_mixture(rng, 20, 3, 6, 1.0)
    more = {"max_iter": 2} if algorithm == "best" else {}
    result = solve(X, threshold, algorithm=algorithm, **more)
    assert sum(phase.seconds for phase in result.trace) <= result.seconds


@pytest.mark.parametrize("options", [{"threshold": "auto"}, {"threshold": "local"}, {"n_clusters": 5}])
def test_init_of_another_length_is_an_error(rng, options):
    X, _ = around_axes(rng, 30)
    with pytest.raises(ValueError, match="init"):
        solve(X, init=np.zeros(7, dtype=int), **options)


@pytest.mark.parametrize("options", [{"threshold": "auto"}, {"n_clusters": 5}])
def test_time_limit_callback_and_interrupt(rng, options):
    X, _ = gaussian_mixture(rng, 40, 4, 8, 1.0)
    seen = []
    result = solve(X, time_limit=600, callback=lambda *call: seen.append(call), **options)
    assert_selected(result, X)
    assert seen
    assert all(0 <= done <= total for _, done, total in seen)
    assert_selected(solve(X, time_limit=0, **options), X)

    def interrupt(phase, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(X, callback=interrupt, algorithm="fast", **options)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool])
def test_any_type_of_features(rng, dtype):
    X = rng.integers(0, 2, size=(30, 6)).astype(dtype)
    for options in ({"threshold": "auto"}, {"n_clusters": 5}):
        result = assert_selected(solve(X, algorithm="fast", **options), X)
        expected = solve(X.astype(np.float64), algorithm="fast", **options)
        np.testing.assert_array_equal(result.labels, expected.labels)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_clusters": 0}, ValueError, "n_clusters must be at least 1, not 0"),
        ({"n_clusters": 2.0}, TypeError, "n_clusters must be a whole number, not 2.0"),
        ({"n_clusters": True}, TypeError, "n_clusters must be a whole number"),
        ({"n_clusters": "3"}, TypeError, "n_clusters must be a whole number"),
        ({"n_clusters": (5, 3)}, ValueError, r"not \(5, 3\): swap them"),
        ({"n_clusters": (0, 3)}, ValueError, "n_clusters must be at least 1"),
        ({"n_clusters": (1, 2, 3)}, TypeError, "n_clusters must be a whole number"),
        ({"n_clusters": 5}, ValueError, "n_clusters is 5, but there are only 4 items"),
        ({"n_clusters": (5, 6)}, ValueError, "there are only 4 items"),
        ({"n_clusters": 2, "threshold": 0.3}, ValueError, r"n_clusters .* leave out threshold=0\.3"),
        ({"n_clusters": 2, "threshold": "near"}, ValueError, "leave out threshold='near'"),
        ({"n_clusters": 2, "alpha": 0.5}, ValueError, "not with alpha: leave out n_clusters"),
        ({"n_clusters": 2, "alpha": np.ones(4)}, ValueError, "not with alpha: leave out n_clusters"),
        ({"n_clusters": 2, "strictness": 0.5}, ValueError, "n_clusters .* leave out strictness"),
        ({"n_clusters": 2, "prefer": "large"}, ValueError, "goes with alpha"),
        ({"n_clusters": 2, "n_neighbors": 0}, ValueError, "n_neighbors must be at least 1"),
        (
            {"n_clusters": 2, "algorithm": "best"},
            ValueError,
            "n_clusters goes with auto and fast, not with best",
        ),
        (
            {"n_clusters": 2, "algorithm": "gaec"},
            ValueError,
            "n_clusters goes with auto and fast, not with gaec",
        ),
        ({"threshold": "auto", "alpha": 0.5}, ValueError, "alpha .* leave out threshold='auto'"),
        ({"threshold": "auto", "alpha": np.ones(4)}, ValueError, "alpha .* leave out threshold='auto'"),
        ({"threshold": "auto", "strictness": 0.5}, ValueError, "'auto' .* leave out strictness"),
        ({"threshold": "auto", "prefer": "large"}, ValueError, "goes with alpha"),
        ({"threshold": "auto", "n_neighbors": 0}, ValueError, "n_neighbors must be at least 1"),
        ({"threshold": "auto", "n_neighbors": -3}, ValueError, "n_neighbors must be at least 1"),
        ({"threshold": "auto", "n_neighbors": 2.5}, TypeError, "n_neighbors must be a whole number"),
        ({"threshold": "auto", "max_iter": 3}, ValueError, "max_iter goes with best"),
        ({"threshold": "auto", "algorithm": "gaec", "init": [0] * 4}, ValueError, "init goes with"),
        ({"threshold": "auto", "sample_weight": np.zeros(4)}, ValueError, "zero everywhere"),
    ],
)
def test_errors_are_one_line(options, error, message):
    with pytest.raises(error, match=message) as caught:
        solve(GOOD, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"threshold": "auto"}, {"threshold": "local"}, {"n_clusters": 2}])
def test_a_strictness_is_selected_for_features_only(options):
    for problem in (DenseProblem(GOOD, 0.4), GraphProblem([[0, 1]], [1.0])):
        with pytest.raises(ValueError, match="Problem, which has its costs: leave out ") as caught:
            dense_multicut(problem, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="not finite: NaN in row 0, column 0"):
        solve(GOOD * np.nan, **options)
