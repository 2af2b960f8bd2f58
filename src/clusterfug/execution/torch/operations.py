"""What a device does to whole problems: products, costs and sums, and the small work of a step around them.

On a GPU they are Triton kernels (`kernels.py`, `label_kernels.py`); on CPU tensors they are plain torch,
which says what they mean. Each gives the same bits every time.
"""

from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

#: A gain counts if it is larger than this times the most that the item could cost to the two clusters.
ROUNDING = 1e-13
#: The share of those who want to move and may grows with every good step, and is never below the least.
GROWS, LEAST = 1.25, 0.05

_NUMBERS = 1 << 24  # of one block on CPU tensors


class Rows(NamedTuple):
    """Rows that meet in products: features, and three more columns that are kept in float32.

    Rows of one problem are contiguous; rows of different problems never meet.
    """

    features: Tensor  # (n, d)
    more: Tensor  # (n, 3) float32
    starts: Tensor  # (problems + 1,) int64


class Tiles(NamedTuple):
    """Stretches of at most `size` rows of one problem, by their first rows."""

    first: Tensor  # (tiles,) int64
    size: int


def nominate(
    queries: Rows, columns: Rows, home: Tensor, of: Tensor, tiles: Tiles, k: int = 1
) -> tuple[Tensor, Tensor]:
    """About the k columns of the largest product with each query, but for its home: products and ids.

    Products are <f, g> in the features' precision plus <more, more> in float32, largest first. The first
    is the largest of all (in bfloat16: up to its rounding); of the others a GPU may miss one that shares a
    tile with a larger one. Where a problem has fewer columns the rest is below -1e38.
    """
    if queries.features.is_cuda:
        return _kernels().nominate(queries, columns, home, of, tiles, k)
    n = len(queries.features)
    best = torch.full((n, k), -torch.inf, dtype=torch.float32)
    ids = home[:, None].repeat(1, k)
    rows, cols = queries.starts.tolist(), columns.starts.tolist()
    for p in torch.unique(of[tiles.first]).tolist():
        width = cols[p + 1] - cols[p]
        others, more = columns.features[cols[p] : cols[p + 1]].T, columns.more[cols[p] : cols[p + 1]].T
        for part in _parts(rows[p], rows[p + 1], width):
            scores = queries.features[part].float() @ others.float() + queries.more[part] @ more
            scores.scatter_(1, home[part, None] - cols[p], -torch.inf)
            found, where = scores.topk(min(k, width))
            some = slice(0, found.shape[1])
            best[part, some] = found
            ids[part, some] = torch.where(found > -torch.inf, where + cols[p], ids[part, some])
    return best, ids


def dots(left: Tensor, i: Tensor, right: Tensor, j: Tensor, signs: Tensor | None) -> Tensor:
    """<left[i], right[j]> in float64 for every pair (i, j), with signs of the columns if there are any.

    A pair with j = -1 is left out: 0.
    """
    if left.is_cuda:
        return _kernels().dots(left, i, right, j, signs)
    result = torch.zeros(len(i), dtype=torch.float64)
    for part in _parts(0, len(i), left.shape[1]):
        products = left[i[part]].double() * right[j[part]].double()
        total = products.sum(1) if signs is None else products @ signs
        result[part] = torch.where(j[part] >= 0, total, 0.0)
    return result


def sums(rows: Tensor, order: Tensor, starts: Tensor, most: int) -> Tensor:
    """float64 sums of the rows order[starts[g]:starts[g + 1]] of every group g; of at most so many rows."""
    if rows.is_cuda:
        return _kernels().sums(rows, order, starts, most)
    result = torch.zeros(len(starts) - 1, rows.shape[1], dtype=torch.float64)
    group = torch.repeat_interleave(torch.arange(len(starts) - 1), starts.diff())
    for part in _parts(0, len(order), rows.shape[1]):
        result.index_add_(0, group[part], rows[order[part]].double())
    return result


