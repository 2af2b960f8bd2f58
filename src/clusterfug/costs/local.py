"""Local thresholds: the mean similarity of every item to its nearest items, and how many those are.

An item that is very similar to its nearest items needs more similarity to attract another one than an
isolated item. The cost model `Local` and the selection of its strictness call this module, for arrays on
the CPU and for tensors on a device; so nothing heavy is imported here.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.costs.models import STRICTNESS, Local
from clusterfug.execution import threads

if TYPE_CHECKING:
    import torch

#: Neighbours per item by default; of few items two thirds at most.
N_NEIGHBORS = 100
#: The similarity of an item to its neighbours counts as at least this share of that to itself.
MIN_SIMILARITY_SHARE = 0.01
NEAREST_FRACTION = 10  # contrast compares the nearest tenth of the neighbours with all of them
_BLOCK_ROWS = 4096


class Neighbourhood(NamedTuple):
    """How similar items are to the items nearest to them."""

    similarity: NDArray[np.float64]  # (n,) mean similarity to the neighbours
    contrast: float  # similarity to the nearest tenth of the neighbours, over that to all of them
    squares: NDArray[np.float64]  # (n,) similarity to itself


def neighbourhood(
    features: Any,
    weight: NDArray[np.float64],
    n_neighbors: int | None,
    device: "torch.device | None" = None,
) -> Neighbourhood:
    """Return how similar every item is to its neighbours; items of weight 0 take no part."""
    present = np.flatnonzero(weight)
    weight = as_items(weight)
    m = n_neighbors or min(N_NEIGHBORS, max(1, int(2 * weight.sum() / 3)))
    if device is None:
        means, nearer, squares = _on_host(features, weight, present, m)
    else:
        from clusterfug.execution.torch.neighbourhood import neighbour_means

        means, nearer, squares = neighbour_means(features, weight, present, m, device)
    similarity, own = np.zeros(len(weight)), np.zeros(len(weight))
    similarity[present], own[present] = np.maximum(means, MIN_SIMILARITY_SHARE * squares), squares
    total = (weight * similarity).sum()
    nearest = (weight[present] * np.maximum(nearer, MIN_SIMILARITY_SHARE * squares)).sum()
    return Neighbourhood(similarity, float(nearest / total) if total > 0 else 1.0, own)


def _on_host(
    features: NDArray[Any], weight: NDArray[np.float64], present: NDArray[np.int64], m: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return mean similarities to m neighbours and to the nearest of them, and the squared lengths."""
    from clusterfug.neighbours.exact import exact_neighbours
    from clusterfug.problems.dense import DenseProblem

    problem = DenseProblem(features if len(present) == len(features) else features[present], 0.0)
    weight = weight[present]
    squares = problem.own_costs
    ids, similarities = exact_neighbours(problem, m)
    copies = np.maximum(weight - 1, 0.0)
    means, nearer = np.empty(problem.n), np.empty(problem.n)
    for part in threads.slices(problem.n, _BLOCK_ROWS):
        similar = similarities[part], weight[ids[part]], copies[part], squares[part]
        means[part], nearer[part] = mean_of_nearest(*similar, m), mean_of_nearest(*similar, near(m))
    return means, nearer, squares


def as_items(weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights scaled up to a mean of 1 or more: numbers of items, not fractions."""
    return weight * max(1.0, np.count_nonzero(weight) / weight.sum())


def near(m: int) -> int:
    """Return how many of m neighbours are the nearest tenth, rounded up."""
    return -(-m // NEAREST_FRACTION)


def mean_of_nearest(similarities: Any, counts: Any, copies: Any, squares: Any, m: int) -> Any:
    """Return the mean similarity of every row to its m nearest items; for arrays and for tensors.

    Neighbour j counts `counts[j]` times, and an item of weight w is w - 1 neighbours of itself, so that an
    item of weight 3 is equivalent to three items.
    """
    if similarities.shape[1] == 0:  # it is the only item
        return squares
    nearer = similarities > squares[:, None]  # than the item is to itself
    room = m - (counts.cumsum(1) - counts) - copies[:, None] * ~nearer
    used = counts.clip(max=room.clip(0))  # as many of them as m allows
    own = copies.clip(max=(m - (counts * nearer).sum(1)).clip(0))
    return (own * squares + (used * similarities).sum(1)) / (own + used.sum(1))


def local_alpha(
    X: Any,
    strictness: float = STRICTNESS,
    *,
    n_neighbors: int | None = None,
    sample_weight: Any = None,
) -> NDArray[np.float64]:
    """Return the affinity strengths of ``threshold="local"``, one per item.

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
        Nearest items to average over: 100 by default, or two thirds of the items if that is less.
    sample_weight : array of shape (n,), optional
        A neighbour of weight w counts as w neighbours. Items of weight 0 are neighbours of no item.

    Returns
    -------
    float64 array of shape (n,)
        s_i counts as at least a hundredth of the item's squared length, so that an isolated item has a
        positive threshold, too. A row of zeros, or of weight 0, has alpha 0.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import local_alpha
    >>> X = np.array([[1, 0], [1, 0], [0.8, 0.6], [0.6, -0.8]])
    >>> local_alpha(X, strictness=0.5, n_neighbors=2).round(2)
    array([0.67, 0.67, 0.63, 0.55])
    """
    strictness = checks.number("strictness", strictness, 0.0)
    features = checks.features(X)
    weight = checks.optional_weights(sample_weight, len(features))
    return Local(strictness, n_neighbors).column(features, weight).values
