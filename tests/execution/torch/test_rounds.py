"""The neighbour graph of tensor problems, and contraction in rounds along it."""

import numpy as np
import pytest
import torch
from makers import uneven_mixture
from reference import cost_matrix

from clusterfug.execution.torch import multilevel
from clusterfug.execution.torch.rounds import contract_in_rounds, neighbour_pairs
from clusterfug.refinement.budget import Budget


@pytest.mark.parametrize("search_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_neighbours_attract_and_include_the_best_partner(packed, several, search_dtype):
    problem = packed(several, 0.3, search_dtype)
    i, j = neighbour_pairs(problem)
    assert (i < j).all()
    assert torch.equal(problem.problem_of[i], problem.problem_of[j])
    assert len(torch.unique(i * problem.n + j)) == len(i)
    for X, start in zip(several, problem.starts.tolist(), strict=False):
        costs = cost_matrix(X, 0.3)
        np.fill_diagonal(costs, 0)
        best = np.zeros(len(X))
        own = (i >= start) & (i < start + len(X))
        a, b = (i[own] - start).cpu().numpy(), (j[own] - start).cpu().numpy()
        assert (costs[a, b] > 0).all()
        np.maximum.at(best, a, costs[a, b])
        np.maximum.at(best, b, costs[a, b])
        tolerance = 1e-6 if search_dtype == torch.float32 else 0.02
        np.testing.assert_allclose(best, costs.max(1).clip(min=0), atol=tolerance)


def test_groups_are_connected_and_of_one_problem(packed, several):
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    problem = packed(several, 0.3)
    i, j = neighbour_pairs(problem)
    _, labels = contract_in_rounds(problem, i, j)
    contracted, compact = problem.contract(labels)
    assert contracted.n < 0.6 * problem.n
    assert torch.equal(contracted.problem_of[compact], problem.problem_of)
    i, j, compact = i.cpu().numpy(), j.cpu().numpy(), compact.cpu().numpy()
    kept = compact[i] == compact[j]
    graph = coo_array((np.ones(kept.sum()), (i[kept], j[kept])), (problem.n, problem.n))
    assert connected_components(graph, directed=False)[0] == contracted.n
    assert (problem.inside(contracted) >= 0).all()
    _, alone = contract_in_rounds(problem, *(problem.items[:0],) * 2)
    assert torch.equal(alone, problem.items)


def test_contraction_does_not_stall_on_hubs(rng, packed, monkeypatch):
    X = uneven_mixture(rng, 3000, 64, 5)
    sizes = []

    def counted(problem):
        sizes.append(problem.n)
        return neighbour_pairs(problem)

    monkeypatch.setattr(multilevel, "neighbour_pairs", counted)
    problem = packed([X.astype(np.float32)], 0.25)
    first = next(multilevel.refinement_steps(problem, None, Budget()))
    assert first.name == "multilevel"
    assert len(sizes) <= 8, sizes
    assert len(torch.unique(first.labels)) < 50
