"""solve_many: the answers of one by one, failures by name while the rest is solved, and Ctrl-C."""

import pickle
import signal
import threading
from dataclasses import dataclass
from threading import Event

import numpy as np
import pytest

from clusterfug import (
    DenseProblem,
    GraphProblem,
    SolveManyError,
    core,
    dense_multicut,
    multicut,
    solve_many,
)
from clusterfug.execution import threads
from clusterfug.solvers import Solver


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
        assert (result.costs, result.preprocessing) == (alone.costs, alone.preprocessing)


@pytest.mark.parametrize("options", [{}, {"metric": "inner_product"}, {"threshold": 0.5, "center": True}])
def test_costs_and_preprocessing_are_those_of_dense_multicut(features, options):
    for X, result in zip(features, solve_many(features, **options), strict=True):
        alone = dense_multicut(X, **options)
        np.testing.assert_array_equal(result.labels, alone.labels)
        assert result.objective == alone.objective


def test_problems_have_their_own_costs_and_graphs_may_be_among_them(features):
    graph = GraphProblem([[0, 1], [1, 2]], [1.0, -2.0])
    problem = DenseProblem(features[1], 0.9)
    found = solve_many([problem, graph])
    np.testing.assert_array_equal(found[0].labels, dense_multicut(problem).labels)
    np.testing.assert_array_equal(found[1].labels, multicut(graph).labels)


def test_no_problems_have_no_results():
    assert solve_many([]) == []


def test_a_failed_problem_is_named_and_the_others_are_solved(features):
    features[3][2, 1] = np.nan
    named = {f"image {t}": X for t, X in enumerate(features)}
    for threshold in (0.5, "local"):
        with pytest.raises(
            SolveManyError, match=r"1 of 5 problems failed.*'image 3': .*not finite"
        ) as caught:
            solve_many(named, threshold=threshold)
        results, errors = caught.value.results, caught.value.errors
        assert list(errors) == ["image 3"]
        assert results[3] is None
        for t in (0, 1, 2, 4):
            np.testing.assert_array_equal(results[t].labels, dense_multicut(features[t], threshold).labels)


@pytest.mark.filterwarnings("ignore:one cluster holds all items")
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


def test_a_problem_that_is_no_array_fails_alone(features):
    with pytest.raises(SolveManyError, match="3 of 4 problems failed") as caught:
        solve_many([features[0], [[1, 2], [3]], None, 7])
    assert caught.value.results[0].n_clusters


def test_many_failures_fit_into_one_line():
    with pytest.raises(SolveManyError, match=r"5 of 5 problems failed.*and 2 more") as caught:
        solve_many([np.array([[np.inf]])] * 5)
    assert "\n" not in str(caught.value)


def test_the_largest_problem_starts_first_and_progress_counts_problems(features, monkeypatch):
    started = []
    solve = core.solve

    def recorded(problem, *arguments, **options):
        started.append(problem.shape[0])
        return solve(problem, *arguments, **options)

    monkeypatch.setattr(core, "solve", recorded)
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
def test_bad_options_fail_before_any_work(features, options, message, monkeypatch):
    monkeypatch.setattr(core, "solve", lambda *arguments, **options: pytest.fail("a problem was solved"))
    with pytest.raises((ValueError, TypeError), match=message):
        solve_many(features, **options)


def test_a_single_thread_does_all_its_work_and_gives_blas_back():
    before = threads._blas().info()[0]["num_threads"]
    used = set()
    with threads.single_threaded():
        assert threads._blas().info()[0]["num_threads"] == 1
        threads.for_each(lambda part: used.add(threading.current_thread()), threads.slices(10, 1))
    assert used == {threading.current_thread()}
    assert threads._blas().info()[0]["num_threads"] == before


@dataclass(frozen=True, kw_only=True)
class Endless(Solver):
    """Never returns until it is stopped."""

    name = "endless"
    summary = "endless"
    started: Event
    stopped: Event
    runs: list

    def run(self, problem, context):
        self.runs.append(problem.n)
        self.started.set()
        try:
            for _ in range(60_000):  # ten minutes at most, if it is never stopped
                threads.check_stop()
                Event().wait(0.01)
        except KeyboardInterrupt:
            self.stopped.set()
            raise


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="this system cannot signal a thread")
def test_ctrl_c_stops_all_running_problems_and_starts_no_other(features):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    solver = Endless(started=Event(), stopped=Event(), runs=[])

    def interrupt():
        solver.started.wait(600)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            solve_many([DenseProblem(X, 0.5) for X in features], algorithm=solver, n_jobs=2)
    finally:
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert solver.stopped.wait(600)
    assert 1 <= len(solver.runs) <= 2


@pytest.mark.parametrize("algorithm", ["auto", "best", "exact", "dgaec", "dgaec-inc", "gaec", "dlaec"])
def test_a_stopped_thread_ends_every_algorithm_in_every_phase(rng, algorithm):
    problem = DenseProblem(rng.normal(size=(60, 8)), 0.1)
    options = {"algorithm": algorithm} | ({"max_iter": 5} if algorithm == "best" else {})
    seen = []
    dense_multicut(problem, **options, callback=lambda phase, done, total: seen.append(phase))
    for phase in set(seen):
        stop = Event()

        def stop_in(at, done, total, phase=phase, stop=stop):
            if at == phase:
                stop.set()
            threads.check_stop()

        with threads.single_threaded(stop):
            if phase == "search":  # ends with the best labels so far
                assert dense_multicut(problem, **options, callback=stop_in).trace[-1].name == "interrupted"
            else:
                with pytest.raises(KeyboardInterrupt):
                    dense_multicut(problem, **options, callback=stop_in)
