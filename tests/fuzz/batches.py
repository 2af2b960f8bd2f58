"""Many problems, many thresholds, explicit cost matrices: each result against the oracle of its problem."""

import numpy as np

from clusterfug import DenseProblem, GraphProblem, dense_multicut, multicut, solve_many, threshold_path
from fuzz import values
from fuzz.features import TOO_LARGE, is_huge, problem_values
from fuzz.graphs import random_graph
from fuzz.oracles import Exact, check, check_clustering, no_runtime_warnings


def batches(rng, folder):
    """Solve features, problems and graphs side by side: the same labels as one by one."""
    problems, expected = {}, {}
    algorithm = str(rng.choice(["auto", "fast", "exact"]))
    for at in range(int(rng.integers(1, 5))):
        if rng.random() < 0.3:
            edges, costs, n = random_graph(rng)
            problems[f"graph {at}"] = GraphProblem(edges, costs, n)
            expected[f"graph {at}"] = Exact.of_graph(edges, costs, n), None
        else:
            X, exact, costs, weight = problem_values(rng)
            if is_huge(exact, costs, weight) or len(exact) > 100:
                continue
            problems[f"features {at}"] = DenseProblem(X, **costs, sample_weight=weight)
            present = None if weight is None else np.asarray(weight) > 0
            expected[f"features {at}"] = Exact.of_features(exact, **costs, weight=weight), present
    if algorithm == "exact" and any(truth.n > 20 for truth, _ in expected.values()):
        algorithm = "auto"
    with no_runtime_warnings():
        results = solve_many(problems, algorithm=algorithm, n_jobs=int(rng.integers(1, 3)))
    check(len(results) == len(problems), "not one result per problem")
    for (name, problem), result in zip(problems.items(), results, strict=True):
        check_clustering(expected[name][0], result, expected[name][1])
        alone = (multicut if name.startswith("graph") else dense_multicut)(problem, algorithm=algorithm)
        check(np.array_equal(result.labels, alone.labels), f"{name}: other labels than alone")


def paths(rng, folder):
    """Cluster at several thresholds."""
    X, exact, _, weight = problem_values(rng)
    scale = float(np.abs(exact @ exact.T).max()) if np.abs(exact).max() < 1e70 else 1.0
    thresholds = scale * rng.normal(size=int(rng.integers(1, 4)))
    try:
        with no_runtime_warnings():
            path = threshold_path(
                X, thresholds, sample_weight=weight, metric="inner_product", algorithm="fast"
            )
    except ValueError as error:
        check(TOO_LARGE in str(error), f"refused: {error}")
        check(is_huge(exact, {"threshold": scale}, weight), f"refused, but not large: {error}")
        return
    check(np.array_equal(path.thresholds, np.unique(thresholds)), "other thresholds")
    present = None if weight is None else np.asarray(weight) > 0
    for threshold, result in zip(path.thresholds, path.results, strict=True):
        check_clustering(Exact.of_features(exact, threshold, weight=weight), result, present)


def matrices(rng, folder):
    """Costs that are given as a symmetric matrix, which is factorised up to rounding."""
    n = values.sizes(rng)[0]
    costs = (
        rng.normal(size=(n, n)) if rng.random() < 0.5 else rng.integers(-2, 3, size=(n, n)).astype(float)
    )
    costs = np.triu(costs, 1) * values.powers(rng, (), 100 if rng.random() < 0.2 else 0)
    costs += costs.T
    np.fill_diagonal(costs, rng.choice([0.0, 1.0, -1e9, 1e140]))
    algorithm = str(rng.choice(["auto", "fast", "exact"]))
    with no_runtime_warnings():
        problem = DenseProblem.from_costs(costs)
        result = dense_multicut(problem, algorithm="auto" if n > 20 else algorithm, bound=True)
    pairs = np.abs(costs)
    np.fill_diagonal(pairs, 0.0)
    terms = np.broadcast_to(1e-10 * n * pairs.max() + pairs, (n, n))  # of the factorisation, too
    truth = Exact(costs.astype(np.longdouble), terms.astype(np.longdouble), n)
    room = truth.rounding(np.ones((n, n), dtype=bool)) + 1e-9 * n * n * float(pairs.max())
    for name, found, (true, _) in (
        ("objective", result.objective, truth.objective(result.labels)),
        ("inside", result.inside, truth.inside(result.labels)),
    ):
        check(abs(found - true) <= room, f"{name} is {found!r}, in truth {true!r}")
    for name, other in (("all alone", np.arange(n)), ("one cluster", np.zeros(n, dtype=int))):
        check(result.objective <= truth.objective(other)[0] + room, f"worse than {name}")
    if n <= 8:
        optimum, _ = truth.objective(truth.optimum())
        check(
            result.bound.value <= optimum + room, f"the bound {result.bound.value!r} is above {optimum!r}"
        )
        if result.optimal:
            check(result.objective <= optimum + room, f"optimal, but {optimum!r} is possible")