def matching(i: Tensor, j: Tensor, costs: Tensor, n: int, tries: int) -> tuple[Tensor, Tensor]:
    """Pairs of nodes with a cost above 0, the largest first, so that every node is in one pair at most.

    A pair is taken if it is the best that is left at both of its ends; that is tried a few times. Returns a
    name of the pair of every node (its own number if it has none), and who has none.
    """
    rank = torch.empty_like(i)
    rank[torch.argsort(costs, descending=True, stable=True)] = torch.arange(len(i), device=i.device)
    group = torch.arange(n, device=i.device)
    single = torch.ones(n, dtype=torch.bool, device=i.device)
    if i.is_cuda:
        _label_kernels().match(i, j, costs, rank, group, single, tries)
        return group, single
    for _ in range(tries):
        open = (costs > 0) & single[i] & single[j]
        i, j, costs, rank = i[open], j[open], costs[open], rank[open]
        best = torch.full((n,), 2**62)
        best.scatter_reduce_(0, i, rank, "amin").scatter_reduce_(0, j, rank, "amin")
        taken = (best[i] == rank) & (best[j] == rank)
        group[j[taken]] = i[taken]
        single[i[taken]] = single[j[taken]] = False
    return group, single


def adjust(totals: Tensor, rows: Tensor, order: Tensor, starts: Tensor) -> None:
    """Change float64 totals in place: rows come to them and rows go.

    order[starts[g]:starts[g + 1]] are those of group g: i < len(rows) for a row that goes, i + len(rows)
    for one that comes; what is after the last group counts nowhere.
    """
    if rows.is_cuda:
        _kernels().adjust(totals, rows, order, starts)
        return
    order = order[: int(starts[-1])]
    group = torch.repeat_interleave(torch.arange(len(totals)), starts.diff())
    for part in _parts(0, len(order), rows.shape[1]):
        sign = torch.where(order[part] < len(rows), -1.0, 1.0)
        totals.index_add_(0, group[part], rows[order[part] % len(rows)].double() * sign[:, None])


class Ask(NamedTuple):
    """What a step of synchronous moves asks every item: who it is, and what may decide."""

    features: Tensor  # (n, d)
    signs: Tensor | None
    last_a: Tensor  # (n,) float64, last of the problem times a; as are the next two
    own: Tensor
    magnitudes: Tensor
    of: Tensor  # (n,) the problem
    number: Tensor  # (n,) of the item in its problem


class Answer(NamedTuple):
    """What every item would do."""

    to: Tensor  # the cluster to go to, or -1: alone
    gains: Tensor  # float64, less what may be rounding; it wants to move if this is above 0
    least: Tensor  # float64, what a cluster has to offer at least
    chosen: Tensor  # whether it moves: it wants to, and its hash is below the share of its problem


class Course(NamedTuple):
    """Where a series of steps stands, per problem: changed in place."""

    inside: Tensor  # (problems,) float64
    share: Tensor  # (problems,) float64, of those who want to move
    careful: Tensor  # (problems,) bool: the last step was taken back
    tiny: Tensor  # (problems,) float64, a gain that would not show in the objective
    turn: Tensor  # (1,) int64


def decide(
    ask: Ask, sums: Tensor, more: Tensor, labels: Tensor, score: Tensor, to: Tensor,
    course: Course,
) -> Answer:  # fmt: skip
    """What every item gains, in float64, by moving to the cluster that was nominated, or alone.

    sums are those of the features of the clusters, more those of a, of the magnitudes and of ones.
    """
    if score.is_cuda:
        return _kernels().decide(ask, sums, more, labels, score, to, course)
    items = torch.arange(len(labels))

    def costs(cluster: Tensor) -> Tensor:
        products = dots(ask.features, items, sums, cluster, ask.signs)
        return torch.where(cluster >= 0, products + ask.last_a * more[cluster, 0], 0.0)

    rounding = ROUNDING * ask.magnitudes * more[labels, 1] + course.tiny[ask.of]
    least = costs(labels) - ask.own + rounding
    cost = costs(torch.where(score > least, to, -1))
    gains = cost.clamp(min=0.0) - least
    chosen = (gains > 0) & (hashed(ask.number, course.turn) < course.share[ask.of])
    return Answer(torch.where(cost > 0, to, -1), gains, least, chosen)


