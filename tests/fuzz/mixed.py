"""Features and sparse costs together, and items that must be together or apart."""

import pickle

import numpy as np
from threadpoolctl import threadpool_limits

import clusterfug
from clusterfug import GraphProblem, MixedProblem, dense_multicut, lower_bound, multicut, verify_bound
from clusterfug.problems import mixed as module
from fuzz import values
from fuzz.features import TOO_LARGE, check_tampered, is_huge, problem_values
from fuzz.graphs import random_graph
from fuzz.oracles import (
    MAX_ENUMERATED,
    Exact,
    check,
    check_bound,
    check_error,
    check_labels,
    no_runtime_warnings,
)

REFINED = ("auto", "fast", "best", "exact")


def mixed(rng, folder):
    """Solve features, edges or both with links; compare with enumeration of what is feasible."""
    module.MAX_COMPLETE = int(rng.choice([0, 64]))
    try:
        given, truth, tied = random_base(rng)
    except ValueError as error:
        check(TOO_LARGE in str(error), f"refused: {error}")
        return
    links = random_links(rng, truth.n) if rng.random() < 0.7 else {}
    soft = "link_weight" in links
    groups, apart = what_links_say(links, truth.n)
    if soft:
        truth = with_soft_links(truth, links)
        groups, apart, tied = np.arange(truth.n), apart & False, tied | named(links, truth.n)
    elif np.any(apart & (groups[:, None] == groups)):
        check_contradiction(given, links)
        return
    else:
        tied |= named(links, truth.n)
    nodes = truth.contracted(groups, apart)
    options = algorithm_options(rng, truth.n)
    solve = multicut if isinstance(given, GraphProblem) or rng.random() < 0.3 else dense_multicut
    with no_runtime_warnings():
        result = solve(given, **links, **options, bound=bool(rng.random() < 0.4))
    check_linked(truth, nodes, groups, tied, result, options)
    if not soft and links:
        check(result.broken_links == 0, f"{result.broken_links} hard links are broken")
    if rng.random() < 0.1:
        given = pickle.loads(pickle.dumps(given))
        with threadpool_limits(1), no_runtime_warnings():
            again = solve(given, **links, **options)
        check(np.array_equal(again.labels, result.labels), "other labels with one thread")
    if rng.random() < 0.3:
        check_functions(rng, given, links, truth, nodes, groups, tied, result)


def objectives(rng, folder):
    """Modularity, the constant Potts model and cluster editing, and their values."""
    module.MAX_COMPLETE = int(rng.choice([0, 64]))
    edges, weights, n = random_graph(rng)
    edges, weights = np.asarray(edges, dtype=np.int64).reshape(-1, 2), np.abs(np.asarray(weights, float))
    resolution = float(rng.choice([0.0, 0.1, 1.0, 2.5, abs(rng.normal())]))
    size = np.ones(n)
    kind = str(rng.choice(["modularity", "constant_potts", "cluster_editing"]))
    if kind == "modularity":
        if not np.any(weights > 0):
            return
        problem = clusterfug.modularity(edges, weights, n, resolution=resolution)
    elif kind == "constant_potts":
        if rng.random() < 0.5:
            size = np.abs(rng.normal(size=n)) * values.powers(rng, n, 6)
        problem = clusterfug.constant_potts(edges, weights, n, resolution=resolution, node_weights=size)
    else:
        problem = clusterfug.cluster_editing(edges, n)
    truth, value_of = graph_objective(kind, edges, weights, n, resolution, size)
    options = algorithm_options(rng, n)
    with no_runtime_warnings():
        result = multicut(problem, **options, bound=bool(rng.random() < 0.4))
    everyone = np.ones(n, dtype=bool)
    check_linked(truth, truth, np.arange(n), everyone, result, options)
    value, room = value_of(result.labels)
    check(
        abs(problem.value(result) - value) <= room, f"value {problem.value(result)!r}, in truth {value!r}"
    )


def graph_objective(kind, edges, weights, n, resolution=1.0, size=None):
    """The costs of an objective in extended precision, and a function of labels: its value, and room."""
    of_edges = Exact.of_graph(edges, weights, n).costs
    pairs = ~np.eye(n, dtype=bool)
    if kind == "modularity":
        degree = of_edges.sum(axis=1)
        expected = resolution * np.outer(degree, degree) / degree.sum()
    elif kind == "constant_potts":
        size = np.ones(n) if size is None else size
        expected = resolution * np.outer(size, size).astype(np.longdouble)
    else:
        of_edges = np.zeros((n, n), dtype=np.longdouble)
        of_edges[edges[:, 0], edges[:, 1]] = of_edges[edges[:, 1], edges[:, 0]] = 1
        expected, of_edges = np.ones_like(of_edges), 2 * of_edges
    whole = of_edges - expected  # also of nodes with themselves
    truth = Exact(whole.copy(), of_edges + expected, 1)

    def value_of(labels):
        same = labels[:, None] == labels
        if kind == "modularity":
            total = degree.sum()
            return (whole * same).sum() / total, 1e-12 * (float((truth.terms * same).sum() / total) + 1)
        room = 1e-12 * (float(truth.terms.sum()) + 1e-290)
        if kind == "constant_potts":
            return (whole * (same & pairs)).sum() / 2, room
        return (((of_edges > 0) != same) & pairs).sum() / 2, room

    return truth, value_of


