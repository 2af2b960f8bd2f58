"""Packing conflicted triangles: two pairs that attract and one that repels, among items of a cost matrix.

A clustering pays for one of the three. Taking the smallest of their magnitudes from the two and adding it
to the third raises the bound by it. `Packer` keeps the residual costs of all pairs, and numbers the pairs
that triangles touch.
"""

from collections.abc import Callable

import numpy as np

from clusterfug.contraction.matrix import mirror
from clusterfug.execution import threads
from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.problems.dense import DenseProblem

_EXACT = 1000  # items up to which amounts are exact, so that a bound may be, too
_BLOCK = 256  # rows of a product
_WORK = 100_000_000  # costs looked at before a kernel returns to Python
_SMALL = 0.03  # amounts of the first pass, in units of the mean attraction


class Packer:
    """Triangles packed so far among the items of a problem. Costs and amounts are in a unit of its own.

    Attributes
    ----------
    pairs : (m, 2), items of the pairs that triangles touch, i < j
    costs : (m,)
    triangles : (t, 3), the pair that is raised and two that are lowered
    amounts : (t,)
    """

    def __init__(self, problem: DenseProblem, most: int) -> None:
        costs, self.unit = scaled_costs(problem)
        n = problem.n
        self.residual = costs
        self._numbers = np.full((n, n), -1, dtype=np.int32)  # of pairs i < j
        self._most = most  # triangles
        self.pairs = np.empty((0, 2), dtype=np.int32)
        self.costs = np.empty(0, dtype=costs.dtype)
        self.triangles = np.empty((0, 3), dtype=np.int32)
        self.amounts = np.empty(0, dtype=costs.dtype)
        attractive = costs[costs > 0]
        self.attraction = float(attractive.mean(dtype=np.float64)) if len(attractive) else 0.0
        self._limits = _limits(self.attraction, float(attractive.sum(dtype=np.float64)) / 2, most)

    def pack(self, over: Callable[[], bool]) -> float:
        """Pack triangles as long as there are any: what that gains."""
        limits, self._limits = self._limits, [(0.0, np.inf)]
        return sum(self._pass(least, most, over) for least, most in limits)

    def settle(self, residual: Floats) -> None:
        """New residual costs of the touched pairs."""
        write(self.residual, self.pairs, residual)

    def _pass(self, least: float, cap: float, over: Callable[[], bool]) -> float:
        """Go through all nodes once, and pack what takes at least so much, at most `cap` at a time."""
        n = len(self.residual)
        room = self._most - len(self.amounts)
        chunks = [(self.pairs, self.costs, self.triangles, self.amounts)]
        gain, node, m = 0.0, 0, len(self.pairs)
        while node < n and room > 0 and not over():
            size = min(room, 1 << 20)
            chunk = (
                np.empty((3 * size, 2), dtype=np.int32),
                np.empty(3 * size, dtype=self.residual.dtype),
                np.empty((size, 3), dtype=np.int32),
                np.empty(size, dtype=self.residual.dtype),
            )
            node, found, named, more = pack(
                self.residual, self._numbers, least, cap, node, m, *chunk, _WORK
            )
            chunks.append((chunk[0][:named], chunk[1][:named], chunk[2][:found], chunk[3][:found]))
            gain, m, room = gain + more, m + named, room - found
        self.pairs, self.costs, self.triangles, self.amounts = map(
            np.concatenate, zip(*chunks, strict=True)
        )
        return gain


def scaled_costs(problem: DenseProblem) -> tuple[Floats, float]:
    """All pair costs, (n, n) and symmetric to the last bit, and what a cost of 1 stands for.

    Amounts need not be exact, only known; so for many items single precision is enough.
    """
    n = problem.n
    dtype = np.float64 if n <= _EXACT else np.float32
    by = [2.0 ** -np.frexp(norms.max())[1] for norms in problem.norms]  # rows of length 1 at most
    costs = np.empty((n, n), dtype=dtype)
    columns = problem.extended(0, n, dtype, by[1])

    def block(rows: slice) -> None:
        queries = problem.queries(rows.start, rows.stop, dtype, by[0])
        np.matmul(queries, columns[rows.start :].T, out=costs[rows, rows.start :])

    parts = threads.slices(n, _BLOCK)
    threads.each(block, parts)
    for rows in parts:
        mirror(costs, rows.start, rows.stop)
    np.fill_diagonal(costs, 0.0)
    return costs, float(1.0 / (by[0] * by[1]))


def _limits(mean: float, total: float, most: int) -> list[tuple[float, float]]:
    """Amounts of the first passes, at least and at most, from the mean attraction and all of it.

    Small amounts make many triangles, which leaves the messages more to choose from. But where triangles
    are too few for all attraction, those that take much come first.
    """
    cap = max(_SMALL * mean, total / most)
    if cap < mean:
        return [(0.0, cap), (0.0, np.inf)]
    return [(mean, np.inf), (mean / 2, np.inf), (mean / 4, np.inf), (0.0, np.inf)]


@kernel
def pack(
    residual: Floats, numbers: Ints, least: float, cap: float, node: int, named: int,
    pairs: Ints, costs: Floats, triangles: Ints, amounts: Floats, work: int,
) -> tuple[int, int, int, float]:  # fmt: skip
    """Pack triangles whose attractive pairs meet at nodes from `node` on: at least so much, at most `cap`.

    Returns the node to go on with, the triangles and the pairs that were new, and the gain.
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
                    if t == amounts.shape[0]:  # full: the node is looked at again
                        return node, t, m, gain
                    m = name(residual, numbers, named, m, a, b, pairs, costs, triangles[t], 0)
                    m = name(residual, numbers, named, m, node, a, pairs, costs, triangles[t], 1)
                    m = name(residual, numbers, named, m, node, b, pairs, costs, triangles[t], 2)
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
def name(
    residual: Floats, numbers: Ints, named: int, m: int, a: int, b: int,
    pairs: Ints, costs: Floats, triangle: Ints, place: int,
) -> int:  # fmt: skip
    """Give a pair a number if it has none: its residual is its cost still. How many are new."""
    i, j = min(a, b), max(a, b)
    if numbers[i, j] < 0:
        numbers[i, j] = named + m
        pairs[m, 0], pairs[m, 1] = i, j
        costs[m] = residual[i, j]
        m += 1
    triangle[place] = numbers[i, j]
    return m


@kernel
def write(residual: Floats, pairs: Ints, values: Floats) -> None:
    for e in range(pairs.shape[0]):
        i, j = pairs[e]
        residual[i, j] = residual[j, i] = values[e]
