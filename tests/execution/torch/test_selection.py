"""Local thresholds on a device: the same selection as on the host, with costs that the result states."""

import numpy as np
import pytest
import torch

from clusterfug import DenseProblem, dense_multicut, local_alpha, lower_bound, verify_bound
from clusterfug.costs.models import Auto, Threshold
from clusterfug.execution.torch import neighbourhood
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import number_by_first_appearance
from clusterfug.selection.items import selection_items, silhouette

SELECTIONS = ({"threshold": "auto"}, {"threshold": "local"}, {"n_clusters": 7}, {"n_clusters": (20, 22)})
selections = pytest.mark.parametrize("costs", SELECTIONS)


def solve(X, threshold=None, **options):
    """Solve rows as they are."""
    return dense_multicut(X, threshold, metric="inner_product", **options)


def consistent(result, X, **weights):
    """The result has the costs of its labels, and the requested number of clusters."""
    choice, labels = result.choice, result.labels
    np.testing.assert_array_equal(labels, number_by_first_appearance(labels))
    prefer = "small" if choice.strictness >= 0 else "large"
    problem = DenseProblem(X, alpha=choice.alpha, prefer=prefer, **weights)
    assert result.inside == pytest.approx(problem.inside(labels), rel=1e-9, abs=1e-9)
    assert result.objective == pytest.approx(problem.objective(labels), rel=1e-9, abs=1e-9)
    assert result.trace[-1].n_clusters == result.n_clusters
    assert any(phase.passes is not None for phase in result.trace)  # it ran on the device
    assert result.costs.strictness == choice.strictness
    if choice.target is not None:
        assert choice.met
        assert choice.target[0] <= result.n_clusters <= choice.target[1]
    return result


