"""Solving on a device: any input, costs and options, results as good as on the CPU, errors in one line."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from reference import assert_locally_optimal, cost_matrix, objective

from clusterfug import DenseProblem, SolveManyError, dense_multicut, solve_many
from clusterfug.result import number_by_first_appearance

N = 150  # items of blobs


def solve(X, threshold=None, **options):
    """Solve rows as they are, at a threshold of 0.4 by default."""
    if threshold is None and "alpha" not in options:
        threshold = 0.4
    return dense_multicut(X, threshold, metric="inner_product", **options)


def consistent(result, X, threshold=None, **costs):
    """The labels are numbered by first appearance, and the result has their costs."""
    if threshold is None and "alpha" not in costs:
        threshold = 0.4
    labels = result.labels
    assert labels.dtype == np.int64
    np.testing.assert_array_equal(labels, number_by_first_appearance(labels))
    problem = DenseProblem(X, threshold, **costs)
    assert result.inside == pytest.approx(problem.inside(labels), rel=1e-9, abs=1e-12)
    assert result.objective == pytest.approx(problem.objective(labels), rel=1e-9, abs=1e-12)
    assert result.trace[-1].n_clusters == result.n_clusters
    return result


def as_good(result, expected, share=0.995):
    assert result.inside >= share * expected.inside


@pytest.mark.parametrize("precision", ["fast", "exact"])
@pytest.mark.parametrize("algorithm", ["fast", "auto"])
def test_as_good_as_on_the_cpu_and_deterministic(backend, blobs, algorithm, precision):
    first, second = (
        solve(blobs, algorithm=algorithm, device=backend, precision=precision) for _ in range(2)
    )
    np.testing.assert_array_equal(first.labels, second.labels)
    as_good(consistent(first, blobs), solve(blobs, algorithm="fast"))
    assert first.objective == pytest.approx(objective(cost_matrix(blobs), first.labels))
    assert first.algorithm == algorithm
    assert len(first.merges) == first.n_iter == 0
    assert first.merges.dtype.names == ("i", "j", "cost")


def test_the_trace_falls_and_records_certificates(backend, blobs):
    result = solve(blobs, device=backend)
    objectives = [phase.objective for phase in result.trace]
    assert all(b <= a + 1e-9 * abs(a) for a, b in pairwise(objectives))
    assert objectives[-1] == result.objective
    assert result.trace[-1].move_optimal
    assert result.trace[-1].join_optimal
    assert all(phase.passes is not None and phase.seconds >= 0 for phase in result.trace)
    assert sum(phase.seconds for phase in result.trace) <= result.seconds
    assert solve(blobs).trace[-1].passes is None  # on the CPU


def test_degenerate_inputs(backend):
    def clusters(X, threshold):
        return solve(X, threshold, device=backend).n_clusters

    assert clusters(np.ones((1, 3)), 0.4) == 1
    assert clusters(np.ones((2, 3)), 0.4) == 1
    assert clusters(np.full((50, 2), 0.7), 0.4) == 1  # all duplicates
    assert clusters(np.zeros((20, 3)), 0.4) == 20
    assert clusters(np.zeros((20, 3)), 0.0) == 20
    assert clusters(np.zeros((20, 3)), -0.1) == 1


@pytest.mark.parametrize(
    "dtype",
    ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool"],
)
def test_tensors_of_every_type(backend, rng, dtype):
    values = rng.integers(0, 2, size=(40, 6))
    X = torch.tensor(values).to(getattr(torch, dtype)).to(backend)
    result = consistent(solve(X, 1.5, device=backend), values, 1.5)
    np.testing.assert_array_equal(result.labels, solve(values, 1.5, device=backend).labels)
    if backend.type == "cpu":  # compiled kernels accept them, too
        assert consistent(solve(X, 1.5), values, 1.5).inside > 0


def test_tensors_of_any_layout_are_not_written_to(backend, blobs):
    X = torch.tensor(blobs, device=backend)
    expected = solve(X, device=backend).labels
    columns = X.T.contiguous().T  # not contiguous
    wide = torch.stack([X, X], 2)[:, :, 0]
    for same in (columns, wide, X.clone().requires_grad_()):
        np.testing.assert_array_equal(solve(same, device=backend).labels, expected)
    assert solve(X.clone().requires_grad_(), device="cpu").inside > 0
    before = X.clone()
    solve(X, device=backend, sample_weight=np.arange(float(N)))
    assert torch.equal(X, before)


def test_lists_arrays_and_memory_maps(backend, blobs, tmp_path):
    expected = solve(blobs, device=backend).labels
    np.save(tmp_path / "x.npy", blobs)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for same in (blobs.tolist(), mapped, np.asfortranarray(blobs), blobs.astype(">f8"), blobs[::-1][::-1]):
        np.testing.assert_array_equal(solve(same, device=backend).labels, expected)


@pytest.mark.parametrize(
    "costs",
    [
        {"threshold": 0.2},
        {"threshold": -0.1},
        {"alpha": 0.7},
        {"alpha": np.linspace(0.3, 0.9, N)},
        {"alpha": 0.1, "prefer": "large"},
        {"sample_weight": np.arange(N) % 4 / 2 + 0.5},
        {"sample_weight": np.arange(N) % 3.0},
        {"sample_weight": np.arange(N) % 2},
        {"alpha": np.linspace(0.3, 0.9, N), "sample_weight": np.arange(N) % 3.0},
    ],
)
def test_costs_as_numbers_arrays_tensors_and_dense_problems(backend, blobs, costs):
    result = consistent(solve(blobs, **costs, device=backend), blobs, **costs)
    as_good(result, solve(blobs, **costs, algorithm="fast"), 0.97)  # another local optimum
    dense = DenseProblem(blobs, **({} if "alpha" in costs else {"threshold": 0.4}) | costs)
    np.testing.assert_array_equal(dense_multicut(dense, device=backend).labels, result.labels)
    tensors = {
        name: torch.as_tensor(value).to(backend)
        for name, value in costs.items()
        if name in ("alpha", "sample_weight")
    }
    np.testing.assert_array_equal(solve(blobs, **costs | tensors, device=backend).labels, result.labels)


def test_a_signature(backend, blobs):
    signature = np.repeat([1, -1], [13, 3])
    for weight in (None, np.arange(N) % 3.0):
        costs = {"threshold": 0.2, "signature": signature, "sample_weight": weight}
        problem = DenseProblem(blobs, **costs)
        result = consistent(dense_multicut(problem, device=backend), blobs, **costs)
        as_good(result, dense_multicut(problem, algorithm="fast"))


def test_items_of_weight_0_get_the_cluster_of_the_most_similar_mean(backend, blobs):
    weight = np.ones(N)
    weight[::3] = 0
    for signature in (np.ones(16), np.repeat([1, -1], [14, 2])):
        problem = DenseProblem(blobs, 0.3, sample_weight=weight, signature=signature)
        labels = dense_multicut(problem, device=backend).labels
        np.testing.assert_array_equal(problem.label_weightless(labels), labels)
        alone = dense_multicut(DenseProblem(blobs[weight > 0], 0.3, signature=signature), device=backend)
        np.testing.assert_array_equal(number_by_first_appearance(labels[weight > 0]), alone.labels)


@pytest.mark.parametrize("scale", [1e-70, 1e-30, 1e30, 1e70])
@pytest.mark.parametrize("scaled", ["threshold", "alpha", "weight", "none"])
def test_any_magnitude(backend, blobs, scale, scaled):
    costs = {
        "threshold": {"threshold": 0.3 * scale**2},
        "alpha": {"alpha": 0.5 * scale},
        "weight": {"threshold": 0.3, "sample_weight": np.full(N, scale)},
        "none": {"threshold": 0.0},
    }[scaled]
    X = blobs if scaled == "weight" else blobs * scale
    plain = {"weight": 0.3, "none": 0.0, "threshold": 0.3, "alpha": 0.25}[scaled]
    result = solve(X, **costs, device=backend, algorithm="fast")
    expected = solve(blobs, plain, device=backend, algorithm="fast")
    assert result.inside == pytest.approx(scale**2 * expected.inside, rel=0.005)
    assert result.objective == pytest.approx(scale**2 * expected.objective, rel=0.005)
    assert result.trace[-1].move_optimal


def test_results_are_never_worse_than_init(backend, blobs, rng):
    for init in (rng.integers(-3, 30, size=N), np.arange(N) * 10**12, np.zeros(N, dtype=int)):
        result = consistent(solve(blobs, init=init, device=backend), blobs)
        assert result.inside >= DenseProblem(blobs, 0.4).inside(init) - 1e-9
    good = solve(blobs, device=backend)
    again = solve(blobs, init=torch.tensor(good.labels, device=backend), device=backend)
    on_cpu = solve(blobs, algorithm="best", init=good.labels, max_iter=1)
    assert min(again.inside, on_cpu.inside) >= good.inside - 1e-9
    weight = np.arange(N) % 2
    half = solve(blobs, init=good.labels, sample_weight=weight, device=backend)
    consistent(half, blobs, sample_weight=weight)


@pytest.mark.parametrize("time_limit", [0, 0.001, 600])
def test_labels_are_valid_when_the_time_limit_passes(backend, blobs, time_limit):
    result = consistent(solve(blobs, time_limit=time_limit, device=backend), blobs)
    assert result.inside >= 0
    assert (time_limit < 600) or result.trace[-1].move_optimal


def test_a_callback_gets_every_phase_and_may_stop_the_run(backend, blobs):
    seen = []
    result = solve(blobs, device=backend, callback=lambda *event: seen.append(event))
    assert [phase for phase, _, _ in seen] == [phase.name for phase in result.trace]
    assert all(0 <= done <= total and total > 0 for _, done, total in seen)

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(blobs, device=backend, callback=stop)


def test_too_small_a_memory_limit_is_found_before_any_work(backend, blobs):
    X = blobs.tolist()
    with pytest.raises(
        MemoryError, match=r"150 items of 16 features need .* GiB on .*memory_limit"
    ) as caught:
        solve(X, device=backend, memory_limit=1000)
    assert "\n" not in str(caught.value)
    with pytest.raises(SolveManyError, match=r"2 of 2 problems failed.*memory_limit"):
        solve_many([X, X], 0.4, device=backend, memory_limit=1000)


@pytest.mark.parametrize(("min_part", "share"), [(100, 0.98), (1 << 14, 0.995)])
def test_features_that_do_not_fit_are_streamed(backend, blobs, monkeypatch, min_part, share):
    X = np.repeat(blobs, 2, axis=0)
    expected = solve(X, device=backend, algorithm="fast")
    monkeypatch.setattr("clusterfug.execution.torch.pack.resident_bytes", lambda n, d, itemsize: 2**62)
    monkeypatch.setattr("clusterfug.execution.torch.pack.streamed_bytes", lambda n, d: 1)
    monkeypatch.setattr("clusterfug.execution.torch.memory._MIN_PART", min_part)
    if backend.type == "cpu":
        monkeypatch.setattr("clusterfug.execution.torch.pack.check_memory", lambda *_, **__: None)
    result = solve(X, device=backend, memory_limit=2, algorithm="fast")
    assert result.inside == pytest.approx(expected.inside, rel=1 - share)


def test_running_out_of_memory_is_one_line(backend, blobs, monkeypatch):
    def full(*_):
        raise torch.cuda.OutOfMemoryError("a long\nstory")

    monkeypatch.setattr("clusterfug.execution.torch.solve.refinement_steps", full)
    with pytest.raises(
        MemoryError, match=r"ran out of memory: end other programs there.*memory_limit"
    ) as caught:
        solve(blobs, device=backend)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("as_tensor", [False, True])
@pytest.mark.parametrize("metric", ["inner_product", "cosine"])
def test_bad_values_are_found(backend, value, as_tensor, metric):
    X = np.eye(4)
    X[2, 1] = value
    with pytest.raises(ValueError, match="X has a value that") as expected:
        dense_multicut(X, metric=metric)
    X = torch.tensor(X, device=backend) if as_tensor else X
    with pytest.raises(ValueError, match="row 2, column 1") as caught:
        dense_multicut(X, 0.4, metric=metric, device=backend)
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
        (torch.eye(4), {"k": 2}, "k goes with .* not with auto"),
        (torch.eye(4), {"ann": "ivf"}, "ann goes with dapplaec"),
        (torch.eye(4), {"max_iter": 2}, "max_iter goes with best"),
        (torch.eye(4), {"precision": "double"}, "unknown precision 'double': choose one of fast, exact"),
        (torch.eye(4), {"memory_limit": 0}, "memory_limit must be at least 1"),
        (torch.eye(4), {"algorithm": "gaec"}, "gaec runs on the CPU only: use device='cpu'"),
        (torch.eye(4), {"algorithm": "best"}, "best runs on the CPU only.*labels of a GPU result as init"),
    ],
)
def test_bad_input_is_one_line(backend, X, options, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        solve(X, **options, device=backend)
    assert "\n" not in str(caught.value)


def test_a_dense_problem_has_its_costs(backend):
    with pytest.raises(ValueError, match="X is a DenseProblem"):
        dense_multicut(DenseProblem(np.eye(4), 0.4), 0.1, device=backend)


def test_nothing_heavy_is_imported_to_solve_or_select_on_a_device():
    code = """
