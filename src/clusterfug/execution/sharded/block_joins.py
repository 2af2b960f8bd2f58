"""Joins of nodes that are too many for one task, in blocks.

Every pair of blocks is searched for partners: nodes that attract each other. Nodes with partners form
groups that fit in a task, strong attractions first. Groups are solved, and contracted they are the next
blocks. A node without a partner is finished: a node that is attracted to no single node is not attracted to
several together. When no node has a partner, no two of them gain by joining.
"""

from itertools import combinations_with_replacement, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel
from clusterfug.execution.sharded import tasks
from clusterfug.execution.sharded.engine import Engine, TaskCoroutine
from clusterfug.neighbours.exact import Neighbours, exact_neighbours
from clusterfug.problems.cost_kernels import Ints
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.protocol import GAIN_TOLERANCE
from clusterfug.result import compact

_MAX_PARTNERS = 4  # of a node

Labels = NDArray[np.int64]


class NodeBlock(NamedTuple):
    """Some of the nodes of a problem, as the value of a task."""

    problem: Any
    size: int
    origin: int | None = None  # nodes of blocks of the same origin do not attract each other


def join_blocks(engine: Engine, blocks: list[NodeBlock], max_nodes: int) -> TaskCoroutine:
    """Return (as a coroutine) labels 0..K-1 of the nodes of all blocks that no join of two improves."""
    labels = np.arange(sum(block.size for block in blocks))
    active = labels  # labels of the nodes that may still join others
    while any(block.origin is None or block.origin != blocks[0].origin for block in blocks):
        ids, costs = zip(*(yield _submit_partners(engine, blocks)), strict=True)
        groups = partner_groups(Neighbours(np.concatenate(ids), np.concatenate(costs)), max_nodes)
        if not groups:
            break
        ends = np.cumsum([0, *(block.size for block in blocks)])
        submitted = [_submit_group(engine, blocks, ends, group) for group in groups]
        solved = yield [of_group for of_group, _ in submitted]
        relabelled = np.arange(len(labels))
        blocks, left = [], []
        for group, joined, (_, nodes) in zip(groups, solved, submitted, strict=True):
            _, first = np.unique(joined, return_index=True)
            left.append(active[group][first])
            relabelled[active[group]] = left[-1][joined]
            blocks.append(NodeBlock(nodes, len(first), origin=len(blocks)))
        labels, active = relabelled[labels], np.concatenate(left)
        if len(active) == sum(map(len, groups)):  # costs are positive by rounding only
            break
    return compact(labels)


def _submit_group(engine: Engine, blocks: list[NodeBlock], ends: Labels, group: Labels) -> tuple[Any, Any]:
    """Solve a group of nodes of any blocks: tasks of its labels and of the contracted nodes."""
    parts = []
    for block, (start, end) in zip(blocks, pairwise(ends), strict=True):
        nodes = group[slice(*np.searchsorted(group, (start, end)))]
        if len(nodes):
            parts.append(engine.submit(DenseProblem.subset, block.problem, nodes - start))
    return engine.split_pair(engine.submit(tasks.solve_pool, None, *parts))


def _submit_partners(engine: Engine, blocks: list[NodeBlock]) -> list[Any]:
    """Search all blocks for the partners of largest cost of each block's nodes: a task for each block."""
    starts = np.cumsum([0, *(block.size for block in blocks)])
    best: list[Any] = [None] * len(blocks)
    for one, other in combinations_with_replacement(range(len(blocks)), 2):
        if blocks[one].origin is not None and blocks[one].origin == blocks[other].origin:
            continue
        problems = [blocks[at].problem for at in dict.fromkeys((one, other))]
        found = engine.submit(find_partners, *problems)
        best[one] = engine.submit(merge_partners, best[one], found, 0, int(starts[other]))
        if one != other:
            best[other] = engine.submit(merge_partners, best[other], found, 1, int(starts[one]))
    return best


