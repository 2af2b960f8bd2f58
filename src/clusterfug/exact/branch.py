"""Branch and cut on the nodes of one connected component: the best clustering, and the proof.

Stars that the solution of the linear program violates are added until there are none or the bound stalls.
Then one pair is branched on, together or cut, and each branch is a problem of the same kind with fewer free
pairs. The branch with the highest bound is next, so the bound on all clusterings only falls, and holds at
any time. `prove.py` calls `BranchAndCut`.
"""

import heapq
import math
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from clusterfug.exact.program import PairValues, Relaxation, StarProgram
from clusterfug.exact.stars import violated_stars
from clusterfug.execution import threads
from clusterfug.execution.jit import clock
from clusterfug.refinement.kernighan_lin import kernighan_lin
from clusterfug.refinement.part import make_part

Box = tuple[PairValues, PairValues]  # the lowest and the highest x of each pair

NEW_STARS_PER_NODE = 20  # triangles per node and round, and as many stars
STALL_ROUNDS = 4
MIN_PROGRESS = 0.1  # share by which the gap has to shrink in `STALL_ROUNDS` rounds; else branch
GAP_TOLERANCE = 1e-11  # of the sum of all |costs|: a smaller gap is rounding
INTEGER_TOLERANCE = 1e-6  # of integers computed in floating point


class BranchAndCut:
    """The best labels so far, their `inside`, and `most`, an upper bound on the inside of any labels.

    A difference of up to `tolerance` between the two counts as rounding.
    """

    def __init__(self, costs: NDArray[np.float64], *, integer: bool) -> None:
        self.labels = np.zeros(len(costs), dtype=np.int64)
        self.inside = -math.inf
        self.most = math.fsum(np.maximum(costs, 0.0).ravel()) / 2
        self._costs = costs
        self._integer = integer  # whether all costs are integers
        self._i, self._j = np.triu_indices(len(costs), 1)
        self._program = StarProgram(costs[self._i, self._j], len(costs))
        self.tolerance = GAP_TOLERANCE * float(np.abs(self._program.weights).sum())

    def consider(self, labels: NDArray[np.int64]) -> None:
        """Improve labels by local search, and keep them if they are the best."""
        part = make_part(self._costs, labels, self.tolerance)
        kernighan_lin(part)
        inside = math.fsum(self._program.weights[part.labels[self._i] == part.labels[self._j]])
        if inside > self.inside:
            self.inside, self.labels = inside, part.labels

    @property
    def proven(self) -> bool:
        """Whether the gap is closed, but for rounding."""
        return self.most <= self.inside + self.tolerance

    def run(self, deadline: float | None) -> None:
        """Branch until the gap is closed or the deadline has passed."""
        weights = self._program.weights
        order = count()  # among equal bounds, the older first
        todo = [(-self.most, next(order), (np.zeros_like(weights), np.ones_like(weights)))]
        closed = -math.inf
        while True:
            self.most = max(self.inside, closed, -todo[0][0] if todo else -math.inf)
            threads.check_stop()
            if self.proven or (deadline is not None and clock() >= deadline):
                return
            parent, _, box = heapq.heappop(todo)
            most, boxes = self._explore(-parent, box, deadline)
            if not boxes:
                closed = max(closed, most)
            for child in boxes:
                heapq.heappush(todo, (-most, next(order), child))

    def _explore(self, most: float, box: Box, deadline: float | None) -> tuple[float, list[Box]]:
        """Return an upper bound on inside in the box, and the boxes that may hold better clusterings."""
        gaps: list[float] = []
        while deadline is None or clock() < deadline:
            relaxed = self._program.solve(*box, deadline)
            bound = math.floor(relaxed.bound + INTEGER_TOLERANCE) if self._integer else relaxed.bound
            most = min(most, bound)
            x = self._square(relaxed.x)
            self.consider(_components(x > 0.5))
            gaps.append(most - self.inside)
            if gaps[-1] <= self.tolerance:
                return most, []
            smaller = self._fixed(relaxed, box)
            if smaller is None:
                return self.inside, []
            box = smaller
            new = violated_stars(x, set(self._program.stars), NEW_STARS_PER_NODE * len(x))
            stalled = len(gaps) > STALL_ROUNDS and gaps[-1] > (1 - MIN_PROGRESS) * gaps[-1 - STALL_ROUNDS]
            if not new or stalled:
                branches = self._branches(relaxed, box)
                return most if branches else self.inside, branches
            self._program.drop_slack(relaxed.x)
            self._program.add(new)
        return most, [box]

    def _fixed(self, relaxed: Relaxation, box: Box) -> Box | None:
        """Fix pairs by their reduced costs: those that are equal in every better clustering of the box.

        None if there is no better clustering.
        """
        better = self.inside + (1 - INTEGER_TOLERANCE if self._integer else 0.0)
        spare = relaxed.bound - better
        lower, upper = box
        return self._propagated(
            np.where(relaxed.reduced > spare, upper, lower),
            np.where(relaxed.reduced < -spare, lower, upper),
        )

    def _branches(self, relaxed: Relaxation, box: Box) -> list[Box]:
        """Return the box with one pair cut, and with it together.

        The pair is a fractional one of large cost. If all pairs are fixed there are no branches: the only
        clustering in the box is considered.
        """
        free = np.flatnonzero(box[0] < box[1])
        if not len(free):
            self.consider(_components(self._square(box[0])))
            return []
        fractional = np.minimum(relaxed.x[free], 1 - relaxed.x[free])
        pair = free[np.argmax(fractional * np.abs(self._program.weights[free]))]
        branches = []
        for value in (0.0, 1.0):
            lower, upper = box[0].copy(), box[1].copy()
            lower[pair] = upper[pair] = value
            branches.append(self._propagated(lower, upper))
        return [branch for branch in branches if branch is not None]

    def _propagated(self, lower: PairValues, upper: PairValues) -> Box | None:
        """Fix what follows by transitivity: nodes that are together are cut from the same other nodes.

        None if that is a contradiction. Else a clustering is in the box, so the program is feasible.
        """
        group = _components(self._square(lower))
        member = np.eye(group.max() + 1)[group]
        cut = member.T @ self._square(1 - upper) @ member > 0
        if cut.diagonal().any():
            return None
        first, second = group[self._i], group[self._j]
        return (first == second).astype(np.float64), 1.0 - cut[first, second].astype(np.float64)

    def _square(self, pairs: PairValues) -> NDArray[np.float64]:
        """Return the symmetric matrix of one number per pair."""
        square = np.zeros(self._costs.shape)
        square[self._i, self._j] = square[self._j, self._i] = pairs
        return square


def _components(together: NDArray[Any]) -> NDArray[np.int64]:
    """Return the connected component of every node."""
    return connected_components(together, directed=False)[1].astype(np.int64)
