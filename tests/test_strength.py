"""Local thresholds: affinity strengths by a double loop, their costs, and what is an error."""

import numpy as np
import pytest
import reference
from clusterfug.options import ALGORITHMS
from hypothesis import given
from hypothesis import strategies as st

from clusterfug import (
    DenseProblem,
    SolveManyError,
    dense_multicut,
    local_alpha,
    lower_bound,
    objective,
    solve_many,
    verify_bound,
)
from clusterfug.costs.local import neighbourhood


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def asked(n, m):
    """How many neighbours: 100 by default, of few items two thirds."""
    return m or min(100, max(1, int(2 * n / 3)))


def mean_similarity(x, others, m):
    """To the m most similar of the others, and at least a hundredth of that to itself."""
    similar = sorted((x @ y for y in others), reverse=True)[:m]
    return max(np.mean(similar) if similar else x @ x, 0.01 * (x @ x))


def naive_similarity(X, m=None):
    X = np.asarray(X, dtype=np.float64)
    m = asked(len(X), m)
    return np.array([mean_similarity(X[i], np.delete(X, i, axis=0), m) for i in range(len(X))])


def naive_alpha(X, strictness=0.6, m=None):
    return np.sqrt(strictness * naive_similarity(X, m))


def mixture(rng, n, d=4, clusters=4, noise=0.4):
    return rng.normal(size=(clusters, d))[rng.integers(clusters, size=n)] + noise * rng.normal(size=(n, d))


def same_clusters(labels, others):
    np.testing.assert_array_equal(labels[:, None] == labels, others[:, None] == others)


# Affinity strengths


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    m=st.one_of(st.none(), st.integers(1, 40)),
    strictness=st.floats(0, 4),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_alpha_is_that_of_a_double_loop(seed, n, m, strictness, dtype):
    rng = np.random.default_rng(seed)
    X = mixture(rng, n)
    X[rng.random(n) < 0.2] = X[0]  # duplicates
    X[rng.random(n) < 0.1] = 0
    X = X.astype(dtype)
    alpha = local_alpha(X, strictness, n_neighbors=m)
    assert alpha.dtype == np.float64
    np.testing.assert_allclose(alpha, naive_alpha(X, strictness, m), rtol=1e-9, atol=1e-12)


@pytest.mark.large
def test_of_many_items_a_hundred_neighbours_are_asked(rng):
    X = unit(mixture(rng, 400))
    np.testing.assert_allclose(local_alpha(X), naive_alpha(X, m=100), rtol=1e-9)
    np.testing.assert_allclose(local_alpha(X[:150]), naive_alpha(X[:150], m=100), rtol=1e-9)
    np.testing.assert_allclose(local_alpha(X[:147]), naive_alpha(X[:147], m=98), rtol=1e-9)


def repeated_alpha(X, weight, m):
    """One alpha per item from the rows repeated; 0 of weight 0."""
    every = naive_alpha(np.repeat(X, weight, axis=0), m=m)
    alpha = np.zeros(len(X))
    alpha[weight > 0] = every[(np.cumsum(weight) - weight)[weight > 0]]
    return alpha


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 25),
    m=st.one_of(st.none(), st.integers(1, 40)),
)
def test_weights_are_repetitions(seed, n, m):
    rng = np.random.default_rng(seed)
    X, weight = unit(mixture(rng, n)), rng.integers(0, 5, size=n)
    weight[rng.integers(n)] = 3  # not all of them 0
    alpha = local_alpha(X, n_neighbors=m, sample_weight=weight)
    np.testing.assert_allclose(alpha, repeated_alpha(X, weight, m), rtol=1e-9, atol=1e-12)
    assert np.all((alpha == 0) == (weight == 0))


@pytest.mark.parametrize("m", [1, 3, 8, None])
def test_weights_are_repetitions_whatever_the_lengths(rng, m):
    """A longer item may be more similar than a copy of the item itself."""
    X, weight = mixture(rng, 20) * rng.uniform(0.2, 5, size=(20, 1)), rng.integers(1, 5, size=20)
    alpha = local_alpha(X, n_neighbors=m, sample_weight=weight)
    np.testing.assert_allclose(alpha, repeated_alpha(X, weight, m), rtol=1e-9)


