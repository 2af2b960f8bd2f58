"""The bound of packed triangles: tighter than the trivial one, and valid for groups of a large problem."""

import numpy as np
import pytest
from makers import conflicting

from clusterfug import DenseProblem, dense_multicut, lower_bound, verify_bound
from clusterfug.bounds.groups import groups_of


def test_triangles_close_most_of_the_gap_of_the_trivial_bound(rng):
    X = conflicting(rng, 200, 8, 12, 1.1)
    result = dense_multicut(X, 0.3, algorithm="best", max_iter=10, bound=True)
    trivial = lower_bound(X, 0.3, method="trivial").value
    assert result.objective - result.lower_bound < 0.05 * (result.objective - trivial)


def test_triangles_within_groups_are_a_bound_of_the_whole_problem(rng):
    X = conflicting(rng, 150)
    small = lower_bound(X, 0.3, memory_limit=16 * 40**2)
    whole = lower_bound(X, 0.3)
    trivial = lower_bound(X, 0.3, method="trivial")
    assert trivial.value < small.value < whole.value
    assert verify_bound(X, small, 0.3)
    of = np.empty(150, dtype=np.int64)
    for g, items in enumerate(groups_of(DenseProblem(X, 0.3), 40)):
        of[items] = g
    pairs = small.certificate.pairs
    assert np.all(of[pairs[:, 0]] == of[pairs[:, 1]])


@pytest.mark.parametrize("limit", [0, np.inf])
def test_a_time_limit_leaves_a_bound(rng, limit):
    X = conflicting(rng, 150)
    bound = lower_bound(X, 0.3, time_limit=limit)
    assert verify_bound(X, bound, 0.3)
    trivial, unlimited = lower_bound(X, 0.3, method="trivial"), lower_bound(X, 0.3)
    assert bound.value <= unlimited.value
    assert bound.value >= trivial.value - 1e-9 * abs(trivial.value)
    if limit == 0:
        assert bound.value < unlimited.value
        assert dense_multicut(X, 0.3, bound=True, time_limit=0).lower_bound == bound.value


def test_the_same_bits_on_any_number_of_threads(rng, monkeypatch):
    from threadpoolctl import threadpool_limits

    for module, block in (("ascent", 1000), ("packing", 32), ("pairs", 32)):
        monkeypatch.setattr(f"clusterfug.bounds.{module}._BLOCK", block)
    X = conflicting(rng, 150).astype(np.float32)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(lower_bound(X, 0.3))
    assert found[0].value == found[1].value
    np.testing.assert_array_equal(found[0].certificate.triangles, found[1].certificate.triangles)
    np.testing.assert_array_equal(found[0].certificate.amounts, found[1].certificate.amounts)
