"""Packing of conflicted triangles among all pairs of items."""

import numpy as np
import pytest
from makers import conflicting
from reference import certified_sum, cost_matrix

from clusterfug import DenseProblem
from clusterfug.bounds.ascent import ascend, incidence
from clusterfug.bounds.packing import TrianglePacker, scaled_costs
from clusterfug.bounds.triangles import merged


def never():
    return False


@pytest.mark.kernels
def test_every_step_raises_the_bound_by_what_it_reports(rng):
    """Residuals and amounts are consistent after packing, ascent, and packing again."""
    X = conflicting(rng, 40)
    costs = cost_matrix(X, 0.3)
    np.fill_diagonal(costs, 0)
    trivial = np.minimum(costs, 0).sum() / 2
    packer = TrianglePacker(DenseProblem(X, 0.3), 100_000)
    gain = packer.pack(never)
    assert gain > 0

    def assert_adds_up(value):
        certificate = merged([(packer.pairs, packer.triangles, packer.unit * packer.amounts)], len(X))
        assert certified_sum(costs, certificate) == pytest.approx(trivial + packer.unit * value, rel=1e-9)

    assert_adds_up(gain)
    assert packer.pack(never) == 0  # there was nothing left
    cut = np.full(len(packer.costs), 0.5)
    given = incidence(packer.costs, packer.triangles)
    residual = ascend(given, packer.amounts, cut, packer.attraction, never)
    assert np.all((cut >= 0) & (cut <= 1))
    assert np.all(packer.amounts >= 0)
    value = np.minimum(residual, 0).sum() - np.minimum(packer.costs, 0).sum()
    assert_adds_up(value)
    packer.settle(residual)
    more = packer.pack(never)
    assert more > 0
    assert_adds_up(value + more)


@pytest.mark.kernels
@pytest.mark.parametrize("most", [1, 10, 1000])
def test_no_more_triangles_are_packed_than_allowed(rng, most):
    packer = TrianglePacker(DenseProblem(conflicting(rng, 20), 0.3), most)
    packer.pack(never)
    assert len(packer.amounts) <= most
    assert len(packer.pairs) <= 3 * most


def test_packing_continues_where_a_kernel_call_ended(rng, monkeypatch):
    problem = DenseProblem(conflicting(rng, 40), 0.3)
    expected = TrianglePacker(problem, 10_000)
    expected.pack(never)
    monkeypatch.setattr("clusterfug.bounds.packing._WORK", 50)
    packer = TrianglePacker(problem, 10_000)
    packer.pack(never)
    np.testing.assert_array_equal(packer.triangles, expected.triangles)
    np.testing.assert_array_equal(packer.amounts, expected.amounts)


@pytest.mark.kernels
def test_a_full_output_array_leaves_no_conflict_behind(rng, monkeypatch):
    monkeypatch.setattr("clusterfug.bounds.packing._TRIANGLES_PER_CALL", 7)
    packer = TrianglePacker(DenseProblem(conflicting(rng, 20), 0.3), 10_000)
    assert packer.pack(never) > 0
    assert packer.pack(never) == 0


def test_products_below_the_smallest_numbers_warn_of_nothing(rng):
    problem = DenseProblem(rng.normal(size=(6, 3)), 0.3, sample_weight=np.full(6, 1e-160))
    costs, unit = scaled_costs(problem)
    assert np.isfinite(costs).all()
    assert 0 <= unit < 1e-300
