"""Tensors on a device: the road from any input to a result, its options and its errors."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from clusterfug.options import OURS, Task
from reference import cost_matrix, objective

from clusterfug import (
    DenseMulticut,
    DenseProblem,
    SolveManyError,
    checks,
    dense_multicut,
    solve_many,
    threshold_path,
)
from clusterfug.execution.torch import device as devices
from clusterfug.execution.torch.inputs import Item
from clusterfug.execution.torch.pack import plan
from clusterfug.problems.graph import GraphProblem
from clusterfug.refinement.strategies import STRATEGIES
from clusterfug.result import number_by_first_appearance
from clusterfug.segmentation import segment


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture
def blobs(rng):
    centres = rng.normal(size=(12, 16))
    return unit(centres[rng.integers(12, size=300)] + 0.35 * rng.normal(size=(300, 16)))


def consistent(result, X, **costs):
    """The labels are numbered by first appearance, and cost what the result says."""
    labels = result.labels
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, number_by_first_appearance(labels))
    problem = DenseProblem(X, **costs)
    assert result.inside == pytest.approx(problem.inside(labels), rel=1e-9, abs=1e-12)
    assert result.objective == pytest.approx(problem.objective(labels), rel=1e-9, abs=1e-12)
    assert result.trace[-1].n_clusters == result.n_clusters
    return result


def as_good(result, expected, share=0.995):
    assert result.inside >= share * expected.inside


def test_names_are_those_of_the_strategies():
    assert tuple(STRATEGIES) == OURS


# What comes out


@pytest.mark.parametrize("precision", ["fast", "exact"])
@pytest.mark.parametrize("algorithm", ["fast", "auto"])
def test_as_good_as_on_the_cpu_and_the_same_twice(backend, blobs, algorithm, precision):
    first, second = (
        dense_multicut(blobs, algorithm=algorithm, device=backend, precision=precision) for _ in range(2)
    )
    np.testing.assert_array_equal(first.labels, second.labels)
    as_good(consistent(first, blobs), dense_multicut(blobs, algorithm="fast"))
    assert first.objective == pytest.approx(objective(cost_matrix(blobs), first.labels))
    assert first.algorithm == algorithm
    assert len(first.merges) == first.n_iter == 0
    assert first.merges.dtype.names == ("i", "j", "cost")


def test_the_trace_falls_and_says_what_is_certain(backend, blobs):
    result = dense_multicut(blobs, device=backend)
    objectives = [phase.objective for phase in result.trace]
    assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(objectives))
    assert objectives[-1] == result.objective
    assert result.trace[-1].move_optimal
    assert result.trace[-1].join_optimal
    assert all(phase.passes is not None and phase.seconds >= 0 for phase in result.trace)
    assert sum(phase.seconds for phase in result.trace) <= result.seconds
    assert dense_multicut(blobs).trace[-1].passes is None  # on the CPU


def test_degenerate_inputs(backend):
    def clusters(X, threshold):
        return dense_multicut(X, threshold, device=backend).n_clusters

    assert clusters(np.ones((1, 3)), 0.4) == 1
    assert clusters(np.ones((2, 3)), 0.4) == 1
    assert clusters(np.full((50, 2), 0.7), 0.4) == 1  # all duplicates
    assert clusters(np.zeros((20, 3)), 0.4) == 20
    assert clusters(np.zeros((20, 3)), 0.0) == 20
    assert clusters(np.zeros((20, 3)), -0.1) == 1


# What goes in


@pytest.mark.parametrize(
    "kind",
    ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"],
)
def test_tensors_of_every_type(backend, rng, kind):
    values = rng.integers(0, 2, size=(40, 6))
    X = torch.tensor(values).to(getattr(torch, kind)).to(backend)
    result = consistent(dense_multicut(X, 1.5, device=backend), values, threshold=1.5)
    np.testing.assert_array_equal(result.labels, dense_multicut(values, 1.5, device=backend).labels)
    if backend.type == "cpu":  # compiled kernels take them too
        assert consistent(dense_multicut(X, 1.5), values, threshold=1.5).inside > 0


def test_tensors_as_they_lie(backend, blobs):
    X = torch.tensor(blobs, device=backend)
    expected = dense_multicut(X, device=backend).labels
    columns = X.T.contiguous().T  # not contiguous
    wide = torch.stack([X, X], 2)[:, :, 0]
    for same in (columns, wide, X.clone().requires_grad_()):
        np.testing.assert_array_equal(dense_multicut(same, device=backend).labels, expected)
    assert dense_multicut(X.clone().requires_grad_(), device="cpu").inside > 0
    before = X.clone()
    dense_multicut(X, device=backend, sample_weight=np.arange(300.0))
    assert torch.equal(X, before)  # nobody writes to the input


def test_lists_arrays_and_memory_maps(backend, blobs, tmp_path):
    expected = dense_multicut(blobs, device=backend).labels
    np.save(tmp_path / "x.npy", blobs)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for same in (blobs.tolist(), mapped, np.asfortranarray(blobs), blobs.astype(">f8"), blobs[::-1][::-1]):
        np.testing.assert_array_equal(dense_multicut(same, device=backend).labels, expected)


@pytest.mark.parametrize(
    "costs",
    [
        {"threshold": 0.2},
        {"threshold": -0.1},
        {"alpha": 0.7},
        {"alpha": np.linspace(0.3, 0.9, 300)},
        {"alpha": 0.1, "prefer": "large"},
        {"sample_weight": np.arange(300) % 4 / 2 + 0.5},
        {"sample_weight": np.arange(300) % 3.0},
        {"sample_weight": np.arange(300) % 2},
        {"alpha": np.linspace(0.3, 0.9, 300), "sample_weight": np.arange(300) % 3.0},
    ],
)
def test_costs(backend, blobs, costs):
    result = consistent(dense_multicut(blobs, **costs, device=backend), blobs, **costs)
    as_good(result, dense_multicut(blobs, **costs, algorithm="fast"), 0.97)  # of other local optima
    problem = DenseProblem(blobs, **costs)
    np.testing.assert_array_equal(dense_multicut(problem, device=backend).labels, result.labels)
    tensors = {
        name: torch.as_tensor(value).to(backend) for name, value in costs.items() if name != "prefer"
    }
    threshold = costs.get("threshold", 0.4)
    given = {**costs, **tensors, "threshold": threshold}
    np.testing.assert_array_equal(dense_multicut(blobs, **given, device=backend).labels, result.labels)


def test_a_signature(backend, blobs):
    signature = np.repeat([1, -1], [13, 3])
    for weight in (None, np.arange(300) % 3.0):
        costs = {"threshold": 0.2, "signature": signature, "sample_weight": weight}
        problem = DenseProblem(blobs, **costs)
        result = consistent(dense_multicut(problem, device=backend), blobs, **costs)
        as_good(result, dense_multicut(problem, algorithm="fast"))


def test_items_without_weight_go_to_the_most_similar_mean(backend, blobs):
    weight = np.ones(300)
    weight[::3] = 0
    for signature in (np.ones(16), np.repeat([1, -1], [14, 2])):
        problem = DenseProblem(blobs, 0.3, sample_weight=weight, signature=signature)
        labels = dense_multicut(problem, device=backend).labels
        np.testing.assert_array_equal(problem.label_weightless(labels), labels)
        alone = dense_multicut(DenseProblem(blobs[weight > 0], 0.3, signature=signature), device=backend)
        np.testing.assert_array_equal(number_by_first_appearance(labels[weight > 0]), alone.labels)


@pytest.mark.parametrize("scale", [1e-70, 1e-30, 1e30, 1e70])
@pytest.mark.parametrize("strength", ["threshold", "alpha", "weight", "none"])
def test_any_magnitude(backend, blobs, scale, strength):
    costs = {
        "threshold": {"threshold": 0.3 * scale**2},
        "alpha": {"alpha": 0.5 * scale},
        "weight": {"threshold": 0.3, "sample_weight": np.full(300, scale)},
        "none": {"threshold": 0.0},
    }[strength]
    X = blobs if strength == "weight" else blobs * scale
    plain = {"weight": 0.3, "none": 0.0, "threshold": 0.3, "alpha": 0.25}[strength]
    result = dense_multicut(X, **costs, device=backend)
    expected = dense_multicut(blobs, plain, device=backend)
    assert result.inside == pytest.approx(scale**2 * expected.inside, rel=0.005)
    assert result.objective == pytest.approx(scale**2 * expected.objective, rel=0.005)
    assert result.trace[-1].move_optimal


# Options


@pytest.mark.large
def test_init_is_never_made_worse(backend, blobs, rng):
    for init in (rng.integers(-3, 30, size=300), np.arange(300) * 10**12, np.zeros(300, dtype=int)):
        result = consistent(dense_multicut(blobs, init=init, device=backend), blobs)
        assert result.inside >= DenseProblem(blobs).inside(init) - 1e-9
    good = dense_multicut(blobs, 0.4, device=backend)
    again = dense_multicut(blobs, init=torch.tensor(good.labels, device=backend), device=backend)
    on_cpu = dense_multicut(blobs, algorithm="best", init=good.labels, max_iter=1)
    assert min(again.inside, on_cpu.inside) >= good.inside - 1e-9
    weight = np.arange(300) % 2
    half = dense_multicut(blobs, init=good.labels, sample_weight=weight, device=backend)
    consistent(half, blobs, sample_weight=weight)


@pytest.mark.parametrize("time_limit", [0, 0.001, 60])
def test_a_time_limit_leaves_valid_labels(backend, blobs, time_limit):
    result = consistent(dense_multicut(blobs, time_limit=time_limit, device=backend), blobs)
    assert result.inside >= 0
    assert (time_limit < 60) or result.trace[-1].move_optimal


def test_a_callback_is_told_and_may_stop_the_run(backend, blobs):
    seen = []
    result = dense_multicut(blobs, device=backend, callback=lambda *event: seen.append(event))
    assert [phase for phase, _, _ in seen] == [phase.name for phase in result.trace]
    assert all(0 <= done <= total and total > 0 for _, done, total in seen)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dense_multicut(blobs, device=backend, callback=stop)


def test_memory_is_estimated_before_any_work(backend, blobs):
    X = blobs.tolist()
    with pytest.raises(
        MemoryError, match=r"300 items of 16 features need .* GiB on .*memory_limit"
    ) as caught:
        dense_multicut(X, device=backend, memory_limit=1000)
    assert "\n" not in str(caught.value)
    with pytest.raises(SolveManyError, match=r"2 of 2 problems failed.*memory_limit"):
        solve_many([X, X], device=backend, memory_limit=1000)


def test_features_that_do_not_fit_stay_where_they_are(backend, blobs, monkeypatch):
    X = np.repeat(blobs, 20, axis=0)
    expected = dense_multicut(X, device=backend)
    monkeypatch.setattr("clusterfug.execution.torch.pack.resident_bytes", lambda n, d, itemsize: 2**62)
    monkeypatch.setattr("clusterfug.execution.torch.pack.streamed_bytes", lambda n, d: 1)
    if backend.type == "cpu":
        monkeypatch.setattr("clusterfug.execution.torch.solve.check_memory", lambda *_, **__: None)
    result = dense_multicut(X, device=backend, memory_limit=2**30)
    assert result.inside == pytest.approx(expected.inside, rel=0.005)


def test_running_out_of_memory_is_one_line(backend, blobs, monkeypatch):
    def full(*_):
        raise torch.cuda.OutOfMemoryError("a long\nstory")

    monkeypatch.setattr("clusterfug.execution.torch.solve.steps", full)
    with pytest.raises(
        MemoryError, match=r"ran out of memory: end other programs there.*memory_limit"
    ) as caught:
        dense_multicut(blobs, device=backend)
    assert "\n" not in str(caught.value)


# Errors


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("as_tensor", [False, True])
def test_bad_numbers_are_found_on_the_device(backend, value, as_tensor):
    X = np.eye(4)
    X[2, 1] = value
    with pytest.raises(ValueError, match="X has a value that") as expected:
        dense_multicut(X)
    with pytest.raises(ValueError, match="row 2, column 1") as caught:
        dense_multicut(torch.tensor(X, device=backend) if as_tensor else X, device=backend)
    assert str(caught.value) == str(expected.value)


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (torch.zeros(0, 3), {}, "no rows"),
        (torch.zeros(3, 0), {}, "no columns"),
        (torch.zeros(3), {}, "2-D, one row per item, not 1-D"),
        (torch.zeros(3, 3, dtype=torch.complex64), {}, "real numbers, not torch.complex64"),
        (torch.eye(3).to_sparse(), {}, r"sparse tensor: convert it with .to_dense\(\)"),
        (np.array([["a"]]), {}, "real numbers"),
        (np.eye(4) * 1e149, {"sample_weight": [1e10] * 4}, "costs leave the range"),
        (torch.eye(4), {"sample_weight": torch.zeros(4)}, "zero everywhere"),
        (torch.eye(4), {"alpha": [1, 2]}, "alpha must have one number per item"),
        (torch.eye(4), {"init": [0, 1]}, "init must have one entry per item"),
        (torch.eye(4), {"prefer": "large"}, "goes with alpha"),
        (torch.eye(4), {"threshold": np.nan}, "finite number"),
        (torch.eye(4), {"k": 2}, "k does not go with auto"),
        (torch.eye(4), {"ann": "ivf"}, "ann goes with dapplaec"),
        (torch.eye(4), {"max_iter": 2}, "max_iter goes with best"),
        (torch.eye(4), {"precision": "double"}, "unknown precision 'double': choose one of fast, exact"),
        (torch.eye(4), {"memory_limit": 0}, "memory_limit must be at least 1"),
        (torch.eye(4), {"algorithm": "gaec"}, "gaec runs on the CPU only: use device='cpu'"),
        (torch.eye(4), {"algorithm": "best"}, "best runs on the CPU only.*labels of a GPU result as init"),
        (DenseProblem(np.eye(4)), {"threshold": 0.1}, "X is a DenseProblem"),
    ],
)
def test_bad_input(backend, X, options, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        dense_multicut(X, **options, device=backend)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("device", ["gpu", "cuda:x", "", 3, "mps", torch.device("meta")])
def test_unknown_devices(device):
    with pytest.raises(ValueError, match=r"unknown device .*choose one of auto, cpu, cuda"):
        dense_multicut(np.eye(3), device=device)


def test_a_machine_without_what_a_gpu_needs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda", "cuda:1", torch.device("cuda")):
        with pytest.raises(ValueError, match="torch finds no CUDA GPU here"):
            dense_multicut(np.eye(3), device=device)
    assert dense_multicut(np.eye(3), device="auto").n_clusters == 3
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    with pytest.raises(ValueError, match="'cuda:7' does not exist: there are cuda:0 to cuda:1"):
        dense_multicut(np.eye(3), device="cuda:7")
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="a GPU needs triton"):
        dense_multicut(np.eye(3), device="cuda")
    assert devices.choose("auto", "fast") is None
    monkeypatch.setattr(devices, "find_spec", lambda name: name)
    assert devices.choose("cuda", "fast") == devices.choose("auto", "auto") == torch.device("cuda:1")
    assert devices.choose("auto", "best") is None
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'clusterfug\[gpu\]'"):
        dense_multicut(np.eye(3), device="cuda")
    assert dense_multicut(np.eye(3), device="auto").n_clusters == 3


@pytest.mark.large
def test_without_a_device_a_run_is_where_the_features_are(backend, blobs):
    X = torch.tensor(blobs, device=backend)
    assert (devices.choose(None, "auto", X) is None) == (backend.type == "cpu")
    np.testing.assert_array_equal(dense_multicut(X, device="cpu").labels, dense_multicut(blobs).labels)
    assert (dense_multicut(X).trace[-1].passes is None) == (backend.type == "cpu")
    if backend.type == "cuda":
        with pytest.raises(TypeError, match=r"X is a tensor on a GPU: use X\.cpu\(\)"):
            DenseProblem(X)
        with pytest.raises(TypeError, match="use dense_multicut, which takes it as it is"):
            DenseMulticut().fit(X)


def test_memory_that_a_gpu_has(monkeypatch):
    for name, value in {
        "mem_get_info": (1000, 5000),
        "memory_reserved": 300,
        "memory_allocated": 100,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, value=value: value)
    assert devices.memory(torch.device("cuda"), None) == 0.9 * 1200
    assert devices.memory(torch.device("cuda"), 77) == 77
    assert devices.memory(torch.device("cpu"), None) == np.inf


# Many problems


@pytest.fixture
def problems(rng):
    centres = rng.normal(size=(6, 8))
    sizes = (5, 60, 1, 33, 120, 200, 2)
    return [centres[rng.integers(6, size=n)] + 0.3 * rng.normal(size=(n, 8)) for n in sizes]


@pytest.mark.parametrize("memory_limit", [None, 2**18])
def test_packs_are_as_good_as_one_by_one(backend, problems, monkeypatch, memory_limit):
    monkeypatch.setattr("clusterfug.execution.torch.pack.resident_bytes", lambda n, d, itemsize: 1000 * n)
    more = [
        DenseProblem(problems[0] * 1e30, 0.5e60),  # is scaled
        DenseProblem(np.ones((30, 3)), 0.5),  # of another width
        DenseProblem(problems[1].astype(np.float32), 0.5),
        DenseProblem(problems[1], 0.5, sample_weight=np.arange(60) % 3),
        DenseProblem(problems[3], alpha=np.linspace(0.5, 1, 33)),
        DenseProblem(problems[4], 0.5, signature=np.repeat([1, -1], 4)),
    ]
    problems = [DenseProblem(X, 0.5) for X in problems] + more
    seen = []
    found = solve_many(
        problems, device=backend, memory_limit=memory_limit, callback=lambda *call: seen.append(call)
    )
    for problem, result in zip(problems, found, strict=True):
        alone = dense_multicut(problem, device=backend)
        assert result.inside >= 0.995 * alone.inside
        assert result.inside == pytest.approx(problem.inside(result.labels), rel=1e-9, abs=1e-9)
        np.testing.assert_array_equal(result.labels, number_by_first_appearance(result.labels))
        assert result.n_clusters == result.trace[-1].n_clusters
    assert all(phase == "problems" and total == len(problems) for phase, _, total in seen)
    done = [done for _, done, _ in seen]
    assert done[-1] == len(problems)
    assert done == sorted(set(done))
    assert len(done) < len(problems)  # some went together


def test_packs_hold_what_fits_the_largest_first(backend, problems, monkeypatch):
    monkeypatch.setattr("clusterfug.execution.torch.pack.resident_bytes", lambda n, d, itemsize: n)
    monkeypatch.setattr("clusterfug.execution.torch.pack.STARTS", 1)
    items = [Item(X, Task(), backend) for X in problems]
    assert list(plan(items, np.inf)) == [([5, 4, 1, 3, 0, 6, 2], False)]
    assert list(plan(items, 190)) == [([5], True), ([4, 1], False), ([3, 0, 6, 2], False)]


def test_a_problem_that_is_wrong_is_named_and_the_others_are_solved(backend, problems):
    problems[3][2, 1] = np.nan
    problems[5] = "no features"
    named = {f"image {t}": X for t, X in enumerate(problems)}
    with pytest.raises(SolveManyError, match=r"2 of 7 problems failed.*'image 3': .*row 2, col") as caught:
        solve_many(named, threshold=0.5, device=backend)
    assert list(caught.value.errors) == ["image 3", "image 5"]
    for t, result in enumerate(caught.value.results):
        assert (result is None) == (t in (3, 5))
        if result is not None:
            consistent(result, problems[t], threshold=0.5)


def test_options_of_many(backend, problems):
    assert solve_many([], device=backend) == []
    found = solve_many(problems[:2], device=backend, time_limit=0, random_state=np.random.default_rng(0))
    assert [len(result.labels) for result in found] == [5, 60]
    twice = [problems[1], problems[1] * 2]
    for result, X in zip(solve_many(twice, init=np.arange(60) % 7, device=backend), twice, strict=True):
        assert consistent(result, X).inside >= DenseProblem(X).inside(np.arange(60) % 7)
    for options, message in (
        ({"n_jobs": 2}, "n_jobs is for the CPU: leave it out with a device"),
        ({"algorithm": "dlaec"}, "dlaec runs on the CPU only"),
        ({"precision": "x"}, "unknown precision"),
        ({"k": 3}, "k does not go with auto"),
    ):
        with pytest.raises(ValueError, match=message):
            solve_many(problems, device=backend, **options)
    with pytest.raises(ValueError, match="a graph is solved on the CPU"):
        solve_many([GraphProblem([[0, 1]], [1.0])], device=backend)
    assert solve_many([GraphProblem([[0, 1]], [1.0])], device="auto")[0].n_clusters == 1


def test_tensors_among_many_stay_where_they_are(backend, problems):
    mixed = [torch.tensor(problems[1], device=backend), problems[4]]
    found = solve_many(mixed, threshold=0.5)
    assert (found[0].trace[-1].passes is None) == (backend.type == "cpu")
    assert found[1].trace[-1].passes is None
    for result, t in zip(found, (1, 4), strict=True):
        consistent(result, problems[t], threshold=0.5)


# Whoever asks


@pytest.mark.large
def test_a_path_on_a_device(backend, blobs):
    X = torch.tensor(blobs, device=backend)
    thresholds = [0.1, 0.4, 0.7]
    for features in (blobs, X):
        path = threshold_path(features, thresholds, device=backend, precision="exact")
        for threshold, result in zip(thresholds, path, strict=True):
            assert (
                result.inside >= dense_multicut(blobs, threshold, device=backend, precision="exact").inside
            )
            assert result.trace[-1].passes is not None
    assert len(threshold_path(X, thresholds)) == 3


def test_the_estimator_on_a_device(backend, blobs):
    model = DenseMulticut(0.3, device=backend, precision="exact", algorithm="fast").fit(blobs)
    as_good(model.result_, dense_multicut(blobs, 0.3, algorithm="fast"))
    assert model.result_.trace[-1].passes is not None
    assert model.get_params()["device"] == backend
    with pytest.raises(ValueError, match="unknown device"):
        DenseMulticut(device="gpu").fit(blobs)


def test_segmentation_on_a_device(backend):
    embeddings = np.zeros((2, 4, 2))
    embeddings[:, :2, 0] = embeddings[:, 2:, 1] = 1
    found = segment(embeddings, np.ones((2, 4), dtype=int), things=[1], device=backend)
    assert found.instance.tolist() == [[1, 1, 2, 2]] * 2


@pytest.mark.large
def test_the_command_line(run, blobs, tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    np.save(path, blobs)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for command in (
        ("cluster", path, "-o", tmp_path / "l.npy"),
        ("cluster", path, "--thresholds", "0.2:0.8:3"),
        ("segment", tmp_path, "--things", 1, "-o", tmp_path / "out"),
    ):
        code, out, err = run(*command, "--device", "cuda")
        assert (code, out) == (2, "")
        assert err.startswith("clusterfug: error: device 'cuda': torch finds no CUDA GPU here; use ")
        assert err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]
    monkeypatch.setitem(sys.modules, "torch", None)
    for more in ((), ("--thresholds", "0.2:0.8:3")):
        code, out, err = run("cluster", path, "--device", "auto", "--precision", "exact", "--json", *more)
        assert (code, err) == (0, "")
        assert '"device": "cpu"' in out
    (tmp_path / "graph.txt").write_text("MULTICUT\n0 1 1.0\n")
    code, _, err = run("cluster", tmp_path / "graph.txt", "--device", "auto", "--json")
    assert (code, err) == (0, "")
    code, _, err = run("cluster", tmp_path / "graph.txt", "--precision", "exact")
    assert "--precision goes with features" in err
    for options, message in (
        (("--jobs", 2), "--jobs is for the CPU"),
        (("--graph", "grid"), "a graph is solved on the CPU"),
    ):
        code, _, err = run("segment", tmp_path, "--things", 1, "--device", "cuda", *options)
        assert code == 2
        assert message in err


def test_nothing_heavy_is_imported_on_a_device():
    code = """
import sys
import numpy as np
import torch
from clusterfug import dense_multicut, solve_many
X = np.random.default_rng(0).normal(size=(50, 4))
device = torch.device("cpu")
dense_multicut(X, device=device, sample_weight=np.arange(50) % 3)
dense_multicut(torch.tensor(X), device=device, init=np.arange(50))
solve_many([X, X[:10]], device=device)
heavy = {"numba", "scipy", "faiss", "sklearn", "threadpoolctl"} & set(sys.modules)
sys.exit(str(heavy) if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_tensors_are_known_without_importing_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not checks.is_tensor(np.eye(2))
    monkeypatch.delitem(sys.modules, "torch")
    assert not checks.on_gpu(np.eye(2))
    assert checks.on_host(3) == 3
