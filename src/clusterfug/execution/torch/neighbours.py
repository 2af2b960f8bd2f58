"""The neighbour graph: the best partners of every item, found in low precision, costed in float64."""

import torch
from torch import Tensor

from clusterfug.execution.torch.operations import top_products
from clusterfug.execution.torch.problem import TensorProblem

_NEIGHBOURS = 5  # per item, at most
_CANDIDATES = 8  # per item that are costed in float64


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
