"""Choosing how strict a local threshold is: scores and joins by naive loops, and whoever asks for it."""

import json
import pickle
import warnings

import numpy as np
import pytest
from clusterfug.options import Task
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score, silhouette_score

from clusterfug import (
    DenseMulticut,
    DenseProblem,
    GraphProblem,
    dense_multicut,
    local_alpha,
    lower_bound,
    objective,
    solve_many,
    verify_bound,
)
from clusterfug.result import agreement, number_by_first_appearance
from clusterfug.selection.clearest import CLEARLY
from clusterfug.selection.items import items_of, silhouette
from clusterfug.selection.target import join

USUAL = 0.6


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def separated(rng, n, clusters=4, d=6, noise=0.15):
    """Features and classes: clusters around the axes, which nobody mistakes."""
    y = rng.permutation(np.arange(n) % clusters)
    return unit(np.eye(d)[y] + noise * rng.normal(size=(n, d))), y


def overlapping(rng, n, clusters, d, noise):
    y = rng.integers(clusters, size=n)
    centres = unit(rng.normal(size=(clusters, d)))
    return unit(centres[y] + noise / np.sqrt(d) * rng.normal(size=(n, d))), y


def tiny(rng, clusters, largest, d, noise):
    """Clusters of 2 items or a few more."""
    y = np.repeat(np.arange(clusters), rng.integers(2, largest + 1, size=clusters))
    return unit(
        unit(rng.normal(size=(clusters, d)))[y] + noise / np.sqrt(d) * rng.normal(size=(len(y), d))
    ), y


def same_clusters(labels, others):
    np.testing.assert_array_equal(labels[:, None] == labels, others[:, None] == others)


def as_problem(X, choice, **weights):
    """The chosen problem: a negative strictness is one that is added."""
    prefer = "small" if choice.strictness >= 0 else "large"
    return DenseProblem(X, alpha=choice.alpha, prefer=prefer, **weights)


def consistent(result, X, n_neighbors=None, **weights):
    """The result costs what it says, and its choice is the table of what was tried."""
    choice, labels = result.choice, result.labels
    np.testing.assert_array_equal(labels, number_by_first_appearance(labels))
    problem = as_problem(X, choice, **weights)
    assert result.inside == pytest.approx(problem.inside(labels), rel=1e-9, abs=1e-9)
    assert result.objective == pytest.approx(problem.objective(labels), rel=1e-9, abs=1e-9)
    assert result.trace[-1].n_clusters == result.n_clusters
    assert result.trace[-1].objective == result.objective
    alpha = local_alpha(X, abs(choice.strictness), n_neighbors=n_neighbors, **weights)
    np.testing.assert_allclose(choice.alpha, alpha, rtol=1e-9)
    assert np.all(np.diff(choice.candidates) > 0)
    assert len(choice.n_clusters) == len(choice.silhouette) == len(choice.candidates)
    assert len(choice.agreement) == len(choice.candidates) - 1
    beside = np.concatenate([[0], choice.agreement, [0]])
    np.testing.assert_allclose(choice.scores, choice.silhouette * np.maximum(beside[:-1], beside[1:]))
    assert [row["strictness"] for row in choice.rows()] == choice.candidates.tolist()
    assert choice.rows()[-1]["agreement"] is None
    return result


def chosen(result, X, **options):
    """It is the clearest of at most five candidates, or the usual one if none is clearly better."""
    choice = consistent(result, X, **options).choice
    scores = dict(zip(choice.candidates, choice.scores, strict=True))
    assert 2 <= len(scores) <= 5
    best = max(scores, key=scores.get)
    assert choice.strictness == (best if scores[best] > scores[USUAL] + CLEARLY else USUAL)
    assert choice.reason.startswith(f"strictness {choice.strictness:.2g}, the ")
    assert (choice.wish, choice.met) == (None, True)
    return result


def wished(result, X, low, high, **weights):
    choice = consistent(result, X, **weights).choice
    assert (choice.wish, choice.met) == ((low, high), True)
    assert low <= result.n_clusters <= high
    assert f"{result.n_clusters} cluster" in choice.reason
    assert f"{choice.strictness:.2g}" in choice.reason
    assert 1 <= len(choice.candidates) <= 8
    return result


def items(X, weight=None):
    return items_of(X, Task(sample_weight=weight), None)


# What is looked at


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(3, 30), clusters=st.integers(2, 6))
def test_silhouette_is_that_of_cosine_distances(seed, n, clusters):
    rng = np.random.default_rng(seed)
    X = unit(rng.normal(size=(n, 3)))
    X[rng.random(n) < 0.2] = X[0]  # duplicates
    labels = number_by_first_appearance(rng.integers(clusters, size=n))
    distances = np.maximum(1 - X @ X.T, 0)
    np.fill_diagonal(distances, 0)
    several = 1 < labels.max() + 1 < n
    expected = silhouette_score(distances, labels, metric="precomputed") if several else 0
    assert silhouette(items(X), labels) == pytest.approx(expected, abs=1e-6)


def test_items_alone_and_one_cluster_have_no_silhouette(rng):
    X = unit(rng.normal(size=(12, 3)))
    assert silhouette(items(X), np.arange(12)) == 0
    assert silhouette(items(X), np.zeros(12, dtype=np.int64)) == 0
    assert silhouette(items(np.zeros((12, 3))), np.arange(12) % 2) == 0


def test_silhouette_of_any_lengths_is_a_share(rng):
    for _ in range(20):
        X = rng.normal(size=(15, 3)) * rng.uniform(0.1, 10, size=(15, 1))
        assert -1 <= silhouette(items(X), rng.permutation(np.arange(15) % 4)) <= 1


