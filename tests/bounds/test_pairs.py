"""The sum of all negative costs, without the pairs set aside."""

import numpy as np
import pytest
from makers import conflicting, random_links, random_mixed
from reference import cost_matrix

from clusterfug import DenseProblem, GraphProblem, MixedProblem
from clusterfug.problems.apart import Apart
from clusterfug.problems.links import make_links


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


@pytest.mark.kernels
@pytest.mark.parametrize("attracting", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_pairs_that_must_be_apart_count_whatever_their_sign(rng, whole, attracting, monkeypatch):
    monkeypatch.setattr("clusterfug.bounds.pairs._BLOCK", 16)
    problem, costs = random_mixed(rng, 60, whole, attracting)
    links, _, apart = random_links(rng, 60)
    links = make_links(60, cannot_link=links["cannot_link"], exclusive=links["exclusive"])
    linked = MixedProblem.of_parts(problem.dense, problem.graph, Apart.of_links(links))
    i, j = np.triu_indices(60, 1)
    some = np.sort(rng.permutation(len(i))[:400])
    pairs = np.stack([i[some], j[some]], axis=1)
    rest = np.delete(costs[i, j], some), np.delete(apart[i, j], some)
    for each, cut in ((problem, rest[1] & False), (linked, rest[1])):
        found = each.repulsion(pairs.astype(np.int32))
        np.testing.assert_allclose(found.aside, costs[i[some], j[some]], atol=1e-9)
        expected = np.where(cut, rest[0], np.minimum(rest[0], 0.0)).sum()
        assert found.total == pytest.approx(expected, abs=1e-9)
        assert 0 <= found.error < 1e-9 * np.abs(costs).sum()
    np.testing.assert_array_equal(linked.always_cut(pairs), apart[i[some], j[some]])
    assert not problem.always_cut(pairs).any()
