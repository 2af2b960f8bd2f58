"""Dense problems: costs, objective, weights, contraction, and the treatment of the input."""

import pickle
import tracemalloc
from fractions import Fraction

import makers
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import clusterfug
from clusterfug import DenseProblem, dense_multicut
from clusterfug.result import number_by_first_appearance


def assert_objective_by_pairs(rng, n, kind):
    X, labels = rng.normal(size=(n, 3)), rng.integers(-3, 4, size=n)
    options = {"threshold": 0.7} if kind == "threshold" else {"alpha": rng.random(n), "prefer": kind}
    options["sample_weight"] = rng.random(n) * 2
    costs = reference.cost_matrix(X, **options)
    problem = DenseProblem(X, **options)
    expected = reference.objective(costs, labels)
    assert problem.objective(labels) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert problem.inside(labels) == pytest.approx(
        reference.objective(costs, np.arange(n)) - expected, rel=1e-9, abs=1e-9
    )
    found = clusterfug.objective(X, labels, metric="inner_product", **options)
    assert found == problem.objective(labels)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    kind=st.sampled_from(["threshold", "small", "large"]),
)
def test_objective_and_inside_are_sums_over_pairs(seed, n, kind):
    assert_objective_by_pairs(np.random.default_rng(seed), n, kind)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["threshold", "small", "large"])
def test_objective_and_inside_of_small_problems_are_sums_over_pairs(rng, kind):
    assert_objective_by_pairs(rng, 20, kind)


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(3))
def test_group_costs_and_magnitudes_are_those_of_the_pairs(seed):
    problem = makers.random_problem(np.random.default_rng(seed), 15, 3)
    everything = 0, problem.n, np.float64
    costs = problem.queries(*everything) @ problem.extended(*everything).T
    own, magnitudes = problem.own_costs, problem.magnitudes
    np.testing.assert_allclose(costs.diagonal(), own, atol=1e-12)
    assert np.all(np.abs(costs) <= np.outer(magnitudes, magnitudes) * (1 + 1e-12))
    assert np.abs(costs).max() <= problem.largest_cost * (1 + 1e-12)
    np.fill_diagonal(costs, 0)
    np.testing.assert_allclose(makers.pair_costs(problem), costs, atol=1e-12)


@pytest.mark.kernels
def test_closer_items_cost_more(rng):
    X = rng.normal(size=(15, 3))
    closeness = DenseProblem(X, 0.4).closeness(4)
    assert np.argsort(closeness).tolist() == np.argsort(X @ X[4]).tolist()


def test_objective_in_many_kernel_calls_is_the_same(rng, monkeypatch):
    X, labels = rng.normal(size=(50, 3)), rng.integers(0, 9, size=50)
    whole = DenseProblem(X, 0.4).objective(labels)
    monkeypatch.setattr("clusterfug.problems.dense._WORK_PER_CALL", 8)
    assert DenseProblem(X, 0.4).objective(labels) == pytest.approx(whole, rel=1e-12)


def test_scalar_alpha_is_the_root_of_the_threshold(rng):
    X = rng.normal(size=(20, 4))
    for prefer, threshold in (("small", 0.25), ("large", -0.25)):
        np.testing.assert_allclose(
            makers.pair_costs(DenseProblem(X, alpha=0.5, prefer=prefer)),
            makers.pair_costs(DenseProblem(X, threshold)),
        )


def test_a_pair_at_the_threshold_does_not_attract():
    """The square root of 3 is not representable, so the threshold itself has to be subtracted."""
    X = np.ones((2, 3))
    assert dense_multicut(DenseProblem(X, 3.0)).n_clusters == 2
    assert dense_multicut(DenseProblem(X, np.nextafter(3.0, 0))).n_clusters == 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, bool])
def test_every_dtype_has_the_same_result(dtype, rng):
    X = rng.integers(0, 2, size=(30, 6))
    for algorithm in ("auto", "dgaec"):
        expected = dense_multicut(DenseProblem(X.astype(np.float64), 1.5), algorithm=algorithm)
        result = dense_multicut(DenseProblem(X.astype(dtype), 1.5), algorithm=algorithm)
        np.testing.assert_array_equal(result.labels, expected.labels)
        np.testing.assert_array_equal(result.merges, expected.merges)
        assert result.objective == expected.objective


