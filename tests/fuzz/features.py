"""Problems on features: through the API, as tensors, with selected costs, the estimator, and shards."""

import numpy as np
from threadpoolctl import threadpool_limits

from clusterfug import DenseMulticut, DenseProblem, dense_multicut, lower_bound, objective, verify_bound
from clusterfug.core import solve
from clusterfug.execution.plan import Execution
from clusterfug.execution.sharded import source
from clusterfug.problems.arguments import feature_problem
from clusterfug.solvers import make_solver
from fuzz import values
from fuzz.oracles import (
    MAX_ENUMERATED,
    Exact,
    check,
    check_bound,
    check_clustering,
    no_runtime_warnings,
)

REFINED = ("auto", "fast", "best", "exact")
#: What a refusal of valid numbers may say: costs beyond the range of float64.
TOO_LARGE = "too large"
#: And on a device: numbers that scaling by the longest row makes vanish.
TOO_SMALL = "too small beside the longest row"


def features(rng, folder):
    """Solve a problem whose costs are numbers; compare with enumeration; check claims, bounds, threads."""
    X, exact, costs, weight = problem_values(rng)
    options = algorithm_options(rng, len(exact))
    keywords = {"metric": "inner_product", "sample_weight": weight, "bound": rng.random() < 0.4}
    if rng.random() < 0.3:
        keywords |= {"metric": "cosine", "center": bool(rng.random() < 0.5)}
        exact = features_of(X, weight, "cosine", keywords["center"])
        check_unit_rows(X, weight, keywords["center"], exact)
    try:
        with no_runtime_warnings():
            result = dense_multicut(X, **costs, **keywords, **options)
    except ValueError as error:
        check(TOO_LARGE in str(error), f"refused: {error}")
        check(is_huge(exact, costs, weight), f"refused, but not large: {error}")
        return
    truth = Exact.of_features(exact, **costs, weight=weight)
    present = None if weight is None else np.asarray(weight) > 0
    limited = options.get("time_limit", 1.0) < 1.0
    trivial = options["algorithm"] in REFINED and not limited
    check_clustering(truth, result, present, trivial)
    if options["algorithm"] in ("auto", "fast") and not limited:
        check(result.trace[-1].move_optimal and result.trace[-1].join_optimal, "not certain to be optimal")
    if options["algorithm"] == "exact" and truth.n <= MAX_ENUMERATED and "time_limit" not in options:
        check(result.optimal, f"exact has no proof: gap {result.gap!r}")
    if rng.random() < 0.1 and not limited:
        with threadpool_limits(1), no_runtime_warnings():
            again = dense_multicut(X, **costs, **keywords, **options)
        check(np.array_equal(again.labels, result.labels), "other labels with one thread")
        check(again.objective == result.objective, "another objective with one thread")
    if rng.random() < 0.2:
        given = result if weight is None else result.labels
        keep = {name: keywords[name] for name in ("metric", "center") if name in keywords}
        extra = costs | keep if weight is not None else {}
        value = objective(X, given, **extra, sample_weight=weight)
        room = truth.objective(result.labels)[1]
        check(abs(value - result.objective) <= room, "objective() disagrees")
    if rng.random() < 0.2:
        method = str(rng.choice(["auto", "trivial", "triangles"]))
        problem = DenseProblem(exact, **costs, sample_weight=weight)
        with no_runtime_warnings():
            bound = lower_bound(problem, method=method)
            check(verify_bound(problem, bound), "a true certificate is rejected")
        check_bound(Exact.of_features(exact, **costs, weight=weight), result.labels, bound)
        check_tampered(rng, problem, truth, bound, result.labels)


def problem_values(rng):
    """Return features as given and as float64, arguments for costs, and weights."""
    n, d = values.sizes(rng)
    X, exact = values.presented(rng, values.features(rng, n, d))
    return X, exact, values.number_costs(rng, exact), values.weights(rng, n)


def algorithm_options(rng, n):
    algorithm = str(
        rng.choice([*REFINED, "auto", "fast", "gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec"])
    )
    if algorithm == "exact" and n > 20:
        algorithm = "auto"
    options = {"algorithm": algorithm}
    if algorithm == "best":
        options["max_iter"] = int(rng.integers(1, 4))
    if algorithm in REFINED:
        if algorithm != "exact" and rng.random() < 0.3:
            options["init"] = values.labels(rng, n)
        if rng.random() < 0.05:
            options["time_limit"] = float(rng.choice([0.0, 1e-9, 1e9]))
    elif rng.random() < 0.3:
        options["refine"] = True
    if algorithm in ("dgaec", "dgaec-inc", "dlaec", "dapplaec") and rng.random() < 0.3:
        options["k"] = int(rng.integers(1, n + 3))
    return options


