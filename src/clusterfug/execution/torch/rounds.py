"""Contraction in rounds along one neighbour graph: its nodes gather in groups, which merge at once.

The graph is kept from round to round: its ends are renamed, its costs are those of the merged nodes. Groups
are pairs, best pairs first. Where these are few, because hubs are the best partner of many, a node may
follow its best partner into a group, if it is welcome in what that becomes.
"""

import torch
from torch import Tensor

from clusterfug.execution.torch.neighbours import pairs
from clusterfug.execution.torch.operations import hashed, matching, totals
from clusterfug.execution.torch.problem import TensorProblem

_ROUNDS = 4  # along one neighbour graph
_TRIES = 8  # to find a partner
_SINGLES = 0.9  # if more of the nodes of a problem than this have none, they follow others
_DISTURBED = 1.0  # costs are multiplied by 0.5 to 1.5 in other starts
_ENOUGH = 0.05  # a round that merges a smaller share of the nodes of a problem is its last


def rounds(problem: TensorProblem, i: Tensor, j: Tensor, starts: int = 1) -> tuple[TensorProblem, Tensor]:
    """The contracted problem, and the node of every item.

    Of several starts each but the first sees costs that are disturbed.
    """
    labels, nodes = problem.everyone, problem
    for _ in range(_ROUNDS):
        if not len(i):
            break
        before = nodes.starts.diff()
        nodes, renamed = merged(nodes, i, j, starts)
        labels = renamed[labels]
        i, j = pairs(renamed[i], renamed[j], nodes.n)
        goes_on = nodes.starts.diff() <= (1 - _ENOUGH) * before
        kept = goes_on[nodes.of[i]]
        i, j = i[kept], j[kept]
    return nodes, labels


def merged(nodes: TensorProblem, i: Tensor, j: Tensor, starts: int) -> tuple[TensorProblem, Tensor]:
    """The problem of the groups, and the group of every node."""
    costs = nodes.costs(i, nodes, j)
    if starts > 1:
        costs *= disturbance(nodes, i, j, starts)
    group, follows = groups(nodes, i, j, costs)
    contracted, labels = nodes.contract(group)
    if follows is None:
        return contracted, labels
    cost = nodes.costs(nodes.everyone, contracted, labels) - nodes.own
    unwelcome = follows & (cost <= 0)
    if not bool(unwelcome.any()):
        return contracted, labels
    return nodes.contract(torch.where(unwelcome, nodes.everyone, group))


def groups(nodes: TensorProblem, i: Tensor, j: Tensor, costs: Tensor) -> tuple[Tensor, Tensor | None]:
    """A group for every node, named by one of its nodes; and who only follows a partner into its group."""
    group, single = matching(i, j, costs, nodes.n, _TRIES)
    stalls = totals(single.double(), nodes.starts) > _SINGLES * nodes.starts.diff()
    if not bool(stalls.any()):
        return group, None
    ends, others, costs = torch.cat([i, j]), torch.cat([j, i]), torch.cat([costs, costs])
    partner = best_partners(nodes.n, ends, others, torch.where(single[others], 0.0, costs))
    follows = single & (partner >= 0) & stalls[nodes.of]
    return torch.where(follows, group[partner], group), follows


def best_partners(n: int, ends: Tensor, others: Tensor, costs: Tensor) -> Tensor:
    """The partner of the largest cost above 0 of every node, of equal ones the first; else -1."""
    best = costs.new_zeros(n).scatter_reduce(0, ends, costs, "amax")
    others = torch.where((costs > 0) & (costs == best[ends]), others, n)
    partner = others.new_full((n,), n).scatter_reduce(0, ends, others, "amin")
    return torch.where(partner < n, partner, -1)


def disturbance(nodes: TensorProblem, i: Tensor, j: Tensor, starts: int) -> Tensor:
    """A factor for the cost of each pair: 1 in every first start, else one that looks random."""
    first, start = nodes.starts[nodes.of[i]], nodes.of[i] % starts
    factor = 1 + _DISTURBED * (hashed((i - first) * 0x10001 + j - first, start) - 0.5)
    return torch.where(start == 0, 1.0, factor)
