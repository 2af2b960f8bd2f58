"""The command line as a person uses it: in a process of its own where that matters."""

import json
import os
import pty
import subprocess
import sys

import numpy as np
import pytest

from clusterfug import DenseMulticut, dense_multicut, multicut
from clusterfug.io import files


@pytest.fixture
def features(tmp_path, rng):
    X = (rng.normal(size=(40, 3)) + 0.5).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy", X


def test_cluster_is_the_estimator(run, features, tmp_path):
    path, X = features
    for options, keywords in (
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
    ):
        code, out, err = run("cluster", path, *options, "-o", tmp_path / "l.npy", "--json")
        assert (code, err) == (0, "")
        report = json.loads(out)
        model = DenseMulticut(**keywords).fit(X)
        np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), model.labels_)
        assert report["objective"] == model.objective_
        assert report["inside"] == model.inside_
        assert report["n_clusters"] == model.n_clusters_
        assert (report["n"], report["d"], report["output"]) == (40, 3, str(tmp_path / "l.npy"))
        usual = "auto" if report["algorithm"] in ("auto", "fast", "best", "exact") else 0.4
        assert report["threshold"] == (None if "alpha" in keywords else keywords.get("threshold", usual))
        assert report["algorithm"] == keywords.get("algorithm", "auto")
        assert report["seconds"] > 0
        assert (report["lower_bound"], report["gap"]) == (model.lower_bound_, model.gap_)


def test_cluster_prints_a_table_and_writes_only_when_told(run, features):
    path, _ = features
    code, out, err = run("cluster", path)
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert lines["items"].strip() == "40"
    assert lines["labels"].startswith("not written")
    assert [file.name for file in path.parent.iterdir()] == ["x.npy"]


def test_cluster_with_weights_and_alpha_files(run, features, tmp_path, rng):
    path, X = features
    weight, alpha = rng.integers(1, 4, size=40).astype(float), rng.random(40)
    np.save(tmp_path / "w.npy", weight)
    np.savetxt(tmp_path / "a.csv", alpha, header="alpha", comments="")
    _, out, _ = run(
        "cluster",
        path,
        "--center",
        "--weights",
        tmp_path / "w.npy",
        "--alpha",
        tmp_path / "a.csv",
        "--json",
    )
    model = DenseMulticut(alpha=alpha, center=True).fit(X, sample_weight=weight)
    assert json.loads(out)["objective"] == pytest.approx(model.objective_, rel=1e-12)


def test_a_text_instance_is_a_finished_problem(run, features, tmp_path):
    path, X = features
    run("convert", path, tmp_path / "x.txt", "-t", 0.3)
    _, out, _ = run("cluster", tmp_path / "x.txt", "--json")
    assert json.loads(out)["objective"] == dense_multicut(X, 0.3).objective
    _, out, _ = run("cluster", tmp_path / "x.txt", "-t", 0.4, "--metric", "cosine", "--json")
    assert json.loads(out)["objective"] == DenseMulticut(0.4).fit(X).objective_


def test_cluster_a_graph(run, tmp_path):
    path = tmp_path / "g.txt"
    path.write_text("MULTICUT\n0 1 2\n1 2 -1\n2 3 1\n")
    code, out, _ = run("cluster", path, "--json", "-o", tmp_path / "l.csv")
    report = json.loads(out)
    assert code == 0
    assert (report["n"], report["edges"], report["n_clusters"], report["objective"]) == (4, 3, 2, -1.0)
    assert report["inside"] == multicut([[0, 1], [1, 2], [2, 3]], [2.0, -1, 1]).inside
    assert (tmp_path / "l.csv").read_text() == "label\n0\n0\n1\n1\n"


def test_convert_round_trips(run, features, tmp_path):
    path, X = features
    previous = path
    for ending in (".txt", ".csv", ".parquet", ".h5", ".npz", ".npy"):
        target = tmp_path / f"y{ending}"
        code, out, err = run("convert", previous, target)
        assert (code, out, err) == (0, f"{target}: 40 x 3 float32\n", "")
        previous = target
    assert np.load(previous).tobytes() == X.tobytes()
    run("convert", path, tmp_path / "half.npy", "--dtype", "float16")
    assert np.load(tmp_path / "half.npy").dtype == np.float16
    np.save(path, X.astype(np.float64) + 1e-12)
    run("convert", path, tmp_path / "double.csv")
    run("convert", tmp_path / "double.csv", tmp_path / "double.npy", "--dtype", "float64")
    assert np.load(tmp_path / "double.npy").tobytes() == np.load(path).tobytes()


