"""The door: the strictness is chosen, the clustering is solved, and says why."""

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfug.choice.clearest import clearest
from clusterfug.choice.items import Items
from clusterfug.choice.search import Search
from clusterfug.choice.wish import as_wished
from clusterfug.kernels import Progress
from clusterfug.options import Task
from clusterfug.result import Clustering
from clusterfug.strength import STRICTNESS

if TYPE_CHECKING:
    import torch

# Of the similarity to itself that items have in common: more than clusters would, less than copies.
_SHARED = 0.25, 1 - 1e-6


def solve_chosen(X: Any, task: Task, place: "torch.device | None", callback: Progress | None) -> Clustering:
    """The clustering of features by a local threshold, whose strictness is told or chosen."""
    begin = time.perf_counter()
    search = Search(X, task, place, callback)
    if task.wish is not None:
        result = as_wished(search)
    elif task.chooses:
        result = clearest(search)
    else:
        strictness = STRICTNESS if task.strictness is None else task.strictness
        result = search.final(strictness, f"strictness {strictness:g}, as told", task.init)
    if result.n_clusters == 1 and task.wish is None and search.items.n > 1:
        result = _advised(result, search.items)
    seconds = time.perf_counter() - begin
    if task.bound and result.bound is None:
        from clusterfug.bounds.bound import lower_bound

        assert result.choice is not None
        prefer = "small" if result.choice.strictness >= 0 else "large"
        bound = lower_bound(
            search.items.features, alpha=result.choice.alpha, prefer=prefer, **search.everywhere
        )
        result = replace(result, bound=bound)
    elif result.bound is not None and task.algorithm != "exact":  # whose bound comes of its search
        seconds -= result.bound.seconds
    return replace(result, seconds=seconds)


def _advised(result: Clustering, items: Items) -> Clustering:
    """All items are in one cluster: if they are similar because of what all share, say so."""
    total = items.sums(np.zeros(items.n, dtype=np.int64))[0] / items.weight.sum()
    usual = float(np.average(items.around.squares, weights=items.weight))
    if not _SHARED[0] * usual < total @ total < _SHARED[1] * usual:
        return result
    assert result.choice is not None
    advice = "all items share a common part: centre them first (center=True, --center)"
    warnings.warn(f"one cluster, and {advice}", UserWarning, stacklevel=4)
    return replace(result, choice=replace(result.choice, reason=f"{result.choice.reason}; {advice}"))
