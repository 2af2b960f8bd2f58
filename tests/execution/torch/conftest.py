"""Fixtures of the tests of tensors: packs of problems on the device under test, and blobs."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from makers import uneven_mixture, unit

from clusterfug.costs.models import Threshold
from clusterfug.execution.torch.inputs import TensorInput
from clusterfug.execution.torch.pack import make_pack
from clusterfug.problems.features import FeatureProblem


@pytest.fixture
def packed(backend):
    """A function that returns features at a threshold, one or several, as one TensorProblem."""

    def packed(problems, threshold=0.4, search_dtype=torch.float32):
        inputs = [TensorInput(FeatureProblem(X, Threshold(threshold)), backend) for X in problems]
        pack, errors = make_pack(
            dict(enumerate(inputs)), backend, search_dtype, limit=np.inf, streamed=False
        )
        assert not errors
        return pack.problem

    return packed


@pytest.fixture
def streamed():
    """A function that returns a problem with its features on the host, copied in parts of some items."""

    def streamed(problem, part_size):
        return replace(problem, features=problem.features.cpu(), part_size=part_size)

    return streamed


@pytest.fixture
def several(rng):
    """Features of several problems, some of one or two items."""
    return [uneven_mixture(rng, n, 20, 1 + n // 30) for n in (70, 1, 300, 2, 9)]


@pytest.fixture
def blobs(rng):
    """150 items of length 1 in 12 clusters."""
    centres = rng.normal(size=(12, 16))
    return unit(centres[rng.integers(12, size=150)] + 0.35 * rng.normal(size=(150, 16)))


@pytest.fixture
def small_blobs(rng):
    """80 items of length 1 in 6 clusters."""
    centres = unit(rng.normal(size=(6, 8)))
    return unit(centres[rng.integers(6, size=80)] + 0.2 * rng.normal(size=(80, 8)))
