"""Triton kernels for the operations of `operations.py` on features."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from clusterfug.execution.torch import operations as ops

_PIECE_ROWS = 128  # rows that one program sums
_TARGET_PROGRAMS = 2048  # enough to occupy a large GPU


def top_products(
    queries: ops.ProductRows, candidates: ops.ProductRows, home: Tensor, problem_of: Tensor,
    tiles: ops.Tiles, k: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    n, d = queries.features.shape
    mean = -(-len(candidates.features) // (len(candidates.starts) - 1))
    precise = queries.features.dtype == torch.float32
    if precise:
        width, depth, warps = 64, 32, 4
    elif tiles.size == 64:
        width, depth, warps = 64, 128 if d >= 512 else 64, 4
    elif mean >= 16384 and d >= 512:
        width, depth, warps = 256, 64, 8
    else:
        width, depth, warps = 128, 64, 8
    if k > 1:  # narrow tiles: at most one of the k best comes from each
        width = max(16, min(width, triton.next_power_of_2(mean // 64 + 1)))
    splits = max(1, min(_TARGET_PROGRAMS // max(1, len(tiles.first)), mean // width))
    best = torch.empty((n, splits, k), dtype=torch.float32, device=home.device)
    ids = torch.empty((n, splits, k), dtype=torch.int64, device=home.device)
    if len(tiles.first):
        _top_products[(len(tiles.first), splits)](
            queries.features, queries.extra, queries.starts,
            candidates.features, candidates.extra, candidates.starts,
            tiles.first, problem_of, home, best, ids, d, splits,
            K=k, ROWS=tiles.size, COLUMNS=width, DEPTH=depth, EVEN=d % depth == 0, PACKED=not precise,
            num_warps=warps, num_stages=3,
        )  # fmt: skip
    if splits == 1 and k == 1:
        return best[:, 0], ids[:, 0]
    best, ids = best.reshape(n, -1), ids.reshape(n, -1)
    best, at = best.max(1, keepdim=True) if k == 1 else best.topk(k, dim=1)
    return best, ids.gather(1, at)


@triton.jit(do_not_specialize=["splits"])
def _top_products(
    queries, query_extra, query_starts,
    columns, column_extra, column_starts,
    tiles, of, home, best_out, ids_out, d, splits,
    K: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    EVEN: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Multiply one tile of queries with one range of the columns (candidates) of their problem.

    A tile of columns takes every stride-th column, so that neighbours in the input are in different tiles;
    the best of each tile competes for the K best. Indices beyond the end read the last row or column.
    PACKED: the lowest bits of a score hold its place in the tile, so that one maximum finds both.
    """
    first = tl.load(tiles + tl.program_id(0))
    split = tl.program_id(1)
    problem = tl.load(of + first)
    stop = tl.load(query_starts + problem + 1)
    begin, end = tl.load(column_starts + problem), tl.load(column_starts + problem + 1)
    count = (end - begin + splits - 1) // splits
    begin = tl.minimum(begin + split * count, end)
    end = tl.minimum(begin + count, end)
    rows = tl.minimum(first + tl.arange(0, ROWS), stop - 1)
    own = tl.load(home + rows)
    u0 = tl.load(query_extra + 3 * rows)
    u1 = tl.load(query_extra + 3 * rows + 1)
    stride = (end - begin + COLUMNS - 1) // COLUMNS
    lane = tl.arange(0, COLUMNS)
    depth = tl.arange(0, DEPTH)
    slot = tl.arange(0, K)
    best = tl.full((ROWS, K), float("-inf"), tl.float32)
    ids = tl.zeros((ROWS, K), tl.int64) + own[:, None]
    left = queries + rows[:, None] * d + depth[None, :]
    for t in range(stride):
        beyond = begin + lane * stride + t >= end
        cols = tl.minimum(begin + lane * stride + t, end - 1)
        right = columns + cols[None, :] * d + depth[:, None]
        scores = tl.zeros((ROWS, COLUMNS), tl.float32)
        for at in range(0, d, DEPTH):
            if EVEN:
                a = tl.load(left + at)
                b = tl.load(right + at)
            else:
                a = tl.load(left + at, (at + depth < d)[None, :], 0.0)
                b = tl.load(right + at, (at + depth < d)[:, None], 0.0)
            scores = tl.dot(a, b, scores, input_precision="ieee")
        v0 = tl.load(column_extra + 3 * cols)
        scores += u0[:, None] * v0[None, :] + tl.where(beyond, -3e38, 0.0)[None, :]
        if not PACKED:
            v1 = tl.load(column_extra + 3 * cols + 1)
            scores += u1[:, None] * v1[None, :]
        scores = tl.where(cols[None, :] == own[:, None], -3e38, scores)
        if PACKED:
            bits = scores.to(tl.int32, bitcast=True)
            bits = (bits & (-COLUMNS)) | lane[None, :]
            score = tl.max(bits.to(tl.float32, bitcast=True), axis=1)
            where = score.to(tl.int32, bitcast=True) & (COLUMNS - 1)
        else:
            score, where = tl.max(scores, axis=1, return_indices=True)
        col = tl.minimum(begin + where.to(tl.int64) * stride + t, end - 1)
        if K == 1:
            better = score[:, None] > best
            ids = tl.where(better, col[:, None], ids)
            best = tl.where(better, score[:, None], best)
        else:  # replace the worst of the K
            worst, place = tl.min(best, axis=1, return_indices=True)
            swap = (score > worst)[:, None] & (slot[None, :] == place[:, None])
            ids = tl.where(swap, col[:, None], ids)
            best = tl.where(swap, score[:, None], best)
    real = first + tl.arange(0, ROWS) < stop
    out = (rows[:, None] * splits + split) * K + slot[None, :]
    tl.store(best_out + out, best, real[:, None])
    tl.store(ids_out + out, ids, real[:, None])


