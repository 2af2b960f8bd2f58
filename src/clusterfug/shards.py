"""Problems too large to solve at once: shard by shard, and what is left of the shards together.

Contraction adds features, so partial solutions compose exactly: a shard (a stretch of items) is solved and
contracted to the sums of its clusters, which join those of the shards before as the nodes of one problem,
the *pool*; that is solved and contracted in turn. What comes of it are labels to start from: `refine` then
moves the items against the sums of all clusters, and joins clusters, until neither improves.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.kernels import Progress
from clusterfug.problem import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import multilevel, refine

#: Items of a shard at most: the search for neighbours takes time that grows with it.
MOST = 1 << 16
#: Items of a shard at least: below, memory is not the problem.
LEAST = 1 << 10


class Pool(NamedTuple):
    """The shards so far: the node of every item, and the nodes as a problem."""

    node: NDArray[np.int64]  # (items so far,)
    nodes: DenseProblem


def solve_bytes(n: int, d: int) -> int:
    """About what solving n items of d features takes, beside the features: sums, lists, neighbours."""
    return n * (9 * (d + 1) + 400)


def items_of_shard(n: int, d: int, memory_limit: int | None) -> int:
    """How many items are solved at once; n if all are."""
    if memory_limit is None or solve_bytes(n, d) <= memory_limit:
        return n
    return int(min(MOST, max(LEAST, memory_limit // solve_bytes(1, d))))


def pools(
    problem: DenseProblem, size: int, pool: Pool | None = None, progress: Progress | None = None
) -> Iterator[Pool]:
    """The pool after every shard; or only those that come after a given one."""
    start = 0 if pool is None else len(pool.node)
    while start < problem.n:
        part = problem.subset(slice(start, min(problem.n, start + size)))
        labels = _solve(part)
        nodes = part.contract(labels)
        if pool is None:
            pool = Pool(labels, nodes)
        else:
            node = np.concatenate([pool.node, labels + pool.nodes.n])
            both = pool.nodes.beside(nodes)
            labels = _solve(both)
            pool = Pool(labels[node], both.contract(labels))
        start += part.n
        if progress is not None:
            progress("shards", start, problem.n)
        yield pool


def _solve(problem: DenseProblem) -> NDArray[np.int64]:
    return refine(problem, multilevel(problem, Budget()), Budget()).labels