def test_items_of_weight_0_are_nobodys_neighbours(rng):
    X = unit(mixture(rng, 30))
    weight = (np.arange(30) % 3 > 0).astype(float)
    for m in (4, None):
        alpha = local_alpha(X, n_neighbors=m, sample_weight=weight)
        np.testing.assert_allclose(alpha[weight > 0], local_alpha(X[weight > 0], n_neighbors=m), rtol=1e-12)
        assert not alpha[weight == 0].any()


def test_duplicates_are_neighbours(rng):
    X = np.repeat(unit(rng.normal(size=(6, 5))), 3, axis=0)
    np.testing.assert_allclose(local_alpha(X, 0.5, n_neighbors=2), np.sqrt(0.5), rtol=1e-12)
    np.testing.assert_allclose(local_alpha(np.full((9, 2), 3.0)), np.sqrt(0.6 * 18), rtol=1e-12)


def test_a_row_of_zeros_has_alpha_0():
    X = np.array([[0, 0], [3, 4], [3, 4]])
    np.testing.assert_allclose(local_alpha(X, n_neighbors=1), np.sqrt(0.6 * np.array([0, 25, 25])))
    assert not local_alpha(np.zeros((5, 3))).any()


def test_an_item_similar_to_nobody_asks_for_a_little_similarity():
    apart = 2 * np.eye(5)
    np.testing.assert_allclose(local_alpha(apart), np.sqrt(0.6 * 0.01 * 4))
    opposite = np.array([[1.0, 0], [-1, 0], [0, 2]])
    np.testing.assert_allclose(local_alpha(opposite, 1.0), np.sqrt(0.01 * np.array([1, 1, 4])))
    assert dense_multicut(opposite, "local").n_clusters == 3


def test_one_item_and_two():
    np.testing.assert_allclose(local_alpha([[3.0, 4.0]]), np.sqrt(0.6 * 25))
    np.testing.assert_allclose(local_alpha([[3.0, 4.0]], sample_weight=[7]), np.sqrt(0.6 * 25))
    np.testing.assert_allclose(local_alpha([[1.0, 0], [0.5, 2]]), np.sqrt(0.6 * 0.5))
    assert dense_multicut([[3.0, 4.0]], "local").n_clusters == 1


def test_neighbours_there_are_not_are_not_asked(rng):
    X = mixture(rng, 12)
    np.testing.assert_array_equal(local_alpha(X, n_neighbors=11), local_alpha(X, n_neighbors=1000))


def test_strictness_is_a_factor(rng):
    X = mixture(rng, 20)
    np.testing.assert_allclose(local_alpha(X, 1.8) ** 2, 3 * local_alpha(X) ** 2)
    assert not local_alpha(X, 0).any()


def test_contrast_is_how_much_more_similar_the_nearest_tenth_is(rng):
    X = unit(mixture(rng, 40))
    for m, near in ((30, 3), (25, 3), (10, 1), (1, 1), (None, 3)):
        expected = naive_similarity(X, near).sum() / naive_similarity(X, m).sum()
        assert neighbourhood(X, np.ones(40), m).contrast == pytest.approx(expected)
    assert neighbourhood(np.zeros((4, 2)), np.ones(4), None).contrast == 1


def test_contrast_counts_weights_as_repetitions(rng):
    X, weight = unit(mixture(rng, 30)), rng.integers(0, 5, size=30)
    repeated = np.repeat(X, weight, axis=0)
    expected = neighbourhood(repeated, np.ones(len(repeated)), None).contrast
    assert neighbourhood(X, weight.astype(float), None).contrast == pytest.approx(expected)


# The problem they make


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_costs_of_a_local_problem(rng, dtype):
    X = mixture(rng, 30).astype(dtype)
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


