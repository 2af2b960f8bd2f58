"""Better amounts for given triangles, by the primal-dual hybrid gradient method. `triangles.py` calls it.

The best amounts solve a linear program, the dual of relaxed clustering: every pair is cut by 0 <= y <= 1,
and every triangle demands y(u, v) <= y(u, w) + y(w, v). Two steps alternate. The primal step raises the cut
of pairs with negative residual cost and lowers that of others, with one step size per pair; the dual step
raises the amounts of triangles whose inequality is violated and lowers those of others. Amounts are never
negative, so the amounts after any step prove a bound.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from clusterfug.execution import threads
from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints

STEPS = 25  # between two packings
STEP_SIZE = 0.25  # of the amounts, in units of the mean attraction
_BLOCK = 1 << 17  # pairs or triangles per task of a thread


class Incidence(NamedTuple):
    """Pairs, and the triangles that each is in."""

    costs: Floats  # (m,)
    triangles: Ints  # (t, 3) pairs
    starts: Ints  # (m + 1,) where the triangles of a pair start in `of`
    of: Ints  # (3 t,) triangle that raises the pair, or ~triangle that lowers it


def incidence(costs: Floats, triangles: Ints) -> Incidence:
    """Return the triangles of every pair."""
    counts = np.bincount(triangles.ravel(), minlength=len(costs))
    starts = np.zeros(len(costs) + 1, dtype=np.int64)
    np.cumsum(counts, out=starts[1:])
    of = np.empty(triangles.size, dtype=np.int32)
    fill_incidence(triangles, starts[:-1].copy(), of)
    return Incidence(costs, triangles, starts, of)


@kernel
def fill_incidence(triangles: Ints, at: Ints, of: Ints) -> None:
    """Write the triangles of every pair to `of`, from the position `at[pair]` on."""
    for t in range(triangles.shape[0]):
        for place in range(3):
            e = triangles[t, place]
            of[at[e]] = t if place == 0 else ~t
            at[e] += 1


def ascend(
    given: Incidence, amounts: Floats, cut: Floats, attraction: float, over: Callable[[], bool]
) -> Floats:
    """Return the residual costs after some steps, which change `amounts` and `cut` in place."""
    residual, ahead = np.empty_like(cut), np.empty_like(cut)
    step_size = max(cut.dtype.type(STEP_SIZE * attraction), np.finfo(cut.dtype).tiny)

    def pairs(part: slice) -> None:
        primal_step(given, amounts, step_size, cut, ahead, residual, part.start, part.stop)

    def triangles(part: slice) -> None:
        dual_step(given.triangles, amounts, step_size, ahead, part.start, part.stop)

    for step in range(STEPS):
        threads.for_each(pairs, threads.slices(len(cut), _BLOCK))
        if step == STEPS - 1 or over():
            break
        threads.for_each(triangles, threads.slices(len(amounts), _BLOCK))
    return residual


@kernel
def primal_step(
    given: Incidence, amounts: Floats, step_size: float, cut: Floats, ahead: Floats, residual: Floats,
    start: int, stop: int,
) -> None:  # fmt: skip
    """Cut pairs more if they repel, less if they attract; `ahead` extrapolates the step by its length."""
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
        new = min(max(cut[e] - cost / (step_size * max(1, last - first)), 0.0), 1.0)
        ahead[e] = 2 * new - cut[e]
        cut[e] = new


@kernel
def dual_step(
    triangles: Ints, amounts: Floats, step_size: float, ahead: Floats, start: int, stop: int
) -> None:
    """Raise the amount of a triangle if its inequality is violated, lower it if there is slack."""
    for t in range(start, stop):
        e, f, g = triangles[t]
        amounts[t] = max(amounts[t] + step_size / 3 * (ahead[e] - ahead[f] - ahead[g]), 0.0)
