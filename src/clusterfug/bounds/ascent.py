"""Better amounts for given triangles: messages between triangles and the pairs they share.

The best amounts are the solution of a linear program, the dual of relaxed clustering: every pair is cut by
0 <= y <= 1, every triangle asks that y(u, v) <= y(u, w) + y(w, v). Two half-steps are repeated. Pairs
look at their residual costs and are cut a little more (it is negative) or less; triangles look at how far
their inequality is violated and raise or lower their amount. (This is the primal-dual hybrid gradient
method, with one step size per pair.) Amounts are never negative, so any step leaves a bound.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clusterfug.execution import threads
from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints

_STEPS = 25  # between two packings
_PACE = 0.25  # how far amounts go in a step, in units of the mean attraction
_BLOCK = 1 << 17  # pairs or triangles that one thread takes at a time


class Messages(NamedTuple):
    """Pairs, and the triangles of each."""

    costs: Floats  # (m,)
    triangles: Ints  # (t, 3) pairs
    starts: Ints  # (m + 1,) where the triangles of a pair are in `of`
    of: Ints  # (3 t,) triangle that raises the pair, or ~triangle that lowers it


def messages(costs: Floats, triangles: Ints) -> Messages:
    counts = np.bincount(triangles.ravel(), minlength=len(costs))
    starts = np.zeros(len(costs) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    of = np.empty(triangles.size, dtype=np.int32)
    sort(triangles, starts[:-1].copy(), of)
    return Messages(costs, triangles, starts, of)


@kernel
def sort(triangles: Ints, at: Ints, of: Ints) -> None:
    for t in range(triangles.shape[0]):
        for place in range(3):
            e = triangles[t, place]
            of[at[e]] = t if place == 0 else ~t
            at[e] += 1


def ascend(
    given: Messages, amounts: Floats, cut: Floats, attraction: float, over: Callable[[], bool]
) -> Floats:
    """Some steps: amounts and cut are changed in place. The residual costs that the amounts leave."""
    residual, ahead = np.empty_like(cut), np.empty_like(cut)
    pace = max(cut.dtype.type(_PACE * attraction), np.finfo(cut.dtype).tiny)

    def pairs(part: slice) -> None:
        look_at_costs(given, amounts, pace, cut, ahead, residual, part.start, part.stop)

    def triangles(part: slice) -> None:
        look_at_cuts(given.triangles, amounts, pace, ahead, part.start, part.stop)

    for step in range(_STEPS):
        threads.each(pairs, threads.slices(len(cut), _BLOCK))
        if step == _STEPS - 1 or over():
            break
        threads.each(triangles, threads.slices(len(amounts), _BLOCK))
    return residual


@kernel
def look_at_costs(
    given: Messages, amounts: Floats, pace: float, cut: Floats, ahead: Floats, residual: Floats,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Pairs are cut more if they repel, less if they attract. `ahead` goes as far again."""
    for e in range(start, stop):
        cost = given.costs[e]
        first, last = given.starts[e], given.starts[e + 1]
        for q in range(first, last):
            t = given.of[q]
            if t >= 0:
                cost += amounts[t]
            else:
                cost -= amounts[~t]
        residual[e] = cost
        new = min(max(cut[e] - cost / (pace * max(1, last - first)), 0.0), 1.0)
        ahead[e] = 2 * new - cut[e]
        cut[e] = new


@kernel
def look_at_cuts(
    triangles: Ints, amounts: Floats, pace: float, ahead: Floats, start: int, stop: int
) -> None:
    """A triangle takes more if its inequality is violated, less if there is room."""
    for t in range(start, stop):
        e, f, g = triangles[t]
        amounts[t] = max(amounts[t] + pace / 3 * (ahead[e] - ahead[f] - ahead[g]), 0.0)
