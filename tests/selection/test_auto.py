"""Automatic selection of the strictness: the best score of at most five candidates, and the reason."""

import warnings

import numpy as np
import pytest
from makers import around_axes, assert_same_clusters, gaussian_mixture, unit
from reference import assert_selected
from sklearn.metrics import adjusted_rand_score

from clusterfug import dense_multicut, lower_bound, verify_bound
from clusterfug.costs.models import STRICTNESS, Auto
from clusterfug.problems.features import FeatureProblem
from clusterfug.selection.auto import MIN_SCORE_GAIN
from clusterfug.selection.items import selection_items, silhouette


def solve(X, threshold=None, **options):
    """Solve rows as they are."""
    return dense_multicut(X, threshold, metric="inner_product", **options)


def chosen(result, X, **options):
    """The strictness is the best of at most five candidates, or the default if none is clearly better."""
    choice = assert_selected(result, X, **options).choice
    scores = dict(zip(choice.candidates, choice.scores, strict=True))
    assert 2 <= len(scores) <= 5
    best = max(scores, key=scores.get)
    assert choice.strictness == (best if scores[best] > scores[STRICTNESS] + MIN_SCORE_GAIN else STRICTNESS)
    assert choice.reason.startswith(f"strictness {choice.strictness:.2g}, the ")
    assert (choice.target, choice.met) == (None, True)
    return result


def small_clusters(rng, clusters, largest, d, noise):
    """Clusters of 2 to `largest` items; and classes."""
    y = np.repeat(np.arange(clusters), rng.integers(2, largest + 1, size=clusters))
    return unit(
        unit(rng.normal(size=(clusters, d)))[y] + noise / np.sqrt(d) * rng.normal(size=(len(y), d))
    ), y


@pytest.mark.parametrize("algorithm", ["fast", "auto", "best", "exact", "gaec", "dlaec"])
def test_every_algorithm_solves_the_chosen_problem(rng, algorithm):
    X, _ = gaussian_mixture(rng, 30, 4, 6, 0.8)
    more = {"max_iter": 2} if algorithm == "best" else {}
    result = solve(X, "auto", algorithm=algorithm, **more)
    assert chosen(result, X).algorithm == algorithm
    tried = dict(zip(result.choice.candidates, result.choice.n_clusters, strict=True))
    assert len(tried) >= 3
    default = solve(X, "local", algorithm="fast")
    assert tried[STRICTNESS] == default.n_clusters
    if algorithm == "fast":
        items = selection_items(FeatureProblem(X, Auto()), None)
        score = dict(zip(result.choice.candidates, result.choice.silhouette, strict=True))
        assert score[result.choice.strictness] == pytest.approx(silhouette(items, result.labels))
    elif algorithm in ("gaec", "dlaec"):
        alone = solve(X, alpha=result.choice.alpha, algorithm=algorithm)
        np.testing.assert_array_equal(result.merges, alone.merges)
    else:  # it starts from the labels of the candidate
        fast = solve(X, "auto", algorithm="fast")
        alone = solve(X, alpha=result.choice.alpha, algorithm=algorithm, init=fast.labels, **more)
        assert fast.choice.strictness == result.choice.strictness
        np.testing.assert_array_equal(result.labels, alone.labels)
        assert result.objective <= fast.objective


def test_well_separated_clusters_are_found_at_the_default_strictness(rng):
    X, y = around_axes(rng, 60)
    result = chosen(solve(X, "auto"), X)
    assert_same_clusters(result.labels, y)
    assert result.choice.strictness == STRICTNESS
    assert result.choice.reason.startswith("strictness 0.6, the default: of ")
    assert "not well separated" not in result.choice.reason


def test_many_small_clusters_need_a_higher_strictness(rng):
    X, y = small_clusters(rng, 300, 8, 128, 0.6)
    result = chosen(solve(X, "auto"), X)
    assert result.choice.strictness > 1
    assert result.n_clusters == 300
    assert adjusted_rand_score(y, result.labels) > 0.999
    assert adjusted_rand_score(y, solve(X, "local").labels) < 0.7
    assert "the best of 5 tried" in result.choice.reason


def test_few_overlapping_clusters_need_a_lower_strictness(rng):
    X, y = gaussian_mixture(rng, 300, 3, 32, 2.0)
    result = chosen(solve(X, "auto"), X)
    assert result.choice.strictness < STRICTNESS
    assert result.n_clusters < solve(X, "local").n_clusters
    assert adjusted_rand_score(y, result.labels) > 0.7


def test_the_reason_says_that_clusters_are_not_well_separated(rng):
    X = unit(rng.normal(size=(60, 40)))
    result = chosen(solve(X, "auto", algorithm="fast"), X)
    assert "; clusters are not well separated (silhouette 0." in result.choice.reason


def test_a_higher_strictness_is_tried_only_where_neighbours_differ(rng):
    X, _ = around_axes(rng, 60)
    alike = chosen(solve(X, "auto", n_neighbors=5, algorithm="fast"), X, n_neighbors=5)
    assert alike.choice.candidates.max() == STRICTNESS
    differ = chosen(solve(X, "auto", n_neighbors=50, algorithm="fast"), X, n_neighbors=50)
    assert differ.choice.candidates.max() > STRICTNESS


