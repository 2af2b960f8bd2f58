"""Operations on whole tensor problems: products, costs, sums, and the bookkeeping of synchronous moves.

On a GPU they are Triton kernels (`kernels.py`, `label_kernels.py`); on CPU tensors they are plain torch,
which defines what they compute. Each returns the same bits in every run.
"""

from importlib import import_module
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

#: A gain counts only above this share of the largest cost that the item could have to the two clusters.
GAIN_ROUNDING = 1e-13
#: Factor by which the share of items that may move grows after an accepted step, and its minimum.
SHARE_GROWTH, MIN_SHARE = 1.25, 0.05

_BLOCK_ENTRIES = 1 << 24  # of a block on CPU tensors


class ProductRows(NamedTuple):
    """Operands of products: features, and three extra columns in float32.

    Rows of one problem are contiguous; there are no products of rows of different problems.
    """

    features: Tensor  # (n, d)
    extra: Tensor  # (n, 3) float32
    starts: Tensor  # (problems + 1,) int64


class Tiles(NamedTuple):
    """Ranges of at most `size` rows of one problem, by their first rows."""

    first: Tensor  # (tiles,) int64
    size: int


def top_products(
    queries: ProductRows,
    candidates: ProductRows,
    home: Tensor,
    problem_of: Tensor,
    tiles: Tiles,
    k: int = 1,
) -> tuple[Tensor, Tensor]:
    """Return products and numbers of about the k candidates with the largest products with each query.

    The candidate `home` of a query is left out. Products are <f, g> in the precision of the features plus
    the products of the extra columns in float32, largest first. The first one is the maximum (in bfloat16:
    up to its rounding); of the others a GPU may miss one that shares a tile with a larger one. Where a
    problem has fewer than k candidates, the remaining products are below -1e38.
    """
    if queries.features.is_cuda:
        return _kernels().top_products(queries, candidates, home, problem_of, tiles, k)
    n = len(queries.features)
    best = torch.full((n, k), -torch.inf, dtype=torch.float32)
    ids = home[:, None].repeat(1, k)
    rows, cols = queries.starts.tolist(), candidates.starts.tolist()
    for p in torch.unique(problem_of[tiles.first]).tolist():
        width = cols[p + 1] - cols[p]
        own = slice(cols[p], cols[p + 1])
        others, extra = candidates.features[own].T, candidates.extra[own].T
        for part in _blocks(rows[p], rows[p + 1], width):
            scores = queries.features[part].float() @ others.float() + queries.extra[part] @ extra
            scores.scatter_(1, home[part, None] - cols[p], -torch.inf)
            found, where = scores.topk(min(k, width))
            some = slice(0, found.shape[1])
            best[part, some] = found
            ids[part, some] = torch.where(found > -torch.inf, where + cols[p], ids[part, some])
    return best, ids


def pair_products(left: Tensor, i: Tensor, right: Tensor, j: Tensor, signs: Tensor | None) -> Tensor:
    """Return <left[i], right[j]> in float64 for every pair (i, j), with signs of the columns if given.

    The product of a pair with j = -1 is 0.
    """
    if left.is_cuda:
        return _kernels().pair_products(left, i, right, j, signs)
    result = torch.zeros(len(i), dtype=torch.float64)
    for part in _blocks(0, len(i), left.shape[1]):
        products = left[i[part]].double() * right[j[part]].double()
        total = products.sum(1) if signs is None else products @ signs
        result[part] = torch.where(j[part] >= 0, total, 0.0)
    return result


def group_sums(rows: Tensor, order: Tensor, starts: Tensor, largest: int) -> Tensor:
    """Return float64 sums of the rows order[starts[g]:starts[g + 1]] of every group g.

    `largest` is the number of rows of the largest group, or more.
    """
    if rows.is_cuda:
        return _kernels().group_sums(rows, order, starts, largest)
    result = torch.zeros(len(starts) - 1, rows.shape[1], dtype=torch.float64)
    group = torch.repeat_interleave(torch.arange(len(starts) - 1), starts.diff())
    for part in _blocks(0, len(order), rows.shape[1]):
        result.index_add_(0, group[part], rows[order[part]].double())
    return result


