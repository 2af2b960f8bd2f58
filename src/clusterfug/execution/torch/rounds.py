"""The neighbour graph, and contraction in rounds along it: in each, groups of nodes merge simultaneously.

The graph is kept from round to round: its ends are renamed, and its costs are those of the merged nodes.
Groups are pairs of a greedy matching. Where the matching is small, because hubs are the best partner of
many nodes, a node also joins the group of its best partner if it attracts that whole group.
"""

import torch
from torch import Tensor

from clusterfug.execution.torch.operations import hash_uniform, matching, problem_sums, top_products
from clusterfug.execution.torch.problem import TensorProblem

_NEIGHBOURS = 5  # per item, at most
_CANDIDATES = 8  # per item, found in low precision; their costs are computed in float64
_MAX_ROUNDS = 4  # along one neighbour graph
_MATCHING_ROUNDS = 8
_MAX_SINGLE_SHARE = 0.9  # of a problem's nodes; if more are unmatched, they join groups
_PERTURBATION = 1.0  # width of the factors of costs in further starts: 0.5 to 1.5
_MIN_MERGED_SHARE = 0.05  # a round that merges a smaller share of a problem's nodes is its last


def neighbour_pairs(problem: TensorProblem) -> tuple[Tensor, Tensor]:
    """Return pairs i < j that attract and of which one is among the best partners of the other."""
    items = problem.items
    queries, candidates = problem.as_queries(exact=False), problem.as_candidates(exact=False)
    _, ids = top_products(queries, candidates, items, problem.problem_of, problem.tiles, _CANDIDATES)
    ids = torch.where(ids == items[:, None], -1, ids)  # where there are fewer candidates
    i = items.repeat_interleave(_CANDIDATES)
    costs = problem.costs(i, problem, ids.reshape(-1)).reshape(ids.shape)
    best, at = costs.topk(_NEIGHBOURS, dim=1)
    attracts = best > 0
    return unique_pairs(items[:, None].expand_as(best)[attracts], ids.gather(1, at)[attracts], problem.n)


def unique_pairs(i: Tensor, j: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Return every pair of different numbers below n once, the smaller number first."""
    keys = torch.minimum(i, j) * n + torch.maximum(i, j)
    keys = torch.unique(keys[i != j])
    return keys // n, keys % n


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
