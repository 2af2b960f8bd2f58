"""Packing conflicted cycles of an explicit graph: one edge that repels, all others attract.

A cycle is cut into triangles by chords from one of its nodes. Chords that are no edges cost nothing; they
are raised by one triangle and lowered by the next. So a bound of cycles is a bound of triangles, and
`triangles.py` treats both kinds of packer alike.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.bounds.packing import Packer
from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.problems.graph import GraphProblem, by_node

PATH_LENGTHS = (2, 3, 5, 10)  # largest number of attractive edges of a cycle, pass by pass
MAX_VISITS = 10_000  # nodes visited in the search for one path
_WORK = 20_000_000  # edges read before a kernel returns to Python
_CYCLES_PER_CALL = 1 << 18


class Arcs(NamedTuple):
    """Attractive pairs by node: their other ends, and the numbers of the pairs."""

    starts: Ints
    ends: Ints
    pairs: Ints


class CyclePacker(Packer):
    """Cycles of a graph, as triangles."""

    def __init__(self, graph: GraphProblem, max_triangles: int) -> None:
        unit = float(2.0 ** np.frexp(np.abs(graph.costs).max(initial=0.0))[1])
        costs = graph.costs / unit
        super().__init__(unit, costs.copy(), graph.edges, costs, max_triangles)
        self._n = graph.n

    def pack(self, over: Callable[[], bool]) -> float:
        attractive = np.flatnonzero(self.residual > 0)
        starts, ends, numbers = by_node(self.pairs[attractive], self._n)
        arcs = Arcs(starts, ends, attractive[numbers])
        gain = 0.0
        cycles: list[tuple[NDArray[Any], NDArray[Any]]] = []  # nodes of paths, -1 beyond the end; amounts
        room = self.max_triangles - len(self.amounts)
        for longest in PATH_LENGTHS:
            at = 0
            while at < len(self.pairs) and room > 0 and not over():
                paths = np.full((min(room, _CYCLES_PER_CALL), longest + 1), -1, dtype=np.int32)
                amounts = np.empty(len(paths))
                at, found = pack_cycles(self.pairs, self.residual, arcs, at, paths, amounts, _WORK)
                if found:
                    cycles.append((paths[:found], amounts[:found]))
                gain += float(amounts[:found].sum(dtype=np.float64))
                room -= found * (longest - 1)
        for paths, amounts in cycles:
            self._triangulate(paths, amounts)
        chords = np.zeros(len(self.pairs) - len(self.residual))
        self.residual = np.append(self.residual, chords)
        return gain

    def settle(self, residual: Floats) -> None:
        self.residual = residual.copy()

    def _triangulate(self, paths: NDArray[Any], amounts: NDArray[Any]) -> None:
        """Add the triangles that cycles are cut into."""
        for last in range(2, paths.shape[1]):
            there = paths[:, last] >= 0
            first, middle, end = paths[there, 0], paths[there, last - 1], paths[there, last]
            triangles = [self._numbers(*ends) for ends in ((first, end), (first, middle), (middle, end))]
            self.triangles = np.concatenate([self.triangles, np.stack(triangles, axis=1)])
            self.amounts = np.concatenate([self.amounts, amounts[there]])

    def _numbers(self, one: NDArray[Any], other: NDArray[Any]) -> NDArray[np.int32]:
        """Return the numbers of pairs; pairs that have none yet are chords of cost 0."""
        wanted = np.minimum(one, other).astype(np.int64) * self._n + np.maximum(one, other)
        keys = self.pairs[:, 0].astype(np.int64) * self._n + self.pairs[:, 1]
        new = np.setdiff1d(wanted, keys)
        chords = np.stack([new // self._n, new % self._n], axis=1).astype(np.int32)
        self.pairs = np.concatenate([self.pairs, chords])
        self.costs = np.append(self.costs, np.zeros(len(new)))
        keys = np.append(keys, new)
        order = np.argsort(keys)
        return order[np.searchsorted(keys, wanted, sorter=order)].astype(np.int32)


@kernel
def pack_cycles(
    pairs: Ints, residual: Floats, arcs: Arcs, at: int, paths: Ints, amounts: Floats, work: int
) -> tuple[int, int]:
    """Pack cycles of the repulsive pairs from `at` on; return where to continue and how many were found."""
    n = arcs.starts.shape[0] - 1
    longest = paths.shape[1] - 1
    seen = np.full(n, -1, dtype=np.int64)  # the last search that visited the node
    target = np.full(n, -1, dtype=np.int64)  # arc to the end of the path
    before, by, steps = np.empty((3, n), dtype=np.int64)  # path to a node: predecessor, arc, length
    queue = np.empty(min(n, MAX_VISITS) + 1, dtype=np.int64)
    count = search = 0
    while at < pairs.shape[0] and work > 0:
        u, v = pairs[at]
        has_arcs = arcs.starts[u] < arcs.starts[u + 1] and arcs.starts[v] < arcs.starts[v + 1]
        if residual[at] >= 0 or not has_arcs:
            at += 1
            continue
        if count == paths.shape[0]:
            break
        for q in range(arcs.starts[v], arcs.starts[v + 1]):
            if residual[arcs.pairs[q]] > 0:
                target[arcs.ends[q]] = arcs.pairs[q]
        work -= arcs.starts[v + 1] - arcs.starts[v]
        seen[u], steps[u], queue[0] = search, 0, u
        head, tail, found = 0, 1, -1
        while head < tail and found < 0:
            x = queue[head]
            head += 1
            work -= arcs.starts[x + 1] - arcs.starts[x]
            for q in range(arcs.starts[x], arcs.starts[x + 1]):
                y = arcs.ends[q]
                if seen[y] == search or y == v or residual[arcs.pairs[q]] <= 0:
                    continue
                seen[y], steps[y], before[y], by[y] = search, steps[x] + 1, x, arcs.pairs[q]
                if target[y] >= 0:
                    found = y
                    break
                if steps[y] < longest - 1 and tail < queue.shape[0]:
                    queue[tail] = y
                    tail += 1
        search += 1
        if found >= 0:
            last = target[found]
            amount = min(-residual[at], residual[last])
            x = found
            while x != u:
                amount = min(amount, residual[by[x]])
                x = before[x]
            residual[at] += amount
            residual[last] -= amount
            length = steps[found] + 1
            paths[count, length] = v
            x = found
            while x != u:
                residual[by[x]] -= amount
                paths[count, steps[x]] = x
                x = before[x]
            paths[count, 0] = u
            amounts[count] = amount
            count += 1
        for q in range(arcs.starts[v], arcs.starts[v + 1]):
            target[arcs.ends[q]] = -1
        if found < 0:
            at += 1
    return at, count
