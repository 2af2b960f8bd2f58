"""One run of a solver: the phases it has passed, and the `Clustering` that comes of them."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.contraction.history import MERGE, labels_of_merges
from clusterfug.problem import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import Problem, Refined, refine
from clusterfug.refinement.strategies import STRATEGIES, or_all_together
from clusterfug.result import Clustering, Phase, compact, number_by_first_appearance

#: Seconds that `best` searches unless told otherwise.
TIME_LIMIT = 60.0
#: The last phase of a search that Ctrl-C ended.
INTERRUPTED = "interrupted"


class Refinement:
    """The options of refinement, validated: those that do not go with the algorithm are errors."""

    def __init__(
        self,
        algorithm: str,
        refine: bool = False,
        init: Any = None,
        time_limit: float | None = None,
        max_iter: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.algorithm = algorithm
        ours = algorithm in STRATEGIES
        self.wanted = checks.flag("refine", refine) or ours
        if init is not None and not ours:
            raise ValueError(f"init goes with {', '.join(STRATEGIES)}, not with {algorithm}: leave it out")
        self.init = init
        if time_limit is not None and not self.wanted:
            raise ValueError(f"time_limit goes with refinement: use refine=True with {algorithm}")
        if time_limit is not None and time_limit != np.inf:
            time_limit = checks.number("time_limit", time_limit, 0.0)
        if max_iter is not None:
            max_iter = checks.count("max_iter", max_iter, 0)
            if algorithm != "best":
                raise ValueError(f"max_iter goes with best, not with {algorithm}: leave it out")
        if algorithm == "best" and time_limit is None and max_iter is None:
            time_limit = TIME_LIMIT
        self.time_limit, self.max_iter = time_limit, max_iter
        self.rng = checks.generator("random_state", random_state)

    def budget(self) -> Budget:
        return Budget(self.time_limit, self.max_iter)

    def start(self, problem: Problem) -> NDArray[np.int64] | None:
        """The labels to start from, 0..K-1; None for singletons."""
        return None if self.init is None else compact(checks.labels(self.init, problem.n, "init"))


class Run:
    """Notes the time and the labels at the end of every phase."""

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm
        self.begin = time.perf_counter()
        self.passed: list[tuple[str, float, Refined]] = []

    def passes(self, name: str, refined: Refined) -> None:
        """The end of a phase, or a later end of the last one."""
        phase = (name, time.perf_counter(), refined)
        if self.passed and self.passed[-1][0] == name:
            self.passed[-1] = phase
        else:
            self.passed.append(phase)

    def contracted(self, problem: Problem, merges: NDArray[np.void], options: Refinement) -> Clustering:
        """The clustering of a contraction history, refined if that is wanted."""
        labels = labels_of_merges(problem.n, merges)
        self.passes("contraction", Refined(labels, False, False))
        if options.wanted:
            labels = or_all_together(problem, labels)
            self.passes("refinement", refine(problem, labels, options.budget()))
        return self._clustering(problem, merges, 0)

    def strategy(self, problem: Problem, options: Refinement, progress: Any) -> Clustering:
        """The clustering of one of our own algorithms; Ctrl-C ends the search of `best` early."""
        steps = STRATEGIES[self.algorithm]
        init, budget = options.start(problem), options.budget()
        try:
            for name, refined in steps(problem, init, budget, options.rng, progress):
                self.passes(name, refined)
        except KeyboardInterrupt:
            if self.algorithm != "best" or not self.passed:
                raise
            self.passes(INTERRUPTED, Refined(self.passed[-1][2].labels, False, False))
        return self._clustering(problem, np.empty(0, dtype=MERGE), budget.iterations)

    def _clustering(self, problem: Problem, merges: NDArray[np.void], n_iter: int) -> Clustering:
        """Cost the labels and say how they came about."""
        trace = []
        last = self.begin
        for name, end, refined in self.passed:
            labels = number_by_first_appearance(refined.labels)
            if isinstance(problem, DenseProblem):
                labels = problem.label_weightless(labels)
            inside = problem.inside(labels)
            objective, count = problem.all_singletons - inside, int(labels.max()) + 1
            trace.append(Phase(name, end - last, count, objective, *refined[1:]))
            last = end
        return Clustering(
            labels=labels,
            objective=objective,
            inside=inside,
            merges=merges,
            algorithm=self.algorithm,
            n_iter=n_iter,
            seconds=time.perf_counter() - self.begin,
            trace=tuple(trace),
        )
