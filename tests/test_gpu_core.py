"""What tensors go through on a device: every operation and every step against an obviously right one."""

import numpy as np
import pytest
import torch
from clusterfug.options import Task
from reference import best_single_change, cost_matrix

from clusterfug import DenseProblem, dense_multicut
from clusterfug.execution.torch import multilevel
from clusterfug.execution.torch import operations as ops
from clusterfug.execution.torch.clusters import Clusters
from clusterfug.execution.torch.inputs import Item
from clusterfug.execution.torch.moves import moves
from clusterfug.execution.torch.neighbours import neighbours
from clusterfug.execution.torch.pack import make
from clusterfug.execution.torch.problem import TensorProblem
from clusterfug.execution.torch.rounds import rounds
from clusterfug.refinement.budget import Budget

SIZES = (70, 1, 300, 2, 9)  # of a pack


def mixture(rng, n, d, clusters, low=0.7, high=1.3):
    """Unit vectors around unit centres. With noise of unequal length some items are hubs."""
    noise = rng.normal(size=(n, d))
    noise *= rng.uniform(low, high, size=(n, 1)) / np.linalg.norm(noise, axis=1, keepdims=True)
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    X = centres[rng.integers(clusters, size=n)] + noise
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def made(problems, device, narrow=torch.float32, **costs):
    """The pack of arrays or DenseProblems."""
    pack, errors = make(
        [Item(X, Task(**costs), device) for X in problems], device, narrow, streamed=False, limit=np.inf
    )
    assert not errors
    return pack


def packed(*arguments, **costs):
    """The same as one TensorProblem."""
    return made(*arguments, **costs).problem


def streamed(problem, part):
    """The same problem with its features on the host, so many of them on the device at a time."""
    p = problem
    return TensorProblem(
        p.features.cpu(), p.a, p.magnitudes, p.starts, p.last, p.signs, p.narrow, part
    )  # fmt: skip


def solved(problem, init=None):
    """All steps of a run."""
    return list(multilevel.steps(problem, init, Budget()))


def inside(problem, labels):
    """What the labels keep inside, per problem."""
    return problem.inside(problem.contract(labels)[0])


def by_problem(problem, values):
    """One number per item, as one array per problem."""
    return np.split(values.cpu().numpy(), problem.starts[1:-1].tolist())


def ranges(problem):
    return [
        slice(*pair) for pair in zip(problem.starts[:-1].tolist(), problem.starts[1:].tolist(), strict=True)
    ]