class Slots(NamedTuple):
    """Slots of clusters, and those of every item's problem: from begin to end."""

    sizes: Tensor  # (slots,) float64, items in each
    unused_first: Tensor  # (slots,) those of every problem in its stretch, the unused ones first
    first: Tensor  # (n,) the first item of the problem
    begin: Tensor  # (n,)
    end: Tensor  # (n,)


def route(chosen: Tensor, to: Tensor, labels: Tensor, slots: Slots) -> tuple[Tensor, Tensor]:
    """New labels: of the chosen items those they go to, with an unused slot for each that goes alone (-1).

    Who finds none stays. Also the slots that are touched, for all items those that they leave, then those
    that they come to; the number of slots for who stays.
    """
    alone = chosen & (to < 0)
    so_far = alone.cumsum(0)
    if chosen.is_cuda:
        return _label_kernels().route(chosen, to, labels, so_far, slots)
    so_far -= alone.long()
    place = slots.begin + so_far - so_far[slots.first]
    slot = slots.unused_first[place.clamp(max=len(slots.sizes) - 1)]
    there = (place < slots.end) & (slots.sizes[slot] == 0)
    new = torch.where(alone, torch.where(there, slot, labels), torch.where(chosen, to, labels))
    touched = torch.where(new == labels, len(slots.sizes), torch.stack([labels, new]))
    return new, touched.int().reshape(-1)


def hashed(items: Tensor, turn: Tensor) -> Tensor:
    """A number in [0, 1) for each item that looks random."""
    x = (items * 0x9E3779B1 + turn * 0x85EBCA77) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    x = ((x ^ (x >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    return (x ^ (x >> 15)).double() / 2**32


def settle(sums: Tensor, more: Tensor, lasts: Tensor, signs: Tensor | None) -> Tensor:
    """What every cluster costs to itself; of one without items nothing is left, not even rounding."""
    if sums.is_cuda:
        return _kernels().settle(sums, more, lasts, signs)
    used = more[:, 2:] > 0
    sums *= used
    more *= used
    each = torch.arange(len(sums))
    return torch.addcmul(dots(sums, each, sums, each, signs), lasts * more[:, 0], more[:, 0])


def judge(course: Course, inside: Tensor) -> Tensor:
    """Whether a step is good, by what is inside after it; the course goes on accordingly."""
    if inside.is_cuda:
        return _label_kernels().judge(course, inside)
    good = inside > course.inside
    torch.where(good, inside, course.inside, out=course.inside)
    torch.where(good, GROWS * course.share, course.share / 2, out=course.share).clamp_(LEAST, 1.0)
    torch.logical_not(good, out=course.careful)
    course.turn.add_(1)
    return good


def totals(values: Tensor, starts: Tensor) -> Tensor:
    """Sums of float64 values[starts[p]:starts[p + 1]] of every problem p."""
    if len(starts) == 2:
        return values.sum().reshape(1)
    if values.is_cuda:
        return _label_kernels().totals(values, starts)
    return torch.stack([part.sum() for part in torch.split(values, starts.diff().tolist())])


def largest(values: Tensor, starts: Tensor) -> Tensor:
    """Where the largest of values[starts[p]:starts[p + 1]] of every problem p is; the first of equals."""
    if len(starts) == 2:
        return values.argmax().reshape(1)
    if values.is_cuda:
        return _label_kernels().largest(values, starts)
    parts = torch.split(values, starts.diff().tolist())
    return starts[:-1] + torch.stack([part.argmax() for part in parts])


def _parts(start: int, stop: int, width: int) -> list[slice]:
    step = max(1, _NUMBERS // width)
    return [slice(at, min(at + step, stop)) for at in range(start, stop, step)]


def _kernels() -> ModuleType:
    from clusterfug.execution.torch import kernels

    return kernels


def _label_kernels() -> ModuleType:
    from clusterfug.execution.torch import label_kernels

    return label_kernels
