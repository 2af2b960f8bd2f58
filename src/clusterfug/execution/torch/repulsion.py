"""The trivial bound on a device: the costs of all pairs that repel, added up in float64."""

import math
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from clusterfug.execution.jit import Progress
from clusterfug.execution.torch.device import memory
from clusterfug.execution.torch.inputs import Item
from clusterfug.execution.torch.memory import resident_bytes
from clusterfug.execution.torch.pack import check_memory, make
from clusterfug.execution.torch.problem import TensorProblem

_BLOCK = 8192  # rows and columns of a block: 512 MiB
_ADDITIONS = 2048  # one after the other in a block, at most: a device adds up as a tree


def repulsion(
    problem: Any, device: torch.device, memory_limit: int | None, callback: Progress | None
) -> tuple[float, float]:
    """Return the sum and an upper bound on its rounding error.

    Features that do not fit on the device are streamed.
    """
    item = Item(problem, device)
    limit = memory(device, memory_limit)
    streamed = resident_bytes(item.n, item.d, item.dtype.itemsize) > limit
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        if streamed:
            check_memory(item, limit=limit, device=device)
        pack, errors = make([item], device, torch.float32, limit, streamed)
        if pack is None:
            raise errors[0]
        packed, n = pack.problem, item.n
        sums = []
        for top, rows, a in _blocks(packed):
            queries = rows if packed.signs is None else rows * packed.signs
            for left, columns, b in _blocks(packed, top):
                costs = queries @ columns.T + packed.last * a[:, None] * b
                sums.append((costs.triu(1) if left == top else costs).clamp(max=0).sum(1).sum())
            if callback is not None:
                bottom = top + len(rows)
                callback("bound", bottom * (2 * n - bottom), n * n)
        total = math.fsum(torch.stack(sums).tolist())
        error = 2.0**-52 * (item.d + 16) * float(packed.magnitudes.sum()) ** 2
        error += 2.0**-52 * _ADDITIONS * abs(total)
        return pack.units[0] * total, pack.units[0] * error


def _blocks(problem: TensorProblem, first: int = 0) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Rows in float64 with their last column, from the first on, and where they start."""
    for some, part in problem.parts():
        for start in range(0, part.n, _BLOCK):
            if some.start + start >= first:
                yield (
                    some.start + start,
                    part.features[start : start + _BLOCK].double(),
                    part.a[start : start + _BLOCK],
                )
