"""Joins of more nodes than one task may have: partners, groups, and labels of all nodes."""

from itertools import chain

import numpy as np
import pytest
from makers import clusters_of, mixture, noisy_problem, pair_costs, separated
from reference import best_single_change

from clusterfug import DenseProblem
from clusterfug.execution import threads
from clusterfug.execution.sharded import block_joins, tasks
from clusterfug.execution.sharded.block_joins import (
    NodeBlock,
    find_partners,
    join_blocks,
    merge_partners,
    partner_groups,
)
from clusterfug.execution.sharded.engine import CoroutineScheduler, LocalEngine
from clusterfug.neighbours.exact import Neighbours
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import refine


def blocks_of(problem, size, origin=None):
    return [
        NodeBlock(problem.subset(part), part.stop - part.start, origin)
        for part in threads.slices(problem.n, size)
    ]


def joined(blocks, max_nodes):
    engine = LocalEngine()
    return CoroutineScheduler(engine).start(join_blocks(engine, blocks, max_nodes))()


# Partners


@pytest.mark.parametrize("size", [1, 4, 7, 30])
@pytest.mark.parametrize("costs", [{}, {"threshold": -0.3}, {"signature": [1, 1, -1, 1, 1, -1]}])
def test_partners_are_the_nodes_that_attract_most(rng, size, costs):
    problem = noisy_problem(rng, noise=2.0, **costs)
    matrix = pair_costs(problem)
    np.fill_diagonal(matrix, -np.inf)
    found = block_joins._submit_partners(LocalEngine(), blocks_of(problem, size))
    ids, best = np.vstack([part.ids for part in found]), np.vstack([part.costs for part in found])
    expected = np.sort(matrix, axis=1)[:, ::-1][:, : 1 if size in (4, 7) else 4]  # the last block is small
    expected = np.where(expected > 0, expected, -np.inf)
    np.testing.assert_allclose(best[:, : expected.shape[1]], expected, atol=1e-9)
    attracted = best > -np.inf
    assert attracted.any()
    np.testing.assert_allclose(np.take_along_axis(matrix, ids, axis=1)[attracted], best[attracted])


def test_costs_within_rounding_do_not_attract():
    X = np.array([[1e8, 1.0], [-1.0, 1e8]])  # the pair costs 0, up to rounding
    X[1, 1] += 1e-8
    (found,) = find_partners(DenseProblem(X, 0.0))
    assert (found.costs == -np.inf).all()


@pytest.mark.parametrize("big", [1e4, 1e7])
def test_small_costs_of_long_rows_attract(big):
    """The rows are orthogonal but for two short columns, so their long ones are no terms of the costs."""
    problem = DenseProblem([[big, 1, 0, 0], [0, 1, 3, big], [0, 0, 0, -big]], 0.0)
    (found,) = find_partners(problem)
    assert found.costs[:, 0].tolist() == [1.0, 1.0, -np.inf]
    assert found.ids[:2, 0].tolist() == [1, 0]


def test_known_and_new_partners_are_merged_by_cost():
    known = Neighbours(np.array([[3, 1, 0, 0]]), np.array([[5.0, 2.0, -np.inf, -np.inf]]))
    found = (None, Neighbours(np.array([[0, 1, 2, 3]]), np.array([[5.0, 4.0, 3.0, 1.0]])))
    ids, costs = merge_partners(known, found, 1, 10)
    assert ids.tolist() == [[3, 10, 11, 12]]
    assert costs.tolist() == [[5.0, 5.0, 4.0, 3.0]]


# Groups


def partners_of(n, *pairs):
    """Partners of n nodes with these attractions."""
    ids, costs = np.zeros((n, 4), dtype=np.int64), np.full((n, 4), -np.inf)
    for i, j, cost in pairs:
        at = np.count_nonzero(costs[i] > -np.inf)
        ids[i, at], costs[i, at] = j, cost
    return Neighbours(ids, costs)


def groups_of(partners, max_nodes):
    return [group.tolist() for group in partner_groups(partners, max_nodes)]


@pytest.mark.kernels
def test_nodes_that_attract_each_other_are_in_one_group():
    partners = partners_of(8, (0, 5, 1.0), (5, 0, 1.0), (2, 6, 3.0), (6, 2, 3.0), (6, 7, 2.0))
    assert groups_of(partners, 8) == [[0, 2, 5, 6, 7]]
    assert groups_of(partners, 4) == [[0, 5], [2, 6, 7]]
    assert groups_of(partners_of(5), 4) == []


