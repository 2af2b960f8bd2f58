"""Budget of a refinement: a time limit and a number of iterations."""

import math

from clusterfug.execution import threads
from clusterfug.execution.jit import clock


class Budget:
    """Time limit in seconds from now and maximum number of iterations, both unlimited by default.

    The compilation of kernels does not count. A search that reaches `objective_bound`, below which no
    objective is (but for rounding), has found an optimum and may stop.
    """

    def __init__(
        self,
        time_limit: float | None = None,
        max_iter: int | None = None,
        objective_bound: float = -math.inf,
    ) -> None:
        self.objective_bound = objective_bound
        self._start = clock()
        self._limit = time_limit
        self._max_iter = max_iter
        self.iterations = 0

    def over(self) -> bool:
        """Whether the time limit has passed."""
        threads.check_stop()
        return self._limit is not None and self._seconds() >= self._limit

    def left(self) -> float:
        """Seconds until the time limit."""
        return math.inf if self._limit is None else max(0.0, self._limit - self._seconds())

    def spend(self) -> bool:
        """Start one iteration. Returns False if the iterations or the time are used up."""
        if self.over() or self.iterations == self._max_iter:
            return False
        self.iterations += 1
        return True

    def spent(self) -> tuple[int, int]:
        """Amount used and total amount: iterations if their number is limited, milliseconds otherwise."""
        if self._max_iter is not None:
            return self.iterations, self._max_iter
        done = int(1000 * self._seconds())
        return done, done if self._limit in (None, math.inf) else max(1, int(1000 * self._limit))

    def _seconds(self) -> float:
        return clock() - self._start