def test_floating_point_input_in_c_order_is_not_copied(rng, tmp_path):
    for dtype in (np.float32, np.float64):
        X = rng.normal(size=(20, 3)).astype(dtype)
        assert np.shares_memory(DenseProblem(X, 0.4).rows.features, X)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(DenseProblem(mapped, 0.4).rows.features, mapped)
    np.testing.assert_array_equal(dense_multicut(mapped, 0.4).labels, dense_multicut(X, 0.4).labels)


def test_memory_layout_does_not_matter_and_the_input_is_not_changed(rng):
    X = rng.normal(size=(30, 4))
    before = X.copy()
    expected = dense_multicut(X, 0.4).labels
    for other in (np.asfortranarray(X), X.astype(">f8"), np.repeat(X, 2, axis=0)[::2], X.tolist()):
        np.testing.assert_array_equal(dense_multicut(other, 0.4).labels, expected)
    np.testing.assert_array_equal(X, before)


def test_neither_a_square_matrix_nor_a_copy_in_float64_is_made(rng):
    """Features in float32 take 10 MB, their copy in float64 19 MB, n x n costs 36 MB."""
    n, d = 3000, 800
    X = makers.unit(rng.normal(size=(n, d))).astype(np.float32)
    labels = np.arange(n)
    small = DenseProblem(X[:50], 0.4)
    small.objective(labels[:50])  # compiled before memory is measured
    dense_multicut(small, algorithm="dgaec-inc")
    tracemalloc.start()
    problem = DenseProblem(X, 0.4)
    problem.objective(labels)
    assert tracemalloc.get_traced_memory()[1] < 2e6
    dense_multicut(problem, algorithm="dgaec-inc")
    # 17 MB are one block of scores; rows of contracted nodes are reserved, not written.
    held = tracemalloc.get_traced_memory()[1] - n // 2 * (d + 1) * 8
    tracemalloc.stop()
    assert held < 30e6


def test_an_item_of_weight_w_counts_as_w_items(rng):
    X = rng.normal(size=(25, 4))
    weight = rng.integers(1, 4, size=25)
    result = dense_multicut(DenseProblem(X, 1.0, sample_weight=weight))
    repeated = np.repeat(np.arange(25), weight)
    costs = reference.cost_matrix(X[repeated], 1.0)
    expected = reference.objective(costs, result.labels[repeated])
    assert result.objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("algorithm", ["auto", "fast"])
def test_items_of_weight_0_do_not_matter_and_are_assigned_like_new_ones(rng, algorithm):
    X = rng.normal(size=(40, 3))
    weight = rng.random(40) * (rng.random(40) < 0.7)
    present = weight > 0
    result = dense_multicut(DenseProblem(X, 0.4, sample_weight=weight), algorithm=algorithm)
    without = DenseProblem(X[present], 0.4, sample_weight=weight[present])
    alone = dense_multicut(without, algorithm=algorithm)
    makers.assert_same_clusters(result.labels[present], alone.labels)
    assert result.objective == pytest.approx(alone.objective, rel=1e-9)
    assert result.inside == pytest.approx(alone.inside, rel=1e-12)
    assert result.n_clusters == alone.n_clusters == result.trace[-1].n_clusters
    means = [
        np.average(X[present][alone.labels == c], axis=0, weights=weight[present][alone.labels == c])
        for c in range(alone.n_clusters)
    ]
    for item in np.flatnonzero(~present):
        nearest = np.flatnonzero(present)[alone.labels == np.argmax(means @ X[item])]
        assert result.labels[item] == result.labels[nearest[0]]


def test_a_problem_defines_its_costs_once():
    problem = DenseProblem(np.eye(3), 0.2)
    with pytest.raises(ValueError, match="DenseProblem"):
        dense_multicut(problem, 0.3)
    with pytest.raises(ValueError, match="give threshold or alpha"):
        DenseProblem(np.eye(3))
    assert repr(problem) == "DenseProblem(n=3, d=3, threshold=0.2)"
    assert repr(DenseProblem(np.eye(3), alpha=1)) == "DenseProblem(n=3, d=3, alpha)"


