"""Moves of single nodes on a graph."""

import numpy as np
import pytest
from makers import pair_costs, random_graph
from reference import best_single_change

from clusterfug.refinement.budget import Budget
from clusterfug.result import compact


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(5))
def test_no_move_improves_the_result(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, 30, 0.3)
    start = compact(rng.integers(0, 5, 30))
    labels, move_optimal = graph.move_items(start, Budget())
    assert move_optimal
    assert graph.inside(labels) > graph.inside(start)
    assert best_single_change(pair_costs(graph), labels)[0] <= 1e-9


def test_without_time_no_node_moves(rng):
    labels = compact(rng.integers(0, 5, 50))
    found, move_optimal = random_graph(rng, 50, 0.3).move_items(labels, Budget(0.0))
    assert not move_optimal
    assert found.tolist() == labels.tolist()
