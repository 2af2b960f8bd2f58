"""The core: results are consistent, degenerate inputs work, runs are deterministic and can be stopped."""

import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cost_matrix, objective
from threadpoolctl import threadpool_limits

from clusterfug import DenseProblem, Threshold, core, dense_multicut, multicut
from clusterfug.execution.plan import Execution
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import number_by_first_appearance
from clusterfug.solvers import make_solver

CONTRACTIONS = ("gaec", "dgaec", "dgaec-inc")


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 30))
def test_a_result_is_consistent(seed, n):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    result = dense_multicut(DenseProblem(X, 0.4), algorithm="dgaec-inc")
    labels = result.labels
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, number_by_first_appearance(labels))
    assert result.n_clusters == len(set(labels)) == n - len(result.merges)
    expected = objective(cost_matrix(X), labels)
    assert result.objective == pytest.approx(expected, rel=1e-9, abs=1e-9)
    # The gain of a greedy contraction is the sum of the costs of its merges.
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


def test_solve_takes_a_problem_a_solver_and_an_execution(rng):
    X = rng.normal(size=(30, 3))
    problem = FeatureProblem(X, Threshold(0.4))
    result = core.solve(problem, make_solver("fast"), Execution(), bound=True)
    expected = dense_multicut(DenseProblem(X, 0.4), algorithm="fast", bound=True)
    np.testing.assert_array_equal(result.labels, expected.labels)
    assert (result.objective, result.lower_bound) == (expected.objective, expected.lower_bound)
    assert result.costs == Threshold(0.4)
    assert result.preprocessing == problem.preprocessing
    assert expected.costs is expected.preprocessing is None


@pytest.mark.parametrize("algorithm", CONTRACTIONS)
def test_degenerate_inputs_are_solved(algorithm):
    def clusters(X, threshold):
        return dense_multicut(DenseProblem(X, threshold), algorithm=algorithm).n_clusters

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
    problem = DenseProblem(rng.integers(-1, 2, size=(20, 3)), 1.0)
    expected = dense_multicut(problem, algorithm="gaec").merges
    np.testing.assert_array_equal(dense_multicut(problem, algorithm=algorithm, k=k).merges, expected)


def test_gaec_names_the_memory_it_needs_before_it_takes_it(rng):
    X = rng.normal(size=(1000, 2))
    with pytest.raises(MemoryError, match=r"needs 0\.00745 GiB for the costs of 1000 items.*dgaec-inc"):
        dense_multicut(X, 0.4, algorithm="gaec", memory_limit=1000)
    assert dense_multicut(X[:100], 0.4, algorithm="gaec", memory_limit=80_000).n_clusters


@pytest.fixture
def short_kernels(monkeypatch):
    """Make the kernels of contractions return to Python often."""
    for module, work in (("greedy", 100), ("matrix", 100), ("gaec", 10)):
        monkeypatch.setattr(f"clusterfug.contraction.{module}._WORK_PER_CALL", work)


def test_the_callback_is_called_in_every_phase(rng, short_kernels):
    X = rng.normal(size=(60, 3))
    problem = DenseProblem(X, 0.4)
    edges = np.argwhere(np.triu(np.ones((60, 60)), 1))
    costs = (X @ X.T - 0.4)[tuple(edges.T)]
    expected = dense_multicut(problem, algorithm="gaec").n_clusters
    for solve in (
        lambda callback: dense_multicut(problem, algorithm="dgaec-inc", callback=callback),
        lambda callback: dense_multicut(problem, algorithm="gaec", callback=callback),
        lambda callback: multicut(edges, costs, algorithm="gaec", callback=callback),
    ):
        seen = []
        result = solve(lambda *event, seen=seen: seen.append(event))
        phases = [phase for phase, _, _ in seen]
        assert phases.count("contraction") > 3
        assert all(0 <= done <= total for _, done, total in seen)
        assert result.n_clusters == expected


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, however the tests were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("algorithm", CONTRACTIONS)
def test_ctrl_c_stops_a_contraction_after_the_current_kernel_call(
    rng, algorithm, short_kernels, interrupts
):
    problem = DenseProblem(rng.normal(size=(60, 3)), 0.4)
    calls = []

    def interrupt(phase, done, total):
        if phase == "contraction":
            calls.append(done)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        dense_multicut(problem, algorithm=algorithm, callback=interrupt)
    assert len(calls) == 1


def test_the_answer_does_not_depend_on_the_number_of_threads(rng):
    X = rng.normal(size=(2100, 20)).astype(np.float32)  # more than two blocks
    problem = DenseProblem(X, 6.0)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            greedy = dense_multicut(problem, algorithm="dgaec-inc")
            auto = dense_multicut(problem)
        found.append((greedy.merges.tobytes(), greedy.objective, auto.labels.tobytes()))
    assert found[0] == found[1]
