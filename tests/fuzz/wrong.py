"""Arguments that are wrong, or odd but valid: an outcome or a one-line error, never anything else."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

import clusterfug
from clusterfug import DenseMulticut
from fuzz.oracles import check, check_error, check_labels, no_runtime_warnings

X = np.random.default_rng(0).normal(size=(9, 3))
GRAPH = [[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -3.0]
#: Values that no argument expects, or that one of them does.
ODD = [
    None, True, False, 0, 1, -1, 3, 2**70, 2**2000, 0.4, -0.4, 1e308, float("nan"), float("inf"), 1j, "",
    "auto", "x", "fast", b"auto", [], [1], {}, set(), (1, 2), (2, 1), ("a", "b"), object(),
    Path("absent.npy"),
    "a\nb", lambda: 0, np.float32, np.array(0.4), np.array([]), np.array(["a"]), np.array([1, None]),
    np.ones(9), np.zeros(9), np.ones((9, 1)), -np.ones(9), np.full(9, np.nan), np.arange(9), np.arange(8),
    np.datetime64("2020-01-01"), np.ma.masked_array([1.0]), np.random.default_rng(0),
    np.random.RandomState(0), sp.eye_array(3), "1e5", "600MB", "0MB", "1e999GB", slice(2),
]  # fmt: skip
FEATURES = [
    X[0], X[None], X[:0], X[:, :0], X.astype(str), X.astype(object), X * 1j, X * np.nan, X * 1e200,
    X * 1e300, np.where(X > 1, np.inf, X), np.ma.masked_array(X, X > 1), sp.csr_array(X),
    [*X.tolist()[:-1], [1.0]], "absent.npy", ["absent.npy"], [], [[]], 3, None, "", X.astype("M8[s]"),
    X.view([("a", "f8")]), iter(X), {"a": 1}, X[:1], X[:2], Path("."), np.zeros((9, 3)), [[None]],
    [["a"]], np.where(X > 0, np.inf, X).astype(np.float16), np.longdouble(X),
]  # fmt: skip
ARGUMENTS = (
    "threshold", "alpha", "prefer", "strictness", "n_neighbors", "n_clusters", "sample_weight", "metric",
    "center", "algorithm", "device", "precision", "memory_limit", "checkpoint", "client", "bound",
    "callback", "time_limit", "init", "random_state", "max_iter", "k", "ann", "refine", "nonsense",
)  # fmt: skip


def wrong_arguments(rng, folder):
    """Call a public function with one or two odd values among its arguments."""
    call = CALLS[rng.integers(len(CALLS))]
    try:
        with no_runtime_warnings():
            result = call(rng)
    except Exception as error:
        check_error(error, f"{call.__name__}: ")
        result = None
    labels = getattr(result, "labels", getattr(result, "labels_", None))
    if labels is not None:
        for row in np.atleast_2d(labels):  # one for each threshold of a path
            check_labels(row, len(row))
    left = [path.name for path in folder.iterdir()]
    check(set(left) <= {"x", "auto", "fast"}, f"files are left: {left}")


def odd(rng):
    return ODD[rng.integers(len(ODD))]


def some(rng, names):
    return {str(name): odd(rng) for name in rng.choice(names, size=rng.integers(1, 3), replace=False)}


def some_features(rng):
    return FEATURES[rng.integers(len(FEATURES))] if rng.random() < 0.3 else X


def call_dense_multicut(rng):
    keywords = {"algorithm": "fast"} | some(rng, ARGUMENTS)
    return clusterfug.dense_multicut(some_features(rng), **keywords)


def call_estimator(rng):
    names = sorted(DenseMulticut().get_params())
    model = DenseMulticut(**({"algorithm": "fast"} | some(rng, names)))
    model.fit(some_features(rng), sample_weight=odd(rng) if rng.random() < 0.3 else None)
    model.predict(some_features(rng))
    return model


def call_multicut(rng):
    edges, costs, n = *GRAPH, 3
    kind = rng.integers(4)
    if kind == 0:
        edges = odd(rng)
    elif kind == 1:
        costs = odd(rng)
    elif kind == 2:
        n = odd(rng)
    return clusterfug.multicut(
        edges, costs, n, **some(rng, ("algorithm", "bound", "init", "time_limit", "random_state"))
    )


def call_objective(rng):
    labels = odd(rng) if rng.random() < 0.5 else np.arange(9)
    return clusterfug.objective(
        some_features(rng), labels, **({"threshold": 0.4} | some(rng, ARGUMENTS[:9]))
    )


def call_lower_bound(rng):
    names = (*ARGUMENTS[:9], "method", "time_limit", "memory_limit", "device")
    return clusterfug.lower_bound(some_features(rng), **({"threshold": 0.4} | some(rng, names)))


def call_verify_bound(rng):
    bound = clusterfug.lower_bound(X, 0.4) if rng.random() < 0.5 else odd(rng)
    return clusterfug.verify_bound(
        some_features(rng), bound, **({"threshold": 0.4} | some(rng, ARGUMENTS[:9]))
    )


def call_threshold_path(rng):
    thresholds = odd(rng) if rng.random() < 0.5 else [0.2, 0.4]
    return clusterfug.threshold_path(
        some_features(rng), thresholds, **({"algorithm": "fast"} | some(rng, ARGUMENTS))
    )


def call_solve_many(rng):
    problems = odd(rng) if rng.random() < 0.3 else [some_features(rng), X]
    keywords = {"algorithm": "fast", "n_jobs": 1}
    if rng.random() < 0.5:
        keywords |= some(rng, (*ARGUMENTS, "n_jobs"))
    try:
        clusterfug.solve_many(problems, **keywords)
    except clusterfug.SolveManyError as failed:
        check("\n" not in str(failed), f"more than one line: {failed}")
        for error in failed.errors.values():
            check_error(error)


def call_problem(rng):
    names = ("threshold", "alpha", "prefer", "sample_weight", "strictness", "n_neighbors", "signature")
    problem = clusterfug.DenseProblem(some_features(rng), **({"threshold": 0.4} | some(rng, names)))
    return clusterfug.dense_multicut(problem, algorithm="fast")


def call_from_costs(rng):
    return clusterfug.DenseProblem.from_costs(odd(rng) if rng.random() < 0.5 else some_features(rng))


def call_local_alpha(rng):
    return clusterfug.local_alpha(
        some_features(rng), **some(rng, ("strictness", "n_neighbors", "sample_weight"))
    )


CALLS = [value for name, value in list(globals().items()) if name.startswith("call_")]
