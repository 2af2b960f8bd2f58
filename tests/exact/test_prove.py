"""Proofs: a bound is below every clustering, a proven optimum is the best of all partitions."""

from fractions import Fraction
from functools import partial
from itertools import compress, count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from makers import symmetric
from reference import all_partitions, exact_inside, objective, optimum, weighted_instance

from clusterfug import GraphProblem, multicut
from clusterfug.exact import branch, program
from clusterfug.exact import prove as module
from clusterfug.exact.prove import prove
from clusterfug.exact.stars import violated_stars
from clusterfug.problems.protocol import GroupCosts


@st.composite
def instances(draw, values):
    n = draw(st.integers(1, 7))
    pairs = n * (n - 1) // 2
    return symmetric(n, draw(st.lists(values, min_size=pairs, max_size=pairs)))


def prove_alone(costs, deadline=None, **constants):
    """Prove from the worse of two poor clusterings without local search, which may hide a wrong bound."""
    one, many = np.zeros(len(costs), dtype=np.int64), np.arange(len(costs))
    poor = max(one, many, key=lambda labels: objective(costs, labels))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(branch, "kernighan_lin", lambda part: None)
        for name, value in constants.items():
            patch.setattr(branch, name, value)
        return prove(costs, poor, deadline=deadline)


def few_stars(x, known, most):
    return violated_stars(x, known, 2)


#: Constants of `branch` with which the search branches early.
BRANCHING = {"violated_stars": few_stars, "STALL_ROUNDS": 1, "MIN_PROGRESS": 0.9}


def assert_proven(costs):
    best = optimum(costs)
    rounding = 1e-10 * np.abs(costs).sum()
    for proof in (prove(costs, np.arange(len(costs))), prove_alone(costs)):
        assert proof.optimal
        assert proof.labels.dtype == np.int64
        assert objective(costs, proof.labels) == pytest.approx(best, abs=rounding)
        assert best - rounding <= proof.bound <= best + 1e-15 * np.abs(costs).sum()


def unweighted(rng, n):
    return symmetric(n, rng.choice([1.0, -1.0], size=n * (n - 1) // 2))


@settings(max_examples=40)
@given(costs=instances(st.floats(-1, 1)))
def test_the_proven_optimum_is_the_best_partition(costs):
    assert_proven(costs)


@settings(max_examples=40)
@given(costs=instances(st.integers(-3, 3)), unit=st.sampled_from([1.0, 0.5, 0.1, 1e6, 1e-6]))
def test_ties_and_zeros_do_not_matter(costs, unit):
    assert_proven(costs * unit)


@settings(max_examples=25)
@given(costs=instances(st.sampled_from([1.0, -1.0])))
def test_the_bound_of_integer_costs_is_exact(costs):
    assert prove(costs, np.zeros(len(costs), dtype=np.int64)).bound == optimum(costs)


@pytest.mark.parametrize("n", [1, 2, 6])
@pytest.mark.parametrize("cost", [0.7, -0.7, 0.0])
def test_equal_costs_are_proven(n, cost):
    assert_proven(symmetric(n, cost))


def test_components_are_cut_and_solved_on_their_own(rng):
    costs = np.full((8, 8), -0.3)
    costs[:4, :4], costs[4:, 4:] = (symmetric(4, rng.normal(size=6)) for _ in range(2))
    assert_proven(costs)


def test_the_diagonal_does_not_matter(rng):
    costs = symmetric(6, rng.normal(size=15))
    expected = prove(costs, np.arange(6))
    np.fill_diagonal(costs, np.nan)
    assert prove(costs, np.arange(6)).bound == expected.bound


def assert_as_good_as_an_integer_program(costs, proof):
    inside = exact_inside(costs)
    total = np.triu(costs, 1).sum()
    assert proof.optimal
    assert total - proof.bound == pytest.approx(inside, rel=1e-6)
    assert total - objective(costs, proof.labels) == pytest.approx(inside, rel=1e-6)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 6, 9])
def test_larger_instances_are_solved_as_by_an_integer_program(seed):
    costs = weighted_instance(seed)
    assert_as_good_as_an_integer_program(costs, prove_alone(costs))


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_branching_finds_the_optimum_where_cuts_are_few(integer, seed):
    rng = np.random.default_rng(seed)
    costs = symmetric(10, rng.integers(-3, 4, size=45) if integer else rng.normal(size=45))
    assert_as_good_as_an_integer_program(costs, prove_alone(costs, **BRANCHING))


