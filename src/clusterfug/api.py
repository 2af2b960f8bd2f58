"""The functions users call: arguments become a problem, a solver and an execution, and go to the core."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from numbers import Integral
from typing import TYPE_CHECKING, Any

from clusterfug import checks, core
from clusterfug.costs.models import CostModel, cost_model
from clusterfug.execution.plan import plan
from clusterfug.problems.arguments import (
    any_problem,
    feature_problem,
    known_problem,
    preprocessing_of,
    with_links,
    with_selected_costs,
)
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import Clustering
from clusterfug.solvers import documented, make_solver

if TYPE_CHECKING:
    from clusterfug.bounds.certificate import LowerBound
    from clusterfug.execution.jit import Progress
    from clusterfug.selection.path import ThresholdPath


@documented
def dense_multicut(
    X: Any,
    threshold: float | str | CostModel | Clustering | None = None,
    *,
    alpha: Any = None,
    prefer: str | None = None,
    strictness: float | None = None,
    n_neighbors: int | None = None,
    n_clusters: int | tuple[int, int] | None = None,
    sample_weight: Any = None,
    metric: str | None = None,
    center: bool | None = None,
    must_link: Any = None,
    cannot_link: Any = None,
    exclusive: Any = None,
    link_weight: float | None = None,
    algorithm: Any = "auto",
    device: Any = None,
    precision: str = "fast",
    memory_limit: int | str | None = None,
    checkpoint: Any = None,
    client: Any = None,
    bound: bool = False,
    callback: "Progress | None" = None,
    **options: Any,
) -> Clustering:
    """Cluster items by their features, without being told how many clusters there are.

    Every pair of items attracts or repels by the similarity of its features minus a threshold; the
    clustering minimises the total cost of the pairs it separates (multicut on the complete graph, which is
    never stored).

    Parameters
    ----------
    X : array, torch tensor or dask array of shape (n, d), path, or DenseProblem
        One row of features per item. A path is that of a .npy, .parquet, .arrow or .feather file, of a
        folder of them, or a list: with a `memory_limit` they are read in parts. A `DenseProblem` has its
        costs.
    threshold : float, "auto", "local", CostModel or Clustering, optional
        Similarity at which a pair neither attracts nor repels; larger gives more clusters. "local" is one
        per item: a share (`strictness`) of its mean similarity to its nearest items, see `local_alpha`.
        "auto", the default, selects the strictness, too, by up to five runs of "fast";
        `Clustering.choice` says why. A `Clustering` stands for the costs and the preprocessing that it was
        solved with, of which other arguments replace what they name.
    alpha : float or array of shape (n,), optional
        Instead of a threshold: cost = <f_i, f_j> - alpha_i alpha_j, the paper's affinity strength.
    prefer : {"small", "large"}, default="small"
        Sign of the alpha term: "large" adds it.
    strictness : float, optional
        Of a local threshold: larger gives more clusters, 0.6 by default.
    n_neighbors : int, optional
        Nearest items that a local threshold looks at: 100 by default, or two thirds of the items if that
        is less.
    n_clusters : int or (low, high), optional
        Target number of clusters: a local threshold is made as strict as it takes, by up to eight runs,
        and if none gives the number, clusters of a finer result are joined. If that is not possible, the
        nearest result is returned, with a warning. For "auto" and "fast".
    sample_weight : array of shape (n,), optional
        Item i counts as that many items (>= 0). Items of weight 0 are assigned to clusters afterwards.
    metric : {"cosine", "inner_product"}, default="cosine"
        "cosine" scales rows to length 1 (a zero row stays zero), "inner_product" uses them as they are,
        without a copy.
    center : bool, default=False
        Subtract the mean feature first. Advisable when most cosines are high.
    must_link, cannot_link : integer arrays of shape (m, 2), optional
        Pairs of items that are known to belong together, and pairs that are known not to.
    exclusive : array of shape (n,), optional
        A group per item, for example the photo of a face: no two items of a group are together. -1, "" or
        None is no group.
    link_weight : float, optional
        What it costs to break a link. By default none is broken, and links that contradict each other are
        an error; `broken_links` of the result counts those that a clustering breaks.
    algorithm : str or Solver, default="auto"
        {algorithms}
    device : {None, "cpu", "cuda", "cuda:1", "auto"} or torch.device, optional
        Where to run. By default where the features are: a torch tensor on a GPU stays there, all else is
        for the CPU. "cuda" is a GPU (needs torch; "auto" and "fast" run there); "auto" takes one if there
        is one and the algorithm runs there.
    precision : {"fast", "exact"}, default="fast"
        How candidates are found on a GPU: in bfloat16 or in float32. Float64 decides either way.
    memory_limit : int or str, optional
        Bytes, or a text such as "600MB". What "gaec" may use for its costs, 4 GiB by default. For "auto"
        and "fast" on the CPU, what solving a part may take: a problem that needs more is solved in shards
        (docs/scaling.md). On a GPU, what the run may use there, 90 % of what is free by default.
    checkpoint : path, optional
        A folder, for "auto" and "fast" on the CPU: the problem is solved in shards, and finished work is
        kept there. A run that was stopped continues from it, and ends with the same labels.
    client : distributed.Client or str, optional
        A dask cluster, or the address of its scheduler, for a dask array or files that its workers can
        read. A dask array uses the current client by default, and gets labels as a dask array.
    bound : bool, default=False
        Compute a lower bound, too (see `lower_bound`), so that the result says how far from optimal it is
        at most: `gap`, `gap_inside`. "best" stops when it is proven optimal.
    callback : callable, optional
        Called as ``callback(phase, done, total)`` now and then.
    **options
        Options of the algorithm. An option that the algorithm does not have is an error.

        {options}

    Returns
    -------
    Clustering
        labels, n_clusters, objective, inside, bound, gap, costs, merges, trace. Ctrl-C during the search
        of "best" or "exact" returns the best labels so far.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import dense_multicut
    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> dense_multicut(X, threshold=0.5).labels
    array([0, 0, 1, 1])
    """
    problem = feature_problem(
        X,
        threshold,
        alpha=alpha,
        prefer=prefer,
        strictness=strictness,
        n_neighbors=n_neighbors,
        n_clusters=n_clusters,
        sample_weight=sample_weight,
        metric=metric,
        center=center,
        must_link=must_link,
        cannot_link=cannot_link,
        exclusive=exclusive,
        link_weight=link_weight,
    )
    solver = make_solver(algorithm, **options)
    execution = plan(
        problem,
        solver,
        device=device,
        precision=precision,
        memory_limit=memory_limit,
        checkpoint=checkpoint,
        client=client,
        bound=bound,
    )
    return core.solve(problem, solver, execution, bound=bound, callback=callback)


def multicut(
    edges: Any,
    costs: Any = None,
    n_nodes: int | None = None,
    *,
    must_link: Any = None,
    cannot_link: Any = None,
    exclusive: Any = None,
    link_weight: float | None = None,
    algorithm: Any = "auto",
    bound: bool = False,
    callback: "Progress | None" = None,
    **options: Any,
) -> Clustering:
    """Cluster the nodes of an explicit graph with attractive (> 0) and repulsive (< 0) edges.

    The clustering minimises the total cost of the edges it cuts. Missing edges cost nothing.

    Parameters
    ----------
    edges : integer array of shape (m, 2), scipy sparse matrix, or a problem
        Pairs of nodes 0..n_nodes-1; parallel edges (in either direction) are summed. A sparse matrix
        holds the costs itself: symmetric (each pair counts once) or strictly triangular, with an
        empty diagonal.
    costs : array of shape (m,), optional
        One cost per edge; left out with a sparse matrix.
    n_nodes : int, optional
        Number of nodes; by default one more than the largest in `edges`. Nodes without edges stay alone.
    must_link, cannot_link, exclusive, link_weight
        What is known about pairs of nodes, as for `dense_multicut`.
    algorithm : {"auto", "fast", "best", "exact", "gaec"} or Solver, default="auto"
        "gaec" contracts the edge of largest cost until none attracts (the paper's Algorithm 1). The others
        are as for `dense_multicut`.
    bound, callback, **options
        As for `dense_multicut`.

    Returns
    -------
    Clustering

    Examples
    --------
    >>> from clusterfug import multicut
    >>> multicut([[0, 1], [1, 2], [0, 2]], [2.0, 1.0, -3.0]).labels
    array([0, 0, 1])
    """
    solver = make_solver(algorithm, **options)
    from clusterfug.problems.graph import as_graph
    from clusterfug.problems.protocol import Problem

    problem = as_graph(edges, costs, n_nodes, kinds=Problem)
    problem = with_links(
        problem, must_link=must_link, cannot_link=cannot_link, exclusive=exclusive, link_weight=link_weight
    )
    return core.solve(problem, solver, plan(problem, solver, bound=bound), bound=bound, callback=callback)


def objective(
    X: Any, labels: Any, threshold: Any = None, *, sample_weight: Any = None, **costs: Any
) -> float:
    """Return the objective of a clustering: the total cost of the pairs of items that `labels` separates.

    Parameters
    ----------
    X : array of shape (n, d), DenseProblem or GraphProblem
    labels : integer array of shape (n,), or Clustering
        Costs and preprocessing that are not given are those that a `Clustering` was solved with.
    threshold, sample_weight, **costs
        As for `dense_multicut`: alpha, prefer, strictness, n_neighbors, metric, center; must_link,
        cannot_link, exclusive and link_weight, too. Without any, they
        are those that `dense_multicut` selects by default, which takes as long as a few runs of "fast".

    Returns
    -------
    float
        Computed in float64 in O(n d).
    """
    problem = known_problem(X, labels, threshold, sample_weight=sample_weight, **costs)
    return problem.objective(getattr(labels, "labels", labels))


def lower_bound(
    X: Any,
    threshold: Any = None,
    *,
    sample_weight: Any = None,
    method: str = "auto",
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    device: Any = None,
    callback: "Progress | None" = None,
    **costs: Any,
) -> "LowerBound":
    """Return a number that no clustering's objective is below, with a certificate.

    Parameters
    ----------
    X : array or torch tensor of shape (n, d), DenseProblem or GraphProblem
    threshold, sample_weight, **costs
        As for `objective`.
    method : {"auto", "trivial", "triangles"}, default="auto"
        "trivial" adds up the costs of all pairs that repel: one pass over all pairs, O(n d) memory.
        "triangles" packs triangles of two pairs that attract and one that repels, of which every clustering
        pays for one. Items of a large problem are divided into groups of similar ones (8,192 by default),
        and triangles are packed within groups. "auto" is "triangles" up to 100,000 items.
    time_limit : float, optional
        Seconds after which no more triangles are packed; the pass over all pairs comes on top. Without it
        packing ends when it gains little.
    memory_limit : int or str, optional
        Bytes for the costs of a group, 1 GiB by default; triangles and the pairs they touch take up to
        about 0.5 GB and 60 kB per item on top. For "trivial" on a GPU, bytes that may be used there.
    device : {None, "cpu", "cuda", "cuda:1", "auto"} or torch.device, optional
        Where "trivial" adds up, as for `dense_multicut`. Triangles are packed on the CPU.
    callback : callable, optional
        Called as ``callback(phase, done, total)`` now and then, with phase "triangles" or "bound".

    Returns
    -------
    LowerBound
        ``float(bound)``, and its certificate, which `verify_bound` adds up again.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import dense_multicut, lower_bound
    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> round(float(lower_bound(X, 0.5)), 6), round(dense_multicut(X, 0.5).objective, 6)
    (-1.559625, -1.559625)
    """
    from clusterfug.bounds.compute import check_limits, compute_bound

    limit = None if memory_limit is None else checks.memory("memory_limit", memory_limit)
    problem = any_problem(X, threshold, sample_weight=sample_weight, **costs)
    execution = plan(problem, make_solver("fast"), device=device)
    check_limits(method, time_limit, limit, execution)
    problem = with_selected_costs(problem, execution, callback)
    return compute_bound(
        problem, execution, method=method, time_limit=time_limit, memory_limit=limit, callback=callback
    )


def verify_bound(
    X: Any,
    bound: "LowerBound",
    threshold: Any = None,
    *,
    sample_weight: Any = None,
    callback: "Progress | None" = None,
    **costs: Any,
) -> bool:
    """Return whether a lower bound is proven by its certificate, which is added up again in float64.

    Parameters
    ----------
    X : array of shape (n, d), DenseProblem or GraphProblem
    bound : LowerBound
    threshold, sample_weight, **costs
        As for `lower_bound`.
    callback : callable, optional
        Called as ``callback("bound", done, total)`` now and then.

    Returns
    -------
    bool
        True if residuals and triangles add up to the costs, and the negative residuals add up to the
        bound's value or more.
    """
    from clusterfug.bounds.certificate import verify

    problem = known_problem(X, None, threshold, sample_weight=sample_weight, callback=callback, **costs)
    return verify(problem, bound, callback)


def threshold_path(
    X: Any,
    thresholds: Any,
    *,
    sample_weight: Any = None,
    metric: str | None = None,
    center: bool | None = None,
    algorithm: Any = "auto",
    device: Any = None,
    precision: str = "fast",
    memory_limit: int | str | None = None,
    bound: bool = False,
    callback: "Progress | None" = None,
    **options: Any,
) -> "ThresholdPath":
    """Cluster the same items at several thresholds, each helped by its neighbours.

    Every threshold is solved on its own and then once more from the clusterings of the thresholds beside
    it; the best is kept. So no clustering is worse than solving its threshold alone. (One of the paper's
    algorithms without ``refine=True`` is left as it is.)

    Parameters
    ----------
    X : array or torch tensor of shape (n, d)
    thresholds : array of shape (t,)
        Put in rising order; equal ones count once.
    sample_weight, metric, center, algorithm, device, precision, memory_limit, bound, **options
        As for `dense_multicut`. `time_limit` is per threshold.
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
    from clusterfug.selection.path import solve_path

    if checks.is_problem(X):
        raise ValueError(
            f"X is a {type(X).__name__}, which has its costs: give features to try several thresholds"
        )
    values = checks.vector("thresholds", thresholds)
    problem = feature_problem(
        X, float(values[0]), sample_weight=sample_weight, metric=metric, center=center
    )
    assert isinstance(problem, FeatureProblem)
    solver = make_solver(algorithm, **options)
    if getattr(solver, "init", None) is not None:
        raise ValueError("threshold_path starts from neighbouring thresholds: leave out init")
    execution = plan(
        problem, solver, device=device, precision=precision, memory_limit=memory_limit, bound=bound
    )
    return solve_path(problem, values, solver, execution, bound, callback)


def solve_many(
    problems: Iterable[Any] | Mapping[Any, Any],
    threshold: Any = None,
    *,
    algorithm: Any = "auto",
    n_jobs: int | None = None,
    device: Any = None,
    precision: str = "fast",
    memory_limit: int | str | None = None,
    client: Any = None,
    bound: bool = False,
    callback: "Progress | None" = None,
    alpha: Any = None,
    prefer: str | None = None,
    strictness: float | None = None,
    n_neighbors: int | None = None,
    n_clusters: int | tuple[int, int] | None = None,
    sample_weight: Any = None,
    metric: str | None = None,
    center: bool | None = None,
    **options: Any,
) -> list[Clustering]:
    """Solve many problems: side by side with one thread each, in packs on a GPU, or on a dask cluster.

    On the CPU and on a cluster every result is what `dense_multicut` or `multicut` would have returned (of
    "gaec", up to rounding). On a GPU a result is about as good, but may be another one. A problem
    that fails does not stop the others.

    Parameters
    ----------
    problems : iterable, or mapping from names
        Features, `DenseProblem` or `GraphProblem`. With names an error says which one failed;
        without, it says the position.
    threshold, alpha, prefer, strictness, n_neighbors, n_clusters, sample_weight, metric, center
        Costs of the problems that are features, as for `dense_multicut`.
    algorithm, **options
        As for `dense_multicut` (or `multicut`). `time_limit` is per problem (on a GPU per pack of problems
        that are solved at once, as is `seconds` of a result); a Generator as `random_state` has a child
        for each.
    n_jobs : int, optional
        Problems solved at a time on the CPU; all cores by default. It does not go with a device or a
        client.
    device, precision, memory_limit, bound
        As for `dense_multicut`. Graphs are solved on the CPU, without a device.
    client : distributed.Client or str, optional
        A dask cluster, or the address of its scheduler.
    callback : callable, optional
        Called as ``callback("problems", done, total)`` after each, or after each pack.

    Returns
    -------
    list of Clustering
        In the order of the problems.

    Raises
    ------
    SolveManyError
        When all others are solved. It has `.results` and `.errors`.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import solve_many
    >>> pair, triple = np.eye(2), np.ones((3, 1))
    >>> [result.n_clusters for result in solve_many([pair, triple], threshold=0.5)]
    [2, 1]
    """
    from clusterfug.execution import threads
    from clusterfug.execution.batch import solve_batch
    from clusterfug.execution.torch.device import is_given

    solver = make_solver(algorithm, **options)
    costs = {"alpha": alpha, "prefer": prefer, "strictness": strictness}
    costs |= {"n_neighbors": n_neighbors, "n_clusters": n_clusters}
    if not isinstance(threshold, Clustering):
        cost_model(threshold, **costs)  # raises errors that hold for every problem
    preprocessing_of(metric, center)
    costs |= {"sample_weight": sample_weight, "metric": metric, "center": center}
    is_all = n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs == -1)
    jobs = threads.cores() if is_all else checks.count("n_jobs", n_jobs)
    if n_jobs is not None and (is_given(device) or client is not None):
        raise ValueError("n_jobs is for the CPU of this machine: leave it out with a device or a client")
    if client is not None and is_given(device):
        raise ValueError("a cluster solves on CPUs: leave out the device, or the client")
    if client is not None:
        device = "cpu"
    where = {"device": device, "precision": precision, "memory_limit": memory_limit, "bound": bound}
    named = dict(problems) if isinstance(problems, Mapping) else dict(enumerate(_many(problems)))
    runs: dict[int, Any] = {}
    invalid: dict[int, Exception] = {}
    for t, X in enumerate(named.values()):
        try:
            problem = any_problem(X, threshold, **costs)
        except (ValueError, TypeError, OSError) as error:
            invalid[t] = error
        else:
            runs[t] = problem, solver, plan(problem, solver, **where)
    return solve_batch(
        runs, list(named), invalid=invalid, n_jobs=jobs, client=client, bound=bound, callback=callback
    )


def _many(problems: Any) -> Iterable[Any]:
    """Return problems if they are several, or raise an error."""
    if not isinstance(problems, str | bytes):
        with suppress(TypeError):  # it is one object
            return iter(problems)
    raise TypeError(
        f"problems must be a list or a dictionary, not {checks.shown(problems)}: for one problem use "
        "dense_multicut"
    )
