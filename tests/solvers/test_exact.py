"""The solver "exact": a proof, or the best labels so far with a bound."""

import numpy as np
import pytest
from makers import conflicting

from clusterfug import dense_multicut, verify_bound


def test_the_result_is_proven_optimal(rng):
    X = conflicting(rng, 30, 4, 8, 1.2)
    result = dense_multicut(X, 0.3, algorithm="exact")
    assert result.optimal
    assert result.gap == 0
    assert result.trace[-1].name == "exact"
    assert result.objective == pytest.approx(result.lower_bound, rel=1e-9)
    with pytest.raises(ValueError, match="no certificate"):
        verify_bound(X, result.bound, 0.3)
    with pytest.raises(ValueError, match="no certificate"):
        result.bound.save("unused.npz")


def test_a_time_limit_leaves_a_bound_below_the_objective(rng):
    early = dense_multicut(rng.normal(size=(100, 50)), 0.0, algorithm="exact", time_limit=0)
    assert not early.optimal
    assert early.lower_bound < early.objective


@pytest.mark.parametrize("seed", [4, 6, 7])
def test_an_objective_that_is_rounding_alone_is_proven(seed):
    rng = np.random.default_rng(seed)
    row = rng.normal(size=40)
    X = np.tile(row, (4, 1))
    X[1, 0] = np.nextafter(X[1, 0], 9)
    result = dense_multicut(X, float(row @ row), algorithm="exact", metric="inner_product")
    assert result.optimal
    assert result.bound.rounding < 1e-10


def test_too_many_items_are_an_error_before_any_work():
    for threshold in (None, 0.4):
        with pytest.raises(ValueError, match="exact is for at most 300 items, not 301"):
            dense_multicut(np.ones((301, 2)), threshold, algorithm="exact")


def test_ctrl_c_during_the_proof_returns_the_best_labels_so_far(rng, monkeypatch):
    def interrupted(**arguments):
        raise KeyboardInterrupt

    X = rng.normal(size=(60, 30))
    auto = dense_multicut(X, 0.0)
    monkeypatch.setattr("clusterfug.exact.program.linprog", interrupted)
    result = dense_multicut(X, 0.0, algorithm="exact", time_limit=np.inf)
    assert result.trace[-1].name == "interrupted"
    assert result.inside == auto.inside
    assert result.bound is None
