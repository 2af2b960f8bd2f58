"""Lower bounds: below every clustering, proven by their certificates, and as tight as they can be."""

import math
import signal
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cost_matrix, objective, partitions

from clusterfug import (
    Certificate,
    DenseMulticut,
    DenseProblem,
    GraphProblem,
    LowerBound,
    dense_multicut,
    lower_bound,
    multicut,
    solve_many,
    verify_bound,
)
from clusterfug.bounds import triangles as triangles_of
from clusterfug.bounds.ascent import ascend, messages
from clusterfug.bounds.certificate import add_up
from clusterfug.bounds.cycles import CyclePacker
from clusterfug.bounds.groups import groups_of
from clusterfug.bounds.packing import Packer

METHODS = ("trivial", "triangles")


def clustered(rng, n, d=16, clusters=6, noise=0.9):
    """Unit vectors around unit centres, so near to each other that costs conflict."""
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    X = centres[rng.integers(clusters, size=n)] + noise * rng.normal(size=(n, d)) / np.sqrt(d)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def added_up(costs, certificate):
    """What a certificate proves for a matrix of costs, triangle by triangle."""
    residual = costs.copy()
    for (f, e, g), amount in zip(certificate.triangles, certificate.amounts, strict=True):
        assert amount >= 0
        ends = [set(certificate.pairs[x].tolist()) for x in (f, e, g)]
        assert len(ends[0] | ends[1] | ends[2]) == 3
        assert ends[0] == ends[1] ^ ends[2]
        for pair, change in zip(certificate.pairs[[f, e, g]], (amount, -amount, -amount), strict=True):
            i, j = pair
            residual[i, j] += change
    upper = residual[np.triu_indices(len(costs), 1)]
    return upper[upper < 0].sum(), residual


@st.composite
def problems(draw, most=8):
    """Small problems of all kinds, with their matrices of costs."""
    n = draw(st.integers(1, most))
    d = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.normal(size=(n, d))
    if draw(st.booleans()):
        X = X[rng.integers(n, size=n)]  # duplicates
    if draw(st.booleans()):
        X = np.round(X)  # ties, zeros
    kind = draw(st.sampled_from(["threshold", "alpha", "large", "weights", "costs", "graph"]))
    threshold = draw(st.sampled_from([-0.5, 0.0, 0.3, 1.0]))
    if kind == "threshold":
        return DenseProblem(X, threshold), cost_matrix(X, threshold)
    if kind in ("alpha", "large"):
        alpha = rng.uniform(0, 1.5, size=n)
        prefer = "small" if kind == "alpha" else "large"
        return DenseProblem(X, alpha=alpha, prefer=prefer), cost_matrix(X, alpha=alpha, prefer=prefer)
    if kind == "weights":
        weight = rng.integers(0, 4, size=n)
        weight[0] += 1
        return DenseProblem(X, threshold, sample_weight=weight), cost_matrix(
            X, threshold, sample_weight=weight
        )
    costs = rng.normal(size=(n, n))
    costs = costs + costs.T
    if kind == "costs":
        return DenseProblem.from_costs(costs), costs
    costs *= rng.uniform(size=(n, n)) < 0.7
    costs = np.round(2 * np.triu(costs, 1)) / draw(st.sampled_from([1, 2]))
    i, j = np.nonzero(costs)
    return GraphProblem(np.stack([i, j], 1), costs[i, j], n), costs + costs.T


@given(problems())
def test_no_clustering_is_below_a_bound(made):
    problem, costs = made
    n = len(costs)
    optimum = min(objective(costs, labels) for labels in partitions(n))
    scale = 1e-9 * (1 + np.abs(costs).sum())
    values = []
    for method in METHODS:
        bound = lower_bound(problem, method=method)
        values.append(float(bound))
        assert bound.value <= optimum + scale
        assert verify_bound(problem, bound)
        proven, _ = added_up(costs, bound.certificate)
        whole = isinstance(problem, GraphProblem) and np.all(costs == np.round(costs))
        expected = math.ceil(proven - scale) if whole else proven
        assert bound.value == pytest.approx(expected, abs=scale)
    assert values[1] >= values[0] - scale
    for algorithm in ("fast", "auto"):
        result = (multicut if isinstance(problem, GraphProblem) else dense_multicut)(
            problem, algorithm=algorithm, bound=True
        )
        assert result.lower_bound <= optimum + scale <= result.objective + 2 * scale
        assert result.gap >= 0
        assert result.gap_inside >= 0
        assert not result.optimal or result.objective == pytest.approx(optimum, abs=scale)


