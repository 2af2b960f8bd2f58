"""The bound of packed triangles: divide items into groups, pack, improve the amounts, pack again.

`pack_triangles` of a problem calls this module. Items of a large problem are divided into groups of similar
ones, and only triangles within groups are packed: they touch no pair of another group, so the triangles of
all groups together are a certificate.
"""

from collections.abc import Callable
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from clusterfug.bounds.ascent import ascend, incidence
from clusterfug.bounds.certificate import Certificate
from clusterfug.bounds.cycles import CyclePacker
from clusterfug.bounds.packing import Packer, TrianglePacker
from clusterfug.execution.jit import Progress
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.graph import GraphProblem
from clusterfug.problems.mixed import MixedProblem
from clusterfug.refinement.budget import Budget

#: Bytes for the costs of a group by default: 8,192 items.
MEMORY_LIMIT = 2**30
BYTES_PER_PAIR = 16  # cost and number, and as much again for triangles
MAX_TRIANGLES, MAX_TRIANGLES_PER_ITEM = 4_000_000, 200
MIN_GAIN_SHARE = 1e-3  # packing ends after `PATIENCE` rounds that together raise the gain by less
PATIENCE = 4

Packed = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]  # pairs, triangles, amounts


def pack_features(
    problem: DenseProblem | MixedProblem,
    memory_limit: int | None,
    time_limit: float | None,
    progress: Progress | None,
) -> Certificate:
    """Return triangles packed within groups of similar items; each group has its share of the time."""
    max_size = max(2, int(((memory_limit or MEMORY_LIMIT) / BYTES_PER_PAIR) ** 0.5))
    groups = problem.divided(max_size)
    max_triangles = _max_triangles(problem.n) // len(groups)
    found: list[Packed] = []
    clock = Budget(time_limit)
    for g, items in enumerate(groups):
        share = None if time_limit is None else clock.left() / (len(groups) - g)
        packer = TrianglePacker(problem.subset(items), max_triangles)
        pairs, triangles, amounts = pack_and_ascend(packer, Budget(share).over)
        found.append((items.astype(np.int32)[pairs], triangles, amounts))
        if progress is not None:
            progress("triangles", g + 1, len(groups))
    return merged(found, problem.n)


def pack_graph(graph: GraphProblem, time_limit: float | None) -> Certificate:
    """Return cycles of a graph, packed as triangles."""
    packer = CyclePacker(graph, _max_triangles(graph.n))
    return merged([pack_and_ascend(packer, Budget(time_limit).over)], graph.n)


def _max_triangles(n: int) -> int:
    return MAX_TRIANGLES + MAX_TRIANGLES_PER_ITEM * n


def pack_and_ascend(packer: Packer, over: Callable[[], bool]) -> Packed:
    """Pack; then alternate ascent and packing of the conflicts left, as long as that raises the bound."""
    best = packer.pack(over)
    kept = packer.triangles, packer.amounts.copy()
    quiet, bar = 0, best
    cut = np.empty(0, dtype=packer.costs.dtype)
    while len(packer.amounts) and quiet < PATIENCE and not over():
        used = packer.amounts > 0
        packer.triangles, packer.amounts = packer.triangles[used], packer.amounts[used]
        cut = np.concatenate([cut, np.full(len(packer.costs) - len(cut), 0.5, dtype=cut.dtype)])
        given = incidence(packer.costs, packer.triangles)
        residual = ascend(given, packer.amounts, cut, packer.attraction, over)
        packer.settle(residual)
        before = np.minimum(packer.costs, 0).sum(dtype=np.float64)
        after = np.minimum(residual, 0).sum(dtype=np.float64)
        value = float(after - before) + packer.pack(over)
        if value > best:
            best, kept = value, (packer.triangles, packer.amounts.copy())
        quiet += 1
        if best > bar + MIN_GAIN_SHARE * best:
            quiet, bar = 0, best
    triangles, amounts = kept
    return packer.pairs, triangles, packer.unit * amounts.astype(np.float64)


def merged(found: list[Packed], n: int) -> Certificate:
    """Return the certificate of the triangles of all groups, without its residuals."""
    starts = accumulate((len(part[0]) for part in found), initial=0)
    pairs = np.concatenate([part[0] for part in found])
    triangles = np.concatenate([part[1] + start for part, start in zip(found, starts, strict=False)])
    amounts = np.concatenate([part[2] for part in found])
    used = amounts > 0
    touched = np.zeros(len(pairs), dtype=np.bool_)
    touched[triangles[used]] = True
    order = np.flatnonzero(touched)
    order = order[np.argsort(pairs[order, 0].astype(np.int64) * n + pairs[order, 1])]
    number = np.empty(len(pairs), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return Certificate(pairs[order], np.zeros(len(order)), number[triangles[used]], amounts[used])