def test_small_costs_beside_large_rows_are_not_lost():
    result = dense_multicut(DenseProblem([[1e8, 0.0], [1e-8, 0.0], [0.0, 1.0]], 0.5))
    assert result.labels.tolist() == [0, 0, 1]
    assert (result.inside, result.objective) == (pytest.approx(0.5), pytest.approx(-1.0))


def test_a_pickled_problem_is_read_only_and_has_the_same_objective(rng):
    problem = DenseProblem(rng.normal(size=(10, 2)), 0.4)
    copy = pickle.loads(pickle.dumps(problem))
    assert not copy.rows.features.flags.writeable
    result = dense_multicut(copy)
    assert result.objective == pytest.approx(problem.objective(result.labels))


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30))
def test_the_objective_of_a_contracted_problem_is_that_of_its_items(seed, n):
    rng = np.random.default_rng(seed)
    problem = DenseProblem(rng.normal(size=(n, 3)), 0.4, sample_weight=rng.random(n) + 0.1)
    labels = number_by_first_appearance(rng.integers(0, 6, size=n))
    contracted = problem.contract(labels)
    coarse = rng.integers(0, 3, size=contracted.n)
    assert contracted.inside(coarse) + problem.inside(labels) == pytest.approx(
        problem.inside(coarse[labels]), rel=1e-9, abs=1e-9
    )


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(20))
def test_the_error_of_costs_follows_their_own_terms(seed, monkeypatch):
    """Rows and columns of very different lengths: lengths of rows say nothing of the terms of a cost."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, 3)) * 10.0 ** rng.integers(-9, 9, size=(9, 3))
    weight = 10.0 ** rng.integers(-6, 6, size=9)
    problem = DenseProblem(X, 25.7, sample_weight=weight)
    monkeypatch.setattr("clusterfug.problems.dense._WORK_PER_CALL", 8)  # a few blocks
    i, j = np.triu_indices(9, 1)
    terms = problem.pair_terms(i, j).sum()
    assert problem.cost_error() == pytest.approx(2 * (3 + 16) * 2.0**-52 * terms, rel=1e-12)
    rows = [[Fraction(value) for value in row] for row in X.tolist()]
    exact = [
        Fraction(weight[a]) * Fraction(weight[b])
        * (sum(x * y for x, y in zip(rows[a], rows[b], strict=True)) - Fraction(25.7))
        for a, b in zip(i, j, strict=True)
    ]  # fmt: skip
    assert abs(Fraction(problem.all_singletons) - sum(exact)) <= problem.cost_error()


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(5))
def test_objective_and_inside_are_sums_of_their_own_pairs(seed, monkeypatch):
    """Pairs of 1e16 are kept together or cut: they do not hide the costs of the others."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 4))
    X[:, 3] = 0
    X[[2, 9], 3] = 1e8
    problem = DenseProblem(X, 0.3)
    monkeypatch.setattr("clusterfug.problems.dense._WORK_PER_CALL", 15)  # a few blocks
    labels = rng.integers(4, size=12)
    labels[9] = labels[2] if seed % 2 else 4
    rows = [[Fraction(value) for value in row] for row in X.tolist()]
    inside = objective = Fraction(0)
    for a in range(12):
        for b in range(a):
            cost = sum(x * y for x, y in zip(rows[a], rows[b], strict=True)) - Fraction(0.3)
            if labels[a] == labels[b]:
                inside += cost
            else:
                objective += cost
    small, huge = (objective, inside) if seed % 2 else (inside, objective)
    assert abs(huge) > 1e15 > 1e3 > abs(small)
    found = problem.costs_of(labels)
    assert found.inside == pytest.approx(float(inside), rel=1e-13)
    assert found.objective == pytest.approx(float(objective), rel=1e-13)
    assert (problem.inside(labels), problem.objective(labels)) == found


@pytest.mark.parametrize("costs", [{"threshold": -0.7}, {"alpha": np.linspace(0, 2, 9)}])
def test_closeness_is_the_cost_to_every_item(rng, costs):
    """With an alpha per item the order depends on its sign."""
    X, weight = rng.normal(size=(9, 4)), np.linspace(0.5, 2, 9)
    problem = DenseProblem(X, **costs, sample_weight=weight, signature=[1, -1, 1, 1])
    for i in range(9):
        pairs = np.array([[i, j] for j in range(9)])
        np.testing.assert_allclose(problem.closeness(i), problem.costs_of_pairs(pairs), rtol=1e-12)
