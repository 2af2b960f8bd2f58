"""A dask cluster of two processes for all modules of this folder, and results of this process."""

import logging
import os
import subprocess
import sys
from contextlib import contextmanager

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from makers import memory_for, unit

from clusterfug.costs.models import cost_model
from clusterfug.costs.preprocessing import Preprocessing
from clusterfug.execution.plan import Execution
from clusterfug.execution.sharded import source
from clusterfug.execution.sharded.engine import LocalEngine
from clusterfug.execution.sharded.solve import solve_rows
from clusterfug.problems.features import FeatureProblem
from clusterfug.solvers import make_solver

MINUTES = 600  # seconds: a limit for what takes seconds, on a machine that is busy


@contextmanager
def two_workers(connect="600s"):
    config = {"distributed.scheduler.allowed-failures": 1, "distributed.comm.timeouts.connect": connect}
    options = {"dashboard_address": ":0", "host": "127.0.0.1", "silence_logs": logging.CRITICAL}
    with dask.config.set(config), LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster():
    """Two workers that no test kills."""
    with two_workers() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def client(cluster):
    with Client(cluster, set_as_default=False, timeout=MINUTES) as client:
        client.wait_for_workers(2, timeout=MINUTES)
        yield client


@pytest.fixture
def fragile_client():
    """Two workers that a test kills; so connections to them are soon given up.

    Usually dask replaces them, but not one that is killed again before dask knows that it has started.
    """
    with (
        two_workers(connect="20s") as cluster,
        Client(cluster, set_as_default=False, timeout=MINUTES) as client,
    ):
        client.wait_for_workers(2, timeout=MINUTES)
        yield client


@pytest.fixture
def small_shards(monkeypatch):
    """Shards of few items, where this process decides on them."""
    monkeypatch.setattr(source, "MIN_SHARD_ITEMS", 8)


def overlapping(rng, n, clusters, d=8):
    """Items of length 1 in float32 in clusters that overlap: items move after their shards are solved."""
    centres = rng.normal(size=(clusters, d))
    return unit(centres[rng.integers(clusters, size=n)] + 0.7 * rng.normal(size=(n, d))).astype(np.float32)


@pytest.fixture(scope="session", name="X")
def overlapping_clusters():
    """300 items with 8 features."""
    return overlapping(np.random.default_rng(0), 300, 8)


@pytest.fixture
def many_clusters(tmp_path, small_shards):
    """A file of 160 items in about three times as many clusters as a task may have, and options for it."""
    path = tmp_path / "many.npy"
    np.save(path, overlapping(np.random.default_rng(1), 160, 70))
    return path, {"threshold": 0.7, "memory_limit": memory_for(16, 8)}


@pytest.fixture
def solve_here():
    """Solve rows in shards of given sizes in this process."""

    def solve_here(X, sizes, memory_limit=None, metric="cosine", center=False, **options):
        costs = {name: options.pop(name) for name in ("threshold", "alpha", "prefer") if name in options}
        weight = options.pop("sample_weight", None)
        stops = [int(stop) for stop in np.cumsum([size for size in sizes if size])]
        rows = [(a, b, X[a:b]) for a, b in zip([0, *stops], stops, strict=False)]
        problem = FeatureProblem(X, cost_model(**costs), weight, Preprocessing(metric, center))
        solver = make_solver(options.pop("algorithm", "auto"), **options)
        execution = Execution("sharded", memory_limit=memory_limit)
        return solve_rows(rows, problem, solver, execution, LocalEngine(), "", None)

    return solve_here


@pytest.fixture
def assert_same():
    """Two results of a problem are the same, and the problem is not trivial."""

    def assert_same(found, expected):
        np.testing.assert_array_equal(np.asarray(found.labels), expected.labels)
        assert found.objective == pytest.approx(expected.objective, rel=1e-12, abs=1e-9)
        assert found.inside == pytest.approx(expected.inside, rel=1e-12, abs=1e-9)
        assert [phase.name for phase in found.trace] == [phase.name for phase in expected.trace]
        assert found.n_clusters == expected.n_clusters
        assert 1 < found.n_clusters < len(expected.labels) / 2

    return assert_same


@pytest.fixture
def start_processes(tmp_path):
    """Start a scheduler and a worker as processes of their own; yields the address and the scheduler."""

    @contextmanager
    def start_processes(allowed_failures=3, preload=None):
        file = tmp_path / "scheduler.json"
        environment = os.environ | {
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(allowed_failures),
            "OMP_NUM_THREADS": "1",
        }
        with (tmp_path / "log.txt").open("w") as log:

            def start(name, *arguments):
                command = [sys.executable, "-m", f"distributed.cli.dask_{name}", "--scheduler-file", file]
                command += ["--host", "127.0.0.1", "--no-dashboard", *arguments]
                return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=tmp_path)

            started = [start("scheduler", "--port", "0")]
            try:
                extra = ["--preload", preload] if preload else []
                started.append(start("worker", "--nthreads", "1", "--no-nanny", *extra))
                with Client(scheduler_file=str(file), set_as_default=False, timeout=MINUTES) as client:
                    client.wait_for_workers(1, timeout=MINUTES)
                    address = client.scheduler.address
                yield address, started[0]
            finally:
                for process in reversed(started):
                    process.kill()
                    process.wait()

    return start_processes


@pytest.fixture
def command(tmp_path):
    """Start the command line as a process of its own."""

    def command(*arguments, environment=None, **options):
        process = [sys.executable, "-c", "from clusterfug.cli import main; main()", *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = os.environ | (environment or {})
        return subprocess.Popen(process, cwd=tmp_path, env=environment, **pipes, **options)

    return command


@pytest.fixture
def write_parquet():
    """Write a file, or a folder of files with given numbers of rows."""
    import pyarrow
    from pyarrow import parquet

    def write_parquet(path, X, sizes=None):
        if sizes is None:
            parquet.write_table(pyarrow.table({"features": list(X)}), path)
            return path
        path.mkdir()
        for t, part in enumerate(np.split(X, np.cumsum(sizes)[:-1])):
            write_parquet(path / f"part-{t}.parquet", part)
        return path

    return write_parquet
