"""`Choice`, the strictness that was selected and why; the score by which candidates are compared.

Every candidate is a problem with known costs, solved by the core. Its score is unsupervised: the silhouette
(are items more similar to their own cluster than to the next one?) times the agreement with a neighbouring
candidate (is the clustering stable under a slightly different strictness?). `auto.py` and `target.py`
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
from clusterfug.selection.items import selection_items, silhouette
from clusterfug.solvers import Solver, make_solver


@dataclass(frozen=True, eq=False)
class Choice:
    """The strictness of a local threshold, the candidates that were tried, and their scores.

    Attributes
    ----------
    strictness : float
        The selected one. With ``n_clusters=`` it may be between candidates, and negative if dissimilar
        clusters had to be joined.
    candidates : float64 array of shape (c,)
        The strictness of each candidate, rising; empty if the strictness was given.
    n_clusters : int64 array of shape (c,)
    silhouette : float64 array of shape (c,)
        From -1 to 1: how much more similar items are to their own cluster than to the next.
    agreement : float64 array of shape (c - 1,)
        Adjusted Rand index between each candidate and the next: their stability.
    scores : float64 array of shape (c,)
        Silhouette times the larger agreement with a neighbouring candidate; 0 if there is none.
    alpha : float64 array of shape (n,)
        Affinity strengths of the selected problem (with ``prefer="large"`` if the strictness is negative),
        for preprocessed features.
    target : (low, high) or None
        The requested number of clusters.
    met : bool
        Whether the clustering has that number; True if none was requested.
    reason : str
        Why this strictness was selected, in one sentence.
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
        """Return the table of candidates, one dictionary each; agreement is with the next one."""
        columns = {
            "strictness": self.candidates.tolist(),
            "n_clusters": self.n_clusters.tolist(),
            "silhouette": self.silhouette.tolist(),
            "agreement": [*self.agreement.tolist(), None][: len(self.candidates)],
            "score": self.scores.tolist(),
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


class Candidate(NamedTuple):
    """A strictness that was tried, with its clustering."""

    strictness: float
    result: Clustering
    silhouette: float

    @property
    def labels(self) -> NDArray[np.int64]:
        return self.result.labels

    @property
    def n_clusters(self) -> int:
        return self.result.n_clusters


@dataclass(eq=False)
class StrictnessSearch:
    """The search for a strictness: items, solver, execution, and the candidates solved so far."""

    given: FeatureProblem
    solver: Solver
    execution: Execution
    bound: bool
    callback: Progress | None

    def __post_init__(self) -> None:
        self.items = selection_items(self.given, self.execution.device)
        self.tried: list[Candidate] = []  # by rising strictness
        self.init = getattr(self.solver, "init", None)

    def problem(self, strictness: float) -> FeatureProblem:
        """Return the problem at a strictness, with known costs."""
        column = local_column(self.items.neighbourhood.similarity, strictness)
        costs = Alpha(column.values, "small" if column.sign < 0 else "large")
        return replace(self.given, X=self.items.features, costs=costs, is_prepared=True)

    def solve(self, strictness: float, solver: Solver, bound: bool = False) -> Clustering:
        """Return the clustering at a strictness."""
        problem = self.problem(strictness)
        return core.execute(problem, solver, self.execution, bound=bound, callback=self.callback)

    def cost(self, labels: NDArray[np.int64], strictness: float) -> tuple[float, float]:
        """Return inside and objective of labels at a strictness."""
        problem, device = self.problem(strictness), self.execution.device
        if device is None:
            return problem.resolved().costs_of(labels)
        from clusterfug.execution.torch.solve import cost_of_labels

        return cost_of_labels(problem, labels, self.execution)

    def add_candidate(self, strictness: float, solver: Solver) -> Candidate:
        """Solve one more candidate, keep and return it."""
        result = self.solve(strictness, solver)
        found = Candidate(strictness, result, silhouette(self.items, result.labels))
        self.tried = sorted([*self.tried, found], key=lambda candidate: candidate.strictness)
        return found

    def fast_solver(self, init: Any = None) -> Solver:
        """Return "fast", which solves candidates, with the time limit of the requested solver."""
        return make_solver("fast", init=init, time_limit=self.solver.given_seconds)

    def agreement(self) -> NDArray[np.float64]:
        """Return the agreement of every candidate with the next one."""
        weight = as_items(self.items.weight)
        return np.array([agreement(a.labels, b.labels, weight) for a, b in pairwise(self.tried)])

    def scores(self) -> dict[float, float]:
        """Return the scores by strictness: silhouette times the larger agreement with a neighbour."""
        stable = np.concatenate([[0.0], self.agreement(), [0.0]]).tolist()
        return {c.strictness: c.silhouette * max(stable[i : i + 2]) for i, c in enumerate(self.tried)}

    def solve_final(self, strictness: float, reason: str, init: Any = None) -> Clustering:
        """Return the clustering at a strictness by the requested solver, with its choice."""
        result = self.solve(strictness, self.solver_from(init), self.bound)
        return self.with_choice(result, strictness, reason)

    def solver_from(self, init: Any) -> Solver:
        """Return the requested solver, with initial labels if it has that option."""
        if "init" not in self.solver.options():
            return self.solver
        return replace(self.solver, init=init)  # type: ignore[call-arg]

    def with_choice(
        self,
        result: Clustering,
        strictness: float,
        reason: str,
        target: tuple[int, int] | None = None,
        met: bool = True,
    ) -> Clustering:
        """Return the result with its choice and the cost model that was solved."""
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