def test_selection_is_deterministic(rng):
    X, _ = gaussian_mixture(rng, 50, 4, 8, 1.0)
    first, second = (solve(X, "auto", random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.choice.rows() == second.choice.rows()
    assert first.choice.reason == second.choice.reason


def test_the_order_of_items_has_no_influence(rng):
    X, _ = around_axes(rng, 50, noise=0.2)
    order = rng.permutation(50)
    first, second = (solve(features, "auto", algorithm="fast") for features in (X, X[order]))
    assert_same_clusters(first.labels[order], second.labels)
    np.testing.assert_allclose(first.choice.scores, second.choice.scores)


@pytest.mark.parametrize("n_neighbors", [None, 12])
def test_weights_count_as_repetitions(rng, n_neighbors):
    X, _ = around_axes(rng, 25)
    weight = rng.integers(0, 4, size=25)
    options = {"algorithm": "fast", "n_neighbors": n_neighbors}
    weighted = solve(X, "auto", sample_weight=weight, **options)
    repeated = np.repeat(X, weight, axis=0)
    expected = chosen(solve(repeated, "auto", **options), repeated, n_neighbors=n_neighbors)
    chosen(weighted, X, sample_weight=weight, n_neighbors=n_neighbors)
    assert_same_clusters(np.repeat(weighted.labels, weight), expected.labels)
    assert weighted.choice.strictness == expected.choice.strictness
    np.testing.assert_allclose(weighted.choice.scores, expected.choice.scores)
    for name in ("candidates", "n_clusters"):
        np.testing.assert_array_equal(getattr(weighted.choice, name), getattr(expected.choice, name))


@pytest.mark.parametrize("algorithm", ["fast", "auto", "gaec"])
def test_the_bound_is_that_of_the_selected_problem(rng, algorithm):
    X, _ = gaussian_mixture(rng, 30, 3, 6, 1.0)
    result = chosen(solve(X, "auto", algorithm=algorithm, bound=True), X)
    assert verify_bound(X, result.bound, alpha=result.choice.alpha, metric="inner_product")
    assert result.bound.value == lower_bound(X, alpha=result.choice.alpha, metric="inner_product").value
    assert result.bound.value <= result.objective
    assert 0 <= result.gap < 1


def test_the_proof_is_that_of_the_selected_problem(rng):
    X, _ = gaussian_mixture(rng, 20, 3, 6, 1.0)
    result = chosen(solve(X, "auto", algorithm="exact"), X)
    assert result.optimal
    assert result.objective == pytest.approx(
        solve(X, alpha=result.choice.alpha, algorithm="exact").objective
    )


@pytest.mark.parametrize(
    ("X", "clusters"),
    [
        ([[1.0, 2.0]], 1),
        ([[0.0, 0.0]], 1),
        ([[1.0, 0], [-1, 0]], 2),
        ([[1.0, 0], [0, 1]], 2),
        (np.zeros((7, 2)), 7),
        (np.vstack([np.zeros((2, 2)), np.eye(2), np.eye(2)]), 4),
        (np.repeat(np.eye(3), 5, axis=0), 3),
    ],
)
@pytest.mark.parametrize("algorithm", ["fast", "auto"])
def test_few_items(X, clusters, algorithm):
    X = np.asarray(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = chosen(solve(X, "auto", algorithm=algorithm), X)
    assert result.n_clusters == clusters


@pytest.mark.parametrize("n", [2, 9])
def test_copies_of_one_item_are_one_cluster_without_advice(n):
    X = np.full((n, 3), 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = chosen(solve(X, "auto"), X)
    assert (result.n_clusters, result.objective) == (1, 0)
    assert "centre" not in result.choice.reason


@pytest.mark.parametrize(
    "noise", [0.03, 0.3, 0.6]
)  # the common part has 0.998, 0.82 and 0.55 of their length
@pytest.mark.parametrize("options", [{"threshold": "auto"}, {"threshold": "local"}])
def test_one_cluster_of_items_that_share_a_part_comes_with_advice(rng, options, noise):
    X = 3 * np.eye(24)[0] + noise * rng.normal(size=(40, 24))
    with pytest.warns(UserWarning, match="one cluster holds all items: they share a common part") as caught:
        result = solve(X, **options)
    assert caught[0].filename == __file__  # of the caller
    assert result.n_clusters == 1
    assert result.choice.reason.endswith("centre them first (center=True, --center)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(X - X.mean(axis=0), **options)
        alone = solve(X, n_clusters=1)  # as requested
        assert "centre" not in alone.choice.reason
        fewer = solve(around_axes(rng, 40)[0], **options)
        assert "centre" not in fewer.choice.reason


def test_one_cluster_without_a_common_part_comes_without_advice():
    X = np.column_stack([np.full(10, 0.2), np.eye(10)])  # all of them attract, but hardly
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = solve(X, "local", strictness=0)
    assert result.n_clusters == 1
    assert result.choice.reason == "strictness 0, as given"
