"""The sum of all negative costs, without the pairs set aside."""

import numpy as np
import pytest
from makers import conflicting
from reference import cost_matrix

from clusterfug import DenseProblem, GraphProblem


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["dense", "graph"])
def test_pairs_set_aside_are_left_out_of_the_sum(rng, kind, monkeypatch):
    monkeypatch.setattr("clusterfug.bounds.pairs._BLOCK", 32)
    X = conflicting(rng, 100, d=4)
    costs = cost_matrix(X, 0.2)
    i, j = np.triu_indices(len(X), 1)
    if kind == "graph":
        costs *= rng.uniform(size=costs.shape) < 0.5
        problem = GraphProblem(np.stack([i, j], 1)[costs[i, j] != 0], costs[i, j][costs[i, j] != 0], len(X))
    else:
        problem = DenseProblem(X, 0.2)
    some = np.sort(rng.permutation(len(i))[:500])
    found = problem.repulsion(np.stack([i[some], j[some]], 1))
    np.testing.assert_allclose(found.aside, costs[i[some], j[some]], atol=1e-12)
    rest = np.delete(costs[i, j], some)
    assert found.total == pytest.approx(rest[rest < 0].sum(), rel=1e-12)
