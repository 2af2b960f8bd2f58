"""lower_bound: the door to bounds."""

import time
from typing import Any

import numpy as np

from clusterfug import checks
from clusterfug.bounds.certificate import Certificate, LowerBound, certified
from clusterfug.bounds.pairs import problem_of
from clusterfug.bounds.triangles import pack_features, pack_graph
from clusterfug.gpu.device import choose
from clusterfug.graph import GraphProblem
from clusterfug.kernels import Progress
from clusterfug.options import Task
from clusterfug.problem import DenseProblem

METHODS = ("trivial", "triangles", "auto")
_MANY = 100_000  # items of which "auto" packs no triangles


def lower_bound(
    X: Any,
    threshold: float | str = 0.4,
    *,
    alpha: Any = None,
    prefer: str = "small",
    sample_weight: Any = None,
    strictness: float | None = None,
    n_neighbors: int | None = None,
    method: str = "auto",
    time_limit: float | None = None,
    memory_limit: int | str | None = None,
    device: Any = None,
    callback: Progress | None = None,
) -> LowerBound:
    """A number that no clustering's objective is below, and the proof of it.

    Parameters
    ----------
    X : array or torch tensor of shape (n, d), DenseProblem or GraphProblem
        The problem; it and `threshold` ... `n_neighbors` are as for `dense_multicut` (but for a threshold
        of "auto": bound that with ``bound=True`` there).
    method : {"auto", "trivial", "triangles"}, default="auto"
        "trivial" adds up the costs of all pairs that repel: one pass over all pairs, O(n d) memory.
        "triangles" packs triangles of two pairs that attract and one that repels, of which every clustering
        pays for one. Items of a large problem are dealt out to groups of similar ones (8,192 by default),
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
    >>> round(float(lower_bound(X)), 6), round(dense_multicut(X).objective, 6)
    (-1.22, -1.22)
    """
    begin = time.perf_counter()
    checks.one_of("method", method, METHODS)
    if time_limit is not None and time_limit != np.inf:
        time_limit = checks.number("time_limit", time_limit, 0.0)
    if memory_limit is not None:
        memory_limit = checks.memory("memory_limit", memory_limit)
    place = choose(device, "auto", X)
    if isinstance(X, GraphProblem) and place is not None:
        raise ValueError("a bound of a graph is computed on the CPU: leave out the device")
    if method == "trivial":
        if time_limit is not None:
            raise ValueError("time_limit is for packing triangles: leave it out with method='trivial'")
        if memory_limit is not None and place is None:
            raise ValueError("memory_limit is for triangles or a GPU: leave it out with method='trivial'")
    if method == "auto":
        method = "trivial" if _items(X) > _MANY else "triangles"
    task = Task(
        threshold=threshold,
        alpha=alpha,
        prefer=prefer,
        sample_weight=sample_weight,
        strictness=strictness,
        n_neighbors=n_neighbors,
        memory_limit=memory_limit,
    )
    if place is not None and method == "trivial":
        from clusterfug.gpu.repulsion import repulsion

        value, error = repulsion(X, task, place, callback)
        seconds = time.perf_counter() - begin
        return LowerBound(value - 2 * error, 2 * error, method, Certificate.empty(), seconds)
    problem = problem_of(X, task.costs)
    if method == "trivial":
        certificate = Certificate.empty()
    elif isinstance(problem, GraphProblem):
        certificate = pack_graph(problem, time_limit)
    else:
        certificate = pack_features(problem, memory_limit, time_limit, callback)
    return certified(problem, certificate, method, begin, callback)


def _items(X: Any) -> int:
    """How many items there are; 0 of what is no problem, and will fail."""
    if isinstance(X, DenseProblem | GraphProblem):
        return X.n
    return len(X) if hasattr(X, "__len__") else 0
