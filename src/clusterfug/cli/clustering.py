"""How a clustering is described: `cluster` and `multicut` share it."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from clusterfug import Clustering

_LARGEST = 5  # clusters whose sizes are printed


def size_rows(result: "Clustering") -> dict[str, str]:
    """Return the number of clusters and their sizes as rows of a table."""
    sizes = np.sort(np.bincount(result.labels))[::-1]
    return {
        "clusters": f"{result.n_clusters:,}",
        "largest": ", ".join(f"{size:,}" for size in sizes[:_LARGEST]),
        "alone": f"{np.count_nonzero(sizes == 1):,}",
    }


def algorithm_row(result: "Clustering", refines: bool) -> str:
    """Return the name of the algorithm, and what is known about its end."""
    last = result.trace[-1]
    if last.move_optimal and last.join_optimal:
        return f"{result.algorithm}; no single move or join improves it"
    if refines and last.name != "joins":
        return f"{result.algorithm}; stopped early"
    return result.algorithm


def bound_row(result: "Clustering") -> str | None:
    """Return the lower bound on the objective, and how far the clustering is from it, if it is known."""
    if result.bound is None:
        return None
    far = f"at most {result.gap:.4%} from optimal, {result.gap_inside:.2%} of inside"
    return f"{result.lower_bound:,.2f}; {'proven optimal' if result.optimal else far}"
