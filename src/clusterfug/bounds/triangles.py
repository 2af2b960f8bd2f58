"""The bound of packed triangles: pack, let messages pass, pack again.

Items of a large problem are dealt out to groups of similar ones, and only triangles within groups are
packed: they touch no pair of another group, so the triangles of all groups together are a certificate.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from clusterfug.bounds.ascent import ascend, messages
from clusterfug.bounds.certificate import Certificate
from clusterfug.bounds.cycles import CyclePacker
from clusterfug.bounds.groups import groups_of
from clusterfug.bounds.packing import Packer
from clusterfug.execution.jit import Progress
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.graph import GraphProblem
from clusterfug.refinement.budget import Budget

#: Bytes for the costs of a group unless told otherwise: 8,192 items.
MEMORY_LIMIT = 2**30
_PER_PAIR = 16  # bytes: cost and number, and as much again for triangles
_TRIANGLES, _PER_ITEM = 4_000_000, 200  # packed at most
_LITTLE = 1e-3  # so many rounds that gain less than this share of all together are the last
_PATIENCE = 4

Packed = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]  # pairs, triangles, amounts


class Packing(Protocol):
    """Triangles packed so far; see `packing.Packer`."""

    pairs: NDArray[np.int32]
    costs: NDArray[Any]
    triangles: NDArray[np.int32]
    amounts: NDArray[Any]
    attraction: float
    unit: float

    def pack(self, over: Callable[[], bool]) -> float: ...
    def settle(self, residual: NDArray[Any]) -> None: ...


def pack_features(
    problem: DenseProblem, memory_limit: int | None, time_limit: float | None, progress: Progress | None
) -> Certificate:
    """Triangles packed within groups of similar items; each group has its share of the time."""
    most = max(2, int(((memory_limit or MEMORY_LIMIT) / _PER_PAIR) ** 0.5))
    groups = groups_of(problem, most)
    found: list[Packed] = []
    clock = Budget(time_limit)
    for g, items in enumerate(groups):
        share = None if time_limit is None else clock.left() / (len(groups) - g)
        packer = Packer(problem.subset(items), (_TRIANGLES + _PER_ITEM * problem.n) // len(groups))
        pairs, triangles, amounts = pack_and_ascend(packer, Budget(share).over)
        found.append((items.astype(np.int32)[pairs], triangles, amounts))
        if progress is not None:
            progress("triangles", g + 1, len(groups))
    return together(found, problem.n)


def pack_graph(graph: GraphProblem, time_limit: float | None) -> Certificate:
    """Cycles of a graph, packed as triangles."""
    packer = CyclePacker(graph, _TRIANGLES + _PER_ITEM * graph.n)
    return together([pack_and_ascend(packer, Budget(time_limit).over)], graph.n)


def pack_and_ascend(packer: Packing, over: Callable[[], bool]) -> Packed:
    """Pack; then find better amounts and pack what conflicts are left, as long as that gains something."""
    best = packer.pack(over)
    kept = packer.triangles, packer.amounts.copy()
    quiet, bar = 0, best
    cut = np.empty(0, dtype=packer.costs.dtype)
    while len(packer.amounts) and quiet < _PATIENCE and not over():
        used = packer.amounts > 0
        packer.triangles, packer.amounts = packer.triangles[used], packer.amounts[used]
        cut = np.concatenate([cut, np.full(len(packer.costs) - len(cut), 0.5, dtype=cut.dtype)])
        given = messages(packer.costs, packer.triangles)
        residual = ascend(given, packer.amounts, cut, packer.attraction, over)
        packer.settle(residual)
        value = _raised(packer.costs, residual) + packer.pack(over)
        if value > best:
            best, kept = value, (packer.triangles, packer.amounts.copy())
        quiet += 1
        if best > bar + _LITTLE * best:
            quiet, bar = 0, best
    triangles, amounts = kept
    return packer.pairs, triangles, packer.unit * amounts.astype(np.float64)


def _raised(costs: NDArray[Any], residual: NDArray[Any]) -> float:
    """How much the residual costs raise the bound."""
    after, before = np.minimum(residual, 0), np.minimum(costs, 0)
    return float(after.sum(dtype=np.float64) - before.sum(dtype=np.float64))


def together(found: list[Packed], n: int) -> Certificate:
    """The certificate of triangles that were found apart: pairs, triangles and amounts of each group."""
    pairs, triangles, amounts = [], [], []
    named = 0
    for of_group, some, by in found:
        used = by > 0
        touched = np.zeros(len(of_group), dtype=np.bool_)
        touched[some[used]] = True
        number = np.cumsum(touched, dtype=np.int32) + np.int32(named - 1)
        pairs.append(of_group[touched])
        triangles.append(number[some[used]])
        amounts.append(by[used])
        named += len(pairs[-1])
    all_pairs = np.concatenate(pairs)
    order = np.argsort(all_pairs[:, 0].astype(np.int64) * n + all_pairs[:, 1])
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return Certificate(
        all_pairs[order], np.zeros(len(order)), rank[np.concatenate(triangles)], np.concatenate(amounts)
    )