@pytest.mark.parametrize("rounds", [0, 1])
def test_the_only_clustering_of_a_box_is_considered(rounds):
    """Where cuts are few, reduced costs may fix all pairs of a clustering that was not considered yet."""
    known = symmetric(5, [0, -3, 1, 2, -3, -2, 1, 1, -2, 2])
    seeds = (13, 34, 46, 62, 66, 75, 76, 86, 88, 93, 103, 106)  # of which that is so
    some = [np.random.default_rng(seed).integers(-3, 4, size=15) for seed in seeds]
    for costs in [known, *(symmetric(6, values) for values in some)]:
        proof = prove_alone(costs, **BRANCHING | {"STALL_ROUNDS": rounds})
        best = optimum(costs)
        assert proof.optimal
        assert proof.bound == pytest.approx(best)
        assert objective(costs, proof.labels) == pytest.approx(best)


@pytest.fixture
def clock(monkeypatch):
    """Make the clock of branch and cut advance by one second whenever it is read."""

    def restart():
        ticks = partial(next, count())
        monkeypatch.setattr(branch, "clock", ticks)
        monkeypatch.setattr(program, "clock", ticks)

    restart()
    return restart


@pytest.mark.parametrize("integer", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_the_bound_holds_at_any_deadline_and_only_rises(integer, seed, clock):
    rng = np.random.default_rng(seed)
    costs = unweighted(rng, 11) if integer else symmetric(11, rng.normal(size=55))
    best = np.triu(costs, 1).sum() - exact_inside(costs)
    bounds = []
    for ticks in range(1, 40, 3):
        clock()
        bounds.append(prove_alone(costs, deadline=ticks, **BRANCHING).bound)
    assert bounds == sorted(bounds)
    assert bounds[0] < bounds[-1] <= best + 1e-9


@pytest.mark.parametrize("ticks", [-1, 1, 5])
def test_after_the_deadline_the_bound_is_between_trivial_and_objective(rng, ticks, clock):
    costs = unweighted(rng, 30)
    proof = prove(costs, np.arange(30), deadline=ticks)
    assert not proof.optimal
    assert np.minimum(np.triu(costs, 1), 0).sum() <= proof.bound < objective(costs, proof.labels)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([4, -6, 0], 2), ([0.75, 0.5], 0.25), ([0.0], 0), ([np.pi, 1], 0), ([3.0], 3), ([], 0), ([1e9, 1], 0)],
)
def test_the_quantum_divides_all_costs(values, expected):
    assert module._quantum(np.array(values, dtype=np.float64)) == expected


@given(
    costs=instances(st.one_of(st.integers(-6, 6), st.sampled_from([0.1, 0.2, -0.3]), st.floats(-1, 1))),
    seed=st.integers(0, 2**32 - 1),
)
def test_pairs_that_are_always_cut_count_with_their_own_costs(costs, seed):
    """Beside them only the objective of the best feasible clustering is above the bound."""
    n = len(costs)
    share = np.random.default_rng(seed).random()
    apart = symmetric(n, np.random.default_rng(seed).random(n * (n - 1) // 2) < share) > 0
    constrained = GroupCosts(costs, 1.0, apart).constrained
    proof = prove(constrained, np.arange(n), counted=costs)
    i, j = np.triu_indices(n, 1)
    cut = [labels[i] != labels[j] for labels in all_partitions(n)] if n > 1 else []
    exact = [Fraction(float(cost)) for cost in costs[i, j]]
    feasible = [sum(compress(exact, c), Fraction(0)) for c in cut if c[apart[i, j]].all()]
    best = min(feasible, default=Fraction(0))
    assert proof.optimal
    assert not apart[proof.labels[:, None] == proof.labels].any()
    assert objective(costs, proof.labels) == pytest.approx(float(best), abs=1e-10 * np.abs(costs).sum())
    assert proof.bound <= best
    assert proof.bound >= best - Fraction(1e-10) * Fraction(float(np.abs(costs).sum() + 1e-300))


@pytest.mark.parametrize("values", [[0.1, 0.2, -0.3], [4.0, -4.0, 1.0, 4.0, -6.0, 1.0]])
def test_costs_of_pairs_that_are_always_cut_are_not_multiples_of_the_others(values):
    """If all pairs are, the costs to prove are all the same, and 4 is a tenth of them."""
    n = {3: 3, 6: 4}[len(values)]
    counted = symmetric(n, values)
    constrained = GroupCosts(counted, 1.0, ~np.eye(n, dtype=bool)).constrained
    proof = prove(constrained, np.arange(n), counted=counted)
    assert proof.optimal
    assert proof.bound <= sum(map(Fraction, values))


def test_bounds_keep_the_scale_of_costs_where_links_bar_every_pair():
    graph = GraphProblem([[0, 1]], [1e-21])
    result = multicut(graph, cannot_link=[[0, 1]], algorithm="exact")
    assert result.optimal
    assert result.lower_bound == pytest.approx(1e-21, rel=1e-9)
