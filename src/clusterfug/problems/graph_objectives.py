"""Objectives of graph clustering as problems: modularity, the constant Potts model, cluster editing.

Each is a term for every pair of nodes, which is a product of two numbers, plus a term for the pairs that
are edges: a `MixedProblem` in O(n + m) memory.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.problems.apart import Apart
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.graph import GraphProblem, as_graph
from clusterfug.problems.mixed import MixedProblem


class GraphObjective(MixedProblem):
    """A graph whose clusterings have a value in the normalisation that is usual for the objective.

    `modularity`, `constant_potts` and `cluster_editing` make it; `multicut` and `dense_multicut` solve it.
    """

    def __init__(
        self, graph: GraphProblem, node_weights: NDArray[np.float64], factor: float, offset: float
    ) -> None:
        dense = DenseProblem(np.zeros((graph.n, 1), dtype=np.float32), alpha=node_weights)
        self._set_parts(dense, graph, Apart.nothing(), None)
        self._factor, self._offset = factor, offset

    def value(self, labels: Any) -> float:
        """Modularity, the quality of the constant Potts model, or the number of edits of a clustering."""
        return self._offset + self._factor * self.inside(getattr(labels, "labels", labels))


def modularity(
    edges: Any, weights: Any = None, n_nodes: int | None = None, *, resolution: float = 1.0
) -> GraphObjective:
    """Modularity of an undirected graph as a problem: its best clusterings have the largest modularity.

    The cost of a pair is its edge weight minus ``resolution * d_i * d_j / (2 m)`` with the weighted degrees
    d and the total weight m. Edges from a node to itself are an error.

    Parameters
    ----------
    edges : integer array of shape (m, 2), scipy sparse matrix, or GraphProblem
    weights : array of shape (m,), optional
        Edge weights >= 0, 1 by default. Left out with a matrix or a `GraphProblem`, which have them.
    n_nodes : int, optional
        Number of nodes; by default one more than the largest in `edges`.
    resolution : float, default=1.0
        Larger values give more, smaller clusters.

    Returns
    -------
    GraphObjective
        ``problem.value(labels)`` is the modularity (the generalised one, if the resolution is not 1).

    Examples
    --------
    >>> from clusterfug import modularity, multicut
    >>> problem = modularity([[0, 1], [1, 2], [0, 2], [2, 3], [3, 4], [4, 5], [3, 5]])
    >>> result = multicut(problem, algorithm="exact")
    >>> result.labels, round(problem.value(result), 4), result.optimal
    (array([0, 0, 0, 1, 1, 1]), 0.3571, True)
    """
    resolution = checks.number("resolution", resolution, 0.0)
    graph = _weighted_graph(edges, weights, n_nodes)
    degrees = np.zeros(graph.n)
    for end in (0, 1):
        degrees += np.bincount(graph.edges[:, end], graph.costs, graph.n)
    total = float(graph.costs.sum())
    if not total > 0:
        raise ValueError("modularity needs edges of positive weight: the graph has none")
    offset = -resolution * float(((degrees / (2 * total)) ** 2).sum())
    return GraphObjective(graph, np.sqrt(resolution / (2 * total)) * degrees, 1 / total, offset)


def constant_potts(
    edges: Any,
    weights: Any = None,
    n_nodes: int | None = None,
    *,
    resolution: float,
    node_weights: Any = None,
) -> GraphObjective:
    """The constant Potts model of an undirected graph as a problem.

    The cost of a pair is its edge weight minus ``resolution * w_i * w_j``: clusters are denser inside than
    the resolution, and less dense between each other.

    Parameters
    ----------
    edges, weights, n_nodes
        As for `modularity`.
    resolution : float
        The density, >= 0.
    node_weights : array of shape (n_nodes,), optional
        The numbers w >= 0, 1 by default.

    Returns
    -------
    GraphObjective
        ``problem.value(labels)`` is the quality: the sum over clusters of the weight of their edges minus
        the resolution times the product of the weights of each of their pairs.
    """
    resolution = checks.number("resolution", resolution, 0.0)
    graph = _weighted_graph(edges, weights, n_nodes)
    each = checks.per_item("node_weights", 1.0 if node_weights is None else node_weights, graph.n)
    return GraphObjective(graph, np.sqrt(resolution) * each, 1.0, 0.0)


def cluster_editing(edges: Any, n_nodes: int | None = None) -> GraphObjective:
    """Cluster editing as a problem: the fewest edges to insert or delete until every component is a clique.

    The cost of a pair is +1 if it is an edge, and -1 otherwise.

    Parameters
    ----------
    edges : integer array of shape (m, 2), scipy sparse matrix, or GraphProblem
        Every edge counts once; weights are not used.
    n_nodes : int, optional
        Number of nodes; by default one more than the largest in `edges`.

    Returns
    -------
    GraphObjective
        ``problem.value(labels)`` is the number of edits.

    Examples
    --------
    >>> from clusterfug import cluster_editing, multicut
    >>> problem = cluster_editing([[0, 1], [1, 2], [2, 3]])
    >>> problem.value(multicut(problem))
    1.0
    """
    graph = _graph(edges, None, n_nodes)
    edited = GraphProblem(graph.edges, np.full(len(graph.edges), 2.0), graph.n)
    return GraphObjective(edited, np.ones(graph.n), -1.0, float(len(graph.edges)))


def _graph(edges: Any, weights: Any, n_nodes: int | None) -> GraphProblem:
    """Graph of edge weights, 1 by default."""
    if weights is None and not hasattr(edges, "tocoo") and not isinstance(edges, GraphProblem):
        weights = np.ones(len(np.atleast_1d(checks.as_array("edges", edges))))
    return as_graph(edges, weights, n_nodes)


def _weighted_graph(edges: Any, weights: Any, n_nodes: int | None) -> GraphProblem:
    """Graph of edge weights >= 0."""
    graph = _graph(edges, weights, n_nodes)
    if len(graph.costs) and graph.costs.min() < 0:
        at = int(np.argmin(graph.costs))
        i, j = graph.edges[at].tolist()
        raise ValueError(f"weights must not be negative: {graph.costs[at]:g} of edge ({i}, {j})")
    return graph