def matching(i: Tensor, j: Tensor, costs: Tensor, n: int, rounds: int) -> tuple[Tensor, Tensor]:
    """Match nodes along pairs (i, j) of positive cost, largest cost first.

    In every round the pairs that are the best remaining ones at both of their ends are taken. Returns the
    group of every node (the first node of its pair, or itself), and whether a node is unmatched.
    """
    rank = torch.empty_like(i)
    rank[torch.argsort(costs, descending=True, stable=True)] = torch.arange(len(i), device=i.device)
    group = torch.arange(n, device=i.device)
    single = torch.ones(n, dtype=torch.bool, device=i.device)
    if i.is_cuda:
        _kernels("label_kernels").match(i, j, costs, rank, group, single, rounds)
        return group, single
    for _ in range(rounds):
        open = (costs > 0) & single[i] & single[j]
        i, j, costs, rank = i[open], j[open], costs[open], rank[open]
        best = torch.full((n,), 2**62)
        best.scatter_reduce_(0, i, rank, "amin").scatter_reduce_(0, j, rank, "amin")
        taken = (best[i] == rank) & (best[j] == rank)
        group[j[taken]] = i[taken]
        single[i[taken]] = single[j[taken]] = False
    return group, single


def update_sums(sums: Tensor, rows: Tensor, order: Tensor, starts: Tensor) -> None:
    """Add rows to float64 sums of groups and subtract rows from them, in place.

    order[starts[g]:starts[g + 1]] are the changes of group g: i < len(rows) subtracts row i,
    i + len(rows) adds it. Entries after the last group are ignored.
    """
    if rows.is_cuda:
        _kernels().update_sums(sums, rows, order, starts)
        return
    order = order[: int(starts[-1])]
    group = torch.repeat_interleave(torch.arange(len(sums)), starts.diff())
    for part in _blocks(0, len(order), rows.shape[1]):
        sign = torch.where(order[part] < len(rows), -1.0, 1.0)
        sums.index_add_(0, group[part], rows[order[part] % len(rows)].double() * sign[:, None])


class MoveInputs(NamedTuple):
    """What the gain of moving an item depends on, apart from the clusters; one entry per item."""

    features: Tensor  # (n, d)
    signs: Tensor | None
    last_a: Tensor  # float64, `last` of the problem times a
    own_costs: Tensor  # float64
    magnitudes: Tensor  # float64
    problem_of: Tensor
    number: Tensor  # of the item in its problem


class MoveScores(NamedTuple):
    """The best known move of every item."""

    to: Tensor  # the cluster to move to, or -1 for a new singleton
    gains: Tensor  # float64, less what may be rounding; the move improves if this is positive
    required: Tensor  # float64, cost to another cluster from which on a move there improves
    chosen: Tensor  # whether the move improves and the item's hash is below the share of its problem


class MoveState(NamedTuple):
    """State of a series of steps, changed in place; one entry per problem, except `step`."""

    inside: Tensor  # float64
    share: Tensor  # float64, of the items with an improving move that move in the next step
    single: Tensor  # bool: the last step was undone, so the next one is the best single move
    min_gain: Tensor  # float64, a smaller gain would be lost in the rounding of the objective
    step: Tensor  # (1,) int64


def score_moves(
    items: MoveInputs, sums: Tensor, extra: Tensor, labels: Tensor, score: Tensor, to: Tensor,
    state: MoveState,
) -> MoveScores:  # fmt: skip
    """Return what every item gains, in float64, by moving to its candidate cluster `to`, or alone.

    `sums` are the clusters' sums of features, `extra` those of a, magnitudes and ones. A candidate whose
    approximate `score` does not exceed the required cost is not evaluated.
    """
    if score.is_cuda:
        return _kernels().score_moves(items, sums, extra, labels, score, to, state)
    everything = torch.arange(len(labels))

    def costs(cluster: Tensor) -> Tensor:
        products = pair_products(items.features, everything, sums, cluster, items.signs)
        return torch.where(cluster >= 0, products + items.last_a * extra[cluster, 0], 0.0)

    rounding = GAIN_ROUNDING * items.magnitudes * extra[labels, 1] + state.min_gain[items.problem_of]
    required = costs(labels) - items.own_costs + rounding
    cost = costs(torch.where(score > required, to, -1))
    gains = cost.clamp(min=0.0) - required
    chosen = (gains > 0) & (hash_uniform(items.number, state.step) < state.share[items.problem_of])
    return MoveScores(torch.where(cost > 0, to, -1), gains, required, chosen)


