"""Shared fixtures and the order of the tests."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from numba import config

INTERPRETED = bool(config.DISABLE_JIT)

settings.register_profile(
    "clusterfug",
    max_examples=15 if INTERPRETED else 100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("clusterfug")


#: Folders whose tests compile few kernels.
LIGHT = ("cli", "embedding", "execution/torch", "io", "report", "segmentation")


def pytest_collection_modifyitems(items):
    """Alternate files that compile many kernels with files that compile few.

    Two processes that start with empty caches then compile less of the same at the same time.
    """
    root = Path(__file__).parent
    ranks = ({}, {})

    def key(item):
        light = str(item.path.relative_to(root)).startswith(LIGHT)
        return ranks[light].setdefault(item.path, len(ranks[light])), light

    items.sort(key=key)


@pytest.fixture(scope="session")
def digits():
    """The 1,797 digits, mean-centred and scaled to length 1, in float64."""
    from sklearn.datasets import load_digits

    X = load_digits().data
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="session")
def shared_data():
    """The folder of benchmark data; a plain clone has none."""
    folder = os.environ.get("CLUSTERFUG_DATA")
    if not folder:
        pytest.skip("CLUSTERFUG_DATA is not set: it names the folder of benchmark data")
    return Path(folder)


@pytest.fixture(params=["cpu", "cuda"])
def backend(request):
    """A device of torch: every test of tensors runs on the CPU, and on a GPU where there is one."""
    torch = pytest.importorskip("torch", reason="tensors need torch, the extra [gpu]")
    if request.param == "cuda" and not torch.cuda.is_available():
        absent = pytest.fail if os.environ.get("CLUSTERFUG_REQUIRE_CUDA") else pytest.skip
        absent("there is no GPU")
    torch.set_num_threads(1)  # tensors are small here: on a busy machine threads mostly wait for each other
    return torch.empty(0, device=request.param).device  # a GPU with its number


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def run(capsys):
    """Run a command; returns exit code, standard output and standard error."""
    from clusterfug.cli import main

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run