def find_partners(first: DenseProblem, second: DenseProblem | None = None) -> tuple[Neighbours, ...]:
    """Return the partners of a block's nodes in the same block; for two blocks, those in the other block.

    A partner whose attraction may be rounding, or that does not attract, has cost -inf.
    """
    both = first if second is None else first.concatenate(second)
    split = 0 if second is None else first.n
    ids, costs = exact_neighbours(both, _MAX_PARTNERS, split=split)
    upper = GAIN_TOLERANCE * both.magnitudes[:, None] * both.magnitudes[ids]
    heads, at = np.nonzero((costs > 0) & (costs <= upper))
    upper[heads, at] = GAIN_TOLERANCE * both.pair_terms(heads, ids[heads, at])
    costs = np.where((costs > 0) & (costs > upper), costs, -np.inf)
    missing = (0, 0), (0, _MAX_PARTNERS - ids.shape[1])
    ids, costs = np.pad(ids, missing), np.pad(costs, missing, constant_values=-np.inf)
    if second is None:
        return (Neighbours(ids, costs),)
    return Neighbours(ids[:split] - split, costs[:split]), Neighbours(ids[split:], costs[split:])


def merge_partners(
    known: Neighbours | None, found: tuple[Neighbours, ...], at: int, start: int
) -> Neighbours:
    """Return the best of the known partners and of ``found[at]``, whose numbers count from `start`."""
    ids, costs = found[at].ids + start, found[at].costs
    if known is not None:
        ids, costs = np.hstack([known.ids, ids]), np.hstack([known.costs, costs])
    order = np.argsort(-costs, axis=1, kind="stable")[:, :_MAX_PARTNERS]
    return Neighbours(np.take_along_axis(ids, order, axis=1), np.take_along_axis(costs, order, axis=1))


def partner_groups(partners: Neighbours, max_nodes: int) -> list[Labels]:
    """Return groups of at most `max_nodes` nodes (but two) that attract each other.

    The strongest attractions come first; one that would make a group too large is ignored. Nodes without a
    partner are in no group.
    """
    attracted = np.flatnonzero(partners.costs > -np.inf)
    order = attracted[np.argsort(-partners.costs.ravel()[attracted], kind="stable")]
    heads, tails = order // partners.ids.shape[1], partners.ids.ravel()[order]
    group_of_node = pack_components(heads, tails, len(partners.ids), max(2, max_nodes))
    members = np.argsort(group_of_node, kind="stable")
    bounds = np.searchsorted(group_of_node[members], np.arange(group_of_node.max(initial=-1) + 2))
    return [members[start:stop] for start, stop in pairwise(bounds)]


@kernel
def pack_components(heads: Ints, tails: Ints, n: int, max_nodes: int) -> Ints:
    """Return the pack of each node, -1 without an edge: edges join nodes, packs hold whole components."""
    parent = np.arange(n)
    size = np.ones(n, dtype=np.int64)
    has_edge = np.zeros(n, dtype=np.bool_)
    for e in range(heads.shape[0]):
        has_edge[heads[e]] = has_edge[tails[e]] = True
        a, b = find_root(parent, heads[e]), find_root(parent, tails[e])
        if a != b and size[a] + size[b] <= max_nodes:
            if size[a] < size[b]:
                a, b = b, a
            parent[b] = a
            size[a] += size[b]
    pack = np.full(n, -1)
    count, last = 0, -1  # number of nodes in the last pack, and its index
    for i in range(n):
        if not has_edge[i]:
            continue
        root = find_root(parent, i)
        if pack[root] < 0:
            if last < 0 or count + size[root] > max_nodes:
                last += 1
                count = 0
            count += size[root]
            pack[root] = last
        pack[i] = pack[root]
    return pack


@kernel
def find_root(parent: Ints, i: int) -> int:
    """Return the root of the tree of a node, and halve the path to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i
