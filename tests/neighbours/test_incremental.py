"""The invariant of the neighbour lists during contraction."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import Contraction, cost_matrix

from clusterfug import DenseProblem
from clusterfug.contraction.greedy import N_ACTIVE, N_MERGES, contract_greedily, uncontracted
from clusterfug.neighbours.exact import exact_neighbours
from clusterfug.neighbours.incremental import has_partner, initial_lists


@pytest.mark.kernels
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 14), k=st.integers(1, 4))
def test_of_two_nodes_the_list_of_the_newer_accounts_for_the_older(seed, n, k):
    """Every pair is checked after every step: the older node is listed, or costs at most the floor."""
    rng = np.random.default_rng(seed)
    problem = DenseProblem(rng.integers(-2, 3, size=(n, 3)), 0.5)
    lists, state = initial_lists(exact_neighbours(problem, k)), uncontracted(problem)
    contraction = Contraction(cost_matrix(problem.rows.features, 0.5))
    done = 0
    while not contract_greedily(problem.rows, lists, state, 1):
        for i, j, _ in state.merges[done : state.counts[N_MERGES]]:
            contraction.merge(i, j)
        done = state.counts[N_MERGES]
        for u, v in permutations(state.active[: state.counts[N_ACTIVE]].tolist(), 2):
            cost = contraction.costs[u, v]
            if lists.node_time[v] > lists.list_time[u]:
                assert lists.node_time[u] <= lists.list_time[v]  # then the list of v accounts for u
            elif has_partner(lists, u) and v in lists.ids[u, lists.head[u] : lists.length[u]]:
                at = lists.ids[u].tolist().index(v, lists.head[u])
                assert lists.costs[u, at] == cost
            else:
                assert cost <= lists.floor[u]
