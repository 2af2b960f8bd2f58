"""Operations on tensor problems against plain loops and float64 products."""

import numpy as np
import pytest
import torch

from clusterfug.execution.torch import operations as ops

SIZES = (70, 1, 300, 2, 9)  # of the problems of a pack


@pytest.fixture(params=[torch.float32, torch.bfloat16], ids=str)
def pairs(request, rng, backend):
    """Queries and columns of a pack, other queries than columns; and their products in float64."""
    d, columns_of = 37, (40, 1, 500, 8, 2)

    def rows(sizes):
        features = torch.tensor(rng.normal(size=(sum(sizes), d)), device=backend).to(request.param)
        extra = torch.tensor(rng.normal(size=(sum(sizes), 3)), dtype=torch.float32, device=backend)
        extra[:, 2] = 0  # is in no product
        if request.param == torch.bfloat16:
            extra[:, 1] = 0  # of bounds, which are in float32
        return ops.ProductRows(features, extra, torch.tensor([0, *np.cumsum(sizes)], device=backend))

    queries, columns = rows(SIZES), rows(columns_of)
    products = queries.features.double() @ columns.features.double().T
    products += queries.extra.double() @ columns.extra.double().T
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
def test_products_are_those_of_other_candidates_of_the_same_problem_largest_first(pairs, k):
    queries, columns, home, of, products = pairs
    tolerance = 1e-4 if queries.features.dtype == torch.float32 else 0.02
    best, ids = ops.top_products(queries, columns, home, of, tiles(queries, range(5)), k)
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


def test_candidates_of_a_query_are_distinct(pairs):
    queries, columns, home, of, _ = pairs
    _, ids = ops.top_products(queries, columns, home, of, tiles(queries, range(5)), 8)
    for own, found in zip(home.tolist(), ids.tolist(), strict=True):
        found = [column for column in found if column != own]
        assert len(set(found)) == len(found)


@pytest.mark.parametrize("d", [1, 33, 300])
@pytest.mark.parametrize("signed", [False, True])
def test_pair_products_are_those_of_a_matrix_product(backend, rng, d, signed):
    left = torch.tensor(rng.normal(size=(50, d)), dtype=torch.float32, device=backend)
    right = torch.tensor(rng.normal(size=(30, d)), device=backend)
    i = torch.tensor(rng.integers(50, size=1000), device=backend)
    j = torch.tensor(rng.integers(-1, 30, size=1000), device=backend)
    signs = torch.tensor(rng.choice([-1.0, 1.0], size=d), device=backend) if signed else None
    expected = (left.double() * (1.0 if signs is None else signs)) @ right.T
    expected = torch.where(j >= 0, expected[i, j], 0.0)
    torch.testing.assert_close(
        ops.pair_products(left, i, right, j, signs), expected, rtol=1e-12, atol=1e-12
    )
    assert len(ops.pair_products(left, i[:0], right, j[:0], signs)) == 0


@pytest.mark.parametrize("d", [2, 300])
def test_group_sums_are_right_for_small_large_and_empty_groups(backend, rng, d):
    rows = torch.tensor(rng.normal(size=(1000, d)), dtype=torch.float32, device=backend)
    order = torch.tensor(rng.permutation(1000), device=backend)
    for sizes in ((1, 0, 700, 129, 0, 128, 42), (100,) * 10, (1000,)):
        starts = torch.tensor([0, *np.cumsum(sizes)], device=backend)
        expected = torch.stack([rows[some].double().sum(0) for some in order.split(sizes)])
        found = ops.group_sums(rows, order, starts, max(sizes))
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        assert torch.equal(found, ops.group_sums(rows, order, starts, max(sizes)))  # bit for bit


