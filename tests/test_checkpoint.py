"""Runs that are stopped and go on: by an exception at every step, by SIGKILL, by a full disk."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from clusterfug.options import Task
from makers import limit, mixture

from clusterfug import DenseProblem, dense_multicut
from clusterfug.execution.sharded import source, tasks
from clusterfug.execution.sharded.checkpoint import Checkpoint, Place, digest
from clusterfug.execution.sharded.engine import Here
from clusterfug.execution.sharded.solve import solve_rows
from clusterfug.io import files


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(source, "LEAST", 8)


@pytest.fixture
def solved(monkeypatch):
    """How many items or nodes were solved, one number for every shard and pool."""
    counts, solve = [], tasks._solve

    def counted(problem):
        counts.append(problem.n)
        return solve(problem)

    monkeypatch.setattr(tasks, "_solve", counted)
    return counts


class StopError(Exception):
    pass


def stopping(after):
    """A callback that gives up when it is called once more often."""
    calls = 0

    def callback(*_):
        nonlocal calls
        calls += 1
        if calls > after:
            raise StopError

    return callback


def names(folder):
    return sorted(path.name for path in folder.iterdir())


OPTIONS = {
    "fast": {"algorithm": "fast", "memory_limit": limit(9, 6)},
    "weights": {"memory_limit": limit(9, 6), "sample_weight": [1.0, 2.0, 0.0] * 10},
    "init": {"memory_limit": limit(9, 6), "init": np.arange(30) % 7},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("stored", [False, True])
def test_a_run_that_is_stopped_anywhere_goes_on(rng, tmp_path, solved, options, stored):
    X, _ = mixture(rng, 30, 5, d=6, noise=1.5)
    if stored:
        for at in range(3):
            np.save(tmp_path / f"{at}.npy", X[at * 10 : at * 10 + 10])
    where = [tmp_path / f"{at}.npy" for at in range(3)] if stored else X
    told = OPTIONS[options]
    calls = []
    whole = dense_multicut(
        where, 0.2, checkpoint=tmp_path / "whole", callback=lambda *what: calls.append(what), **told
    )
    work = len(solved)
    assert (work == 0) == (options == "init")
    for k in range(len(calls)):
        folder = tmp_path / f"stopped-{k}"
        solved.clear()
        with pytest.raises(StopError):
            dense_multicut(where, 0.2, checkpoint=folder, callback=stopping(k), **told)
        first = len(solved)
        result = dense_multicut(where, 0.2, checkpoint=folder, **told)
        np.testing.assert_array_equal(result.labels, whole.labels)
        assert (result.objective, result.inside) == (whole.objective, whole.inside)
        assert result.trace[-1][2:] == whole.trace[-1][2:]
        assert len(solved) == work
        assert first <= work
        assert names(folder) == ["lock", "place.npz", "run.json"]


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
def test_what_fits_in_one_task_goes_on(monkeypatch, rng, tmp_path, solved, algorithm):
    """In several shards, as the chunks of a dask array: stopped at any of them, and at the end."""
    X, _ = mixture(rng, 30, 5, d=6, noise=1.5)
    rows = [(start, start + 10, X[start : start + 10]) for start in (0, 10, 20)]

    def solve(folder, callback=None):
        task = Task(algorithm=algorithm, threshold=0.2, checkpoint=folder)
        return solve_rows(rows, task, Here(), "inner_product", False, 30, "", callback)

    def stop(*_):
        raise StopError

    whole = solve(None)
    assert solved[:3] == [10, 10, 10]
    work = len(solved)
    for k in range(4):
        folder = tmp_path / str(k)
        solved.clear()
        with monkeypatch.context() as patch:
            patch.setattr(tasks, "finish", stop)
            with pytest.raises(StopError):
                solve(folder, stopping(k))
        assert ("place.npz" in names(folder)) == (k == 3)
        assert len(solved) < work or k == 3
        for _ in range(2):  # the second time it was not stopped
            result = solve(folder)
            np.testing.assert_array_equal(result.labels, whole.labels)
            assert (result.objective, result.inside) == (whole.objective, whole.inside)
            assert [phase.name for phase in result.trace] == ["shards", "refinement"]
            assert result.trace[-1][2:] == whole.trace[-1][2:]
            assert len(solved) == work
            assert names(folder) == ["lock", "place.npz", "run.json"]


def test_a_run_that_is_stopped_every_time_ends(rng, tmp_path, solved):
    """Each goes one shard or one round further than the last."""
    X, _ = mixture(rng, 40, 6, d=6, noise=2.0)
    whole = dense_multicut(X, 0.2, memory_limit=limit(9, 6))
    work = len(solved)
    solved.clear()
    for turn in range(100):
        shards = names(tmp_path / "c") if turn else []
        try:
            result = dense_multicut(
                X,
                0.2,
                memory_limit=limit(9, 6),
                checkpoint=tmp_path / "c",
                callback=stopping(max(5, len(shards))),
            )
            break
        except StopError:
            continue
    assert turn > 0
    np.testing.assert_array_equal(result.labels, whole.labels)
    assert len(solved) == work


def test_every_moment_of_the_folder_is_a_place_to_go_on_from(monkeypatch, rng, tmp_path, solved):
    """The process may end just before or after any file gets its name, or is removed."""
    X, _ = mixture(rng, 30, 5, d=6, noise=1.5)
    options = {"threshold": 0.2, "memory_limit": limit(9, 6)}
    whole = dense_multicut(X, **options)

    def stop_at(moment):
        calls = 0

        def at(function, before):
            def called(*arguments, **keywords):
                nonlocal calls
                calls += 1
                if calls == moment and before:
                    raise StopError
                result = function(*arguments, **keywords)
                if calls == moment:
                    raise StopError
                return result

            return called

        return at

    replace, unlink = Path.replace, Path.unlink
    stopped = 0
    for moment in range(1, 30):
        for before in (True, False):
            folder = tmp_path / f"{moment}-{before}"
            at = stop_at(moment)
            with monkeypatch.context() as patch:
                patch.setattr(Path, "replace", at(replace, before))
                patch.setattr(Path, "unlink", at(unlink, before))
                try:
                    dense_multicut(X, checkpoint=folder, **options)
                except StopError:
                    stopped += 1
            result = dense_multicut(X, checkpoint=folder, **options)
            np.testing.assert_array_equal(result.labels, whole.labels)
            assert not any(name.endswith(".npy") and not name.startswith(".") for name in names(folder))
    assert stopped > 20


def test_a_finished_checkpoint_is_the_result(rng, tmp_path, solved):
    X, _ = mixture(rng, 40, 6, d=6, noise=2.0)
    for algorithm in ("fast", "auto"):
        folder = tmp_path / algorithm
        options = {"algorithm": algorithm, "memory_limit": limit(9, 6), "checkpoint": folder}
        whole = dense_multicut(X, 0.2, **options)
        solved.clear()
        seen = []
        again = dense_multicut(X, 0.2, callback=lambda *what: seen.append(what), **options)  # noqa: B023
        np.testing.assert_array_equal(again.labels, whole.labels)
        assert (again.objective, again.trace[-1].move_optimal) == (whole.objective, True)
        assert (solved, seen) == ([], [])


def test_a_checkpoint_changes_nothing(rng, tmp_path):
    X, _ = mixture(rng, 40, 6, d=6, noise=2.0)
    plain = dense_multicut(X, 0.2, memory_limit=limit(9, 6))
    kept = dense_multicut(X, 0.2, memory_limit=limit(9, 6), checkpoint=str(tmp_path / "c"))
    np.testing.assert_array_equal(kept.labels, plain.labels)


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("stored", [False, True])
def test_a_checkpoint_alone_means_one_shard(rng, tmp_path, solved, algorithm, stored):
    """Which is solved as without a checkpoint, from the beginning every time."""
    X, _ = mixture(rng, 40, 6, d=6, noise=2.0)
    np.save(tmp_path / "x.npy", X)
    at_once = dense_multicut(X, 0.2, algorithm=algorithm)
    for _ in range(2):
        result = dense_multicut(
            tmp_path / "x.npy" if stored else X, 0.2, algorithm=algorithm, checkpoint=tmp_path / "c"
        )
        assert [phase.name for phase in result.trace] == ["refinement"]
        assert result.trace[0].move_optimal
        np.testing.assert_array_equal(result.labels, at_once.labels)
        assert result.inside == pytest.approx(at_once.inside)
        assert names(tmp_path / "c") == ["lock", "run.json"]
    assert solved == []


def test_more_time_goes_on_where_the_time_was_up(rng, tmp_path, solved):
    X, _ = mixture(rng, 40, 6, d=6, noise=2.0)
    whole = dense_multicut(X, 0.2, memory_limit=limit(9, 6))
    work = len(solved)
    solved.clear()
    for _ in range(2):
        early = dense_multicut(X, 0.2, memory_limit=limit(9, 6), time_limit=0, checkpoint=tmp_path / "c")
        assert not early.trace[-1].move_optimal
    result = dense_multicut(X, 0.2, memory_limit=limit(9, 6), checkpoint=tmp_path / "c")
    np.testing.assert_array_equal(result.labels, whole.labels)
    assert len(solved) == work


def test_settings_that_differ_are_named(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X[::-1])
    told = {"threshold": 0.3, "memory_limit": limit(9, 6), "checkpoint": tmp_path / "c"}
    dense_multicut(tmp_path / "x.npy", **told)
    before = (tmp_path / "c" / "place.npz").read_bytes()
    for other, which in (
        ({"threshold": 0.31}, "threshold"),
        ({"algorithm": "fast"}, "algorithm"),
        ({"memory_limit": limit(10, 6)}, "shards"),
        ({"sample_weight": np.arange(40.0)}, "weights"),
        ({"alpha": 0.5}, "threshold, alpha"),
        ({"init": np.arange(40)}, "init"),
        ({"X": tmp_path / "y.npy"}, "features"),
        ({"X": [tmp_path / "x.npy"] * 2}, "features, items, shards"),
        ({"X": X}, "features, threshold, weights"),
    ):
        arguments = {"X": tmp_path / "x.npy"} | told | other
        with pytest.raises(
            ValueError, match=rf"of another run \(other {which}\): give what that run was"
        ) as error:
            dense_multicut(**arguments)
        assert str(tmp_path / "c") in str(error.value)
        assert "\n" not in str(error.value)
        del error
    assert (tmp_path / "c" / "place.npz").read_bytes() == before
    dense_multicut(tmp_path / "x.npy", **told)


def test_features_that_differ_are_another_run(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6)
    told = {"threshold": 0.3, "memory_limit": limit(9, 6), "checkpoint": tmp_path / "c"}
    dense_multicut(X, **told)
    for arguments in (
        {"X": X * 1.01},
        {"X": X[::-1]},
        {"X": X.astype(np.float32)},
        {"sample_weight": np.full(40, 2)},
    ):
        with pytest.raises(ValueError, match="of another run"):
            dense_multicut(**({"X": X} | told | arguments))
    dense_multicut(DenseProblem(X, 0.3), memory_limit=limit(9, 6), checkpoint=tmp_path / "c")


def test_a_file_that_changed_is_another_run(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6)
    path = tmp_path / "x.npy"
    np.save(path, X)
    dense_multicut(path, 0.3, checkpoint=tmp_path / "c")
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    path.rename(moved / "x.npy")
    dense_multicut(moved / "x.npy", 0.3, checkpoint=tmp_path / "c")
    os.utime(moved / "x.npy", ns=(1, 1))
    with pytest.raises(ValueError, match="other features"):
        dense_multicut(moved / "x.npy", 0.3, checkpoint=tmp_path / "c")


def test_two_runs_at_the_same_time(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6)
    told = {"threshold": 0.3, "memory_limit": limit(9, 6), "checkpoint": tmp_path / "c"}
    tried = []

    def second(*_):
        if not tried:
            with pytest.raises(ValueError, match="another run is using the checkpoint") as error:
                dense_multicut(X, **told)
            tried.append(str(error.value))

    dense_multicut(X, callback=second, **told)
    assert tried == [f"another run is using the checkpoint {tmp_path / 'c'}: wait until it has ended"]
    dense_multicut(X, **told)


def test_a_run_that_failed_lets_go_of_the_folder(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6)
    told = {"threshold": 0.3, "memory_limit": limit(9, 6), "checkpoint": tmp_path / "c"}
    with pytest.raises(StopError) as kept:
        dense_multicut(X, callback=stopping(2), **told)
    dense_multicut(X, **told)
    assert kept.value is not None


def test_settings_that_differ_let_go_of_the_folder(rng, tmp_path):
    """As in a notebook, which keeps the last exception: the next run has the right settings."""
    X, _ = mixture(rng, 40, 4, d=6)
    told = {"memory_limit": limit(9, 6), "checkpoint": tmp_path / "c"}
    dense_multicut(X, 0.3, **told)
    with pytest.raises(ValueError, match="of another run") as kept:
        dense_multicut(X, 0.4, **told)
    dense_multicut(X, 0.3, **told)
    assert kept.value is not None


@pytest.mark.parametrize("same", [True, False])
def test_files_of_others_in_the_folder_stay(rng, tmp_path, same):
    """A folder of features, say, which is given as the checkpoint by mistake."""
    X, _ = mixture(rng, 40, 4, d=6)
    folder = tmp_path / "features"
    folder.mkdir()
    for name in ("shard-0001.npy", "pool-a.npy"):
        np.save(folder / name, X)
    try:
        dense_multicut(folder if same else X, 0.3, memory_limit=limit(9, 6), checkpoint=folder)
    except ValueError as error:
        assert "\n" not in str(error)  # noqa: PT017
    assert {"shard-0001.npy", "pool-a.npy"} <= set(names(folder))


def test_any_number_is_a_threshold(rng, tmp_path):
    np.save(tmp_path / "x.npy", mixture(rng, 40, 4, d=6)[0])
    dense_multicut(tmp_path / "x.npy", np.float32(0.25), checkpoint=tmp_path / "c")
    dense_multicut(tmp_path / "x.npy", 0.25, checkpoint=tmp_path / "c")


def test_the_threshold_of_an_array_is_named(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6)
    dense_multicut(X, 0.3, checkpoint=tmp_path / "c")
    with pytest.raises(ValueError, match="other threshold"):
        dense_multicut(X, 0.4, checkpoint=tmp_path / "c")


@pytest.mark.parametrize("name", ["run.json", "place.npz", "shard-0-9.npy"])
@pytest.mark.parametrize("content", ["", "\0\0\0"], ids=["empty", "zeros"])
def test_a_broken_file_is_made_again_or_named_in_one_line(rng, tmp_path, name, content):
    """What a machine that lost power may leave behind."""
    X, _ = mixture(rng, 40, 4, d=6)
    told = {"threshold": 0.3, "memory_limit": limit(9, 6), "checkpoint": tmp_path / "c"}
    undisturbed = dense_multicut(X, 0.3, memory_limit=limit(9, 6)).labels
    with pytest.raises(StopError):
        dense_multicut(X, callback=stopping(8 if name == "place.npz" else 3), **told)
    assert (tmp_path / "c" / name).exists()
    (tmp_path / "c" / name).write_text(content)
    if name != "run.json":
        np.testing.assert_array_equal(dense_multicut(X, **told).labels, undisturbed)
        return
    with pytest.raises(ValueError, match="is broken: start over with another folder") as error:
        dense_multicut(X, **told)
    assert str(tmp_path / "c" / name) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": "auto"}, "checkpoint goes with a threshold that is told"),
        ({"n_clusters": 3}, "checkpoint goes with a threshold that is told"),
        ({"algorithm": "best"}, "checkpoint goes with fast and auto, not with best"),
        ({"algorithm": "gaec"}, "checkpoint goes with fast and auto, not with gaec"),
        ({"checkpoint": "no/such/folder"}, "does not exist"),
        ({"checkpoint": "file"}, "checkpoint must be a folder"),
    ],
)
def test_what_does_not_go_with_a_checkpoint(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises((ValueError, OSError), match=message) as error:
        dense_multicut(np.eye(3), **({"checkpoint": "c"} | options))
    assert "\n" not in str(error.value)
    assert names(tmp_path) == ["file"]


def test_what_a_checkpoint_keeps(tmp_path):
    settings = {"items": 3, "threshold": 0.5}
    with Checkpoint(tmp_path / "c", settings) as kept:
        assert kept.place() is None
        assert kept.labels("shard-0-3") is None
        kept.keep_labels("shard-0-3", np.array([0, 1, 0]))
        kept.keep_labels("pool-0-3", np.array([0, 0]))
        assert kept.labels("shard-0-3").tolist() == [0, 1, 0]
    assert json.loads((tmp_path / "c" / "run.json").read_text()) == settings
    with Checkpoint(tmp_path / "c", settings) as kept:
        assert kept.labels("pool-0-3").tolist() == [0, 0]
        place = Place(np.array([1, 0, 1]), np.array([True, False]), 7, True)
        kept.keep(place)
        assert kept.labels("pool-0-3") is None
    with Checkpoint(tmp_path / "c", settings) as kept:
        labels, changed, turn, exact = kept.place()
        assert (labels.tolist(), changed.tolist(), turn, exact) == ([1, 0, 1], [True, False], 7, True)
        assert (labels.dtype, changed.dtype) == (np.int64, np.bool_)
    assert names(tmp_path / "c") == ["lock", "place.npz", "run.json"]


def test_a_digest_tells_values_apart():
    values = [
        (),
        (None,),
        (1,),
        ("1",),
        (1, None),
        (11,),
        (1, 1),
        (np.arange(4),),
        (np.arange(4).reshape(2, 2),),
        (np.arange(4.0),),
        (np.arange(4)[::-1],),
    ]
    assert len({digest(*value) for value in values}) == len(values)
    assert digest(np.arange(8)[::2]) == digest(np.array([0, 2, 4, 6]))


# A full disk


@contextmanager
def full_disk(size):
    """No file becomes larger than so many bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("size", [10, 190, 700, 1000])
