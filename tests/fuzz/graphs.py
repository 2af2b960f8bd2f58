"""Explicit graphs."""

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from clusterfug import lower_bound, multicut, objective, verify_bound
from clusterfug.problems.graph import GraphProblem
from fuzz import values
from fuzz.oracles import MAX_ENUMERATED, Exact, check, check_bound, check_clustering, no_runtime_warnings


def graphs(rng, folder):
    """Solve a graph with parallel edges, ties, isolated nodes and costs of any magnitude."""
    edges, costs, n = random_graph(rng)
    algorithm = str(rng.choice(["auto", "fast", "best", "exact", "gaec"]))
    options = {"algorithm": "auto" if algorithm == "exact" and n > 20 else algorithm}
    if options["algorithm"] == "best":
        options["max_iter"] = int(rng.integers(1, 4))
    if options["algorithm"] in ("auto", "fast", "best") and rng.random() < 0.3:
        options["init"] = values.labels(rng, n)
    if options["algorithm"] == "gaec" and rng.random() < 0.5:
        options["refine"] = True
    given = (edges, costs, n)
    truth = Exact.of_graph(edges, costs, n)
    if rng.random() < 0.2 and len(edges):
        given = (as_matrix(rng, truth),)
        truth = Exact.of_graph(*np_pairs(given[0]), n)
    bound = bool(rng.random() < 0.4)
    with no_runtime_warnings():
        result = multicut(*given, **options, bound=bound)
    check_clustering(truth, result, trivial=options["algorithm"] != "gaec")
    alone = ~(truth.terms != 0).any(axis=1)
    sizes = np.bincount(result.labels)
    check(
        np.all(sizes[result.labels[alone & ~touched(edges, n)]] == 1), "a node without edges is not alone"
    )
    if options["algorithm"] == "exact" and n <= MAX_ENUMERATED:
        check(result.optimal, f"exact has no proof: gap {result.gap!r}")
    if rng.random() < 0.1:
        with threadpool_limits(1):
            again = multicut(*given, **options)
        check(np.array_equal(again.labels, result.labels), "other labels with one thread")
    if rng.random() < 0.3:
        problem = GraphProblem(*given)
        value = objective(problem, result.labels)
        room = truth.objective(result.labels)[1]
        check(abs(value - result.objective) <= room, "objective() disagrees")
        with no_runtime_warnings():
            bound = lower_bound(problem, method=str(rng.choice(["auto", "trivial", "triangles"])))
            check(verify_bound(problem, bound), "a true certificate is rejected")
        check_bound(truth, result.labels, bound)


def random_graph(rng):
    kind = rng.random()
    n = int(
        rng.integers(1, 9) if kind < 0.7 else rng.integers(9, 30) if kind < 0.97 else rng.integers(30, 200)
    )
    m = int(rng.integers(0, 1 + min(n * n, 4000)))
    edges = rng.integers(n, size=(m, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    m = len(edges)
    kind = rng.integers(6)
    if kind == 0:
        costs = rng.choice([-1.0, 1.0], size=m)
    elif kind == 1:
        costs = rng.integers(-3, 4, size=m).astype(float)
    elif kind == 2:
        costs = rng.normal(size=m)
    elif kind == 3:
        costs = rng.normal(size=m) * values.powers(rng, m)
    elif kind == 4:
        costs = rng.choice([0.1, 0.2, 0.3, -0.1, -0.3], size=m)
    else:
        costs = rng.normal(size=m) * values.powers(rng, (), 140)
    kind = rng.integers(4 if np.abs(costs).max(initial=0.0) < 1e30 else 1)
    if kind == 0:
        edges = edges.astype(rng.choice([np.int32, np.uint16, np.int64]))
    elif kind == 1:
        costs = costs.astype(np.float32).astype(rng.choice([np.float32, np.float64]))
    elif kind == 2 and m:
        edges, costs = edges.tolist(), costs.tolist()
    return edges, costs, n


def touched(edges, n):
    found = np.zeros(n, dtype=bool)
    found[np.asarray(edges, dtype=int).ravel()] = True
    return found


def as_matrix(rng, truth):
    """The same graph as a sparse matrix: triangular, symmetric, or symmetric up to rounding."""
    matrix = truth.costs.astype(np.float64)
    kind = rng.integers(3)
    if kind == 0:
        matrix = np.triu(matrix)
    elif kind == 1:
        matrix = np.tril(matrix)
    elif rng.random() < 0.5:
        matrix = np.triu(matrix) + np.tril(matrix) * (1 + rng.choice([0, 2.0**-52], size=matrix.shape))
    return getattr(sp, str(rng.choice(["csr_array", "coo_array", "csc_matrix"])))(matrix)


def np_pairs(matrix):
    """Edges and costs of a sparse matrix; of two triangles their mean."""
    full = matrix.toarray().astype(np.longdouble)
    both = np.triu(full, 1) + np.tril(full, -1).T
    twice = (np.triu(full, 1) != 0) & (np.tril(full, -1).T != 0)
    both[twice] /= 2
    i, j = np.nonzero(both)
    return np.stack([i, j], axis=1), both[i, j]