def assert_local(choice, X, **options):
    """The affinity strengths of a choice are those of a local threshold."""
    expected = abs(choice.strictness) * local_alpha(X, 1.0, **options) ** 2
    np.testing.assert_allclose(choice.alpha**2, expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_items_are_the_same_as_on_the_host(backend, small_blobs, rng, weighted):
    weight = np.arange(80) % 4.0 if weighted else None
    on_device, on_host = (
        selection_items(FeatureProblem(X, Auto(), weight, is_prepared=True), device)
        for X, device in ((torch.tensor(small_blobs, device=backend), backend), (small_blobs, None))
    )
    for clusters in (1, 5, 30):
        labels = number_by_first_appearance(rng.integers(clusters, size=80))
        assert silhouette(on_device, labels) == pytest.approx(silhouette(on_host, labels), abs=1e-9)
        np.testing.assert_allclose(on_device.alpha_sums(labels), on_host.alpha_sums(labels), rtol=1e-9)


def test_joined_clusters_cost_what_their_pairs_cost(backend, rng):
    X, weight = rng.normal(size=(20, 3)), np.r_[1e12, np.ones(19)]
    result = solve(torch.tensor(X, device=backend), n_clusters=2, sample_weight=weight, device=backend)
    assert "joined" in result.choice.reason
    consistent(result, X, sample_weight=weight)


@pytest.mark.parametrize("precision", ["fast", "exact"])
@pytest.mark.parametrize("algorithm", ["fast", "auto"])
@selections
def test_as_good_as_on_the_host_and_deterministic(backend, small_blobs, costs, algorithm, precision):
    options = costs | {"algorithm": algorithm}
    first, second = (solve(small_blobs, device=backend, precision=precision, **options) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    assert consistent(first, small_blobs).choice.rows() == second.choice.rows()
    assert first.algorithm == algorithm
    assert_local(first.choice, small_blobs)
    if "n_clusters" not in costs:
        host = solve(small_blobs, **options)
        assert first.choice.strictness == host.choice.strictness
        np.testing.assert_array_equal(first.choice.candidates, host.choice.candidates)
        assert first.inside >= 0.995 * host.inside


@selections
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tensors_are_solved_where_they_are_and_not_written_to(backend, small_blobs, costs, dtype):
    blobs, costs = small_blobs.astype(dtype), costs | {"algorithm": "fast"}
    expected = solve(blobs, device=backend, **costs)
    X = torch.tensor(blobs, device=backend)
    before, array = X.clone(), blobs.copy()
    wide = torch.stack([X, X], 2)[:, :, 0]  # not contiguous
    for same in (X, wide, X.clone().requires_grad_()):
        np.testing.assert_array_equal(solve(same, device=backend, **costs).labels, expected.labels)
    here = solve(X, **costs)  # of a tensor on the CPU: by compiled kernels
    assert (here.trace[0].passes is None) == (backend.type == "cpu")
    np.testing.assert_array_equal(solve(X, device="cpu", **costs).labels, solve(blobs, **costs).labels)
    for features in (blobs, X):
        solve(features, device=backend, sample_weight=np.arange(80) % 4.0, **costs)
    assert torch.equal(X, before)
    np.testing.assert_array_equal(blobs, array)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int8", "int64", "bool"])
def test_tensors_of_every_type(backend, rng, dtype):
    values = rng.integers(0, 2, size=(40, 6))
    X = torch.tensor(values).to(getattr(torch, dtype)).to(backend)
    for costs in SELECTIONS:
        options = costs | {"device": backend, "algorithm": "fast"}
        result = consistent(solve(X, **options), values)
        np.testing.assert_array_equal(result.labels, solve(values, **options).labels)


@selections
def test_items_of_weight_0_change_nothing(backend, small_blobs, costs):
    weight = np.arange(80) % 4.0
    options = costs | {"sample_weight": weight, "device": backend, "algorithm": "fast"}
    result = consistent(solve(small_blobs, **options), small_blobs, sample_weight=weight)
    assert_local(result.choice, small_blobs, sample_weight=weight)
    present = weight > 0
    alone = solve(small_blobs[present], **(options | {"sample_weight": weight[present]}))
    assert result.n_clusters == alone.n_clusters
    assert result.objective == pytest.approx(alone.objective)


@selections
def test_options_reach_the_device(backend, small_blobs, costs):
    X, seen = small_blobs[:40], []
    options = {"device": backend, "time_limit": 600, "n_neighbors": 5, "bound": True}
    result = solve(X, callback=lambda *call: seen.append(call), **costs, **options)
    choice = consistent(result, X).choice
    assert_local(choice, X, n_neighbors=5)
    prefer = "small" if choice.strictness >= 0 else "large"
    assert verify_bound(X, result.bound, alpha=choice.alpha, prefer=prefer, metric="inner_product")
    assert result.bound.value <= result.objective
    assert seen


@pytest.mark.parametrize("threshold", ["auto", "local"])
def test_results_are_no_worse_than_init(backend, small_blobs, threshold):
    start = solve(small_blobs, "local")
    result = solve(small_blobs, threshold, init=start.labels, device=backend, algorithm="fast")
    assert consistent(result, small_blobs).choice.strictness == 0.6
    problem = DenseProblem(small_blobs, "local")
    assert result.objective <= problem.objective(start.labels) + 1e-9


@selections
def test_features_that_do_not_fit_are_streamed(backend, small_blobs, costs, monkeypatch):
    monkeypatch.setattr("clusterfug.execution.torch.pack.resident_bytes", lambda n, d, itemsize: 2**62)
    monkeypatch.setattr("clusterfug.execution.torch.pack.streamed_bytes", lambda n, d: 1)
    if backend.type == "cpu":
        monkeypatch.setattr("clusterfug.execution.torch.pack.check_memory", lambda *_, **__: None)
    consistent(solve(small_blobs, device=backend, memory_limit=2**30, **costs), small_blobs)


@selections
def test_too_little_memory_is_one_line(backend, small_blobs, costs, monkeypatch):
    with pytest.raises(MemoryError, match=r"80 items of 8 features need .* GiB on .*memory_limit"):
        solve(small_blobs, device=backend, memory_limit=1000, **costs)

    def full(*_):
        raise torch.cuda.OutOfMemoryError("a long\nstory")

    monkeypatch.setattr(neighbourhood, "_nearest", full)
    with pytest.raises(MemoryError, match=r"ran out of memory: end other programs there") as caught:
        solve(small_blobs, device=backend, **costs)
    assert "\n" not in str(caught.value)


def test_few_items(backend):
    for X, clusters in (
        ([[1.0, 2.0]], 1),
        ([[1.0, 0], [-1, 0]], 2),
        (np.zeros((7, 2)), 7),
        (np.repeat(np.eye(3), 5, axis=0), 3),
    ):
        X = np.asarray(X)
        for threshold in ("auto", "local"):
            assert consistent(solve(X, threshold, device=backend), X).n_clusters == clusters
        for target in (1, len(X)):
            consistent(solve(X, n_clusters=target, device=backend), X)


def test_one_cluster_comes_with_advice(backend, rng):
    X = np.array([3.0, 0, 0]) + 0.3 * rng.normal(size=(30, 3))
    with pytest.warns(UserWarning, match="one cluster holds all items: they share a common part"):
        result = solve(X, device=backend)
    assert consistent(result, X).n_clusters == 1


@pytest.mark.parametrize("method", ["trivial", "triangles"])
def test_bounds_of_a_local_threshold(backend, small_blobs, method):
    X = small_blobs[:40]
    local = {"threshold": "local", "strictness": 0.9, "n_neighbors": 8, "method": method}
    there = lower_bound(torch.tensor(X, device=backend), **local, device=backend)
    assert there.value == pytest.approx(lower_bound(X, **local).value, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "best"}, "best runs on the CPU only"),
        ({"n_neighbors": 0}, "n_neighbors must be at least 1"),
        ({"n_clusters": 81}, "there are only 80 items"),
        ({"threshold": "local", "strictness": -1}, "strictness must be at least 0"),
        ({"sample_weight": np.zeros(80)}, "zero everywhere"),
    ],
)
def test_errors_are_one_line(backend, small_blobs, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        solve(small_blobs, device=backend, **options)
    assert "\n" not in str(caught.value)


@selections
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_bad_values_are_found(backend, small_blobs, costs, value):
    small_blobs[3, 1] = value
    with pytest.raises(ValueError, match="row 3, column 1"):
        solve(torch.tensor(small_blobs, device=backend), device=backend, **costs)
    with pytest.raises(ValueError, match="X is a DenseProblem"):
        dense_multicut(DenseProblem(np.eye(4), Threshold(0.4)), device=backend, **costs)