def test_a_full_disk_is_one_line_and_space_is_enough_to_go_on(rng, tmp_path, size):
    """Of run.json, of the labels of a shard, of a place: none is there in part."""
    X, _ = mixture(rng, 120, 4, d=6)
    told = {"threshold": 0.3, "memory_limit": limit(15, 6), "checkpoint": tmp_path / "c"}
    with full_disk(size), pytest.raises(OSError) as error:  # noqa: PT011
        dense_multicut(X, **told)
    assert "\n" not in str(error.value)
    assert not any(name.startswith(".") for name in names(tmp_path / "c"))
    del error
    result = dense_multicut(X, **told)
    np.testing.assert_array_equal(result.labels, dense_multicut(X, 0.3, memory_limit=limit(15, 6)).labels)


@pytest.mark.parametrize("output", ["l.npy", "l.csv", "l.parquet", "folder"])
def test_a_full_disk_leaves_no_output(run, rng, tmp_path, output):
    X, _ = mixture(rng, 400, 4, d=6)
    (tmp_path / "x").mkdir()
    np.save(tmp_path / "x" / "a.npy", X[:300])
    np.save(tmp_path / "x" / "b.npy", X[300:])
    with full_disk(400):
        code, out, err = run(
            "cluster", tmp_path / "x", "-t", 0.3, "--memory-limit", "60kB", "-o", tmp_path / output
        )
    assert (code, out) == (2, "")
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    assert names(tmp_path) == ["x"]


