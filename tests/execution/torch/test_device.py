"""Choice of the device: requested, available, or where the features are; and its memory."""

import sys

import numpy as np
import pytest
import torch

from clusterfug import DenseMulticut, DenseProblem, GraphProblem, checks, dense_multicut
from clusterfug.execution.plan import plan
from clusterfug.execution.torch import device as devices
from clusterfug.solvers import make_solver


def chosen(device, algorithm, X=None):
    return devices.choose_device(device, make_solver(algorithm), X)


@pytest.mark.parametrize(
    "device", ["gpu", "cuda:x", "cuda:-1", "cuda:9999999999", "", 3, "mps", torch.device("meta")]
)
def test_unknown_devices_are_errors(device):
    with pytest.raises(ValueError, match=r"unknown device .*choose one of auto, cpu, cuda"):
        dense_multicut(np.eye(3), 0.4, device=device)


def test_a_machine_without_what_a_gpu_needs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda", "cuda:1", torch.device("cuda")):
        with pytest.raises(ValueError, match="torch finds no CUDA GPU here"):
            dense_multicut(np.eye(3), 0.4, device=device)
    assert dense_multicut(np.eye(3), 0.4, device="auto").n_clusters == 3
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    for number in (7, 256, 300, 999_999_999):
        with pytest.raises(ValueError, match=f"'cuda:{number}' does not exist: there are cuda:0 to cuda:1"):
            dense_multicut(np.eye(3), 0.4, device=f"cuda:{number}")
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="a GPU needs triton"):
        dense_multicut(np.eye(3), 0.4, device="cuda")
    assert chosen("auto", "fast") is None
    monkeypatch.setattr(devices, "find_spec", lambda name: name)
    assert chosen("cuda", "fast") == chosen("auto", "auto") == torch.device("cuda:1")
    assert chosen("auto", "best") is None
    graph = GraphProblem([[0, 1]], [1.0])
    assert plan(graph, make_solver("auto"), device="auto").kind == "cpu"
    with pytest.raises(ValueError, match="a graph problem is solved on the CPU"):
        plan(graph, make_solver("auto"), device="cuda")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"pip install 'clusterfug\[gpu\]'"):
        dense_multicut(np.eye(3), 0.4, device="cuda")
    assert dense_multicut(np.eye(3), 0.4, device="auto").n_clusters == 3


def test_without_a_device_features_are_solved_where_they_are(backend, blobs):
    X = torch.tensor(blobs, device=backend)
    assert (chosen(None, "auto", X) is None) == (backend.type == "cpu")
    as_they_are = {"threshold": 0.4, "metric": "inner_product"}
    np.testing.assert_array_equal(
        dense_multicut(X, device="cpu", **as_they_are).labels, dense_multicut(blobs, **as_they_are).labels
    )
    assert (dense_multicut(X, 0.4).trace[-1].passes is None) == (backend.type == "cpu")
    if backend.type == "cuda":
        with pytest.raises(TypeError, match=r"X is a tensor on a GPU: use X\.cpu\(\)"):
            DenseProblem(X, 0.4)
        with pytest.raises(TypeError, match="use dense_multicut, which takes it as it is"):
            DenseMulticut().fit(X)


def test_available_memory_is_a_share_of_what_is_free_or_the_limit(monkeypatch):
    for name, value in {
        "mem_get_info": (1000, 5000),
        "memory_reserved": 300,
        "memory_allocated": 100,
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda _, value=value: value)
    assert devices.available_bytes(torch.device("cuda"), None) == 0.9 * 1200
    assert devices.available_bytes(torch.device("cuda"), 77) == 77
    assert devices.available_bytes(torch.device("cpu"), None) == np.inf


def test_tensors_are_recognised_without_importing_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert not checks.is_tensor(np.eye(2))
    monkeypatch.delitem(sys.modules, "torch")
    assert not checks.on_gpu(np.eye(2))
    assert checks.on_host(3) == 3
