"""Evaluations agree with direct computations."""

import doctest
from collections import Counter
from itertools import combinations
from math import comb, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterfug import DenseProblem, GraphProblem
from clusterfug.report import evaluation
from clusterfug.report.evaluation import evaluate


def entropy(counts, n):
    return -sum(c / n * log(c / n) for c in counts)


@given(pairs=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2, max_size=20))
def test_scores_by_their_definitions(pairs):
    labels, truth = zip(*pairs, strict=True)
    scores = evaluate(labels, truth).scores
    n = len(pairs)
    of_labels, of_truth, of_both = (Counter(x).values() for x in (labels, truth, pairs))
    h_labels, h_truth, h_both = (entropy(counts, n) for counts in (of_labels, of_truth, of_both))
    mutual = h_labels + h_truth - h_both
    homogeneity = mutual / h_truth if h_truth else 1.0
    completeness = mutual / h_labels if h_labels else 1.0
    total = homogeneity + completeness
    assert scores.homogeneity == pytest.approx(homogeneity, abs=1e-9)
    assert scores.completeness == pytest.approx(completeness, abs=1e-9)
    v_measure = 2 * homogeneity * completeness / total if total > 1e-9 else 0.0
    assert scores.v_measure == pytest.approx(v_measure, abs=1e-9)
    assert scores.nmi == pytest.approx(scores.v_measure, abs=1e-9)
    both, ours, theirs = (sum(comb(c, 2) for c in counts) for counts in (of_both, of_labels, of_truth))
    chance = ours * theirs / comb(n, 2)
    if (ours + theirs) / 2 != chance:
        assert scores.ari == pytest.approx((both - chance) / ((ours + theirs) / 2 - chance), abs=1e-9)
    assert -1 <= scores.ami <= 1 + 1e-9


def test_a_perfect_clustering_scores_one_whatever_its_numbers():
    scores = evaluate([5, 5, 9, 9, 7], [0, 0, 1, 1, 3]).scores
    assert set(vars(scores).values()) == {1.0}


def test_chance_is_zero_for_the_adjusted_scores_only(rng):
    scores = evaluate(np.arange(300), rng.integers(0, 3, 300)).scores
    assert (scores.ami, scores.ari) == pytest.approx((0, 0), abs=1e-9)
    assert scores.nmi > 0.2


def test_sizes_and_histogram():
    labels = np.repeat(np.arange(6), [1, 1, 2, 3, 4, 9])
    found = evaluate(labels)
    assert vars(found.sizes) == {
        "n": 20,
        "n_clusters": 6,
        "singletons": 2,
        "largest": 9,
        "mean_size": pytest.approx(20 / 6),
    }
    bins = [(part.first, part.last, part.clusters, part.items) for part in found.histogram]
    assert bins == [(1, 1, 2, 2), (2, 3, 2, 5), (4, 7, 1, 4), (8, 15, 1, 9)]
    assert (found.truth, found.unlabelled, found.scores, found.cost) == (None, None, None, None)
    assert set(found.as_dict()) == {*vars(found.sizes), "noise", "histogram"}


@given(sizes=st.lists(st.integers(1, 70), min_size=1, max_size=8))
def test_every_cluster_and_item_is_in_one_bin(sizes):
    found = evaluate(np.repeat(np.arange(len(sizes)), sizes))
    assert found.histogram[0].first == 1
    for part in found.histogram:
        mine = [size for size in sizes if part.first <= size <= part.last]
        assert (part.clusters, part.items) == (len(mine), sum(mine))
    assert sum(part.clusters for part in found.histogram) == len(sizes)


def test_noise_is_singletons_and_unlabelled_items_are_left_out():
    found = evaluate([-1, -1, 4, 4, 4], [0, 1, 2, 2, -1])
    alone = evaluate([0, 1, 2, 2], [0, 1, 2, 2])
    assert (found.noise, found.unlabelled) == (2, 1)
    assert (found.sizes.n, found.sizes.n_clusters, found.sizes.singletons) == (5, 3, 2)
    assert (found.truth.n, found.truth.n_clusters) == (4, 3)
    assert found.scores == alone.scores
    assert found.as_dict()["truth"]["unlabelled"] == 1


def test_cost_is_summed_over_pairs(rng):
    X = rng.normal(size=(12, 3))
    labels = np.array([0, 0, 1, 1, 1, 2, -1, -1, 3, 3, 0, 4])
    cost = evaluate(labels, problem=DenseProblem(X, 0.3)).cost
    costs = {(i, j): X[i] @ X[j] - 0.3 for i, j in combinations(range(12), 2)}
    inside = sum(c for (i, j), c in costs.items() if labels[i] == labels[j] != -1)
    assert cost.inside == pytest.approx(inside)
    assert cost.all_singletons == pytest.approx(sum(costs.values()))
    assert cost.objective == pytest.approx(sum(costs.values()) - inside)


def test_a_graph_defines_costs_too():
    cost = evaluate([0, 0, 1], problem=GraphProblem([[0, 1], [1, 2]], [2.0, -3.0])).cost
    assert (cost.inside, cost.objective, cost.all_singletons) == (2.0, -3.0, -1.0)


def test_bad_arrays_are_one_line():
    for arguments, message in (
        (([], None), "nothing to evaluate"),
        (([0, 1], [0]), r"truth must have one entry per item, shape \(2,\), not \(1,\)"),
        (([0, 1], [-1, -1]), "truth is -1 everywhere"),
        (([0, 1], None, DenseProblem(np.eye(3), 0.4)), "labels has 2 entries, but the problem has 3 items"),
        (([[0, 1]], None), "one entry per item"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            evaluate(*arguments)
    with pytest.raises(TypeError, match="labels must be integers"):
        evaluate([0.5, 1.0])


def test_the_example_in_the_documentation():
    failed, tried = doctest.testmod(evaluation)
    assert (failed, tried > 0) == (0, True)