@pytest.mark.large
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.integers(12, 40), st.sampled_from([0.1, 0.3, 0.5]))
def test_the_exact_optimum_is_between_bound_and_heuristics(seed, n, threshold):
    X = clustered(np.random.default_rng(seed), n, 8, 4, 1.0)
    exact = dense_multicut(X, threshold, algorithm="exact", time_limit=60)
    assert exact.optimal
    bound = lower_bound(X, threshold)
    assert bound.value <= exact.objective
    for algorithm in ("fast", "auto", "gaec", "dlaec"):
        assert exact.objective <= dense_multicut(X, threshold, algorithm=algorithm).objective + 1e-9


@pytest.mark.large
def test_the_trivial_bound_is_the_sum_of_what_repels(rng):
    """More items than a block has rows."""
    X = clustered(rng, 2300, 5)
    costs = cost_matrix(X, 0.3)
    upper = costs[np.triu_indices(len(X), 1)]
    bound = lower_bound(X, 0.3, method="trivial")
    assert bound.value == pytest.approx(upper[upper < 0].sum(), rel=1e-11)
    assert bound.value < math.fsum(upper[upper < 0].tolist())  # rounded down
    assert verify_bound(X, bound, 0.3)


@pytest.mark.large
def test_pairs_set_aside(rng):
    X = clustered(rng, 1500, 4)
    costs = cost_matrix(X, 0.2)
    i, j = np.triu_indices(len(X), 1)
    some = np.sort(rng.permutation(len(i))[:5000])
    found = DenseProblem(X, 0.2).repulsion(np.stack([i[some], j[some]], 1))
    np.testing.assert_allclose(found.aside, costs[i[some], j[some]], atol=1e-12)
    rest = np.delete(costs[i, j], some)
    assert found.total == pytest.approx(rest[rest < 0].sum(), rel=1e-12)


@pytest.mark.large
def test_triangles_are_much_tighter_than_trivial(rng):
    X = clustered(rng, 400, 12, 8, 1.1)
    result = dense_multicut(X, 0.3, algorithm="best", max_iter=30, bound=True)
    trivial = lower_bound(X, 0.3, method="trivial").value
    assert result.objective - result.lower_bound < 0.05 * (result.objective - trivial)


@pytest.mark.large
def test_a_packing_adds_up(rng):
    """Residuals and amounts are consistent after every step, and each step raises the bound as it says."""
    X = clustered(rng, 120)
    costs = cost_matrix(X, 0.3)
    np.fill_diagonal(costs, 0)
    trivial = np.minimum(costs, 0).sum() / 2
    packer = Packer(DenseProblem(X, 0.3), 100_000)
    gain = packer.pack(lambda: False)
    assert gain > 0

    def check(value):
        certificate = triangles_of.together(
            [(packer.pairs, packer.triangles, packer.unit * packer.amounts)], len(X)
        )
        proven, _ = added_up(costs, certificate)
        assert proven == pytest.approx(trivial + packer.unit * value, rel=1e-9)

    check(gain)
    assert packer.pack(lambda: False) == 0  # there was nothing left
    cut = np.full(len(packer.costs), 0.5)
    residual = ascend(
        messages(packer.costs, packer.triangles), packer.amounts, cut, packer.attraction, lambda: False
    )
    assert np.all((cut >= 0) & (cut <= 1))
    assert np.all(packer.amounts >= 0)
    value = np.minimum(residual, 0).sum() - np.minimum(packer.costs, 0).sum()
    check(value)
    packer.settle(residual)
    more = packer.pack(lambda: False)
    assert more > 0
    check(value + more)


