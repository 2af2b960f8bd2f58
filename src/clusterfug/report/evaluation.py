"""Evaluation of clusterings: sizes, agreement with known classes, and cost.

`clusterfug evaluate` prints it.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.result import compact

if TYPE_CHECKING:
    from clusterfug.problems.protocol import Problem

#: Label of noise in a clustering (each item a cluster of its own), and of an unknown class in the truth.
NO_LABEL = -1


@dataclass(frozen=True)
class Sizes:
    """Number and sizes of clusters, or of classes."""

    n: int
    n_clusters: int
    singletons: int
    largest: int
    mean_size: float


@dataclass(frozen=True)
class SizeBin:
    """Number of clusters of `first` to `last` items, and the items in them."""

    first: int
    last: int
    clusters: int
    items: int


@dataclass(frozen=True)
class Scores:
    """Agreement with known classes: 1 is perfect. AMI and ARI are 0 for chance, the others are not."""

    nmi: float
    ami: float
    ari: float
    v_measure: float  # the same as NMI, as the mean of the two below
    homogeneity: float  # 1: no cluster has items of two classes
    completeness: float  # 1: no class is spread over two clusters


@dataclass(frozen=True)
class Cost:
    """Cost of the clustering as a multicut."""

    objective: float
    inside: float
    all_singletons: float  # objective of the clustering that cuts every pair


@dataclass(frozen=True)
class Evaluation:
    """Result of `evaluate`. `truth` and `scores` need known classes, `cost` needs a problem."""

    sizes: Sizes
    noise: int  # items of label -1, each counted as a cluster of its own
    histogram: tuple[SizeBin, ...]
    truth: Sizes | None = None
    unlabelled: int | None = None  # items of class -1, left out of the comparison
    scores: Scores | None = None
    cost: Cost | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return all entries but truth and histogram on one level, without those that are not known."""
        parts = (asdict(part) for part in (self.sizes, self.scores, self.cost) if part is not None)
        flat = {key: value for part in parts for key, value in part.items()}
        flat |= {"noise": self.noise, "histogram": [asdict(part) for part in self.histogram]}
        if self.truth is not None:
            flat["truth"] = asdict(self.truth) | {"unlabelled": self.unlabelled}
        return flat


def evaluate(labels: Any, truth: Any = None, problem: "Problem | None" = None) -> Evaluation:
    """Return the sizes of a clustering, its agreement with known classes, and its cost.

    Parameters
    ----------
    labels : integer array of shape (n,)
        One label per item. An item of label -1 (noise) is a cluster of its own.
    truth : integer array of shape (n,), optional
        The known class of each item. An item of class -1 is left out of the comparison.
    problem : DenseProblem or GraphProblem, optional
        Defines the cost of the clustering.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> from clusterfug.report.evaluation import evaluate
    >>> found = evaluate([0, 0, 1, 1, -1], truth=[7, 7, 8, 8, -1])
    >>> found.sizes.n_clusters, found.unlabelled, found.scores.ari
    (3, 1, 1.0)
    """
    if not np.size(labels):
        raise ValueError("labels has no entries: there is nothing to evaluate")
    given = checks.labels(labels, np.size(labels))
    if problem is not None and problem.n != len(given):
        raise ValueError(f"labels has {len(given)} entries, but the problem has {problem.n} items")
    known = None
    if truth is not None:
        truth = checks.labels(truth, len(given), "truth")
        known = truth != NO_LABEL
        if not known.any():
            raise ValueError("truth is -1 everywhere: there is nothing to compare with")
    clusters = _with_single_noise(given)
    cost = None
    if problem is not None:
        inside, objective = problem.costs_of(clusters)
        cost = Cost(objective, inside, problem.all_singletons)
    return Evaluation(
        sizes=_sizes(clusters),
        noise=int(np.count_nonzero(given == NO_LABEL)),
        histogram=_histogram(clusters),
        truth=None if known is None else _sizes(compact(truth[known])),
        unlabelled=None if known is None else int(np.count_nonzero(~known)),
        scores=None if known is None else _scores(truth[known], clusters[known]),
        cost=cost,
    )


def _with_single_noise(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return labels 0..K-1 in which every item of noise is a cluster of its own."""
    clusters = compact(labels)
    noise = np.flatnonzero(labels == NO_LABEL)
    clusters[noise] = clusters.max() + 1 + np.arange(len(noise))
    return compact(clusters)


def _sizes(clusters: NDArray[np.int64]) -> Sizes:
    sizes = np.bincount(clusters)
    return Sizes(
        n=len(clusters),
        n_clusters=len(sizes),
        singletons=int(np.count_nonzero(sizes == 1)),
        largest=int(sizes.max()),
        mean_size=len(clusters) / len(sizes),
    )


def _histogram(clusters: NDArray[np.int64]) -> tuple[SizeBin, ...]:
    """Count clusters of 1, 2-3, 4-7, ... items, up to the largest."""
    sizes = np.bincount(clusters)
    power = np.frexp(sizes)[1] - 1  # 2**power <= size < 2**(power + 1)
    counts = np.bincount(power)
    items = np.bincount(power, weights=sizes)
    return tuple(SizeBin(2**p, 2 ** (p + 1) - 1, int(counts[p]), int(items[p])) for p in range(len(counts)))


def _scores(truth: NDArray[np.int64], clusters: NDArray[np.int64]) -> Scores:
    from sklearn import metrics

    homogeneity, completeness, v_measure = metrics.homogeneity_completeness_v_measure(truth, clusters)
    return Scores(
        nmi=float(v_measure),  # equal by definition
        ami=float(metrics.adjusted_mutual_info_score(truth, clusters)),
        ari=float(metrics.adjusted_rand_score(truth, clusters)),
        v_measure=float(v_measure),
        homogeneity=float(homogeneity),
        completeness=float(completeness),
    )
