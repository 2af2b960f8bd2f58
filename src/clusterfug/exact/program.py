"""The linear program: the most that stars allow to be inside clusters, and a bound that is safe.

HiGHS solves it to its tolerances. A bound takes nothing from its answer but the prices of the inequalities:
whatever they are, weak duality makes a bound of them, in float64 and with a margin for rounding.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from itertools import combinations
from threading import Thread
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from clusterfug.exact.stars import Star

Pairs = NDArray[np.float64]  # one number for each pair i < j

_METHODS = ("highs-ipm", "highs-ds")  # the second if the first fails: it needs up to eight times as long
_TOLERANCES = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}
_NEAR = 0.2  # stars with more room than this are forgotten
_WAIT = 0.1  # seconds between two looks at what the caller wants


class Relaxed(NamedTuple):
    """An answer of the linear program."""

    x: Pairs  # how much a pair is together, 0 to 1
    bound: float  # on what any clustering has inside
    reduced: Pairs  # what the bound gains by a pair that is together


class Program:
    """Maximise weights * x over the pairs of n nodes, as far as the stars allow."""

    def __init__(self, weights: Pairs, n: int) -> None:
        self.weights = weights
        self.stars: list[Star] = []
        i, j = np.triu_indices(n, 1)
        self._number = np.zeros((n, n), dtype=np.int64)  # of a pair
        self._number[i, j] = self._number[j, i] = np.arange(len(i))
        self._scale = float(np.abs(weights).max(initial=0.0)) or 1.0
        self._rows = csr_array((0, len(weights)))  # one for each star; each is at most 1

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

    def forget_far(self, x: Pairs) -> None:
        """Drop the stars that x is far from: the program stays small, and they can be found again."""
        near = np.flatnonzero(self._rows @ x >= 1 - _NEAR)
        self._rows = self._rows[near]
        self.stars = [self.stars[row] for row in near.tolist()]

    def solve(
        self, lower: Pairs, upper: Pairs, deadline: float | None, look: Callable[[], None]
    ) -> Relaxed:
        """The best x between lower and upper; if the time is up before, one that ignores the stars."""
        no_prices = np.zeros(self._rows.shape[0])
        for method in _METHODS:
            left = np.inf if deadline is None else deadline - time.perf_counter()
            if left <= 0:
                break
            task = partial(
                linprog,
                c=-self.weights / self._scale,
                A_ub=self._rows,
                b_ub=no_prices + 1.0,
                bounds=np.stack([lower, upper], axis=1),
                method=method,
                options={**_TOLERANCES, "time_limit": left},
            )
            answer = _patiently(task, look)
            if answer.status == 0:
                prices = np.maximum(-self._scale * answer.ineqlin.marginals, 0.0)
                return self._priced(np.clip(answer.x, lower, upper), prices, lower, upper)
        return self._priced(np.where(self.weights > 0, upper, lower), no_prices, lower, upper)

    def _priced(self, x: Pairs, prices: Pairs, lower: Pairs, upper: Pairs) -> Relaxed:
        """For prices >= 0 and any clustering y: weights y <= sum of prices + (weights - prices rows) y."""
        reduced = self.weights - self._rows.T @ prices
        bound = prices.sum() + np.maximum(reduced * lower, reduced * upper).sum()
        terms = 64 + int(np.bincount(self._rows.indices, minlength=1).max())  # of the longest sum, or less
        magnitude = np.abs(self.weights).sum() + prices @ np.diff(self._rows.indptr)
        return Relaxed(x, float(bound + terms * np.finfo(np.float64).eps * magnitude), reduced)


def _patiently(task: Callable[[], Any], look: Callable[[], None]) -> Any:
    """What the task returns; it has a thread of its own, and this one looks up now and then.

    HiGHS lets other threads run but cannot be told to stop. After Ctrl-C it is left to its end, and only
    the end of the process waits for it: a thread of C++ that outlives Python would crash.
    """
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(task())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=work, daemon=False).start()
    while not future.done():
        look()
        wait([future], _WAIT)
    return future.result()