def random_base(rng):
    """A problem without links, its costs in extended precision, and the items that edges or weights tie."""
    kind = rng.integers(3)
    if kind == 0:
        edges, costs, n = random_graph(rng)
        problem = GraphProblem(edges, costs, n)
        return problem, Exact.of_graph(edges, costs, n), np.ones(n, dtype=bool)
    X, exact, costs, weight = problem_values(rng)
    n = len(exact)
    if is_huge(exact, costs, weight):
        raise ValueError(TOO_LARGE)
    truth = Exact.of_features(exact, **costs, weight=weight)
    tied = np.ones(n, dtype=bool) if weight is None else np.asarray(weight) > 0
    dense = clusterfug.DenseProblem(X, **costs, sample_weight=weight)
    if kind == 1:
        return dense, truth, tied
    edges, sparse = random_edges(rng, n, truth)
    if rng.random() < 0.5:
        problem = MixedProblem(dense, edges, sparse)
    else:
        problem = MixedProblem(X, GraphProblem(edges, sparse, n), **costs, sample_weight=weight)
    tied[edges.ravel()] = True
    return problem, truth.plus(Exact.of_graph(edges, sparse, n)), tied


def random_edges(rng, n, truth):
    """Edges of n items, parallel ones too, with costs of the magnitude of the others, or of any."""
    m = int(rng.integers(0, 1 + min(n * n, 3 * n + 4)))
    edges = rng.integers(n, size=(m, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    m = len(edges)
    kind = rng.integers(5)
    if kind == 0:
        return edges, rng.integers(-3, 4, size=m).astype(float)
    scale = float(np.abs(truth.costs).max())
    scale = scale if 0 < scale < 1e120 else 1.0
    if kind == 1:
        return edges, scale * rng.normal(size=m)
    if kind == 2:  # some pairs cost nothing, but for rounding
        return edges, -truth.costs[edges[:, 0], edges[:, 1]].astype(np.float64)
    if kind == 3:
        return edges, rng.normal(size=m) * scale * values.powers(rng, ())
    return edges, rng.normal(size=m) * values.powers(rng, m)


def random_links(rng, n):
    """Arguments that say what is known about pairs of items; hard ones rarely contradict each other."""

    def pairs(most):
        found = rng.integers(n, size=(int(rng.integers(0, most + 1)), 2))
        return found[found[:, 0] != found[:, 1]]

    links = {}
    kind = rng.integers(7)
    if kind != 0:
        links["must_link"] = pairs(1 + n // 2) if rng.random() < 0.7 else pairs(0)
    if kind != 1:
        links["cannot_link"] = pairs(1 + n // 2) if rng.random() < 0.9 else pairs(n * n)
    if kind > 2:
        links["exclusive"] = rng.integers(-1, max(1, int(rng.integers(0, n))), size=n)
    if kind == 3:
        links["exclusive"] = np.zeros(n, dtype=int)
    if rng.random() < 0.3:
        weights = [1.0, float(abs(rng.normal())) + 0.01, float(values.powers(rng, ()))]
        links["link_weight"] = weights[rng.integers(3)]
    elif rng.random() < 0.95:
        groups, _ = what_links_say({"must_link": links.get("must_link", ())}, n)
        if "cannot_link" in links:
            i, j = links["cannot_link"].T
            links["cannot_link"] = links["cannot_link"][groups[i] != groups[j]]
        if "exclusive" in links:
            given = links["exclusive"]
            first = np.unique(given * n + groups, return_index=True)[1]
            links["exclusive"] = np.where(np.isin(np.arange(n), first), given, -1)
    return links


def what_links_say(links, n):
    """The lowest item that must be with each item, and the matrix of the items that must be apart."""
    groups = np.arange(n)
    for _ in range(n):
        for i, j in links.get("must_link", ()):
            groups[groups == max(groups[i], groups[j])] = min(groups[i], groups[j])
    apart = np.zeros((n, n), dtype=bool)
    for i, j in links.get("cannot_link", ()):
        apart[i, j] = apart[j, i] = True
    exclusive = np.asarray(links.get("exclusive", np.full(n, -1)))
    apart |= (exclusive[:, None] == exclusive) & (exclusive >= 0) & ~np.eye(n, dtype=bool)
    return np.unique(groups, return_inverse=True)[1], apart


def named(links, n):
    """The items that links name."""
    groups, apart = what_links_say(links, n)
    return apart.any(axis=1) | (np.bincount(groups)[groups] > 1)


def pairs_of_links(links, n):
    """The sets of pairs that must be together, that cannot, and of exclusive groups; lower item first."""

    def given(name):
        return np.asarray(links.get(name, ()), dtype=int).reshape(-1, 2)

    must, cannot = (
        {(min(pair), max(pair)) for pair in given(name).tolist()} for name in ("must_link", "cannot_link")
    )
    exclusive = what_links_say({k: v for k, v in links.items() if k == "exclusive"}, n)[1]
    group = {(i, j) for i, j in np.argwhere(np.triu(exclusive)).tolist()}
    return must, cannot, group


def with_soft_links(truth, links):
    """The costs with those of links that may be broken, each pair once."""
    weight, (must, cannot, group) = links["link_weight"], pairs_of_links(links, truth.n)
    apart = cannot | group
    costs = [weight] * len(must) + [-weight] * len(apart)
    return truth.plus(Exact.of_graph([*must, *apart], costs, truth.n))


def n_broken(links, labels):
    """The number of links that labels break."""
    must, cannot, group = pairs_of_links(links, len(labels))
    separated = sum(labels[i] != labels[j] for i, j in must)
    return int(separated + sum(labels[i] == labels[j] for i, j in cannot | group))


def check_contradiction(given, links):
    try:
        multicut(given, **links)
    except ValueError as error:
        check_error(error)
        check("together" in str(error), f"another error: {error}")
    else:
        check(False, "links that contradict each other are solved")


def algorithm_options(rng, n):
    algorithm = str(rng.choice([*REFINED, "auto", "fast", "gaec"]))
    if algorithm == "exact" and n > 20:
        algorithm = "auto"
    options = {"algorithm": algorithm}
    if algorithm == "best":
        options["max_iter"] = int(rng.integers(1, 4))
    if algorithm == "gaec":
        options["refine"] = bool(rng.random() < 0.3)
    elif rng.random() < 0.3:
        options["init"] = values.labels(rng, n)
    if algorithm in REFINED and rng.random() < 0.05:
        options["time_limit"] = float(rng.choice([0.0, 1e-9, 1e9]))
    return options


def check_linked(truth, nodes, groups, tied, result, options):
    """Check labels, objective, feasibility, claims and bound of a result.

    `nodes` has the costs between the groups of items that must be together; items that nothing ties to
    others are in any cluster.
    """
    labels = result.labels
    check_labels(labels, truth.n)
    for name, found, (true, room) in (
        ("objective", result.objective, truth.objective(labels)),
        ("inside", result.inside, truth.inside(labels)),
        ("objective of the trace", result.trace[-1].objective, truth.objective(labels)),
    ):
        check(abs(found - true) <= room, f"{name} is {found!r}, in truth {true!r}, room {room:.3g}")
    first = np.unique(groups, return_index=True)[1]
    check(np.array_equal(labels[first][groups], labels), "items that must be together are not")
    of_nodes = labels[first]
    check(not np.any(nodes.apart & (of_nodes[:, None] == of_nodes)), "items that must be apart are not")
    limited = options.get("time_limit", 1.0) < 1.0
    refined = options["algorithm"] in REFINED
    if refined and not limited:
        objective, _ = nodes.objective(of_nodes)
        for name, other in (("all alone", np.arange(nodes.n)), ("one cluster", np.zeros(nodes.n, int))):
            if name == "all alone" or not nodes.apart.any():
                least, room = nodes.objective(other)
                room += nodes.rounding(nodes.doubtful(of_nodes))
                check(objective <= least + room, f"worse than {name}: {objective!r} > {least!r}")
    some = np.flatnonzero(tied[first])
    last = result.trace[-1]
    nodes.subset(some).check_gains(of_nodes[some], last.move_optimal, last.join_optimal)
    if options["algorithm"] in ("auto", "fast") and not limited:
        check(last.move_optimal and last.join_optimal, "not certain to be optimal")
    if options["algorithm"] == "exact" and nodes.n <= MAX_ENUMERATED and "time_limit" not in options:
        check(result.optimal, f"exact has no proof: gap {result.gap!r}")
    if result.bound is not None:
        check_bound(nodes, of_nodes, result.bound, result.optimal)


def check_functions(rng, given, links, truth, nodes, groups, tied, result):
    """Check objective, bounds, subsets and contractions."""
    labels, first = result.labels, np.unique(groups, return_index=True)[1]
    with no_runtime_warnings():
        value = clusterfug.objective(given, labels, **links)
        method = str(rng.choice(["auto", "trivial", "triangles"]))
        bound = lower_bound(given, **links, method=method)
        check(verify_bound(given, bound, **links), "a true certificate is rejected")
    check(abs(value - result.objective) <= truth.objective(labels)[1], "objective() disagrees")
    check_bound(nodes, labels[first], bound)
    problem = clusterfug.problems.arguments.with_links(given, **links) if links else given
    if method != "trivial" and len(bound.certificate.pairs):
        check_tampered(rng, problem, nodes, bound, labels[first])
    if not isinstance(problem, MixedProblem):
        return
    contracted = problem.contract(labels)
    joined = rng.integers(3, size=contracted.n)
    value, room = truth.objective(joined[labels])
    room += truth.objective(labels)[1]
    check(abs(contracted.objective(joined) - value) <= room, "a contracted problem has other costs")
