"""The problem of the cost model `NeighbourGraph`: costs along a graph of nearest neighbours."""

import numpy as np
from numpy.typing import NDArray

from clusterfug.costs.local import neighbourhood
from clusterfug.costs.models import Local, NeighbourGraph
from clusterfug.execution.jit import kernel
from clusterfug.neighbours.exact import exact_neighbours
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.graph import GraphProblem
from clusterfug.problems.graph_objectives import modularity
from clusterfug.problems.mixed import MixedProblem

#: Neighbours per item by default; of few items a third at most.
N_NEIGHBORS = 15


def neighbour_problem(
    model: NeighbourGraph,
    features: NDArray[np.floating],
    weight: NDArray[np.float64] | None = None,
) -> MixedProblem:
    """Return the problem of preprocessed features."""
    graph = neighbour_graph(model, features, weight)
    if model.background == "degrees":
        if not len(graph.costs):  # a single item, or no two that are mutual neighbours
            return MixedProblem(np.zeros((graph.n, 1)), graph, threshold=0.0)
        return modularity(graph, resolution=model.resolution)
    typical = neighbourhood(features, np.ones(len(features)), model.n_neighbors).similarity.mean()
    scaled = GraphProblem(graph.edges, float(typical) * graph.costs, graph.n)
    dense = DenseProblem(features, Local(model.resolution, model.n_neighbors), sample_weight=weight)
    return MixedProblem(dense, scaled)


def neighbour_graph(
    model: NeighbourGraph,
    features: NDArray[np.floating],
    weight: NDArray[np.float64] | None = None,
) -> GraphProblem:
    """Return the graph of nearest neighbours, with its weights as costs."""
    n = len(features)
    if weight is not None and not np.all(weight > 0):
        raise ValueError("a neighbour graph has no items of weight 0: leave them out, and predict them")
    k = model.n_neighbors or min(N_NEIGHBORS, max(1, n // 3))
    ids, similarities = exact_neighbours(DenseProblem(features, 0.0), k)
    heads, tails = np.repeat(np.arange(n), ids.shape[1]), ids.ravel()
    keys = np.minimum(heads, tails) * n + np.maximum(heads, tails)
    keys, first, counts = np.unique(keys, return_index=True, return_counts=True)
    if model.edges == "mutual":
        keys, first = keys[counts == 2], first[counts == 2]
    edges = np.stack([keys // n, keys % n], axis=1)
    weights = np.ones(len(edges))
    if model.weights == "similarity":
        weights = np.maximum(similarities.ravel()[first], 0.0)
    elif model.weights == "jaccard":
        jaccard_indices(np.sort(ids, axis=1), edges, weights)
    if weight is not None:
        weights *= weight[edges[:, 0]] * weight[edges[:, 1]]
    return GraphProblem(edges, weights, n)


@kernel
def jaccard_indices(ids: NDArray[np.int64], edges: NDArray[np.int64], indices: NDArray[np.float64]) -> None:
    """indices[e] = the share that the neighbourhoods of the ends of an edge have in common.

    The neighbourhood of an item is the item and its neighbours, which are sorted.
    """
    k = ids.shape[1]
    for e in range(edges.shape[0]):
        i, j = edges[e]
        common = 0
        a, b = 0, 0
        while a < k and b < k:
            if ids[i, a] == ids[j, b]:
                common += 1
                a += 1
                b += 1
            elif ids[i, a] < ids[j, b]:
                a += 1
            else:
                b += 1
        for c in range(k):  # each is in its own neighbourhood
            common += (ids[i, c] == j) + (ids[j, c] == i)
        indices[e] = common / (2 * (k + 1) - common)
