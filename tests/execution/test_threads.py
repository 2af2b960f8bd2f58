"""Threads: the result does not depend on their number, BLAS is left as it was, forked processes work."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from clusterfug import DenseProblem, dense_multicut

N = 2100  # items, more than two blocks


def fast(X):
    return dense_multicut(DenseProblem(X, 8.0), algorithm="fast")


def objective_of(X):
    return fast(X).objective


def test_runs_in_several_threads_agree_and_leave_blas_as_it_was(rng):
    X = rng.normal(size=(N, 20)).astype(np.float32)
    before = [library["num_threads"] for library in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: fast(X).labels, range(6)))
    assert [library["num_threads"] for library in threadpool_info()] == before
    assert all(labels.tolist() == results[0].tolist() for labels in results)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_makes_its_own_threads(rng):
    X = rng.normal(size=(N, 20)).astype(np.float32)
    expected = objective_of(X)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(objective_of, (X,)).get(timeout=600) == expected


def test_the_labels_do_not_depend_on_the_number_of_threads(digits):
    X = digits[:1200].astype(np.float32)  # more than one block
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            auto = dense_multicut(X, 0.2, algorithm="auto")
            best = dense_multicut(X, 0.4, algorithm="best", max_iter=1)
            found.append((auto.labels.tolist(), best.labels.tolist()))
    assert found[0] == found[1]
