"""Runs that are interrupted and continue: by an exception at every step, by SIGKILL, by a full disk."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from makers import limited_file_size, memory_for, mixture, names_in

from clusterfug import DenseProblem, dense_multicut
from clusterfug.costs.models import Threshold
from clusterfug.execution.plan import Execution
from clusterfug.execution.sharded import tasks
from clusterfug.execution.sharded.checkpoint import Checkpoint, DriverState, digest
from clusterfug.execution.sharded.engine import LocalEngine
from clusterfug.execution.sharded.solve import solve_rows
from clusterfug.problems.features import FeatureProblem
from clusterfug.solvers import make_solver

FINISHED = ["lock", "run.json", "state.npz"]  # files of a checkpoint whose shards and pools are solved


@pytest.fixture
def solved(monkeypatch):
    """The number of items or nodes of every shard and pool that was solved."""
    sizes, solve = [], tasks._solve

    def counted(problem):
        sizes.append(problem.n)
        return solve(problem)

    monkeypatch.setattr(tasks, "_solve", counted)
    return sizes


class StopError(Exception):
    pass


def stop_after(n_calls):
    """A callback that raises StopError when it is called once more."""
    calls = 0

    def callback(*_):
        nonlocal calls
        calls += 1
        if calls > n_calls:
            raise StopError

    return callback


def stop(*_):
    raise StopError


@pytest.fixture(name="X")
def features(rng):
    return mixture(rng, 30, 5, d=6, noise=1.5)[0]


@pytest.fixture
def options(tmp_path):
    """Arguments of a run in shards of 9 items with a checkpoint."""
    return {"threshold": 0.3, "memory_limit": memory_for(9, 6), "checkpoint": tmp_path / "c"}


# Interrupted runs


OPTIONS = {
    "fast": {"algorithm": "fast"},
    "weights": {"sample_weight": [1.0, 2.0, 0.0] * 10},
    "init": {"init": np.arange(30) % 7},
}


@pytest.mark.parametrize(
    ("kind", "stored"), [("fast", False), ("weights", False), ("fast", True), ("init", True)]
)
def test_a_run_that_is_stopped_anywhere_continues(X, tmp_path, solved, kind, stored):
    features = X
    if stored:
        features = [tmp_path / f"{at}.npy" for at in range(3)]
        for path, part in zip(features, np.split(X, 3), strict=True):
            np.save(path, part)
    options, calls = {"threshold": 0.2, "memory_limit": memory_for(9, 6)} | OPTIONS[kind], []
    whole = dense_multicut(
        features, checkpoint=tmp_path / "whole", callback=lambda *call: calls.append(call), **options
    )
    work = len(solved)
    assert (work == 0) == (kind == "init")
    for k in range(len(calls)):
        folder = tmp_path / f"stopped-{k}"
        solved.clear()
        with pytest.raises(StopError):
            dense_multicut(features, checkpoint=folder, callback=stop_after(k), **options)
        first = len(solved)
        result = dense_multicut(features, checkpoint=folder, **options)
        np.testing.assert_array_equal(result.labels, whole.labels)
        assert (result.objective, result.inside) == (whole.objective, whole.inside)
        assert result.trace[-1][2:] == whole.trace[-1][2:]
        assert len(solved) == work
        assert first <= work
        assert names_in(folder) == FINISHED


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
def test_a_run_that_ends_in_one_task_continues(monkeypatch, X, tmp_path, solved, algorithm):
    """In several shards, as the chunks of a dask array: stopped at any of them, and at the end."""
    rows = [(start, start + 10, X[start : start + 10]) for start in (0, 10, 20)]
    problem, solver = FeatureProblem(X, Threshold(0.2)), make_solver(algorithm)

    def solve(folder, callback=None):
        execution = Execution("sharded", checkpoint=folder)
        return solve_rows(rows, problem, solver, execution, LocalEngine(), "", callback)

    whole = solve(None)
    assert solved[:3] == [10, 10, 10]
    work = len(solved)
    for k in range(4):
        folder = tmp_path / str(k)
        solved.clear()
        with monkeypatch.context() as patch:
            patch.setattr(tasks, "solve_at_once", stop)
            with pytest.raises(StopError):
                solve(folder, stop_after(k))
        assert ("state.npz" in names_in(folder)) == (k == 3)
        assert len(solved) < work or k == 3
        for _ in range(2):  # the second time it was not stopped
            result = solve(folder)
            np.testing.assert_array_equal(result.labels, whole.labels)
            assert (result.objective, result.inside) == (whole.objective, whole.inside)
            assert [phase.name for phase in result.trace] == ["shards", "refinement"]
            assert result.trace[-1][2:] == whole.trace[-1][2:]
            assert len(solved) == work
            assert names_in(folder) == FINISHED


def test_a_run_that_is_stopped_again_and_again_ends(X, options, solved):
    """Each run does at least one shard or one round more than the last."""
    folder = options.pop("checkpoint")
    whole = dense_multicut(X, **options)
    work = len(solved)
    solved.clear()
    for run in range(100):
        shards = names_in(folder) if run else []
        try:
            callback = stop_after(max(5, len(shards)))
            result = dense_multicut(X, checkpoint=folder, callback=callback, **options)
            break
        except StopError:
            continue
    assert run > 0
    np.testing.assert_array_equal(result.labels, whole.labels)
    assert len(solved) == work


@pytest.mark.parametrize("before", [True, False])
def test_a_run_continues_from_every_state_of_the_folder(monkeypatch, X, tmp_path, before):
    """The process may end just before or after any file gets its name, or is removed."""
    options = {"threshold": 0.2, "memory_limit": memory_for(9, 6)}
    whole = dense_multicut(X, **options)
    stopped = 0
    for moment in range(1, 100):
        calls = 0

        def stopping(function, moment=moment):
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

        folder = tmp_path / f"{moment}"
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", stopping(Path.replace))
            patch.setattr(Path, "unlink", stopping(Path.unlink))
            try:
                dense_multicut(X, checkpoint=folder, **options)
                break
            except StopError:
                stopped += 1
        result = dense_multicut(X, checkpoint=folder, **options)
        np.testing.assert_array_equal(result.labels, whole.labels)
        assert names_in(folder)[-3:] == FINISHED
    assert stopped > 10


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
def test_a_finished_checkpoint_gives_the_result(X, options, solved, algorithm):
    plain = dense_multicut(X, 0.3, algorithm=algorithm, memory_limit=options["memory_limit"])
    whole = dense_multicut(X, algorithm=algorithm, **options)
    np.testing.assert_array_equal(whole.labels, plain.labels)
    solved.clear()
    seen = []
    again = dense_multicut(X, algorithm=algorithm, callback=lambda *call: seen.append(call), **options)
    np.testing.assert_array_equal(again.labels, whole.labels)
    assert (again.objective, again.trace[-1].move_optimal) == (whole.objective, True)
    assert (solved, seen) == ([], [])


@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("stored", [False, True])
def test_a_checkpoint_without_a_memory_limit_means_one_shard(X, tmp_path, solved, algorithm, stored):
    """Which is solved as without a checkpoint, from the beginning every time."""
    np.save(tmp_path / "x.npy", X)
    at_once = dense_multicut(X, 0.2, algorithm=algorithm)
    for _ in range(2):
        features = tmp_path / "x.npy" if stored else X
        result = dense_multicut(features, 0.2, algorithm=algorithm, checkpoint=tmp_path / "c")
        assert [phase.name for phase in result.trace] == ["refinement"]
        assert result.trace[0].move_optimal
        np.testing.assert_array_equal(result.labels, at_once.labels)
        assert result.inside == pytest.approx(at_once.inside)
        assert names_in(tmp_path / "c") == ["lock", "run.json"]
    assert solved == []


def test_a_run_continues_where_its_time_limit_ended(X, options, solved):
    whole = dense_multicut(X, 0.3, memory_limit=options["memory_limit"])
    work = len(solved)
    solved.clear()
    for _ in range(2):
        early = dense_multicut(X, time_limit=0, **options)
        assert not early.trace[-1].move_optimal
    result = dense_multicut(X, **options)
    np.testing.assert_array_equal(result.labels, whole.labels)
    assert len(solved) == work


# Settings


def test_settings_that_differ_are_named(X, tmp_path, options):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X[::-1])
    options["X"] = tmp_path / "x.npy"
    dense_multicut(**options)
    state = (tmp_path / "c" / "state.npz").read_bytes()
    for other, which in (
        ({"threshold": 0.31}, "costs"),
        ({"threshold": None, "alpha": 0.5}, "costs"),
        ({"algorithm": "fast"}, "algorithm"),
        ({"memory_limit": memory_for(10, 6)}, "shards"),
        ({"sample_weight": np.arange(30.0)}, "weights"),
        ({"init": np.arange(30)}, "init"),
        ({"metric": "inner_product"}, "metric"),
        ({"center": True}, "center"),
        ({"X": tmp_path / "y.npy"}, "features"),
        ({"X": [tmp_path / "x.npy"] * 2}, "features, items, shards"),
        ({"X": X}, "features"),
    ):
        with pytest.raises(
            ValueError, match=rf"of another run \(other {which}\): give what that run was"
        ) as error:
            dense_multicut(**(options | other))
        assert str(tmp_path / "c") in str(error.value)
        assert "\n" not in str(error.value)
        del error
    assert (tmp_path / "c" / "state.npz").read_bytes() == state
    dense_multicut(**options)


def test_other_features_are_another_run(X, options):
    dense_multicut(X, **options)
    changed_rows = [X * np.where(np.arange(30) == row, 0.5, 1)[:, None] for row in (0, 17, 29)]
    for other in (X * 1.01, X[::-1], X.astype(np.float32), *changed_rows):
        with pytest.raises(ValueError, match="other features"):
            dense_multicut(other, **options)
    with pytest.raises(ValueError, match="other weights"):
        dense_multicut(X, sample_weight=np.full(30, 2), **options)


def test_an_equal_dense_problem_is_the_same_run(X, options, solved):
    threshold = options.pop("threshold")
    whole = dense_multicut(DenseProblem(X, threshold), **options)
    solved.clear()
    again = dense_multicut(DenseProblem(X.copy(), threshold), **options)
    np.testing.assert_array_equal(again.labels, whole.labels)
    assert solved == []
    for other, which in (
        (DenseProblem(X[::-1], threshold), "features"),
        (DenseProblem(X, 0.4), "costs"),
        (DenseProblem(X, threshold, sample_weight=np.arange(30.0)), "weights"),
    ):
        with pytest.raises(ValueError, match=f"other {which}"):
            dense_multicut(other, **options)


def test_a_file_that_changed_is_another_run(X, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X)
    dense_multicut(path, np.float32(0.25), checkpoint=tmp_path / "c")
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    path.rename(moved / "x.npy")
    dense_multicut(moved / "x.npy", 0.25, checkpoint=tmp_path / "c")
    os.utime(moved / "x.npy", ns=(1, 1))
    with pytest.raises(ValueError, match="other features"):
        dense_multicut(moved / "x.npy", 0.25, checkpoint=tmp_path / "c")


# The folder


def test_two_runs_at_the_same_time_are_an_error(X, tmp_path, options):
    messages = []

    def second_run(*_):
        if not messages:
            with pytest.raises(ValueError, match="another run is using the checkpoint") as error:
                dense_multicut(X, **options)
            messages.append(str(error.value))

    dense_multicut(X, callback=second_run, **options)
    assert messages == [f"another run is using the checkpoint {tmp_path / 'c'}: wait until it has ended"]
    dense_multicut(X, **options)


def test_a_run_that_failed_releases_the_folder(X, options):
    """Also while its exception is kept, as in a notebook."""
    with pytest.raises(StopError) as stopped:
        dense_multicut(X, callback=stop_after(2), **options)
    dense_multicut(X, **options)
    with pytest.raises(ValueError, match="of another run") as refused:
        dense_multicut(X, **(options | {"threshold": 0.4}))
    dense_multicut(X, **options)
    assert stopped.value is not None
    assert refused.value is not None


@pytest.mark.parametrize("same", [True, False])
def test_other_files_in_the_folder_stay(X, options, same):
    """A folder of features, say, which is given as the checkpoint by mistake."""
    folder = options["checkpoint"]
    folder.mkdir()
    for name in ("shard-0001.npy", "pool-a.npy"):
        np.save(folder / name, X)
    with pytest.raises(ValueError, match="is no checkpoint, and not empty: give another folder"):
        dense_multicut(folder if same else X, **options)
    assert names_in(folder) == ["pool-a.npy", "shard-0001.npy"]


@pytest.fixture
def stopped(X, options, tmp_path):
    """Return the folder of a run that was stopped among its shards, or after them."""

    def stopped(among_shards):
        with pytest.raises(StopError):
            dense_multicut(X, callback=stop_after(3 if among_shards else 6), **options)
        return tmp_path / "c"

    return stopped


def empty(path):
    path.write_bytes(b"")


def zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


def flipped_bit(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def other_values(change):
    """Damage that keeps a valid file with the old checksum."""

    def damage(path):
        with np.load(path) as saved:
            values = dict(saved)
        values["labels"] = change(values["labels"])
        np.savez(path, **values)

    return damage


def without_checksum(path):
    with np.load(path) as saved:
        np.savez(path, **{name: value for name, value in saved.items() if name != "checksum"})


DAMAGES = {
    "empty": empty,
    "zeros": zeros,
    "flipped bit": flipped_bit,
    "cut": cut,
    "fewer labels": other_values(lambda labels: labels[:-1]),
    "reshaped": other_values(lambda labels: labels[:, None]),
    "large labels": other_values(lambda labels: labels + 2**40),
    "negative labels": other_values(lambda labels: labels - 1),
    "other labels": other_values(lambda labels: labels[::-1].copy()),
    "floats": other_values(lambda labels: labels.astype(float)),
    "without checksum": without_checksum,
}


@pytest.mark.parametrize("name", ["state.npz", "shard-0-9.npz"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_file_is_named_in_one_line(X, options, stopped, name, damage):
    path = stopped(among_shards=name.startswith("shard")) / name
    damage(path)
    with pytest.raises(ValueError, match="is damaged: delete this file, and the work in it") as error:
        dense_multicut(X, **options)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    path.unlink()
    undisturbed = dense_multicut(X, 0.3, memory_limit=options["memory_limit"]).labels
    np.testing.assert_array_equal(dense_multicut(X, **options).labels, undisturbed)


def test_a_file_of_another_shard_or_another_run_is_damaged(X, options, stopped, tmp_path):
    folder = stopped(among_shards=True)
    shutil.copy(folder / "shard-0-9.npz", folder / "shard-9-18.npz")
    with pytest.raises(ValueError, match=r"shard-9-18.npz is damaged"):
        dense_multicut(X, **options)
    with pytest.raises(StopError):
        dense_multicut(
            X, callback=stop_after(3), **(options | {"threshold": 0.2, "checkpoint": tmp_path / "d"})
        )
    shutil.copy(tmp_path / "d" / "shard-0-9.npz", folder)
    with pytest.raises(ValueError, match=r"shard-0-9.npz is damaged"):
        dense_multicut(X, **options)


@pytest.mark.parametrize(
    "content", ["", "\0\0\0", "[1, 2]", "{", "[" * 100_000], ids=["empty", "zeros", "list", "cut", "deep"]
)
def test_damaged_settings_are_named_and_without_them_the_run_continues(
    X, options, stopped, solved, content
):
    path = stopped(among_shards=True) / "run.json"
    path.write_text(content)
    with pytest.raises(ValueError, match="is damaged: delete this file, and the run continues") as error:
        dense_multicut(X, **options)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    path.unlink()
    solved.clear()
    result = dense_multicut(X, **options)
    again = len(solved)
    solved.clear()
    undisturbed = dense_multicut(X, 0.3, memory_limit=options["memory_limit"])
    np.testing.assert_array_equal(result.labels, undisturbed.labels)
    assert again < len(solved)


def test_without_its_settings_a_checkpoint_is_not_one_of_another_run(X, options, stopped):
    (stopped(among_shards=True) / "run.json").unlink()
    with pytest.raises(ValueError, match="is damaged: delete this file, and the work in it is done again"):
        dense_multicut(X, **(options | {"threshold": 0.2}))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("run.json", "run.json is damaged: delete this file"),
        ("state.npz", "state.npz is damaged: delete this file"),
        ("lock", "is no checkpoint, and not empty"),
    ],
)
def test_a_pipe_in_a_checkpoint_is_refused(X, options, stopped, name, message):
    path = stopped(among_shards=True) / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(ValueError, match=message):
        dense_multicut(X, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": "auto"}, "give a number as threshold"),
        ({"n_clusters": 3, "threshold": None}, "give a number as threshold"),
        ({"algorithm": "best"}, "checkpoint goes with auto and fast, not best"),
        ({"algorithm": "gaec"}, "checkpoint goes with auto and fast, not gaec"),
        ({"checkpoint": "no/such/folder"}, "does not exist"),
        ({"checkpoint": "file"}, "checkpoint must be a folder"),
    ],
)
def test_options_that_do_not_go_with_a_checkpoint(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises((ValueError, OSError), match=message) as error:
        dense_multicut(np.eye(3), **({"checkpoint": "c", "threshold": 0.4} | options))
    assert "\n" not in str(error.value)
    assert names_in(tmp_path) == ["file"]


def test_labels_and_state_are_kept(tmp_path):
    settings = {"items": 3, "costs": "0.5"}
    with Checkpoint(tmp_path / "c", settings) as checkpoint:
        assert checkpoint.load_state(3) is None
        assert checkpoint.load_labels("shard-0-3", 3) is None
        checkpoint.save_labels("shard-0-3", np.array([0, 1, 0]))
        checkpoint.save_labels("pool-0-3", np.array([0, 0]))
        assert checkpoint.load_labels("shard-0-3", 3).tolist() == [0, 1, 0]
    assert json.loads((tmp_path / "c" / "run.json").read_text()) == settings
    with Checkpoint(tmp_path / "c", settings) as checkpoint:
        assert checkpoint.load_labels("pool-0-3", 2).tolist() == [0, 0]
        checkpoint.save_state(DriverState(np.array([1, 0, 1]), np.array([True, False]), 7, True, True))
        assert checkpoint.load_labels("pool-0-3", 2) is None
    with Checkpoint(tmp_path / "c", settings) as checkpoint:
        labels, changed, n_rounds, exact, close = checkpoint.load_state(3)
        assert (labels.tolist(), changed.tolist()) == ([1, 0, 1], [True, False])
        assert (n_rounds, exact, close) == (7, True, True)
        assert (labels.dtype, changed.dtype) == (np.int64, np.bool_)
    assert names_in(tmp_path / "c") == FINISHED


def test_digests_of_different_values_differ():
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


# A full disk, and SIGKILL


@pytest.mark.parametrize("size", [10, 190, 700, 1000])
def test_a_run_continues_after_a_full_disk(rng, tmp_path, size):
    """No incomplete file is left: of the settings, of the labels of a shard, of the state."""
    X, _ = mixture(rng, 120, 4, d=6)
    options = {"threshold": 0.3, "memory_limit": memory_for(15, 6)}
    with limited_file_size(size), pytest.raises(OSError) as error:  # noqa: PT011
        dense_multicut(X, checkpoint=tmp_path / "c", **options)
    assert "\n" not in str(error.value)
    assert not any(name.startswith(".") for name in names_in(tmp_path / "c"))
    del error
    result = dense_multicut(X, checkpoint=tmp_path / "c", **options)
    np.testing.assert_array_equal(result.labels, dense_multicut(X, **options).labels)


def test_a_run_that_is_killed_continues(tmp_path, rng):
    """At several moments: as soon as there is something new in the folder. No incomplete output is left."""
    X, _ = mixture(rng, 6000, 40, d=16, noise=1.2)
    data, output, folder = tmp_path / "data", tmp_path / "out" / "labels.npy", tmp_path / "c"
    data.mkdir()
    output.parent.mkdir()
    for at, part in enumerate(np.split(X.astype(np.float32), 3)):
        np.save(data / f"{at}.npy", part)
    whole = dense_multicut(data, 0.3, memory_limit="600kB")
    command = [sys.executable, "-m", "clusterfug", "cluster", data, "-t", "0.3", "--memory-limit", "600kB"]
    command = [*map(str, command), "--checkpoint", str(folder), "-o", str(output)]
    kills, wanted, code = 0, 2, None
    while code != 0:
        with subprocess.Popen(
            command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True
        ) as process:
            while process.poll() is None:
                assert not output.exists() or len(np.load(output)) == len(X)
                done = len(names_in(folder)) if folder.exists() else 0
                if kills < 3 and (done >= wanted or (folder / "state.npz").exists()):
                    os.kill(process.pid, signal.SIGKILL)
                    kills += 1
                    wanted += 3
                    break
                time.sleep(0.002)
            code = process.wait()
            assert code in (0, -signal.SIGKILL), process.stderr.read()
        if code != 0:
            assert not any(
                path.suffix == ".npy" and path.name[0] != "." for path in output.parent.iterdir()
            )
    assert kills == 3
    np.testing.assert_array_equal(np.load(output), whole.labels)
    assert [name for name in names_in(folder) if name[0] != "."] == FINISHED
