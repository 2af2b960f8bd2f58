"""Local thresholds: affinity strengths are those of a double loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import blobs, unit

from clusterfug import dense_multicut, local_alpha
from clusterfug.costs.local import neighbourhood


def n_averaged(n, m):
    """How many neighbours are averaged over: 100 by default, of few items two thirds."""
    return m or min(100, max(1, int(2 * n / 3)))


def mean_similarity(x, others, m):
    """To the m most similar of the others, and at least a hundredth of that to itself."""
    similar = sorted((x @ y for y in others), reverse=True)[:m]
    return max(np.mean(similar) if similar else x @ x, 0.01 * (x @ x))


def naive_similarity(X, m=None):
    X = np.asarray(X, dtype=np.float64)
    m = n_averaged(len(X), m)
    return np.array([mean_similarity(X[i], np.delete(X, i, axis=0), m) for i in range(len(X))])


def naive_alpha(X, strictness=0.6, m=None):
    return np.sqrt(strictness * naive_similarity(X, m))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    m=st.one_of(st.none(), st.integers(1, 40)),
    strictness=st.floats(0, 4),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_alpha_is_that_of_a_double_loop(seed, n, m, strictness, dtype):
    rng = np.random.default_rng(seed)
    X = blobs(rng, n)
    X[rng.random(n) < 0.2] = X[0]  # duplicates
    X[rng.random(n) < 0.1] = 0
    X = X.astype(dtype)
    alpha = local_alpha(X, strictness, n_neighbors=m)
    assert alpha.dtype == np.float64
    np.testing.assert_allclose(alpha, naive_alpha(X, strictness, m), rtol=1e-9, atol=1e-12)


def test_a_hundred_neighbours_count_where_there_are_many_items(rng):
    X = unit(blobs(rng, 200))
    np.testing.assert_allclose(local_alpha(X), naive_alpha(X, m=100), rtol=1e-9)
    np.testing.assert_allclose(local_alpha(X[:150]), naive_alpha(X[:150], m=100), rtol=1e-9)
    np.testing.assert_allclose(local_alpha(X[:147]), naive_alpha(X[:147], m=98), rtol=1e-9)


def repeated_alpha(X, weight, m):
    """One alpha per item from the rows repeated; 0 of weight 0."""
    every = naive_alpha(np.repeat(X, weight, axis=0), m=m)
    alpha = np.zeros(len(X))
    alpha[weight > 0] = every[(np.cumsum(weight) - weight)[weight > 0]]
    return alpha


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 25),
    m=st.one_of(st.none(), st.integers(1, 40)),
)
def test_weights_are_repetitions(seed, n, m):
    rng = np.random.default_rng(seed)
    X, weight = unit(blobs(rng, n)), rng.integers(0, 5, size=n)
    weight[rng.integers(n)] = 3  # not all of them 0
    alpha = local_alpha(X, n_neighbors=m, sample_weight=weight)
    np.testing.assert_allclose(alpha, repeated_alpha(X, weight, m), rtol=1e-9, atol=1e-12)
    assert np.all((alpha == 0) == (weight == 0))


@pytest.mark.parametrize("m", [1, 3, 8, None])
def test_weights_are_repetitions_for_rows_of_any_length(rng, m):
    """A longer item may be more similar than a copy of the item itself."""
    X, weight = blobs(rng, 20) * rng.uniform(0.2, 5, size=(20, 1)), rng.integers(1, 5, size=20)
    alpha = local_alpha(X, n_neighbors=m, sample_weight=weight)
    np.testing.assert_allclose(alpha, repeated_alpha(X, weight, m), rtol=1e-9)


def test_items_of_weight_0_are_neighbours_of_no_item(rng):
    X = unit(blobs(rng, 30))
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


def test_an_isolated_item_has_a_positive_threshold():
    apart = 2 * np.eye(5)
    np.testing.assert_allclose(local_alpha(apart), np.sqrt(0.6 * 0.01 * 4))
    opposite = np.array([[1.0, 0], [-1, 0], [0, 2]])
    np.testing.assert_allclose(local_alpha(opposite, 1.0), np.sqrt(0.01 * np.array([1, 1, 4])))
    for metric in ("cosine", "inner_product"):
        assert dense_multicut(opposite, "local", metric=metric).n_clusters == 3


def test_one_item_and_two():
    np.testing.assert_allclose(local_alpha([[3.0, 4.0]]), np.sqrt(0.6 * 25))
    np.testing.assert_allclose(local_alpha([[3.0, 4.0]], sample_weight=[7]), np.sqrt(0.6 * 25))
    np.testing.assert_allclose(local_alpha([[1.0, 0], [0.5, 2]]), np.sqrt(0.6 * 0.5))
    assert dense_multicut([[3.0, 4.0]], "local").n_clusters == 1


def test_n_neighbors_is_at_most_the_number_of_other_items(rng):
    X = blobs(rng, 12)
    np.testing.assert_array_equal(local_alpha(X, n_neighbors=11), local_alpha(X, n_neighbors=1000))


def test_strictness_is_a_factor(rng):
    X = blobs(rng, 20)
    np.testing.assert_allclose(local_alpha(X, 1.8) ** 2, 3 * local_alpha(X) ** 2)
    assert not local_alpha(X, 0).any()


def test_contrast_is_how_much_more_similar_the_nearest_tenth_is(rng):
    X = unit(blobs(rng, 40))
    for m, near in ((30, 3), (25, 3), (10, 1), (1, 1), (None, 3)):
        expected = naive_similarity(X, near).sum() / naive_similarity(X, m).sum()
        assert neighbourhood(X, np.ones(40), m).contrast == pytest.approx(expected)
    assert neighbourhood(np.zeros((4, 2)), np.ones(4), None).contrast == 1


def test_contrast_counts_weights_as_repetitions(rng):
    X, weight = unit(blobs(rng, 30)), rng.integers(0, 5, size=30)
    repeated = np.repeat(X, weight, axis=0)
    expected = neighbourhood(repeated, np.ones(len(repeated)), None).contrast
    assert neighbourhood(X, weight.astype(float), None).contrast == pytest.approx(expected)


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (np.eye(4), {"strictness": -1}, "strictness must be at least 0"),
        (np.eye(4), {"n_neighbors": 0}, "n_neighbors must be at least 1"),
        (np.eye(4), {"sample_weight": [1, 1]}, "sample_weight must have one number per item"),
        (np.full((2, 2), np.nan), {}, "not finite: NaN in row 0"),
        (np.ones(3), {}, "2-D"),
    ],
)
def test_errors_of_local_alpha(X, options, message):
    with pytest.raises(ValueError, match=message):
        local_alpha(X, **options)
