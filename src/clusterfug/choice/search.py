"""What is tried, and what becomes of it.

Every candidate is a plain problem, solved on whatever road it takes. What is compared is a score that knows
no labels: the silhouette (are items more similar to their own cluster than to the next one?) times the
agreement with a neighbouring candidate (does a little more strictness change much?).
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.choice.items import Items, items_of, silhouette
from clusterfug.kernels import Progress
from clusterfug.options import OURS, Task
from clusterfug.result import Clustering, agreement
from clusterfug.solve import dense_multicut
from clusterfug.strength import as_items

if TYPE_CHECKING:
    import torch

_OPTIONS = ("refine", "k", "ann", "max_iter", "random_state", "bound")  # of the run that is returned


@dataclass(frozen=True, eq=False)
class Choice:
    """Why this strictness: what was tried, and how it did.

    Attributes
    ----------
    strictness : float
        The one chosen. With ``n_clusters=`` it may be between candidates, and negative if clusters that are
        not similar at all had to be joined.
    candidates : float64 array of shape (c,)
        The strictness of each candidate, rising; empty if the strictness was told.
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
    wish : (low, high) or None
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
    wish: tuple[int, int] | None
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


class Search:
    """The items, and the candidates so far."""

    def __init__(self, X: Any, task: Task, place: "torch.device | None", callback: Progress | None) -> None:
        self.task = task
        self.items: Items = items_of(X, task, place)
        self.tried: list[Candidate] = []  # by rising strictness
        self.everywhere = {
            "sample_weight": task.sample_weight,
            "time_limit": task.refinement.given_time,
            "device": place or "cpu",
            "callback": callback,
        }
        self.limits = {"precision": task.precision, "memory_limit": task.memory_limit}

    def solve(self, strictness: float, algorithm: str, **options: Any) -> Clustering:
        """The clustering at a strictness."""
        options |= self.everywhere | self.limits
        alpha = self.items.alpha(strictness)
        return dense_multicut(self.items.features, alpha=alpha, algorithm=algorithm, **options)

    def attempt(self, strictness: float, algorithm: str = "fast", init: Any = None) -> Candidate:
        """One candidate more."""
        result = self.solve(strictness, algorithm, init=init, random_state=self.task.random_state)
        found = Candidate(strictness, result, silhouette(self.items, result.labels))
        self.tried = sorted([*self.tried, found], key=lambda candidate: candidate.strictness)
        return found

    def agreement(self) -> NDArray[np.float64]:
        """Of every candidate with the next."""
        weight = as_items(self.items.weight)
        return np.array([agreement(a.labels, b.labels, weight) for a, b in pairwise(self.tried)])

    def scores(self) -> dict[float, float]:
        """By strictness: silhouette times the better of the agreements with the candidates beside."""
        stable = np.concatenate([[0.0], self.agreement(), [0.0]]).tolist()
        return {c.strictness: c.silhouette * max(stable[i : i + 2]) for i, c in enumerate(self.tried)}

    def final(self, strictness: float, reason: str, init: Any = None) -> Clustering:
        """The result at a strictness, by the algorithm that was asked for and with all its options."""
        options = {name: getattr(self.task, name) for name in _OPTIONS}
        if self.task.algorithm in (*OURS, "exact"):
            options["init"] = init
        return self.chosen(self.solve(strictness, self.task.algorithm, **options), strictness, reason)

    def chosen(self, result: Clustering, strictness: float, reason: str, met: bool = True) -> Clustering:
        """The result and why it is this one."""
        choice = Choice(
            strictness=strictness,
            candidates=np.array([c.strictness for c in self.tried], dtype=np.float64),
            n_clusters=np.array([c.n_clusters for c in self.tried], dtype=np.int64),
            silhouette=np.array([c.silhouette for c in self.tried]),
            agreement=self.agreement(),
            scores=np.array(list(self.scores().values())),
            alpha=self.items.alpha(strictness),
            wish=self.task.wish,
            met=met,
            reason=reason,
        )
        return replace(result, choice=choice)
