"""Lists of candidate clusters never hide a better cluster."""

import numpy as np
import pytest
import reference
from makers import pair_costs

from clusterfug import DenseProblem
from clusterfug.refinement import candidate_lists
from clusterfug.refinement.budget import Budget
from clusterfug.result import compact


def features(rng, kind, n):
    X = rng.integers(-2, 3, size=(n, 5)) if kind == "whole" else rng.normal(size=(n, 5))
    return (10 + 1e-4 * X if kind == "close" else X).astype(np.float32)


def assert_move_optimal(rng, kind, n):
    problem = DenseProblem(features(rng, kind, n), 500.0 if kind == "close" else 1.0)
    start = compact(rng.integers(0, n // 3, n))
    labels, move_optimal = problem.move_items(start, Budget())
    assert move_optimal
    assert problem.inside(labels) > problem.inside(start)
    # The cost of an item to a cluster has a rounding error of about 1e-16 times 500 n.
    assert reference.best_single_change(pair_costs(problem), labels)[0] <= 1e-10 * n


@pytest.mark.parametrize("n_candidates", [1, 4])
@pytest.mark.parametrize("kind", ["normal", "whole", "close"])
def test_all_improving_moves_are_found_with_short_lists(rng, monkeypatch, n_candidates, kind):
    """There are many clusters, whose scores single precision does not always distinguish."""
    monkeypatch.setattr(candidate_lists, "_N_CANDIDATES", n_candidates)
    for _ in range(20):
        assert_move_optimal(rng, kind, 200)


@pytest.mark.kernels
@pytest.mark.parametrize("kind", ["normal", "whole", "close"])
def test_all_improving_moves_of_small_problems_are_found(rng, monkeypatch, kind):
    monkeypatch.setattr(candidate_lists, "_N_CANDIDATES", 1)
    assert_move_optimal(rng, kind, 30)
