"""The linear program of branch and cut: maximise `inside` subject to star inequalities, with a safe bound.

HiGHS solves it to its tolerances. The bound uses only the dual prices of its answer: by weak duality any
prices >= 0 give a bound, which is evaluated in float64 with a margin for rounding.
"""

from concurrent.futures import ThreadPoolExecutor, wait
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from clusterfug.exact.stars import Star
from clusterfug.execution import threads
from clusterfug.execution.jit import clock

PairValues = NDArray[np.float64]  # one number for each pair i < j

MAX_SLACK = 0.2  # stars with more slack are dropped
_METHODS = ("highs-ipm", "highs-ds")  # the second, up to eight times slower, where the first fails
_TOLERANCES = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
_POLL_SECONDS = 0.1  # between two checks for Ctrl-C


class Relaxation(NamedTuple):
    """A solution of the linear program."""

    x: PairValues  # 0 to 1: how much a pair is together
    bound: float  # upper bound on the inside of every clustering
    reduced: PairValues  # reduced costs: change of the bound by a pair that is together


class StarProgram:
    """Maximise weights * x over the pairs of n nodes, subject to the stars added so far."""

    def __init__(self, weights: PairValues, n: int) -> None:
        self.weights = weights
        self.stars: list[Star] = []
        i, j = np.triu_indices(n, 1)
        self._number = np.zeros((n, n), dtype=np.int64)  # of a pair
        self._number[i, j] = self._number[j, i] = np.arange(len(i))
        self._scale = float(np.abs(weights).max(initial=0.0)) or 1.0
        self._rows = csr_array((0, len(weights)))  # one per star, with right-hand side 1

    def add(self, stars: list[Star]) -> None:
        pairs: list[int] = []
        signs: list[float] = []
        ends = [0]
        for hub, *members in stars:
            among = list(combinations(members, 2))
            pairs += [self._number[hub, v] for v in members] + [self._number[pair] for pair in among]
            signs += [1.0] * len(members) + [-1.0] * len(among)
            ends.append(len(pairs))
        rows = csr_array((signs, pairs, ends), shape=(len(stars), len(self.weights)))
        self._rows = vstack([self._rows, rows], format="csr")
        self.stars += stars

    def drop_slack(self, x: PairValues) -> None:
        """Drop the stars with much slack at x, so that the program stays small."""
        tight = np.flatnonzero(self._rows @ x >= 1 - MAX_SLACK)
        self._rows = self._rows[tight]
        self.stars = [self.stars[row] for row in tight.tolist()]

    def solve(self, lower: PairValues, upper: PairValues, deadline: float | None) -> Relaxation:
        """Return the best x between lower and upper; after the deadline, one that ignores the stars."""
        no_prices = np.zeros(self._rows.shape[0])
        for method in _METHODS:
            left = np.inf if deadline is None else deadline - clock()
            if left <= 0:
                break
            answer = _interruptible_linprog(
                c=-self.weights / self._scale,
                A_ub=self._rows,
                b_ub=no_prices + 1.0,
                bounds=np.stack([lower, upper], axis=1),
                method=method,
                options={**_TOLERANCES, "time_limit": left},
            )
            if answer.status == 0:
                prices = np.maximum(-self._scale * answer.ineqlin.marginals, 0.0)
                return self._priced(np.clip(answer.x, lower, upper), prices, lower, upper)
        return self._priced(np.where(self.weights > 0, upper, lower), no_prices, lower, upper)

    def _priced(
        self, x: PairValues, prices: PairValues, lower: PairValues, upper: PairValues
    ) -> Relaxation:
        """For prices >= 0 and any clustering y: weights y <= sum of prices + (weights - prices rows) y."""
        reduced = self.weights - self._rows.T @ prices
        bound = prices.sum() + np.maximum(reduced * lower, reduced * upper).sum()
        terms = 64 + int(np.bincount(self._rows.indices, minlength=1).max())  # of the longest sum, or less
        magnitude = np.abs(self.weights).sum() + prices @ np.diff(self._rows.indptr)
        return Relaxation(x, float(bound + terms * np.finfo(np.float64).eps * magnitude), reduced)


def _interruptible_linprog(**arguments: Any) -> Any:
    """Return what `linprog` returns; it runs in a thread of its own, while this one checks for Ctrl-C.

    HiGHS releases the GIL but cannot be stopped. After Ctrl-C it runs to its end, and only the end of the
    process waits for it: a C++ thread that outlives the interpreter would crash.
    """
    pool = ThreadPoolExecutor(1)
    future = pool.submit(linprog, **arguments)
    pool.shutdown(wait=False)
    while not future.done():
        threads.check_stop()
        wait([future], _POLL_SECONDS)
    return future.result()