def test_silhouette_counts_weights_as_repetitions(rng):
    X, _ = separated(rng, 30, noise=0.5)
    labels, weight = np.arange(30) % 7, rng.integers(0, 4, size=30)
    repeated = items(np.repeat(X, weight, axis=0))
    expected = silhouette(repeated, np.repeat(labels, weight))
    assert silhouette(items(X, weight), labels) == pytest.approx(expected)


def test_who_is_alone_is_no_good_cluster_whatever_the_weight(rng):
    X, _ = separated(rng, 30, noise=0.5)
    assert silhouette(items(X, np.full(30, 3.0)), np.arange(30)) == 0


def test_a_cluster_without_weight_is_nobodys_next_one(rng):
    X = unit(np.repeat([[1.0, 0], [-1, 0]], 6, axis=0) + 0.3 * rng.normal(size=(12, 2)))
    labels, weight = np.arange(12) // 6, np.ones(12)
    expected = silhouette(items(X), labels)
    assert expected == pytest.approx(silhouette_score(X, labels, metric="cosine"))
    X, labels = np.vstack([X, X[:2]]), np.append(labels, [2, 2])
    assert silhouette(items(X, np.append(weight, [0, 0])), labels) == pytest.approx(expected)


def test_silhouette_is_a_mean_over_a_sample_a_few_rows_at_a_time(rng, monkeypatch):
    X, y = separated(rng, 31, noise=0.5)
    few = items(X)
    whole = silhouette(few, y)
    monkeypatch.setattr("clusterfug.selection.items._BLOCK", 9)
    assert silhouette(few, y) == pytest.approx(whole)
    monkeypatch.setattr("clusterfug.selection.items._SAMPLE", 4)
    taken = 0

    def rows(some):
        nonlocal taken
        taken += len(some)
        return few.rows(some)

    assert silhouette(few._replace(rows=rows), y) == pytest.approx(whole, abs=0.5)
    assert taken == 4


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 40), clusters=st.integers(1, 8))
def test_agreement_is_the_adjusted_rand_index(seed, n, clusters):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(clusters, size=n), rng.integers(clusters, size=n)
    b = np.where(rng.random(n) < 0.5, a, b)
    assert agreement(a, b) == pytest.approx(adjusted_rand_score(a, b))
    weight = rng.integers(0, 4, size=n)
    weight[0] += 2
    expected = adjusted_rand_score(np.repeat(a, weight), np.repeat(b, weight))
    assert agreement(a, b, weight.astype(float)) == pytest.approx(expected)


def test_agreement_of_trivial_clusterings():
    one, alone = np.zeros(9, dtype=np.int64), np.arange(9)
    assert agreement(one, one) == agreement(alone, alone) == agreement(one[:1], alone[:1]) == 1
    assert agreement(one, alone) == agreement(alone, one) == 0


@pytest.mark.parametrize("weight", [0.05, 0.3, 0.9])
def test_agreement_is_at_most_1_however_small_weights_are(rng, weight):
    for _ in range(20):
        a, b = rng.integers(4, size=(2, 30))
        assert agreement(a, b, np.full(30, weight)) <= 1 + 1e-9
        assert agreement(a, a, np.full(30, weight)) == pytest.approx(1)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 25), strictness=st.floats(-3, 3))
def test_inside_is_that_of_the_problem(seed, n, strictness):
    rng = np.random.default_rng(seed)
    X, weight = rng.normal(size=(n, 3)), rng.uniform(0, 3, size=n)
    labels = number_by_first_appearance(rng.integers(5, size=n))
    found = items(X, weight)
    prefer = "small" if strictness >= 0 else "large"
    problem = DenseProblem(X, alpha=found.alpha(strictness), prefer=prefer, sample_weight=weight)
    scale = np.abs(X).sum() * weight.sum()
    assert found.inside(labels, strictness) == pytest.approx(problem.inside(labels), abs=1e-10 * scale)


# Joins


def naive_join(similarities, strengths, count):
    """Look at the quotients of all pairs of clusters, join the largest, and begin again."""
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
def test_joins_are_those_of_a_loop_over_all_pairs(block, seed, n, data):
    rng = np.random.default_rng(seed)
    count = data.draw(st.integers(1, n - 1))
    sums = rng.normal(size=(n, 3)) + data.draw(st.sampled_from([0, 1]))
    strengths = rng.uniform(0.1, 3, size=n)
    expected, strictness = naive_join(sums @ sums.T, strengths, count)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clusterfug.selection.target._BLOCK", block)
        of, found = join(sums @ sums.T, strengths.copy(), count)
    assert len(np.unique(of)) == count
    same_clusters(of, expected)
    assert found == pytest.approx(strictness)


def test_clusters_without_strength_join_and_the_strictness_is_a_number():
    sums = np.array([[1.0, 0], [1, 0], [-1, 0], [0, 0], [0, 0]])
    for count in (1, 2, 3, 4):
        of, strictness = join(sums @ sums.T, np.linalg.norm(sums, axis=1), count)
        assert len(np.unique(of)) == count
        assert of[0] == of[1]
        assert abs(strictness) <= 1
    of, strictness = join(np.zeros((4, 4)), np.zeros(4), 2)
    assert (len(np.unique(of)), strictness) == (2, 0)


# The clearest


