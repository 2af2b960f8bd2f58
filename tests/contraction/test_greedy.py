"""GAEC, DGAEC and DGAECInc make the merges of textbook GAEC on the full matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import (
    SEVEN_MERGE_COSTS,
    assert_greedy,
    cost_matrix,
    gaec,
    printed_dgaec_inc,
    seven_node_costs,
)

from clusterfug import DenseProblem, dense_multicut

MAX_ITEMS = 200
ALGORITHMS = ("gaec", "dgaec", "dgaec-inc")


def solve(problem, algorithm, k):
    return dense_multicut(problem, algorithm=algorithm, **({} if algorithm == "gaec" else {"k": k}))


def nested_groups(rng, n, d):
    """Groups of groups: many small parts that merge first, and with each other at the end."""
    centres = rng.normal(size=(int(rng.integers(1, 4)), d))
    count = max(2, n // 5)
    groups = centres[rng.integers(len(centres), size=count)] + 0.3 * rng.normal(size=(count, d))
    return groups[rng.integers(count, size=n)] + 0.05 * rng.normal(size=(n, d))


@st.composite
def instances(draw, whole):
    """Features with repeated and zero rows, and costs of every kind."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, MAX_ITEMS)), draw(st.integers(1, 16))
    if whole:
        X = rng.integers(-2, 3, size=(n, d)).astype(np.float64)
        numbers = st.sampled_from([-2.0, -0.5, 0.0, 0.25, 1.0, 2.0, 3.0, 5.0])
    else:
        X = nested_groups(rng, n, d) if draw(st.booleans()) else rng.normal(size=(n, d))
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
            alpha = rng.integers(0, 4, size=n).astype(np.float64) if whole else rng.random(n)
            options |= {"alpha": alpha, "prefer": draw(st.sampled_from(["small", "large"]))}
    if draw(st.booleans()):
        options["sample_weight"] = rng.integers(1, 4, size=n) if whole else rng.random(n) + 0.1
    return X.astype(draw(st.sampled_from([np.float32, np.float64]))), options


@settings(max_examples=200)
@given(instance=instances(whole=True), k=st.integers(1, 8))
def test_merges_with_ties_are_those_of_the_textbook(instance, k):
    X, options = instance
    problem, expected = DenseProblem(X, **options), gaec(cost_matrix(X, **options))
    for algorithm in ALGORITHMS:
        assert solve(problem, algorithm, k).merges.tolist() == expected


@pytest.mark.kernels
@pytest.mark.parametrize("seed", range(4))
def test_merges_of_small_problems_are_those_of_the_textbook(seed):
    X = np.random.default_rng(seed).integers(-2, 3, size=(20, 2)).astype(np.float64)
    expected = gaec(cost_matrix(X, 0.5))
    for algorithm in ALGORITHMS:
        assert solve(DenseProblem(X, 0.5), algorithm, 2).merges.tolist() == expected


@settings(max_examples=200)
@given(instance=instances(whole=False), k=st.integers(1, 8))
def test_every_merge_takes_the_largest_cost(instance, k):
    X, options = instance
    problem, costs = DenseProblem(X, **options), cost_matrix(X, **options)
    for algorithm in ALGORITHMS:
        merges = solve(problem, algorithm, k).merges
        assert_greedy(costs, merges)
        assert np.all(merges["i"] < merges["j"])


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_seven_nodes_on_which_the_printed_algorithm_fails_are_merged_correctly(k):
    costs = seven_node_costs()
    np.testing.assert_allclose([cost for _, _, cost in gaec(costs)], SEVEN_MERGE_COSTS)
    for algorithm in ALGORITHMS:
        result = solve(DenseProblem.from_costs(costs), algorithm, k)
        np.testing.assert_allclose(result.merges["cost"], SEVEN_MERGE_COSTS)


def test_the_printed_algorithm_fails_on_the_seven_nodes():
    np.testing.assert_allclose(printed_dgaec_inc(seven_node_costs(), k=2), [4, 3.5, 4, 3.2, 2.1])


@given(seed=st.integers(0, 2**32 - 1), copies=st.integers(1, 8), k=st.integers(1, 6))
def test_perturbed_copies_of_the_seven_nodes_are_merged_correctly(seed, copies, k):
    """Nodes are merged late, out of parts that are in no list."""
    rng = np.random.default_rng(seed)
    n = 7 * copies
    noise = rng.normal(size=(n, n))
    costs = np.kron(np.eye(copies), seven_node_costs() + 1) - 1 + 0.02 * (noise + noise.T)
    order = rng.permutation(n)
    costs = costs[np.ix_(order, order)]
    problem = DenseProblem.from_costs(costs)
    for algorithm in ALGORITHMS:
        assert_greedy(costs, solve(problem, algorithm, k).merges)


@pytest.fixture(scope="module")
def contracted_digits(digits):
    """Results on the digits by (algorithm, threshold)."""
    return {
        (algorithm, threshold): dense_multicut(DenseProblem(digits, threshold), algorithm=algorithm)
        for algorithm in ALGORITHMS
        for threshold in (0.2, 0.4)
    }


@pytest.mark.parametrize(
    ("threshold", "objective", "clusters"), [(0.2, -351909.58, 19), (0.4, -662257.95, 60)]
)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_digits_have_the_published_objective(contracted_digits, threshold, objective, clusters, algorithm):
    result = contracted_digits[algorithm, threshold]
    assert result.objective == pytest.approx(objective, abs=0.1)
    assert result.n_clusters == clusters


def test_all_algorithms_make_the_same_merges_on_digits(contracted_digits):
    merges = [contracted_digits[algorithm, 0.2].merges for algorithm in ALGORITHMS]
    for other in merges[1:]:
        np.testing.assert_array_equal(other[["i", "j"]], merges[0][["i", "j"]])
        np.testing.assert_allclose(other["cost"], merges[0]["cost"], rtol=1e-9)


def test_float32_features_have_the_merges_of_the_same_values_in_float64(digits):
    single = digits.astype(np.float32)
    for algorithm in ALGORITHMS:
        np.testing.assert_array_equal(
            dense_multicut(DenseProblem(single, 0.4), algorithm=algorithm).labels,
            dense_multicut(DenseProblem(single.astype(np.float64), 0.4), algorithm=algorithm).labels,
        )


def test_the_merges_of_integer_features_do_not_depend_on_k(rng):
    """0.4 is not representable, but equal costs are computed equal."""
    for _ in range(30):
        problem = DenseProblem(rng.integers(-1, 2, size=(12, 3)), 0.4)
        expected = dense_multicut(problem, k=1, algorithm="dgaec").merges[["i", "j"]]
        for k in (2, 3, 11):
            merges = dense_multicut(problem, k=k, algorithm="dgaec-inc").merges
            np.testing.assert_array_equal(merges[["i", "j"]], expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_tinyimagenet_agrees_with_the_published_code(shared_data, algorithm):
    X = np.load(shared_data / "tinyimagenet-5k" / "features.npy").astype(np.float32)
    result = dense_multicut(DenseProblem(X, 0.4), algorithm=algorithm)
    assert result.inside == pytest.approx(10801.1, rel=5e-4)
    assert result.n_clusters == pytest.approx(447, abs=2)
