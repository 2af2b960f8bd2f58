"""GAEC, DGAEC and DGAECInc make the merges of textbook GAEC on the full matrix."""

from itertools import permutations

import numpy as np
import pytest
from conftest import INTERPRETED
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    SEVEN_MERGE_COSTS,
    Contraction,
    assert_greedy,
    cost_matrix,
    gaec,
    printed_dgaec_inc,
    seven_node_costs,
)

from clusterfug import DenseProblem, dense_multicut
from clusterfug.contraction.greedy import ACTIVE, MERGES, contract, start
from clusterfug.neighbours.exact import nearest
from clusterfug.neighbours.lists import has_partner, lists_of

LARGEST = 14 if INTERPRETED else 200
EXAMPLES = 8 if INTERPRETED else 300
ALGORITHMS = ("gaec", "dgaec", "dgaec-inc")


def grouped(rng, n, d):
    """Groups of groups: many small parts that merge first, and merge with each other late."""
    centres = rng.normal(size=(int(rng.integers(1, 4)), d))
    groups = centres[rng.integers(len(centres), size=max(2, n // 5))] + 0.3 * rng.normal(
        size=(max(2, n // 5), d)
    )
    return groups[rng.integers(len(groups), size=n)] + 0.05 * rng.normal(size=(n, d))


@st.composite
def features(draw, integers):
    """Features with repeated and zero rows, and costs of every kind."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, LARGEST)), draw(st.integers(1, 16))
    if integers:
        X = rng.integers(-2, 3, size=(n, d)).astype(np.float64)
        numbers = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 2.0, 3.0, 5.0])
    else:
        X = grouped(rng, n, d) if draw(st.booleans()) else rng.normal(size=(n, d))
        numbers = st.floats(-1, 2)
    if draw(st.booleans()):  # repeated rows
        X = X[rng.integers(0, max(1, n // 2), size=n)]
    if draw(st.booleans()):  # zero rows
        X[rng.random(n) < 0.2] = 0
    options = {}
    match draw(st.sampled_from(["threshold", "alpha", "alphas"])):
        case "threshold":
            options["threshold"] = draw(numbers)
        case "alpha":
            options |= {"alpha": abs(draw(numbers)), "prefer": draw(st.sampled_from(["small", "large"]))}
        case "alphas":
            alpha = rng.integers(0, 4, size=n).astype(np.float64) if integers else rng.random(n)
            options |= {"alpha": alpha, "prefer": draw(st.sampled_from(["small", "large"]))}
    if draw(st.booleans()):
        options["sample_weight"] = rng.integers(1, 4, size=n) if integers else rng.random(n) + 0.1
    return X.astype(draw(st.sampled_from([np.float32, np.float64]))), options


@settings(max_examples=EXAMPLES)
@given(instance=features(integers=True), k=st.integers(1, 8))
def test_ties_agree_merge_by_merge(instance, k):
    X, options = instance
    expected = gaec(cost_matrix(X, **options))
    for algorithm in ALGORITHMS:
        own_k = {} if algorithm == "gaec" else {"k": k}
        result = dense_multicut(X, **options, algorithm=algorithm, **own_k)
        assert result.merges.tolist() == expected


@settings(max_examples=EXAMPLES)
@given(instance=features(integers=False), k=st.integers(1, 8))
def test_every_merge_takes_the_largest_cost(instance, k):
    X, options = instance
    costs = cost_matrix(X, **options)
    for algorithm in ALGORITHMS:
        own_k = {} if algorithm == "gaec" else {"k": k}
        result = dense_multicut(X, **options, algorithm=algorithm, **own_k)
        assert_greedy(costs, result.merges)
        assert np.all(result.merges["i"] < result.merges["j"])


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_seven_nodes_that_the_printed_algorithm_gets_wrong(k):
    costs = seven_node_costs()
    np.testing.assert_allclose([cost for _, _, cost in gaec(costs)], SEVEN_MERGE_COSTS)
    problem = DenseProblem.from_costs(costs)
    for algorithm in ("dgaec", "dgaec-inc"):
        result = dense_multicut(problem, algorithm=algorithm, k=k)
        np.testing.assert_allclose(result.merges["cost"], SEVEN_MERGE_COSTS)
    np.testing.assert_allclose(dense_multicut(problem, algorithm="gaec").merges["cost"], SEVEN_MERGE_COSTS)


def test_the_printed_algorithm_gets_the_seven_nodes_wrong():
    np.testing.assert_allclose(printed_dgaec_inc(seven_node_costs(), k=2), [4, 3.5, 4, 3.2, 2.1])


@settings(max_examples=EXAMPLES // 4)
@given(seed=st.integers(0, 2**32 - 1), copies=st.integers(1, 2 if INTERPRETED else 8), k=st.integers(1, 6))
def test_many_perturbed_copies_of_the_seven_nodes(seed, copies, k):
    """Instances on purpose: nodes merged late, out of parts that no list names."""
    rng = np.random.default_rng(seed)
    n = 7 * copies
    noise = rng.normal(size=(n, n))
    costs = np.kron(np.eye(copies), seven_node_costs() + 1) - 1 + 0.02 * (noise + noise.T)
    order = rng.permutation(n)
    costs = costs[np.ix_(order, order)]
    problem = DenseProblem.from_costs(costs)
    for algorithm in ("dgaec", "dgaec-inc"):
        assert_greedy(costs, dense_multicut(problem, algorithm=algorithm, k=k).merges)
    assert_greedy(costs, dense_multicut(problem, algorithm="gaec").merges)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(2, 14), k=st.integers(1, 4))
def test_the_newer_of_two_nodes_knows_the_older(seed, n, k):
    """The invariant of the neighbour lists, checked for every pair after every step."""
    rng = np.random.default_rng(seed)
    problem = DenseProblem(rng.integers(-2, 3, size=(n, 3)), 0.5)
    lists, state = lists_of(nearest(problem, k)), start(problem)
    contraction = Contraction(cost_matrix(problem.rows.features, 0.5))
    done = 0
    while not contract(problem.rows, lists, state, 1):
        for i, j, _ in state.merges[done : state.counts[MERGES]]:
            contraction.merge(i, j)
        done = state.counts[MERGES]
        active = state.active[: state.counts[ACTIVE]].tolist()
        costs = np.maximum(contraction.costs, contraction.costs.T)
        for u, v in permutations(active, 2):
            if lists.made[v] > lists.known[u]:
                assert lists.made[u] <= lists.known[v]  # then v knows u
                continue
            listed = has_partner(lists, u) and v in lists.ids[u, lists.head[u] : lists.length[u]]
            if listed:
                at = lists.ids[u].tolist().index(v, lists.head[u])
                assert lists.costs[u, at] == costs[u, v]
            else:
                assert costs[u, v] <= lists.floor[u]


@pytest.mark.large
@pytest.mark.parametrize(
    ("threshold", "objective", "clusters"), [(0.2, -351909.58, 19), (0.4, -662257.95, 60)]
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_digits(digits, threshold, objective, clusters, algorithm):
    result = dense_multicut(digits, threshold, algorithm=algorithm)
    assert result.objective == pytest.approx(objective, abs=0.1)
    assert result.n_clusters == clusters


@pytest.mark.large
def test_the_three_agree_on_the_merges_of_digits(digits):
    merges = [dense_multicut(digits, 0.2, algorithm=name).merges for name in ALGORITHMS]
    for other in merges[1:]:
        np.testing.assert_array_equal(other[["i", "j"]], merges[0][["i", "j"]])
        np.testing.assert_allclose(other["cost"], merges[0]["cost"], rtol=1e-9)


@pytest.mark.large
def test_float32_makes_the_merges_of_its_own_values_in_float64(digits):
    single = digits.astype(np.float32)
    for algorithm in ALGORITHMS:
        np.testing.assert_array_equal(
            dense_multicut(single, algorithm=algorithm).labels,
            dense_multicut(single.astype(np.float64), algorithm=algorithm).labels,
        )


def test_matrix_road_in_single_precision(rng, monkeypatch):
    """Beyond the size where costs are kept in float64, the features' own precision decides."""
    from clusterfug.contraction import matrix

    monkeypatch.setattr(matrix, "_SMALL", 0)
    X = rng.integers(-3, 4, size=(40, 5)).astype(np.float32)
    expected = gaec(cost_matrix(X, 2.0))
    assert dense_multicut(X, 2.0, algorithm="gaec").merges.tolist() == expected
