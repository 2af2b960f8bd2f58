"""threshold_path: the clusterings along a range of thresholds, the picture a person needs to choose one."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.kernels import Progress
from clusterfug.options import OURS
from clusterfug.result import INTERRUPTED, Clustering, agreement
from clusterfug.solve import dense_multicut

_AGAIN = ("time_limit", "device", "precision", "memory_limit")  # options of a second run from other labels


@dataclass(frozen=True, eq=False)
class ThresholdPath:
    """One clustering per threshold, rising. ``path[i]`` is the `Clustering` of ``path.thresholds[i]``.

    Attributes
    ----------
    thresholds : float64 array of shape (t,)
    results : tuple of Clustering
    agreement : float64 array of shape (t,)
        Adjusted Rand index with the clustering of the threshold before; NaN for the first. A stretch of
        high agreement means that the clusters do not depend much on the choice.
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
        """(t, n), one row per threshold."""
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
        """The table: one dictionary per threshold."""
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


def threshold_path(
    X: Any,
    thresholds: Any,
    *,
    sample_weight: Any = None,
    algorithm: str = "auto",
    callback: Progress | None = None,
    **options: Any,
) -> ThresholdPath:
    """Cluster the same items at several thresholds, each helped by its neighbours.

    Every threshold is solved on its own and then once more from the clusterings of the thresholds beside
    it; the best is kept. So no clustering is worse than solving its threshold alone. (One of the paper's
    algorithms without ``refine=True`` is left as it is.)

    Parameters
    ----------
    X : array or torch tensor of shape (n, d)
        One row of features per item, used as it is, as in `dense_multicut`.
    thresholds : array of shape (t,)
        Put in rising order; equal ones count once.
    sample_weight : array of shape (n,), optional
    algorithm : str, default="auto"
        As for `dense_multicut`, which also takes the other options (`time_limit` is per threshold).
    callback : callable, optional
        Called as ``callback("thresholds", done, t)`` after each.

    Returns
    -------
    ThresholdPath

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import threshold_path
    >>> X = np.array([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]])
    >>> threshold_path(X, [0.1, 0.7, 0.99]).n_clusters
    array([1, 3, 4])
    """
    for name in ("init", "n_clusters"):
        if name in options:
            raise ValueError(f"threshold_path brings its own init and thresholds: leave out {name}")
    values = np.unique(checks.vector("thresholds", thresholds))
    features = X if checks.on_gpu(X) else checks.features(X)
    warm = algorithm in OURS or bool(options.get("refine"))
    again = {name: options[name] for name in _AGAIN if name in options}

    def solve(i: int, **options: Any) -> Clustering:
        return dense_multicut(features, float(values[i]), sample_weight=sample_weight, **options)

    def no_worse(i: int, neighbour: Clustering) -> Clustering:
        """The result of threshold i, or a better one from the labels of a neighbour."""
        other = solve(i, algorithm="fast", init=neighbour.labels, **again)
        return replace(other, algorithm=algorithm) if other.inside > results[i].inside else results[i]

    results: list[Clustering] = []
    for i in range(len(values)):
        results.append(solve(i, algorithm=algorithm, **options))
        if results[i].trace[-1].name == INTERRUPTED:
            raise KeyboardInterrupt
        if warm and i > 0:
            results[i] = no_worse(i, results[i - 1])
        if callback is not None:
            callback("thresholds", len(results), len(values))
    for i in range(len(values) - 2, -1, -1):
        if warm:
            results[i] = no_worse(i, results[i + 1])
    return ThresholdPath(values, tuple(results), _agreement(results))


def _agreement(results: list[Clustering]) -> NDArray[np.float64]:
    return np.array([np.nan, *(agreement(a.labels, b.labels) for a, b in pairwise(results))])
