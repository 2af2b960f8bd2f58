"""The door: the strictness is chosen, the clustering is solved, and says why."""

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfug import checks
from clusterfug.choice.clearest import clearest
from clusterfug.choice.items import Items
from clusterfug.choice.search import Search
from clusterfug.choice.wish import as_wished
from clusterfug.kernels import Progress
from clusterfug.options import Task, check_exact
from clusterfug.result import Clustering
from clusterfug.strength import STRICTNESS

if TYPE_CHECKING:
    import torch

_NEARLY = 0.98  # of all items
_SHARED = 0.25  # of the similarity to itself that items have in common: more than clusters would
_COPIES = 1e-12  # share of what is not in common, where items are copies


def solve_chosen(X: Any, task: Task, place: "torch.device | None", callback: Progress | None) -> Clustering:
    """The clustering of features by a local threshold, whose strictness is told or chosen."""
    begin = time.perf_counter()
    _check(X, task)
    search = Search(X, task, place, callback)
    if task.wish is not None:
        result = as_wished(search)
    elif task.chooses:
        result = clearest(search)
    else:
        strictness = STRICTNESS if task.strictness is None else task.strictness
        result = search.final(strictness, f"strictness {strictness:g}, as told", task.init)
    if task.wish is None:
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


def _check(X: Any, task: Task) -> None:
    """Errors that would come late."""
    if not hasattr(X, "__len__"):
        return
    n = len(X)
    if task.wish is not None:
        weight = task.sample_weight
        items = n if weight is None else int(np.count_nonzero(checks.weights(weight, n)))
        if task.wish[0] > items:
            raise ValueError(f"n_clusters is {task.wish[0]:,}, but there are only {items:,} items")
    task.refinement.start(n)
    if task.algorithm == "exact":
        check_exact(n)
    if task.algorithm == "dapplaec":
        from clusterfug.neighbours.approximate import require_faiss

        require_faiss()


def _advised(result: Clustering, items: Items) -> Clustering:
    """If nearly all items are in one cluster because of what all share, say so."""
    total = items.weight.sum()
    if np.bincount(result.labels, weights=items.weight).max() < _NEARLY * total or items.n == 1:
        return result
    mean = items.sums(np.zeros(items.n, dtype=np.int64))[0] / total
    usual, shared = (items.weight * items.around.squares).sum() / total, (mean**2).sum()
    if shared <= _SHARED * usual or usual - shared <= _COPIES * usual:
        return result
    assert result.choice is not None
    advice = "all items share a common part: centre them first (center=True, --center)"
    warnings.warn(f"one cluster, and {advice}", UserWarning, stacklevel=4)
    return replace(result, choice=replace(result.choice, reason=f"{result.choice.reason}; {advice}"))
