"""On a dask cluster: the same answers as here, also if workers die; errors that say what to do."""

import doctest
import logging
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import dask
import dask.array as da
import numpy as np
import pyarrow
import pytest
from clusterfug.options import Task
from distributed import Client, LocalCluster
from pyarrow import parquet

from clusterfug import DenseProblem, GraphProblem, SolveManyError
from clusterfug import dense_multicut as dense_multicut_here
from clusterfug import solve_many as solve_many_here
from clusterfug.execution import dask as distributed
from clusterfug.execution.dask import cluster as cluster_module
from clusterfug.execution.dask import dense_multicut, solve_many
from clusterfug.execution.dask.cluster import Cluster, keeping_memory
from clusterfug.execution.sharded import source, tasks
from clusterfug.execution.sharded.engine import Here
from clusterfug.execution.sharded.solve import solve_files, solve_rows
from clusterfug.execution.sharded.source import Files, solve_bytes

N, D, ITEMS = 300, 8, 75
QUIET = {"distributed.scheduler.allowed-failures": 1, "distributed.comm.timeouts.connect": "20s"}


@pytest.fixture(scope="module")
def cluster():
    """Two processes."""
    with (
        dask.config.set(QUIET),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address=None,
            host="127.0.0.1",
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
        yield client


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of few items, where this process decides on them."""
    monkeypatch.setattr(source, "LEAST", 8)


@pytest.fixture(scope="module", name="X")
def overlapping_clusters():
    return mixture(np.random.default_rng(0), N)


def mixture(rng, n, clusters=8, d=D):
    """Features of clusters that overlap: items move after their shards are solved."""
    centres = rng.normal(size=(clusters, d))
    Z = centres[rng.integers(clusters, size=n)] + 0.7 * rng.normal(size=(n, d))
    return (Z / np.linalg.norm(Z, axis=1, keepdims=True)).astype(np.float32)


def limit(items, d=D):
    """Memory for so many items at a time."""
    return items * solve_bytes(1, d)


def folder_of(path, X, sizes):
    """A folder of .parquet files with so many rows each."""
    path.mkdir()
    for t, part in enumerate(np.split(X, np.cumsum(sizes)[:-1])):
        write_parquet(path / f"part-{t}.parquet", part)
    return path


def write_parquet(path, X):
    parquet.write_table(pyarrow.table({"features": list(X)}), path)


def here(X, sizes, most=source.MOST, metric="inner_product", center=False, **options):
    """What the same shards give in this process."""
    stops = np.cumsum([size for size in sizes if size])
    rows = [(a, b, X[a:b]) for a, b in zip([0, *map(int, stops)], map(int, stops), strict=False)]
    return solve_rows(rows, Task(**options), Here(), metric, center, most, "", None)


def assert_same(found, expected):
    np.testing.assert_array_equal(np.asarray(found.labels), expected.labels)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12, abs=1e-9)
    assert found.inside == pytest.approx(expected.inside, rel=1e-12, abs=1e-9)
    assert [phase.name for phase in found.trace] == [phase.name for phase in expected.trace]
    assert found.n_clusters == expected.n_clusters
    assert 1 < found.n_clusters < N / 2  # there was something to decide


MANY = {"threshold": 0.7, "memory_limit": limit(30)}


@pytest.fixture(name="many")
def many_clusters(tmp_path):
    """A file of items in three times as many clusters as a task may have."""
    path = tmp_path / "many.npy"
    np.save(path, mixture(np.random.default_rng(1), N, 120))
    return path


# --- The same answers as here -----------------------------------------------------------------------


@pytest.mark.large
@pytest.mark.parametrize(
    ("kind", "algorithm"), [("npy", "auto"), ("npy", "fast"), ("folder", "auto"), ("list", "fast")]
)
def test_files_give_the_labels_that_they_give_here(client, small_shards, tmp_path, X, kind, algorithm):
    where = tmp_path / "x.npy"
    np.save(where, X)
    if kind != "npy":
        where = folder_of(tmp_path / "parts", X, (100, 7, 93, 100))
    if kind == "list":
        where = [str(path) for path in sorted(where.iterdir(), reverse=True)]
    options = {"algorithm": algorithm, "memory_limit": limit(ITEMS)}
    assert_same(
        dense_multicut(where, 0.3, client=client, **options), dense_multicut_here(where, 0.3, **options)
    )


@pytest.mark.large
@pytest.mark.parametrize("killed", [False, True])
def test_more_clusters_than_a_task_may_have(client, small_shards, many, killed):
    left = list(client.run(os.getpid).values())[:1] if killed else []

    def kill(now, done, total):
        if now == "moves" and left:
            os.kill(left.pop(), signal.SIGKILL)

    found = dense_multicut(many, client=client, callback=kill, **MANY)
    assert not left
    assert found.n_clusters > 3 * 30
    assert found.trace[-1].join_optimal
    assert_same(found, dense_multicut_here(many, **MANY))
    client.wait_for_workers(2, timeout=60)


@pytest.mark.large
def test_what_began_here_ends_on_a_cluster(client, small_shards, monkeypatch, tmp_path, many):
    """Stopped among the pools, which the two make in another order."""
    whole, join, calls = dense_multicut_here(many, **MANY), tasks.join, []

    def stop(*arguments):
        calls.append(arguments)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return join(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "join", stop)
        with pytest.raises(KeyboardInterrupt):
            dense_multicut_here(many, checkpoint=tmp_path / "kept", **MANY)
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert any(name.startswith("pool-") for name in kept)
    assert "place.npz" not in kept
    assert_same(dense_multicut(many, client=client, checkpoint=tmp_path / "kept", **MANY), whole)


def faults_of_fresh_arrays():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(1 << 17)  # too small for a huge page
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.large
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators are left alone")
def test_workers_keep_the_memory_of_a_task_until_its_end(client):
    for _ in range(2):  # not longer than that
        plain = client.submit(faults_of_fresh_arrays, pure=False).result()
        ours = Cluster(client).submit(faults_of_fresh_arrays).result()
        assert ours < plain / 5


def test_memory_is_left_alone_where_dask_does_not_set_it(monkeypatch):
    def nobody():
        raise AssertionError

    monkeypatch.setattr(cluster_module, "_glibc", nobody)
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    assert keeping_memory(max, 1, 2) == 2


@pytest.mark.large
def test_what_fits_in_one_task_is_polished_as_here(client, tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    chunks, inside = da.from_array(X, chunks=(100, D)), {}
    for algorithm in ("fast", "auto"):
        told = {"threshold": 0.6, "algorithm": algorithm}
        found = dense_multicut(tmp_path / "x.npy", client=client, **told)
        assert [phase.name for phase in found.trace] == ["refinement"]
        assert_same(found, here(X, (N,), **told))
        np.testing.assert_array_equal(found.labels, dense_multicut_here(X, **told).labels)
        assert found.inside == pytest.approx(DenseProblem(X, 0.6).inside(found.labels))
        pooled = dense_multicut(chunks, client=client, **told)
        assert [phase.name for phase in pooled.trace] == ["shards", "refinement"]
        assert_same(pooled, here(X, (100, 100, 100), **told))
        inside[algorithm] = np.array([found.inside, pooled.inside])
    assert np.all(inside["auto"] > inside["fast"])


@pytest.mark.large
@pytest.mark.parametrize(
    "chunks",
    [
        ((75,) * 4, (D,)),
        ((1, 150, 49, 100), (D,)),
        ((100, 100, 100), (3, 4, 1)),
        ((100, 0, 150, 0, 50), (D,)),
    ],
    ids=["even", "uneven", "columns", "empty"],
)
def test_every_chunk_of_rows_is_a_shard(client, X, chunks):
    found = dense_multicut(da.from_array(X, chunks=chunks), 0.3, client=client)
    assert isinstance(found.labels, da.Array)
    assert found.labels.chunks == (chunks[0],)
    assert found.labels.dtype == np.int64
    assert_same(found, here(X, chunks[0], threshold=0.3))


@pytest.mark.large
def test_chunks_that_are_too_large_are_cut(client, monkeypatch, X):
    monkeypatch.setattr(source, "MOST", 80)
    found = dense_multicut(da.from_array(X, chunks=((110, 190), (4, 4))), 0.6, client=client)
    sizes = (80, 30, 80, 80, 30)
    assert_same(found, here(X, sizes, 80, threshold=0.6))
    assert found.labels.chunks == ((110, 190),)
    assert found.inside < here(X, sizes, threshold=0.6).inside  # they do not fit in one task: no polish


@pytest.mark.large
def test_memory_limit_says_how_many_items_are_in_a_shard(client, small_shards, tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    found = dense_multicut(da.from_array(X, chunks=(N, D)), 0.3, client=client, memory_limit=limit(ITEMS))
    assert_same(found, dense_multicut_here(tmp_path / "x.npy", 0.3, memory_limit=limit(ITEMS)))


def costs_of_all_kinds():
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 3, size=N).astype(float)
    alpha = rng.uniform(0.4, 0.7, size=N)
    return {
        "cosine": {"metric": "cosine", "threshold": 0.3},
        "centre": {"center": True, "threshold": 0.2},
        "all": {"metric": "cosine", "center": True, "sample_weight": weight, "alpha": alpha},
        "weights": {"threshold": 0.3, "sample_weight": weight},
        "alpha": {"alpha": alpha},
        "large": {"alpha": 0.3, "prefer": "large", "center": True},
        "init": {"threshold": 0.3, "init": rng.integers(20, size=N)},
    }


@pytest.mark.large
@pytest.mark.parametrize("kind", costs_of_all_kinds())
def test_costs_of_all_kinds(client, small_shards, tmp_path, X, kind):
    options = costs_of_all_kinds()[kind]
    Z = (3 * X + 0.1) if kind in ("cosine", "all") else X
    metric, center = options.get("metric", "inner_product"), options.get("center", False)
    told = {key: value for key, value in options.items() if key not in ("metric", "center")}
    sizes = (120, 1, 179)
    of_chunks = dense_multicut(da.from_array(Z, chunks=(sizes, (D,))), client=client, **options)
    expected = here(Z, sizes, metric=metric, center=center, **told)
    np.testing.assert_array_equal(of_chunks.labels, expected.labels)
    assert of_chunks.objective == pytest.approx(expected.objective)
    np.save(tmp_path / "x.npy", Z)
    options["memory_limit"] = told["memory_limit"] = limit(ITEMS)
    of_files = dense_multicut(tmp_path / "x.npy", client=client, **options)
    assert_same(of_files, solve_files(Files(tmp_path / "x.npy"), Task(**told), None, metric, center))
    if kind == "init":
        assert of_files.trace[0].name == "refinement"
    W = Z - np.average(Z, axis=0, weights=told.get("sample_weight")) if center else Z
    if metric == "cosine":
        W = W / np.linalg.norm(W, axis=1, keepdims=True)
    costs = {key: value for key, value in told.items() if key not in ("init", "memory_limit")}
    assert of_files.objective == pytest.approx(
        DenseProblem(W, **costs).objective(of_files.labels), rel=1e-4
    )


@pytest.mark.large
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8])
def test_numbers_of_other_types(client, X, dtype):
    Z = (100 * X).astype(dtype) if dtype == np.int8 else X.astype(dtype)
    options = {"threshold": 3000.0 if dtype == np.int8 else 0.3}
    found = dense_multicut(da.from_array(Z, chunks=(100, D)), client=client, **options)
    assert_same(found, here(Z, (100, 100, 100), **options))


@pytest.mark.large
def test_the_client_that_is_there_or_an_address_does_as_well(client, cluster, X):
    chunks = da.from_array(X, chunks=(100, D))
    expected = here(X, (100, 100, 100), threshold=0.3)
    with client.as_current():
        assert_same(dense_multicut(chunks, 0.3), expected)
    assert_same(dense_multicut(chunks, 0.3, client=cluster.scheduler_address), expected)
    assert_same(dense_multicut(chunks, 0.3, client=client), expected)
    assert client.status == "running"  # what was given is not closed


@pytest.mark.large
def test_progress_is_told(client, small_shards, X):
    for items in (N, 100):
        seen = []
        dense_multicut(
            da.from_array(X, chunks=(100, D)),
            0.3,
            client=client,
            memory_limit=limit(items),
            callback=lambda *call: seen.append(call),  # noqa: B023
        )
        assert seen[:3] == [("shards", n, N) for n in (100, 200, 300)]
        assert seen[3:6] == [("moves", n, N) for n in (100, 200, 300) if items < N]
        assert {name for name, *_ in seen[6:]} <= {"moves"}


@pytest.mark.large
def test_time_limit_ends_moves_only(client, X):
    found = dense_multicut(da.from_array(X, chunks=(100, D)), 0.3, client=client, time_limit=0)
    assert [phase.name for phase in found.trace] == ["shards", "refinement"]
    assert not found.trace[-1].move_optimal
    assert found.inside == pytest.approx(DenseProblem(X, 0.3).inside(found.labels.compute()))


# --- Workers come and go ----------------------------------------------------------------------------


@pytest.mark.large
def test_answers_do_not_depend_on_workers(client, cluster, small_shards, X):
    """In one task at the end, or in rounds of moves."""
    chunks, found = da.from_array(X, chunks=((1, 150, 49, 100), (D,))), {N: [], 150: []}

    def solve(client):
        for items, results in found.items():
            results.append(dense_multicut(chunks, 0.3, client=client, memory_limit=limit(items)))

    solve(client)
    cluster.scale(3)
    try:
        client.wait_for_workers(3, timeout=60)
        solve(client)
    finally:
        cluster.scale(2)
    with (
        LocalCluster(n_workers=1, threads_per_worker=4, processes=False, dashboard_address=":0") as threads,
        Client(threads, set_as_default=False) as other,
    ):
        solve(other)
    for items, (two, three, four) in found.items():
        for result in (two, three, four):
            assert_same(result, here(X, (1, 150, 49, 100), items, threshold=0.3))
            np.testing.assert_array_equal(result.labels, two.labels)
            assert (result.objective, result.inside) == (two.objective, two.inside)  # to the bit


@pytest.mark.large
@pytest.mark.parametrize("phase", ["shards", "moves"])
@pytest.mark.parametrize("kind", ["chunks", "files"])
def test_a_worker_that_is_killed_does_not_matter(client, small_shards, tmp_path, X, phase, kind):
    pids = client.run(os.getpid)
    killed = []

    def kill(now, done, total):
        if now == phase and not killed:
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)

    given = da.from_array(X, chunks=(60, D))
    if kind == "files":
        given = tmp_path / "x.npy"
        np.save(given, X)
    found = dense_multicut(given, 0.3, client=client, memory_limit=limit(60), callback=kill)
    assert len(killed) == 1
    assert_same(found, here(X, (60,) * 5, 60, threshold=0.3))
    client.wait_for_workers(2, timeout=60)
    assert killed[0] not in client.run(os.getpid).values()


def deadly_at_the_end(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.large
def test_a_task_that_kills_its_workers_is_one_error(client, X):
    chunks = da.from_array(X, chunks=(100, D)).map_blocks(deadly_at_the_end, dtype=X.dtype)
    with pytest.raises(ConnectionError, match=r"workers die at the same task .*memory") as caught:
        dense_multicut(chunks, 0.3, client=client)
    assert "\n" not in str(caught.value)
    client.wait_for_workers(2, timeout=60)
    found = dense_multicut(da.from_array(X, chunks=(100, D)), 0.3, client=client)
    assert_same(found, here(X, (100, 100, 100), threshold=0.3))


# --- The scheduler is lost --------------------------------------------------------------------------


@contextmanager
def processes(folder, allowed_failures=3, preload=None):
    """A scheduler and a worker, as processes of their own; its address and its process."""
    file = folder / "scheduler.json"
    quiet = os.environ | {
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / "log.txt").open("w") as log:

        def start(name, *arguments):
            command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--scheduler-file", str(file)]
            command += ["--host", "127.0.0.1", "--no-dashboard", *arguments]
            return subprocess.Popen(command, stdout=log, stderr=log, env=quiet, cwd=folder)

        started = [start("scheduler", "--port", "0")]
        try:
            extra = ["--preload", str(preload)] if preload else []
            started.append(start("worker", "--nthreads", "1", "--no-nanny", *extra))
            with Client(scheduler_file=str(file), set_as_default=False, timeout=60) as client:
                client.wait_for_workers(1, timeout=60)
                address = client.scheduler.address
            yield address, started[0]
        finally:
            for process in reversed(started):
                process.kill()
                process.wait(timeout=60)


@pytest.mark.large
@pytest.mark.parametrize("phase", ["shards", "moves"])
def test_a_lost_scheduler_is_one_line_and_a_checkpoint_goes_on(client, small_shards, tmp_path, X, phase):
    chunks, items = da.from_array(X, chunks=(60, D)), 60 if phase == "moves" else N
    options = {"threshold": 0.3, "memory_limit": limit(items), "checkpoint": tmp_path / "kept"}
    seen = []

    def kill(now, done, total):
        seen.append(now)
        if seen.count(phase) == 2:
            scheduler.kill()

    with (
        processes(tmp_path) as (address, scheduler),
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        Client(address, set_as_default=False) as doomed,
        pytest.raises(
            ConnectionError, match="start it again and repeat the call; with a checkpoint"
        ) as caught,
    ):
        dense_multicut(chunks, client=doomed, callback=kill, **options)
    assert address in str(caught.value)
    assert "\n" not in str(caught.value)
    kept = {path.name for path in (tmp_path / "kept").iterdir()}
    assert ("place.npz" in kept) == (phase == "moves")
    seen.clear()
    found = dense_multicut(chunks, client=client, callback=lambda now, *_: seen.append(now), **options)
    assert ("shards" in seen) == (phase == "shards")
    np.testing.assert_array_equal(found.labels, here(X, (60,) * 5, items, threshold=0.3).labels)


@pytest.mark.large
def test_a_scheduler_that_is_lost_while_clusters_are_gathered(small_shards, monkeypatch, tmp_path, many):
    waits, wait = [], Cluster.wait

    def kill(self, submitted):
        if not waits:
            scheduler.kill()
        waits.append(submitted)
        wait(self, submitted)

    monkeypatch.setattr(Cluster, "wait", kill)
    with (
        processes(tmp_path) as (address, scheduler),
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        Client(address, set_as_default=False) as doomed,
        pytest.raises(ConnectionError, match="is gone: start it again and repeat the call") as caught,
    ):
        dense_multicut(many, client=doomed, **MANY)
    assert waits
    assert "\n" not in str(caught.value)


@pytest.mark.large
@pytest.mark.parametrize(
    "kind",
    ["files", "chunks"],
)
def test_a_checkpoint_is_for_the_same_features_only(client, small_shards, tmp_path, X, kind):
    options = {
        "threshold": 0.3,
        "client": client,
        "memory_limit": limit(100),
        "checkpoint": tmp_path / "kept",
    }

    def given(Z):
        np.save(tmp_path / "x.npy", Z)
        return tmp_path / "x.npy" if kind == "files" else da.from_array(Z, chunks=(100, D))

    dense_multicut(given(X), **options, time_limit=0)
    with pytest.raises(ValueError, match=r"kept is the checkpoint of another run \(other features\)"):
        dense_multicut(given(X[::-1].copy()), **options)


def command(*arguments, **options):
    """Run the command line as a process of its own."""
    process = [sys.executable, "-c", "from clusterfug.cli import main; main()", *map(str, arguments)]
    return subprocess.Popen(process, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.large
def test_the_command_line_goes_on_after_a_lost_scheduler(cluster, tmp_path, rng):
    Z = mixture(rng, 4000, 20)
    np.save(tmp_path / "x.npy", Z)
    told = (
        "cluster",
        "x.npy",
        "-t",
        0.4,
        "--memory-limit",
        "600kB",
        "--checkpoint",
        "kept",
        "-o",
        "labels.npy",
    )
    soon = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s"}
    with processes(tmp_path) as (address, scheduler):
        process = command(*told, "--scheduler", address, cwd=tmp_path, env=soon)
        while not list((tmp_path / "kept").glob("shard-*.npy")) and process.poll() is None:
            time.sleep(0.005)
        scheduler.kill()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    *noise, last = err.splitlines()
    assert last.startswith(f"clusterfug: error: the scheduler at {address} is gone: start it again")
    assert out == ""
    assert not (tmp_path / "labels.npy").exists()
    assert (tmp_path / "kept" / "run.json").exists()
    process = command(*told, "--scheduler", cluster.scheduler_address, cwd=tmp_path)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert "4,000" in out
    task = Task(threshold=0.4, memory_limit=600_000)
    expected = solve_files(Files(tmp_path / "x.npy"), task, None, "cosine")
    assert expected.trace[0].name == "shards"
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), expected.labels)
    assert noise == []


@pytest.mark.large
def test_the_command_line_says_in_one_line_that_workers_die(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "deadly.py").write_text(
        "import os\nfrom clusterfug.execution.sharded.source import Stretch\n"
        "Stretch.read = lambda self: os._exit(1)\n"
    )
    with processes(tmp_path, allowed_failures=0, preload=tmp_path / "deadly.py") as (address, _):
        process = command(
            "cluster", "x.npy", "-t", 0.4, "--scheduler", address, "-o", "labels.npy", cwd=tmp_path
        )
        out, err = process.communicate(timeout=60)
    assert out == ""
    assert process.returncode != 0
    assert not (tmp_path / "labels.npy").exists()
    assert process.returncode == 2
    assert err.startswith("clusterfug: error: workers die at the same task")
    assert err.count("\n") == 1


# --- Files and disks --------------------------------------------------------------------------------


@pytest.mark.large
@pytest.mark.parametrize(
    "how",
    [
        "broken",
        "removed",
        "folder",
        "shorter",
    ],
)
def test_a_file_that_cannot_be_read_any_more_is_named(client, small_shards, tmp_path, X, how):
    files = Files(folder_of(tmp_path / "parts", X, (100, 100, 100)))
    bad = tmp_path / "parts" / "part-1.parquet"
    content = bad.read_bytes()
    bad.unlink()
    if how == "broken":
        bad.write_bytes(content[: len(content) // 2])
    elif how == "shorter":
        write_parquet(bad, X[:10])
    elif how == "folder":
        bad.mkdir()
    task = Task(threshold=0.3, memory_limit=limit(50))
    with pytest.raises((ValueError, OSError), match=r"part-1\.parquet") as caught:
        solve_files(files, task, Cluster(client))
    assert "\n" not in str(caught.value)


@pytest.mark.large
@pytest.mark.parametrize("center", [False, True])
def test_a_file_with_bad_numbers_is_named(client, small_shards, tmp_path, X, center):
    Z = X.copy()
    Z[260, 3] = np.nan
    folder = folder_of(tmp_path / "parts", Z, (100, 100, 100))
    with pytest.raises(ValueError, match=r"part-2.parquet has a value that is not finite: nan in row 60,"):
        dense_multicut(folder, 0.3, client=client, memory_limit=limit(50), center=center)


@pytest.mark.large
def test_bad_numbers_in_a_chunk_are_found(client, X):
    Z = X.copy()
    Z[260, 3] = np.inf
    with pytest.raises(ValueError, match=r"X has a value that is not finite: inf in row 260, column 3"):
        dense_multicut(da.from_array(Z, chunks=(100, D)), 0.3, client=client)


@pytest.mark.large
@pytest.mark.parametrize("kept", [False, True])
def test_a_full_disk_leaves_nothing_behind(cluster, tmp_path, rng, kept):
    np.save(tmp_path / "x.npy", mixture(rng, 2000))

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))

    told = ["cluster", "x.npy", "-t", 0.4, "--scheduler", cluster.scheduler_address, "-o", "labels.npy"]
    told += ["--checkpoint", "kept"] if kept else []
    still = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    process = command(*told, cwd=tmp_path, env=still, preexec_fn=little_room)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} - {"x.npy"}
    assert left == ({"kept", "kept/lock", "kept/run.json"} if kept else set())
    assert "labels.npy" in err or "kept" in err


# --- Many problems ----------------------------------------------------------------------------------


@pytest.fixture
def features(rng):
    centres = rng.normal(size=(6, 8))
    sizes = (5, 60, 1, 33, 120)
    return [centres[rng.integers(6, size=n)] + 0.3 * rng.normal(size=(n, 8)) for n in sizes]


@pytest.fixture
def as_default(client):
    """The client is the one that is there already."""
    with client.as_current():
        yield client


def assert_all_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
        assert one.objective == pytest.approx(other.objective, rel=1e-12)
        assert one.algorithm == other.algorithm


@pytest.mark.large
@pytest.mark.parametrize("batch", [1, 3000, 10_000_000])
def test_many_problems_give_the_results_that_they_give_here(as_default, monkeypatch, features, batch):
    monkeypatch.setattr(distributed.many, "_BATCH", batch)
    graph = GraphProblem([[0, 1], [1, 2]], [1.0, -2.0])
    problems = [*features, graph, DenseProblem(features[1], 0.9)]
    seen = []
    found = solve_many(problems, client=as_default, callback=lambda *call: seen.append(call))
    assert_all_same(found, solve_many_here(problems))
    sizes = {1: [1] * 7, 3000: [1, 1, 1, 4], 10_000_000: [7]}[batch]  # 120, 60, 60 and the others
    assert sorted(np.diff([0, *(done for _, done, _ in seen)])) == sizes
    assert {(name, total) for name, _, total in seen} == {("problems", 7)}


@pytest.mark.large
@pytest.mark.parametrize("algorithm", ["fast", "dgaec-inc"])
def test_many_problems_take_options(as_default, features, algorithm):
    options = {"threshold": 0.2, "algorithm": algorithm}
    assert_all_same(solve_many(features, **options), solve_many_here(features, **options))


@pytest.mark.large
def test_a_generator_has_a_child_for_each_problem(as_default, monkeypatch, rng):
    monkeypatch.setattr(distributed.many, "_BATCH", 1)
    pairs = np.stack(np.triu_indices(200, 1), axis=1)
    graphs = [GraphProblem(pairs, rng.choice([-1.0, 1.0], size=len(pairs))) for _ in range(3)]

    def seeded(seed):
        return {"algorithm": "best", "max_iter": 1, "random_state": np.random.default_rng(seed)}

    found = solve_many(graphs, **seeded(5))
    assert_all_same(found, solve_many_here(graphs, **seeded(5)))
    assert not np.array_equal(found[0].labels, solve_many(graphs, **seeded(6))[0].labels)  # seeds matter


@pytest.mark.large
def test_many_problems_on_a_client_that_is_not_the_default(client, features):
    assert_all_same(solve_many(features, client=client), solve_many_here(features))


def test_the_largest_problems_are_submitted_first(monkeypatch, features):
    monkeypatch.setattr(distributed.many, "_BATCH", 3000)
    graph = GraphProblem([[0, 1], [1, 2]], [1.0, -2.0])
    assert distributed.many._batches([*features, graph, None]) == [[4], [1], [3, 0, 5, 2, 6]]


@pytest.mark.large
def test_failed_problems_are_named_and_the_others_are_solved(as_default, monkeypatch, features):
    monkeypatch.setattr(distributed.many, "_BATCH", 3000)
    features[3][2, 1] = np.nan
    named = {f"image {t}": X for t, X in enumerate(features)} | {"none": None}
    seen = []
    with pytest.raises(SolveManyError, match=r"2 of 6 problems failed.*'image 3': .*not finite") as caught:
        solve_many(named, threshold=0.5, client=as_default, callback=lambda *call: seen.append(call))
    assert list(caught.value.errors) == ["image 3", "none"]
    assert [result is None for result in caught.value.results] == [False, False, False, True, False, True]
    good = [t for t in range(5) if t != 3]
    expected = solve_many_here([features[t] for t in good], threshold=0.5)
    assert_all_same([caught.value.results[t] for t in good], expected)
    assert seen[-1] == ("problems", 6, 6)


@pytest.mark.large
def test_nothing_to_solve_is_no_error(client, cluster):
    assert solve_many([], client=client) == []
    assert solve_many({}, client=cluster.scheduler_address) == []


class Deadly:
    """A problem that nobody survives who looks at it."""

    def __len__(self):
        return 3

    def __array__(self, *_, **__):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.large
def test_a_problem_that_kills_its_workers_fails_alone(as_default, features):
    with pytest.raises(SolveManyError, match=r"workers die at the same task") as caught:
        solve_many([*features, Deadly()], client=as_default)
    assert list(caught.value.errors) == [len(features)]
    for found, X in zip(caught.value.results, features, strict=False):
        np.testing.assert_array_equal(found.labels, dense_multicut_here(X).labels)


@pytest.mark.large
def test_many_problems_and_a_lost_scheduler(tmp_path, monkeypatch, features):
    monkeypatch.setattr(distributed.many, "_BATCH", 1)
    with (
        processes(tmp_path) as (address, scheduler),
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        pytest.raises(ConnectionError, match="is gone: start it again") as caught,
    ):
        solve_many(features * 10, client=address, callback=lambda *_: scheduler.kill())
    assert address in str(caught.value)


# --- Errors before any work -------------------------------------------------------------------------


def forbidden(*_):
    pytest.fail("there was work")


@pytest.fixture
def saved(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(4))
    return tmp_path / "x.npy"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "best"}, "shards are solved by fast and auto, not by best"),
        ({"algorithm": "gaec"}, "shards are solved by fast and auto, not by gaec"),
        ({"algorithm": "magic"}, "unknown algorithm 'magic'"),
        ({"threshold": "local"}, "a local threshold looks at the neighbours of all items"),
        ({"threshold": "auto"}, "a local threshold looks at the neighbours of all items"),
        ({"threshold": np.nan}, "threshold must be"),
        ({"time_limit": -1}, "time_limit must be"),
        ({"memory_limit": "lots"}, "memory_limit"),
        ({"bound": True}, "unexpected keyword argument 'bound'"),
    ],
)
def test_bad_options_fail_before_anybody_is_asked(saved, options, message):
    for X in (saved, da.ones((4, 2))):
        with pytest.raises((ValueError, TypeError), match=message):
            dense_multicut(X, **options, client="tcp://127.0.0.1:1", callback=forbidden)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.eye(3), TypeError, "X must be a dask array or a path, not ndarray: use dask.array.from_array"),
        ([[1.0, 2.0]], TypeError, "X must be a dask array or a path, not list"),
        (None, TypeError, "X must be a dask array or a path, not NoneType"),
        (da.ones(4), ValueError, "X must be 2-D"),
        (da.ones((0, 4)), ValueError, "X has no rows"),
        (da.ones((4, 0)), ValueError, "X has no columns"),
        (
            da.ones((4, 2))[da.ones(4) > 0],
            ValueError,
            r"unknown size: call X.compute_chunk_sizes\(\) first",
        ),
        ("no such file.npy", FileNotFoundError, "no such file.npy does not exist"),
        ("x.csv", FileNotFoundError, "x.csv does not exist"),
    ],
)
def test_what_is_no_dask_array_and_no_path_fails_before_anybody_is_asked(X, error, message):
    with pytest.raises(error, match=message):
        dense_multicut(X, client="tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    ("client", "error", "message"),
    [
        (None, ValueError, r"there is no dask client: give client=distributed.Client\(\), or the address"),
        (7, TypeError, "client must be a distributed.Client or a scheduler's address, not 7"),
        (
            "tcp://127.0.0.1:1",
            ConnectionError,
            "there is no scheduler at tcp://127.0.0.1:1: is it running?",
        ),
    ],
)
def test_a_client_that_is_none(saved, client, error, message):
    with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
        for call in (
            lambda: dense_multicut(saved, client=client, callback=forbidden),
            lambda: dense_multicut(da.ones((4, 2)), client=client, callback=forbidden),
            lambda: solve_many([np.eye(3)], client=client, callback=forbidden),
        ):
            with pytest.raises(error, match=message) as caught:
                call()
            assert "\n" not in str(caught.value)


@pytest.mark.large
def test_options_that_need_the_number_of_items_fail_before_any_work(client, saved):
    for options, message in (
        ({"alpha": np.ones(3)}, "alpha must have one number per item"),
        ({"sample_weight": -np.ones(4)}, "sample_weight must be finite and not negative"),
        ({"init": [0, 1]}, "init must have one entry per item"),
        ({"metric": "l2"}, "unknown metric 'l2'"),
        ({"center": "yes"}, "center must be True or False"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            dense_multicut(saved, client=client, callback=forbidden, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_jobs": 2}, "unexpected keyword argument 'n_jobs'"),
        ({"checkpoint": "kept"}, "unexpected keyword argument 'checkpoint'"),
        ({"magic": 1}, "unexpected keyword argument 'magic'"),
        ({"algorithm": "magic"}, "unknown algorithm 'magic'"),
        ({"algorithm": "gaec", "time_limit": 1}, "time_limit goes with refinement"),
        ({"random_state": "x"}, "random_state must be a whole number"),
    ],
)
def test_bad_options_of_many_problems_fail_before_any_work(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        solve_many([np.eye(3)], client="tcp://127.0.0.1:1", callback=forbidden, **options)


def python(code, *arguments, **options):
    done = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(done, capture_output=True, text=True, timeout=60, **options)


def test_an_address_that_is_none_does_no_harm():
    code = (
        "import dask.array, faulthandler\n"
        "from clusterfug.execution.dask import dense_multicut\n"
        "X = dask.array.ones((4, 2))\n"
        "for client in ('localhost', 'http://127.0.0.1:1'):\n"
        "    try:\n        dense_multicut(X, client=client)\n"
        "    except ValueError as error:\n        print(error, flush=True)\n"
        "faulthandler.dump_traceback_later(3, exit=True)\n"
        "print(X.sum().compute())\n"
    )
    done = python(code)
    assert done.stdout.startswith("the address of a scheduler is like tcp://host:8786, not 'localhost'\n")
    assert done.stdout.endswith("\n8.0\n")


def test_without_dask_the_error_says_what_to_install(saved):
    gone = "import sys; sys.modules['distributed'] = None\n"
    done = python(gone + "import clusterfug.execution.dask")
    assert done.stderr.endswith("ImportError: a cluster needs dask: pip install 'clusterfug[dask]'\n")
    told = ("cluster", saved, "-t", "0.4", "--scheduler", "tcp://127.0.0.1:1")
    done = python(gone + "from clusterfug.cli import main; main()", *told)
    assert done.returncode == 2
    assert done.stderr == "clusterfug: error: a cluster needs dask: pip install 'clusterfug[dask]'\n"


# --- What is written is so --------------------------------------------------------------------------


@pytest.mark.large
def test_the_example_prints_what_it_says():
    examples = doctest.DocTestFinder().find(dense_multicut, "dense_multicut", globs={})
    runner = doctest.DocTestRunner()
    assert len(examples) == 1
    assert runner.run(examples[0]) == doctest.TestResults(failed=0, attempted=6)