def test_labels_are_written_completely_or_not_at_all(tmp_path):
    for n in (10, 400, 1010, 1020, 1030, 3000):
        with full_disk(8 * n), pytest.raises(OSError):  # noqa: PT011
            files.write_labels(tmp_path / "l.npy", np.arange(n))
        assert names(tmp_path) == []


def test_a_full_disk_is_said(tmp_path):
    with full_disk(8192), pytest.raises(OSError, match=r"l\.npy"):
        files.write_labels(tmp_path / "l.npy", np.arange(1100))


# SIGKILL


def start(*arguments):
    command = [sys.executable, "-m", "clusterfug", *map(str, arguments)]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.large
def test_a_run_that_is_killed_goes_on(tmp_path, rng):
    """At several moments: as soon as something new is in the folder. No output is there in part."""
    X, _ = mixture(rng, 7500, 40, d=16, noise=1.2)
    data, output, folder = tmp_path / "data", tmp_path / "out" / "labels.npy", tmp_path / "c"
    data.mkdir()
    output.parent.mkdir()
    for at in range(3):
        np.save(data / f"{at}.npy", X[at * 2500 : at * 2500 + 2500].astype(np.float32))
    told = ("cluster", data, "-t", 0.3, "--memory-limit", "700kB")
    whole = start(*told, "-o", tmp_path / "whole.npy")
    assert whole.wait() == 0, whole.stderr.read()
    kills, wanted = 0, 2
    while True:
        process = start(*told, "--checkpoint", folder, "-o", output)
        try:
            while process.poll() is None:
                assert not output.exists() or len(np.load(output)) == len(X)
                done = len(names(folder)) if folder.exists() else 0
                moving = (folder / "place.npz").exists()
                if kills < 3 and (done >= wanted or moving):
                    os.kill(process.pid, signal.SIGKILL)
                    kills += 1
                    wanted += 3
                    break
                time.sleep(0.002)
        finally:
            code = process.wait()
        assert code in (0, -signal.SIGKILL), process.stderr.read()
        if code == 0:
            break
        assert not any(path.suffix == ".npy" and path.name[0] != "." for path in output.parent.iterdir())
    assert kills == 3
    np.testing.assert_array_equal(np.load(output), np.load(tmp_path / "whole.npy"))
    assert [name for name in names(folder) if name[0] != "."] == ["lock", "place.npz", "run.json"]


