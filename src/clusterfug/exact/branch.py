"""Branch and cut on the nodes of one component: the best clustering, and the proof.

The linear program gets the stars that its answer violates, until there are none or the bound stalls. Then
one pair is tried both ways, together and cut, and each is a problem of the same kind with fewer pairs to
decide. The one with the highest bound is next, so the bound on the whole only falls, and holds at any time.
"""

import heapq
import math
import time
from collections.abc import Callable
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from clusterfug.exact.program import Pairs, Program, Relaxed
from clusterfug.exact.stars import violated
from clusterfug.refinement.kernighan_lin import kernighan_lin
from clusterfug.refinement.part import make_part

Box = tuple[Pairs, Pairs]  # the lowest and the highest x of each pair

_NEW = 20  # triangles per node and round, and as many stars
_ROUNDS = 4  # in so many rounds
_PROGRESS = 0.1  # the gap has to shrink by this share, else it is time to branch
_TIGHT = 1e-11  # of the sum of all |costs|: a gap that is rounding
_SLACK = 1e-6  # of 1, where numbers are whole


class Search:
    """The best labels so far, what they have inside, and what any clustering has at most."""

    def __init__(self, costs: NDArray[np.float64], *, whole: bool) -> None:
        self.labels = np.zeros(len(costs), dtype=np.int64)
        self.inside = -math.inf
        self.most = math.fsum(np.maximum(costs, 0.0).ravel()) / 2
        self._costs = costs
        self._whole = whole  # the costs are whole numbers
        self._i, self._j = np.triu_indices(len(costs), 1)
        self._program = Program(costs[self._i, self._j], len(costs))
        self._tight = _TIGHT * float(np.abs(self._program.weights).sum())

    def consider(self, labels: NDArray[np.int64]) -> None:
        """Improve labels, and keep them if they are the best."""
        part = make_part(self._costs, labels, self._tight)
        kernighan_lin(part)
        inside = math.fsum(self._program.weights[part.labels[self._i] == part.labels[self._j]])
        if inside > self.inside:
            self.inside, self.labels = inside, part.labels

    def proven(self) -> bool:
        """Whether the gap is closed, but for rounding."""
        return self.most <= self.inside + self._tight

    def run(self, deadline: float | None, look: Callable[[], None]) -> None:
        """Go on until the gap is closed or the time is up."""
        weights = self._program.weights
        order = count()  # among equal bounds, the older
        todo = [(-self.most, next(order), (np.zeros_like(weights), np.ones_like(weights)))]
        closed = -math.inf
        while True:
            self.most = max(self.inside, closed, -todo[0][0] if todo else -math.inf)
            look()
            if self.proven() or (deadline is not None and time.perf_counter() >= deadline):
                return
            parent, _, box = heapq.heappop(todo)
            most, boxes = self._explore(-parent, box, deadline, look)
            if not boxes:
                closed = max(closed, most)
            for child in boxes:
                heapq.heappush(todo, (-most, next(order), child))

    def _explore(
        self, most: float, box: Box, deadline: float | None, look: Callable[[], None]
    ) -> tuple[float, list[Box]]:
        """The most that a clustering in the box has inside, and the boxes in which a better one may be."""
        gaps: list[float] = []
        while deadline is None or time.perf_counter() < deadline:
            relaxed = self._program.solve(*box, deadline, look)
            most = min(most, math.floor(relaxed.bound + _SLACK) if self._whole else relaxed.bound)
            x = self._square(relaxed.x)
            self.consider(connected_components(x > 0.5, directed=False)[1].astype(np.int64))
            gaps.append(most - self.inside)
            if gaps[-1] <= self._tight:
                return most, []
            smaller = self._fixed(relaxed, box)
            if smaller is None:
                return self.inside, []
            box = smaller
            new = violated(x, set(self._program.stars), _NEW * len(x))
            if not new or (len(gaps) > _ROUNDS and gaps[-1] > (1 - _PROGRESS) * gaps[-1 - _ROUNDS]):
                halves = self._halves(relaxed, box)
                return most if halves else self.inside, halves
            self._program.forget_far(relaxed.x)
            self._program.add(new)
        return most, [box]

    def _fixed(self, relaxed: Relaxed, box: Box) -> Box | None:
        """Fix the pairs that are the same in every better clustering; None if there is no better one."""
        better = self.inside + (1 - _SLACK if self._whole else 0.0)
        spare = relaxed.bound - better  # a pair that costs more than this is not worth it
        lower, upper = box
        return self._closed(
            np.where(relaxed.reduced > spare, upper, lower),
            np.where(relaxed.reduced < -spare, lower, upper),
        )

    def _halves(self, relaxed: Relaxed, box: Box) -> list[Box]:
        """The box with one pair cut, and with it together.

        The pair is one that the program does not decide and that matters. If all pairs are fixed there are
        no halves: the only clustering in the box is considered.
        """
        free = np.flatnonzero(box[0] < box[1])
        halves = []
        if not len(free):
            self.consider(connected_components(self._square(box[0]), directed=False)[1].astype(np.int64))
        else:
            undecided = np.minimum(relaxed.x[free], 1 - relaxed.x[free])
            pair = free[np.argmax(undecided * np.abs(self._program.weights[free]))]
            for value in (0.0, 1.0):
                lower, upper = box[0].copy(), box[1].copy()
                lower[pair] = upper[pair] = value
                halves.append(self._closed(lower, upper))
        return [half for half in halves if half is not None]

    def _closed(self, lower: Pairs, upper: Pairs) -> Box | None:
        """Groups of nodes that are together: together among themselves, cut from all that one is cut from.

        None if that is a contradiction. Else a clustering is in the box, so the program has an answer.
        """
        _, group = connected_components(self._square(lower), directed=False)
        member = np.eye(group.max() + 1)[group]
        cut = member.T @ self._square(1 - upper) @ member > 0
        if cut.diagonal().any():
            return None
        first, second = group[self._i], group[self._j]
        return (first == second).astype(np.float64), 1.0 - cut[first, second]

    def _square(self, pairs: Pairs) -> NDArray[np.float64]:
        square = np.zeros(self._costs.shape)
        square[self._i, self._j] = square[self._j, self._i] = pairs
        return square