@pytest.mark.kernels
def test_groups_are_as_full_as_the_limit_allows():
    partners = partners_of(12, *((at, at + 1, 1.0) for at in range(0, 12, 2)))
    assert groups_of(partners, 4) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert groups_of(partners, 5) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert groups_of(partners, 6) == [list(range(6)), list(range(6, 12))]


@pytest.mark.kernels
def test_strong_attractions_come_first_and_every_node_with_a_partner_is_in_a_group():
    chain = partners_of(4, (0, 1, 1.0), (1, 2, 9.0), (2, 3, 2.0))
    assert groups_of(chain, 2) == [[0], [1, 2], [3]]
    assert groups_of(chain, 1) == [[0], [1, 2], [3]]
    assert groups_of(chain, 3) == [[0], [1, 2, 3]]
    assert groups_of(chain, 4) == [[0, 1, 2, 3]]


@pytest.mark.kernels
@pytest.mark.parametrize("max_nodes", [2, 3, 5, 9, 40])
def test_groups_are_not_too_large(rng, max_nodes):
    nodes = rng.permutation(40)
    edges = zip(nodes, np.roll(nodes, 1), rng.random(40), strict=True)
    edges = [(i, j, cost) for i, j, cost in edges if i % 5]
    groups = groups_of(partners_of(40, *edges), max_nodes)
    assert max(map(len, groups)) <= max_nodes
    ends = {end for i, j, _ in edges for end in (i, j)}
    assert sorted(node for group in groups for node in group) == sorted(ends)
    strongest = max(edges, key=lambda edge: edge[2])
    assert any({strongest[0], strongest[1]} <= set(group) for group in groups)


# Joins


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("size", "max_nodes"), [(1, 1), (4, 8), (7, 3), (30, 30), (16, 16)])
def test_no_join_of_two_clusters_improves_joined_nodes(seed, size, max_nodes):
    rng = np.random.default_rng(seed)
    problem = noisy_problem(rng, clusters=8, noise=1.5, dtype=[np.float32, np.float64][seed % 2])
    labels = joined(blocks_of(problem, size), max_nodes)
    assert sorted(set(labels)) == list(range(labels.max() + 1))
    assert best_single_change(pair_costs(problem), labels)[1] <= 1e-9
    assert problem.inside(labels) > 0


def test_blocks_of_the_same_origin_are_not_searched_again(monkeypatch, rng):
    """Two problems were solved: only pairs between them are new."""
    X, _ = mixture(rng, 40, 6)
    problem = DenseProblem(X, 0.3)
    halves = [problem.subset(part) for part in (slice(0, 20), slice(20, 40))]
    halves = [half.contract(refine(half, np.arange(20), Budget()).labels) for half in halves]
    searches = []

    def counted(*blocks):
        searches.append(blocks)
        return find_partners(*blocks)

    monkeypatch.setattr(block_joins, "find_partners", counted)
    found = []
    for origins in ((None, None), (0, 1)):
        searches.clear()
        of_halves = [
            blocks_of(half, -(-half.n // 2), origin) for half, origin in zip(halves, origins, strict=True)
        ]
        found.append((joined(list(chain(*of_halves)), 40), len(searches)))
    (all_pairs, many), (new_pairs, few) = found
    np.testing.assert_array_equal(all_pairs, new_pairs)
    assert (many, few) == (10, 4)
    single = NodeBlock(halves[0], halves[0].n, 0)
    assert joined([single], 40).tolist() == list(range(single.size))


def test_nodes_without_a_partner_stay_alone():
    X = np.eye(12)
    for features, threshold, expected in (
        (X, 0.5, list(range(12))),
        (X, 0.0, list(range(12))),  # all pairs cost 0
        (X[np.arange(12) % 4], 0.5, [0, 1, 2, 3] * 3),
    ):
        assert joined(blocks_of(DenseProblem(features, threshold), 5), 5).tolist() == expected


@pytest.mark.parametrize(("size", "max_nodes"), [(1, 2), (3, 3), (10, 5), (10, 40)])
def test_well_separated_clusters_are_found_with_any_blocks(rng, size, max_nodes):
    X, truth = separated(rng, 40, 6)
    labels = joined(blocks_of(DenseProblem(X, 0.4), size), max_nodes)
    assert clusters_of(labels) == clusters_of(truth)


def test_joining_ends_where_the_solver_joins_nothing(monkeypatch, rng):
    """A cost that is hardly above rounding may be none for the solver."""
    monkeypatch.setattr(tasks, "solve_pool", lambda known, *parts: (np.arange(parts[0].n), parts[0]))
    assert joined(blocks_of(noisy_problem(rng, 12), 12), 12).tolist() == list(range(12))
