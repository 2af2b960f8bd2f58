"""Candidates of the strictness of a local threshold, and how they are compared.

Every candidate is a plain problem, solved by the core. What is compared is a score that uses no labels: the
silhouette (are items more similar to their own cluster than to the next one?) times the agreement with a
neighbouring candidate (does a slightly different strictness change much?). `clearest.py` and `target.py`
decide which candidates are tried.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import core
from clusterfug.costs.local import as_items
from clusterfug.costs.models import Alpha, Local, local_column
from clusterfug.execution.jit import Progress
from clusterfug.execution.plan import Execution
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import Clustering, agreement
from clusterfug.selection.items import Items, items_of, silhouette
from clusterfug.solvers import Solver, make_solver


@dataclass(frozen=True, eq=False)
class Choice:
    """Why this strictness: what was tried, and how it did.

    Attributes
    ----------
    strictness : float
        The one chosen. With ``n_clusters=`` it may be between candidates, and negative if clusters that are
        not similar at all had to be joined.
    candidates : float64 array of shape (c,)
        The strictness of each candidate, rising; empty if the strictness was given.
    n_clusters : int64 array of shape (c,)
    silhouette : float64 array of shape (c,)
        From -1 to 1: how much more similar items are to their own cluster than to the next.
    agreement : float64 array of shape (c - 1,)
        Adjusted Rand index between each candidate and the next: their stability.
    scores : float64 array of shape (c,)
        Silhouette times the agreement with a neighbour, the better of the two. 0 if there is none.
    alpha : float64 array of shape (n,)
        The affinity strengths of the chosen problem: ``objective(X, labels, alpha=choice.alpha)``
        (and ``prefer="large"`` if the strictness is negative).
    target : (low, high) or None
        The number of clusters asked for.
    met : bool
        Whether the clustering has that number; True if none was asked for.
    reason : str
        One sentence.
    """

    strictness: float
    candidates: NDArray[np.float64]
    n_clusters: NDArray[np.int64]
    silhouette: NDArray[np.float64]
    agreement: NDArray[np.float64]
    scores: NDArray[np.float64]
    alpha: NDArray[np.float64]
    target: tuple[int, int] | None
    met: bool
    reason: str

    def rows(self) -> list[dict[str, Any]]:
        """The table: one dictionary per candidate; agreement is with the next."""
        columns = {
            "strictness": self.candidates.tolist(),
            "n_clusters": self.n_clusters.tolist(),
            "silhouette": self.silhouette.tolist(),
            "agreement": [*self.agreement.tolist(), None][: len(self.candidates)],
            "score": self.scores.tolist(),
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class Candidate(NamedTuple):
    strictness: float
    result: Clustering
    silhouette: float

    @property
    def labels(self) -> NDArray[np.int64]:
        return self.result.labels

    @property
    def n_clusters(self) -> int:
        return self.result.n_clusters


class StrictnessSearch:
    """The items, and the candidates solved so far."""

    def __init__(
        self,
        problem: FeatureProblem,
        solver: Solver,
        execution: Execution,
        bound: bool,
        callback: Progress | None,
    ) -> None:
        self.given, self.solver, self.execution, self.bound = problem, solver, execution, bound
        self.callback = callback
        self.items: Items = items_of(problem, execution.device)
        self.tried: list[Candidate] = []  # by rising strictness
        self.init = getattr(solver, "init", None)

    def problem(self, strictness: float) -> FeatureProblem:
        """Return the problem at a strictness, whose costs are known."""
        column = local_column(self.items.around.similarity, strictness)
        costs = Alpha(column.values, "small" if column.sign < 0 else "large")
        return replace(self.given, X=self.items.features, costs=costs, is_prepared=True)

    def solve(self, strictness: float, solver: Solver, bound: bool = False) -> Clustering:
        """Return the clustering at a strictness."""
        problem = self.problem(strictness)
        return core.execute(problem, solver, self.execution, bound=bound, callback=self.callback)

    def attempt(self, strictness: float, solver: Solver) -> Candidate:
        """Solve and keep one more candidate."""
        result = self.solve(strictness, solver)
        found = Candidate(strictness, result, silhouette(self.items, result.labels))
        self.tried = sorted([*self.tried, found], key=lambda candidate: candidate.strictness)
        return found

    def fast(self, init: Any = None) -> Solver:
        """Return the solver of candidates."""
        return make_solver("fast", init=init, time_limit=self.solver.given_seconds)

    def agreement(self) -> NDArray[np.float64]:
        """Return the agreement of every candidate with the next."""
        weight = as_items(self.items.weight)
        return np.array([agreement(a.labels, b.labels, weight) for a, b in pairwise(self.tried)])

    def scores(self) -> dict[float, float]:
        """Return by strictness: silhouette times the larger agreement with the candidates beside it."""
        stable = np.concatenate([[0.0], self.agreement(), [0.0]]).tolist()
        return {c.strictness: c.silhouette * max(stable[i : i + 2]) for i, c in enumerate(self.tried)}

    def final(self, strictness: float, reason: str, init: Any = None) -> Clustering:
        """Return the result at a strictness, by the solver that was asked for and with all its options."""
        result = self.solve(strictness, self.solver_from(init), self.bound)
        return self.chosen(result, strictness, reason)

    def solver_from(self, init: Any) -> Solver:
        """Return the solver that was asked for, starting from labels if it can."""
        if "init" not in self.solver.options():
            return self.solver
        return replace(self.solver, init=init)  # type: ignore[call-arg]

    def chosen(
        self,
        result: Clustering,
        strictness: float,
        reason: str,
        target: tuple[int, int] | None = None,
        met: bool = True,
    ) -> Clustering:
        """Return the result with the choice and the costs that were solved."""
        choice = Choice(
            strictness=strictness,
            candidates=np.array([c.strictness for c in self.tried], dtype=np.float64),
            n_clusters=np.array([c.n_clusters for c in self.tried], dtype=np.int64),
            silhouette=np.array([c.silhouette for c in self.tried]),
            agreement=self.agreement(),
            scores=np.array(list(self.scores().values())),
            alpha=self.items.alpha(strictness),
            target=target,
            met=met,
            reason=reason,
        )
        costs = Local(strictness, getattr(self.given.costs, "n_neighbors", None))
        return replace(result, choice=choice, costs=costs)
