"""Triton kernels for the operations of `operations.py` on labels, pairs and values."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from clusterfug.execution.torch.operations import MIN_SHARE, SHARE_GROWTH, ClusterSlots, MoveState


def match(
    i: Tensor, j: Tensor, costs: Tensor, rank: Tensor, group: Tensor, single: Tensor, rounds: int
) -> None:
    if not len(i):
        return
    best = torch.full_like(group, 2**62)
    grid = (triton.cdiv(len(i), 256),)
    for turn in range(rounds):  # ranks fall from round to round, so the minima need no reset
        down = (turn + 1) * len(i)
        _bid[grid](i, j, costs, rank, single, best, len(i), down, WIDE=256, num_warps=4)
        _take[grid](i, j, costs, rank, single, best, group, len(i), down, WIDE=256, num_warps=4)


@triton.jit(do_not_specialize=["n", "down"])
def _bid(i, j, costs, rank, single, best, n, down, WIDE: tl.constexpr):
    """Lower the best rank at both ends of every remaining pair."""
    e = tl.program_id(0).to(tl.int64) * WIDE + tl.arange(0, WIDE)
    real = e < n
    a, b = tl.load(i + e, real, 0), tl.load(j + e, real, 0)
    left = real & (tl.load(costs + e, real, 0.0) > 0)
    left = left & tl.load(single + a, real, 0) & tl.load(single + b, real, 0)
    number = tl.load(rank + e, real, 0) - down
    tl.atomic_min(best + a, number, left)
    tl.atomic_min(best + b, number, left)


@triton.jit(do_not_specialize=["n", "down"])
def _take(i, j, costs, rank, single, best, group, n, down, WIDE: tl.constexpr):
    """Take the pairs that are the best ones at both of their ends."""
    e = tl.program_id(0).to(tl.int64) * WIDE + tl.arange(0, WIDE)
    real = (e < n) & (tl.load(costs + e, e < n, 0.0) > 0)
    a, b = tl.load(i + e, real, 0), tl.load(j + e, real, 0)
    number = tl.load(rank + e, real, 0) - down
    taken = real & (tl.load(best + a, real, 0) == number) & (tl.load(best + b, real, 0) == number)
    tl.store(group + b, a, taken)
    tl.store(single + a, tl.zeros_like(taken), taken)
    tl.store(single + b, tl.zeros_like(taken), taken)


def assign_slots(
    chosen: Tensor, to: Tensor, labels: Tensor, so_far: Tensor, slots: ClusterSlots
) -> tuple[Tensor, Tensor]:
    n = len(labels)
    new = torch.empty_like(labels)
    touched = torch.empty(2 * n, dtype=torch.int32, device=labels.device)
    _assign_slots[(triton.cdiv(n, 512),)](
        chosen, to, labels, so_far, *slots, new, touched, n, len(slots.sizes), WIDE=512, num_warps=4
    )
    return new, touched


@triton.jit(do_not_specialize=["n", "count"])
def _assign_slots(
    chosen, to, labels, so_far, sizes, unused_first, first, begin, end, new_out, touched, n, count,
    WIDE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * WIDE + tl.arange(0, WIDE)
    real = i < n
    home = tl.load(labels + i, real, 0)
    goes, there = tl.load(chosen + i, real, 0), tl.load(to + i, real, 0)
    alone = goes & (there < 0)
    start = tl.load(first + i, alone, 0)
    before = tl.load(so_far + start, alone, 0)
    before -= (tl.load(chosen + start, alone, 0) & (tl.load(to + start, alone, 0) < 0)).to(tl.int64)
    place = tl.load(begin + i, alone, 0) + tl.load(so_far + i, alone, 0) - 1 - before
    found = alone & (place < tl.load(end + i, alone, 0))
    slot = tl.load(unused_first + place, found, 0)
    found &= tl.load(sizes + slot, found, 1) == 0
    new = tl.where(alone, tl.where(found, slot, home), tl.where(goes, there, home))
    stays = new == home
    tl.store(new_out + i, new, real)
    tl.store(touched + i, tl.where(stays, count, home).to(tl.int32), real)
    tl.store(touched + n + i, tl.where(stays, count, new).to(tl.int32), real)


def problem_sums(values: Tensor, starts: Tensor) -> Tensor:
    result = torch.empty(len(starts) - 1, dtype=torch.float64, device=values.device)
    _problem_sums[(len(result),)](values, starts, result, WIDE=1024, num_warps=4)
    return result


@triton.jit
def _problem_sums(values, starts, result, WIDE: tl.constexpr):
    problem = tl.program_id(0)
    stop = tl.load(starts + problem + 1)
    lane = tl.arange(0, WIDE)
    total = tl.zeros((WIDE,), tl.float64)
    for at in range(tl.load(starts + problem), stop, WIDE):
        total += tl.load(values + at + lane, at + lane < stop, 0.0)
    tl.store(result + problem, tl.sum(total, axis=0))


def problem_argmax(values: Tensor, starts: Tensor) -> Tensor:
    result = torch.empty(len(starts) - 1, dtype=torch.int64, device=values.device)
    _problem_argmax[(len(result),)](values, starts, result, WIDE=1024, num_warps=4)
    return result


@triton.jit
def _problem_argmax(values, starts, result, WIDE: tl.constexpr):
    problem = tl.program_id(0)
    begin, stop = tl.load(starts + problem), tl.load(starts + problem + 1)
    lane = tl.arange(0, WIDE)
    best = tl.full((WIDE,), float("-inf"), tl.float64)
    where = tl.zeros((WIDE,), tl.int64) + begin
    for at in range(begin, stop, WIDE):
        x = tl.load(values + at + lane, at + lane < stop, float("-inf"))
        where = tl.where(x > best, at + lane, where)
        best = tl.maximum(x, best)
    top = tl.max(best, axis=0)
    tl.store(result + problem, tl.min(tl.where(best == top, where, stop), axis=0))


def accept_steps(state: MoveState, inside: Tensor) -> Tensor:
    improved = torch.empty_like(state.single)
    _accept_steps[(triton.cdiv(len(inside), 128),)](
        inside, *state, improved, len(inside),
        GROWS_=SHARE_GROWTH, LEAST_=MIN_SHARE, WIDE=128, num_warps=1,
    )  # fmt: skip
    return improved


@triton.jit(do_not_specialize=["n"])
def _accept_steps(
    inside_after, inside, share, single, min_gain, step, improved, n,
    GROWS_: tl.constexpr, LEAST_: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    p = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    real = p < n
    after, before = tl.load(inside_after + p, real, 0.0), tl.load(inside + p, real, 0.0)
    rises = after > before + tl.load(min_gain + p, real, 0.0)
    part = tl.load(share + p, real, 0.0)
    part = tl.minimum(tl.maximum(tl.where(rises, GROWS_ * part, part / 2), LEAST_), 1.0)
    tl.store(inside + p, tl.where(rises, after, before), real)
    tl.store(share + p, part, real)
    tl.store(single + p, rises == 0, real)
    tl.store(improved + p, rises, real)
    tl.store(step, tl.load(step) + 1, tl.program_id(0) == 0)
