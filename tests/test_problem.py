"""The problem: costs, objective, weights, explicit matrices, and what happens to the input."""

import pickle
import tracemalloc

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

import clusterfug
from clusterfug import DenseProblem, dense_multicut
from clusterfug.result import number_by_first_appearance


def costs_of(problem):
    """All pair costs through the problem's own rows."""
    everything = 0, problem.n, np.float64
    return problem.queries(*everything) @ problem.extended(*everything).T


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    kind=st.sampled_from(["threshold", "small", "large"]),
)
def test_objective_and_inside_by_pairs(seed, n, kind):
    rng = np.random.default_rng(seed)
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
    assert clusterfug.objective(X, labels, **options) == problem.objective(labels)


def test_objective_in_many_calls_is_the_same(rng, monkeypatch):
    X, labels = rng.normal(size=(50, 3)), rng.integers(0, 9, size=50)
    whole = DenseProblem(X).objective(labels)
    monkeypatch.setattr("clusterfug.problems.dense._WORK_PER_CALL", 8)
    assert DenseProblem(X).objective(labels) == pytest.approx(whole, rel=1e-12)


def test_scalar_alpha_is_the_root_of_the_threshold(rng):
    X = rng.normal(size=(20, 4))
    np.testing.assert_allclose(costs_of(DenseProblem(X, alpha=0.5)), costs_of(DenseProblem(X, 0.25)))
    np.testing.assert_allclose(
        costs_of(DenseProblem(X, alpha=0.5, prefer="large")), costs_of(DenseProblem(X, -0.25))
    )


def test_a_pair_at_the_threshold_is_left_apart():
    """The square root of 3 is not representable: the threshold must not pass through it."""
    X = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    assert dense_multicut(X, 3.0).n_clusters == 2
    assert dense_multicut(X, np.nextafter(3.0, 0)).n_clusters == 1


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 25), rank=st.integers(0, 4))
def test_any_symmetric_matrix_factorises(seed, n, rank):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(n, rank))
    costs = (half * rng.choice([-1, 1], size=rank)) @ half.T
    problem = DenseProblem.from_costs(costs)
    pairs = np.triu_indices(n, 1)
    np.testing.assert_allclose(
        costs_of(problem)[pairs], costs[pairs], atol=1e-10 * max(1, np.abs(costs).max())
    )
    if n > 4:  # then no diagonal of these is a thousand times the largest cost
        assert problem.d <= max(1, rank)


def test_from_costs_rejects_what_is_no_cost_matrix():
    with pytest.raises(ValueError, match="square"):
        DenseProblem.from_costs(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"symmetric: costs\[0, 1\] is 1 but costs\[1, 0\] is 2"):
        DenseProblem.from_costs([[0, 1], [2, 0]])
    with pytest.raises(ValueError, match="row 1"):
        DenseProblem.from_costs([[0, 1], [np.nan, 0]])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, bool])
def test_every_dtype_gives_the_same_answer(dtype, rng):
    X = rng.integers(0, 2, size=(30, 6))
    expected = dense_multicut(X.astype(np.float64), 1.5)
    result = dense_multicut(X.astype(dtype), 1.5)
    np.testing.assert_array_equal(result.merges, expected.merges)
    assert result.objective == expected.objective


def test_input_is_not_copied_where_it_can_be_used_as_it_lies(rng, tmp_path):
    for dtype in (np.float32, np.float64):
        X = rng.normal(size=(20, 3)).astype(dtype)
        assert np.shares_memory(DenseProblem(X).rows.features, X)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(DenseProblem(mapped).rows.features, mapped)
    np.testing.assert_array_equal(dense_multicut(mapped).labels, dense_multicut(X).labels)


def test_order_and_byte_order_do_not_matter_and_input_stays_as_it_was(rng):
    X = rng.normal(size=(30, 4))
    before = X.copy()
    expected = dense_multicut(X).labels
    for other in (np.asfortranarray(X), X.astype(">f8"), np.repeat(X, 2, axis=0)[::2], X.tolist()):
        np.testing.assert_array_equal(dense_multicut(other).labels, expected)
    np.testing.assert_array_equal(X, before)


