"""Clusterings at several thresholds, for a user to select from. `api.threshold_path` calls `solve_path`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import core
from clusterfug.costs.models import Threshold
from clusterfug.execution.jit import Progress
from clusterfug.execution.plan import Execution
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import INTERRUPTED, Clustering, agreement
from clusterfug.solvers import Solver, make_solver


@dataclass(frozen=True, eq=False)
class ThresholdPath:
    """One clustering per threshold, rising. ``path[i]`` is the `Clustering` of ``path.thresholds[i]``.

    Attributes
    ----------
    thresholds : float64 array of shape (t,)
    results : tuple of Clustering
    agreement : float64 array of shape (t,)
        Adjusted Rand index with the clustering of the threshold before; NaN for the first. A range of
        high agreement means that clusters depend little on the threshold.
    """

    thresholds: NDArray[np.float64]
    results: tuple[Clustering, ...]
    agreement: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, i: int) -> Clustering:
        return self.results[i]

    def __iter__(self) -> Iterator[Clustering]:
        return iter(self.results)

    @property
    def labels(self) -> NDArray[np.int64]:
        """Labels of shape (t, n), one row per threshold."""
        return np.stack([result.labels for result in self.results])

    @property
    def n_clusters(self) -> NDArray[np.int64]:
        return np.array([result.n_clusters for result in self.results])

    @property
    def sizes(self) -> tuple[NDArray[np.int64], ...]:
        """Sizes of the clusters, largest first, per threshold."""
        return tuple(np.sort(np.bincount(result.labels))[::-1] for result in self.results)

    @property
    def objective(self) -> NDArray[np.float64]:
        return np.array([result.objective for result in self.results])

    @property
    def inside(self) -> NDArray[np.float64]:
        return np.array([result.inside for result in self.results])

    def rows(self) -> list[dict[str, Any]]:
        """Return the table of clusterings, one dictionary per threshold."""
        return [
            {
                "threshold": float(threshold),
                "n_clusters": result.n_clusters,
                "largest": int(sizes[0]),
                "alone": int(np.count_nonzero(sizes == 1)),
                "objective": result.objective,
                "inside": result.inside,
                "agreement": None if np.isnan(agreement) else float(agreement),
            }
            for threshold, result, sizes, agreement in zip(
                self.thresholds, self.results, self.sizes, self.agreement, strict=True
            )
        ]


def solve_path(
    problem: FeatureProblem,
    thresholds: Any,
    solver: Solver,
    execution: Execution,
    bound: bool,
    callback: Progress | None,
) -> ThresholdPath:
    """Return the clusterings of a problem at several thresholds; see `api.threshold_path`."""
    values = np.unique(thresholds)
    problem = problem.prepared(execution.device)

    def solve(i: int, solver: Solver, bound: bool = False) -> Clustering:
        at_threshold = problem.with_costs(Threshold(float(values[i])))
        return at_threshold.described(core.execute(at_threshold, solver, execution, bound=bound))

    def no_worse(i: int, neighbour: Clustering) -> Clustering:
        """Return the result of threshold i, or a better one from the labels of a neighbour."""
        other = solve(i, make_solver("fast", init=neighbour.labels, time_limit=solver.given_seconds))
        if other.objective >= results[i].objective:
            return results[i]
        return replace(other, algorithm=solver.name, bound=results[i].bound)

    results: list[Clustering] = []
    for i in range(len(values)):
        results.append(solve(i, solver, bound))
        if results[i].trace[-1].name == INTERRUPTED:
            raise KeyboardInterrupt
        if solver.refines and i > 0:
            results[i] = no_worse(i, results[i - 1])
        if callback is not None:
            callback("thresholds", len(results), len(values))
    for i in range(len(values) - 2, -1, -1):
        if solver.refines:
            results[i] = no_worse(i, results[i + 1])
    agreements = [np.nan, *(agreement(a.labels, b.labels) for a, b in pairwise(results))]
    return ThresholdPath(values, tuple(results), np.array(agreements))