def test_convert_keeps_threshold_and_graph(run, tmp_path):
    (tmp_path / "x.txt").write_text("FACTORIZED COMPLETE MULTICUT\n0.125\n1 2\n1 2\n")
    run("convert", tmp_path / "x.txt", tmp_path / "y.txt")
    assert (tmp_path / "y.txt").read_text() == (tmp_path / "x.txt").read_text()
    (tmp_path / "g.txt").write_text("MULTICUT\n0 1 0.1\n1 2 -3.0\n")
    code, out, _ = run("convert", tmp_path / "g.txt", tmp_path / "g.npz")
    assert (code, out) == (0, f"{tmp_path / 'g.npz'}: 3 nodes, 2 edges\n")
    run("convert", tmp_path / "g.npz", tmp_path / "h.txt")
    assert (tmp_path / "h.txt").read_text() == (tmp_path / "g.txt").read_text()


def test_inspect(run, features):
    path, _ = features
    code, out, err = run("inspect", path, "--json")
    report = json.loads(out)
    assert (code, err, report["n"], report["pairs"]) == (0, "", 40, 780)
    assert list(report["attracting"]) == [f"{t / 10}" for t in range(1, 10)]
    code, out, _ = run("inspect", path, "--center", "--metric", "inner_product")
    assert code == 0
    assert "centred inner products of 780 pairs" in out
    assert "share of pairs that attract" in out


