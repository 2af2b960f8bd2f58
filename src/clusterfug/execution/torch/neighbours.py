"""The neighbour graph: the best partners of every item, found in low precision, costed in float64."""

import torch
from torch import Tensor

from clusterfug.execution.torch.operations import nominate
from clusterfug.execution.torch.problem import TensorProblem

_NEIGHBOURS = 5
_NOMINEES = 8


def neighbours(problem: TensorProblem) -> tuple[Tensor, Tensor]:
    """Pairs i < j that attract, one of them among the best partners of the other."""
    items = problem.everyone
    rows, columns = problem.rows(exact=False), problem.columns(exact=False)
    _, ids = nominate(rows, columns, items, problem.of, problem.tiles, _NOMINEES)
    ids = torch.where(ids == items[:, None], -1, ids)  # there are fewer
    i = items.repeat_interleave(_NOMINEES)
    costs = problem.costs(i, problem, ids.reshape(-1)).reshape(ids.shape)
    best, at = costs.topk(_NEIGHBOURS, dim=1)
    attracts = best > 0
    return pairs(items[:, None].expand_as(best)[attracts], ids.gather(1, at)[attracts], problem.n)


def pairs(i: Tensor, j: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """Every pair once, the smaller number first, without those of a number with itself."""
    keys = torch.minimum(i, j) * n + torch.maximum(i, j)
    keys = torch.unique(keys[i != j])
    return keys // n, keys % n
