"""Connections to a scheduler, errors before any work, and the memory of workers."""

import platform
import resource
import subprocess
import sys

import cloudpickle
import dask.array as da
import numpy as np
import pytest

from clusterfug import DenseProblem, dense_multicut, solve_many
from clusterfug.execution.dask import engine as engine_module
from clusterfug.execution.dask.engine import DaskEngine, run_keeping_memory

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import test modules

NO_SCHEDULER = "tcp://127.0.0.1:1"


def forbidden(*_):
    pytest.fail("there was work")


@pytest.fixture
def saved(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(4))
    return tmp_path / "x.npy"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "best"}, "shards are solved by auto and fast, not best"),
        ({"algorithm": "gaec"}, "shards are solved by auto and fast, not gaec"),
        ({"algorithm": "magic"}, "unknown algorithm 'magic'"),
        ({"threshold": "local"}, "a local threshold looks at the neighbours of all items"),
        ({"threshold": "auto"}, "a local threshold looks at the neighbours of all items"),
        ({"threshold": None}, "a local threshold looks at the neighbours of all items"),
        ({"threshold": np.nan}, "threshold must be"),
        ({"time_limit": -1}, "time_limit must be"),
        ({"memory_limit": "lots"}, "memory_limit"),
        ({"bound": True}, "shards have no bound: leave it out"),
        ({"device": "cpu:0"}, "a cluster solves on CPUs: leave out the device, or the client"),
        ({"metric": "l2"}, "unknown metric 'l2'"),
        ({"center": "yes"}, "center must be True or False"),
    ],
)
def test_bad_options_fail_before_the_scheduler_is_contacted(saved, options, message):
    for X in (saved, da.ones((4, 2))):
        with pytest.raises((ValueError, TypeError), match=message):
            dense_multicut(X, **({"threshold": 0.4} | options), client=NO_SCHEDULER, callback=forbidden)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (np.eye(3), TypeError, r"a cluster solves a dask array or files: .*dask.array.from_array\(X\)"),
        ([[1.0, 2.0]], TypeError, "a cluster solves a dask array or files"),
        (DenseProblem(np.eye(3), 0.4), TypeError, "a cluster solves a dask array or files"),
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
def test_other_features_fail_before_the_scheduler_is_contacted(X, error, message):
    threshold = None if isinstance(X, DenseProblem) else 0.4
    with pytest.raises(error, match=message):
        dense_multicut(X, threshold, client=NO_SCHEDULER)


@pytest.mark.parametrize(
    ("client", "error", "message"),
    [
        (None, ValueError, r"there is no dask client: give client=distributed.Client\(\), or the address"),
        (7, TypeError, "client must be a distributed.Client or a scheduler's address, not 7"),
        (NO_SCHEDULER, ConnectionError, f"there is no scheduler at {NO_SCHEDULER}: is it running?"),
        ("localhost", ValueError, "the address of a scheduler is like tcp://host:8786, not 'localhost'"),
        ("http://127.0.0.1:1", ValueError, "the address of a scheduler is like tcp://host:8786"),
    ],
)
def test_a_wrong_client_is_a_one_line_error(monkeypatch, saved, client, error, message):
    monkeypatch.setattr(engine_module, "_CONNECT_SECONDS", 0.5)
    calls = [lambda: dense_multicut(da.ones((4, 2)), 0.4, client=client, callback=forbidden)]
    if client is not None:
        calls.append(lambda: dense_multicut(saved, 0.4, client=client, callback=forbidden))
        calls.append(lambda: solve_many([np.eye(3)], 0.4, client=client, callback=forbidden))
    for call in calls:
        with pytest.raises(error, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_arrays_per_item_are_checked_before_any_work(client, saved):
    for options, message in (
        ({"alpha": np.ones(3), "threshold": None}, "alpha must have one number per item"),
        ({"sample_weight": -np.ones(4)}, "sample_weight must be finite and not negative"),
        ({"init": [0, 1]}, "init must have one entry per item"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            dense_multicut(saved, client=client, callback=forbidden, **({"threshold": 0.4} | options))


# Processes of their own


def python(code, *arguments):
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_dask_works_after_a_wrong_address():
    code = (
        "import dask.array, faulthandler\n"
        "from clusterfug import dense_multicut\n"
        "X = dask.array.ones((4, 2))\n"
        "try:\n    dense_multicut(X, 0.4, client='localhost')\n"
        "except ValueError as error:\n    print(error, flush=True)\n"
        "faulthandler.dump_traceback_later(300, exit=True)\n"
        "print(X.sum().compute())\n"
    )
    done = python(code)
    assert done.stdout == ("the address of a scheduler is like tcp://host:8786, not 'localhost'\n8.0\n"), (
        done.stderr
    )


def test_without_dask_the_error_names_the_extra(saved):
    gone = "import sys; sys.modules['distributed'] = None\n"
    done = python(gone + "import clusterfug.execution.dask")
    assert done.stderr.endswith("ImportError: a cluster needs dask: pip install 'clusterfug[dask]'\n")
    arguments = ("cluster", saved, "-t", "0.4", "--scheduler", NO_SCHEDULER)
    done = python(gone + "from clusterfug.cli import main; main()", *arguments)
    assert done.returncode == 2
    assert done.stderr == "clusterfug: error: a cluster needs dask: pip install 'clusterfug[dask]'\n"


# Memory of workers


def page_faults_of_new_arrays():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        np.ones(1 << 17)  # too small for a huge page
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators are left alone")
def test_workers_keep_the_memory_of_a_task_until_its_end(client):
    for _ in range(2):  # and not longer
        plain = client.submit(page_faults_of_new_arrays, pure=False).result()
        ours = DaskEngine(client).submit(page_faults_of_new_arrays).result()
        assert ours < plain / 5


def test_the_allocator_is_left_alone_where_dask_does_not_set_it(monkeypatch):
    monkeypatch.setattr(engine_module, "_glibc", forbidden)
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    assert run_keeping_memory(max, 1, 2) == 2
