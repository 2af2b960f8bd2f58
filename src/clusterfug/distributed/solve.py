"""dense_multicut on a dask cluster."""

from dataclasses import replace
from typing import Any

import dask.array
import numpy as np

from clusterfug import checks
from clusterfug.distributed.cluster import Cluster, connected
from clusterfug.kernels import Progress
from clusterfug.options import Task
from clusterfug.result import Clustering
from clusterfug.shards.checkpoint import digest
from clusterfug.shards.solve import check_task, solve_files, solve_rows
from clusterfug.shards.source import Files, most_items


def dense_multicut(
    X: Any,
    threshold: float = 0.4,
    *,
    client: Any = None,
    alpha: Any = None,
    prefer: str = "small",
    sample_weight: Any = None,
    metric: str = "inner_product",
    center: bool = False,
    algorithm: str = "auto",
    init: Any = None,
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    checkpoint: Any = None,
    callback: Progress | None = None,
) -> Clustering:
    """Cluster items whose features are spread over a cluster, or in files that its workers can read.

    The answer is that of `clusterfug.dense_multicut` with the same shards, whatever the number of workers,
    and also if workers die meanwhile.

    Parameters
    ----------
    X : dask array of shape (n, d), or path
        Of a dask array every chunk of rows is a shard, if it is not too large; it is kept in the memory of
        the workers meanwhile. A path is that of a .npy, .parquet, .arrow or .feather file, of a folder of
        them, or a list, and must be the same on all workers.
    threshold, alpha, prefer, sample_weight
        As for `clusterfug.dense_multicut`; the threshold is a number.
    client : distributed.Client or str, optional
        The cluster, or the address of its scheduler. By default the client that is there already.
    metric : {"inner_product", "cosine"}, default="inner_product"
        "cosine" scales rows to length 1.
    center : bool, default=False
        Subtract the mean feature first.
    algorithm : {"auto", "fast"}, default="auto"
        The same, but that "auto" polishes what fits in one task.
    init : integer array of shape (n,), optional
        Labels to start from.
    time_limit : float, optional
        Seconds after which moves stop with the best labels so far. Shards are solved in any case.
    memory_limit : int or str, optional
        Bytes that a task may take: it says how many items are in a shard. 65,536 items at most.
    checkpoint : path, optional
        A folder, where this process runs, from which a run that was stopped goes on.
    callback : callable, optional
        Called as ``callback(phase, done, total)`` with phase "shards" or "moves".

    Returns
    -------
    Clustering
        Of a dask array, `labels` is a dask array with the same chunks.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from clusterfug.distributed import dense_multicut
    >>> X = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     result = dense_multicut(da.from_array(X, chunks=(2, 2)), client=client)
    ...     result.labels.compute()
    array([0, 0, 1, 1])
    """
    task = Task(
        algorithm=algorithm,
        threshold=threshold,
        alpha=alpha,
        prefer=prefer,
        sample_weight=sample_weight,
        init=init,
        time_limit=time_limit,
        memory_limit=memory_limit,
        checkpoint=checkpoint,
    )
    check_task(task)
    if checks.is_path(X):
        files = Files(X).absolute()  # workers may run elsewhere
        with connected(client) as opened:
            return solve_files(files, task, Cluster(opened), metric, center, callback)
    if not isinstance(X, dask.array.Array):
        raise TypeError(
            f"X must be a dask array or a path, not {type(X).__name__}: use dask.array.from_array, or "
            "clusterfug.dense_multicut for what is in memory here"
        )
    checks.rectangle(X)
    if np.isnan(X.shape).any():
        raise ValueError("X has chunks of unknown size: call X.compute_chunk_sizes() first")
    most = most_items(X.shape[1], task.memory_limit)
    chunks = X.rechunk({0: tuple(_at_most(X.chunks[0], most)), 1: -1})
    with connected(client) as opened:
        cluster = Cluster(opened)
        futures = cluster.compute(list(chunks.to_delayed()[:, 0]))
        stops = np.cumsum(chunks.chunks[0])
        rows = [
            (int(stop - size), int(stop), future)
            for size, stop, future in zip(chunks.chunks[0], stops, futures, strict=True)
        ]
        identity = ""
        if checkpoint is not None:
            known = cluster.ahead(cluster.submit(digest, future) for future in futures)
            identity = digest(*map(cluster.value, known))
        result = solve_rows(rows, task, cluster, metric, center, most, identity, callback)
    return replace(result, labels=dask.array.from_array(result.labels, chunks=(X.chunks[0],)))


def _at_most(sizes: tuple[int, ...], most: int) -> list[int]:
    """Chunks as they are, those that are too large in parts; empty ones left out."""
    return [min(most, size - start) for size in sizes for start in range(0, size, most)]