def test_objective_and_bounds_are_those_of_alpha(rng):
    X, labels = mixture(rng, 30), rng.integers(0, 5, size=30)
    weight = rng.integers(1, 4, size=30)
    local = {"threshold": "local", "strictness": 0.9, "n_neighbors": 6, "sample_weight": weight}
    alpha = local_alpha(X, 0.9, n_neighbors=6, sample_weight=weight)
    plain = {"alpha": alpha, "sample_weight": weight}
    costs = reference.cost_matrix(X, **plain)
    assert objective(X, labels, **local) == pytest.approx(reference.objective(costs, labels))
    for method in ("trivial", "triangles"):
        bound = lower_bound(X, **local, method=method)
        assert bound.value == lower_bound(X, **plain, method=method).value
        assert verify_bound(X, bound, **local)
        assert verify_bound(X, bound, **plain)
        assert not verify_bound(X, bound, **(local | {"strictness": 2.0}))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_solves_a_local_problem(rng, algorithm):
    if algorithm == "dapplaec":
        pytest.importorskip("faiss")
    X = unit(mixture(rng, 30))
    options = {"algorithm": algorithm} | ({"max_iter": 2} if algorithm == "best" else {})
    local = {"strictness": 0.8, "n_neighbors": 5}
    result = dense_multicut(X, "local", **local, **options)
    alpha = local_alpha(X, 0.8, n_neighbors=5)
    plain = dense_multicut(X, alpha=alpha, **options)
    assert result.algorithm == algorithm
    np.testing.assert_array_equal(result.labels, plain.labels)
    assert result.objective == pytest.approx(objective(X, result.labels, "local", **local))
    assert result.inside == pytest.approx(DenseProblem(X, alpha=alpha).inside(result.labels))
    assert 1 < result.n_clusters < 30
    problem = DenseProblem(X, "local", **local)
    np.testing.assert_array_equal(dense_multicut(problem, **options).labels, plain.labels)


def test_what_a_told_strictness_says_of_itself(rng):
    X = mixture(rng, 20)
    choice = dense_multicut(X, "local", strictness=0.7, algorithm="fast").choice
    assert (choice.strictness, choice.wish, choice.met, choice.rows()) == (0.7, None, True, [])
    assert choice.reason == "strictness 0.7, as told"
    np.testing.assert_array_equal(choice.alpha, local_alpha(X, 0.7))
    assert dense_multicut(X, "local", algorithm="fast").choice.strictness == 0.6
    assert dense_multicut(X, alpha=choice.alpha, algorithm="fast").choice is None


def test_columns_of_no_candidates_are_empty(rng):
    choice = dense_multicut(mixture(rng, 9), "local", algorithm="fast").choice
    for name in ("candidates", "n_clusters", "silhouette", "agreement", "scores"):
        column = getattr(choice, name)
        assert column.shape == (0,)
        assert column.dtype == (np.int64 if name == "n_clusters" else np.float64)


def test_options_reach_a_local_problem(rng):
    X = mixture(rng, 30)
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
    X = unit(mixture(rng, 50, d=6, noise=0.8))
    results = [dense_multicut(X, "local", strictness=s, algorithm="fast") for s in (0.2, 1.0, 3.0)]
    counts = [result.n_clusters for result in results]
    assert counts == sorted(set(counts))


@pytest.mark.parametrize("algorithm", ["fast", "dgaec"])
def test_scale_changes_costs_but_no_label(rng, algorithm):
    X = mixture(rng, 40, noise=0.8)
    expected = dense_multicut(X, "local", algorithm=algorithm)
    for scale in (3.7, 1e-3, 1e20):
        result = dense_multicut(X * scale, "local", algorithm=algorithm)
        np.testing.assert_array_equal(result.labels, expected.labels)
        assert result.objective == pytest.approx(scale**2 * expected.objective)


def test_many_local_problems_are_those_of_one_by_one(rng):
    problems = [mixture(rng, n) for n in (30, 5, 1, 17)]
    for result, X in zip(solve_many(problems, threshold="local", strictness=0.9), problems, strict=True):
        alone = dense_multicut(X, "local", strictness=0.9)
        np.testing.assert_array_equal(result.labels, alone.labels)
        assert result.objective == alone.objective
        np.testing.assert_array_equal(result.choice.alpha, alone.choice.alpha)


