"""One run of a solver: the phases it has passed, and the `Clustering` that comes of them."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.history import labels_of_merges
from clusterfug.options import Refinement, check_exact
from clusterfug.problem import DenseProblem
from clusterfug.refinement.multilevel import Problem, Refined, refine
from clusterfug.refinement.strategies import STRATEGIES, or_all_together
from clusterfug.result import INTERRUPTED, MERGE, Clustering, Phase, number_by_first_appearance

_LAST = 1.0  # seconds for a bound of triangles when the time of `exact` is up


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
        init, budget = options.start(problem.n), options.budget()
        try:
            for name, refined in steps(problem, init, budget, options.rng, progress):
                self.passes(name, refined)
        except KeyboardInterrupt:
            if self.algorithm != "best" or not self.passed:
                raise
            self.passes(INTERRUPTED, Refined(self.passed[-1][2].labels, False, False))
        return self._clustering(problem, np.empty(0, dtype=MERGE), budget.iterations)

    def exact(self, problem: Problem, options: Refinement, progress: Any) -> Clustering:
        """The best clustering and the proof, or what is known of it when the time is up."""
        from clusterfug.bounds.bound import lower_bound
        from clusterfug.bounds.certificate import LowerBound
        from clusterfug.bounds.exact import prove
        from clusterfug.bounds.pairs import cost_error

        check_exact(problem.n)
        init, budget = options.start(problem.n), options.budget()
        for name, refined in STRATEGIES["auto"](problem, init, budget, options.rng, progress):
            self.passes(name, refined)
        nodes = np.arange(problem.n)
        deadline = time.perf_counter() + budget.left()
        try:
            proof = prove(problem.group_costs(nodes, nodes), refined.labels, deadline=deadline)
        except KeyboardInterrupt:
            self.passes(INTERRUPTED, Refined(refined.labels, False, False))
            return self._clustering(problem, np.empty(0, dtype=MERGE), 0)
        self.passes("exact", Refined(proof.labels, proof.optimal, proof.optimal))
        found = self._clustering(problem, np.empty(0, dtype=MERGE), 0)
        value = proof.bound - 2 * cost_error(problem)
        rounding = max(0.0, found.objective - value) if proof.optimal else 0.0
        bound = LowerBound(value, rounding, "exact", None, found.trace[-1].seconds)
        if not proof.optimal:
            bound = max(bound, lower_bound(problem, time_limit=_LAST), key=float)
        return replace(found, bound=bound)

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