@pytest.mark.parametrize("algorithm", ["fast", "auto", "best", "exact", "gaec", "dlaec"])
def test_every_algorithm_solves_the_chosen_problem(rng, algorithm):
    X, _ = overlapping(rng, 30, 4, 6, 0.8)
    more = {"max_iter": 2} if algorithm == "best" else {}
    result = dense_multicut(X, "auto", algorithm=algorithm, **more)
    assert chosen(result, X).algorithm == algorithm
    tried = dict(zip(result.choice.candidates, result.choice.n_clusters, strict=True))
    assert len(tried) >= 3
    usual = dense_multicut(X, "local", algorithm="fast")
    assert tried[USUAL] == usual.n_clusters
    if algorithm == "fast":
        score = dict(zip(result.choice.candidates, result.choice.silhouette, strict=True))
        assert score[result.choice.strictness] == pytest.approx(silhouette(items(X), result.labels))
    elif algorithm in ("gaec", "dlaec"):
        alone = dense_multicut(X, alpha=result.choice.alpha, algorithm=algorithm)
        np.testing.assert_array_equal(result.merges, alone.merges)
    else:  # it goes on from the candidate's labels
        fast = dense_multicut(X, "auto", algorithm="fast")
        alone = dense_multicut(X, alpha=result.choice.alpha, algorithm=algorithm, init=fast.labels, **more)
        assert fast.choice.strictness == result.choice.strictness
        np.testing.assert_array_equal(result.labels, alone.labels)
        assert result.objective <= fast.objective


def test_well_separated_clusters_are_found_at_the_usual_strictness(rng):
    X, y = separated(rng, 60)
    result = chosen(dense_multicut(X, "auto"), X)
    same_clusters(result.labels, y)
    assert result.choice.strictness == USUAL
    assert result.choice.reason.startswith("strictness 0.6, the usual one: of ")
    assert "not well separated" not in result.choice.reason


@pytest.mark.large
def test_many_tiny_clusters_ask_for_more_strictness(rng):
    X, y = tiny(rng, 300, 8, 128, 0.6)
    result = chosen(dense_multicut(X, "auto"), X)
    assert result.choice.strictness > 1
    assert result.n_clusters == 300
    assert adjusted_rand_score(y, result.labels) > 0.999
    assert adjusted_rand_score(y, dense_multicut(X, "local").labels) < 0.7
    assert "the best of 5 tried" in result.choice.reason


@pytest.mark.large
def test_a_few_overlapping_clusters_ask_for_less_strictness(rng):
    X, y = overlapping(rng, 300, 3, 32, 2.0)
    result = chosen(dense_multicut(X, "auto"), X)
    assert result.choice.strictness < USUAL
    assert result.n_clusters < dense_multicut(X, "local").n_clusters
    assert adjusted_rand_score(y, result.labels) > 0.7


def test_no_clusters_are_said_to_be_none(rng):
    X = unit(rng.normal(size=(60, 40)))
    result = chosen(dense_multicut(X, "auto", algorithm="fast"), X)
    assert "; clusters are not well separated (silhouette 0." in result.choice.reason


def test_more_strictness_is_tried_only_where_neighbours_differ(rng):
    X, _ = separated(rng, 60)
    alike = chosen(dense_multicut(X, "auto", n_neighbors=5, algorithm="fast"), X, n_neighbors=5)
    assert alike.choice.candidates.max() == USUAL
    differ = chosen(dense_multicut(X, "auto", n_neighbors=50, algorithm="fast"), X, n_neighbors=50)
    assert differ.choice.candidates.max() > USUAL


