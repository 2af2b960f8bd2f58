"""The one road: a problem goes in, an algorithm contracts it, a `Clustering` comes out."""

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.contraction.gaec import gaec
from clusterfug.contraction.greedy import greedy
from clusterfug.contraction.history import labels_of_merges
from clusterfug.contraction.lazy import lazy
from clusterfug.contraction.matrix import contract_matrix, cost_matrix, matrix_bytes
from clusterfug.graph import GraphProblem, as_graph
from clusterfug.kernels import Progress
from clusterfug.neighbours.approximate import INDEXES, approximate, require_faiss
from clusterfug.neighbours.exact import nearest
from clusterfug.problem import DenseProblem, as_problem
from clusterfug.result import Clustering, Phase

#: Algorithms of `dense_multicut` and the neighbours per node that each keeps.
ALGORITHMS = {"gaec": 0, "dgaec": 1, "dgaec-inc": 5, "dlaec": 5, "dapplaec": 5}
AUTO = "dgaec-inc"

#: What `gaec` may take for its n x n costs unless told otherwise.
MEMORY_LIMIT = 4 * 2**30


def dense_multicut(
    X: Any,
    threshold: float = 0.4,
    *,
    alpha: Any = None,
    prefer: str = "small",
    sample_weight: Any = None,
    algorithm: str = "auto",
    k: int | None = None,
    ann: str = "hnsw",
    memory_limit: int = MEMORY_LIMIT,
    callback: Progress | None = None,
) -> Clustering:
    """Cluster items by their features, without being told how many clusters there are.

    Every pair of items attracts or repels by ``<f_i, f_j> - threshold``; the clustering minimises
    the total cost of the pairs it separates (multicut on the complete graph, which is never stored).

    Parameters
    ----------
    X : array of shape (n, d), or DenseProblem
        One row of features per item, used as it is: normalise and centre them first if you want
        cosines (`DenseMulticut` does). See `DenseProblem` for X, threshold, alpha, prefer and
        sample_weight; a `DenseProblem` brings its own.
    threshold : float, default=0.4
        Similarity at which a pair neither attracts nor repels. Larger gives more clusters.
    alpha, prefer, sample_weight
        The paper's affinity strength, its sign, and weights of items.
    algorithm : {"auto", "gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec"}, default="auto"
        Three are greedy and merge the pair of largest cost each time: "gaec" with all n^2 costs in
        memory, "dgaec" and "dgaec-inc" on the features in O(n d + n k) memory. Two are lazy and take
        the best pair of a neighbour graph that they use up before searching again, which is faster:
        "dlaec", and "dapplaec" with an approximate first search (needs faiss). "auto" is "dgaec-inc".
    k : int, optional
        Neighbours kept per node: 1 for "dgaec", otherwise 5. For the greedy algorithms it changes
        time and memory only.
    ann : {"hnsw", "ivf"}, default="hnsw"
        The index of the approximate search of "dapplaec".
    memory_limit : int, default=4 GiB
        Bytes that "gaec" may use for its costs.
    callback : callable, optional
        Called as ``callback(phase, done, total)`` now and then, with phase "neighbours" or
        "contraction".

    Returns
    -------
    Clustering
        labels, n_clusters, objective, inside, merges, trace.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import dense_multicut
    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> dense_multicut(X).labels
    array([0, 0, 1, 1])
    """
    checks.one_of("algorithm", algorithm, ("auto", *ALGORITHMS))
    name = AUTO if algorithm == "auto" else algorithm
    memory_limit = checks.count("memory_limit", memory_limit)
    if k is not None:
        k = checks.count("k", k)
        if not ALGORITHMS[name]:
            raise ValueError(f"k does not go with {name}, which keeps no neighbours: leave it out")
    checks.one_of("ann", ann, INDEXES)
    if name == "dapplaec":
        require_faiss()
    elif ann != "hnsw":
        raise ValueError(f"ann goes with dapplaec, not with {name}: leave it out")
    start = time.perf_counter()
    problem = as_problem(X, threshold, alpha, prefer, sample_weight)
    if name == "gaec":
        need = matrix_bytes(problem)
        if need > memory_limit:
            raise MemoryError(
                f"gaec needs {need / 2**30:.3g} GiB for the costs of {problem.n} items, more than "
                f"memory_limit ({memory_limit / 2**30:.3g} GiB): use algorithm='dgaec-inc', "
                "which makes the same merges in O(n d) memory, or raise memory_limit"
            )
        costs = cost_matrix(problem, callback)
        searched = time.perf_counter()
        merges = contract_matrix(costs, callback)
    else:
        k = k or ALGORITHMS[name]
        if name == "dapplaec":
            neighbours = approximate(problem, k, ann, callback)
        else:
            neighbours = nearest(problem, k, callback)
        searched = time.perf_counter()
        if name.startswith("dgaec"):
            merges = greedy(problem, neighbours, callback)
        else:
            merges = lazy(problem, neighbours, k, callback)
    labels = problem.label_weightless(labels_of_merges(problem.n, merges))
    return _clustering(problem, labels, merges, name, start, searched)


def multicut(
    edges: Any,
    costs: Any = None,
    n_nodes: int | None = None,
    *,
    algorithm: str = "auto",
    callback: Progress | None = None,
) -> Clustering:
    """Cluster the nodes of an explicit graph with attractive (> 0) and repulsive (< 0) edges.

    The clustering minimises the total cost of the edges it cuts. Missing edges cost nothing.

    Parameters
    ----------
    edges : integer array of shape (m, 2), or scipy sparse matrix
        Pairs of nodes 0..n_nodes-1; parallel edges (in either direction) are summed. A sparse matrix
        holds the costs itself: symmetric (each pair counts once) or strictly triangular, with an
        empty diagonal. Or a `GraphProblem`, which is all of it.
    costs : array of shape (m,), optional
        One cost per edge; left out with a sparse matrix.
    n_nodes : int, optional
        Number of nodes; by default one more than the largest in `edges`. Nodes without edges stay
        alone.
    algorithm : {"auto", "gaec"}, default="auto"
        "gaec" contracts the edge of largest cost until none attracts (the paper's Algorithm 1);
        "auto" is "gaec".
    callback : callable, optional
        Called as ``callback("contraction", done, total)`` now and then.

    Returns
    -------
    Clustering

    Examples
    --------
    >>> from clusterfug import multicut
    >>> multicut([[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -3.0]).labels
    array([0, 0, 1])
    """
    checks.one_of("algorithm", algorithm, ("auto", "gaec"))
    start = time.perf_counter()
    graph = as_graph(edges, costs, n_nodes)
    searched = time.perf_counter()
    merges = gaec(graph.edges, graph.costs, graph.n, callback)
    labels = labels_of_merges(graph.n, merges)
    return _clustering(graph, labels, merges, "gaec", start, searched)


def _clustering(
    problem: DenseProblem | GraphProblem,
    labels: NDArray[np.int64],
    merges: NDArray[np.void],
    algorithm: str,
    start: float,
    searched: float,
) -> Clustering:
    """Cost the labels and say how they came about."""
    contracted = time.perf_counter()
    inside = problem.inside(labels)
    objective = problem.all_singletons - inside
    trace = (
        Phase("neighbours", searched - start, problem.n, problem.all_singletons),
        Phase("contraction", contracted - searched, int(labels.max()) + 1, objective),
    )
    return Clustering(
        labels=labels,
        objective=objective,
        inside=inside,
        merges=merges,
        algorithm=algorithm,
        seconds=time.perf_counter() - start,
        trace=trace,
    )
