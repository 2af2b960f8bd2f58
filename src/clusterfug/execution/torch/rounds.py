"""Contraction in rounds along one neighbour graph: in each round groups of nodes merge simultaneously.

The graph is kept from round to round: its ends are renamed, and its costs are those of the merged nodes.
Groups are pairs of a greedy matching. Where the matching is small, because hubs are the best partner of
many nodes, a node also joins the group of its best partner if it attracts that whole group.
"""

import torch
from torch import Tensor

from clusterfug.execution.torch.neighbours import unique_pairs
from clusterfug.execution.torch.operations import hash_uniform, matching, problem_sums
from clusterfug.execution.torch.problem import TensorProblem

_MAX_ROUNDS = 4  # along one neighbour graph
_MATCHING_ROUNDS = 8
_MAX_SINGLE_SHARE = 0.9  # of a problem's nodes; if more are unmatched, they join groups
_PERTURBATION = 1.0  # width of the factors of costs in further starts: 0.5 to 1.5
_MIN_MERGED_SHARE = 0.05  # a round that merges a smaller share of a problem's nodes is its last


def contract_in_rounds(
    problem: TensorProblem, i: Tensor, j: Tensor, starts: int = 1
) -> tuple[TensorProblem, Tensor]:
    """Return the contracted problem, and the node of every item.

    With several starts (copies of each problem) all but the first use perturbed costs.
    """
    labels, nodes = problem.items, problem
    for _ in range(_MAX_ROUNDS):
        if not len(i):
            break
        before = nodes.starts.diff()
        nodes, renamed = merge_groups(nodes, i, j, starts)
        labels = renamed[labels]
        i, j = unique_pairs(renamed[i], renamed[j], nodes.n)
        goes_on = nodes.starts.diff() <= (1 - _MIN_MERGED_SHARE) * before
        kept = goes_on[nodes.problem_of[i]]
        i, j = i[kept], j[kept]
    return nodes, labels


def merge_groups(nodes: TensorProblem, i: Tensor, j: Tensor, starts: int) -> tuple[TensorProblem, Tensor]:
    """Return the problem whose nodes are the groups of one round, and the group of every node."""
    costs = nodes.costs(i, nodes, j)
    if starts > 1:
        costs *= perturbation(nodes, i, j, starts)
    group, joins = form_groups(nodes, i, j, costs)
    contracted, labels = nodes.contract(group)
    if joins is None:
        return contracted, labels
    cost = nodes.costs(nodes.items, contracted, labels) - nodes.own_costs
    repelled = joins & (cost <= 0)
    if not bool(repelled.any()):
        return contracted, labels
    return nodes.contract(torch.where(repelled, nodes.items, group))


def form_groups(nodes: TensorProblem, i: Tensor, j: Tensor, costs: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return a group for every node, named by one of its nodes, and which nodes joined a partner's pair."""
    group, single = matching(i, j, costs, nodes.n, _MATCHING_ROUNDS)
    stalls = problem_sums(single.double(), nodes.starts) > _MAX_SINGLE_SHARE * nodes.starts.diff()
    if not bool(stalls.any()):
        return group, None
    ends, others, costs = torch.cat([i, j]), torch.cat([j, i]), torch.cat([costs, costs])
    partner = best_partners(nodes.n, ends, others, torch.where(single[others], 0.0, costs))
    joins = single & (partner >= 0) & stalls[nodes.problem_of]
    return torch.where(joins, group[partner], group), joins


def best_partners(n: int, ends: Tensor, others: Tensor, costs: Tensor) -> Tensor:
    """Return the partner of the largest positive cost of every node, the lowest one of ties; or -1."""
    best = costs.new_zeros(n).scatter_reduce(0, ends, costs, "amax")
    others = torch.where((costs > 0) & (costs == best[ends]), others, n)
    partner = others.new_full((n,), n).scatter_reduce(0, ends, others, "amin")
    return torch.where(partner < n, partner, -1)


def perturbation(nodes: TensorProblem, i: Tensor, j: Tensor, starts: int) -> Tensor:
    """Return a factor for the cost of each pair: 1 in every first start, else a pseudo-random one."""
    of = nodes.problem_of[i]
    first, start = nodes.starts[of], of % starts
    factor = 1 + _PERTURBATION * (hash_uniform((i - first) * 0x10001 + j - first, start) - 0.5)
    return torch.where(start == 0, 1.0, factor)