def test_two_runs_choose_the_same(rng):
    X, _ = overlapping(rng, 50, 4, 8, 1.0)
    first, second = (dense_multicut(X, "auto", random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.choice.rows() == second.choice.rows()
    assert first.choice.reason == second.choice.reason


def test_the_order_of_items_does_not_matter(rng):
    X, _ = separated(rng, 50, noise=0.2)
    order = rng.permutation(50)
    first, second = (dense_multicut(features, "auto", algorithm="fast") for features in (X, X[order]))
    same_clusters(first.labels[order], second.labels)
    np.testing.assert_allclose(first.choice.scores, second.choice.scores)


@pytest.mark.parametrize("n_neighbors", [None, 12])
def test_weights_are_repetitions(rng, n_neighbors):
    X, _ = separated(rng, 25)
    weight = rng.integers(0, 4, size=25)
    options = {"algorithm": "fast", "n_neighbors": n_neighbors}
    weighted = dense_multicut(X, "auto", sample_weight=weight, **options)
    repeated = np.repeat(X, weight, axis=0)
    expected = chosen(dense_multicut(repeated, "auto", **options), repeated, n_neighbors=n_neighbors)
    chosen(weighted, X, sample_weight=weight, n_neighbors=n_neighbors)
    same_clusters(np.repeat(weighted.labels, weight), expected.labels)
    assert weighted.choice.strictness == expected.choice.strictness
    np.testing.assert_allclose(weighted.choice.scores, expected.choice.scores)
    for name in ("candidates", "n_clusters"):
        np.testing.assert_array_equal(getattr(weighted.choice, name), getattr(expected.choice, name))


def test_items_of_weight_0_change_nothing(rng):
    X, _ = overlapping(rng, 40, 4, 8, 0.6)
    weight = (np.arange(40) % 4 > 0).astype(float)
    for options in ({"threshold": "auto"}, {"n_clusters": 7}):
        result = dense_multicut(X, sample_weight=weight, algorithm="fast", **options)
        alone = dense_multicut(X[weight > 0], algorithm="fast", **options)
        same_clusters(result.labels[weight > 0], alone.labels)
        assert result.n_clusters == alone.n_clusters
        assert result.choice.strictness == pytest.approx(alone.choice.strictness)
        consistent(result, X, sample_weight=weight)


@pytest.mark.parametrize("algorithm", ["fast", "auto", "gaec"])
def test_a_bound_is_one_of_the_chosen_problem(rng, algorithm):
    X, _ = overlapping(rng, 30, 3, 6, 1.0)
    result = chosen(dense_multicut(X, "auto", algorithm=algorithm, bound=True), X)
    assert verify_bound(X, result.bound, alpha=result.choice.alpha)
    assert result.bound.value == lower_bound(X, alpha=result.choice.alpha).value
    assert result.bound.value <= result.objective
    assert 0 <= result.gap < 1


def test_a_proof_is_one_of_the_chosen_problem(rng):
    X, _ = overlapping(rng, 20, 3, 6, 1.0)
    result = chosen(dense_multicut(X, "auto", algorithm="exact"), X)
    assert result.optimal
    assert result.objective == pytest.approx(
        dense_multicut(X, alpha=result.choice.alpha, algorithm="exact").objective
    )


@pytest.fixture
def runs(monkeypatch):
    """The options and the result of every run that a choice makes."""
    runs = []

    def note(X, **options):
        runs.append((options, dense_multicut(X, **options)))
        return runs[-1][1]

    monkeypatch.setattr("clusterfug.selection.candidates.dense_multicut", note)
    return runs


@pytest.mark.parametrize("way", [{"threshold": "auto"}, {"n_clusters": 9}])
def test_the_first_run_starts_from_given_labels(rng, runs, way):
    X, _ = overlapping(rng, 40, 4, 8, 1.2)
    init = rng.integers(5, size=40)
    result = consistent(dense_multicut(X, init=init, algorithm="fast", **way), X)
    first, *others = (options["init"] for options, _ in runs)
    np.testing.assert_array_equal(first, init)
    assert not any(np.array_equal(start, init) for start in others)
    assert result.seconds >= sum(found.seconds for _, found in runs)


@pytest.mark.parametrize("algorithm", ["auto", "best", "exact"])
def test_the_last_run_starts_from_the_labels_of_the_candidate(rng, runs, algorithm):
    X, _ = overlapping(rng, 30, 4, 8, 1.2)
    more = {"max_iter": 1} if algorithm == "best" else {}
    result = chosen(dense_multicut(X, "auto", algorithm=algorithm, **more), X)
    *candidates, (last, _) = runs
    assert [found.algorithm for _, found in candidates] == ["fast"] * len(result.choice.candidates)
    assert last["algorithm"] == algorithm
    [best] = [found for options, found in candidates if np.array_equal(options["alpha"], last["alpha"])]
    np.testing.assert_array_equal(last["init"], best.labels)
    assert result.objective <= best.objective


@pytest.mark.parametrize("algorithm", ["fast", "auto", "best", "exact", "dlaec"])
@pytest.mark.parametrize("threshold", ["auto", "local"])
def test_the_time_of_a_run_is_that_of_all_its_phases(rng, algorithm, threshold):
    X, _ = overlapping(rng, 20, 3, 6, 1.0)
    more = {"max_iter": 2} if algorithm == "best" else {}
    result = dense_multicut(X, threshold, algorithm=algorithm, **more)
    assert sum(phase.seconds for phase in result.trace) <= result.seconds


@pytest.mark.parametrize("options", [{"threshold": "auto"}, {"threshold": "local"}, {"n_clusters": 5}])
def test_labels_of_other_items_are_an_error(rng, options):
    X, _ = separated(rng, 30)
    with pytest.raises(ValueError, match="init"):
        dense_multicut(X, init=np.zeros(7, dtype=int), **options)


@pytest.mark.parametrize("options", [{"threshold": "auto"}, {"n_clusters": 5}])
def test_time_ends_and_the_callback_is_called(rng, options):
    X, _ = overlapping(rng, 40, 4, 8, 1.0)
    seen = []
    result = dense_multicut(X, time_limit=100, callback=lambda *call: seen.append(call), **options)
    consistent(result, X)
    assert seen
    assert all(0 <= done <= total for _, done, total in seen)
    consistent(dense_multicut(X, time_limit=0, **options), X)

    def interrupt(phase, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dense_multicut(X, callback=interrupt, algorithm="fast", **options)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool])
def test_any_type_of_features(rng, dtype):
    X = rng.integers(0, 2, size=(30, 6)).astype(dtype)
    for options in ({"threshold": "auto"}, {"n_clusters": 5}):
        result = consistent(dense_multicut(X, algorithm="fast", **options), X)
        expected = dense_multicut(X.astype(np.float64), algorithm="fast", **options)
        np.testing.assert_array_equal(result.labels, expected.labels)


# There is nothing to choose


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
def test_hardly_any_items(X, clusters, algorithm):
    X = np.asarray(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = chosen(dense_multicut(X, "auto", algorithm=algorithm), X)
    assert result.n_clusters == clusters


@pytest.mark.parametrize("n", [2, 9])
def test_copies_of_one_item_are_one_cluster_without_advice(n):
    X = np.full((n, 3), 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = chosen(dense_multicut(X, "auto"), X)
    assert (result.n_clusters, result.objective) == (1, 0)
    assert "centre" not in result.choice.reason


@pytest.mark.parametrize("noise", [0.03, 0.3, 0.6])  # they share 0.998, 0.82 and 0.55 of themselves
@pytest.mark.parametrize("options", [{"threshold": "auto"}, {"threshold": "local"}])
def test_one_cluster_of_items_that_share_a_part_comes_with_advice(rng, options, noise):
    X = 3 * np.eye(24)[0] + noise * rng.normal(size=(40, 24))
    with pytest.warns(UserWarning, match="one cluster, and all items share a common part") as caught:
        result = dense_multicut(X, **options)
    assert caught[0].filename == __file__  # of whoever called
    assert result.n_clusters == 1
    assert result.choice.reason.endswith("centre them first (center=True, --center)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dense_multicut(X - X.mean(axis=0), **options)
        alone = dense_multicut(X, n_clusters=1)  # as wished
        assert "centre" not in alone.choice.reason
        fewer = dense_multicut(separated(rng, 40)[0], **options)
        assert "centre" not in fewer.choice.reason


def test_one_cluster_without_a_common_part_comes_without_advice():
    X = np.column_stack([np.full(10, 0.2), np.eye(10)])  # all of them attract, but hardly
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = dense_multicut(X, "local", strictness=0)
    assert result.n_clusters == 1
    assert result.choice.reason == "strictness 0, as told"


# As many clusters as wished for


@pytest.mark.parametrize("wish", [1, 2, 3, 5, 8, 13, 21, 30, 39, 40])
def test_a_wish_is_met(rng, wish):
    X = rng.normal(size=(40, 5))
    result = wished(dense_multicut(X, n_clusters=wish, algorithm="fast"), X, wish, wish)
    problem = as_problem(X, result.choice)
    costs = problem.group_costs(np.arange(40), result.labels)
    assert costs.max() <= 1e-9 * np.abs(costs).max()  # no two clusters attract at that strictness


@pytest.mark.parametrize("wish", [1, 7, 12, 13, 14])
def test_a_few_items_are_any_number_of_clusters(wish):
    """Every item is alone if only the strictness is large enough."""
    X = np.random.default_rng(9).normal(size=(14, 4))
    assert dense_multicut(X, "local", strictness=200).n_clusters == 14
    wished(dense_multicut(X, n_clusters=wish, algorithm="fast"), X, wish, wish)


@pytest.mark.large
@pytest.mark.parametrize("wish", [1, 2, 5, 10, 20, 50, 100, 180, 250, 300])
def test_a_wish_is_met_for_more_items(rng, wish):
    X, _ = overlapping(rng, 300, 20, 16, 0.8)
    for algorithm in ("fast", "auto"):
        wished(dense_multicut(X, n_clusters=wish, algorithm=algorithm), X, wish, wish)


@pytest.mark.parametrize("wish", [(1, 2), (3, 5), (9, 12), (10, 40), (25, 26)])
def test_a_range_is_met(rng, wish):
    X = rng.normal(size=(40, 5))
    wished(dense_multicut(X, n_clusters=wish, algorithm="fast"), X, *wish)
    as_list = dense_multicut(X, "local", n_clusters=list(wish), algorithm="fast")
    wished(as_list, X, *wish)


def test_what_the_usual_strictness_gives_is_taken_as_it_is(rng):
    X, _ = separated(rng, 50)
    usual = dense_multicut(X, "local")
    for wish in (4, (2, 9)):
        result = dense_multicut(X, n_clusters=wish)
        np.testing.assert_array_equal(result.labels, usual.labels)
        assert (result.choice.strictness, len(result.choice.candidates)) == (USUAL, 1)
        assert result.trace[-1].move_optimal
    assert dense_multicut(X, n_clusters=np.int64(4)).choice.wish == (4, 4)


def test_the_number_of_well_separated_clusters_finds_them(rng):
    X, y = separated(rng, 60, clusters=6, d=8)
    result = wished(dense_multicut(X, n_clusters=6), X, 6, 6)
    same_clusters(result.labels, y)
    fewer = wished(dense_multicut(X, n_clusters=3), X, 3, 3)
    assert len(set(zip(y, fewer.labels, strict=True))) == 6  # none of them is torn


def test_dissimilar_clusters_join_at_a_negative_strictness():
    X = np.repeat([[1.0, 0], [-1, 0.1]], 5, axis=0)
    assert dense_multicut(X, "local").n_clusters == 2
    result = wished(dense_multicut(X, n_clusters=1), X, 1, 1)
    assert result.choice.strictness < 0
    assert result.objective == pytest.approx(0, abs=1e-9)
    assert result.inside == pytest.approx(
        objective(X, np.arange(10), alpha=result.choice.alpha, prefer="large")
    )


@pytest.mark.parametrize("wish", [2, 14])
def test_a_wish_and_a_bound(rng, wish):
    X = rng.normal(size=(30, 5))
    result = wished(dense_multicut(X, n_clusters=wish, algorithm="fast", bound=True), X, wish, wish)
    prefer = "small" if result.choice.strictness >= 0 else "large"
    assert verify_bound(X, result.bound, alpha=result.choice.alpha, prefer=prefer)
    assert result.bound.value <= result.objective
    assert result.gap >= 0


def test_a_wish_for_neighbours_of_ones_own(rng):
    X = rng.normal(size=(40, 5))
    result = dense_multicut(X, n_clusters=9, n_neighbors=3, algorithm="fast")
    assert consistent(result, X, n_neighbors=3).n_clusters == 9


@pytest.mark.parametrize("wish", [1, 2, 3, 5, 20])
def test_rows_of_zeros_do_not_spoil_a_wish(rng, wish):
    X = rng.normal(size=(30, 4))
    X[[5, 9]] = 0
    result = wished(dense_multicut(X, n_clusters=wish, algorithm="fast"), X, wish, wish)
    assert abs(result.choice.strictness) < 1e6


@pytest.mark.parametrize("wish", [1, 3, 10])
def test_of_zeros_alone_a_wish_is_met(wish):
    X = np.zeros((10, 3))
    result = wished(dense_multicut(X, n_clusters=wish), X, wish, wish)
    assert result.objective == 0


def test_equal_items_are_told_apart_if_that_is_the_wish():
    X = np.ones((10, 3))
    for wish in (1, 4, 10):
        wished(dense_multicut(X, n_clusters=wish), X, wish, wish)


def not_met(result, X, low, high, **weights):
    choice = consistent(result, X, **weights).choice
    assert (choice.wish, choice.met) == ((low, high), False)
    assert not low <= result.n_clusters <= high
    far = np.maximum(low / choice.n_clusters, choice.n_clusters / high)
    nearest = choice.n_clusters[np.argmin(far)]
    assert result.n_clusters == nearest
    assert f"the nearest is {nearest}" in choice.reason
    return result


def test_more_clusters_than_items_that_count_are_an_error(rng):
    """Items without weight are in no cluster of their own."""
    X = rng.normal(size=(20, 4))
    weight = (np.arange(20) < 12).astype(float)
    for wish in (13, (15, 18)):
        with pytest.raises(ValueError, match="there are only 12 items"):
            dense_multicut(X, n_clusters=wish, sample_weight=weight, algorithm="fast")
    assert dense_multicut(X, n_clusters=(11, 18), sample_weight=weight).n_clusters in (11, 12)


def test_too_many_clusters_are_not_joined(rng, monkeypatch):
    """Where their similarities would not fit into memory; the nearest candidate it is."""
    X = rng.normal(size=(20, 5))
    monkeypatch.setattr("clusterfug.selection.target._MOST_JOINED", 1)
    with pytest.warns(UserWarning, match="no strictness tried gives 1 clusters?: the nearest is") as caught:
        result = dense_multicut(X, n_clusters=1, algorithm="fast", bound=True)
    assert not_met(result, X, 1, 1).bound.value <= result.objective
    assert caught[0].filename == __file__
    assert str(caught[0].message) == result.choice.reason


def test_many_wishes(rng):
    problems = [rng.normal(size=(n, 4)) for n in (30, 12)]
    for result, X in zip(solve_many(problems, n_clusters=6, algorithm="fast"), problems, strict=True):
        wished(result, X, 6, 6)
    found = solve_many(problems, threshold="auto", algorithm="fast")
    for result, X in zip(found, problems, strict=True):
        np.testing.assert_array_equal(result.labels, dense_multicut(X, "auto", algorithm="fast").labels)


# What is an error

GOOD = np.eye(4)


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
        ({"n_clusters": 2, "threshold": "near"}, ValueError, "unknown threshold 'near'"),
        ({"n_clusters": 2, "alpha": 0.5}, ValueError, "n_clusters .* leave out alpha"),
        ({"n_clusters": 2, "alpha": np.ones(4)}, ValueError, "n_clusters .* leave out alpha"),
        ({"n_clusters": 2, "strictness": 0.5}, ValueError, "n_clusters .* leave out strictness"),
        ({"n_clusters": 2, "prefer": "large"}, ValueError, "n_clusters .* leave out prefer"),
        ({"n_clusters": 2, "n_neighbors": 0}, ValueError, "n_neighbors must be at least 1"),
        (
            {"n_clusters": 2, "algorithm": "best"},
            ValueError,
            "n_clusters goes with fast and auto, not with best",
        ),
        (
            {"n_clusters": 2, "algorithm": "gaec"},
            ValueError,
            "n_clusters goes with fast and auto, not with gaec",
        ),
        ({"threshold": "auto", "alpha": 0.5}, ValueError, "'auto' .* leave out alpha"),
        ({"threshold": "auto", "alpha": np.ones(4)}, ValueError, "'auto' .* leave out alpha"),
        ({"threshold": "auto", "strictness": 0.5}, ValueError, "'auto' .* leave out strictness"),
        ({"threshold": "auto", "prefer": "large"}, ValueError, "'auto' .* leave out prefer"),
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
        dense_multicut(GOOD, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("options", [{"threshold": "auto"}, {"threshold": "local"}, {"n_clusters": 2}])
def test_features_are_what_a_threshold_is_chosen_from(options):
    with pytest.raises(ValueError, match="X is a DenseProblem, which has its costs: give features"):
        dense_multicut(DenseProblem(GOOD), **options)
    with pytest.raises(TypeError, match="X must hold real numbers") as caught:
        dense_multicut(GraphProblem([[0, 1]], [1.0]), **options)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="not finite: nan in row 0, column 0"):
        dense_multicut(GOOD * np.nan, **options)


# The estimator


def test_the_default_chooses_and_that_of_the_papers_does_not(rng):
    X, _ = overlapping(rng, 30, 4, 6, 0.8)
    for algorithm in ("auto", "fast", "exact", "best"):
        more = {"max_iter": 2} if algorithm == "best" else {}
        model = DenseMulticut(algorithm=algorithm, **more).fit(X)
        expected = dense_multicut(X, "auto", algorithm=algorithm, **more)
        np.testing.assert_array_equal(model.labels_, expected.labels)
        np.testing.assert_allclose(model.choice_.scores, expected.choice.scores)
        assert model.choice_ is model.result_.choice
    for algorithm in ("gaec", "dgaec", "dlaec"):
        model = DenseMulticut(algorithm=algorithm).fit(X)
        np.testing.assert_array_equal(model.labels_, dense_multicut(X, 0.4, algorithm=algorithm).labels)
        assert model.choice_ is None


def test_parameters_of_the_estimator_reach_the_solver(rng):
    X, _ = overlapping(rng, 40, 4, 6, 0.8)
    weight = rng.integers(0, 3, size=40)
    for keywords, options in (
        ({"threshold": "local"}, {"threshold": "local"}),
        ({"strictness": 0.9}, {"threshold": "local", "strictness": 0.9}),
        ({"n_neighbors": 5}, {"threshold": "auto", "n_neighbors": 5}),
        ({"n_clusters": 7}, {"n_clusters": 7}),
        ({"n_clusters": (6, 8), "n_neighbors": 5}, {"n_clusters": (6, 8), "n_neighbors": 5}),
        ({"alpha": 0.7}, {"alpha": 0.7}),
        ({"threshold": "auto", "algorithm": "dlaec"}, {"threshold": "auto", "algorithm": "dlaec"}),
    ):
        options = {"algorithm": "fast"} | options
        model = DenseMulticut(**{"algorithm": "fast"} | keywords).fit(X, sample_weight=weight)
        expected = dense_multicut(X, sample_weight=weight, **options)
        np.testing.assert_array_equal(model.labels_, expected.labels)
        assert (model.choice_ is None) == ("alpha" in options)
        if model.choice_ is not None:
            assert model.choice_.strictness == pytest.approx(expected.choice.strictness)


def test_new_rows_go_to_the_cluster_of_the_most_similar_mean(rng):
    X = rng.normal(size=(40, 4))
    for options in ({"threshold": "auto"}, {"strictness": 1.2, "n_neighbors": 4}, {"n_clusters": 9}):
        model = DenseMulticut(metric="inner_product", algorithm="fast", **options).fit(X)
        means = np.array([X[model.labels_ == c].mean(axis=0) for c in range(model.n_clusters_)])
        new = rng.normal(size=(60, 4)) * 3
        np.testing.assert_array_equal(model.predict(new), (new @ means.T).argmax(axis=1))


def test_predicting_what_was_fitted(rng):
    X, y = separated(rng, 60)
    X *= rng.uniform(0.5, 5, size=(60, 1))
    for dtype in (np.float32, np.float64):
        model = DenseMulticut().fit(X.astype(dtype))
        same_clusters(model.labels_, y)
        np.testing.assert_array_equal(model.predict(X.astype(dtype)), model.labels_)
        np.testing.assert_array_equal(model.predict(X.astype(dtype) * 7), model.labels_)


def test_an_estimator_survives_cloning_and_pickling(rng):
    X, _ = overlapping(rng, 40, 4, 6, 0.6)
    new = rng.normal(size=(30, 6))
    parameters = {
        "threshold": "local",
        "strictness": 0.8,
        "n_neighbors": 6,
        "center": True,
        "algorithm": "fast",
    }
    model = DenseMulticut(**parameters).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(new), model.predict(new))
    assert copy.choice_.reason == model.choice_.reason
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert {name: fresh.get_params()[name] for name in parameters} == parameters
    assert not hasattr(fresh, "labels_")
    np.testing.assert_array_equal(fresh.fit(X).predict(new), model.predict(new))
    fresh.set_params(threshold=0.2, strictness=None, n_neighbors=None).fit(X)  # nothing of before is left
    assert fresh.choice_ is None
    np.testing.assert_array_equal(
        fresh.predict(new), DenseMulticut(0.2, center=True, algorithm="fast").fit(X).predict(new)
    )


def test_scale_and_shift_change_no_label_of_blobs(rng):
    X, y = separated(rng, 60, d=4, noise=0.1)
    expected = DenseMulticut(center=True).fit(X)
    same_clusters(expected.labels_, y)
    for other in (X * 3.7, X * 1e-3, X + rng.normal(size=4), 1e6 * X - 5.0):
        model = DenseMulticut(center=True).fit(other)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        np.testing.assert_allclose(model.choice_.scores, expected.choice_.scores, rtol=1e-6)


@pytest.mark.large
@pytest.mark.parametrize("options", [{}, {"n_clusters": 30}])
def test_scale_and_shift_change_no_label_of_digits(options):
    from sklearn.datasets import load_digits

    X = load_digits().data.astype(np.float64)
    expected = DenseMulticut(center=True, algorithm="fast", **options).fit(X)
    assert 10 <= expected.n_clusters_ <= 60
    for other in (X * 3.7, X * 1e-3, X + np.linspace(-9, 9, 64)):
        model = DenseMulticut(center=True, algorithm="fast", **options).fit(other)
        np.testing.assert_array_equal(model.labels_, expected.labels_)


# The command line


@pytest.fixture
def features(tmp_path, rng):
    X, _ = overlapping(rng, 40, 4, 6, 0.8)
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy", X


def report_of(run, *arguments):
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_command_chooses_unless_told(run, features):
    path, X = features
    expected = DenseMulticut().fit(X)
    for options in ([], ["-t", "auto"]):
        report = report_of(run, "cluster", path, *options)
        assert report["threshold"] == "auto"
        assert report["objective"] == expected.objective_
        assert report["strictness"] == expected.choice_.strictness
        assert report["reason"] == expected.choice_.reason
        assert report["candidates"] == expected.choice_.rows()
        assert report["met"] is True
    code, out, _ = run("cluster", path)
    assert code == 0
    assert f"local, strictness {expected.choice_.strictness:g}, the" in out
    told = report_of(run, "cluster", path, "-t", 0.3)
    assert told["threshold"] == 0.3
    assert "strictness" not in told


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (["-t", "local"], {"threshold": "local"}),
        (["-t", "local", "--strictness", 0.9], {"threshold": "local", "strictness": 0.9}),
        (["--strictness", 0.9, "--n-neighbors", 4], {"strictness": 0.9, "n_neighbors": 4}),
        (["--n-neighbors", 4], {"n_neighbors": 4}),
        (["--n-clusters", 7], {"n_clusters": 7}),
        (["--n-clusters", "9:12"], {"n_clusters": (9, 12)}),
        (["-t", "auto", "-a", "gaec"], {"threshold": "auto", "algorithm": "gaec"}),
    ],
)
def test_the_command_is_the_estimator(run, features, tmp_path, options, keywords):
    path, X = features
    report = report_of(run, "cluster", path, *options, "-o", tmp_path / "l.npy")
    model = DenseMulticut(**keywords).fit(X)
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), model.labels_)
    assert report["n_clusters"] == model.n_clusters_
    assert report["objective"] == model.objective_
    assert report["strictness"] == model.choice_.strictness
    assert report["candidates"] == model.choice_.rows()
    if "n_clusters" not in keywords:
        assert report["threshold"] == keywords.get(
            "threshold", "local" if "strictness" in keywords else "auto"
        )


