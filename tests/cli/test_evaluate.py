"""clusterfug evaluate: what `report.evaluation` finds, about the problem that the labels solve."""

import numpy as np
import pytest

from clusterfug.io.labels import write_labels
from clusterfug.report.evaluation import evaluate


def test_the_command_is_the_function(report, features, tmp_path, rng):
    truth = rng.integers(0, 3, 40)
    write_labels(tmp_path / "truth.csv", truth)
    np.save(tmp_path / "l.npy", np.arange(40) % 7)
    found = report("evaluate", tmp_path / "l.npy", "--truth", tmp_path / "truth.csv")
    assert found == evaluate(np.arange(40) % 7, truth).as_dict()


def test_a_text_instance_brings_its_threshold(report, tmp_path):
    (tmp_path / "x.txt").write_text("FACTORIZED COMPLETE MULTICUT\n0.5\n3 1\n2\n1\n-1\n")
    (tmp_path / "l.txt").write_text("0\n0\n1\n")
    found = report("evaluate", tmp_path / "l.txt", "--features", tmp_path / "x.txt")
    assert (found["inside"], found["objective"], found["threshold"]) == (1.5, -4.0, 0.5)
    assert found["metric"] == "inner_product"


def test_the_table(run, tmp_path):
    np.save(tmp_path / "l.npy", [0, 0, 0, 0, 1, 1, -1, -1])
    (tmp_path / "t.txt").write_text("cat\ncat\ncat\ncat\ndog\ndog\ncow\n-1\n")
    np.save(tmp_path / "x.npy", np.eye(8))
    known = ("--truth", tmp_path / "t.txt", "--features", tmp_path / "x.npy", "-t", 0.4)
    code, out, err = run("evaluate", tmp_path / "l.npy", *known)
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
        "AMI 1.0000",
        "ARI 1.0000",
        "homogeneity 1.0000",
        "completeness 1.0000",
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
    ("options", "row"),
    [
        (["--alpha", 0.5], "alpha 0.5, prefer small (cosine)"),
        (["-t", "local", "--center"], "threshold local, strictness 0.6 (centred cosine)"),
    ],
)
def test_the_table_says_which_costs_these_are(run, features, tmp_path, options, row):
    np.save(tmp_path / "l.npy", np.zeros(40, dtype=int))
    _, out, _ = run("evaluate", tmp_path / "l.npy", "--features", features[0], *options)
    assert row in [" ".join(line.split()) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("labels.npy --truth classes.csv", "labels.npy has 4 items, but classes.csv has 3: give files of"),
        ("labels.npy --features five.npy", "labels.npy has 4 items, but five.npy has 5"),
        ("labels.npy --features graph.txt", "graph.txt holds a graph, not features"),
        ("labels.npy --features none.npy", "none.npy does not exist"),
        ("labels.npy --truth none.npy", "none.npy does not exist"),
        ("labels.npy --truth unknown.txt", "truth is -1 everywhere"),
        ("labels.npy -t 0.4", "--threshold goes with --features"),
        ("labels.npy --metric cosine", "--metric goes with --features"),
        ("labels.npy --center", "--center goes with --features"),
        ("labels.npy --weights x.npy", "--weights goes with --features"),
        ("halves.npy", "halves.npy must hold whole numbers: 0.5 is no label"),
        ("x.npy", "must hold one number per item"),
        ("labels.doc", "must be a .npy, .npz, .csv, .parquet or .txt file"),
        ("labels.npy --features x.npy -t nan", "threshold must be a finite number"),
    ],
)
def test_bad_input_is_one_line(assert_fails, command, message):
    assert_fails(f"evaluate {command}", message)
