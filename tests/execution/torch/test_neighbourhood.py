"""Similarities to neighbours and sums of clusters on a device, against the host and plain loops."""

import numpy as np
import pytest
import torch
from makers import unit

from clusterfug.costs.local import neighbourhood
from clusterfug.execution.torch import neighbourhood as on_device


def on_both(X, weight, m, backend):
    """Neighbourhoods on the device and on the host."""
    there = torch.tensor(X, device=backend)
    return neighbourhood(there, weight, m, backend), neighbourhood(X, weight, m)


def assert_close(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found.similarity, expected.similarity, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found.squares, expected.squares, rtol=rtol)
    assert found.contrast == pytest.approx(expected.contrast, rel=rtol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [None, 1, 9, 500])
def test_similarities_to_neighbours_are_those_on_the_host(backend, small_blobs, rng, dtype, m):
    X = small_blobs.astype(dtype)
    X[:5], X[7] = X[11], 0
    rtol = 1e-5 if dtype == np.float32 else 1e-9
    for weight in (np.ones(80), np.arange(80) % 4.0, rng.uniform(0, 3, size=80)):
        assert_close(*on_both(X, weight, m, backend), rtol)


def test_similarities_of_rows_of_any_length(backend, rng):
    X = rng.normal(size=(50, 4)) * rng.uniform(0.1, 5, size=(50, 1))
    for weight in (np.ones(50), np.arange(50) % 4.0):
        assert_close(*on_both(X, weight, 6, backend))


def test_one_or_two_items(backend):
    for X, weight in (
        ([[3.0, 4.0]], [1.0]),
        ([[3.0, 4.0]], [5.0]),
        ([[1.0, 0], [-1, 0]], [1.0, 1]),
        ([[1.0, 0], [0.5, 0]], [1.0, 0]),
        (np.zeros((4, 2)), np.ones(4)),
    ):
        assert_close(*on_both(np.array(X), np.array(weight), None, backend))


@pytest.mark.parametrize(("rows", "columns"), [(7, 1000), (1000, 5), (9, 11)])
def test_similarities_do_not_depend_on_blocks(backend, small_blobs, monkeypatch, rows, columns):
    monkeypatch.setattr(on_device, "_BLOCK_ROWS", rows)
    monkeypatch.setattr(on_device, "_BLOCK_COLUMNS", columns)
    for weight in (np.ones(80), np.arange(80) % 4.0):
        for m in (3, 12, None):
            assert_close(*on_both(small_blobs, weight, m, backend))


def sampled_similarity(X, m, most):
    """Mean similarity to m neighbours in a sample, whose items count n / most times, by a double loop."""
    n, most = len(X), min(most, len(X))
    each = n / most
    sample = np.random.default_rng(0).permutation(n)[:most]
    similarity = np.zeros(n)
    for i in range(n):
        others = np.sort([X[i] @ X[j] for j in sample if j != i])[::-1]
        counts = np.clip(m - each * np.arange(len(others)), 0, each)
        similarity[i] = max(counts @ others / counts.sum(), 0.01 * X[i] @ X[i])
    return similarity


@pytest.mark.parametrize("most", [40, 79, 27])
def test_neighbours_of_many_items_are_searched_in_a_sample(backend, small_blobs, monkeypatch, most):
    monkeypatch.setattr(on_device, "_MAX_SAMPLE", most)
    monkeypatch.setattr(on_device, "_BLOCK_ROWS", 13)
    found, whole = on_both(small_blobs, np.ones(80), 12, backend)
    np.testing.assert_allclose(found.similarity, sampled_similarity(small_blobs, 12, most), rtol=1e-9)
    np.testing.assert_allclose(found.squares, whole.squares)
    assert np.median(np.abs(found.similarity / whole.similarity - 1)) < 0.1
    assert found.contrast == pytest.approx(whole.contrast, rel=0.1)
    weight = (np.arange(80) % 5 > 0).astype(float)
    fewer, _ = on_both(small_blobs, weight, 12, backend)
    present = weight > 0
    expected = sampled_similarity(small_blobs[present], 12, most)
    np.testing.assert_allclose(fewer.similarity[present], expected, rtol=1e-9)


def test_weights_in_a_sample(backend, rng, monkeypatch):
    """An item of weight 9 stands for nine items: its copies are as rare in the sample as other items."""
    monkeypatch.setattr(on_device, "_MAX_SAMPLE", 40)
    X = unit(rng.normal(size=(80, 16)))
    found, whole = on_both(X, np.full(80, 9.0), 18, backend)
    assert np.all(np.isfinite(found.similarity))
    assert np.median(found.similarity / whole.similarity) == pytest.approx(1, abs=0.1)


def test_a_sample_gives_about_the_same_mean(backend, rng, monkeypatch):
    monkeypatch.setattr(on_device, "_MAX_SAMPLE", 500)
    centres = unit(rng.normal(size=(5, 16)))
    X = unit(centres[rng.integers(5, size=2000)] + 0.2 * rng.normal(size=(2000, 16)))
    found, whole = on_both(X, np.ones(2000), 100, backend)
    assert np.max(np.abs(found.similarity / whole.similarity - 1)) < 0.1
    assert found.contrast == pytest.approx(whole.contrast, rel=0.05)


@pytest.mark.parametrize("block", [1 << 26, 50])
@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "bfloat16"])
def test_sums_of_clusters_are_those_of_a_loop(backend, rng, monkeypatch, block, kind):
    monkeypatch.setattr(on_device, "_BLOCK_ENTRIES", block)
    X = rng.integers(-3, 4, size=(60, 8))
    labels, weight = rng.permutation(np.arange(60) % 7), rng.uniform(0, 2, size=60)
    there = torch.tensor(X).to(getattr(torch, kind)).to(backend)
    np.testing.assert_array_equal(on_device.rows_on_host(there, labels[:5]), X[labels[:5]])
    found = on_device.cluster_sums(there, weight, labels, backend)
    expected = np.zeros((7, 8))
    for x, label, w in zip(X, labels, weight, strict=True):
        expected[label] += w * x
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    assert found.dtype == np.float64


def test_sums_of_clusters_are_deterministic(backend, rng):
    X = torch.tensor(rng.normal(size=(50_000, 16)), device=backend)
    labels, weight = rng.integers(5, size=50_000), rng.uniform(size=50_000)
    first, *others = (on_device.cluster_sums(X.clone(), weight, labels, backend) for _ in range(5))
    assert all(other.tobytes() == first.tobytes() for other in others)
