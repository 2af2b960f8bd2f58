"""What costs are made of beside features: one threshold, or an affinity strength (alpha) per item.

A local threshold is an affinity strength that follows from the features: an item that is very similar to
its nearest items asks for more similarity than one that lies alone. Nothing heavy is imported here, since
both roads, on the CPU and on a device, come by.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import blocks, checks

if TYPE_CHECKING:
    import torch

#: Share of the similarity to its neighbours at which an item is neutral, unless told otherwise.
STRICTNESS = 0.6
#: Neighbours that are asked, unless told otherwise; of few items two thirds at most.
NEIGHBOURS = 100
_OWN = 0.01  # share of the similarity to itself that an item's similarity to its neighbours is at least
_ROWS = 4096  # items at a time
_NEAR = 10  # the nearest neighbours are one in so many


class Costs(NamedTuple):
    """What defines the costs of features, as `DenseProblem` takes it."""

    threshold: Any = 0.4
    alpha: Any = None
    prefer: str = "small"
    sample_weight: Any = None
    strictness: float | None = None
    n_neighbors: int | None = None

    @property
    def is_local(self) -> bool:
        return self.alpha is None and isinstance(self.threshold, str) and self.threshold == "local"

    def check(self) -> None:
        """Errors that need no features."""
        checks.one_of("prefer", self.prefer, ("small", "large"))
        if self.alpha is None and not isinstance(self.threshold, str):
            checks.number("threshold", self.threshold)
        elif self.alpha is None and not self.is_local:
            if self.threshold == "auto":
                raise ValueError('threshold="auto" is for dense_multicut; here it is a number or "local"')
            raise ValueError(f'threshold must be a number, "local" or "auto", not {self.threshold!r}')
        if self.alpha is not None and isinstance(self.threshold, str):
            raise ValueError(
                f"alpha is used instead of a threshold: leave out threshold={self.threshold!r}"
            )
        if self.alpha is None and self.prefer == "large":
            raise ValueError('prefer="large" goes with alpha; use a negative threshold instead')
        for name in ("strictness", "n_neighbors"):
            if getattr(self, name) is not None and not self.is_local:
                raise ValueError(f'{name} goes with threshold="local": give that, or leave out {name}')
        if self.strictness is not None:
            checks.number("strictness", self.strictness, 0.0)
        if self.n_neighbors is not None:
            checks.count("n_neighbors", self.n_neighbors)


def usual_threshold(
    paper: bool, alpha: Any, strictness: float | None, n_neighbors: int | None, n_clusters: Any
) -> float | str:
    """What the threshold is where none is given: chosen, unless one of the paper's algorithms is named."""
    if alpha is not None:
        return 0.4
    if strictness is not None:
        return "local"
    return 0.4 if paper and n_neighbors is None and n_clusters is None else "auto"


class Neighbourhood(NamedTuple):
    """How similar items are to the items nearest to them."""

    similarity: NDArray[np.float64]  # (n,) mean similarity, and at least a hundredth of that to itself
    contrast: float  # how many times more similar the nearest tenth of the neighbours is
    squares: NDArray[np.float64]  # (n,) similarity to itself


def cost_columns(
    features: Any, costs: Costs, device: "torch.device | None" = None
) -> tuple[NDArray[np.float64], float, NDArray[np.float64]]:
    """The column of costs beside the features, its sign (or minus the threshold), and weights.

    A threshold is a column of ones with signature -threshold, rather than of sqrt(threshold) with -1: the
    same costs, without the rounding of a square root. Features are an array, or a tensor (and a device).
    """
    costs.check()
    n = len(features)
    weight = np.ones(n) if costs.sample_weight is None else checks.weights(costs.sample_weight, n)
    if costs.alpha is not None:
        return checks.per_item("alpha", costs.alpha, n), -1.0 if costs.prefer == "small" else 1.0, weight
    if not costs.is_local:
        return np.ones(n), -checks.number("threshold", costs.threshold), weight
    similarity = neighbourhood(features, weight, costs.n_neighbors, device).similarity
    strictness = STRICTNESS if costs.strictness is None else float(costs.strictness)
    return np.sqrt(strictness * similarity), -1.0, weight


