"""The road as a whole: result, degenerate inputs, options, determinism, interruption."""

import doctest
import importlib
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cost_matrix, objective

from clusterfug import dense_multicut, multicut
from clusterfug.result import number_by_first_appearance

ALGORITHMS = ("gaec", "dgaec", "dgaec-inc")


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30))
def test_result_is_consistent(seed, n):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    result = dense_multicut(X, algorithm="dgaec-inc")
    labels = result.labels
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, number_by_first_appearance(labels))
    assert result.n_clusters == len(set(labels)) == n - len(result.merges)
    expected = objective(cost_matrix(X), labels)
    assert result.objective == pytest.approx(expected, rel=1e-9, abs=1e-9)
    # Greedy contraction gains what its merges say.
    assert result.inside == pytest.approx(result.merges["cost"].sum(), rel=1e-9, abs=1e-9)
    assert [phase.name for phase in result.trace] == ["neighbours", "contraction"]
    assert result.trace[0][2:4] == (n, pytest.approx(result.objective + result.inside))
    assert result.trace[1][2:] == (result.n_clusters, result.objective, False, False, None)
    assert result.algorithm == "dgaec-inc"
    assert 0 <= result.trace[0].seconds + result.trace[1].seconds <= result.seconds
    assert f"n_clusters={result.n_clusters}" in repr(result)


@given(labels=st.lists(st.integers(-5, 5), min_size=1))
def test_labels_are_numbered_by_first_appearance(labels):
    numbered = number_by_first_appearance(np.array(labels))
    seen = {}
    assert numbered.tolist() == [seen.setdefault(label, len(seen)) for label in labels]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_degenerate_inputs(algorithm):
    def clusters(X, threshold):
        return dense_multicut(X, threshold, algorithm=algorithm).n_clusters

    assert clusters(np.ones((1, 3)), 0.4) == 1
    assert clusters(np.ones((2, 3)), 0.4) == 1
    assert clusters(np.full((50, 2), 0.7), 0.4) == 1  # all duplicates
    assert clusters(np.zeros((20, 3)), 0.4) == 20  # all zero: every pair repels
    assert clusters(np.zeros((20, 3)), 0.0) == 20  # every pair costs nothing
    assert clusters(np.zeros((20, 3)), -0.1) == 1  # every pair attracts
    rng = np.random.default_rng(0)
    assert clusters(rng.random((30, 4)), -1.0) == 1
    assert clusters(rng.random((30, 4)), 100.0) == 30


@pytest.mark.parametrize("algorithm", ["dgaec", "dgaec-inc"])
@pytest.mark.parametrize("k", [1, 19, 20, 1000])
def test_k_is_clipped_and_does_not_change_the_answer(rng, algorithm, k):
    X = rng.integers(-1, 2, size=(20, 3))
    expected = dense_multicut(X, 1.0, algorithm="gaec").merges
    np.testing.assert_array_equal(dense_multicut(X, 1.0, algorithm=algorithm, k=k).merges, expected)


def test_gaec_says_what_it_needs_before_taking_it(rng):
    X = rng.normal(size=(1000, 2))
    with pytest.raises(MemoryError, match=r"needs 0\.00745 GiB for the costs of 1000 items.*dgaec-inc"):
        dense_multicut(X, algorithm="gaec", memory_limit=1000)
    assert dense_multicut(X[:100], algorithm="gaec", memory_limit=80_000).n_clusters


def test_callback_sees_both_phases(rng, monkeypatch):
    monkeypatch.setattr("clusterfug.contraction.greedy._WORK", 100)
    monkeypatch.setattr("clusterfug.contraction.matrix._WORK", 100)
    monkeypatch.setattr("clusterfug.contraction.gaec._WORK", 10)
    X = rng.normal(size=(60, 3))
    edges = np.argwhere(np.triu(np.ones((60, 60)), 1))
    for solve in (
        lambda callback: dense_multicut(X, algorithm="dgaec-inc", callback=callback),
        lambda callback: dense_multicut(X, algorithm="gaec", callback=callback),
        lambda callback: multicut(
            edges, (X @ X.T - 0.4)[tuple(edges.T)], algorithm="gaec", callback=callback
        ),
    ):
        seen = []
        result = solve(lambda *event, seen=seen: seen.append(event))
        phases = [phase for phase, _, _ in seen]
        assert phases.count("contraction") > 3
        assert all(0 <= done <= total for _, done, total in seen)
        assert result.n_clusters == dense_multicut(X, algorithm="gaec").n_clusters


def test_an_exception_in_the_callback_stops_the_run(rng, monkeypatch):
    monkeypatch.setattr("clusterfug.contraction.greedy._WORK", 100)

    def stop(phase, done, total):
        if phase == "contraction":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dense_multicut(rng.normal(size=(60, 3)), algorithm="dgaec", callback=stop)


@pytest.mark.parametrize("module", ["solve", "estimator", "path"])
def test_examples_in_the_docstrings(module):
    failed, tried = doctest.testmod(importlib.import_module(f"clusterfug.{module}"))
    assert tried > 0
    assert failed == 0


@pytest.mark.large
def test_same_answer_for_any_number_of_threads(tmp_path, rng):
    X = rng.normal(size=(3000, 40)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    code = "import sys, numpy as np; from clusterfug import dense_multicut as solve;" + (
        "X = np.load(sys.argv[1]); r = solve(X, 8.0, algorithm='dgaec-inc'); a = solve(X, 8.0);"
        "print(hash(r.merges.tobytes()), repr(r.objective), hash(a.labels.tobytes()))"
    )
    outputs = set()
    for threads in ("1", "2"):
        env = os.environ | {"OPENBLAS_NUM_THREADS": threads, "PYTHONHASHSEED": "0"}
        command = [sys.executable, "-c", code, str(tmp_path / "x.npy")]
        outputs.add(subprocess.run(command, env=env, capture_output=True, check=True, text=True).stdout)
    assert len(outputs) == 1


@pytest.mark.large
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ctrl_c_stops_a_long_run_within_two_seconds(algorithm):
    code = f"""
import numpy as np
from clusterfug import dense_multicut
rng = np.random.default_rng(0)
dense_multicut(rng.normal(size=(50, 8)).astype(np.float32), algorithm={algorithm!r})
X = rng.normal(size=(12000, 400)).astype(np.float32)
X /= np.linalg.norm(X, axis=1, keepdims=True)
seen = set()
def tell(phase, done, total):
    if phase == "contraction" and not seen:
        seen.add(phase)
        print("contracting", flush=True)
dense_multicut(X, 0.0, algorithm={algorithm!r}, callback=tell)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "contracting\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=2)
    assert process.returncode == -signal.SIGINT