def pair_products(left: Tensor, i: Tensor, right: Tensor, j: Tensor, signs: Tensor | None) -> Tensor:
    result = torch.empty(len(i), dtype=torch.float64, device=left.device)
    if len(i):
        d = left.shape[1]
        wide = min(128, triton.next_power_of_2(d))
        each = max(1, 512 // wide)
        _pair_products[(triton.cdiv(len(i), each),)](
            left, i, right, j, left if signs is None else signs, result, len(i), d,
            SIGNED=signs is not None, EACH=each, WIDE=wide, num_warps=4,
        )  # fmt: skip
    return result


@triton.jit(do_not_specialize=["n"])
def _pair_products(
    left, i, right, j, signs, result, n, d,
    SIGNED: tl.constexpr, EACH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    pair = tl.program_id(0).to(tl.int64) * EACH + tl.arange(0, EACH)
    there = tl.load(j + pair, pair < n, -1)
    real = there >= 0
    here = tl.load(i + pair, real, 0)
    total = _products(left, signs, right, here, tl.where(real, there, 0), real, d, SIGNED, EACH, WIDE)
    tl.store(result + pair, total, pair < n)


def group_sums(rows: Tensor, order: Tensor, starts: Tensor, largest: int) -> Tensor:
    """Sum pieces of groups, then the pieces of each group, so that many programs share a large group."""
    if largest <= _PIECE_ROWS:
        return _sum(rows, order, starts[:-1], starts[1:])
    sizes = starts.diff()
    groups = len(sizes)
    pieces = torch.zeros(groups + 1, dtype=torch.int64, device=rows.device)
    pieces[1:] = ((sizes + _PIECE_ROWS - 1) // _PIECE_ROWS).cumsum(0)
    most = min(len(order), groups + len(order) // _PIECE_ROWS)  # at least the number of pieces
    each = torch.arange(most, device=rows.device)
    group = (torch.searchsorted(pieces, each, right=True) - 1).clamp(max=groups - 1)
    begin = starts[group] + _PIECE_ROWS * (each - pieces[group])
    partial = _sum(rows, order, begin, torch.minimum(begin + _PIECE_ROWS, starts[group + 1]))
    return _sum(partial, each, pieces[:-1], pieces[1:])


def _sum(rows: Tensor, order: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    d = rows.shape[1]
    result = torch.empty(len(begin), d, dtype=torch.float64, device=rows.device)
    wide = min(256, triton.next_power_of_2(d))
    _group_sums[(len(begin), triton.cdiv(d, wide))](
        rows, order, begin, end, result, d, WIDE=wide, num_warps=2
    )
    return result


@triton.jit
def _group_sums(rows, order, begin, end, result, d, WIDE: tl.constexpr):
    group = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    several = tl.arange(0, 4)
    stop = tl.load(end + group)
    total = tl.zeros((4, WIDE), tl.float64)
    for at in range(tl.load(begin + group), stop, 4):
        real = at + several < stop
        row = tl.load(order + at + several, real, 0)
        mask = real[:, None] & (column < d)[None, :]
        total += tl.load(rows + row[:, None] * d + column[None, :], mask, 0.0).to(tl.float64)
    tl.store(result + group * d + column, tl.sum(total, axis=0), column < d)


def update_sums(sums: Tensor, rows: Tensor, order: Tensor, starts: Tensor) -> None:
    n, d = rows.shape
    wide = min(256, triton.next_power_of_2(d))
    _update_sums[(len(sums), triton.cdiv(d, wide))](sums, rows, order, starts, n, d, WIDE=wide, num_warps=2)


@triton.jit(do_not_specialize=["n"])
def _update_sums(totals, rows, order, starts, n, d, WIDE: tl.constexpr):
    group = tl.program_id(0).to(tl.int64)
    begin, stop = tl.load(starts + group), tl.load(starts + group + 1)
    if begin < stop:
        column = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
        several = tl.arange(0, 4)
        change = tl.zeros((4, WIDE), tl.float64)
        for at in range(begin, stop, 4):
            real = at + several < stop
            entry = tl.load(order + at + several, real, 0)
            row = tl.where(entry < n, entry, entry - n)
            mask = real[:, None] & (column < d)[None, :]
            x = tl.load(rows + row[:, None] * d + column[None, :], mask, 0.0).to(tl.float64)
            change += tl.where((entry < n)[:, None], -x, x)
        old = tl.load(totals + group * d + column, column < d, 0.0)
        tl.store(totals + group * d + column, old + tl.sum(change, axis=0), column < d)


def score_moves(
    items: ops.MoveInputs, sums: Tensor, extra: Tensor, labels: Tensor, score: Tensor, to: Tensor,
    state: ops.MoveState,
) -> ops.MoveScores:  # fmt: skip
    n, d = items.features.shape
    scores = ops.MoveScores(
        torch.empty_like(labels),
        torch.empty_like(items.own_costs),
        torch.empty_like(items.own_costs),
        torch.empty(n, dtype=torch.bool, device=labels.device),
    )
    wide = min(128, triton.next_power_of_2(d))
    each = max(1, 512 // wide)
    _score_moves[(triton.cdiv(n, each),)](
        items.features, sums if items.signs is None else items.signs, items.last_a, items.own_costs,
        items.magnitudes, items.problem_of, items.number, sums, extra, labels, score, to,
        state.step, state.share, state.min_gain, *scores, n, d,
        ROUNDING_=ops.GAIN_ROUNDING, SIGNED=items.signs is not None, EACH=each, WIDE=wide, num_warps=4,
    )  # fmt: skip
    return scores


@triton.jit(do_not_specialize=["n"])
def _score_moves(
    features, signs, last_a, own, magnitudes, of, number, sums, extra, labels, score, to,
    step, share, min_gain, to_out, gains_out, required_out, chosen_out, n, d,
    ROUNDING_: tl.constexpr, SIGNED: tl.constexpr, EACH: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * EACH + tl.arange(0, EACH)
    real = i < n
    home, there = tl.load(labels + i, real, 0), tl.load(to + i, real, 0)
    problem = tl.load(of + i, real, 0)
    last = tl.load(last_a + i, real, 0.0)
    rounding = ROUNDING_ * tl.load(magnitudes + i, real, 0.0) * tl.load(extra + 3 * home + 1, real, 0.0)
    rounding += tl.load(min_gain + problem, real, 0.0)
    total = _products(features, signs, sums, i, home, real, d, SIGNED, EACH, WIDE)
    required = total + last * tl.load(extra + 3 * home, real, 0.0) - tl.load(own + i, real, 0.0) + rounding
    evaluated = real & (tl.load(score + i, real, 0.0) > required)
    total = _products(features, signs, sums, i, there, evaluated, d, SIGNED, EACH, WIDE)
    cost = tl.where(evaluated, total + last * tl.load(extra + 3 * there, evaluated, 0.0), 0.0)
    gains = tl.maximum(cost, 0.0) - required
    x = (tl.load(number + i, real, 0) * 0x9E3779B1 + tl.load(step) * 0x85EBCA77) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    x = ((x ^ (x >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    hashed = (x ^ (x >> 15)).to(tl.float64) / 4294967296.0
    chosen = (gains > 0) & (hashed < tl.load(share + problem, real, 0.0))
    tl.store(to_out + i, tl.where(cost > 0, there, -1), real)
    tl.store(gains_out + i, gains, real)
    tl.store(required_out + i, required, real)
    tl.store(chosen_out + i, chosen, real)


@triton.jit
def _products(
    features, signs, sums, i, j, real, d, SIGNED: tl.constexpr, EACH: tl.constexpr, WIDE: tl.constexpr
):
    total = tl.zeros((EACH, WIDE), tl.float64)
    for at in range(0, d, WIDE):
        column = at + tl.arange(0, WIDE)
        mask = real[:, None] & (column < d)[None, :]
        x = tl.load(features + i[:, None] * d + column[None, :], mask, 0.0).to(tl.float64)
        y = tl.load(sums + j[:, None] * d + column[None, :], mask, 0.0).to(tl.float64)
        if SIGNED:
            x = x * tl.load(signs + column, column < d, 0.0)[None, :]
        total += x * y
    return tl.sum(total, axis=1)


def cluster_own_costs(sums: Tensor, extra: Tensor, lasts: Tensor, signs: Tensor | None) -> Tensor:
    count, d = sums.shape
    own = torch.empty(count, dtype=torch.float64, device=sums.device)
    wide = min(512, triton.next_power_of_2(d))
    _cluster_own_costs[(count,)](
        sums, extra, lasts, sums if signs is None else signs, own, d, lasts.stride(0),
        SIGNED=signs is not None, WIDE=wide, num_warps=2,
    )  # fmt: skip
    return own


@triton.jit
def _cluster_own_costs(sums, extra, lasts, signs, own, d, stride, SIGNED: tl.constexpr, WIDE: tl.constexpr):
    group = tl.program_id(0).to(tl.int64)
    used = tl.load(extra + 3 * group + 2) > 0
    total = tl.zeros((WIDE,), tl.float64)
    for at in range(0, d, WIDE):
        column = at + tl.arange(0, WIDE)
        x = tl.load(sums + group * d + column, (column < d) & used, 0.0)
        tl.store(sums + group * d + column, x, (column < d) & (used == 0))
        if SIGNED:
            total += x * x * tl.load(signs + column, column < d, 0.0)
        else:
            total += x * x
    a = tl.where(used, tl.load(extra + 3 * group), 0.0)
    tl.store(own + group, tl.sum(total, axis=0) + tl.load(lasts + group * stride) * a * a)
    tl.store(extra + 3 * group, 0.0, used == 0)
    tl.store(extra + 3 * group + 1, 0.0, used == 0)
