"""Workers and schedulers that die, and a full disk: the same results, or one line that says what to do."""

import os
import resource
import signal
import sys
import time

import cloudpickle
import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client
from makers import memory_for, mixture

from clusterfug import dense_multicut
from clusterfug.execution.dask.engine import DaskEngine

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import test modules

SOON = {"distributed.comm.timeouts.connect": "3s"}  # how long a client tries to find a lost scheduler


def kill_a_worker(client, phase):
    """A callback that kills one of the workers when the phase begins; and its process id, once killed."""
    left, killed = list(client.run(os.getpid).values())[:1], []

    def kill(now, done, total):
        if now == phase and left:
            killed.append(left.pop())
            os.kill(killed[0], signal.SIGKILL)

    return kill, killed


@pytest.mark.parametrize(("kind", "phase"), [("chunks", "shards"), ("chunks", "moves"), ("files", "moves")])
def test_a_killed_worker_does_not_change_the_result(
    fragile_client, small_shards, tmp_path, X, solve_here, assert_same, phase, kind
):
    features = da.from_array(X, chunks=(60, 8))
    if kind == "files":
        features = tmp_path / "x.npy"
        np.save(features, X)
    kill, killed = kill_a_worker(fragile_client, phase)
    limit = memory_for(60, 8)
    found = dense_multicut(features, 0.3, client=fragile_client, memory_limit=limit, callback=kill)
    assert len(killed) == 1
    assert_same(found, solve_here(X, (60,) * 5, threshold=0.3, memory_limit=limit))


def test_a_worker_may_be_killed_while_there_are_many_clusters(fragile_client, many_clusters, assert_same):
    path, options = many_clusters
    kill, killed = kill_a_worker(fragile_client, "moves")
    found = dense_multicut(path, client=fragile_client, callback=kill, **options)
    assert len(killed) == 1
    assert found.trace[-1].join_optimal
    assert_same(found, dense_multicut(path, **options))


def kill_at_the_last_chunk(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_task_that_kills_its_workers_is_one_error(fragile_client, X):
    chunks = da.from_array(X, chunks=(100, 8))
    deadly = chunks.map_blocks(kill_at_the_last_chunk, dtype=X.dtype)
    with pytest.raises(ConnectionError, match=r"workers die at the same task .*memory") as caught:
        dense_multicut(deadly, 0.3, client=fragile_client)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("phase", ["shards", "moves"])
def test_a_run_continues_after_a_lost_scheduler(
    client, small_shards, tmp_path, X, start_processes, solve_here, phase
):
    """The error is one line, and a checkpoint keeps the finished work."""
    chunks, limit = da.from_array(X, chunks=(60, 8)), memory_for(60 if phase == "moves" else 300, 8)
    options = {"threshold": 0.3, "memory_limit": limit, "checkpoint": tmp_path / "kept"}
    seen = []

    def kill(now, done, total):
        seen.append(now)
        if seen.count(phase) == 2:
            scheduler.kill()

    with (
        start_processes() as (address, scheduler),
        dask.config.set(SOON),
        Client(address, set_as_default=False) as doomed,
        pytest.raises(
            ConnectionError, match="start it again and repeat the call; with a checkpoint"
        ) as caught,
    ):
        dense_multicut(chunks, client=doomed, callback=kill, **options)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert ("state.npz" in kept) == (phase == "moves")
    seen.clear()
    found = dense_multicut(chunks, client=client, callback=lambda now, *_: seen.append(now), **options)
    assert ("shards" in seen) == (phase == "shards")
    expected = solve_here(X, (60,) * 5, threshold=0.3, memory_limit=limit)
    np.testing.assert_array_equal(found.labels, expected.labels)


def test_a_scheduler_that_is_lost_during_block_joins_is_one_line(
    monkeypatch, many_clusters, start_processes
):
    waits, wait = [], DaskEngine.wait
    path, options = many_clusters

    def kill(self, submitted):
        if not waits:
            scheduler.kill()
        waits.append(submitted)
        wait(self, submitted)

    monkeypatch.setattr(DaskEngine, "wait", kill)
    with (
        start_processes() as (address, scheduler),
        dask.config.set(SOON),
        Client(address, set_as_default=False) as doomed,
        pytest.raises(ConnectionError, match="is gone: start it again and repeat the call") as caught,
    ):
        dense_multicut(path, client=doomed, **options)
    assert waits
    assert "\n" not in str(caught.value)


# The command line


def test_the_command_continues_after_a_lost_scheduler(cluster, tmp_path, rng, start_processes, command):
    np.save(tmp_path / "x.npy", mixture(rng, 3000, 20, noise=0.9)[0].astype(np.float32))
    options = ("-t", 0.4, "--memory-limit", "600kB", "--checkpoint", "kept", "-o", "labels.npy")
    arguments = ("cluster", "x.npy", *options)
    with start_processes() as (address, scheduler):
        soon = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s"}
        process = command(*arguments, "--scheduler", address, environment=soon)
        while not list((tmp_path / "kept").glob("shard-*.npz")) and process.poll() is None:
            time.sleep(0.005)
        scheduler.kill()
        out, err = process.communicate(timeout=600)
    assert process.returncode == 2
    assert err.startswith(f"clusterfug: error: the scheduler at {address} is gone: start it again")
    assert err.count("\n") == 1
    assert out == ""
    assert not (tmp_path / "labels.npy").exists()
    assert (tmp_path / "kept" / "run.json").exists()
    process = command(*arguments, "--scheduler", cluster.scheduler_address)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (0, "")
    assert "3,000" in out
    expected = dense_multicut(tmp_path / "x.npy", 0.4, memory_limit=600_000)
    assert expected.trace[0].name == "shards"
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), expected.labels)


def test_the_command_says_in_one_line_that_workers_die(tmp_path, X, start_processes, command):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "deadly.py").write_text(
        "import os\nfrom clusterfug.execution.sharded.source import FileRows\n"
        "FileRows.read = lambda self: os._exit(1)\n"
    )
    with start_processes(allowed_failures=0, preload=tmp_path / "deadly.py") as (address, _):
        process = command("cluster", "x.npy", "-t", 0.4, "--scheduler", address, "-o", "labels.npy")
        out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (2, "")
    assert not (tmp_path / "labels.npy").exists()
    assert err.startswith("clusterfug: error: workers die at the same task")
    assert err.count("\n") == 1


@pytest.mark.parametrize("kept", [False, True])
def test_a_full_disk_leaves_nothing_behind(cluster, tmp_path, rng, command, kept):
    np.save(tmp_path / "x.npy", mixture(rng, 2000, 8, noise=0.9)[0].astype(np.float32))

    def limit_file_size():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    arguments = [
        "cluster",
        "x.npy",
        "-t",
        0.4,
        "--scheduler",
        cluster.scheduler_address,
        "-o",
        "labels.npy",
    ]
    arguments += ["--checkpoint", "kept"] if kept else []
    still = {"PYTHONDONTWRITEBYTECODE": "1"}
    process = command(*arguments, environment=still, preexec_fn=limit_file_size)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} - {"x.npy"}
    assert left == ({"kept", "kept/lock", "kept/run.json"} if kept else set())
    assert "labels.npy" in err or "kept" in err