def nothing_but(folder, *names):
    return sorted(file.name for file in folder.iterdir()) == sorted(names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cluster", "x.npy", "-t", "0.4", "--alpha", "1"], "give --threshold or --alpha, not both"),
        (["cluster", "x.npy", "-t", "nan"], "threshold must be a finite number"),
        (["cluster", "x.npy", "-t", "high"], "--threshold must be a number, local or auto, not 'high'"),
        (["cluster", "x.npy", "--alpha", "-1"], "alpha must be finite and not negative"),
        (["cluster", "x.npy", "--alpha", "nan"], "alpha must be finite"),
        (["cluster", "x.npy", "--alpha", "none.npy"], "none.npy does not exist"),
        (["cluster", "x.npy", "-k", "0"], "k must be at least 1, not 0"),
        (
            ["cluster", "x.npy", "-a", "dbscan"],
            "unknown algorithm 'dbscan': choose one of fast, auto",
        ),
        (["cluster", "x.npy", "-a", "gaec", "--memory-limit", "1e-7"], "gaec needs 1.19e-07 GiB"),
        (["cluster", "x.npy", "--metric", "euclidean"], "Invalid value for '--metric'"),
        (["cluster", "x.npy", "-o", "x.npy"], "cannot write x.npy: it is an input"),
        (["cluster", "x.npy", "--memory-limit", "0"], "--memory-limit must be at least 1e-09, not 0"),
        (["cluster", "graph.txt", "--prefer", "large"], "--prefer goes with features"),
        (["cluster", "x.npy", "--weights", "x.npz"], "x.npz does not exist"),
        (["cluster", "x.npy", "--weights", "graph.txt"], "line 2: '0 1 1' is not a number"),
        (["cluster", "empty.csv"], "empty.csv holds no numbers"),
        (["demo", "-o", "x.npy"], "cannot write to x.npy: it is not a folder"),
        (["demo", "-o", "new", "-t", "nan"], "threshold must be a finite number"),
        (["cluster", "x.npy", "-o", "no/l.npy"], "the folder no does not exist"),
        (["cluster", "x.npy", "-o", "l.txt"], "must end in .npy, .csv, .parquet"),
        (["cluster", "nan.npy", "-o", "l.npy"], "not finite: nan in row 3, column 0"),
        (["cluster", "flat.npy", "-o", "l.npy"], "X must be 2-D"),
        (["cluster", "empty.npy", "-o", "l.npy"], "X has no rows"),
        (["cluster", "words.npy", "-o", "l.npy"], "must hold real numbers"),
        (["cluster", "pickle.npy", "-o", "l.npy"], "pickles are never loaded"),
        (["cluster", "short.txt", "-o", "l.npy"], "ends after line 4: 1 of the 2 rows"),
        (["cluster", "loop.txt", "-o", "l.npy"], "edge 0 joins node 1 to itself"),
        (
            ["cluster", "graph.txt", "-t", "0.4"],
            "--threshold goes with features, but graph.txt holds a graph",
        ),
        (
            ["cluster", "x.npy", "--thresholds", "0.2:0.8"],
            "FIRST:LAST:COUNT (0.2:0.8:7), not '0.2:0.8'",
        ),
        (["cluster", "x.npy", "--thresholds", "0:nan:3"], "must name 1 to 1,000 finite numbers"),
        (["cluster", "x.npy", "--thresholds", "0:1:3", "-t", "1"], "does not go with --threshold"),
        (["cluster", "x.npy", "--thresholds", "0:1:3", "-o", "l.npy"], "does not go with --output"),
        (["cluster", "x.npy", "-t", "0.4", "--plot", "p.png"], "--plot goes with --thresholds"),
        (["cluster", "x.npy", "--thresholds", "0:1:3", "--plot", "p.pdf"], "must end in .png"),
        (["cluster", "graph.txt", "--thresholds", "0:1:3"], "--thresholds goes with features"),
        (["cluster", "x.npy", "--init", "none.npy"], "none.npy does not exist"),
        (["cluster", "x.npy", "-a", "dlaec", "--init", "x.npy"], "must hold one number per item"),
        (["cluster", "x.npy", "--max-iter", "3"], "max_iter goes with best, not with auto"),
        (
            ["cluster", "graph.txt", "-a", "dgaec"],
            "clustered by fast, auto, best, exact, gaec, not dgaec",
        ),
        (["cluster", "none.npy"], "none.npy does not exist"),
        (["cluster"], "Missing argument"),
        (["cluster", "x.npy", "--nope"], "No such option"),
        (["nope"], "No such command"),
        (["inspect", "graph.txt"], "graph.txt holds a graph, not features"),
        (["inspect", "nan.npy"], "not finite: nan in row 3"),
        (["inspect", "x.npy", "--seed", "-1"], "seed must be at least 0"),
        (["convert", "x.npy", "y.doc"], "must end in .npy, .npz, .h5, .hdf5, .csv, .parquet, .txt"),
        (["convert", "nan.npy", "y.txt"], "not finite: nan in row 3"),
        (["convert", "graph.txt", "y.npy"], "must end in .txt, .npz"),
        (["convert", "graph.txt", "y.txt", "-t", "1"], "go with features; graph.txt holds a graph"),
        (["convert", "x.npy", "y.csv", "-t", "1"], "--threshold goes with a .txt output"),
        (["convert", "x.npy", "y.txt", "-t", "inf"], "threshold must be a finite number"),
        (["convert", "big.npy", "y.npy", "--dtype", "float16"], "not finite: inf in row 0"),
        (["cluster", "x.npy", "--thresholds", "0:1:2", "--bound"], "it does not go with --bound"),
        (["bound", "x.npy", "--method", "sdp"], "'sdp' is not one of"),
        (["bound", "x.npy", "--time-limit", "-1"], "--time-limit"),
        (["bound", "x.npy", "--memory-limit", "0"], "--memory-limit"),
        (["bound", "x.npy", "-o", "b.npy"], "its name must end in .npz"),
        (["bound", "x.npy", "-o", "no/b.npz"], "the folder no does not exist"),
        (["bound", "x.npy", "-o", "b.npz", "--check", "c.npz"], "it does not go with --output"),
        (["bound", "x.npy", "--check", "x.npy"], "x.npy is no file of a lower bound"),
        (["bound", "x.npy", "--check", "no.npz"], "no.npz"),
        (["bound", "x.npy", "--labels", "flat.npy"], "flat.npy"),
        (["bound", "x.npy", "--check", "x.npy", "--method", "trivial"], "it does not go with --method"),
        (["bound", "x.npy", "-t", "1", "--alpha", "1"], "not both"),
        (["bound", "graph.txt", "--memory-limit", "1"], "--memory-limit goes with features"),
        (["bound", "graph.txt", "--threshold", "1"], "--threshold goes with features"),
        (["bound", "graph.txt", "--device", "cuda"], "--device goes with features"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(run, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.eye(4))
    holed = np.eye(5)
    holed[3, 0] = np.nan
    np.save("nan.npy", holed.astype(np.float32))
    (tmp_path / "empty.csv").write_text("a,b\n")
    np.save("flat.npy", np.ones(3))
    np.save("empty.npy", np.ones((0, 3)))
    np.save("words.npy", np.array([["a"]]))
    np.save("big.npy", np.full((2, 2), 1e9))
    np.save("pickle.npy", np.array([None]), allow_pickle=True)
    (tmp_path / "short.txt").write_text("FACTORIZED COMPLETE MULTICUT\n0.4\n2 2\n1 1\n")
    (tmp_path / "loop.txt").write_text("MULTICUT\n1 1 1\n")
    (tmp_path / "graph.txt").write_text("MULTICUT\n0 1 1\n")
    before = sorted(file.name for file in tmp_path.iterdir())
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert nothing_but(tmp_path, *before)


def test_a_missing_extra_is_named(run, features, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = run("cluster", features[0], "-o", features[0].with_name("l.parquet"))
    assert (code, err) == (
        2,
        "clusterfug: error: parquet and arrow files need pyarrow: pip install 'clusterfug[io]'\n",
    )
    monkeypatch.setitem(sys.modules, "h5py", None)
    code, _, err = run("convert", features[0], features[0].with_name("x.hdf5"))
    assert (code, err) == (2, "clusterfug: error: HDF5 files need h5py: pip install 'clusterfug[io]'\n")


def test_version_and_help(run):
    import clusterfug

    assert run("--version") == (0, f"clusterfug {clusterfug.__version__}\n", "")
    for arguments in ([], ["--help"], ["cluster", "--help"], ["inspect", "--help"]):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        assert "Usage" in out


def test_interrupted(run, features, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("clusterfug.cpu.greedy", interrupt)
    code, out, err = run("cluster", features[0], "-a", "dgaec-inc", "-o", features[0].with_name("l.npy"))
    assert (code, out, err) == (130, "", "clusterfug: interrupted; no output was written\n")
    assert nothing_but(features[0].parent, "x.npy")


def test_init_is_read_in_every_format_of_labels(run, features, tmp_path):
    path, X = features
    labels = np.arange(40) % 4
    for ending in (".npy", ".csv", ".parquet"):
        files.write_labels(tmp_path / f"start{ending}", labels)
        code, out, err = run("cluster", path, "-a", "fast", "--init", tmp_path / f"start{ending}", "--json")
        assert (code, err) == (0, "")
        assert json.loads(out)["inside"] == DenseMulticut(algorithm="fast", init=labels).fit(X).inside_
        assert json.loads(out)["move_optimal"]
    np.save(tmp_path / "halves.npy", labels / 2)
    code, out, err = run("cluster", path, "--init", tmp_path / "halves.npy")
    assert (code, out) == (2, "")
    assert "must hold whole numbers: 0.5 is no label" in err


def test_a_range_of_thresholds_is_a_table_and_a_picture(run, features, tmp_path):
    path, X = features
    code, out, err = run("cluster", path, "--thresholds", "0.2:0.8:3", "--plot", tmp_path / "p.png")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["threshold", "clusters", "largest", "alone", "inside", "agreement"]
    assert [line.split()[0] for line in lines[1:4]] == ["0.2", "0.5", "0.8"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    code, out, err = run("cluster", path, "--thresholds", "0.5:0.5:1", "--json")
    [row] = json.loads(out)["thresholds"]
    assert row["n_clusters"] == DenseMulticut(threshold=0.5).fit(X).n_clusters_
    assert row["agreement"] is None
    assert nothing_but(tmp_path, "x.npy", "p.png")


@pytest.mark.large
def test_demo(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    heading, figures = (line.split() for line in out.splitlines()[:2])
    row = dict(zip(heading, figures, strict=True))
    assert row["items"] == "1,797"
    assert int(row["clusters"]) in range(25, 40)
    assert float(row["objective"].replace(",", "")) < -617_000  # greedy contraction: -614,910.92
    assert float(row["AMI"]) > 0.75  # 0.721
    folder = tmp_path / "clusterfug-demo"
    assert nothing_but(folder, "digits.npy", "labels.npy", "clusters.png")
    assert np.load(folder / "labels.npy").max() + 1 == int(row["clusters"])
    assert (folder / "clusters.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.large
def test_a_progress_bar_on_a_terminal_and_none_in_a_pipe(features):
    command = [sys.executable, "-m", "clusterfug", "cluster", str(features[0])]
    piped = subprocess.run(command, capture_output=True, check=True)
    assert piped.stderr == b""
    ours, theirs = pty.openpty()
    env = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=env)
    os.close(theirs)
    drawn = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        drawn += piece
    os.close(ours)
    assert process.wait() == 0
    assert b"neighbours" in drawn
    assert b"\xe2\x94\x81" in drawn  # the bar


@pytest.mark.large
def test_import_is_light():
    heavy = ("torch", "faiss", "dask", "matplotlib", "numba", "sklearn", "scipy", "rich", "typer")
    code = f"import sys, clusterfug; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert result.stdout == "[]\n"


def test_public_names():
    import clusterfug

    for name in clusterfug.__all__:
        assert getattr(clusterfug, name).__name__ == name
    assert set(clusterfug.__all__) <= set(dir(clusterfug))
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        clusterfug.nope  # noqa: B018


def test_bound_writes_a_certificate_that_can_be_checked(run, features, tmp_path):
    path, _ = features
    run("cluster", path, "-o", tmp_path / "l.npy")
    code, out, err = run("bound", path, "--labels", tmp_path / "l.npy", "-o", tmp_path / "b.npz", "--json")
    assert (code, err) == (0, "")
    report = json.loads(out)
    assert report["bound"] <= report["objective"]
    assert report["gap"] == pytest.approx(
        (report["objective"] - report["bound"]) / -report["bound"], abs=1e-9
    )
    assert report["method"] == "triangles"
    assert not report["verified"]
    code, out, err = run(
        "bound", path, "--labels", tmp_path / "l.npy", "--check", tmp_path / "b.npz", "--json"
    )
    assert (code, err) == (0, "")
    again = json.loads(out)
    assert again["verified"]
    assert (again["bound"], again["gap"]) == (report["bound"], report["gap"])
    code, out, err = run("bound", path, "-t", 0.5, "--check", tmp_path / "b.npz")
    assert (code, out) == (2, "")
    assert "does not prove its bound" in err
    code, out, err = run("bound", path, "--check", tmp_path / "b.npz")
    assert "the certificate adds up" in out
    code, out, err = run("bound", path, "--method", "trivial", "--json")
    assert json.loads(out)["bound"] <= report["bound"]


def test_bound_of_a_graph(run, tmp_path):
    (tmp_path / "graph.txt").write_text("MULTICUT\n0 1 2\n1 2 2\n0 2 -1\n")
    code, out, err = run("bound", tmp_path / "graph.txt")
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert float(lines["bound"]) == 0
    code, out, err = run("cluster", tmp_path / "graph.txt", "--bound")
    assert "proven optimal" in out


def test_a_bound_knows_alpha_and_weights_and_json_no_infinity(run, features, tmp_path):
    path, _ = features
    np.save(tmp_path / "w.npy", np.arange(40) % 3 + 1)
    np.save(tmp_path / "alone.npy", np.arange(40))
    options = ("--alpha", 0.7, "--weights", tmp_path / "w.npy")
    _, out, _ = run("cluster", path, *options, "--bound", "--json")
    clustered = json.loads(out)
    _, out, _ = run("bound", path, *options, "--labels", tmp_path / "alone.npy", "--json")
    report = json.loads(out, parse_constant=pytest.fail)
    assert report["bound"] == clustered["lower_bound"]
    assert report["inside"] == 0
    assert report["gap_inside"] is None
