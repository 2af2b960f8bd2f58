"""Threads: the result does not depend on their number, BLAS is left as it was, forked processes work."""

import multiprocessing
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from clusterfug import DenseProblem, dense_multicut
from clusterfug.execution import threads
from clusterfug.execution.threads import check_stop, keep_interrupts

N = 2100  # items, more than two blocks


def fast(X):
    return dense_multicut(DenseProblem(X, 8.0), algorithm="fast")


def objective_of(X):
    return fast(X).objective


def blas_threads():
    return {library["filepath"]: library["num_threads"] for library in threadpool_info()}


def test_runs_in_several_threads_agree_and_leave_blas_as_it_was(rng):
    X = rng.normal(size=(N, 20)).astype(np.float32)
    before = blas_threads()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: fast(X).labels, range(6)))
    assert before.items() <= blas_threads().items()  # more libraries may be loaded
    assert all(labels.tolist() == results[0].tolist() for labels in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_makes_its_own_threads(rng):
    X = rng.normal(size=(N, 20)).astype(np.float32)
    expected = objective_of(X)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(objective_of, (X,)).get(timeout=600) == expected


class Interrupt:
    """Ctrl-C in a destructor, where Python ignores errors."""

    def __del__(self):
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def kept(monkeypatch):
    """Ctrl-C as on the command line."""
    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(threads, "_Interrupts", type("_Interrupts", (), {"received": False, "lost": False}))
    keep_interrupts()
    yield
    signal.signal(signal.SIGINT, before)


def test_a_lost_interrupt_is_raised_once_at_the_next_check_of_the_main_thread(kept, capsys):
    Interrupt()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(check_stop).exception() is None
    with pytest.raises(KeyboardInterrupt):
        check_stop()
    assert not threads.interrupt_is_lost()
    assert capsys.readouterr().err == ""


def test_an_interrupt_replaces_one_that_was_lost(kept):
    Interrupt()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert not threads.interrupt_is_lost()


def test_errors_in_destructors_are_printed_unless_they_follow_an_interrupt(kept, monkeypatch):
    class Broken:
        def __del__(self):
            printed.append(1 / 0)

    printed = []
    monkeypatch.setattr(sys, "unraisablehook", lambda error: printed.append(error.exc_type))
    keep_interrupts()
    Broken()
    Interrupt()
    Broken()
    assert printed == [ZeroDivisionError]
    assert threads.interrupt_is_lost()


def test_a_search_that_loses_an_interrupt_ends_with_the_best_labels_so_far(kept, rng):
    def callback(phase, *_):
        if phase == "search":
            Interrupt()

    problem = DenseProblem(rng.normal(size=(120, 4)), 0.5)
    result = dense_multicut(problem, algorithm="best", max_iter=50, callback=callback)
    assert result.trace[-1].name == "interrupted"
    assert not threads.interrupt_is_lost()


def test_the_labels_do_not_depend_on_the_number_of_threads(digits):
    X = digits[:1200].astype(np.float32)  # more than one block
    found = []
    for count in (1, 2):
        with threadpool_limits(count):
            auto = dense_multicut(X, 0.2, algorithm="auto")
            best = dense_multicut(X, 0.4, algorithm="best", max_iter=1)
            found.append((auto.labels.tolist(), best.labels.tolist()))
    assert found[0] == found[1]