def test_a_wrong_one_of_many_is_named(rng):
    problems = {"good": mixture(rng, 8), "bad": np.full((3, 2), np.nan)}
    with pytest.raises(SolveManyError, match=r"'bad': .*not finite"):
        solve_many(problems, threshold="local")


# What is an error

GOOD = np.eye(4)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"strictness": 0.5}, ValueError, 'strictness goes with threshold="local"'),
        ({"n_neighbors": 3}, ValueError, 'n_neighbors goes with threshold="local"'),
        ({"threshold": 0.3, "strictness": 0.5}, ValueError, "strictness goes with"),
        ({"alpha": 0.5, "strictness": 0.5}, ValueError, "strictness goes with"),
        ({"threshold": "local", "alpha": 0.5, "strictness": 0.5}, ValueError, "alpha is used instead"),
        ({"threshold": "local", "strictness": -0.1}, ValueError, "strictness must be at least 0, not -0.1"),
        ({"threshold": "local", "strictness": np.nan}, ValueError, "strictness must be a finite number"),
        ({"threshold": "local", "strictness": "x"}, TypeError, "strictness must be a number, not 'x'"),
        ({"threshold": "local", "n_neighbors": 0}, ValueError, "n_neighbors must be at least 1, not 0"),
        ({"threshold": "local", "n_neighbors": 2.5}, TypeError, "n_neighbors must be a whole number"),
        ({"threshold": "local", "prefer": "large"}, ValueError, 'prefer="large" goes with alpha'),
        ({"threshold": "local", "sample_weight": np.zeros(4)}, ValueError, "zero everywhere"),
        ({"threshold": "near"}, ValueError, 'threshold must be a number, "local" or "auto", not \'near\''),
    ],
)
def test_errors_are_one_line_everywhere(options, error, message):
    bound = lower_bound(GOOD)
    for door in (
        DenseProblem,
        dense_multicut,
        lower_bound,
        lambda X, **options: objective(X, [0, 0, 1, 1], **options),
        lambda X, **options: verify_bound(X, bound, **options),
    ):
        with pytest.raises(error, match=message) as caught:
            door(GOOD, **options)
        assert "\n" not in str(caught.value)


def test_auto_is_for_dense_multicut():
    bound = lower_bound(GOOD)
    for door in (
        lambda: DenseProblem(GOOD, "auto"),
        lambda: lower_bound(GOOD, "auto"),
        lambda: objective(GOOD, [0, 1, 2, 3], "auto"),
        lambda: verify_bound(GOOD, bound, "auto"),
    ):
        with pytest.raises(
            ValueError, match='"auto" is for dense_multicut; here it is a number or "local"'
        ):
            door()


def test_errors_of_local_alpha():
    for options, error, message in (
        ({"strictness": -1}, ValueError, "strictness must be at least 0"),
        ({"n_neighbors": 0}, ValueError, "n_neighbors must be at least 1"),
        ({"sample_weight": [1, 1]}, ValueError, "sample_weight must have one number per item"),
    ):
        with pytest.raises(error, match=message):
            local_alpha(GOOD, **options)
    with pytest.raises(ValueError, match="not finite: nan in row 0"):
        local_alpha(GOOD * np.nan)
    with pytest.raises(ValueError, match="2-D"):
        local_alpha(np.ones(3))


def test_a_signature_or_a_problem_does_not_go_with_a_local_threshold():
    with pytest.raises(ValueError, match='signature does not go with threshold="local"'):
        DenseProblem(GOOD, "local", signature=[1, 1, 1, -1])
    problem = DenseProblem(GOOD, 0.2)
    with pytest.raises(ValueError, match="X is a DenseProblem"):
        dense_multicut(problem, "local")
    for door in (lower_bound, lambda X, *costs: objective(X, [0, 1, 2, 3], *costs)):
        with pytest.raises(ValueError, match="X is a DenseProblem"):
            door(problem, "local")