@pytest.fixture
def pack(rng):
    return [mixture(rng, n, 20, 1 + n // 30) for n in SIZES]


# Operations


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def pairs(request, rng, backend):
    """Queries and columns of a pack, other queries than columns; and their products in float64."""
    d, columns_of = 37, (40, 1, 500, 8, 2)

    def rows(sizes):
        features = torch.tensor(rng.normal(size=(sum(sizes), d)), device=backend).to(request.param)
        more = torch.tensor(rng.normal(size=(sum(sizes), 3)), dtype=torch.float32, device=backend)
        more[:, 2] = 0  # is in no product
        if request.param == torch.bfloat16:
            more[:, 1] = 0  # of bounds, which are in float32
        return ops.Rows(features, more, torch.tensor([0, *np.cumsum(sizes)], device=backend))

    queries, columns = rows(SIZES), rows(columns_of)
    products = queries.features.double() @ columns.features.double().T
    products += queries.more.double() @ columns.more.double().T
    of, column_of = (
        torch.repeat_interleave(torch.arange(len(SIZES), device=backend), rows.starts.diff())
        for rows in (queries, columns)
    )
    products[of[:, None] != column_of] = -torch.inf
    home = (
        columns.starts[of]
        + torch.tensor(rng.integers(1000, size=len(of)), device=backend) % (columns.starts.diff()[of])
    )
    products.scatter_(1, home[:, None], -torch.inf)
    return queries, columns, home, of, products


def tiles(queries, problems, size=64):
    starts = queries.starts.tolist()
    first = [at for p in problems for at in range(starts[p], starts[p + 1], size)]
    return ops.Tiles(torch.tensor(first, dtype=torch.int64, device=queries.starts.device), size)


@pytest.mark.parametrize("k", [1, 8])
def test_nominees_are_other_columns_of_the_same_problem_the_best_of_all_first(pairs, k):
    queries, columns, home, of, products = pairs
    tolerance = 1e-4 if queries.features.dtype == torch.float32 else 0.02
    best, ids = ops.nominate(queries, columns, home, of, tiles(queries, range(5)), k)
    assert best.shape == ids.shape == (len(home), k)
    there = ids != home[:, None]
    torch.testing.assert_close(there[:, 0], products.max(1).values > -torch.inf)
    real = products.gather(1, ids)
    assert (real[there] > -torch.inf).all()  # never of another problem
    torch.testing.assert_close(best.double()[there], real[there], rtol=tolerance, atol=tolerance)
    assert (best[~there] < -1e38).all()
    some = there[:, 0]
    torch.testing.assert_close(real[some, 0], products[some].max(1).values, rtol=tolerance, atol=tolerance)
    assert (best[:, 1:] <= best[:, :-1]).all()


def test_nominees_are_all_different(pairs):
    queries, columns, home, of, _ = pairs
    _, ids = ops.nominate(queries, columns, home, of, tiles(queries, range(5)), 8)
    for own, found in zip(home.tolist(), ids.tolist(), strict=True):
        found = [column for column in found if column != own]
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("d", [1, 33, 300])
@pytest.mark.parametrize("signed", [False, True])
def test_dots(backend, rng, d, signed):
    left = torch.tensor(rng.normal(size=(50, d)), dtype=torch.float32, device=backend)
    right = torch.tensor(rng.normal(size=(30, d)), device=backend)
    i = torch.tensor(rng.integers(50, size=1000), device=backend)
    j = torch.tensor(rng.integers(-1, 30, size=1000), device=backend)
    signs = torch.tensor(rng.choice([-1.0, 1.0], size=d), device=backend) if signed else None
    expected = (left.double() * (1.0 if signs is None else signs)) @ right.T
    expected = torch.where(j >= 0, expected[i, j], 0.0)
    torch.testing.assert_close(ops.dots(left, i, right, j, signs), expected, rtol=1e-12, atol=1e-12)
    assert len(ops.dots(left, i[:0], right, j[:0], signs)) == 0


@pytest.mark.parametrize("d", [2, 300])
def test_sums_of_groups_small_large_and_empty(backend, rng, d):
    rows = torch.tensor(rng.normal(size=(1000, d)), dtype=torch.float32, device=backend)
    order = torch.tensor(rng.permutation(1000), device=backend)
    for sizes in ((1, 0, 700, 129, 0, 128, 42), (100,) * 10, (1000,)):
        starts = torch.tensor([0, *np.cumsum(sizes)], device=backend)
        expected = torch.stack([rows[some].double().sum(0) for some in order.split(sizes)])
        found = ops.sums(rows, order, starts, max(sizes))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        assert torch.equal(found, ops.sums(rows, order, starts, max(sizes)))  # the same bits


def test_rows_come_to_sums_and_go(backend, rng):
    rows = torch.tensor(rng.normal(size=(40, 300)), device=backend)
    before = torch.tensor(rng.normal(size=(4, 300)), device=backend)
    comes, goes = 40, 0  # of 40 rows
    order = [comes + 3, goes + 7, comes + 0, goes + 0, *range(comes + 10, comes + 30), goes + 5]
    order = torch.tensor([*order, comes + 8], device=backend)  # 8 comes to nobody
    starts = torch.tensor([0, 3, 3, 24, 25], device=backend)
    totals = before.clone()
    ops.adjust(totals, rows, order, starts)
    expected = before.clone()
    expected[0] += rows[3] - rows[7] + rows[0]
    expected[2] += rows[10:30].sum(0) - rows[0]
    expected[3] -= rows[5]
    torch.testing.assert_close(totals, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(totals[1], before[1])  # nothing to do with it


def test_nothing_is_left_of_a_cluster_without_items(backend, rng):
    problem = packed([rng.normal(size=(30, 5)) + 1e3], backend, threshold=0.1)
    clusters = Clusters(problem, problem.everyone % 3)
    emptied, other = clusters.labels[:2].tolist()
    clusters.move(clusters.labels == emptied, torch.full_like(clusters.labels, other))
    assert not clusters.sums[emptied].any()
    assert not clusters.more[emptied].any()


@pytest.mark.parametrize("signed", [False, True])
def test_what_clusters_cost_to_themselves(backend, rng, signed):
    sums = torch.tensor(rng.normal(size=(6, 700)), device=backend)
    more = torch.tensor(rng.normal(size=(6, 3)), device=backend)
    more[:, 2] = torch.tensor([3, 0, 1, 0, 2, 9.0])
    signs = torch.tensor(rng.choice([-1.0, 1.0], size=700), device=backend) if signed else None
    expected = (sums**2 * (1.0 if signs is None else signs)).sum(1) - 0.3 * more[:, 0] ** 2
    expected[[1, 3]] = 0.0
    lasts = torch.tensor([-0.3], dtype=torch.float64, device=backend).expand(6)
    torch.testing.assert_close(ops.settle(sums, more, lasts, signs), expected, rtol=1e-12, atol=1e-12)
    assert not sums[[1, 3]].any()
    assert not more[[1, 3]].any()
    assert sums[0].all()


def test_a_step_is_good_if_inside_rises(backend):
    def numbers(*values):
        return torch.tensor(values, dtype=torch.float64, device=backend)

    course = ops.Course(
        inside=numbers(1, 2, 3, 4),
        share=numbers(0.5, 0.9, 0.06, 0.5),
        careful=torch.tensor([True, False, False, True], device=backend),
        tiny=numbers(0, 0, 0, 0),
        turn=torch.tensor([7], device=backend),
    )
    assert ops.judge(course, numbers(2, 2.5, 1, 4)).tolist() == [True, True, False, False]
    assert course.inside.tolist() == [2, 2.5, 3, 4]
    assert course.share.tolist() == pytest.approx([0.625, 1.0, 0.05, 0.25])
    assert course.careful.tolist() == [False, False, True, True]
    assert course.turn.tolist() == [8]


def greedy_matching(i, j, costs, n):
    group, single = np.arange(n), np.ones(n, dtype=bool)
    for e in np.argsort(-costs, kind="stable"):
        if costs[e] > 0 and single[i[e]] and single[j[e]]:
            group[j[e]] = i[e]
            single[[i[e], j[e]]] = False
    return group, single


def test_a_matching_takes_the_best_pairs_first(backend, rng):
    n = 300
    keys = rng.choice(n * n, size=1500, replace=False)
    keys = keys[keys // n < keys % n]
    i, j, costs = keys // n, keys % n, rng.integers(-20, 80, size=len(keys)) / 8  # some equal, some repel
    given = (torch.tensor(x, device=backend) for x in (i, j, costs))
    group, single = ops.matching(*given, n, tries=n)
    expected = greedy_matching(i, j, costs, n)
    assert np.array_equal(group.cpu(), expected[0])
    assert np.array_equal(single.cpu(), expected[1])
    none = torch.zeros(0, dtype=torch.int64, device=backend)
    assert bool(ops.matching(none, none, none.double(), 3, tries=2)[1].all())


def test_who_goes_alone_gets_an_unused_slot_of_its_problem(backend):
    labels = torch.tensor([0, 0, 1, 1, 5, 5, 5, 6], device=backend)  # two problems of 4 items
    sizes = torch.tensor([2, 2, 0, 0, 0, 3, 1], device=backend)  # 4 and 3 slots
    unused_first = torch.tensor([2, 3, 0, 1, 4, 5, 6], device=backend)
    first, begin, end = (
        torch.tensor([x] * 4 + [y] * 4, device=backend) for x, y in ((0, 4), (0, 4), (4, 7))
    )
    slots = ops.Slots(sizes, unused_first, first, begin, end)
    chosen = torch.tensor([1, 0, 1, 1, 1, 1, 0, 1], dtype=torch.bool, device=backend)
    to = torch.tensor([-1, -1, 0, -1, -1, -1, 4, 5], device=backend)
    new, touched = ops.route(chosen, to, labels, slots)
    assert new.tolist() == [2, 0, 0, 3, 4, 5, 5, 5]  # the sixth finds no slot and stays
    assert touched.tolist() == [0, 7, 1, 1, 5, 7, 7, 6, 2, 7, 0, 3, 4, 7, 7, 5]  # 7: nobody


@pytest.mark.parametrize("starts", [[0, 3000], [0, 1, 3, 2500, 3000]])
def test_totals_and_largest_of_every_problem(backend, rng, starts):
    values = rng.integers(1000, size=3000) / 7  # with equal ones
    on_device = torch.tensor(values, device=backend), torch.tensor(starts, device=backend)
    parts = np.split(values, starts[1:-1])
    np.testing.assert_allclose(ops.totals(*on_device).cpu(), [part.sum() for part in parts], rtol=1e-12)
    expected = [start + part.argmax() for start, part in zip(starts, parts, strict=False)]
    assert ops.largest(*on_device).tolist() == expected


# Problems


@pytest.mark.parametrize(
    "costs",
    [
        {"threshold": 0.3},
        {"alpha": 0.5, "prefer": "large"},
        {"alpha": np.linspace(0.1, 0.9, 60), "sample_weight": np.linspace(0.5, 2, 60)},
        {"threshold": 0.2, "signature": np.repeat([1, -1], [15, 5])},
        {"threshold": 1e40, "scale": 1e20},
    ],
)
def test_costs_and_inside_are_those_of_the_problem(backend, rng, costs):
    scale = costs.pop("scale", 1.0)
    X = scale * mixture(rng, 60, 20, 5)
    problem = DenseProblem(X, **costs)
    pack = made([problem], backend)
    tensors, [unit] = pack.problem, pack.units
    for clusters in (1, 7, 60):
        labels = rng.integers(clusters, size=60)
        found = float(inside(tensors, torch.tensor(labels, device=backend)))
        assert unit * found == pytest.approx(problem.inside(labels), rel=1e-10, abs=1e-10 * scale**2)
    i, j = np.triu_indices(60, 1)
    found = tensors.costs(torch.tensor(i, device=backend), tensors, torch.tensor(j, device=backend))
    expected = [problem.objective([0, 1]) for problem in pair_problems(X, i, j, costs)]
    np.testing.assert_allclose(unit * found.cpu().numpy(), expected, rtol=1e-10, atol=1e-10 * scale**2)


def pair_problems(X, i, j, costs):
    """Every pair as a problem of two items."""
    for pair in zip(i, j, strict=True):
        own = {
            name: value[list(pair)] if np.shape(value) == (len(X),) else value
            for name, value in costs.items()
        }
        yield DenseProblem(X[list(pair)], **own)


@pytest.mark.parametrize("part", [None, 7])
def test_contraction_adds_rows_and_orders_clusters(backend, rng, part):
    problem = packed([mixture(rng, 50, 20, 4)], backend)
    if part is not None:
        problem = streamed(problem, part)
    keys = torch.tensor(rng.integers(9, size=50) * 1000, device=backend)
    contracted, labels = problem.contract(keys)
    used, expected = torch.unique(keys, return_inverse=True)
    assert torch.equal(labels, expected)
    assert contracted.n == len(used)
    for c in range(contracted.n):
        of_cluster = labels == c
        torch.testing.assert_close(
            contracted.features[c],
            problem.features[of_cluster.to(problem.features.device)].sum(0).to(backend),
        )
        assert float(contracted.a[c]) == pytest.approx(float(problem.a[of_cluster].sum()))
    again, _ = contracted.contract(contracted.everyone % 2)
    torch.testing.assert_close(contracted.inside(again) + problem.inside(contracted), problem.inside(again))


def test_problems_of_a_pack_have_nothing_in_common(backend, rng, pack):
    """Equal keys in different problems are different clusters; inside is that of each alone."""
    problem = packed(pack, backend, threshold=0.3)
    keys = torch.tensor(rng.integers(4, size=problem.n), device=backend)
    contracted, labels = problem.contract(keys)
    assert torch.equal(contracted.of[labels], problem.of)
    expected = [
        DenseProblem(X, 0.3).inside(own) for X, own in zip(pack, by_problem(problem, keys), strict=True)
    ]
    np.testing.assert_allclose(problem.inside(contracted).cpu(), expected, rtol=1e-10, atol=1e-10)


# Neighbours and rounds


@pytest.mark.parametrize("narrow", [torch.float32, torch.bfloat16], ids=str)
def test_neighbours_attract_and_nobody_misses_the_best(backend, pack, narrow):
    problem = packed(pack, backend, narrow, threshold=0.3)
    i, j = neighbours(problem)
    assert (i < j).all()
    assert torch.equal(problem.of[i], problem.of[j])
    assert len(torch.unique(i * problem.n + j)) == len(i)
    for X, some in zip(pack, ranges(problem), strict=True):
        costs = cost_matrix(X, 0.3)
        np.fill_diagonal(costs, 0)
        best = np.zeros(len(X))
        own = (i >= some.start) & (i < some.stop)
        a, b = (i[own] - some.start).cpu().numpy(), (j[own] - some.start).cpu().numpy()
        assert (costs[a, b] > 0).all()
        np.maximum.at(best, a, costs[a, b])
        np.maximum.at(best, b, costs[a, b])
        np.testing.assert_allclose(
            best, costs.max(1).clip(min=0), atol=1e-6 if narrow == torch.float32 else 0.02
        )


def test_groups_are_connected_and_never_of_two_problems(backend, pack):
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    problem = packed(pack, backend, threshold=0.3)
    i, j = neighbours(problem)
    _, labels = rounds(problem, i, j)
    contracted, compact = problem.contract(labels)
    assert contracted.n < 0.6 * problem.n
    assert torch.equal(contracted.of[compact], problem.of)
    i, j, compact = i.cpu().numpy(), j.cpu().numpy(), compact.cpu().numpy()
    kept = compact[i] == compact[j]
    graph = coo_array((np.ones(kept.sum()), (i[kept], j[kept])), (problem.n, problem.n))
    assert connected_components(graph, directed=False)[0] == contracted.n
    assert (problem.inside(contracted) >= 0).all()
    _, alone = rounds(problem, *(problem.everyone[:0],) * 2)
    assert torch.equal(alone, problem.everyone)


def test_contraction_does_not_stall_on_hubs(backend, rng, monkeypatch):
    X = mixture(rng, 3000, 64, 5)
    sizes = []

    def counted(problem):
        sizes.append(problem.n)
        return neighbours(problem)

    monkeypatch.setattr(multilevel, "neighbours", counted)
    problem = packed([X.astype(np.float32)], backend, threshold=0.25)
    first = next(multilevel.steps(problem, None, Budget()))
    assert first.name == "multilevel"
    assert len(sizes) <= 8, sizes
    assert len(torch.unique(first.labels)) < 50


# Moves, and what is certain in the end


def problem_and_costs(rng, backend, threshold, narrow=torch.float32):
    """A pack of problems that are hard to cluster, and their costs."""
    pack = [mixture(rng, 150, 16, 8), mixture(rng, 40, 16, 3, 0.2, 2.0), rng.normal(size=(60, 16)) / 4]
    return packed(pack, backend, narrow, threshold=threshold), [cost_matrix(X, threshold) for X in pack]


def single_changes(problem, costs, labels):
    """The largest gains of a move and of a join in each problem, by trying all."""
    return np.array(
        [best_single_change(c, own) for c, own in zip(costs, by_problem(problem, labels), strict=True)]
    )


@pytest.mark.parametrize("threshold", [-0.05, 0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("seed", range(3))
def test_a_certificate_is_true_of_every_problem(backend, threshold, seed):
    problem, costs = problem_and_costs(np.random.default_rng(seed), backend, threshold)
    last = solved(problem)[-1]
    assert last.move_optimal
    assert last.join_optimal
    assert single_changes(problem, costs, last.labels).max() < 1e-9
    assert torch.equal(last.labels, solved(problem)[-1].labels)  # and nothing is left to chance


@pytest.mark.parametrize("exact", [False, True])
def test_moves_never_make_a_problem_worse(backend, rng, exact):
    problem, costs = problem_and_costs(rng, backend, 0.2)
    for clusters in (1, 5, 100):
        labels = torch.tensor(rng.integers(clusters, size=problem.n), device=backend)
        better, certain = moves(problem, labels, Budget(), exact)
        assert (inside(problem, better) >= inside(problem, labels)).all()
        assert certain == exact
        if certain:
            assert single_changes(problem, costs, better)[:, 0].max() < 1e-9
        same, certain = moves(problem, better, Budget(time_limit=0), exact)
        assert not certain
        torch.testing.assert_close(inside(problem, same), inside(problem, better))


@pytest.mark.parametrize("narrow", [torch.float32, torch.bfloat16], ids=str)
def test_steps_never_make_a_problem_worse(backend, rng, narrow):
    problem, costs = problem_and_costs(rng, backend, 0.2, narrow)
    for init in (None, torch.tensor(rng.integers(9, size=problem.n), device=backend)):
        before = 0 * problem.own_total if init is None else inside(problem, init)
        for step in solved(problem, init):
            after = inside(problem, step.labels)
            assert (after >= before - 1e-9).all()
            before = after
        gains = single_changes(problem, costs, step.labels).max(0)
        assert not step.move_optimal or gains[0] < 1e-9
        assert not step.join_optimal or gains[1] < 1e-9


@pytest.mark.parametrize("part", [1, 33, 128, 10**6])
def test_streamed_features_are_refined_to_the_same_labels(backend, rng, part):
    problem = packed([mixture(rng, 120, 16, 6)], backend, threshold=0.2)
    init = torch.tensor(rng.integers(9, size=120), device=backend)
    found, expected = solved(streamed(problem, part), init)[-1], solved(problem, init)[-1]
    assert torch.equal(found.labels, expected.labels)
    assert found.move_optimal
    assert found.join_optimal


def test_streamed_features_are_contracted_part_by_part(backend, rng):
    X = mixture(rng, 300, 16, 6)
    problem = packed([X], backend, threshold=0.2)
    expected = solved(problem)[-1]
    for part in (64, 150, 300):
        last = solved(streamed(problem, part))[-1]
        assert single_changes(problem, [cost_matrix(X, 0.2)], last.labels).max() < 1e-9
        assert float(inside(problem, last.labels)) >= 0.98 * float(inside(problem, expected.labels))
    assert torch.equal(last.labels, expected.labels)  # all of them are one part
    with pytest.raises(MemoryError, match="clusters of 16 features need"):
        solved(streamed(packed([np.eye(100, 16)], backend, threshold=2.0), 10))


@pytest.mark.parametrize("narrow", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("X", "threshold", "clusters"),
    [
        (np.ones((1, 3)), 0.4, 1),
        (np.ones((2, 3)), 0.4, 1),
        (np.eye(2), 0.4, 2),
        (np.eye(2), -0.4, 1),
        (np.repeat(np.eye(3), 50, axis=0), 0.4, 3),  # duplicates
        (np.repeat(np.eye(3), 50, axis=0)[:, :2], 0.0, 52),  # of which a third cost nothing
        (np.eye(100), 0.1, 100),  # all repel
        (np.eye(100), 0.0, 100),  # all are indifferent
        (np.eye(100), -0.1, 1),  # all attract
    ],
)
def test_extremes(backend, narrow, X, threshold, clusters):
    alone = packed([X], backend, narrow, threshold=threshold)
    several = packed([X, X, X], backend, narrow, threshold=threshold)
    for problem in (alone, several):
        last = solved(problem)[-1]
        assert last.move_optimal
        assert last.join_optimal
        assert [len(np.unique(own)) for own in by_problem(problem, last.labels)] == [
            clusters
        ] * problem.problems
        assert (
            single_changes(problem, [cost_matrix(X, threshold)] * problem.problems, last.labels).max()
            < 1e-9
        )


@pytest.mark.large
def test_a_large_mixture_is_as_good_as_on_the_cpu(backend, rng):
    X = mixture(rng, 4000, 64, 20).astype(np.float32)
    narrow = torch.bfloat16 if backend.type == "cuda" else torch.float32
    problem = packed([X], backend, narrow, threshold=0.25)
    last = solved(problem)[-1]
    assert last.move_optimal
    assert last.join_optimal
    expected = dense_multicut(X, 0.25, algorithm="fast").inside
    assert float(inside(problem, last.labels)) >= 0.99 * expected


def test_a_certificate_knows_the_rounding_of_alpha(backend):
    # float32 does not tell these affinity strengths apart, and the features are short beside them.
    X = np.array([[1.0, 0.0], [0.0, 0.001], [1.0, -2000.0]])
    costs = {"alpha": np.array([1.0, 1 + 2.0**-25, 0.0]), "prefer": "large"}
    result = dense_multicut(X, **costs, init=[0, 1, 0], algorithm="fast", device=backend)
    assert result.inside >= dense_multicut(X, **costs, init=[0, 1, 0], algorithm="fast").inside - 1e-9
