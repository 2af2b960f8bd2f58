"""Approximate search with faiss: partners are other items with their exact costs."""

import sys

import numpy as np
import pytest

from clusterfug import DenseProblem, dense_multicut
from clusterfug.neighbours.approximate import approximate_neighbours
from clusterfug.neighbours.exact import exact_neighbours


@pytest.mark.parametrize("index", ["hnsw", "ivf"])
def test_partners_are_other_items_with_their_costs(rng, index):
    pytest.importorskip("faiss")
    X = rng.normal(size=(300, 5)).astype(np.float32)
    problem = DenseProblem(X, 0.4, sample_weight=rng.random(300) + 0.5)
    found = approximate_neighbours(problem, 4, index)
    full = exact_neighbours(problem, 299)
    for i in range(300):
        held = found.costs[i] > -np.inf
        ids = found.ids[i][held]
        assert len(set(ids.tolist())) == len(ids)
        assert i not in ids
        costs = dict(zip(full.ids[i].tolist(), full.costs[i].tolist(), strict=True))
        np.testing.assert_allclose([costs[j] for j in ids.tolist()], found.costs[i][held], rtol=1e-12)
    assert np.mean(found.ids == full.ids[:, :4]) > 0.7


@pytest.mark.kernels
def test_equal_items_are_partners_of_each_other():
    pytest.importorskip("faiss")
    found = approximate_neighbours(DenseProblem(np.ones((5, 2)), 0.5), 2)
    assert (found.ids != np.arange(5)[:, None]).all()
    assert found.costs[found.ids >= 0].tolist() == [1.5] * int((found.ids >= 0).sum())


def test_without_faiss_the_error_names_the_extra(rng, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    X = rng.normal(size=(20, 3))
    with pytest.raises(ImportError, match=r"pip install 'clusterfug\[ann\]'"):
        dense_multicut(X, 0.4, algorithm="dapplaec")
    assert dense_multicut(X, 0.4).algorithm == "auto"
