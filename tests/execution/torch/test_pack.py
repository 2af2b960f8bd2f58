"""Packs: many problems solved simultaneously on a device, as many as fit."""

import numpy as np
import pytest
import torch

from clusterfug import DenseProblem, SolveManyError, dense_multicut, solve_many
from clusterfug.costs.models import Threshold
from clusterfug.execution.torch.inputs import TensorInput
from clusterfug.execution.torch.pack import plan_packs
from clusterfug.problems.features import FeatureProblem
from clusterfug.problems.graph import GraphProblem
from clusterfug.result import number_by_first_appearance

AS_THEY_ARE = {"metric": "inner_product"}


@pytest.fixture
def problems(rng):
    centres = rng.normal(size=(6, 8))
    sizes = (5, 60, 1, 33, 120, 200, 2)
    return [centres[rng.integers(6, size=n)] + 0.3 * rng.normal(size=(n, 8)) for n in sizes]


def consistent(result, problem):
    """The labels are numbered by first appearance, and the result has their costs."""
    np.testing.assert_array_equal(result.labels, number_by_first_appearance(result.labels))
    assert result.inside == pytest.approx(problem.inside(result.labels), rel=1e-9, abs=1e-9)
    assert result.objective == pytest.approx(problem.objective(result.labels), rel=1e-9, abs=1e-9)
    assert result.n_clusters == result.trace[-1].n_clusters
    return result


@pytest.mark.parametrize(("memory_limit", "algorithm"), [(None, "fast"), (2**18, "auto")])
def test_packs_are_as_good_as_single_problems(backend, problems, monkeypatch, memory_limit, algorithm):
    monkeypatch.setattr("clusterfug.execution.torch.pack.resident_bytes", lambda n, d, itemsize: 1000 * n)
    more = [
        DenseProblem(problems[0] * 1e30, 0.5e60),  # is scaled
        DenseProblem(np.ones((30, 3)), 0.5),  # another number of features
        DenseProblem(problems[1].astype(np.float32), 0.5),
        DenseProblem(problems[1], 0.5, sample_weight=np.arange(60) % 3),
        DenseProblem(problems[3], alpha=np.linspace(0.5, 1, 33)),
        DenseProblem(problems[4], 0.5, signature=np.repeat([1, -1], 4)),
    ]
    problems = [DenseProblem(X, 0.5) for X in problems] + more
    options = {"device": backend, "algorithm": algorithm}
    seen = []
    found = solve_many(
        problems, memory_limit=memory_limit, callback=lambda *call: seen.append(call), **options
    )
    for problem, result in zip(problems, found, strict=True):
        assert consistent(result, problem).inside >= 0.995 * dense_multicut(problem, **options).inside
    assert all(phase == "problems" and total == len(problems) for phase, _, total in seen)
    done = [done for _, done, _ in seen]
    assert done[-1] == len(problems)
    assert done == sorted(set(done))
    assert len(done) < len(problems)  # some were in the same pack


def test_packs_hold_as_many_problems_as_fit_largest_first(backend, problems, monkeypatch):
    monkeypatch.setattr("clusterfug.execution.torch.pack.resident_bytes", lambda n, d, itemsize: n)
    monkeypatch.setattr("clusterfug.execution.torch.pack.STARTS", 1)
    inputs = [TensorInput(FeatureProblem(X, Threshold(0.4)), backend) for X in problems]
    assert list(plan_packs(dict(enumerate(inputs)), np.inf)) == [([5, 4, 1, 3, 0, 6, 2], False)]
    assert list(plan_packs(dict(enumerate(inputs)), 190)) == [
        ([5], True),
        ([4, 1], False),
        ([3, 0, 6, 2], False),
    ]


def test_an_invalid_problem_is_named_and_the_others_are_solved(backend, problems):
    problems[3][2, 1] = np.nan
    problems[5] = "no features"
    named = {f"image {t}": X for t, X in enumerate(problems)}
    with pytest.raises(SolveManyError, match=r"2 of 7 problems failed.*'image 3': .*row 2, col") as caught:
        solve_many(named, threshold=0.5, device=backend, **AS_THEY_ARE)
    assert list(caught.value.errors) == ["image 3", "image 5"]
    for t, result in enumerate(caught.value.results):
        assert (result is None) == (t in (3, 5))
        if result is not None:
            consistent(result, DenseProblem(problems[t], 0.5))