@pytest.mark.large
def test_a_full_disk_in_a_process_of_its_own(tmp_path, rng):
    X, _ = mixture(rng, 12_000, 10, d=4, noise=0.3)
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    code = (
        "import resource, sys; from clusterfug.cli import main; import clusterfug.execution.sharded.solve;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000)); main(sys.argv[1:])"
    )
    told = ["cluster", "x.npy", "-t", "0.4", "-a", "fast", "--memory-limit", "2MB", "-o", "l.npy"]
    for more in ([], ["--checkpoint", "c"]):
        process = subprocess.run(
            [sys.executable, "-c", code, *told, *more], cwd=tmp_path, capture_output=True, text=True
        )
        assert process.returncode == 2
        assert process.stderr.count("\n") == 1, process.stderr
        assert set(names(tmp_path)) <= {"x.npy", "c"}
    assert not any(name.startswith(".") for name in names(tmp_path / "c"))


def test_every_row_tells_features_apart(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6)
    told = {"threshold": 0.3, "memory_limit": limit(9, 6), "checkpoint": tmp_path / "c"}
    dense_multicut(X, **told)
    for row in (0, 17, 39):
        other = X.copy()
        other[row] *= 0.5
        with pytest.raises(ValueError, match="other features"):
            dense_multicut(other, **told)