class ClusterSlots(NamedTuple):
    """Slots of clusters, and the range begin..end of slots of every item's problem."""

    sizes: Tensor  # (slots,) float64, items in each
    unused_first: Tensor  # (slots,) numbers of slots: in the range of every problem its unused ones first
    first: Tensor  # (n,) the first item of the problem
    begin: Tensor  # (n,)
    end: Tensor  # (n,)


def assign_slots(chosen: Tensor, to: Tensor, labels: Tensor, slots: ClusterSlots) -> tuple[Tensor, Tensor]:
    """Return the labels after moving the chosen items, and the slots that change.

    An item that moves to -1 gets an unused slot of its problem, or stays if there is none. The second
    result holds for all items the slots that they leave, then those that they enter; for items that stay
    it is the number of slots.
    """
    alone = chosen & (to < 0)
    so_far = alone.cumsum(0)
    if chosen.is_cuda:
        return _kernels("label_kernels").assign_slots(chosen, to, labels, so_far, slots)
    so_far -= alone.long()
    place = slots.begin + so_far - so_far[slots.first]
    slot = slots.unused_first[place.clamp(max=len(slots.sizes) - 1)]
    there = (place < slots.end) & (slots.sizes[slot] == 0)
    new = torch.where(alone, torch.where(there, slot, labels), torch.where(chosen, to, labels))
    touched = torch.where(new == labels, len(slots.sizes), torch.stack([labels, new]))
    return new, touched.int().reshape(-1)


def hash_uniform(items: Tensor, seed: Tensor) -> Tensor:
    """Return a pseudo-random number in [0, 1) for each item."""
    x = (items * 0x9E3779B1 + seed * 0x85EBCA77) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x2C1B3C6D) & 0xFFFFFFFF
    x = ((x ^ (x >> 12)) * 0x297A2D39) & 0xFFFFFFFF
    return (x ^ (x >> 15)).double() / 2**32


def cluster_own_costs(sums: Tensor, extra: Tensor, lasts: Tensor, signs: Tensor | None) -> Tensor:
    """Return the cost of every cluster to itself; sums of empty clusters are set to 0 exactly, in place."""
    if sums.is_cuda:
        return _kernels().cluster_own_costs(sums, extra, lasts, signs)
    used = extra[:, 2:] > 0
    sums *= used
    extra *= used
    each = torch.arange(len(sums))
    return torch.addcmul(pair_products(sums, each, sums, each, signs), lasts * extra[:, 0], extra[:, 0])


def accept_steps(state: MoveState, inside: Tensor) -> Tensor:
    """Return per problem whether a step improved it, by `inside` after the step, and update the state."""
    if inside.is_cuda:
        return _kernels("label_kernels").accept_steps(state, inside)
    improved = inside > state.inside + state.min_gain
    torch.where(improved, inside, state.inside, out=state.inside)
    share = torch.where(improved, SHARE_GROWTH * state.share, state.share / 2)
    torch.clamp(share, MIN_SHARE, 1.0, out=state.share)
    torch.logical_not(improved, out=state.single)
    state.step.add_(1)
    return improved


def problem_sums(values: Tensor, starts: Tensor) -> Tensor:
    """Return the sum of float64 values[starts[p]:starts[p + 1]] of every problem p."""
    if len(starts) == 2:
        return values.sum().reshape(1)
    if values.is_cuda:
        return _kernels("label_kernels").problem_sums(values, starts)
    return torch.stack([part.sum() for part in torch.split(values, starts.diff().tolist())])


def problem_argmax(values: Tensor, starts: Tensor) -> Tensor:
    """Return the position of the first maximum of values[starts[p]:starts[p + 1]] of every problem p."""
    if len(starts) == 2:
        return values.argmax().reshape(1)
    if values.is_cuda:
        return _kernels("label_kernels").problem_argmax(values, starts)
    parts = torch.split(values, starts.diff().tolist())
    return starts[:-1] + torch.stack([part.argmax() for part in parts])


def concatenated(parts: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """Return the parts one after the other; a single one is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _blocks(start: int, stop: int, width: int) -> list[slice]:
    step = max(1, _BLOCK_ENTRIES // width)
    return [slice(at, min(at + step, stop)) for at in range(start, stop, step)]


def _kernels(name: str = "kernels") -> ModuleType:
    return import_module(f"clusterfug.execution.torch.{name}")