def test_options_of_many_problems(backend, problems):
    assert solve_many([], device=backend) == []
    found = solve_many(
        problems[:2], 0.4, device=backend, time_limit=0, random_state=np.random.default_rng(0)
    )
    assert [len(result.labels) for result in found] == [5, 60]
    twice, init = [problems[1], problems[1] * 2], np.arange(60) % 7
    found = solve_many(twice, 0.4, init=init, device=backend, **AS_THEY_ARE)
    for result, X in zip(found, twice, strict=True):
        problem = DenseProblem(X, 0.4)
        assert consistent(result, problem).inside >= problem.inside(init)
    for options, message in (
        ({"n_jobs": 2}, "n_jobs is for the CPU.*: leave it out with a device"),
        ({"algorithm": "dlaec"}, "dlaec runs on the CPU only"),
        ({"precision": "x"}, "unknown precision"),
        ({"k": 3}, "k goes with .* not with auto"),
        ({"threshold": 0.4, "bound": True}, "many problems on a GPU have no bounds"),
    ):
        with pytest.raises(ValueError, match=message):
            solve_many(problems, device=backend, **options)
    with pytest.raises(ValueError, match="a graph problem is solved on the CPU"):
        solve_many([GraphProblem([[0, 1]], [1.0])], device=backend)
    assert solve_many([GraphProblem([[0, 1]], [1.0])], device="auto")[0].n_clusters == 1


def test_tensors_among_many_problems_are_solved_where_they_are(backend, problems):
    mixed = [torch.tensor(problems[1], device=backend), problems[4]]
    found = solve_many(mixed, threshold=0.5, **AS_THEY_ARE)
    assert (found[0].trace[-1].passes is None) == (backend.type == "cpu")
    assert found[1].trace[-1].passes is None
    for result, t in zip(found, (1, 4), strict=True):
        consistent(result, DenseProblem(problems[t], 0.5))


def test_many_problems_with_local_thresholds(backend, rng):
    problems = [rng.normal(size=(n, 5)) for n in (40, 1, 25, 60)]
    local = {"threshold": "local", "strictness": 0.8, **AS_THEY_ARE}
    found = solve_many(problems, device=backend, **local)
    for result, X in zip(found, problems, strict=True):
        consistent(result, DenseProblem(X, result.costs))
        assert result.inside >= 0.995 * dense_multicut(X, device=backend, **local).inside - 1e-9
        assert result.trace[-1].passes is not None
    tensors = [torch.tensor(X, device=backend) for X in problems]
    for result, same in zip(solve_many(tensors, device=backend, **local), found, strict=True):
        np.testing.assert_array_equal(result.labels, same.labels)


def test_an_invalid_problem_with_a_local_threshold_is_named(backend, rng):
    problems = {name: rng.normal(size=(20, 4)) for name in ("good", "bad", "fine")}
    problems["bad"][3, 2] = np.nan
    with pytest.raises(SolveManyError, match=r"1 of 3 problems failed.*'bad': .*row 3, column 2") as caught:
        solve_many(problems, threshold="local", device=backend, **AS_THEY_ARE)
    assert [result is None for result in caught.value.results] == [False, True, False]


@pytest.mark.parametrize("costs", [{"n_clusters": 9}, {"threshold": "auto"}, {}])
def test_nothing_is_selected_for_many_problems(backend, small_blobs, costs):
    with pytest.raises(
        ValueError, match=r"many problems on a GPU select no strictness: give a threshold or .*'local'"
    ):
        solve_many([small_blobs], device=backend, **costs)


def test_numbers_that_scaling_would_lose_are_kept_or_refused(backend):
    small = np.array([[1e-20, 0], [1e-20, 0], [0, 1e25]], dtype=np.float32)
    result = dense_multicut(DenseProblem(small, 0.0), device=backend)
    assert result.inside == pytest.approx(1e-40, rel=1e-6)
    with pytest.raises(ValueError, match=r"too small beside the longest row.*device='cpu'"):
        dense_multicut(DenseProblem(np.array([[1e-310], [1e12]]), 1e-310), device=backend)
    with pytest.raises(ValueError, match="too small beside the longest row"):
        dense_multicut(DenseProblem(np.array([[1e67], [0]]), -1e-218), device=backend)
    # One problem that is refused does not stop the others of its pack.
    problems = [DenseProblem(np.array([[1e67], [0]]), -1e-218), DenseProblem(np.eye(1), 0.5)]
    with pytest.raises(SolveManyError, match="too small") as raised:
        solve_many(problems, device=backend)
    assert raised.value.results[1].n_clusters == 1