def test_a_wish_that_is_not_met_and_advice_are_in_the_table(run, features, monkeypatch):
    path, X = features
    monkeypatch.setattr("clusterfug.selection.target._MOST_JOINED", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the table says it, and nothing else does
        report = report_of(run, "cluster", path, "--n-clusters", 1)
        np.save(path, X + 1)
        code, out, err = run("cluster", path, "-t", "local")
    assert report["met"] is False
    assert "the nearest is" in report["reason"]
    assert (code, err) == (0, "")
    assert "centre them" in out


@pytest.mark.parametrize(
    "options", [[], ["-t", "auto"], ["--n-clusters", 9], ["--n-clusters", 1], ["--n-clusters", "2:40"]]
)
def test_what_was_tried_is_drawn(run, features, tmp_path, options):
    pytest.importorskip("matplotlib")
    path, _ = features
    picture = tmp_path / "tried.png"
    code, _, err = run("cluster", path, *options, "--plot", picture)
    assert (code, err) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 5000


def test_bounds_and_evaluations_of_a_local_threshold(run, features, tmp_path):
    path, X = features
    labels, bound = tmp_path / "l.npy", tmp_path / "b.npz"
    local = ["-t", "local", "--strictness", 0.8, "--n-neighbors", 7]
    clustered = report_of(run, "cluster", path, *local, "-o", labels)
    bounded = report_of(run, "bound", path, *local, "-o", bound, "--labels", labels)
    alpha = local_alpha(X, 0.8, n_neighbors=7)
    assert bounded["bound"] == pytest.approx(lower_bound(X, alpha=alpha).value)
    assert bounded["objective"] == pytest.approx(clustered["objective"])
    assert report_of(run, "bound", path, *local, "--check", bound)["verified"]
    code, _, err = run("bound", path, "-t", "local", "--check", bound)
    assert (code, err.count("\n")) == (2, 1)
    evaluated = report_of(run, "evaluate", labels, "--features", path, *local)
    assert evaluated["objective"] == pytest.approx(clustered["objective"])
    assert evaluated["threshold"] == "local"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["cluster", "x.npy", "--n-clusters", "x"],
            "--n-clusters must be N or LOW:HIGH (140:160), not 'x'",
        ),
        (["cluster", "x.npy", "--n-clusters", "1:2:3"], "--n-clusters must be N or LOW:HIGH"),
        (["cluster", "x.npy", "--n-clusters", "2.5"], "--n-clusters must be N or LOW:HIGH"),
        (["cluster", "x.npy", "--n-clusters", "0"], "n_clusters must be at least 1, not 0"),
        (["cluster", "x.npy", "--n-clusters", "3:2"], "swap them"),
        (["cluster", "x.npy", "--n-clusters", "5", "-o", "l.npy"], "there are only 4 items"),
        (["cluster", "x.npy", "--n-clusters", "2", "-t", "0.3"], "leave out --threshold"),
        (["cluster", "x.npy", "--n-clusters", "2", "--alpha", "1"], "leave out alpha"),
        (["cluster", "x.npy", "--n-clusters", "2", "--alpha", "a.npy"], "leave out alpha"),
        (["cluster", "x.npy", "--n-clusters", "2", "-a", "best"], "n_clusters goes with fast and auto"),
        (["cluster", "x.npy", "--n-clusters", "2", "--strictness", "1"], "leave out strictness"),
        (["cluster", "x.npy", "-t", "auto", "--strictness", "1"], "leave out strictness"),
        (["cluster", "x.npy", "-t", "0.3", "--strictness", "1"], "strictness goes with"),
        (["cluster", "x.npy", "--alpha", "1", "--strictness", "1"], "strictness goes with"),
        (["cluster", "x.npy", "-t", "local", "--alpha", "1"], "give --threshold or --alpha, not both"),
        (["cluster", "x.npy", "--strictness", "-1"], "strictness must be at least 0"),
        (["cluster", "x.npy", "--n-neighbors", "0"], "n_neighbors must be at least 1"),
        (["cluster", "x.npy", "-t", "local", "--n-neighbors", "0"], "n_neighbors must be at least 1"),
        (["cluster", "x.npy", "-t", "local", "--prefer", "large"], 'prefer="large" goes with alpha'),
        (["cluster", "x.npy", "-t", "local", "--plot", "p.png"], "where the strictness is chosen"),
        (["cluster", "x.npy", "--plot", "p.pdf"], "must end in .png"),
        (
            ["cluster", "x.npy", "--thresholds", "0:1:3", "--n-clusters", "2"],
            "does not go with --n-clusters",
        ),
        (
            ["cluster", "x.npy", "--thresholds", "0:1:3", "--strictness", "2"],
            "does not go with --strictness",
        ),
        (["cluster", "x.npy", "--thresholds", "0:1:3", "-t", "auto"], "does not go with --threshold"),
        (["cluster", "graph.txt", "--n-clusters", "2"], "--n-clusters goes with features"),
        (["cluster", "graph.txt", "--strictness", "2"], "--strictness goes with features"),
        (["cluster", "graph.txt", "--n-neighbors", "2"], "--n-neighbors goes with features"),
        (["cluster", "graph.txt", "-t", "auto"], "--threshold goes with features"),
        (["bound", "x.npy", "-t", "auto"], "--threshold auto is for cluster"),
        (["bound", "x.npy", "-t", "near"], "--threshold must be a number"),
        (["bound", "x.npy", "-t", "0.4", "--strictness", "1"], "strictness goes with"),
        (["bound", "graph.txt", "--strictness", "1"], "--strictness goes with features"),
        (
            ["evaluate", "labels.npy", "--features", "x.npy", "-t", "auto"],
            "--threshold auto is for cluster",
        ),
        (["evaluate", "labels.npy", "--strictness", "1"], "--strictness goes with --features"),
        (["evaluate", "labels.npy", "--n-neighbors", "1"], "--n-neighbors goes with --features"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.eye(4))
    np.save("a.npy", np.ones(4))
    np.save("labels.npy", np.arange(4))
    (tmp_path / "graph.txt").write_text("MULTICUT\n0 1 1\n")
    before = sorted(file.name for file in tmp_path.iterdir())
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(file.name for file in tmp_path.iterdir()) == before
