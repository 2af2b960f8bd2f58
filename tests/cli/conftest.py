"""Features for the commands, and how a wrong command has to fail."""

import json

import numpy as np
import pytest


@pytest.fixture
def features(tmp_path, rng):
    """The path of a file of features, and the features."""
    X = (rng.normal(size=(40, 3)) + 0.5).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy", X


@pytest.fixture
def report(run):
    """Run a command that succeeds; returns the object that it prints with --json."""

    def report(*arguments):
        code, out, err = run(*arguments, "--json")
        assert (code, err) == (0, "")
        return json.loads(out, parse_constant=pytest.fail)  # infinity is no JSON

    return report


@pytest.fixture
def assert_fails(run, tmp_path, monkeypatch):
    """Run a wrong command among some files: it exits with 2 and one line, and writes nothing."""
    monkeypatch.chdir(tmp_path)
    holed = np.eye(5)
    holed[3, 0] = np.nan
    for name, array in (
        ("x", np.eye(4)),
        ("five", np.eye(5)),
        ("nan", holed.astype(np.float32)),
        ("flat", np.ones(3)),
        ("empty", np.ones((0, 3))),
        ("words", np.array([["a"]])),
        ("big", np.full((2, 2), 1e9)),
        ("labels", np.array([0, 0, 1, 1])),
        ("halves", np.array([0.5, 1.0])),
    ):
        np.save(f"{name}.npy", array)
    np.save("pickle.npy", np.array([None]), allow_pickle=True)
    for name, text in (
        ("empty.csv", "a,b\n"),
        ("classes.csv", "label\na\nb\nb\n"),
        ("unknown.txt", "-1\n" * 4),
        ("labels.doc", "0\n"),
        ("short.txt", "FACTORIZED COMPLETE MULTICUT\n0.4\n2 2\n1 1\n"),
        ("loop.txt", "MULTICUT\n1 1 1\n"),
        ("graph.txt", "MULTICUT\n0 1 1\n"),
    ):
        (tmp_path / name).write_text(text)
    (tmp_path / "occupied.npy.json").mkdir()

    def contents():
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}

    def assert_fails(command, message):
        before = contents()
        code, out, err = run(*command.split())
        assert (code, out) == (2, "")
        assert err.startswith("clusterfug: error: ")
        assert err.count("\n") == 1
        assert message in err
        assert contents() == before

    return assert_fails
