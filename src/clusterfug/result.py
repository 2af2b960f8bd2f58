"""What a solver returns: the clustering, what it costs, and how it came about."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: One record per contraction: node j was merged into node i (i < j) at this cost. A node is named by
#: the lowest item in it.
MERGE = np.dtype([("i", np.int64), ("j", np.int64), ("cost", np.float64)])
#: The last phase of a search that Ctrl-C ended.
INTERRUPTED = "interrupted"


class Phase(NamedTuple):
    """One step of the road: what it was, how long it took and where it arrived."""

    name: str
    seconds: float
    n_clusters: int
    objective: float
    move_optimal: bool = False  # no single item can improve the clustering by moving
    join_optimal: bool = False  # no two clusters can improve it by joining
    passes: float | None = None  # searches for neighbours so far, in all pairs of items; only on a GPU


@dataclass(frozen=True, eq=False)
class Clustering:
    """A clustering and its certificate of cost.

    Attributes
    ----------
    labels : int64 array of shape (n,)
        Cluster of each item, 0..n_clusters-1, numbered by first appearance.
    objective : float
        Total cost of the pairs the clustering separates, recomputed in float64 from the labels.
    inside : float
        What was gained over cutting every pair: the total cost of the pairs kept together.
    merges : structured array with fields i, j, cost
        The contraction history: ``for i, j, cost in result.merges``. Empty for "auto", "fast" and "best".
    algorithm : str
    n_iter : int
        Iterations of the search of "best"; 0 for the others.
    seconds : float
        Wall time of the whole run.
    trace : tuple of Phase
        Seconds, clusters and objective after each phase; and whether it is certain that no single move
        and no single join improves the clustering (``trace[-1].move_optimal``, ``join_optimal``).
    """

    labels: NDArray[np.int64]
    objective: float
    inside: float
    merges: NDArray[Any]
    algorithm: str
    n_iter: int
    seconds: float
    trace: tuple[Phase, ...]

    @property
    def n_clusters(self) -> int:
        return int(self.labels.max()) + 1

    def __repr__(self) -> str:
        return (
            f"Clustering(items={len(self.labels)}, n_clusters={self.n_clusters}, "
            f"objective={self.objective:.2f}, inside={self.inside:.2f}, "
            f"algorithm={self.algorithm!r}, seconds={self.seconds:.2f})"
        )


def compact(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The same clustering with labels 0..K-1, in the order of the old ones."""
    return np.unique(labels, return_inverse=True)[1]


def number_by_first_appearance(labels: NDArray[Any]) -> NDArray[np.int64]:
    """The same clustering with labels 0..K-1 in the order in which clusters first appear."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse]
