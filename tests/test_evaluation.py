"""What evaluate says is what a direct computation says, and unusable files are named in one line."""

import doctest
import json
from collections import Counter
from itertools import combinations
from math import comb, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterfug import DenseProblem
from clusterfug.io.files import write_labels
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


def test_noise_is_alone_and_the_unlabelled_are_left_out():
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


def test_bad_arrays_are_one_line():
    for arguments, message in (
        (([], None), "nothing to evaluate"),
        (([0, 1], [0]), r"truth must have one entry per item, shape \(2,\), not \(1,\)"),
        (([0, 1], [-1, -1]), "truth is -1 everywhere"),
        (([0, 1], None, DenseProblem(np.eye(3))), "labels has 2 entries, but the problem has 3 items"),
        (([[0, 1]], None), "one entry per item"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            evaluate(*arguments)
    with pytest.raises(TypeError, match="labels must be integers"):
        evaluate([0.5, 1.0])


def test_the_example_in_the_documentation():
    failed, tried = doctest.testmod(evaluation)
    assert (failed, tried > 0) == (0, True)


def test_the_command_is_the_function_on_what_cluster_minimises(run, tmp_path, rng):
    X = (rng.normal(size=(40, 3)) + 0.5).astype(np.float32)
    truth = rng.integers(0, 3, 40)
    np.save(tmp_path / "x.npy", X)
    write_labels(tmp_path / "truth.csv", truth)
    for options in (["-t", 0.4], ["--center", "-t", "local"], ["-t", 0.2, "--metric", "inner_product"]):
        _, out, _ = run("cluster", tmp_path / "x.npy", *options, "-o", tmp_path / "l.npy", "--json")
        clustered = json.loads(out)
        code, out, err = run(
            *("evaluate", tmp_path / "l.npy", "--truth", tmp_path / "truth.csv"),
            *("--features", tmp_path / "x.npy", *options, "--json"),
        )
        assert (code, err) == (0, "")
        report = json.loads(out)
        for key in ("n", "n_clusters", "threshold", "metric", "center"):
            assert report[key] == clustered[key]
        assert report["objective"] == pytest.approx(clustered["objective"], rel=1e-12)
        assert report["inside"] == pytest.approx(clustered["inside"], rel=1e-12)
        alone = evaluate(np.load(tmp_path / "l.npy"), truth)
        assert {key: report[key] for key in vars(alone.scores)} == vars(alone.scores)
        assert report["histogram"] == alone.as_dict()["histogram"]


def test_a_text_instance_brings_its_threshold(run, tmp_path):
    (tmp_path / "x.txt").write_text("FACTORIZED COMPLETE MULTICUT\n0.5\n3 1\n2\n1\n-1\n")
    (tmp_path / "l.txt").write_text("0\n0\n1\n")
    _, out, _ = run("evaluate", tmp_path / "l.txt", "--features", tmp_path / "x.txt", "--json")
    report = json.loads(out)
    assert (report["inside"], report["objective"], report["threshold"]) == (1.5, -4.0, 0.5)
    assert report["metric"] == "inner_product"


def test_the_table(run, tmp_path):
    np.save(tmp_path / "l.npy", [0, 0, 0, 0, 1, 1, -1, -1])
    (tmp_path / "t.txt").write_text("cat\ncat\ncat\ncat\ndog\ndog\ncow\n-1\n")
    np.save(tmp_path / "x.npy", np.eye(8))
    code, out, err = run(
        "evaluate", tmp_path / "l.npy", "--truth", tmp_path / "t.txt", "--features", tmp_path / "x.npy"
    )
    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    for line in (
        "l.npy t.txt",
        "items 8 7",
        "clusters 4 3",
        "singletons 2 1",
        "largest 4 4",
        "mean size 2.0 2.3",
        "NMI, V-measure 1.0000",
        "ARI 1.0000",
        "objective -8.40",
        "all singletons -11.20",
        "inside -2.80",
        "threshold 0.4 (cosine)",
        f"1 2 2 {'#' * 20}",
        f"4-7 1 4 {'#' * 40}",
        "noise (label -1): 2, each counted as a cluster of its own",
        "unlabelled (class -1): 1, left out of the comparison",
    ):
        assert line in lines
    _, out, _ = run("evaluate", tmp_path / "l.npy")
    assert "NMI" not in out
    assert "objective" not in out
    assert "singletons" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["l.npy", "--truth", "t.csv"], "l.npy has 4 items, but t.csv has 3: give files of the same items"),
        (["l.npy", "--features", "x.npy"], "l.npy has 4 items, but x.npy has 5"),
        (["l.npy", "--features", "g.txt"], "g.txt holds a graph, not features"),
        (["l.npy", "--features", "none.npy"], "none.npy does not exist"),
        (["l.npy", "--truth", "none.npy"], "none.npy does not exist"),
        (["l.npy", "--truth", "unknown.txt"], "truth is -1 everywhere"),
        (["l.npy", "-t", "0.4"], "--threshold goes with --features"),
        (["l.npy", "--metric", "cosine"], "--metric goes with --features"),
        (["l.npy", "--center"], "--center goes with --features"),
        (["half.npy"], "half.npy must hold whole numbers: 0.5 is no label"),
        (["x.npy"], "must hold one number per item"),
        (["l.doc"], "must be a .npy, .csv, .parquet or .txt file"),
        (["four.npy", "--features", "x4.npy", "-t", "nan"], "threshold must be a finite number"),
    ],
)
def test_bad_input_is_one_line(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    for name, array in (
        ("l", [0, 0, 1, 1]),
        ("four", [0, 0, 1, 1]),
        ("half", [0.5, 1.0]),
        ("x", np.eye(5)),
        ("x4", np.eye(4)),
    ):
        np.save(f"{name}.npy", array)
    (tmp_path / "t.csv").write_text("label\na\nb\nb\n")
    (tmp_path / "unknown.txt").write_text("-1\n" * 4)
    (tmp_path / "g.txt").write_text("MULTICUT\n0 1 1\n")
    (tmp_path / "l.doc").write_text("0\n")
    code, out, err = run("evaluate", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    assert message in err
