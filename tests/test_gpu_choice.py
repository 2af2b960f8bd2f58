"""Tensors on a device: local thresholds, their choice and wishes, against naive loops and the host."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from clusterfug.options import Task

from clusterfug import (
    DenseMulticut,
    DenseProblem,
    SolveManyError,
    dense_multicut,
    local_alpha,
    lower_bound,
    solve_many,
    verify_bound,
)
from clusterfug.costs.local import neighbourhood
from clusterfug.execution.torch import neighbourhood as gpu
from clusterfug.result import number_by_first_appearance
from clusterfug.selection.items import items_of, silhouette

WAYS = ({"threshold": "auto"}, {"threshold": "local"}, {"n_clusters": 7}, {"n_clusters": (20, 22)})


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture
def blobs(rng):
    centres = unit(rng.normal(size=(6, 8)))
    return unit(centres[rng.integers(6, size=80)] + 0.2 * rng.normal(size=(80, 8)))


def on_both(X, weight, m, backend):
    """Neighbourhoods on the device and on the host."""
    there = torch.tensor(X, device=backend)
    return neighbourhood(there, weight, m, backend), neighbourhood(X, weight, m)


def assert_alike(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found.similarity, expected.similarity, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found.squares, expected.squares, rtol=rtol)
    assert found.contrast == pytest.approx(expected.contrast, rel=rtol)


def consistent(result, X, **weights):
    """The result costs what it says, and has as many clusters as were wished for."""
    choice, labels = result.choice, result.labels
    np.testing.assert_array_equal(labels, number_by_first_appearance(labels))
    prefer = "small" if choice.strictness >= 0 else "large"
    problem = DenseProblem(X, alpha=choice.alpha, prefer=prefer, **weights)
    assert result.inside == pytest.approx(problem.inside(labels), rel=1e-9, abs=1e-9)
    assert result.objective == pytest.approx(problem.objective(labels), rel=1e-9, abs=1e-9)
    assert result.trace[-1].n_clusters == result.n_clusters
    assert any(phase.passes is not None for phase in result.trace)  # it ran on the device
    if choice.wish is not None:
        assert choice.met
        assert choice.wish[0] <= result.n_clusters <= choice.wish[1]
    return result


# How similar neighbours are


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [None, 1, 9, 500])
def test_neighbours_are_as_similar_as_on_the_host(backend, blobs, rng, dtype, m):
    X = blobs.astype(dtype)
    X[:5], X[7] = X[11], 0
    rtol = 1e-5 if dtype == np.float32 else 1e-9
    for weight in (np.ones(80), np.arange(80) % 4.0, rng.uniform(0, 3, size=80)):
        assert_alike(*on_both(X, weight, m, backend), rtol)


def test_neighbours_of_rows_of_any_length(backend, rng):
    X = rng.normal(size=(50, 4)) * rng.uniform(0.1, 5, size=(50, 1))
    for weight in (np.ones(50), np.arange(50) % 4.0):
        assert_alike(*on_both(X, weight, 6, backend))


def test_hardly_any_neighbours(backend):
    for X, weight in (
        ([[3.0, 4.0]], [1.0]),
        ([[3.0, 4.0]], [5.0]),
        ([[1.0, 0], [-1, 0]], [1.0, 1]),
        ([[1.0, 0], [0.5, 0]], [1.0, 0]),
        (np.zeros((4, 2)), np.ones(4)),
    ):
        assert_alike(*on_both(np.array(X), np.array(weight), None, backend))


@pytest.mark.parametrize(("rows", "columns"), [(7, 1000), (1000, 5), (9, 11)])
def test_neighbours_block_by_block(backend, blobs, monkeypatch, rows, columns):
    monkeypatch.setattr(gpu, "_ROWS", rows)
    monkeypatch.setattr(gpu, "_COLUMNS", columns)
    for weight in (np.ones(80), np.arange(80) % 4.0):
        for m in (3, 12, None):
            assert_alike(*on_both(blobs, weight, m, backend))


def of_a_sample(X, m, most):
    """Some items are asked, each counts for n / most, and m are neighbours: by a double loop."""
    n, most = len(X), min(most, len(X))
    each = n / most
    asked = np.random.default_rng(0).permutation(n)[:most]
    similarity = np.zeros(n)
    for i in range(n):
        others = np.sort([X[i] @ X[j] for j in asked if j != i])[::-1]
        counts = np.clip(m - each * np.arange(len(others)), 0, each)
        similarity[i] = max(counts @ others / counts.sum(), 0.01 * X[i] @ X[i])
    return similarity


@pytest.mark.parametrize("most", [40, 79, 27])
def test_of_many_items_a_sample_is_asked(backend, blobs, monkeypatch, most):
    monkeypatch.setattr(gpu, "_ASKED", most)
    monkeypatch.setattr(gpu, "_ROWS", 13)
    found, whole = on_both(blobs, np.ones(80), 12, backend)
    np.testing.assert_allclose(found.similarity, of_a_sample(blobs, 12, most), rtol=1e-9)
    np.testing.assert_allclose(found.squares, whole.squares)
    assert np.median(np.abs(found.similarity / whole.similarity - 1)) < 0.1
    assert found.contrast == pytest.approx(whole.contrast, rel=0.1)
    weight = (np.arange(80) % 5 > 0).astype(float)
    fewer, _ = on_both(blobs, weight, 12, backend)
    present = weight > 0
    expected = of_a_sample(blobs[present], 12, most)
    np.testing.assert_allclose(fewer.similarity[present], expected, rtol=1e-9)


def test_weights_where_every_so_many_is_asked(backend, rng, monkeypatch):
    """An item of weight 9 is one of nine: its copies are as rare among those asked as all others are."""
    monkeypatch.setattr(gpu, "_ASKED", 40)
    X = unit(rng.normal(size=(80, 16)))
    found, whole = on_both(X, np.full(80, 9.0), 18, backend)
    assert np.all(np.isfinite(found.similarity))
    assert np.median(found.similarity / whole.similarity) == pytest.approx(1, abs=0.1)


@pytest.mark.large
def test_of_many_items_about_the_same_mean(backend, rng, monkeypatch):
    monkeypatch.setattr(gpu, "_ASKED", 500)
    centres = unit(rng.normal(size=(5, 16)))
    X = unit(centres[rng.integers(5, size=2000)] + 0.2 * rng.normal(size=(2000, 16)))
    found, whole = on_both(X, np.ones(2000), 100, backend)
    assert np.max(np.abs(found.similarity / whole.similarity - 1)) < 0.1
    assert found.contrast == pytest.approx(whole.contrast, rel=0.05)


# What a choice looks at


@pytest.mark.parametrize("block", [1 << 26, 50])
@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "bfloat16"])
def test_sums_of_clusters(backend, rng, monkeypatch, block, kind):
    monkeypatch.setattr(gpu, "_BLOCK", block)
    X = rng.integers(-3, 4, size=(60, 8))
    labels, weight = rng.permutation(np.arange(60) % 7), rng.uniform(0, 2, size=60)
    there = torch.tensor(X).to(getattr(torch, kind)).to(backend)
    np.testing.assert_array_equal(gpu.rows_on_host(there, labels[:5]), X[labels[:5]])
    found = gpu.sums_on_device(there, weight, labels, backend)
    expected = np.zeros((7, 8))
    for x, label, w in zip(X, labels, weight, strict=True):
        expected[label] += w * x
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert found.dtype == np.float64


@pytest.mark.large
def test_sums_of_clusters_are_the_same_twice(backend, rng):
    X = torch.tensor(rng.normal(size=(50_000, 16)), device=backend)
    labels, weight = rng.integers(5, size=50_000), rng.uniform(size=50_000)
    first, *others = (gpu.sums_on_device(X.clone(), weight, labels, backend) for _ in range(5))
    assert all(other.tobytes() == first.tobytes() for other in others)


@pytest.mark.parametrize("weighted", [False, True])
def test_items_look_the_same_as_on_the_host(backend, blobs, rng, weighted):
    weight = np.arange(80) % 4.0 if weighted else None
    task = Task(sample_weight=weight)
    there = items_of(torch.tensor(blobs, device=backend), task, backend)
    here = items_of(blobs, task, None)
    for clusters in (1, 5, 30):
        labels = number_by_first_appearance(rng.integers(clusters, size=80))
        assert silhouette(there, labels) == pytest.approx(silhouette(here, labels), abs=1e-9)
        for strictness in (0.6, 2.0, -0.4):
            expected = here.inside(labels, strictness)
            assert there.inside(labels, strictness) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(there.strengths(labels), here.strengths(labels), rtol=1e-9)


# What comes out


@pytest.mark.parametrize("precision", ["fast", "exact"])
@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@pytest.mark.parametrize("way", WAYS)
def test_as_good_as_on_the_host_and_the_same_twice(backend, blobs, way, algorithm, precision):
    options = way | {"algorithm": algorithm}
    first, second = (
        dense_multicut(blobs, device=backend, precision=precision, **options) for _ in range(2)
    )
    np.testing.assert_array_equal(first.labels, second.labels)
    assert consistent(first, blobs).choice.rows() == second.choice.rows()
    assert first.algorithm == algorithm
    np.testing.assert_allclose(first.choice.alpha**2, abs(first.choice.strictness) * alpha_1(blobs) ** 2)
    if "n_clusters" not in way:
        host = dense_multicut(blobs, **options)
        assert first.choice.strictness == host.choice.strictness
        np.testing.assert_array_equal(first.choice.candidates, host.choice.candidates)
        assert first.inside >= 0.995 * host.inside


def alpha_1(X, **options):
    return local_alpha(X, 1.0, **options)


@pytest.mark.parametrize("way", WAYS)
def test_tensors_are_clustered_where_they_are(backend, blobs, way):
    way = way | {"algorithm": "fast"}
    expected = dense_multicut(blobs, device=backend, **way)
    X = torch.tensor(blobs, device=backend)
    before = X.clone()
    wide = torch.stack([X, X], 2)[:, :, 0]  # not contiguous
    for same in (X, wide, X.clone().requires_grad_()):
        np.testing.assert_array_equal(dense_multicut(same, device=backend, **way).labels, expected.labels)
    assert torch.equal(X, before)
    here = dense_multicut(X, **way)  # on the CPU by compiled kernels
    assert (here.trace[0].passes is None) == (backend.type == "cpu")
    np.testing.assert_array_equal(
        dense_multicut(X, device="cpu", **way).labels, dense_multicut(blobs, **way).labels
    )


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "int8", "int64", "bool"])
def test_tensors_of_every_type(backend, rng, kind):
    values = rng.integers(0, 2, size=(40, 6))
    X = torch.tensor(values).to(getattr(torch, kind)).to(backend)
    for way in WAYS:
        result = consistent(dense_multicut(X, device=backend, **way), values)
        np.testing.assert_array_equal(result.labels, dense_multicut(values, device=backend, **way).labels)


@pytest.mark.parametrize("way", WAYS)
def test_weights_reach_the_device(backend, blobs, way):
    weight = np.arange(80) % 4.0
    options = way | {"sample_weight": weight, "device": backend, "algorithm": "fast"}
    result = consistent(dense_multicut(blobs, **options), blobs, sample_weight=weight)
    alpha = alpha_1(blobs, sample_weight=weight)
    np.testing.assert_allclose(result.choice.alpha**2, abs(result.choice.strictness) * alpha**2)
    present = weight > 0
    alone = dense_multicut(blobs[present], **(options | {"sample_weight": weight[present]}))
    assert result.n_clusters == alone.n_clusters
    assert result.objective == pytest.approx(alone.objective)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nobody_writes_to_the_input(backend, blobs, way, dtype):
    X = blobs.astype(dtype)
    there, before = torch.tensor(X, device=backend), X.copy()
    for features in (X, there):
        dense_multicut(features, device=backend, sample_weight=np.arange(80) % 4.0, algorithm="fast", **way)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(there.cpu().numpy(), before)


@pytest.mark.parametrize("way", WAYS)
def test_options_reach_the_device(backend, blobs, way):
    X, seen = blobs[:40], []
    options = {"device": backend, "time_limit": 100, "n_neighbors": 5, "bound": True}
    result = dense_multicut(X, callback=lambda *call: seen.append(call), **way, **options)
    choice = consistent(result, X).choice
    np.testing.assert_allclose(choice.alpha**2, abs(choice.strictness) * alpha_1(X, n_neighbors=5) ** 2)
    prefer = "small" if choice.strictness >= 0 else "large"
    assert verify_bound(X, result.bound, alpha=choice.alpha, prefer=prefer)
    assert result.bound.value <= result.objective
    assert seen


@pytest.mark.parametrize("threshold", ["auto", "local"])
def test_labels_to_start_from(backend, blobs, threshold):
    init = dense_multicut(blobs, "local").labels
    result = dense_multicut(blobs, threshold, init=init, device=backend, algorithm="fast")
    assert consistent(result, blobs).choice.strictness == 0.6
    assert result.objective <= DenseProblem(blobs, "local").objective(init) + 1e-9


@pytest.mark.parametrize("way", WAYS)
def test_features_that_do_not_fit_stay_where_they_are(backend, blobs, way, monkeypatch):
    monkeypatch.setattr("clusterfug.execution.torch.pack.resident_bytes", lambda n, d, itemsize: 2**62)
    monkeypatch.setattr("clusterfug.execution.torch.pack.streamed_bytes", lambda n, d: 1)
    if backend.type == "cpu":
        monkeypatch.setattr("clusterfug.execution.torch.solve.check_memory", lambda *_, **__: None)
    consistent(dense_multicut(blobs, device=backend, memory_limit=2**30, **way), blobs)


@pytest.mark.parametrize("way", WAYS)
def test_too_little_memory_is_one_line(backend, blobs, way):
    with pytest.raises(MemoryError, match=r"80 items of 8 features need .* GiB on .*memory_limit"):
        dense_multicut(blobs, device=backend, memory_limit=1000, **way)


@pytest.mark.parametrize("way", WAYS)
def test_running_out_of_memory_is_one_line(backend, blobs, way, monkeypatch):
    def full(*_):
        raise torch.cuda.OutOfMemoryError("a long\nstory")

    monkeypatch.setattr(gpu, "_nearest", full)
    with pytest.raises(MemoryError, match=r"ran out of memory: end other programs there") as caught:
        dense_multicut(blobs, device=backend, **way)
    assert "\n" not in str(caught.value)


def test_hardly_any_items(backend):
    for X, clusters in (
        ([[1.0, 2.0]], 1),
        ([[1.0, 0], [-1, 0]], 2),
        (np.zeros((7, 2)), 7),
        (np.repeat(np.eye(3), 5, axis=0), 3),
    ):
        X = np.asarray(X)
        for threshold in ("auto", "local"):
            assert consistent(dense_multicut(X, threshold, device=backend), X).n_clusters == clusters
        for wish in (1, len(X)):
            consistent(dense_multicut(X, n_clusters=wish, device=backend), X)


def test_one_cluster_comes_with_advice(backend, rng):
    X = np.array([3.0, 0, 0]) + 0.3 * rng.normal(size=(30, 3))
    with pytest.warns(UserWarning, match="one cluster, and all items share a common part"):
        result = dense_multicut(X, "auto", device=backend)
    assert consistent(result, X).n_clusters == 1


@pytest.mark.parametrize("method", ["trivial", "triangles"])
def test_a_bound_of_a_local_threshold(backend, blobs, method):
    X = blobs[:40]
    local = {"threshold": "local", "strictness": 0.9, "n_neighbors": 8}
    there = lower_bound(torch.tensor(X, device=backend), **local, method=method, device=backend)
    assert there.value == pytest.approx(lower_bound(X, **local, method=method).value, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold": "auto", "algorithm": "best"}, "best runs on the CPU only"),
        ({"threshold": "auto", "n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"n_clusters": 81}, "there are only 80 items"),
        ({"threshold": "local", "strictness": -1}, "strictness must be at least 0"),
        ({"threshold": "auto", "sample_weight": np.zeros(80)}, "zero everywhere"),
    ],
)
def test_errors_are_one_line(backend, blobs, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        dense_multicut(blobs, device=backend, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_bad_number_is_found(backend, blobs, way, value):
    blobs[3, 1] = value
    with pytest.raises(ValueError, match="row 3, column 1"):
        dense_multicut(torch.tensor(blobs, device=backend), device=backend, **way)
    with pytest.raises(ValueError, match="X is a DenseProblem"):
        dense_multicut(DenseProblem(np.eye(4)), device=backend, **way)


# Many problems, and whoever asks


def test_many_local_problems(backend, rng):
    problems = [rng.normal(size=(n, 5)) for n in (40, 1, 25, 60)]
    local = {"threshold": "local", "strictness": 0.8}
    found = solve_many(problems, device=backend, **local)
    for result, X in zip(found, problems, strict=True):
        problem = DenseProblem(X, **local)
        assert result.objective == pytest.approx(problem.objective(result.labels), rel=1e-9, abs=1e-9)
        assert result.inside >= 0.995 * dense_multicut(X, device=backend, **local).inside - 1e-9
        assert result.trace[-1].passes is not None
    tensors = [torch.tensor(X, device=backend) for X in problems]
    for result, same in zip(solve_many(tensors, device=backend, **local), found, strict=True):
        np.testing.assert_array_equal(result.labels, same.labels)


def test_a_wrong_one_of_many_local_problems_is_named(backend, rng):
    problems = {name: rng.normal(size=(20, 4)) for name in ("good", "bad", "fine")}
    problems["bad"][3, 2] = np.nan
    with pytest.raises(SolveManyError, match=r"1 of 3 problems failed.*'bad': .*row 3, column 2") as caught:
        solve_many(problems, threshold="local", device=backend)
    assert [result is None for result in caught.value.results] == [False, True, False]


@pytest.mark.parametrize("way", [{"n_clusters": 9}, {"threshold": "auto"}])
def test_many_problems_choose_nothing_and_say_so(backend, blobs, way):
    with pytest.raises(
        ValueError, match="many problems on a GPU choose no strictness: use threshold='local'"
    ):
        solve_many([blobs], device=backend, **way)


def test_the_estimator_on_a_device(backend, blobs, rng):
    model = DenseMulticut(device=backend, algorithm="fast").fit(blobs)
    assert model.choice_ is not None
    consistent(model.result_, unit(blobs))
    host = DenseMulticut(algorithm="fast").fit(blobs)
    assert model.choice_.strictness == host.choice_.strictness
    assert model.predict(rng.normal(size=(20, 8))).max() < model.n_clusters_
    assert DenseMulticut(device=backend, n_clusters=9).fit(blobs).n_clusters_ == 9


def test_nothing_heavy_is_imported_to_choose_on_a_device():
    code = """
import sys
import numpy as np
import torch
from clusterfug import dense_multicut, solve_many
X = np.random.default_rng(0).normal(size=(30, 4))
device = torch.device("cpu")
dense_multicut(X, "auto", device=device, sample_weight=np.arange(30) % 3)
dense_multicut(torch.tensor(X), "local", device=device)
dense_multicut(X, n_clusters=7, device=device)
solve_many([X, X[:10]], threshold="local", device=device)
heavy = {"numba", "scipy", "faiss", "sklearn", "threadpoolctl", "matplotlib"} & set(sys.modules)
sys.exit(str(heavy) if heavy else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
