"""The one road: a problem goes in, is contracted and refined, and a `Clustering` comes out.

Here are its two doors. Behind them it is on the CPU (`cpu.py`) or on a GPU (`gpu/`), loaded when needed.
"""

from dataclasses import replace
from typing import Any

from clusterfug import checks
from clusterfug.gpu.device import choose
from clusterfug.kernels import Progress
from clusterfug.options import ALGORITHMS, GRAPH_ALGORITHMS, Refinement, Task
from clusterfug.result import Clustering

__all__ = ["ALGORITHMS", "GRAPH_ALGORITHMS", "dense_multicut", "multicut"]


def dense_multicut(
    X: Any,
    threshold: float | str = 0.4,
    *,
    alpha: Any = None,
    prefer: str = "small",
    sample_weight: Any = None,
    strictness: float | None = None,
    n_neighbors: int | None = None,
    n_clusters: int | tuple[int, int] | None = None,
    algorithm: str = "auto",
    refine: bool = False,
    init: Any = None,
    k: int | None = None,
    ann: str = "hnsw",
    time_limit: float | None = None,
    max_iter: int | None = None,
    random_state: Any = 0,
    device: Any = None,
    precision: str = "fast",
    memory_limit: int | str | None = None,
    checkpoint: Any = None,
    bound: bool = False,
    callback: Progress | None = None,
) -> Clustering:
    """Cluster items by their features, without being told how many clusters there are.

    Every pair of items attracts or repels by ``<f_i, f_j> - threshold``; the clustering minimises
    the total cost of the pairs it separates (multicut on the complete graph, which is never stored).

    Parameters
    ----------
    X : array or torch tensor of shape (n, d), DenseProblem, or path
        One row of features per item, used as it is: normalise and centre them first if you want
        cosines (`DenseMulticut` does). See `DenseProblem` for X, threshold, alpha, prefer and
        sample_weight; a `DenseProblem` brings its own. A path is that of a .npy, .parquet, .arrow or
        .feather file, or of a folder of them, or a list: with a `memory_limit` they are read in parts.
    threshold : float, "local" or "auto", default=0.4
        Similarity at which a pair neither attracts nor repels. Larger gives more clusters. "local" is one
        for each item: a share (`strictness`) of its mean similarity to its nearest items, see
        `local_alpha`. "auto" chooses the strictness, too, by up to five runs of "fast". The result has
        a `choice` then, which says why.
    alpha, prefer, sample_weight
        The paper's affinity strength, its sign, and weights of items.
    strictness : float, optional
        Of ``threshold="local"``: larger gives more clusters, 0.6 by default.
    n_neighbors : int, optional
        Nearest items that a local threshold looks at: 100 by default, or two thirds of the items if that
        is less.
    n_clusters : int or (low, high), optional
        A wish: a local threshold is made as strict as it takes, by up to eight runs, and if none gives the
        number, clusters of a finer result are joined. If there is no way, the nearest result is
        returned, with a warning. For "auto" and "fast".
    algorithm : {"auto", "fast", "best", "exact", "gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec"}
        "auto" by default.

        Ours refine: "fast" moves items and joins clusters, level by level, until no single move and no
        single join improves the clustering. "auto" is "fast" and, where it is cheap, a second start,
        Kernighan-Lin and a little shaking. "best" goes on with iterated local search until `time_limit`,
        `max_iter` or until nothing improves any more. (On a GPU "auto" is "fast", with
        several starts side by side for up to 2,500 items.) "exact" proves its answer optimal by branch
        and cut, for up to about 80 items (300 at most): if `time_limit` ends it, the result is the best so
        far and has a `bound`.

        The paper's contract. Three are greedy and merge the pair of largest cost each time: "gaec" with
        all n^2 costs in memory, "dgaec" and "dgaec-inc" on the features in O(n d + n k) memory. Two are
        lazy and take the best pair of a neighbour graph that they use up before searching again, which
        is faster: "dlaec", and "dapplaec" with an approximate first search (needs faiss).
    refine : bool, default=False
        Refine what one of the paper's algorithms found, by moves and joins. (Ours always refine.)
    init : integer array of shape (n,), optional
        Labels to start from, for "auto", "fast" and "best": the result is no worse than they are.
    k : int, optional
        Neighbours kept per node by the paper's algorithms: 1 for "dgaec", otherwise 5. For the greedy
        ones it changes time and memory only.
    ann : {"hnsw", "ivf"}, default="hnsw"
        The index of the approximate search of "dapplaec".
    time_limit : float, optional
        Seconds after which refinement stops with the best labels so far (plus, for "best", a last check
        of single moves and joins). 60 for "best", unless `max_iter` is given, and for "exact"; otherwise
        no limit. Of each run, where the strictness of a local threshold is chosen.
    max_iter : int, optional
        Iterations of the search of "best", one neighbourhood each: a budget that does not depend on the
        machine's speed.
    random_state : int, Generator or None, default=0
        Seed of the search of "best" and of the shaking of "auto"; not used on a GPU.
    device : {None, "cpu", "cuda", "cuda:1", "auto"} or torch.device, optional
        Where to run. By default where the features are: a torch tensor on a GPU stays there, all else is
        for the CPU. "cuda" is a GPU (needs torch; "auto" and "fast" run there); "auto" takes it if there is
        one and the algorithm runs there. A torch.device is the road of tensors on that device, also on
        the CPU.
    precision : {"fast", "exact"}, default="fast"
        How candidates are found on a GPU: "fast" in bfloat16, "exact" in float32. Float64 decides either
        way. On the CPU always exact.
    memory_limit : int or str, optional
        Bytes, or a text such as "600MB". What "gaec" may use for its costs, 4 GiB by default. For "auto"
        and "fast" on the CPU, what solving a part may take: a problem that needs more is solved shard by
        shard (see docs/scaling.md). On a GPU, what the run may use there, 90 % of what is free by default;
        features that do not fit stay on the host and are streamed.
    checkpoint : path, optional
        A folder, for "auto" and "fast" on the CPU: the problem is solved shard by shard, and what is done
        is kept there. A run that was stopped goes on from it, and ends with the same labels.
    bound : bool, default=False
        Compute a lower bound, too (see `lower_bound`; it has `time_limit` seconds of its own, if that is
        given), so that the result says how far from optimal it is at most: `gap`, `gap_inside`. "best"
        stops when it is proven optimal.
    callback : callable, optional
        Called as ``callback(phase, done, total)`` now and then, with phase "neighbours", "contraction"
        or "search", of shards "shards" or "moves"; on a GPU after each phase of the trace.

    Returns
    -------
    Clustering
        labels, n_clusters, objective, inside, bound, gap, merges, trace. Ctrl-C during the search of "best"
        or "exact" returns the best labels so far.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import dense_multicut
    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> dense_multicut(X).labels
    array([0, 0, 1, 1])
    """
    task = Task(
        algorithm=algorithm,
        threshold=threshold,
        alpha=alpha,
        prefer=prefer,
        sample_weight=sample_weight,
        strictness=strictness,
        n_neighbors=n_neighbors,
        n_clusters=n_clusters,
        refine=refine,
        init=init,
        k=k,
        ann=ann,
        time_limit=time_limit,
        max_iter=max_iter,
        random_state=random_state,
        precision=precision,
        memory_limit=memory_limit,
        checkpoint=checkpoint,
        bound=bound,
    )
    place = choose(device, algorithm, X)
    if place is not None and checkpoint is not None:
        raise ValueError("checkpoint is for the CPU: leave it out, or use device='cpu'")
    local = task.chooses or task.costs.is_local
    if checks.is_path(X):
        from clusterfug.shards.source import Files, in_shards

        stored = Files(X)
        if place is None and in_shards(stored.n, stored.d, task):
            from clusterfug.shards.solve import solve_files

            return solve_files(stored, task, callback=callback)
        X = stored.read()
    if local:
        from clusterfug.choice.door import solve_chosen

        return solve_chosen(X, task, place, callback)
    if place is not None:
        from clusterfug.gpu.solve import solve_one

        result = solve_one(X, task, place, callback)
        if not bound:
            return result
        from clusterfug.bounds.bound import lower_bound

        costs = task.costs._asdict()
        found = lower_bound(X, **costs, time_limit=time_limit, device=place, callback=callback)
        return replace(result, bound=found)
    from clusterfug.cpu import solve_dense

    return solve_dense(checks.on_host(X), task, callback)


