"""solve_many: the same answers as one by one; failures named, the rest finished; Ctrl-C."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from clusterfug import DenseProblem, SolveManyError, dense_multicut, multicut, solve_many
from clusterfug.execution import threads
from clusterfug.problems.graph import GraphProblem


@pytest.fixture
def features(rng):
    centres = rng.normal(size=(6, 8))
    sizes = (5, 60, 1, 33, 120)
    return [centres[rng.integers(6, size=n)] + 0.3 * rng.normal(size=(n, 8)) for n in sizes]


@pytest.mark.parametrize("n_jobs", [1, 2, 5, None])
@pytest.mark.parametrize("algorithm", ["auto", "dgaec-inc", "gaec"])
def test_results_are_those_of_one_by_one_in_the_order_of_the_problems(features, n_jobs, algorithm):
    found = solve_many(features, threshold=0.5, n_jobs=n_jobs, algorithm=algorithm)
    for X, result in zip(features, found, strict=True):
        alone = dense_multicut(X, 0.5, algorithm=algorithm)
        np.testing.assert_array_equal(result.labels, alone.labels)
        assert result.objective == alone.objective


def test_problems_bring_their_own_costs_and_graphs_may_be_among_them(features):
    graph = GraphProblem([[0, 1], [1, 2]], [1.0, -2.0])
    found = solve_many([DenseProblem(features[1], 0.9), graph])
    np.testing.assert_array_equal(found[0].labels, dense_multicut(features[1], 0.9).labels)
    np.testing.assert_array_equal(found[1].labels, multicut(graph).labels)


def test_nothing_to_solve_is_no_error():
    assert solve_many([]) == []


def test_a_failed_problem_is_named_and_the_others_are_solved(features):
    features[3][2, 1] = np.nan
    named = {f"image {t}": X for t, X in enumerate(features)}
    with pytest.raises(SolveManyError, match=r"1 of 5 problems failed.*'image 3': .*not finite") as caught:
        solve_many(named, threshold=0.5)
    results, errors = caught.value.results, caught.value.errors
    assert list(errors) == ["image 3"]
    assert results[3] is None
    for t in (0, 1, 2, 4):
        np.testing.assert_array_equal(results[t].labels, dense_multicut(features[t], 0.5).labels)


def test_a_generator_has_a_child_for_each_problem(features):
    def labels(n_jobs):
        rng = np.random.default_rng(5)
        found = solve_many(
            features, threshold=0.2, algorithm="best", max_iter=2, random_state=rng, n_jobs=n_jobs
        )
        return [result.labels.tolist() for result in found]

    assert labels(1) == labels(2) == labels(5)


def test_the_error_survives_pickling(features):
    with pytest.raises(SolveManyError) as caught:
        solve_many([features[0], np.array([[np.nan]])])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.results[1] is None


def test_what_is_no_array_fails_alone(features):
    with pytest.raises(SolveManyError, match="3 of 4 problems failed"):
        solve_many([features[0], [[1, 2], [3]], None, 7])


def test_many_failures_fit_into_one_line():
    with pytest.raises(SolveManyError, match=r"5 of 5 problems failed.*and 2 more") as caught:
        solve_many([np.array([[np.inf]])] * 5)
    assert "\n" not in str(caught.value)


def test_the_largest_start_first_and_progress_counts_problems(features, monkeypatch):
    started = []

    def note(X, **options):
        started.append(len(X))
        return dense_multicut(X, **options)

    monkeypatch.setattr("clusterfug.execution.batch.dense_multicut", note)
    seen = []
    solve_many(features, n_jobs=1, callback=lambda *call: seen.append(call))
    assert started == sorted(started, reverse=True)
    assert seen == [("problems", done, 5) for done in range(1, 6)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_jobs": 0}, "n_jobs must be at least 1"),
        ({"n_jobs": 1.5}, "n_jobs must be a whole number"),
        ({"algorithm": "magic"}, "unknown algorithm 'magic'"),
        ({"algorithm": "gaec", "time_limit": 1}, "time_limit goes with refinement"),
        ({"random_state": "x"}, "random_state must be a whole number"),
    ],
)
def test_bad_options_fail_before_any_work(features, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        solve_many(features, **options)


def test_a_thread_alone_deals_nothing_out_and_gives_blas_back():
    before = threads._blas().info()[0]["num_threads"]
    used = set()
    with threads.alone():
        assert threads._blas().info()[0]["num_threads"] == 1
        threads.each(lambda part: used.add(threading.current_thread()), threads.slices(10, 1))
    assert used == {threading.current_thread()}
    assert threads._blas().info()[0]["num_threads"] == before


@pytest.mark.large
@pytest.mark.parametrize("algorithm", ["auto", "best", "dgaec"])
def test_ctrl_c_ends_all_problems_soon(algorithm):
    code = (
        "import numpy as np, clusterfug\n"
        f"options = dict(threshold=0.1, algorithm='{algorithm}')\n"
        "X = [np.random.default_rng(t).normal(size=(40_000, 16)) for t in range(4)]\n"
        "clusterfug.solve_many([x[:50] for x in X], **options)\n"
        "print('ready', flush=True)\n"
        "clusterfug.solve_many(X, **options)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(5)
    start = time.perf_counter()
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert time.perf_counter() - start < 4  # two seconds, and as much to end Python on a busy machine
    assert "KeyboardInterrupt" in errors
