"""Packing conflicted triangles: two pairs that attract and one that repels, among items of a cost matrix.

A clustering pays for one of the three. Taking the smallest of their magnitudes from the two and adding it
to the third raises the bound by it. `TrianglePacker` keeps the residual costs of all pairs, and numbers the
pairs that triangles touch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution import threads
from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints, mirror
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.mixed import MixedProblem

MAX_FLOAT64_ITEMS = 1000  # items up to which amounts are in float64, so that a bound may be exact
FIRST_AMOUNT = 0.03  # largest amount of the first pass, in units of the mean attraction
_BLOCK = 256  # rows of a product
_WORK = 100_000_000  # costs read before a kernel returns to Python
_TRIANGLES_PER_CALL = 1 << 20


class Packer(ABC):
    """Triangles packed so far. Costs and amounts are multiples of `unit`.

    Attributes
    ----------
    pairs : (m, 2), items of the pairs that triangles touch, i < j
    costs : (m,)
    triangles : (t, 3), the pair that is raised and two that are lowered
    amounts : (t,)
    attraction : mean of the costs that attract
    """

    def __init__(
        self, unit: float, residual: Floats, pairs: NDArray[Any], costs: Floats, max_triangles: int
    ) -> None:
        self.unit, self.residual, self.max_triangles = unit, residual, max_triangles
        self.pairs, self.costs = pairs.astype(np.int32), costs
        self.triangles = np.empty((0, 3), dtype=np.int32)
        self.amounts = np.empty(0, dtype=costs.dtype)
        attractive = residual[residual > 0]
        self.total_attraction = float(attractive.sum(dtype=np.float64))
        self.attraction = self.total_attraction / max(1, len(attractive))

    @abstractmethod
    def pack(self, over: Callable[[], bool]) -> float:
        """Pack triangles until none is left or the time is over; return by how much the bound rises."""

    @abstractmethod
    def settle(self, residual: Floats) -> None:
        """Set the residual costs of the touched pairs."""


class TrianglePacker(Packer):
    """Triangles among the items of a problem with a cost for every pair."""

    def __init__(self, problem: DenseProblem | MixedProblem, max_triangles: int) -> None:
        costs, unit = problem.scaled_costs()
        super().__init__(unit, costs, np.empty((0, 2)), np.empty(0, dtype=costs.dtype), max_triangles)
        self._numbers = np.full(costs.shape, -1, dtype=np.int32)  # of pairs i < j
        self._limits = _limits(self.attraction, self.total_attraction / 2, max_triangles)

    def pack(self, over: Callable[[], bool]) -> float:
        limits, self._limits = self._limits, [(0.0, np.inf)]
        return sum(self._pass(least, cap, over) for least, cap in limits)

    def settle(self, residual: Floats) -> None:
        write_residuals(self.residual, self.pairs, residual)

    def _pass(self, least: float, cap: float, over: Callable[[], bool]) -> float:
        """Visit all nodes once and pack amounts from `least` to `cap`; return the gain of the bound."""
        n = len(self.residual)
        room = self.max_triangles - len(self.amounts)
        chunks = [(self.pairs, self.costs, self.triangles, self.amounts)]
        gain, node, m = 0.0, 0, len(self.pairs)
        while node < n and room > 0 and not over():
            size = min(room, _TRIANGLES_PER_CALL)
            chunk = (
                np.empty((3 * size, 2), dtype=np.int32),
                np.empty(3 * size, dtype=self.residual.dtype),
                np.empty((size, 3), dtype=np.int32),
                np.empty(size, dtype=self.residual.dtype),
            )
            node, found, named, more = pack_triangles(
                self.residual, self._numbers, least, cap, node, m, *chunk, _WORK
            )
            chunks.append((chunk[0][:named], chunk[1][:named], chunk[2][:found], chunk[3][:found]))
            gain, m, room = gain + more, m + named, room - found
        self.pairs, self.costs, self.triangles, self.amounts = map(
            np.concatenate, zip(*chunks, strict=True)
        )
        return gain


def scaled_costs(problem: DenseProblem) -> tuple[Floats, float]:
    """Return all pair costs, (n, n) and bitwise symmetric, in units of the number that comes with them.

    Rounded costs give valid amounts too, so float32 is enough for many items.
    """
    n = problem.n
    dtype = np.float64 if n <= MAX_FLOAT64_ITEMS else np.float32
    by = [2.0 ** -np.frexp(norms.max())[1] for norms in problem.norms]  # rows of length 1 at most
    costs = np.empty((n, n), dtype=dtype)
    columns = problem.extended(0, n, dtype, by[1])

    def block(rows: slice) -> None:
        queries = problem.queries(rows.start, rows.stop, dtype, by[0])
        np.matmul(queries, columns[rows.start :].T, out=costs[rows, rows.start :])

    parts = threads.slices(n, _BLOCK)
    threads.for_each(block, parts)
    for rows in parts:
        mirror(costs, rows.start, rows.stop)
    np.fill_diagonal(costs, 0.0)
    return costs, float(1.0 / by[0]) * float(1.0 / by[1])


def _limits(mean: float, total: float, max_triangles: int) -> list[tuple[float, float]]:
    """Return the least and the largest amount of each of the first passes, given mean and total attraction.

    Small amounts make many triangles, which leaves the ascent more to choose from. But where the triangles
    do not suffice for all attraction, those of large amounts come first.
    """
    cap = max(FIRST_AMOUNT * mean, total / max_triangles)
    if cap < mean:
        return [(0.0, cap), (0.0, np.inf)]
    return [(mean, np.inf), (mean / 2, np.inf), (mean / 4, np.inf), (0.0, np.inf)]


@kernel
def pack_triangles(
    residual: Floats, numbers: Ints, least: float, cap: float, node: int, named: int,
    pairs: Ints, costs: Floats, triangles: Ints, amounts: Floats, work: int,
) -> tuple[int, int, int, float]:  # fmt: skip
    """Pack triangles whose attractive pairs meet at nodes from `node` on, by amounts from `least` to `cap`.

    Returns the node to continue with, the numbers of new triangles and of new pairs, and the gain.
    """
    n = residual.shape[0]
    near = np.empty(n, dtype=np.int64)
    gain = 0.0
    t = m = 0
    while node < n and work > 0:
        length = 0
        for a in range(n):
            if residual[node, a] > least:
                near[length] = a
                length += 1
        work -= n + length * length // 2
        for x in range(length):
            a = near[x]
            row = residual[a]
            here = residual[node, a]
            for y in range(x + 1, length):
                if here <= least:
                    break
                b = near[y]
                if row[b] < -least and residual[node, b] > least:
                    if t == amounts.shape[0]:  # full: continue with the same node
                        return node, t, m, gain
                    m = number_pair(residual, numbers, named, m, a, b, pairs, costs, triangles[t], 0)
                    m = number_pair(residual, numbers, named, m, node, a, pairs, costs, triangles[t], 1)
                    m = number_pair(residual, numbers, named, m, node, b, pairs, costs, triangles[t], 2)
                    amount = min(min(here, residual[node, b]), min(-row[b], cap))
                    here -= amount
                    residual[node, a] = residual[a, node] = here
                    residual[node, b] = residual[b, node] = residual[node, b] - amount
                    residual[a, b] = residual[b, a] = row[b] + amount
                    amounts[t] = amount
                    gain += amount
                    t += 1
        node += 1
    return node, t, m, gain


@kernel
def number_pair(
    residual: Floats, numbers: Ints, named: int, m: int, a: int, b: int,
    pairs: Ints, costs: Floats, triangle: Ints, place: int,
) -> int:  # fmt: skip
    """Number a pair if it has no number (its residual is its cost then); return how many are new."""
    i, j = min(a, b), max(a, b)
    if numbers[i, j] < 0:
        numbers[i, j] = named + m
        pairs[m, 0], pairs[m, 1] = i, j
        costs[m] = residual[i, j]
        m += 1
    triangle[place] = numbers[i, j]
    return m


@kernel
def write_residuals(residual: Floats, pairs: Ints, values: Floats) -> None:
    for e in range(pairs.shape[0]):
        i, j = pairs[e]
        residual[i, j] = residual[j, i] = values[e]