@pytest.mark.parametrize("most", [1, 10, 1000])
def test_no_more_triangles_than_are_allowed(rng, most):
    packer = Packer(DenseProblem(clustered(rng, 40), 0.3), most)
    packer.pack(lambda: False)
    assert len(packer.amounts) <= most
    assert len(packer.pairs) <= 3 * most


def test_messages_go_to_the_triangles_of_a_pair(rng):
    given_ = messages(np.zeros(5), np.array([[0, 1, 2], [3, 0, 1]], dtype=np.int32))
    found = [given_.of[given_.starts[e] : given_.starts[e + 1]].tolist() for e in range(5)]
    assert found == [[0, ~1], [~0, ~1], [~0], [1], []]


def test_groups(rng):
    X = np.repeat(np.eye(4), 50, axis=0) + 0.01 * rng.normal(size=(200, 4))
    order = rng.permutation(200)
    groups = groups_of(DenseProblem(X[order]), 60)
    np.testing.assert_array_equal(np.sort(np.concatenate(groups)), np.arange(200))
    assert sorted(map(len, groups)) == [50] * 4
    assert all(len(set((order[group] // 50).tolist())) == 1 for group in groups)
    assert [len(group) for group in groups_of(DenseProblem(np.ones((10, 3))), 3)] == [2, 3, 2, 3]


@pytest.mark.large
def test_many_items_in_groups(rng):
    """A bound of groups is a bound of the whole, and better than trivial."""
    X = clustered(rng, 300)
    small = lower_bound(X, 0.3, memory_limit=16 * 80**2)
    whole = lower_bound(X, 0.3)
    trivial = lower_bound(X, 0.3, method="trivial")
    assert trivial.value < small.value < whole.value
    assert verify_bound(X, small, 0.3)
    of = np.empty(300, dtype=np.int64)
    for g, items in enumerate(groups_of(DenseProblem(X), 80)):
        of[items] = g
    pairs = small.certificate.pairs
    assert np.all(of[pairs[:, 0]] == of[pairs[:, 1]])


def test_cycles_of_a_grid():
    """A square without chords: three sides attract, one repels. No triangle, but a cycle."""
    graph = GraphProblem([[0, 1], [1, 2], [2, 3], [0, 3]], [2.0, 3.0, 1.5, -1.0])
    assert lower_bound(graph, method="trivial").value == pytest.approx(-1)
    bound = lower_bound(graph)
    assert bound.value == pytest.approx(0, abs=1e-6)
    assert len(bound.certificate.amounts) == 2
    assert verify_bound(graph, bound)
    result = multicut(graph, bound=True)
    assert result.optimal
    assert result.gap == 0


@pytest.mark.parametrize("length", [2, 3, 4, 7, 10])
def test_cycles_of_any_length(length):
    nodes = np.arange(length)
    edges = np.append(np.stack([nodes, nodes + 1], axis=1), [[0, length]], axis=0)
    graph = GraphProblem(edges, [1.0] * length + [-0.5])
    packer = CyclePacker(graph, 1000)
    assert packer.unit * packer.pack(lambda: False) == pytest.approx(0.5)
    assert lower_bound(graph).value == pytest.approx(0, abs=1e-6)


@pytest.mark.large
def test_whole_costs_have_whole_bounds(rng):
    edges = np.stack(np.triu_indices(30, 1), axis=1)
    graph = GraphProblem(edges, rng.choice([-1.0, 1.0], size=len(edges)))
    bound = lower_bound(graph)
    proven, _ = added_up_graph(graph, bound)
    assert bound.value == math.ceil(proven - 1e-6)
    assert verify_bound(graph, bound)
    assert not verify_bound(graph, replace(bound, value=bound.value + 1))


def added_up_graph(graph, bound):
    costs = np.zeros((graph.n, graph.n))
    costs[tuple(graph.edges.T)] = graph.costs
    return added_up(costs, bound.certificate)


@pytest.mark.large
def test_a_wrong_certificate_is_not_accepted(rng):
    X = clustered(rng, 80)
    bound = lower_bound(X, 0.3)
    assert verify_bound(X, bound, 0.3)
    c = bound.certificate

    def changed(**arrays):
        return replace(bound, certificate=replace(c, **arrays))

    def but(array, at, value):
        array = array.copy()
        array[at] = value
        return array

    used = int(np.argmax(c.amounts))
    other_pair = (c.triangles[used, 1] + 1) % len(c.pairs)
    wrong = [
        replace(bound, value=bound.value + 1e-6),
        replace(bound, value=np.nan),
        replace(bound, value=-np.inf),
        replace(bound, rounding=1.0),
        replace(bound, rounding=-1.0),
        replace(bound, rounding=np.nan),
        changed(amounts=but(c.amounts, used, c.amounts[used] * 1.001)),
        changed(amounts=but(c.amounts, used, -c.amounts[used])),
        changed(amounts=but(c.amounts, used, np.nan)),
        changed(amounts=c.amounts[:-1]),
        changed(amounts=c.amounts[:-1], triangles=c.triangles[:-1]),
        changed(residual=but(c.residual, 0, c.residual[0] + 1e-3)),
        changed(residual=c.residual[:-1]),
        changed(triangles=c.triangles[:, [1, 0, 2]]),
        changed(triangles=but(c.triangles, (used, 1), other_pair)),
        changed(triangles=but(c.triangles, (used, 1), c.triangles[used, 0])),
        changed(triangles=but(c.triangles, (0, 0), len(c.pairs))),
        changed(triangles=but(c.triangles, (0, 0), -1)),
        changed(pairs=c.pairs[::-1]),
        changed(pairs=c.pairs[:, ::-1]),
        changed(pairs=but(c.pairs, (-1, 1), 80)),
        replace(bound, certificate=Certificate.empty()),
    ]
    for case in wrong:
        assert not verify_bound(X, case, 0.3)
    assert not verify_bound(X, bound, 0.31)
    assert not verify_bound(X[::-1], bound, 0.3)
    assert verify_bound(X, replace(bound, value=bound.value - 1), 0.3)  # weaker, and still true


def forged(problem, pairs, triangles, amounts):
    """A certificate that adds up, with the bound that it would prove if it were one."""
    certificate = Certificate(
        np.array(pairs, dtype=np.int32),
        np.zeros(len(pairs)),
        np.array(triangles, dtype=np.int32),
        np.array(amounts, dtype=np.float64),
    )
    value, error, residual = add_up(certificate, problem.repulsion(certificate.pairs))
    certificate = replace(certificate, residual=residual)
    return LowerBound(value - 2 * error, 2 * error, "triangles", certificate, 0.0)


PAIRS = [[0, 1], [0, 2], [1, 2]]


@pytest.mark.parametrize(
    ("pairs", "triangles", "amounts"),
    [
        (PAIRS, [[0, 1, 2]], [-1.5]),  # a negative amount
        (PAIRS, [[1, 0, 0]], [0.75]),  # one pair twice
        (PAIRS, [[1, 1, 1]], [-1.5]),
        ([[0, 1], [0, 2], [0, 3]], [[1, 0, 2]], [1.0]),  # a star is no triangle
        ([[0, 1], [0, 2], [2, 3]], [[1, 0, 2]], [1.0]),  # nor is a path
        ([[0, 1], [0, 2], [0, 2], [1, 2]], [[1, 0, 3]], [1.5]),  # a pair counted twice
        ([[0, 2], [0, 1], [1, 2]], [[0, 1, 2]], [1.5]),  # not sorted
        ([[0, 1], [2, 0], [1, 2]], [[1, 0, 2]], [1.5]),  # the wrong way round
        ([[-2, 1], [0, 1], [0, 2]], [[2, 1, 0]], [0.1]),  # no item
        (PAIRS, [[1, 0, 2]], [np.inf]),
        (PAIRS, [[1, 0, 2]], [np.nan]),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_forged_certificate_is_not_accepted(pairs, triangles, amounts):
    graph = GraphProblem([[0, 1], [1, 2], [0, 2], [2, 3]], [2.0, 2.0, -1.5, 0.5])
    assert verify_bound(graph, forged(graph, PAIRS, [[1, 0, 2]], [1.5]))
    assert not verify_bound(graph, forged(graph, pairs, triangles, amounts))
    dense = DenseProblem.from_costs(
        np.array([[0, 2, -1.5, 0], [2, 0, 2, 0], [-1.5, 2, 0, 0.5], [0, 0, 0.5, 0]])
    )
    if np.min(pairs) >= 0:
        assert not verify_bound(dense, forged(dense, pairs, triangles, amounts))


def test_a_certificate_of_the_wrong_types_is_not_accepted(rng):
    X = clustered(rng, 20)
    bound = lower_bound(X, 0.3)
    c = bound.certificate
    assert len(c.amounts)
    for change in (
        {"pairs": c.pairs.astype(float)},
        {"triangles": c.triangles.astype(float)},
        {"amounts": c.amounts.astype(str)},
        {"residual": c.residual.astype(int)},
        {"pairs": np.array(3)},
        {"triangles": c.triangles.ravel()},
    ):
        assert not verify_bound(X, replace(bound, certificate=replace(c, **change)), 0.3)
    with pytest.raises(TypeError, match="bound must be what lower_bound returns, not float"):
        verify_bound(X, 3.0, 0.3)


def test_what_is_rounding_and_what_is_not():
    """A large constant does not make a clustering optimal that is not."""
    edges = [[0, 1], [2, 3], [3, 4], [4, 5], [2, 4], [3, 5], [2, 5]]
    graph = GraphProblem(edges, [-1e10, 2, 3, 2, -2, -2, -1])
    worse = multicut(graph, algorithm="gaec", bound=True)
    best = multicut(graph, algorithm="exact")
    assert best.optimal
    assert worse.objective > best.objective
    assert not worse.optimal
    assert worse.gap > 0
    nothing = GraphProblem([[0, 1], [1, 2]], [5.0, 5.0])
    apart = multicut(nothing, algorithm="fast", bound=True)
    assert apart.gap == 0


@pytest.mark.parametrize("costs", [[-1.5, -2.0], [0.0, 0.0], [-1.0, 1e-60], [1.0, 1e-60]])
def test_graphs_without_conflict(costs):
    result = multicut([[0, 1], [1, 2]], costs, bound=True)
    assert result.optimal
    assert result.lower_bound == pytest.approx(sum(cost for cost in costs if cost < 0))


def test_bounds_are_rounded_down(rng):
    """Even with costs of very different sizes no bound is above what exact arithmetic says."""
    from fractions import Fraction

    X = (rng.normal(size=(9, 3)) * 10.0 ** rng.integers(-3, 6, size=(9, 1))).astype(np.float32)
    rows = [[Fraction(float(x)) for x in row] for row in X]
    threshold = Fraction(0.3)
    pairs = [(i, j) for i in range(9) for j in range(i)]
    costs = {
        p: sum((a * b for a, b in zip(rows[p[0]], rows[p[1]], strict=True)), -threshold) for p in pairs
    }
    trivial = sum(min(cost, Fraction(0)) for cost in costs.values())
    assert Fraction(lower_bound(X, 0.3, method="trivial").value) <= trivial
    bound = lower_bound(X, 0.3)
    residual = dict(costs)
    for (f, e, g), amount in zip(bound.certificate.triangles, bound.certificate.amounts, strict=True):
        for pair, sign in ((f, 1), (e, -1), (g, -1)):
            i, j = bound.certificate.pairs[pair].tolist()
            residual[j, i] += sign * Fraction(float(amount))
    assert Fraction(bound.value) <= sum(min(cost, Fraction(0)) for cost in residual.values())


@pytest.mark.large
@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e12, 1e30])
def test_any_scale(rng, scale):
    X = clustered(rng, 60)
    usual = lower_bound(X, 0.3)
    scaled = lower_bound(X * scale, 0.3 * scale**2)
    assert scaled.value == pytest.approx(usual.value * scale**2, rel=1e-3)
    assert verify_bound(X * scale, scaled, 0.3 * scale**2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_types(rng, dtype):
    X = clustered(rng, 20).astype(dtype)
    assert verify_bound(X, lower_bound(X), 0.4)


def test_extremes():
    for X, threshold in (
        (np.ones((1, 3)), 0.4),
        (np.ones((5, 3)), 0.4),
        (np.eye(5), 0.4),
        (np.zeros((4, 2)), 0.0),
    ):
        result = dense_multicut(X, threshold, bound=True)
        assert result.gap == 0
        assert result.gap_inside == 0
        assert result.optimal
        assert verify_bound(X, result.bound, threshold)
    empty = GraphProblem(np.empty((0, 2), dtype=int), [], 3)
    assert multicut(empty, bound=True).optimal


@pytest.mark.large
def test_same_bits_on_any_number_of_threads(rng):
    from threadpoolctl import threadpool_limits

    X = clustered(rng, 500).astype(np.float32)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(lower_bound(X, 0.3))
    assert found[0].value == found[1].value
    np.testing.assert_array_equal(found[0].certificate.triangles, found[1].certificate.triangles)
    np.testing.assert_array_equal(found[0].certificate.amounts, found[1].certificate.amounts)


@pytest.mark.large
def test_time_limit_leaves_a_bound(rng):
    X = clustered(rng, 300)
    bound = lower_bound(X, 0.3, time_limit=0)
    assert verify_bound(X, bound, 0.3)
    assert bound.value < lower_bound(X, 0.3, time_limit=np.inf).value
    assert dense_multicut(X, 0.3, bound=True, time_limit=0).lower_bound == bound.value


@pytest.mark.large
def test_best_stops_when_it_is_proven_optimal(rng):
    X = clustered(rng, 200, 32, 6, 0.5)
    result = dense_multicut(X, 0.4, algorithm="best", bound=True, max_iter=10_000)
    assert result.optimal
    assert result.n_iter < 10
    without = dense_multicut(X, 0.4, algorithm="best", max_iter=50)
    assert without.n_iter == 50
    assert without.lower_bound is without.gap is without.gap_inside is None
    assert not without.optimal


@pytest.mark.large
def test_gaps(rng):
    X = clustered(rng, 150, 12, 8, 1.2)
    result = dense_multicut(X, 0.3, algorithm="gaec", bound=True)
    bound = lower_bound(X, 0.3).value
    assert result.lower_bound == bound
    assert result.gap == pytest.approx((result.objective - bound) / abs(bound))
    singles = DenseProblem(X, 0.3).all_singletons
    assert result.gap_inside == pytest.approx((singles - bound) / result.inside - 1)


def test_doors(rng):
    X = clustered(rng, 20)
    model = DenseMulticut(threshold=0.3, metric="inner_product", bound=True).fit(X)
    assert model.gap_ == model.result_.gap >= 0
    assert model.lower_bound_ == lower_bound(X, 0.3).value
    plain = DenseMulticut(threshold=0.3).fit(X)
    assert plain.gap_ is None
    assert plain.lower_bound_ is None
    [first, second] = solve_many([DenseProblem(X, 0.3), GraphProblem([[0, 1]], [1.0])], bound=True)
    assert first.gap == model.gap_
    assert second.optimal


@pytest.mark.large
def test_exact(rng):
    X = clustered(rng, 30, 8, 4, 1.2)
    result = dense_multicut(X, 0.3, algorithm="exact")
    assert result.optimal
    assert result.gap == 0
    assert result.trace[-1].name == "exact"
    assert result.objective == pytest.approx(result.lower_bound, rel=1e-9)
    with pytest.raises(ValueError, match="no certificate"):
        verify_bound(X, result.bound, 0.3)
    with pytest.raises(ValueError, match="no certificate"):
        result.bound.save("unused.npz")
    early = dense_multicut(rng.normal(size=(100, 50)), 0.0, algorithm="exact", time_limit=0.1)
    assert not early.optimal
    assert early.lower_bound < early.objective
    with pytest.raises(ValueError, match="exact is for at most 300 items, not 301"):
        dense_multicut(np.ones((301, 2)), algorithm="exact")


@pytest.mark.large
@pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="this system has no timer signal to stand for Ctrl-C"
)
def test_ctrl_c_in_exact_returns_the_best_so_far(rng):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    X = rng.normal(size=(90, 40))
    auto = dense_multicut(X, 0.0)
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        result = dense_multicut(X, 0.0, algorithm="exact", time_limit=2)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert result.trace[-1].name == "interrupted"
    assert result.inside == auto.inside
    assert result.bound is None


def test_on_a_file(rng, tmp_path):
    X = clustered(rng, 20)
    bound = lower_bound(X, 0.3)
    bound.save(tmp_path / "bound.npz")
    again = LowerBound.load(tmp_path / "bound.npz")
    assert (again.value, again.method, again.rounding) == (bound.value, bound.method, bound.rounding)
    assert verify_bound(X, again, 0.3)
    np.savez(tmp_path / "other.npz", features=X)
    (tmp_path / "text.npz").write_text("hello")
    for name in ("other.npz", "text.npz"):
        with pytest.raises(ValueError, match="is no file of a lower bound"):
            LowerBound.load(tmp_path / name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "sdp"}, "unknown method 'sdp': choose one of trivial, triangles, auto"),
        ({"time_limit": -1}, "time_limit"),
        ({"memory_limit": 0}, "memory_limit"),
        ({"device": "tpu"}, "unknown device"),
        ({"method": "trivial", "time_limit": 1}, "time_limit is for packing triangles"),
        ({"method": "trivial", "memory_limit": 1}, "memory_limit is for triangles or a GPU"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        lower_bound(np.eye(3), **options)


def test_bad_input():
    with pytest.raises(ValueError, match="X is a GraphProblem: it has its costs"):
        lower_bound(GraphProblem([[0, 1]], [1.0]), 0.3)
    with pytest.raises(ValueError, match="X is a DenseProblem"):
        lower_bound(DenseProblem(np.eye(3)), 0.3)
    with pytest.raises(ValueError, match="unknown device 'tpu'"):
        lower_bound(GraphProblem([[0, 1]], [1.0]), device="tpu")
    with pytest.raises(TypeError, match="bound"):
        dense_multicut(np.eye(3), bound="triangles")
    with pytest.raises(ValueError, match="row 0"):
        lower_bound([[np.nan, 1.0]])


@pytest.mark.large
def test_sum_of_a_certificate_is_not_lost_in_rounding(rng):
    problem = DenseProblem(clustered(rng, 100), 0.3)
    bound = lower_bound(problem)
    total = add_up(bound.certificate, problem.repulsion(bound.certificate.pairs))
    assert bound.rounding == 2 * total.error < 1e-9 * abs(bound.value)
    np.testing.assert_array_equal(total.residual, bound.certificate.residual)


@pytest.mark.large
@pytest.mark.parametrize("weighted", [False, True])
def test_trivial_on_a_device(backend, rng, weighted):
    X = clustered(rng, 300)
    weight = rng.integers(0, 3, size=300) if weighted else None
    here = lower_bound(X, 0.3, sample_weight=weight, method="trivial")
    there = lower_bound(X, 0.3, sample_weight=weight, method="trivial", device=backend)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    assert there.method == "trivial"
    assert verify_bound(X, there, 0.3, sample_weight=weight)


def test_a_result_of_a_device_has_a_bound(backend, rng):
    import torch

    X = torch.from_numpy(clustered(rng, 20)).to(backend)
    result = dense_multicut(X, 0.3, device=backend, bound=True)
    assert result.gap is not None
    assert verify_bound(X, result.bound, 0.3)
    with pytest.raises(ValueError, match="many problems on a GPU have no bounds"):
        solve_many([X], device=backend, bound=True)
