"""Nodes that are too many for one task, in blocks: those that attract each other are brought together.

Every pair of blocks is searched for the partners of its nodes. Nodes with partners make groups of as many
as fit in a task, strong attractions first; groups are solved, and contracted they are the next blocks. A
node without a partner is done: what is not attracted by any node is not attracted by several together. When
no node has a partner, no two of them gain by joining.
"""

from itertools import combinations_with_replacement, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel
from clusterfug.execution.sharded import tasks
from clusterfug.execution.sharded.engine import Engine, Steps
from clusterfug.neighbours.exact import Neighbours, nearest
from clusterfug.problems.cost_kernels import Ints
from clusterfug.problems.dense import DenseProblem
from clusterfug.refinement.feature_clusters import GAIN_TOLERANCE
from clusterfug.result import compact

_PARTNERS = 4  # of a node

Labels = NDArray[np.int64]


class Nodes(NamedTuple):
    """Some of the nodes of a problem: where they are, and how many."""

    problem: Any
    size: int
    kin: int | None = None  # nodes of blocks of one kin are known not to attract each other


def gather(engine: Engine, blocks: list[Nodes], most: int) -> Steps:
    """In steps: labels 0..K-1 of the nodes of all blocks such that no two clusters gain by joining."""
    labels = np.arange(sum(block.size for block in blocks))
    names = labels  # of the nodes that may still join others, as labels call them
    while any(block.kin is None or block.kin != blocks[0].kin for block in blocks):
        ids, costs = zip(*(yield _partners(engine, blocks)), strict=True)
        groups = grouped(Neighbours(np.concatenate(ids), np.concatenate(costs)), most)
        if not groups:
            break
        ends = np.cumsum([0, *(block.size for block in blocks)])
        solved = [_solved(engine, blocks, ends, group) for group in groups]
        found = yield [submitted for submitted, _ in solved]
        renamed = np.arange(len(labels))
        blocks, left = [], []
        for group, joined, (_, nodes) in zip(groups, found, solved, strict=True):
            called = names[group]
            _, first = np.unique(joined, return_index=True)
            left.append(called[first])
            renamed[called] = left[-1][joined]
            blocks.append(Nodes(nodes, len(first), len(blocks)))
        labels, names = renamed[labels], np.concatenate(left)
        if len(names) == sum(map(len, groups)):  # attracted by no more than rounding
            break
    return compact(labels)


def _solved(engine: Engine, blocks: list[Nodes], ends: Labels, group: Labels) -> tuple[Any, Any]:
    """Labels of some nodes of any blocks, and the nodes they are contracted to."""
    parts = []
    for block, (start, end) in zip(blocks, pairwise(ends), strict=True):
        here = group[slice(*np.searchsorted(group, (start, end)))]
        if len(here):
            parts.append(engine.submit(DenseProblem.subset, block.problem, here - start))
    return engine.parts(engine.submit(tasks.join, None, *parts))


def _partners(engine: Engine, blocks: list[Nodes]) -> list[Any]:
    """For every block the partners that attract its nodes most, in all blocks; the first at least."""
    starts = np.cumsum([0, *(block.size for block in blocks)])
    found: list[Any] = [None] * len(blocks)
    for one, other in combinations_with_replacement(range(len(blocks)), 2):
        if blocks[one].kin is not None and blocks[one].kin == blocks[other].kin:
            continue
        problems = [blocks[at].problem for at in dict.fromkeys((one, other))]
        both = engine.submit(partners, *problems)
        found[one] = engine.submit(best, found[one], both, 0, int(starts[other]))
        if one != other:
            found[other] = engine.submit(best, found[other], both, 1, int(starts[one]))
    return found


def partners(first: DenseProblem, second: DenseProblem | None = None) -> tuple[Neighbours, ...]:
    """Who attracts the nodes of a block most in itself; or of two blocks, in the other one.

    A partner that does not attract costs -inf.
    """
    both = first if second is None else first.concatenate(second)
    split = 0 if second is None else first.n
    ids, costs = nearest(both, _PARTNERS, split=split)
    magnitudes = both.own_costs[1]
    rounding = GAIN_TOLERANCE * magnitudes[:, None] * (magnitudes[:, None] + magnitudes[ids])
    costs = np.where(costs > rounding, costs, -np.inf)
    missing = (0, 0), (0, _PARTNERS - ids.shape[1])
    ids, costs = np.pad(ids, missing), np.pad(costs, missing, constant_values=-np.inf)
    if second is None:
        return (Neighbours(ids, costs),)
    return Neighbours(ids[:split] - split, costs[:split]), Neighbours(ids[split:], costs[split:])


def best(known: Neighbours | None, found: tuple[Neighbours, ...], at: int, start: int) -> Neighbours:
    """The best of the partners that are known and of others, whose numbers count from a start."""
    ids, costs = found[at].ids + start, found[at].costs
    if known is not None:
        ids, costs = np.hstack([known.ids, ids]), np.hstack([known.costs, costs])
    order = np.argsort(-costs, axis=1, kind="stable")[:, :_PARTNERS]
    return Neighbours(np.take_along_axis(ids, order, axis=1), np.take_along_axis(costs, order, axis=1))


def grouped(found: Neighbours, most: int) -> list[Labels]:
    """Groups of nodes that attract each other, of at most so many (but two) nodes; none without a partner.

    The strongest attractions come first; one that would make a group too large does not count.
    """
    attracted = np.flatnonzero(found.costs > -np.inf)
    order = attracted[np.argsort(-found.costs.ravel()[attracted], kind="stable")]
    of_node = packed(order // found.ids.shape[1], found.ids.ravel()[order], len(found.ids), max(2, most))
    members = np.argsort(of_node, kind="stable")
    bounds = np.searchsorted(of_node[members], np.arange(of_node.max(initial=-1) + 2))
    return [members[start:stop] for start, stop in pairwise(bounds)]


@kernel
def packed(heads: Ints, tails: Ints, n: int, most: int) -> Ints:
    """Join nodes along edges to components of at most so many, pack those; the pack of each node, or -1."""
    parent = np.arange(n)
    size = np.ones(n, dtype=np.int64)
    has_edge = np.zeros(n, dtype=np.bool_)
    for e in range(heads.shape[0]):
        a, b = heads[e], tails[e]
        has_edge[a] = has_edge[b] = True
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        if a != b and size[a] + size[b] <= most:
            if size[a] < size[b]:
                a, b = b, a
            parent[b] = a
            size[a] += size[b]
    pack = np.full(n, -1)
    count, last = 0, -1  # of nodes in the last pack; its number
    for i in range(n):
        root = i
        while parent[root] != root:
            root = parent[root]
        if not has_edge[i]:
            continue
        if pack[root] < 0:
            if last < 0 or count + size[root] > most:
                last += 1
                count = 0
            count += size[root]
            pack[root] = last
        pack[i] = pack[root]
    return pack