def features_of(X, weight, metric, center):
    """The preprocessed features, as float64."""
    problem = feature_problem(X, 0.0, metric=metric, center=center, sample_weight=weight)
    return problem.prepared().X.astype(np.float64)


def check_unit_rows(X, weight, center, found):
    """Check preprocessed features against those computed in extended precision."""
    rows = np.asarray(X).astype(np.longdouble)
    scale = np.abs(rows).max()
    if center:
        weight = (
            np.ones(len(rows), dtype=np.longdouble) if weight is None else np.asarray(weight, np.longdouble)
        )
        rows = rows - (weight[:, None] * rows).sum(axis=0) / weight.sum()
    lengths = np.sqrt((rows**2).sum(axis=1))
    clear = lengths > 1e-6 * scale if center else lengths > 0
    true = rows[clear] / lengths[clear][:, None]
    check(np.all(np.abs(found[clear] - true) <= 1e-5), "rows are not scaled to length 1")


def is_huge(X, costs, weight):
    """Whether sums of costs may leave the range of float64."""
    largest = max(
        np.abs(X).max(), *(np.sqrt(np.abs(np.max(c))) for c in costs.values() if not isinstance(c, str))
    )
    return largest * (1.0 if weight is None else np.max(weight)) > 1e140


def is_uneven(X, costs, weight):
    """Whether the terms of costs span hundreds of orders of magnitude."""
    each = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=np.float64)
    columns = [
        np.broadcast_to(c if name == "alpha" else np.sqrt(np.abs(c)), len(X))
        for name, c in costs.items()
        if not isinstance(c, str)
    ]
    numbers = np.abs(np.column_stack([X, *columns])) * each[:, None]
    return numbers.max() > 1e7 and numbers[numbers > 0].min() < 1e-149 * numbers.max()


def check_tampered(rng, problem, truth, bound, labels):
    """A certificate whose value, or whose parts, are changed for the better must not pass."""
    from dataclasses import replace

    certificate = bound.certificate
    kind = rng.integers(4)
    objective, room = truth.objective(labels)
    change = 1e-3 * (1 + abs(bound.value)) + 8 * room
    if kind == 0:
        false = replace(bound, value=max(objective, bound.value + bound.rounding) + change)
    elif kind == 1 and len(certificate.amounts):
        amounts = certificate.amounts.astype(np.float64)
        amounts[rng.integers(len(amounts))] += 1e-3 + float(truth.terms.max())
        false = replace(bound, certificate=replace(certificate, amounts=amounts))
    elif kind == 2:
        false = replace(bound, rounding=bound.rounding + change + float(truth.terms.sum()))
    elif len(certificate.residual):
        residual = certificate.residual.copy()
        residual[rng.integers(len(residual))] += 1e-3 + float(truth.terms.max())
        false = replace(bound, certificate=replace(certificate, residual=residual))
    else:
        return
    check(not verify_bound(problem, false), f"a certificate with a false entry passes (kind {kind})")


def tensors(rng, folder):
    """The same as tensors of torch, on a GPU where there is one."""
    import torch

    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    X, exact, costs, weight = problem_values(rng)
    solver = make_solver(str(rng.choice(["auto", "fast"])))
    execution = Execution("torch", device, str(rng.choice(["fast", "exact"])))
    try:
        problem = DenseProblem(X, **costs, sample_weight=weight)
        with no_runtime_warnings():
            result = solve(problem, solver, execution, bound=bool(rng.random() < 0.3))
    except ValueError as error:
        huge = TOO_LARGE in str(error) and is_huge(exact, costs, weight)
        uneven = TOO_SMALL in str(error) and is_uneven(exact, costs, weight)
        check(huge or uneven, f"refused: {error}")
        return
    present = None if weight is None else np.asarray(weight) > 0
    truth = Exact.of_features(exact, **costs, weight=weight)
    check_clustering(truth, result, present)


