"""A target number of clusters: met by the strictness or by joins, which are those of a naive loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import around_axes, assert_same_clusters, gaussian_mixture
from reference import assert_selected

from clusterfug import DenseProblem, dense_multicut, objective, solve_many, verify_bound
from clusterfug.costs.models import STRICTNESS
from clusterfug.selection.target import join


def solve(X, threshold=None, **options):
    """Solve rows as they are."""
    return dense_multicut(X, threshold, metric="inner_product", **options)


def with_target(result, X, low, high, **weights):
    choice = assert_selected(result, X, **weights).choice
    assert (choice.target, choice.met) == ((low, high), True)
    assert low <= result.n_clusters <= high
    assert f"{result.n_clusters} cluster" in choice.reason
    assert f"{choice.strictness:.2g}" in choice.reason
    assert 1 <= len(choice.candidates) <= 8
    return result


def naive_join(similarities, strengths, count):
    """Compute the quotients of all pairs of clusters, join the pair of the largest, and repeat."""
    clusters = [[i] for i in range(len(strengths))]

    def quotient(a, b):
        product = strengths[a].sum() * strengths[b].sum()
        return similarities[np.ix_(a, b)].sum() / product if product > 0 else 0.0

    def best():
        pairs = [(a, b) for a in range(len(clusters)) for b in range(a)]
        return max((quotient(clusters[a], clusters[b]), a, b) for a, b in pairs)

    last = best()[0]
    while len(clusters) > count:
        last, a, b = best()
        clusters[b] += clusters.pop(a)
    labels = np.empty(len(strengths), dtype=np.int64)
    for label, cluster in enumerate(clusters):
        labels[cluster] = label
    return labels, (last + (best()[0] if count > 1 else last)) / 2


@pytest.mark.parametrize("block", [1 << 23, 1])
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 15), data=st.data())
def test_joins_are_those_of_a_naive_loop(block, seed, n, data):
    rng = np.random.default_rng(seed)
    count = data.draw(st.integers(1, n - 1))
    sums = rng.normal(size=(n, 3)) + data.draw(st.sampled_from([0, 1]))
    strengths = rng.uniform(0.1, 3, size=n)
    expected, strictness = naive_join(sums @ sums.T, strengths, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clusterfug.selection.target._BLOCK_ENTRIES", block)
        of, found = join(sums @ sums.T, strengths.copy(), count)
    assert len(np.unique(of)) == count
    assert_same_clusters(of, expected)
    assert found == pytest.approx(strictness)


def test_clusters_of_zero_rows_join_at_a_finite_strictness():
    sums = np.array([[1.0, 0], [1, 0], [-1, 0], [0, 0], [0, 0]])
    for count in (1, 2, 3, 4):
        of, strictness = join(sums @ sums.T, np.linalg.norm(sums, axis=1), count)
        assert len(np.unique(of)) == count
        assert of[0] == of[1]
        assert abs(strictness) <= 1
    of, strictness = join(np.zeros((4, 4)), np.zeros(4), 2)
    assert (len(np.unique(of)), strictness) == (2, 0)


@pytest.mark.parametrize("target", [1, 2, 3, 5, 8, 13, 21, 30, 39, 40])
def test_every_target_is_met_and_no_two_clusters_attract(rng, target):
    X = rng.normal(size=(40, 5))
    result = with_target(solve(X, n_clusters=target, algorithm="fast"), X, target, target)
    problem = DenseProblem(X, result.costs)
    costs = problem.group_costs(np.arange(40), result.labels).costs
    assert costs.max() <= 1e-9 * np.abs(costs).max()  # no two clusters attract at that strictness


@pytest.mark.parametrize("target", [1, 7, 12, 13, 14])
def test_few_items_can_be_any_number_of_clusters(target):
    """All items are singletons if the strictness is large enough."""
    X = np.random.default_rng(9).normal(size=(14, 4))
    assert solve(X, "local", strictness=200).n_clusters == 14
    with_target(solve(X, n_clusters=target, algorithm="fast"), X, target, target)


@pytest.mark.parametrize("target", [1, 2, 5, 10, 20, 50, 100, 180, 250, 300])
def test_every_target_is_met_for_more_items(rng, target):
    X, _ = gaussian_mixture(rng, 300, 20, 16, 0.8)
    for algorithm in ("fast", "auto"):
        with_target(solve(X, n_clusters=target, algorithm=algorithm), X, target, target)


@pytest.mark.parametrize("target", [(1, 2), (3, 5), (9, 12), (10, 40), (25, 26)])
def test_a_target_range_is_met(rng, target):
    X = rng.normal(size=(40, 5))
    with_target(solve(X, n_clusters=target, algorithm="fast"), X, *target)
    as_list = solve(X, "local", n_clusters=list(target), algorithm="fast")
    with_target(as_list, X, *target)


def test_a_target_that_the_default_strictness_meets_needs_one_candidate(rng):
    X, _ = around_axes(rng, 50)
    default = solve(X, "local")
    for target in (4, (2, 9)):
        result = solve(X, n_clusters=target)
        np.testing.assert_array_equal(result.labels, default.labels)
        assert (result.choice.strictness, len(result.choice.candidates)) == (STRICTNESS, 1)
        assert result.trace[-1].move_optimal
    assert solve(X, n_clusters=np.int64(4)).choice.target == (4, 4)


def test_the_right_number_finds_well_separated_clusters(rng):
    X, y = around_axes(rng, 60, clusters=6, d=8)
    result = with_target(solve(X, n_clusters=6), X, 6, 6)
    assert_same_clusters(result.labels, y)
    fewer = with_target(solve(X, n_clusters=3), X, 3, 3)
    assert len(set(zip(y, fewer.labels, strict=True))) == 6  # none of them is split


def test_dissimilar_clusters_join_at_a_negative_strictness():
    X = np.repeat([[1.0, 0], [-1, 0.1]], 5, axis=0)
    assert solve(X, "local").n_clusters == 2
    result = with_target(solve(X, n_clusters=1), X, 1, 1)
    assert result.choice.strictness < 0
    assert result.objective == pytest.approx(0, abs=1e-9)
    assert result.inside == pytest.approx(
        objective(X, np.arange(10), alpha=result.choice.alpha, prefer="large", metric="inner_product")
    )


@pytest.mark.parametrize("target", [2, 14])
def test_a_target_with_a_bound(rng, target):
    X = rng.normal(size=(30, 5))
    result = with_target(solve(X, n_clusters=target, algorithm="fast", bound=True), X, target, target)
    prefer = "small" if result.choice.strictness >= 0 else "large"
    assert verify_bound(X, result.bound, alpha=result.choice.alpha, prefer=prefer, metric="inner_product")
    assert result.bound.value <= result.objective
    assert result.gap >= 0


def test_joined_clusters_cost_what_their_pairs_cost(rng):
    """The cost of a heavy item to itself, whose rounding is large, is no part of it."""
    X, weight = rng.normal(size=(20, 3)), np.r_[1e12, np.ones(19)]
    result = with_target(solve(X, n_clusters=2, sample_weight=weight), X, 2, 2, sample_weight=weight)
    assert "joined" in result.choice.reason


def test_a_target_with_n_neighbors(rng):
    X = rng.normal(size=(40, 5))
    result = solve(X, n_clusters=9, n_neighbors=3, algorithm="fast")
    assert assert_selected(result, X, n_neighbors=3).n_clusters == 9


@pytest.mark.parametrize("target", [1, 2, 3, 5, 20])
def test_targets_are_met_with_rows_of_zeros(rng, target):
    X = rng.normal(size=(30, 4))
    X[[5, 9]] = 0
    result = with_target(solve(X, n_clusters=target, algorithm="fast"), X, target, target)
    assert abs(result.choice.strictness) < 1e6


@pytest.mark.parametrize("target", [1, 3, 10])
def test_targets_are_met_with_rows_of_zeros_only(target):
    X = np.zeros((10, 3))
    result = with_target(solve(X, n_clusters=target), X, target, target)
    assert result.objective == 0


def test_equal_items_are_separated_if_the_target_needs_it():
    X = np.ones((10, 3))
    for target in (1, 4, 10):
        with_target(solve(X, n_clusters=target), X, target, target)


def not_met(result, X, low, high, **weights):
    choice = assert_selected(result, X, **weights).choice
    assert (choice.target, choice.met) == ((low, high), False)
    assert not low <= result.n_clusters <= high
    far = np.maximum(low / choice.n_clusters, choice.n_clusters / high)
    nearest = choice.n_clusters[np.argmin(far)]
    assert result.n_clusters == nearest
    assert f"the nearest is {nearest}" in choice.reason
    return result


def test_more_clusters_than_items_of_positive_weight_are_an_error(rng):
    """Items of weight 0 form no clusters."""
    X = rng.normal(size=(20, 4))
    weight = (np.arange(20) < 12).astype(float)
    for target in (13, (15, 18)):
        with pytest.raises(ValueError, match="there are only 12 items"):
            solve(X, n_clusters=target, sample_weight=weight, algorithm="fast")
    assert solve(X, n_clusters=(11, 18), sample_weight=weight).n_clusters in (11, 12)


def test_too_many_clusters_are_not_joined(rng, monkeypatch):
    """If their similarities exceed the memory for joins, the nearest candidate is returned."""
    X = rng.normal(size=(20, 5))
    monkeypatch.setattr("clusterfug.selection.target._MAX_JOINED", 1)
    with pytest.warns(UserWarning, match="no strictness tried gives 1 clusters?: the nearest is") as caught:
        result = solve(X, n_clusters=1, algorithm="fast", bound=True)
    assert not_met(result, X, 1, 1).bound.value <= result.objective
    assert caught[0].filename == __file__
    assert str(caught[0].message) == result.choice.reason


def test_targets_of_many_problems(rng):
    problems = [rng.normal(size=(n, 4)) for n in (30, 12)]
    options = {"algorithm": "fast", "metric": "inner_product"}
    for result, X in zip(solve_many(problems, n_clusters=6, **options), problems, strict=True):
        with_target(result, X, 6, 6)
    found = solve_many(problems, threshold="auto", **options)
    for result, X in zip(found, problems, strict=True):
        np.testing.assert_array_equal(result.labels, solve(X, "auto", algorithm="fast").labels)