@pytest.mark.large
def test_no_hidden_square_or_double_copy(rng):
    """float32 features of 16 MB: neither n x n (100 MB) nor a float64 copy (32 MB) of them."""
    X = rng.normal(size=(5000, 800)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    labels = np.arange(5000)
    for algorithm in ("dgaec-inc", "fast"):
        dense_multicut(X[:50], algorithm=algorithm)  # compile before measuring
    tracemalloc.start()
    problem = DenseProblem(X)
    problem.objective(labels)
    assert tracemalloc.get_traced_memory()[1] < 2e6
    dense_multicut(problem, algorithm="dgaec-inc")
    # 17 MB are one block of scores; rows of contracted nodes are reserved, not touched.
    held = tracemalloc.get_traced_memory()[1] - 5000 // 2 * 801 * 8
    tracemalloc.stop()
    assert held < 30e6


def test_weights_count_as_that_many_items(rng):
    X = rng.normal(size=(25, 4))
    weight = rng.integers(1, 4, size=25)
    result = dense_multicut(X, 1.0, sample_weight=weight)
    repeated = np.repeat(np.arange(25), weight)
    costs = reference.cost_matrix(X[repeated], 1.0)
    np.fill_diagonal(costs, 0)
    apart = reference.objective(costs, result.labels[repeated])
    assert result.objective == pytest.approx(apart, rel=1e-9)


def test_weightless_items_take_no_part_and_are_labelled_like_new_points(rng):
    X = rng.normal(size=(40, 3))
    weight = rng.random(40) * (rng.random(40) < 0.7)
    result = dense_multicut(X, sample_weight=weight)
    present = weight > 0
    alone = dense_multicut(X[present], sample_weight=weight[present])
    same = result.labels[present][:, None] == result.labels[present]
    np.testing.assert_array_equal(same, alone.labels[:, None] == alone.labels)
    assert result.objective == pytest.approx(alone.objective, rel=1e-9)
    assert result.n_clusters == alone.n_clusters
    for item in np.flatnonzero(~present):
        means = [
            np.average(X[present][alone.labels == c], axis=0, weights=weight[present][alone.labels == c])
            for c in range(alone.n_clusters)
        ]
        nearest = np.flatnonzero(present)[alone.labels == np.argmax(means @ X[item])]
        assert result.labels[item] == result.labels[nearest[0]]


def test_costs_of_a_problem_are_given_once():
    problem = DenseProblem(np.eye(3), 0.2)
    with pytest.raises(ValueError, match="X is a DenseProblem"):
        dense_multicut(problem, 0.3)
    assert repr(problem) == "DenseProblem(n=3, d=3, threshold=0.2)"
    assert repr(DenseProblem(np.eye(3), alpha=1)) == "DenseProblem(n=3, d=3, alpha)"


def test_the_diagonal_of_a_cost_matrix_is_in_no_cost():
    costs = np.array([[0.0, 1, -2], [1, 0, 3], [-2, 3, 0]])
    expected = dense_multicut(DenseProblem.from_costs(costs), algorithm="dgaec-inc").labels
    for diagonal in (1e18, -1e9, [0, 5, 1e20]):
        np.fill_diagonal(costs, diagonal)
        result = dense_multicut(DenseProblem.from_costs(costs), algorithm="dgaec-inc")
        np.testing.assert_array_equal(result.labels, expected)
        np.testing.assert_allclose(result.merges["cost"], [3])
    costs[0, 1] = 9
    with pytest.raises(ValueError, match="symmetric"):
        DenseProblem.from_costs(costs)


@pytest.mark.parametrize("weight", [1e39, 1e-50, 1.0])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_scale_beyond_single_precision_changes_nothing(rng, weight, scale, monkeypatch):
    monkeypatch.setattr("clusterfug.contraction.matrix._SMALL", 0)
    X = rng.normal(size=(60, 3)).astype(np.float32)
    expected = dense_multicut(X, 0.5, algorithm="gaec").labels
    for algorithm in ("gaec", "dgaec", "dgaec-inc"):
        result = dense_multicut(
            X * np.float32(scale), 0.5 * scale**2, sample_weight=np.full(60, weight), algorithm=algorithm
        )
        np.testing.assert_array_equal(result.labels, expected)


def test_small_costs_beside_large_rows_are_not_lost():
    result = dense_multicut([[1e8, 0.0], [1e-8, 0.0], [0.0, 1.0]], 0.5)
    assert result.labels.tolist() == [0, 0, 1]
    assert (result.inside, result.objective) == (pytest.approx(0.5), pytest.approx(-1.0))


def test_integer_features_at_any_threshold_do_not_depend_on_k(rng):
    """0.4 is not representable, but equal costs are computed equal."""
    for _ in range(30):
        X = rng.integers(-1, 2, size=(12, 3))
        expected = dense_multicut(X, k=1, algorithm="dgaec").merges[["i", "j"]]
        for k in (2, 3, 11):
            merges = dense_multicut(X, k=k, algorithm="dgaec-inc").merges
            np.testing.assert_array_equal(merges[["i", "j"]], expected)


def test_a_problem_survives_pickling(rng):
    problem = pickle.loads(pickle.dumps(DenseProblem(rng.normal(size=(10, 2)))))
    assert not problem.rows.features.flags.writeable
    assert dense_multicut(problem).objective == pytest.approx(
        problem.objective(dense_multicut(problem).labels)
    )


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30))
def test_contraction_of_a_problem_is_a_problem(seed, n):
    rng = np.random.default_rng(seed)
    problem = DenseProblem(rng.normal(size=(n, 3)), sample_weight=rng.random(n) + 0.1)
    labels = number_by_first_appearance(rng.integers(0, 6, size=n))
    contracted = problem.contract(labels)
    coarse = rng.integers(0, 3, size=contracted.n)
    assert contracted.inside(coarse) + problem.inside(labels) == pytest.approx(
        problem.inside(coarse[labels]), rel=1e-9, abs=1e-9
    )
