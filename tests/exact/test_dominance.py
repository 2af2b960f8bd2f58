"""Groups are together in every best clustering, clipped costs have the same best clusterings."""

from fractions import Fraction

import numpy as np
import pytest
from makers import symmetric
from reference import all_partitions

from clusterfug import DenseProblem, dense_multicut, multicut
from clusterfug.exact.dominance import clipped, dominated_groups


def best_partitions(costs):
    """The largest `inside` of all clusterings, exactly, and the clusterings that attain it."""
    n, exact = len(costs), [[Fraction(cost) for cost in row] for row in costs.tolist()]
    pairs = [(i, j) for i in range(n) for j in range(i)]
    partitions = all_partitions(n)
    inside = [sum((exact[i][j] for i, j in pairs if p[i] == p[j]), Fraction()) for p in partitions]
    best = max(inside)
    return best, [p for p, value in zip(partitions, inside, strict=True) if value == best]


@pytest.fixture(params=range(12))
def costs(request):
    """Costs of all magnitudes, with some large ones that cancel."""
    rng = np.random.default_rng(request.param)
    found = rng.normal(size=15) * 10.0 ** rng.integers(-3, 17, size=15)
    found[rng.random(15) < 0.4] = rng.choice([1e15, -1e15, 1.0])
    return symmetric(6, found)


def test_groups_are_together_in_every_best_clustering(costs):
    groups, between = dominated_groups(costs, np.zeros_like(costs))
    best, partitions = best_partitions(costs)
    for partition in partitions:
        assert all(len(set(partition[groups == g])) == 1 for g in range(len(between)))
    together = sum(
        (Fraction(costs[i, j]) for i in range(6) for j in range(i) if groups[i] == groups[j]), Fraction()
    )
    left, _ = best_partitions(between)
    assert float(best - together) == pytest.approx(float(left), rel=1e-15)


def test_pairs_of_groups_have_the_exact_sum_of_their_costs():
    costs = symmetric(5, [9e15, 1e15, 1.0, 0.0, -1e15, 0.25, 0.0, 0.5, 0.125, 2.0])
    groups, between = dominated_groups(costs, np.zeros_like(costs))
    assert groups[0] == groups[1]
    rest = [v for v in range(2, 5) if groups[v] != groups[0]]
    for v in rest:
        assert between[groups[0], groups[v]] == costs[0, v] + costs[1, v]


def test_clipped_costs_have_the_same_best_clusterings(costs):
    best, partitions = best_partitions(costs)
    other, found = best_partitions(clipped(costs))
    assert other == best
    np.testing.assert_array_equal(found, partitions)


def test_huge_costs_do_not_hide_small_ones(rng):
    n = 14
    i, j = np.triu_indices(n, 1)
    edges, small = np.stack([i, j], axis=1), rng.normal(size=len(i)) - 0.02
    alone = multicut(edges, small, n, algorithm="exact")
    around = [[0, n], [n, n + 1], [n + 1, n + 2], [n, n + 2]]
    for big in (1e10, 1e13, 1e16):
        costs = np.concatenate([small, [0.01, big, big, -0.7 * big]])
        result = multicut(np.concatenate([edges, around]), costs, n + 3, algorithm="exact")
        assert result.optimal
        assert result.bound.rounding < 1e-8
        assert result.objective == pytest.approx(alone.objective, rel=1e-13)
        np.testing.assert_array_equal(result.labels[:n], alone.labels)


def test_a_pair_that_attracts_by_rounding_errors_alone_is_not_contracted():
    costs = np.array([[0.0, 114.0, -1.0], [114.0, 0.0, -1.0], [-1.0, -1.0, 0.0]])
    errors = 1e4 * (1 - np.eye(3))
    assert dominated_groups(costs, errors)[0].tolist() == [0, 1, 2]
    assert dominated_groups(costs, errors / 1e3)[0].tolist() == [0, 0, 1]


def test_exact_knows_the_rounding_of_costs_that_cancel(rng):
    """The true cost is -20; in float64 it is a difference of terms near 1e18, often a positive one."""
    attracted = 0
    for a, b, y in rng.integers(2**29, 2**30, size=(200, 3)).tolist():
        x, z = divmod(a * b, y)
        X = np.array([[a, x, z + 20], [b, y, 1]], dtype=np.float64)
        result = dense_multicut(DenseProblem(X, 0.0, signature=[1, -1, -1]), algorithm="exact")
        assert result.lower_bound <= -20
        attracted += result.n_clusters == 1
    assert attracted > 20