def selection(rng, folder):
    """Costs that are selected from the data, or a target number of clusters."""
    X, exact, _, weight = problem_values(rng)
    center = bool(rng.random() < 0.3)
    metric = str(rng.choice(["cosine", "inner_product"]))
    n = len(exact) if weight is None else np.count_nonzero(weight)
    costs = [
        {},
        {"threshold": "local"},
        {"strictness": float(rng.random() * 1.5)},
        {"n_neighbors": int(rng.integers(1, n + 3))},
    ]
    costs += [{"n_clusters": int(rng.integers(1, n + 1))}, {"n_clusters": (1, n)}]
    costs = costs[rng.integers(len(costs))]
    options = {"algorithm": str(rng.choice(["auto", "fast"]))}
    try:
        with no_runtime_warnings():
            result = dense_multicut(
                X,
                **costs,
                metric=metric,
                center=center,
                sample_weight=weight,
                **options,
                bound=rng.random() < 0.2,
            )
    except ValueError as error:
        check(TOO_LARGE in str(error) and is_huge(exact, {"t": 0.0}, weight), f"refused: {error}")
        return
    problem = feature_problem(
        X, result.costs, metric=metric, center=center, sample_weight=weight
    ).resolved()
    column, last = problem.rows.alpha, problem.rows.signature[-1]
    truth = Exact.of_features(
        problem.rows.features,
        alpha=column * np.sqrt(abs(last)),
        prefer="small" if last <= 0 else "large",
        weight=weight,
    )
    check_clustering(truth, result, None if weight is None else np.asarray(weight) > 0, trivial=False)
    if "n_clusters" in costs and isinstance(costs["n_clusters"], int):
        check(
            result.n_clusters == costs["n_clusters"] or not result.choice.met_target,
            "another number of clusters",
        )


def estimator(rng, folder):
    """fit, predict and labels of the estimator agree."""
    X, exact, costs, weight = problem_values(rng)
    if rng.random() < 0.5:
        costs = {}
    metric, center = str(rng.choice(["cosine", "inner_product"])), bool(rng.random() < 0.3)
    try:
        with no_runtime_warnings():
            model = DenseMulticut(**costs, metric=metric, center=center, algorithm="fast").fit(
                X, sample_weight=weight
            )
            again = model.predict(X)
    except ValueError as error:
        check(TOO_LARGE in str(error) and is_huge(exact, costs, weight), f"refused: {error}")
        return
    check(np.array_equal(again, model.labels_), f"predict {again} differs from labels_ {model.labels_}")
    new = values.features(rng, int(rng.integers(1, 5)), exact.shape[1])
    with no_runtime_warnings():
        found = model.predict(new)
    check(
        found.shape == (len(new),) and found.min() >= 0 and found.max() < model.n_clusters_, "not a cluster"
    )
    check(model.cluster_centers_.shape == (model.n_clusters_, exact.shape[1]), "centres")
    check(np.isfinite(model.cluster_centers_).all(), "centres are not finite")


def shards(rng, folder):
    """The same in shards: with a checkpoint, and with a memory limit of a few items."""
    from makers import memory_for

    source.MIN_SHARD_ITEMS = 2
    X, exact, costs, weight = problem_values(rng)
    exact = exact if rng.random() < 0.5 or len(exact) > 100 else np.concatenate([exact, exact])
    if len(exact) != len(X):
        X = exact
        weight = None if weight is None else np.concatenate([weight, weight])
        costs = {k: np.concatenate([v, v]) if np.ndim(v) else v for k, v in costs.items()}
    keywords = {
        "metric": "inner_product",
        "sample_weight": weight,
        "algorithm": str(rng.choice(["auto", "fast"])),
    }
    checkpoint = rng.random() < 0.7
    if checkpoint:
        keywords["checkpoint"] = folder / "run"
    if not checkpoint or rng.random() < 0.7:
        keywords["memory_limit"] = memory_for(int(rng.integers(2, 12)), exact.shape[1])
    try:
        with no_runtime_warnings():
            result = dense_multicut(X, **costs, **keywords)
    except ValueError as error:
        check(TOO_LARGE in str(error) and is_huge(exact, costs, weight), f"refused: {error}")
        return
    present = None if weight is None else np.asarray(weight) > 0
    check_clustering(Exact.of_features(exact, **costs, weight=weight), result, present, trivial=False)
    if checkpoint and rng.random() < 0.5:
        again = dense_multicut(X, **costs, **keywords)
        check(np.array_equal(again.labels, result.labels), "the resumed run has other labels")
        check(again.objective == result.objective, "the resumed run has another objective")