def neighbourhood(
    features: Any,
    weight: NDArray[np.float64],
    n_neighbors: int | None,
    device: "torch.device | None" = None,
) -> Neighbourhood:
    """How similar every item is to its neighbours: those of weight 0 are nobody's, and have none."""
    present = np.flatnonzero(weight)
    weight = as_items(weight)
    m = n_neighbors or min(NEIGHBOURS, max(1, int(2 * weight.sum() / 3)))
    if device is None:
        means, nearer, squares = _on_host(features, weight, present, m)
    else:
        from clusterfug.gpu.neighbourhood import on_device

        means, nearer, squares = on_device(features, weight, present, m, device)
    similarity, own = np.zeros(len(weight)), np.zeros(len(weight))
    similarity[present], own[present] = np.maximum(means, _OWN * squares), squares
    total = (weight * similarity).sum()
    nearest = (weight[present] * np.maximum(nearer, _OWN * squares)).sum()
    return Neighbourhood(similarity, float(nearest / total) if total > 0 else 1.0, own)


def _on_host(
    features: NDArray[Any], weight: NDArray[np.float64], present: NDArray[np.int64], m: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Mean similarities to m neighbours and to the nearest of them, and squares, of the items present."""
    from clusterfug.neighbours.exact import nearest
    from clusterfug.problem import DenseProblem

    problem = DenseProblem(features if len(present) == len(features) else features[present], 0.0)
    weight = weight[present]
    squares = problem.own_costs[0]
    ids, similarities = nearest(problem, m)
    copies = np.maximum(weight - 1, 0.0)
    means, nearer = np.empty(problem.n), np.empty(problem.n)
    for part in blocks.slices(problem.n, _ROWS):
        similar = similarities[part], weight[ids[part]], copies[part], squares[part]
        means[part], nearer[part] = mean_of_nearest(*similar, m), mean_of_nearest(*similar, near(m))
    return means, nearer, squares


def as_items(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights of 1 or more on average: items, not shares of a whole."""
    return weight * max(1.0, np.count_nonzero(weight) / weight.sum())


def near(m: int) -> int:
    """How many of m neighbours are the nearest."""
    return -(-m // _NEAR)


def mean_of_nearest(similarities: Any, counts: Any, copies: Any, squares: Any, m: int) -> Any:
    """Mean similarity of every row to its m nearest items; of arrays or of tensors.

    A neighbour counts as often as `counts` says, and an item of weight w is w - 1 neighbours of itself, so
    that an item of weight 3 is as good as three items.
    """
    if similarities.shape[1] == 0:  # it is the only item
        return squares
    nearer = similarities > squares[:, None]  # than the item is to itself
    room = m - (counts.cumsum(1) - counts) - copies[:, None] * ~nearer
    used = counts - (counts - room.clip(0)).clip(0)  # as many of them as there is room for
    own = copies - (copies - (m - (counts * nearer).sum(1)).clip(0)).clip(0)
    return (own * squares + (used * similarities).sum(1)) / (own + used.sum(1))


def local_alpha(
    X: Any,
    strictness: float = STRICTNESS,
    *,
    n_neighbors: int | None = None,
    sample_weight: Any = None,
) -> NDArray[np.float64]:
    """The affinity strengths behind ``threshold="local"``, one per item.

    With s_i the mean similarity (inner product) of item i to its nearest items, alpha_i is
    sqrt(strictness * s_i): the pair i, j is neutral where its similarity is `strictness` times the
    geometric mean of s_i and s_j.

    Parameters
    ----------
    X : array of shape (n, d)
        One row of features per item, used as it is.
    strictness : float, default=0.6
        Larger gives more clusters. Above 1, items must be more similar than neighbours are on average:
        for clusters of far fewer items than `n_neighbors`.
    n_neighbors : int, optional
        How many nearest items are asked: 100 by default, or two thirds of the items if that is less.
    sample_weight : array of shape (n,), optional
        A neighbour of weight w counts as w neighbours. Items of weight 0 are nobody's neighbours.

    Returns
    -------
    float64 array of shape (n,)
        s_i counts as a hundredth of the item's squared length at least, so that an item that is similar to
        nobody asks for a little similarity, too. A row of zeros, or of weight 0, has alpha 0.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import local_alpha
    >>> X = np.array([[1, 0], [1, 0], [0.8, 0.6], [0.6, -0.8]])
    >>> local_alpha(X, strictness=0.5, n_neighbors=2).round(2)
    array([0.67, 0.67, 0.63, 0.55])
    """
    costs = Costs("local", None, "small", sample_weight, strictness, n_neighbors)
    return cost_columns(checks.features(X), costs)[0]