def test_sums_are_updated_by_added_and_subtracted_rows(backend, rng):
    rows = torch.tensor(rng.normal(size=(40, 300)), device=backend)
    before = torch.tensor(rng.normal(size=(4, 300)), device=backend)
    added, subtracted = 40, 0  # offsets in `order`, of 40 rows
    order = [
        added + 3,
        subtracted + 7,
        added + 0,
        subtracted + 0,
        *range(added + 10, added + 30),
        subtracted + 5,
    ]
    order = torch.tensor([*order, added + 8], device=backend)  # row 8 is added to no group
    starts = torch.tensor([0, 3, 3, 24, 25], device=backend)
    totals = before.clone()
    ops.update_sums(totals, rows, order, starts)
    expected = before.clone()
    expected[0] += rows[3] - rows[7] + rows[0]
    expected[2] += rows[10:30].sum(0) - rows[0]
    expected[3] -= rows[5]
    torch.testing.assert_close(totals, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(totals[1], before[1])  # unchanged


@pytest.mark.parametrize("signed", [False, True])
def test_own_costs_of_clusters_and_cleared_empty_clusters(backend, rng, signed):
    sums = torch.tensor(rng.normal(size=(6, 700)), device=backend)
    extra = torch.tensor(rng.normal(size=(6, 3)), device=backend)
    extra[:, 2] = torch.tensor([3, 0, 1, 0, 2, 9.0])
    signs = torch.tensor(rng.choice([-1.0, 1.0], size=700), device=backend) if signed else None
    expected = (sums**2 * (1.0 if signs is None else signs)).sum(1) - 0.3 * extra[:, 0] ** 2
    expected[[1, 3]] = 0.0
    lasts = torch.tensor([-0.3], dtype=torch.float64, device=backend).expand(6)
    torch.testing.assert_close(
        ops.cluster_own_costs(sums, extra, lasts, signs), expected, rtol=1e-12, atol=1e-12
    )
    assert not sums[[1, 3]].any()
    assert not extra[[1, 3]].any()
    assert sums[0].all()


def test_a_step_is_accepted_if_inside_rises(backend):
    def numbers(*values):
        return torch.tensor(values, dtype=torch.float64, device=backend)

    state = ops.MoveState(
        inside=numbers(1, 2, 3, 4),
        share=numbers(0.5, 0.9, 0.06, 0.5),
        single=torch.tensor([True, False, False, True], device=backend),
        min_gain=numbers(0, 0, 0, 0),
        step=torch.tensor([7], device=backend),
    )
    assert ops.accept_steps(state, numbers(2, 2.5, 1, 4)).tolist() == [True, True, False, False]
    assert state.inside.tolist() == [2, 2.5, 3, 4]
    assert state.share.tolist() == pytest.approx([0.625, 1.0, 0.05, 0.25])
    assert state.single.tolist() == [False, False, True, True]
    assert state.step.tolist() == [8]


def greedy_matching(i, j, costs, n):
    group, single = np.arange(n), np.ones(n, dtype=bool)
    for e in np.argsort(-costs, kind="stable"):
        if costs[e] > 0 and single[i[e]] and single[j[e]]:
            group[j[e]] = i[e]
            single[[i[e], j[e]]] = False
    return group, single


def test_matching_takes_the_largest_costs_first(backend, rng):
    n = 300
    keys = rng.choice(n * n, size=1500, replace=False)
    keys = keys[keys // n < keys % n]
    i, j, costs = keys // n, keys % n, rng.integers(-20, 80, size=len(keys)) / 8  # some equal, some repel
    given = (torch.tensor(x, device=backend) for x in (i, j, costs))
    group, single = ops.matching(*given, n, rounds=n)
    expected = greedy_matching(i, j, costs, n)
    assert np.array_equal(group.cpu(), expected[0])
    assert np.array_equal(single.cpu(), expected[1])
    none = torch.zeros(0, dtype=torch.int64, device=backend)
    assert bool(ops.matching(none, none, none.double(), 3, rounds=2)[1].all())


def test_a_new_singleton_gets_an_unused_slot_of_its_problem(backend):
    labels = torch.tensor([0, 0, 1, 1, 5, 5, 5, 6], device=backend)  # two problems of 4 items
    sizes = torch.tensor([2, 2, 0, 0, 0, 3, 1], device=backend)  # 4 and 3 slots
    unused_first = torch.tensor([2, 3, 0, 1, 4, 5, 6], device=backend)
    first, begin, end = (
        torch.tensor([x] * 4 + [y] * 4, device=backend) for x, y in ((0, 4), (0, 4), (4, 7))
    )
    slots = ops.ClusterSlots(sizes, unused_first, first, begin, end)
    chosen = torch.tensor([1, 0, 1, 1, 1, 1, 0, 1], dtype=torch.bool, device=backend)
    to = torch.tensor([-1, -1, 0, -1, -1, -1, 4, 5], device=backend)
    new, touched = ops.assign_slots(chosen, to, labels, slots)
    assert new.tolist() == [2, 0, 0, 3, 4, 5, 5, 5]  # the sixth finds no slot and stays
    assert touched.tolist() == [0, 7, 1, 1, 5, 7, 7, 6, 2, 7, 0, 3, 4, 7, 7, 5]  # 7: no change


@pytest.mark.parametrize("starts", [[0, 3000], [0, 1, 3, 2500, 3000]])
def test_sum_and_first_maximum_of_every_problem(backend, rng, starts):
    values = rng.integers(1000, size=3000) / 7  # with equal ones
    on_device = torch.tensor(values, device=backend), torch.tensor(starts, device=backend)
    parts = np.split(values, starts[1:-1])
    np.testing.assert_allclose(
        ops.problem_sums(*on_device).cpu(), [part.sum() for part in parts], rtol=1e-12
    )
    expected = [start + part.argmax() for start, part in zip(starts, parts, strict=False)]
    assert ops.problem_argmax(*on_device).tolist() == expected
