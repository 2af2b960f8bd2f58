"""The trivial bound on a device: the sum of all negative pair costs in float64."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from clusterfug.bounds.certificate import NEGLIGIBLE_ERROR
from clusterfug.execution import threads
from clusterfug.execution.jit import Progress
from clusterfug.execution.torch.device import available_bytes
from clusterfug.execution.torch.inputs import TensorInput
from clusterfug.execution.torch.pack import make_pack, plan_packs
from clusterfug.execution.torch.problem import TensorProblem

_BLOCK_ROWS = 8192  # also columns: 512 MiB
_MAX_ADDITIONS = 2048  # in sequence, per block: a device sums as a tree


def total_repulsion(
    problem: Any, device: torch.device, memory_limit: int | None, callback: Progress | None
) -> tuple[float, float]:
    """Return the sum of the costs of all pairs that repel, and an upper bound on its rounding error.

    Features that do not fit on the device are streamed.
    """
    inputs = {0: TensorInput(problem, device)}
    limit = available_bytes(device, memory_limit)
    [(_, streamed)] = plan_packs(inputs, limit)
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        pack, errors = make_pack(inputs, device, torch.float32, limit, streamed)
        if pack is None:
            raise errors[0]
        packed, n = pack.problem, pack.problem.n
        sums, terms = [], _Terms(packed)
        for top, rows, a in _blocks(packed):
            terms.add(rows, a)
            for left, columns, b in _blocks(packed, top):
                costs = _costs(packed, rows, a, columns, b)
                sums.append((costs.triu(1) if left == top else costs).clamp(max=0).sum(1).sum())
            if callback is not None:
                bottom = top + len(rows)
                callback("bound", bottom * (2 * n - bottom), n * n)
        total = math.fsum(torch.stack(sums).tolist())
        share = 2.0**-52 * (packed.d + 16)
        error = 2 * share * float(terms.total)
        if error > NEGLIGIBLE_ERROR * abs(total):
            error = 2 * share * _doubtful_terms(packed, share)
        error += 2.0**-52 * _MAX_ADDITIONS * abs(total)
        return pack.units[0] * total, pack.units[0] * error


def _costs(problem: TensorProblem, rows: Tensor, a: Tensor, columns: Tensor, b: Tensor) -> Tensor:
    """Return the costs between the items of two blocks."""
    queries = rows if problem.signs is None else rows * problem.signs
    return queries @ columns.T + problem.last * a[:, None] * b


def _doubtful_terms(problem: TensorProblem, share: float) -> float:
    """Return the total magnitude of the terms of all costs that do not exceed a share of their terms."""
    absolute = replace(problem, signs=None, last=problem.last.abs())
    sums = []
    for top, rows, a in _blocks(problem):
        for left, columns, b in _blocks(problem, top):
            terms = _costs(absolute, rows.abs(), a.abs(), columns.abs(), b.abs())
            terms[_costs(problem, rows, a, columns, b) > share * terms] = 0
            sums.append((terms.triu(1) if left == top else terms).sum(1).sum())
    return math.fsum(torch.stack(sums).tolist())


class _Terms:
    """The total magnitude of the terms of all costs, from blocks of rows one after the other."""

    def __init__(self, problem: TensorProblem) -> None:
        self._last = problem.last.abs()
        self._sums = torch.zeros(problem.d + 1, dtype=torch.float64, device=problem.device)
        self.total = torch.zeros(1, dtype=torch.float64, device=problem.device)

    def add(self, rows: Tensor, a: Tensor) -> None:
        """Add the terms of the costs of these items to each other and to those before them."""
        absolute = torch.cat([rows, a.double()[:, None]], 1).abs()
        before = torch.cat([self._sums[None], absolute]).cumsum(0)
        terms = (absolute * before[:-1]).sum(0)
        self.total += terms[:-1].sum() + self._last * terms[-1]
        self._sums = before[-1]


def _blocks(problem: TensorProblem, first: int = 0) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield blocks of rows from row `first` on: start, features in float64, and a."""
    for some, part in problem.parts():
        for block in threads.slices(part.n, _BLOCK_ROWS):
            if some.start + block.start >= first:
                yield some.start + block.start, part.features[block].double(), part.a[block]
