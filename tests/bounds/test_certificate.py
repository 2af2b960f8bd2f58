"""Certificates: valid ones are verified, all others are rejected, and rounding is on the safe side."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from makers import conflicting, random_links, random_mixed
from reference import certified_sum

from clusterfug import Certificate, DenseProblem, GraphProblem, LowerBound, lower_bound, verify_bound
from clusterfug.bounds.certificate import add_up


@pytest.fixture(scope="module")
def features():
    return conflicting(np.random.default_rng(0), 40)


@pytest.fixture(scope="module")
def bound(features):
    bound = lower_bound(features, 0.3)
    assert len(bound.certificate.amounts)
    return bound


def changed(array, at, value):
    array = array.copy()
    array[at] = value
    return array


def test_a_changed_bound_is_rejected(features, bound):
    assert verify_bound(features, bound, 0.3)
    for change in (
        {"value": bound.value + 1e-6},
        {"value": np.nan},
        {"value": -np.inf},
        {"rounding": 1.0},
        {"rounding": -1.0},
        {"rounding": np.nan},
        {"certificate": Certificate.empty()},
    ):
        assert not verify_bound(features, replace(bound, **change), 0.3)
    assert not verify_bound(features, bound, 0.31)
    assert not verify_bound(features[::-1], bound, 0.3)
    assert verify_bound(features, replace(bound, value=bound.value - 1), 0.3)  # weaker, and still true


def test_a_changed_certificate_is_rejected(features, bound):
    c = bound.certificate
    used = int(np.argmax(c.amounts))
    other_pair = (c.triangles[used, 1] + 1) % len(c.pairs)
    for change in (
        {"amounts": changed(c.amounts, used, c.amounts[used] * 1.001)},
        {"amounts": changed(c.amounts, used, -c.amounts[used])},
        {"amounts": changed(c.amounts, used, np.nan)},
        {"amounts": c.amounts[:-1]},
        {"amounts": c.amounts[:-1], "triangles": c.triangles[:-1]},
        {"residual": changed(c.residual, 0, c.residual[0] + 1e-3)},
        {"residual": c.residual[:-1]},
        {"triangles": c.triangles[:, [1, 0, 2]]},
        {"triangles": changed(c.triangles, (used, 1), other_pair)},
        {"triangles": changed(c.triangles, (used, 1), c.triangles[used, 0])},
        {"triangles": changed(c.triangles, (0, 0), len(c.pairs))},
        {"triangles": changed(c.triangles, (0, 0), -1)},
        {"pairs": c.pairs[::-1]},
        {"pairs": c.pairs[:, ::-1]},
        {"pairs": changed(c.pairs, (-1, 1), len(features))},
    ):
        assert not verify_bound(features, replace(bound, certificate=replace(c, **change)), 0.3)


def forged(problem, pairs, triangles, amounts):
    """A certificate that adds up, with the bound that it would prove if it were valid."""
    certificate = Certificate(
        np.array(pairs, dtype=np.int32),
        np.zeros(len(pairs)),
        np.array(triangles, dtype=np.int32),
        np.array(amounts, dtype=np.float64),
    )
    value, error, residual = add_up(problem, certificate, problem.repulsion(certificate.pairs))
    certificate = replace(certificate, residual=residual)
    return LowerBound(value - 2 * error, 2 * error, "triangles", certificate, 0.0)


PAIRS = [[0, 1], [0, 2], [1, 2]]


@pytest.mark.parametrize(
    ("pairs", "triangles", "amounts"),
    [
        pytest.param(PAIRS, [[0, 1, 2]], [-1.5], id="negative amount"),
        pytest.param(PAIRS, [[1, 0, 0]], [0.75], id="pair twice"),
        pytest.param(PAIRS, [[1, 1, 1]], [-1.5], id="pair three times"),
        pytest.param([[0, 1], [0, 2], [0, 3]], [[1, 0, 2]], [1.0], id="star"),
        pytest.param([[0, 1], [0, 2], [2, 3]], [[1, 0, 2]], [1.0], id="path"),
        pytest.param([[0, 1], [0, 2], [0, 2], [1, 2]], [[1, 0, 3]], [1.5], id="pair counted twice"),
        pytest.param([[0, 2], [0, 1], [1, 2]], [[0, 1, 2]], [1.5], id="not sorted"),
        pytest.param([[0, 1], [2, 0], [1, 2]], [[1, 0, 2]], [1.5], id="wrong order within a pair"),
        pytest.param([[-2, 1], [0, 1], [0, 2]], [[2, 1, 0]], [0.1], id="negative item"),
        pytest.param(PAIRS, [[1, 0, 2]], [np.inf], id="infinite"),
        pytest.param(PAIRS, [[1, 0, 2]], [np.nan], id="nan"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_forged_certificate_is_rejected(pairs, triangles, amounts):
    graph = GraphProblem([[0, 1], [1, 2], [0, 2], [2, 3]], [2.0, 2.0, -1.5, 0.5])
    assert verify_bound(graph, forged(graph, PAIRS, [[1, 0, 2]], [1.5]))
    assert not verify_bound(graph, forged(graph, pairs, triangles, amounts))
    dense = DenseProblem.from_costs(
        np.array([[0, 2, -1.5, 0], [2, 0, 2, 0], [-1.5, 2, 0, 0.5], [0, 0, 0.5, 0]])
    )
    if np.min(pairs) >= 0:
        assert not verify_bound(dense, forged(dense, pairs, triangles, amounts))


def test_a_certificate_of_the_wrong_types_is_rejected(features, bound):
    c = bound.certificate
    for change in (
        {"pairs": c.pairs.astype(float)},
        {"triangles": c.triangles.astype(float)},
        {"amounts": c.amounts.astype(str)},
        {"residual": c.residual.astype(int)},
        {"pairs": np.array(3)},
        {"triangles": c.triangles.ravel()},
    ):
        assert not verify_bound(features, replace(bound, certificate=replace(c, **change)), 0.3)
    with pytest.raises(TypeError, match="bound must be what lower_bound returns, not float"):
        verify_bound(features, 3.0, 0.3)


def test_integer_costs_have_integer_bounds(rng):
    edges = np.stack(np.triu_indices(20, 1), axis=1)
    graph = GraphProblem(edges, rng.choice([-1.0, 1.0], size=len(edges)))
    bound = lower_bound(graph)
    costs = np.zeros((20, 20))
    costs[tuple(graph.edges.T)] = graph.costs
    assert bound.value == math.ceil(certified_sum(costs, bound.certificate) - 1e-6)
    assert verify_bound(graph, bound)
    assert not verify_bound(graph, replace(bound, value=bound.value + 1))


def test_bounds_are_rounded_down(rng):
    """With costs of very different sizes, no bound is above its value in exact arithmetic."""
    X = (rng.normal(size=(9, 3)) * 10.0 ** rng.integers(-3, 6, size=(9, 1))).astype(np.float32)
    rows = [[Fraction(float(x)) for x in row] for row in X]
    threshold = Fraction(0.3)
    pairs = [(i, j) for i in range(9) for j in range(i)]
    costs = {
        p: sum((a * b for a, b in zip(rows[p[0]], rows[p[1]], strict=True)), -threshold) for p in pairs
    }
    trivial = sum(min(cost, Fraction(0)) for cost in costs.values())
    raw = {"threshold": 0.3, "metric": "inner_product"}
    assert Fraction(lower_bound(X, method="trivial", **raw).value) <= trivial
    bound = lower_bound(X, **raw)
    residual = dict(costs)
    for (f, e, g), amount in zip(bound.certificate.triangles, bound.certificate.amounts, strict=True):
        for pair, sign in ((f, 1), (e, -1), (g, -1)):
            i, j = bound.certificate.pairs[pair].tolist()
            residual[j, i] += sign * Fraction(float(amount))
    assert Fraction(bound.value) <= sum(min(cost, Fraction(0)) for cost in residual.values())


def test_the_sum_of_a_certificate_is_not_lost_in_rounding(features):
    problem = DenseProblem(features, 0.3)
    bound = lower_bound(problem)
    _, error, residual = add_up(problem, bound.certificate, problem.repulsion(bound.certificate.pairs))
    assert bound.rounding == 2 * error < 1e-9 * abs(bound.value)
    np.testing.assert_array_equal(residual, bound.certificate.residual)


def test_a_bound_survives_a_file(features, bound, tmp_path):
    bound.save(tmp_path / "bound.npz")
    again = LowerBound.load(tmp_path / "bound.npz")
    assert (again.value, again.method, again.rounding) == (bound.value, bound.method, bound.rounding)
    assert again.seconds == bound.seconds
    assert repr(again) == repr(bound)
    assert f"{bound.value:.2f}, method='triangles'" in repr(bound)
    assert verify_bound(features, again, 0.3)
    np.savez(tmp_path / "other.npz", features=features)
    (tmp_path / "text.npz").write_text("hello")
    data = (tmp_path / "bound.npz").read_bytes()
    for header, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):  # compressed in an unknown way
        data = b"".join(
            [header + part[: at - 4] + b"\x63\x00" + part[at - 2 :] for part in data.split(header)]
        )
    (tmp_path / "zip.npz").write_bytes(data.removeprefix(b"PK\x01\x02"))
    for name in ("other.npz", "text.npz", "zip.npz"):
        with pytest.raises(ValueError, match="is no file of a lower bound"):
            LowerBound.load(tmp_path / name)


@pytest.mark.parametrize("name", ["amounts", "residual"])
def test_huge_numbers_in_a_certificate_prove_nothing_and_warn_of_nothing(rng, name):
    X = rng.normal(size=(20, 3))
    bound = lower_bound(X, 0.2, method="triangles")
    huge = getattr(bound.certificate, name).astype(np.float64)
    huge[:] = 1.7e308
    false = replace(bound, value=0.0, certificate=replace(bound.certificate, **{name: huge}))
    assert not verify_bound(X, false, 0.2)


def test_a_bound_that_cannot_be_written_leaves_the_old_file(features, tmp_path, monkeypatch):
    def full_disk(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    lower_bound(features, 0.2).save(tmp_path / "bound.npz")
    old = (tmp_path / "bound.npz").read_bytes()
    monkeypatch.setattr(np, "savez_compressed", full_disk)
    with pytest.raises(OSError, match=r"cannot write .*bound\.npz"):
        lower_bound(features, 0.3).save(tmp_path / "bound.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["bound.npz"]
    assert (tmp_path / "bound.npz").read_bytes() == old


TRIANGLE = [[0, 1], [0, 2], [1, 2]]


@pytest.mark.parametrize(
    ("costs", "cannot", "best"),
    [
        ([2.0, 3.0, 5.0], [[1, 2]], 7.0),  # cut: (1, 2) and the smaller of the others
        ([2.0, 3.0, -5.0], [[1, 2]], -3.0),
        ([2.0, 3.0, 5.0], TRIANGLE, 10.0),
        ([-2.0, -3.0, 5.0], [[1, 2]], 0.0),
        ([2.0, -3.0, 5.0], [[0, 1], [0, 2]], -1.0),
    ],
)
@pytest.mark.parametrize("complete", [0, 64])
def test_pairs_that_every_clustering_cuts_are_in_the_bound(costs, cannot, best, complete, monkeypatch):
    monkeypatch.setattr("clusterfug.problems.mixed.MAX_COMPLETE", complete)
    graph = GraphProblem(TRIANGLE, costs)
    bound = lower_bound(graph, cannot_link=cannot)
    assert bound.value == best
    assert verify_bound(graph, bound, cannot_link=cannot)
    assert not verify_bound(graph, replace(bound, value=best + 1), cannot_link=cannot)


def test_a_certificate_of_a_mixed_problem_is_checked(rng):
    problem, _ = random_mixed(rng, 80)
    links, _, _ = random_links(rng, 80)
    for keywords in ({}, links):
        bound = lower_bound(problem, **keywords)
        assert verify_bound(problem, bound, **keywords)
        c = bound.certificate
        used = int(np.argmax(c.amounts))
        for change in (
            {"amounts": changed(c.amounts, used, c.amounts[used] * 1.001)},
            {"residual": changed(c.residual, 0, c.residual[0] + 1e-3)},
            {"triangles": c.triangles[:, [1, 0, 2]]},
            {"pairs": c.pairs[::-1]},
        ):
            false = replace(bound, certificate=replace(c, **change))
            assert not verify_bound(problem, false, **keywords)
