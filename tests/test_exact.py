"""Proofs: a bound is below every clustering, a proven optimum is the best of all partitions."""

import math
import time
from functools import partial
from itertools import count, permutations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import exact_inside, objective, partitions, weighted_instance

from clusterfug.exact import branch, program
from clusterfug.exact import prove as exact
from clusterfug.exact.program import Program
from clusterfug.exact.prove import prove
from clusterfug.exact.stars import violated


def optimum(costs):
    return min(objective(costs, labels) for labels in partitions(len(costs)))


def symmetric(n, values):
    costs = np.zeros((n, n))
    i, j = np.triu_indices(n, 1)
    costs[i, j] = costs[j, i] = values
    return costs


@st.composite
def instances(draw, values):
    n = draw(st.integers(1, 7))
    pairs = n * (n - 1) // 2
    return symmetric(n, draw(st.lists(values, min_size=pairs, max_size=pairs)))


def prove_alone(costs, deadline=None, **constants):
    """From the worse of two poor clusterings and without local search, which would hide a wrong bound."""
    one, many = np.zeros(len(costs), dtype=np.int64), np.arange(len(costs))
    poor = max(one, many, key=lambda labels: objective(costs, labels))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branch, "kernighan_lin", lambda part: None)
        for name, value in constants.items():
            patch.setattr(branch, name, value)
        return prove(costs, poor, deadline=deadline)


def assert_proven(costs):
    best = optimum(costs)
    rounding = 1e-10 * np.abs(costs).sum()
    for proof in (prove(costs, np.arange(len(costs))), prove_alone(costs)):
        assert proof.optimal
        assert proof.labels.dtype == np.int64
        assert objective(costs, proof.labels) == pytest.approx(best, abs=rounding)
        assert best - rounding <= proof.bound <= best + 1e-15 * np.abs(costs).sum()


@settings(max_examples=50)
@given(costs=instances(st.floats(-1, 1)))
def test_the_proven_optimum_is_the_best_partition(costs):
    assert_proven(costs)


@settings(max_examples=50)
@given(costs=instances(st.integers(-3, 3)), unit=st.sampled_from([1.0, 0.5, 0.1, 1e6, 1e-6]))
def test_ties_and_zeros(costs, unit):
    assert_proven(costs * unit)


@settings(max_examples=25)
@given(costs=instances(st.sampled_from([1.0, -1.0])))
def test_the_bound_of_whole_numbers_is_exact(costs):
    assert prove(costs, np.zeros(len(costs), dtype=np.int64)).bound == optimum(costs)


@pytest.mark.parametrize("n", [1, 2, 6])
@pytest.mark.parametrize("cost", [0.7, -0.7, 0.0])
def test_all_costs_alike(n, cost):
    assert_proven(symmetric(n, cost))


def test_components_are_cut_and_solved_alone(rng):
    costs = np.full((8, 8), -0.3)
    costs[:4, :4], costs[4:, 4:] = (symmetric(4, rng.normal(size=6)) for _ in range(2))
    assert_proven(costs)


def test_the_diagonal_does_not_matter(rng):
    costs = symmetric(6, rng.normal(size=15))
    expected = prove(costs, np.arange(6))
    np.fill_diagonal(costs, np.nan)
    assert prove(costs, np.arange(6)).bound == expected.bound


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 6, 9])
def test_larger_instances_as_by_an_integer_program(seed):
    costs = weighted_instance(seed)
    assert_as_good_as_an_integer_program(costs, prove_alone(costs))


def assert_as_good_as_an_integer_program(costs, proof):
    inside = exact_inside(costs)
    total = np.triu(costs, 1).sum()
    assert proof.optimal
    assert total - proof.bound == pytest.approx(inside, rel=1e-6)
    assert total - objective(costs, proof.labels) == pytest.approx(inside, rel=1e-6)


def few(x, known, most):
    return violated(x, known, 2)