import sys
import numpy as np
import torch
from clusterfug import dense_multicut, solve_many
X = np.random.default_rng(0).normal(size=(30, 4))
device = torch.device("cpu")
dense_multicut(X, 0.4, device=device, sample_weight=np.arange(30) % 3)
dense_multicut(torch.tensor(X), 0.4, device=device, init=np.arange(30), center=True)
solve_many([X, X[:10]], 0.4, device=device)
dense_multicut(X, device=device, sample_weight=np.arange(30) % 3)
dense_multicut(torch.tensor(X), "local", device=device)
dense_multicut(X, n_clusters=7, device=device)
solve_many([X, X[:10]], threshold="local", device=device)
heavy = {"numba", "scipy", "faiss", "sklearn", "threadpoolctl", "matplotlib"} & set(sys.modules)
sys.exit(str(heavy) if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_uneven_problem_takes_no_certificate_from_the_others_of_its_pack(backend, rng):
    even = [DenseProblem(rng.normal(size=(8, 3)), 0.1) for _ in range(12)]
    uneven = DenseProblem(rng.normal(size=(8, 3)) * 10.0 ** rng.uniform(-20, 20, size=(8, 1)), 0.1)
    *results, _ = solve_many([*even, uneven], device=backend)
    for problem, result in zip(even, results, strict=True):
        assert result.trace[-1].move_optimal
        assert result.trace[-1].join_optimal
        assert_locally_optimal(problem, result.labels)


@pytest.mark.parametrize("large", [1e4, 1e8, 1e10])
def test_costs_do_not_contain_the_rounding_of_huge_pairs_that_are_cut(backend, rng, large):
    """Two items of huge weight repel each other: all pairs together have terms of up to 1e20."""
    X = rng.normal(size=(40, 3))
    X[0], X[1] = [1, 0, 0], [0, 1, 0]
    X[2:, :2] = -np.abs(X[2:, :2])
    weight = np.ones(40)
    weight[:2] = large
    result = dense_multicut(X, 0.3, sample_weight=weight, metric="inner_product", device=backend)
    costs = DenseProblem(X, 0.3, sample_weight=weight).costs_of(result.labels)
    assert result.labels[0] != result.labels[1]
    assert result.inside == pytest.approx(costs.inside, rel=1e-12)
    assert result.objective == pytest.approx(costs.objective, rel=1e-12)