def multicut(
    edges: Any,
    costs: Any = None,
    n_nodes: int | None = None,
    *,
    algorithm: str = "auto",
    refine: bool = False,
    init: Any = None,
    time_limit: float | None = None,
    max_iter: int | None = None,
    random_state: Any = 0,
    bound: bool = False,
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
    algorithm : {"auto", "fast", "best", "exact", "gaec"}, default="auto"
        "gaec" contracts the edge of largest cost until none attracts (the paper's Algorithm 1). Ours
        refine: "fast" by moves and joins, "auto" by Kernighan-Lin and a little shaking too, "best" by
        iterated local search, and "exact" proves it; see `dense_multicut`.
    refine, init, time_limit, max_iter, random_state, bound
        As for `dense_multicut`.
    callback : callable, optional
        Called as ``callback(phase, done, total)`` now and then, with phase "contraction" or "search".

    Returns
    -------
    Clustering

    Examples
    --------
    >>> from clusterfug import multicut
    >>> multicut([[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -3.0]).labels
    array([0, 0, 1])
    """
    checks.one_of("algorithm", algorithm, GRAPH_ALGORITHMS)
    options = Refinement(algorithm, refine, init, time_limit, max_iter, random_state)
    from clusterfug.cpu import solve_graph

    return solve_graph(edges, costs, n_nodes, options, checks.flag("bound", bound), callback)