def unweighted(rng, n):
    return symmetric(n, rng.choice([1.0, -1.0], size=n * (n - 1) // 2))


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_branching_finds_the_optimum_where_cuts_are_few(whole, seed):
    rng = np.random.default_rng(seed)
    costs = symmetric(10, rng.integers(-3, 4, size=45) if whole else rng.normal(size=45))
    proof = prove_alone(costs, violated=few, _ROUNDS=1, _PROGRESS=0.9)
    assert_as_good_as_an_integer_program(costs, proof)


@pytest.mark.large
@pytest.mark.parametrize("rounds", [0, 1])
def test_a_box_that_is_all_fixed_is_looked_at(rounds):
    """Where cuts are few, reduced costs may fix all pairs of a clustering that nobody has seen."""
    known = symmetric(5, [0, -3, 1, 2, -3, -2, 1, 1, -2, 2])
    some = [np.random.default_rng(seed).integers(-3, 4, size=15) for seed in range(150)]
    for costs in [known, *(symmetric(6, values) for values in some)]:
        proof = prove_alone(costs, violated=few, _ROUNDS=rounds, _PROGRESS=0.9)
        best = optimum(costs)
        assert proof.optimal
        assert proof.bound == pytest.approx(best)
        assert objective(costs, proof.labels) == pytest.approx(best)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_bound_holds_whenever_the_time_is_up(whole, seed, monkeypatch):
    rng = np.random.default_rng(seed)
    costs = unweighted(rng, 11) if whole else symmetric(11, rng.normal(size=55))
    best = np.triu(costs, 1).sum() - exact_inside(costs)
    bounds = []
    for ticks in range(1, 40, 2):
        clock = SimpleNamespace(perf_counter=partial(next, count()))
        monkeypatch.setattr(branch, "time", clock)  # every look at it is a tick
        monkeypatch.setattr(program, "time", clock)
        bounds.append(prove_alone(costs, deadline=ticks, violated=few, _ROUNDS=1, _PROGRESS=0.9).bound)
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1] <= best + 1e-9


@pytest.mark.parametrize("whole", [False, True])
def test_what_a_box_has_at_most_is_never_below_the_optimum(whole, monkeypatch):
    monkeypatch.setattr(branch, "kernighan_lin", lambda part: None)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        costs = unweighted(rng, 7) if whole else symmetric(7, rng.normal(size=21))
        search = branch.Search(costs, whole=whole)
        search.consider(np.arange(7))
        search.consider = lambda labels: None  # and nothing better is ever found
        most, boxes = search._explore(search.most, (np.zeros(21), np.ones(21)), None, lambda: None)
        assert boxes
        assert most >= math.fsum([*np.triu(costs, 1).ravel(), -optimum(costs)])


@pytest.mark.parametrize("after", [-1.0, 0.0, 0.05])
def test_when_the_time_is_up_the_bound_still_holds(rng, after):
    costs = unweighted(rng, 60)
    start = time.perf_counter()
    proof = prove(costs, np.arange(60), deadline=start + after)
    assert not proof.optimal
    assert np.minimum(np.triu(costs, 1), 0).sum() <= proof.bound < objective(costs, proof.labels)


def test_any_prices_make_a_bound(rng):
    costs = symmetric(7, rng.normal(size=21))
    weights = costs[np.triu_indices(7, 1)]
    relaxation = Program(weights, 7)
    relaxation.add(violated((costs > 0).astype(float), set(), 100))
    best = max(weights.sum() - objective(costs, labels) for labels in partitions(7))
    for _ in range(50):
        prices = rng.exponential(size=len(relaxation.stars)) * rng.integers(
            0, 2, size=len(relaxation.stars)
        )
        relaxed = relaxation._priced(weights, prices, np.zeros(21), np.ones(21))
        assert relaxed.bound >= best


def test_the_bound_of_the_program_is_never_rounded_below_the_optimum():
    for seed in range(30):
        costs = symmetric(6, np.random.default_rng(seed).normal(size=15))
        weights = costs[np.triu_indices(6, 1)]
        relaxation = Program(weights, 6)
        relaxation.add([(hub, a, b) for hub, a, b in permutations(range(6), 3) if a < b])
        relaxed = relaxation.solve(np.zeros(15), np.ones(15), None, lambda: None)
        best = max(math.fsum([*weights, -objective(costs, labels)]) for labels in partitions(6))
        assert best <= relaxed.bound


@settings(max_examples=50)
@given(labels=st.lists(st.integers(0, 3), min_size=2, max_size=8), seed=st.integers(0, 99))
def test_clusterings_violate_no_star_and_triangles_are_always_found(labels, seed):
    labels = np.array(labels)
    together = (labels[:, None] == labels).astype(float)
    assert violated(together, set(), 10) == []
    n = len(labels)
    x = symmetric(n, np.random.default_rng(seed).uniform(size=n * (n - 1) // 2))
    broken = any(
        x[a, b] + x[b, c] - x[a, c] > 1.001 for a in range(n) for b in range(n) for c in range(n) if a != c
    )
    assert broken <= bool(violated(x, set(), 10))
    for hub, *members in violated(x, set(), 10):
        assert x[hub, members].sum() - x[np.ix_(members, members)].sum() / 2 > 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [([4, -6, 0], 2), ([0.75, 0.5], 0.25), ([0.0], 0), ([np.pi, 1], 0), ([3.0], 3), ([], 0), ([1e9, 1], 0)],
)
def test_what_all_costs_are_multiples_of(values, expected):
    assert exact._quantum(np.array(values, dtype=np.float64)) == expected


def test_ctrl_c_reaches_the_caller_at_once(rng):
    costs = unweighted(rng, 60)
    start = time.perf_counter()

    def look():
        if time.perf_counter() > start + 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prove(costs, np.arange(60), deadline=start + 4, look=look)
    assert time.perf_counter() - start < 2
