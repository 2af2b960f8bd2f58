"""clusterfug cluster: the estimator on a file, with labels as output."""

import numpy as np
import pytest

from clusterfug import DenseMulticut, dense_multicut, multicut
from clusterfug.io.labels import write_labels


@pytest.mark.filterwarnings("ignore:one cluster holds all items")
@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        ([], {}),
        (["--center"], {"center": True}),
        (["-t", 0.7, "--metric", "inner_product"], {"threshold": 0.7, "metric": "inner_product"}),
        (["--alpha", 0.9, "--prefer", "large"], {"alpha": 0.9, "prefer": "large"}),
        (["--algorithm", "gaec", "--memory-limit", 0.1], {"algorithm": "gaec"}),
        (["-a", "dgaec", "-k", 3], {"algorithm": "dgaec", "k": 3}),
        (["-a", "dlaec", "--refine"], {"algorithm": "dlaec", "refine": True}),
        (
            ["-a", "best", "--max-iter", 2, "--seed", 3],
            {"algorithm": "best", "max_iter": 2, "random_state": 3},
        ),
        (["-a", "fast", "--time-limit", 100], {"algorithm": "fast", "time_limit": 100}),
        (["-a", "exact"], {"algorithm": "exact"}),
        (["--bound"], {"bound": True}),
    ],
    ids=str,
)
def test_the_command_is_the_estimator(report, features, tmp_path, options, keywords):
    path, X = features
    found = report("cluster", path, *options, "-o", tmp_path / "l.npy")
    model = DenseMulticut(**keywords).fit(X)
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), model.labels_)
    assert (found["objective"], found["inside"]) == (model.objective_, model.inside_)
    assert (found["n"], found["d"], found["output"]) == (40, 3, str(tmp_path / "l.npy"))
    assert (found["n_clusters"], found["device"]) == (model.n_clusters_, "cpu")
    assert found["algorithm"] == keywords.get("algorithm", "auto")
    assert found["seconds"] > 0
    assert (found["lower_bound"], found["gap"]) == (model.lower_bound_, model.gap_)
    threshold = None if "alpha" in keywords else keywords.get("threshold", "auto")
    assert found["threshold"] == threshold
    for name in ("alpha", "prefer"):
        assert found.get(name) == keywords.get(name)
    assert (found["metric"], found["center"]) == (
        keywords.get("metric", "cosine"),
        keywords.get("center", False),
    )


def test_the_table_is_printed_and_nothing_is_written_without_output(run, features):
    path, _ = features
    code, out, err = run("cluster", path)
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["items"].strip() == "40"
    assert lines["labels"].startswith("not written")
    assert "bound" not in lines
    assert [file.name for file in path.parent.iterdir()] == ["x.npy"]


def test_weights_and_alpha_are_read_from_files(report, features, tmp_path, rng):
    path, X = features
    weight, alpha = rng.integers(1, 4, size=40).astype(float), rng.random(40)
    np.save(tmp_path / "w.npy", weight)
    np.savetxt(tmp_path / "a.csv", alpha, header="alpha", comments="")
    files = ("--weights", tmp_path / "w.npy", "--alpha", tmp_path / "a.csv")
    found = report("cluster", path, "--center", *files)
    model = DenseMulticut(alpha=alpha, center=True).fit(X, sample_weight=weight)
    assert found["objective"] == pytest.approx(model.objective_, rel=1e-12)
    assert (found["threshold"], found["alpha"]) == (None, "per item")


def test_a_text_instance_is_a_finished_problem(run, report, features, tmp_path):
    path, X = features
    run("convert", path, tmp_path / "x.txt", "-t", 0.3)
    as_given = dense_multicut(X, 0.3, metric="inner_product")
    assert report("cluster", tmp_path / "x.txt")["objective"] == as_given.objective
    found = report("cluster", tmp_path / "x.txt", "-t", 0.4, "--metric", "cosine")
    assert found["objective"] == dense_multicut(X, 0.4).objective


