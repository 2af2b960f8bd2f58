"""Totals of clusters whose items are in several shards."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from makers import noisy_problem, pair_costs

from clusterfug import DenseProblem
from clusterfug.execution.sharded.totals import ObjectiveTerms, add_totals, cluster_totals
from clusterfug.result import compact


@pytest.mark.parametrize(
    "costs",
    [
        {},
        {"threshold": None, "alpha": 0.5},
        {"sample_weight": [0.0, 2.0, 1.0] * 10},
        {"threshold": -0.3},
        {"signature": [1, 1, -1, 1, 1, -1]},
        {"threshold": None, "prefer": "large", "alpha": 0.3},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_totals_of_parts_add_up_to_those_of_the_problem(rng, costs, dtype):
    problem = noisy_problem(rng, dtype=dtype, **costs)
    labels = rng.integers(0, 5, size=30)
    items, weight = problem.extended(0, 30, np.float64), problem.rows.weight
    for ends in ([0, 30], [0, 1, 30], [0, 7, 8, 19, 30], range(31)):
        parts = [slice(*span) for span in pairwise(ends)]
        totals = add_totals(*(cluster_totals(problem.subset(part), labels[part]) for part in parts))
        assert totals.ids.tolist() == np.unique(labels).tolist()
        for at, c in enumerate(totals.ids):
            np.testing.assert_allclose(totals.sums[at], items[labels == c].sum(axis=0), atol=1e-12)
            assert totals.weight[at] == pytest.approx(weight[labels == c].sum())
            assert totals.mass[at] == pytest.approx(problem.magnitudes[labels == c].sum())
            assert totals.sizes[at] == np.count_nonzero(labels == c)
        assert totals.weightless.sum() == np.count_nonzero(weight == 0)
        np.testing.assert_allclose(totals.inside, problem.cluster_costs(compact(labels), 5)[0], atol=1e-12)
        assert totals.terms().inside == pytest.approx(problem.inside(labels))
        assert totals.terms().across == pytest.approx(problem.objective(labels))
        np.testing.assert_array_equal(totals.signature, problem.rows.signature)


def test_parts_may_have_clusters_in_common_or_not(rng):
    problem = noisy_problem(rng)
    labels = np.sort(rng.integers(0, 9, size=30)) * 3
    parts = [cluster_totals(problem.subset(part), labels[part]) for part in (slice(0, 9), slice(9, 30))]
    whole = cluster_totals(problem, labels)
    for found in (add_totals(*parts), add_totals(*parts[::-1])):
        for one, other in zip(found, whole, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)


def test_contracted_totals_have_the_costs_of_the_contracted_problem(rng):
    problem = noisy_problem(rng, sample_weight=rng.uniform(0.5, 2, size=30))
    labels = compact(rng.integers(0, 5, size=30))
    contracted = cluster_totals(problem, labels).contracted()
    np.testing.assert_allclose(pair_costs(contracted), pair_costs(problem.contract(labels)), atol=1e-12)


def test_objective_terms_of_blocks_of_clusters_add_up(rng):
    labels = np.sort(rng.integers(0, 5, size=30))
    problem = noisy_problem(rng, sample_weight=np.where(labels == 3, 0.0, 2.0))
    totals = cluster_totals(problem, labels)
    terms = reduce(ObjectiveTerms.add, (totals.block(start, start + 2).terms() for start in (0, 2, 4)))
    assert terms.inside == pytest.approx(problem.inside(labels))
    assert terms.across == pytest.approx(problem.objective(labels))
    assert terms.weightless == np.count_nonzero(labels == 3) > 0


def test_one_long_row_does_not_hide_the_costs_of_the_others():
    """The square of the long row is 1e16, so sums of squares would have no digits left for costs near 1."""
    X = np.array([[1e8, 0.3, 0], [0, 1, 0], [0, 1, 0.2]])
    problem, labels = DenseProblem(X, 0.5), np.array([0, 1, 1])
    parts = [cluster_totals(problem.subset(part), labels[part]) for part in (slice(0, 2), slice(2, 3))]
    terms = add_totals(*parts).terms()
    assert terms.inside == pytest.approx(0.5)
    assert terms.across == pytest.approx(-0.4)
