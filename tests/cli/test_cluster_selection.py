"""`clusterfug cluster` with local thresholds: the same as the estimator, reports, plots and errors."""

import json
import warnings

import numpy as np
import pytest
from makers import gaussian_mixture

from clusterfug import DenseMulticut, local_alpha, lower_bound


@pytest.fixture
def features(tmp_path, rng):
    X, _ = gaussian_mixture(rng, 40, 4, 6, 0.8)
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy", X


def report_of(run, *arguments):
    code, out, err = run(*arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_the_command_selects_unless_a_threshold_is_given(run, features):
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
    given = report_of(run, "cluster", path, "-t", 0.3)
    assert given["threshold"] == 0.3
    assert "strictness" not in given


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
def test_the_command_returns_what_the_estimator_does(run, features, tmp_path, options, keywords):
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


def test_a_target_that_is_not_met_and_advice_are_in_the_table(run, features, monkeypatch):
    path, X = features
    monkeypatch.setattr("clusterfug.selection.target._MAX_JOINED", 1)
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
def test_candidates_are_plotted(run, features, tmp_path, options):
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


def test_bounds_and_evaluations_select_as_cluster_does(run, features, tmp_path):
    path, _ = features
    labels = tmp_path / "l.npy"
    clustered = report_of(run, "cluster", path, "-a", "fast", "-o", labels)
    for options in ([], ["-t", "auto"]):
        bounded = report_of(run, "bound", path, *options, "--labels", labels)
        evaluated = report_of(run, "evaluate", labels, "--features", path, *options)
        assert bounded["objective"] == pytest.approx(clustered["objective"])
        assert evaluated["objective"] == pytest.approx(clustered["objective"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["cluster", "x.npy", "--n-clusters", "x"],
            "--n-clusters must be N or LOW:HIGH (140:160), not 'x'",
        ),
        (["cluster", "x.npy", "--n-clusters", "1:2:3"], "--n-clusters must be N or LOW:HIGH"),
        (["cluster", "x.npy", "--n-clusters", "2.5"], "--n-clusters must be N or LOW:HIGH"),
        (["cluster", "x.npy", "--n-clusters", "0"], "--n-clusters must be at least 1, not 0"),
        (["cluster", "x.npy", "--n-clusters", "3:2"], "swap them"),
        (["cluster", "x.npy", "--n-clusters", "5", "-o", "l.npy"], "there are only 4 items"),
        (["cluster", "x.npy", "--n-clusters", "2", "-t", "0.3"], "leave out --threshold"),
        (
            ["cluster", "x.npy", "--n-clusters", "2", "--alpha", "1"],
            "not with alpha: leave out --n-clusters",
        ),
        (
            ["cluster", "x.npy", "--n-clusters", "2", "--alpha", "a.npy"],
            "not with alpha: leave out --n-clusters",
        ),
        (["cluster", "x.npy", "--n-clusters", "2", "-a", "best"], "--n-clusters goes with auto and fast"),
        (["cluster", "x.npy", "--n-clusters", "2", "--strictness", "1"], "leave out strictness"),
        (["cluster", "x.npy", "-t", "auto", "--strictness", "1"], "leave out strictness"),
        (["cluster", "x.npy", "-t", "0.3", "--strictness", "1"], "strictness goes with"),
        (["cluster", "x.npy", "--alpha", "1", "--strictness", "1"], "strictness goes with"),
        (["cluster", "x.npy", "-t", "local", "--alpha", "1"], "give --threshold or --alpha, not both"),
        (["cluster", "x.npy", "--strictness", "-1"], "strictness must be at least 0"),
        (["cluster", "x.npy", "--n-neighbors", "0"], "--n-neighbors must be at least 1"),
        (["cluster", "x.npy", "-t", "local", "--n-neighbors", "0"], "--n-neighbors must be at least 1"),
        (["cluster", "x.npy", "-t", "local", "--prefer", "large"], "--prefer large goes with alpha"),
        (["cluster", "x.npy", "-t", "local", "--plot", "p.png"], "where the strictness is chosen"),
        (["cluster", "x.npy", "--plot", "p.pdf"], "must end in .png"),
        (
            ["cluster", "x.npy", "--thresholds", "0:1:3", "--n-clusters", "2"],
            "--n-clusters does not go with --thresholds",
        ),
        (
            ["cluster", "x.npy", "--thresholds", "0:1:3", "--strictness", "2"],
            "--strictness does not go with --thresholds",
        ),
        (["cluster", "x.npy", "--thresholds", "0:1:3", "-t", "auto"], "does not go with --threshold"),
        (["cluster", "graph.txt", "--n-clusters", "2"], "--n-clusters goes with features"),
        (["cluster", "graph.txt", "--strictness", "2"], "--strictness goes with features"),
        (["cluster", "graph.txt", "--n-neighbors", "2"], "--n-neighbors goes with features"),
        (["cluster", "graph.txt", "-t", "auto"], "--threshold goes with features"),
        (["bound", "x.npy", "-t", "near"], "--threshold must be a number"),
        (["bound", "x.npy", "-t", "0.4", "--strictness", "1"], "strictness goes with"),
        (["bound", "graph.txt", "--strictness", "1"], "--strictness goes with features"),
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
