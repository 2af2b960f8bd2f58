"""Many problems on a dask cluster: the same results as in this process, and errors by problem."""

import os
import signal
import sys

import cloudpickle
import dask
import numpy as np
import pytest

from clusterfug import DenseProblem, GraphProblem, SolveManyError, dense_multicut, solve_many
from clusterfug.execution.dask import batch as batch_module

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import test modules


@pytest.fixture
def features(rng):
    centres = rng.normal(size=(6, 8))
    sizes = (5, 60, 1, 33, 120)
    return [centres[rng.integers(6, size=n)] + 0.3 * rng.normal(size=(n, 8)) for n in sizes]


def assert_all_same(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
        assert one.objective == pytest.approx(other.objective, rel=1e-12)
        assert (one.algorithm, one.costs) == (other.algorithm, other.costs)


@pytest.mark.parametrize("work", [1, 3000, 10_000_000])
def test_results_are_those_of_this_process(client, monkeypatch, features, work):
    monkeypatch.setattr(batch_module, "_WORK_PER_BATCH", work)
    graph = GraphProblem([[0, 1], [1, 2]], [1.0, -2.0])
    problems = [*(DenseProblem(X, 0.4) for X in features), graph, features[1]]
    seen = []
    found = solve_many(problems, client=client, callback=lambda *call: seen.append(call))
    assert_all_same(found, solve_many(problems))
    sizes = {1: [1] * 7, 3000: [1, 1, 1, 4], 10_000_000: [7]}[work]  # 120, 60, 60 and the others
    assert sorted(np.diff([0, *(done for _, done, _ in seen)])) == sizes
    assert {(name, total) for name, _, total in seen} == {("problems", 7)}


@pytest.mark.parametrize("algorithm", ["fast", "dgaec-inc"])
def test_options_reach_the_workers(client, features, algorithm):
    options = {"threshold": 0.2, "algorithm": algorithm, "metric": "inner_product"}
    assert_all_same(solve_many(features, client=client, **options), solve_many(features, **options))


def test_a_generator_has_a_child_for_each_problem(client, monkeypatch, rng):
    monkeypatch.setattr(batch_module, "_WORK_PER_BATCH", 1)
    pairs = np.stack(np.triu_indices(120, 1), axis=1)
    graphs = [GraphProblem(pairs, rng.choice([-1.0, 1.0], size=len(pairs))) for _ in range(3)]

    def seeded(seed):
        return {"algorithm": "best", "max_iter": 1, "random_state": np.random.default_rng(seed)}

    found = solve_many(graphs, client=client, **seeded(5))
    assert_all_same(found, solve_many(graphs, **seeded(5)))
    others = solve_many(graphs, client=client, **seeded(6))
    assert not np.array_equal(found[0].labels, others[0].labels)


def test_the_largest_problems_are_submitted_first(monkeypatch, features):
    monkeypatch.setattr(batch_module, "_WORK_PER_BATCH", 3000)
    graph = GraphProblem([[0, 1], [1, 2]], [1.0, -2.0])
    work = dict(enumerate([*(DenseProblem(X, 0.4) for X in features), graph]))
    assert batch_module._batches(work) == [[4], [1], [3, 0, 5, 2]]


def test_failed_problems_are_named_and_the_others_are_solved(client, monkeypatch, features):
    monkeypatch.setattr(batch_module, "_WORK_PER_BATCH", 3000)
    features[3][2, 1] = np.nan
    named = {f"image {t}": X for t, X in enumerate(features)} | {"none": None}
    seen = []
    with pytest.raises(SolveManyError, match=r"2 of 6 problems failed.*'image 3': .*not finite") as caught:
        solve_many(named, threshold=0.5, client=client, callback=lambda *call: seen.append(call))
    assert list(caught.value.errors) == ["image 3", "none"]
    assert [result is None for result in caught.value.results] == [False, False, False, True, False, True]
    good = [t for t in range(5) if t != 3]
    expected = solve_many([features[t] for t in good], threshold=0.5)
    assert_all_same([caught.value.results[t] for t in good], expected)
    assert seen[-1] == ("problems", 6, 6)


def test_no_problems_have_no_results(client, cluster):
    assert solve_many([], client=client) == []
    assert solve_many({}, client=cluster.scheduler_address) == []


class DeadlyProblem(DenseProblem):
    """A problem that kills the process that solves it."""

    def resolved(self):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_problem_that_kills_its_workers_fails_alone(fragile_client, features):
    problems = [DenseProblem(X, 0.4) for X in features]
    with pytest.raises(SolveManyError, match=r"workers die at the same task") as caught:
        solve_many([*problems, DeadlyProblem(np.eye(3), 0.4)], client=fragile_client)
    assert list(caught.value.errors) == [len(features)]
    for found, problem in zip(caught.value.results, problems, strict=False):
        np.testing.assert_array_equal(found.labels, dense_multicut(problem).labels)


def test_a_lost_scheduler_is_one_line(start_processes, monkeypatch, features):
    monkeypatch.setattr(batch_module, "_WORK_PER_BATCH", 1)
    problems = [DenseProblem(X, 0.4) for X in features * 10]
    with (
        start_processes() as (address, scheduler),
        dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
        pytest.raises(ConnectionError, match="is gone: start it again") as caught,
    ):
        solve_many(problems, client=address, callback=lambda *_: scheduler.kill())
    assert address in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_jobs": 2}, "n_jobs is for the CPU of this machine"),
        ({"device": "cpu:0"}, "a cluster solves on CPUs"),
        ({"checkpoint": "kept"}, "checkpoint"),
        ({"magic": 1}, "magic"),
        ({"algorithm": "magic"}, "unknown algorithm 'magic'"),
        ({"algorithm": "gaec", "time_limit": 1}, "time_limit"),
        ({"random_state": "x"}, "random_state must be a whole number"),
    ],
)
def test_bad_options_fail_before_any_work(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        solve_many([np.eye(3)], client="tcp://127.0.0.1:1", callback=pytest.fail, **options)