def test_a_graph_is_clustered(report, tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("MULTICUT\n0 1 2\n1 2 -1\n2 3 1\n")
    found = report("cluster", path, "-o", tmp_path / "l.csv")
    assert (found["n"], found["edges"], found["n_clusters"], found["objective"]) == (4, 3, 2, -1.0)
    assert found["inside"] == multicut([[0, 1], [1, 2], [2, 3]], [2.0, -1, 1]).inside
    assert (tmp_path / "l.csv").read_text() == "label\n0\n0\n1\n1\n"


def test_init_is_read_in_every_format_of_labels(run, report, features, tmp_path):
    path, X = features
    labels = np.arange(40) % 4
    expected = DenseMulticut(algorithm="fast", init=labels).fit(X)
    for ending in (".npy", ".npz", ".csv", ".parquet"):
        write_labels(tmp_path / f"start{ending}", labels)
        found = report("cluster", path, "-a", "fast", "--init", tmp_path / f"start{ending}")
        assert found["inside"] == expected.inside_
        assert found["move_optimal"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("x.npy -t 0.4 --alpha 1", "give --threshold or --alpha, not both"),
        ("x.npy -t nan", "threshold must be a finite number"),
        ("x.npy -t high", "--threshold must be a number or one of local, auto, neighbours, not 'high'"),
        ("x.npy --alpha -1", "alpha must be at least 0"),
        ("x.npy --alpha nan", "alpha must be a finite number"),
        ("x.npy --alpha none.npy", "none.npy does not exist"),
        ("x.npy -k 0", "k goes with dgaec"),
        ("x.npy -a dgaec -k 0", "k must be at least 1, not 0"),
        ("x.npy -a dbscan", "unknown algorithm 'dbscan': choose one of auto, fast"),
        ("x.npy -t 0.4 -a gaec --memory-limit 1e-7", "gaec needs 1.19e-07 GiB"),
        ("x.npy -o x.npy", "cannot write x.npy: it is an input"),
        ("x.npy -o occupied.npy", "cannot write occupied.npy.json: it is a folder"),
        ("x.npy --init labels.npy -o labels.npy", "cannot write labels.npy: it is an input"),
        ("x.npy --memory-limit 0", "--memory-limit must be at least 1e-09, not 0"),
        ("graph.txt --prefer large", "--prefer goes with features"),
        ("graph.txt -t 0.4", "--threshold goes with features, but graph.txt holds a graph"),
        ("graph.txt --center", "--center goes with features, but graph.txt holds a graph"),
        ("graph.txt --plot p.png", "--plot goes with features"),
        ("graph.txt -a dgaec", "solved by auto, fast, best, exact, gaec, not by dgaec"),
        ("x.npy --weights x.npz", "x.npz does not exist"),
        ("x.npy --weights graph.txt", "line 2: '0 1 1' is not a number"),
        ("empty.csv", "empty.csv holds no numbers"),
        ("x.npy -o no/l.npy", "the folder no does not exist"),
        ("x.npy -o l.txt", "must end in .npy, .npz, .csv, .parquet"),
        ("nan.npy -o l.npy", "not finite: NaN in row 3, column 0"),
        ("flat.npy -o l.npy", "flat.npy must be 2-D"),
        ("empty.npy -o l.npy", "empty.npy has no rows"),
        ("words.npy -o l.npy", "must hold real numbers"),
        ("pickle.npy -o l.npy", "pickles are never loaded"),
        ("short.txt -o l.npy", "ends after line 4: 1 of the 2 rows"),
        ("loop.txt -o l.npy", "edge 0 joins node 1 to itself"),
        ("x.npy -t 0.4 --plot p.png", "--plot goes with --thresholds"),
        ("x.npy --init none.npy", "none.npy does not exist"),
        ("x.npy --init halves.npy", "must hold whole numbers: 0.5 is no label"),
        ("x.npy -a dlaec --init x.npy", "must hold one number per item"),
        ("x.npy --max-iter 3", "--max-iter goes with best, not with auto"),
        ("none.npy", "none.npy does not exist"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(assert_fails, command, message):
    assert_fails(f"cluster {command}", message)


def test_a_single_cluster_of_items_with_a_common_part_is_explained(run, tmp_path, rng):
    np.save(tmp_path / "x.npy", 5 + rng.normal(size=(30, 4)))
    for options, shown in (([], "note"), (["--json"], '"note": "one cluster')):
        code, out, err = run("cluster", tmp_path / "x.npy", "-t", "0.1", *options)
        assert (code, err) == (0, "")
        assert shown in out
        assert "they share a common part, so centre them first" in " ".join(out.split())
    assert "note" not in run("cluster", tmp_path / "x.npy", "-t", "0.1", "--center")[1]
