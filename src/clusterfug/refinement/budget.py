"""How long refinement may go on: by the clock, or by the number of iterations."""

import math
import time

from clusterfug import blocks


class Budget:
    """A time limit in seconds from now and a number of iterations; without them it is never over.

    No clustering keeps more inside than `enough`: whoever reaches it need not go on.
    """

    def __init__(
        self, time_limit: float | None = None, max_iter: int | None = None, enough: float = math.inf
    ) -> None:
        self.enough = enough
        self._start = time.perf_counter()
        self._limit = time_limit
        self._max_iter = max_iter
        self.iterations = 0

    def over(self) -> bool:
        """Whether the time is up."""
        blocks.look()
        return self._limit is not None and self._seconds() >= self._limit

    def left(self) -> float:
        """Seconds until the time is up."""
        return math.inf if self._limit is None else max(0.0, self._limit - self._seconds())

    def spend(self) -> bool:
        """Take one iteration, if there is one and time for it."""
        if self.over() or self.iterations == self._max_iter:
            return False
        self.iterations += 1
        return True

    def spent(self) -> tuple[int, int]:
        """How much is spent, of how much: by iterations if there is a number of them, else milliseconds."""
        if self._max_iter is not None:
            return self.iterations, self._max_iter
        done = int(1000 * self._seconds())
        return done, done if self._limit in (None, math.inf) else max(1, int(1000 * self._limit))

    def _seconds(self) -> float:
        return time.perf_counter() - self._start
