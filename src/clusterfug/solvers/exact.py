"""The solver "exact": branch and cut after `auto`. The proof is in `exact/`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import clock
from clusterfug.result import INTERRUPTED, compact
from clusterfug.solvers.base import Context, starting_labels
from clusterfug.solvers.local_search import TIME_LIMIT, RandomSearch

if TYPE_CHECKING:
    from clusterfug.problems.protocol import Problem
    from clusterfug.refinement.budget import Budget

#: Items of which a proof is attempted, at most.
MAX_ITEMS = 300
_LAST_BOUND_SECONDS = 1.0  # for a bound by triangles when the time limit ended the proof


@dataclass(frozen=True, kw_only=True)
class Exact(RandomSearch):
    """The optimum, proven by branch and cut; if the time limit ends it, the best so far and a bound."""

    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = "the optimum, proven by branch and cut: about 80 items, 300 at most"
    memory: ClassVar[str] = "n²"
    proves_optimality: ClassVar[bool] = True

    def check(self, n: int) -> None:
        if n > MAX_ITEMS:
            raise ValueError(f"exact is for at most {MAX_ITEMS} items, not {n}: use best with bound=True")
        starting_labels(self.init, n)

    def budget(self, objective_bound: float = -np.inf) -> "Budget":
        from clusterfug.refinement.budget import Budget

        return Budget(TIME_LIMIT if self.time_limit is None else self.time_limit, None, objective_bound)

    def run(self, problem: "Problem", context: Context) -> None:
        from clusterfug.bounds.certificate import LowerBound
        from clusterfug.bounds.compute import bound_problem
        from clusterfug.exact.prove import prove
        from clusterfug.refinement.budget import Budget
        from clusterfug.refinement.multilevel import refine
        from clusterfug.refinement.strategies import STRATEGIES, Start

        record, budget = context.record, self.budget()
        init = starting_labels(self.init, problem.n)
        start = Start(problem, init, budget, self.generator, context.progress)
        for phase, refined in STRATEGIES["auto"](start):
            record.phase(phase, *refined)
        nodes = np.arange(problem.n)
        costs = problem.group_costs(nodes, nodes)
        deadline = clock() + budget.left()
        try:
            proof = prove(
                costs.constrained,
                record.labels,
                counted=costs.costs,
                errors=self._errors(problem),
                deadline=deadline,
            )
        except KeyboardInterrupt:
            record.phase(INTERRUPTED, record.labels)
            return
        # The proof is of rounded costs: gains that are small beside other costs may be left.
        refined = refine(problem, compact(proof.labels), Budget(budget.left()))
        record.phase("exact", *refined)
        error = 2 * problem.cost_error(proof.open_pairs)
        # An objective within twice the rounding of the bound counts as optimal.
        bound = LowerBound(
            proof.bound - error, error + proof.rounding / 2, "exact", None, record.last_seconds
        )
        if not proof.optimal:
            bound = max(bound, bound_problem(problem, time_limit=_LAST_BOUND_SECONDS), key=float)
        record.bound = bound

    @staticmethod
    def _errors(problem: "Problem") -> NDArray[np.float64]:
        """Return upper bounds on the rounding errors of the costs of all pairs, as a symmetric matrix."""
        i, j = np.triu_indices(problem.n, 1)
        errors = np.zeros((problem.n, problem.n))
        errors[i, j] = errors[j, i] = problem.pair_errors(np.stack([i, j], axis=1))
        return errors
