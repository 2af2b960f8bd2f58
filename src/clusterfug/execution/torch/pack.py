"""Packs: problems of the same number of features side by side as one `TensorProblem`, as many as fit.

Here the features are read for the first time: one pass on the device says how long every row is, and so
whether a number is not finite or too large, and by which power of two to scale.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clusterfug import checks
from clusterfug.execution.torch.inputs import STARTS, Item
from clusterfug.execution.torch.memory import part_of, resident_bytes, streamed_bytes
from clusterfug.execution.torch.problem import TensorProblem

_BLOCK = 1 << 26  # numbers of which the squares are taken at a time
_USUAL = 24  # lengths of 2^-24 to 2^24 need no scaling: their products and sums are in the range of float32


class Pack(NamedTuple):
    """Problems that are solved at once."""

    problem: TensorProblem
    init: Tensor | None
    units: tuple[float, ...]  # what a cost of 1 stands for, per problem
    sizes: tuple[int, ...]  # items that take part, per problem
    starts: int  # copies that fit, if the problems are small


def plan(items: Sequence[Item], limit: float) -> Iterator[tuple[list[int], bool]]:
    """Positions of the items that go together, largest first; and whether that is too much for the limit.

    Then it is one problem, whose features stay where they are and are streamed.
    """
    kinds: dict[Any, list[int]] = {}
    for t in sorted(range(len(items)), key=lambda t: -items[t].n):
        kinds.setdefault(items[t].kind, []).append(t)
    for group in kinds.values():
        together: list[int] = []
        used = 0
        for t in group:
            item = items[t]
            need = resident_bytes(item.n, item.d, item.dtype.itemsize)
            if need > limit:
                yield [t], True
                continue
            need *= STARTS if item.is_small else 1
            if together and used + need > limit:
                yield together, False
                together, used = [], 0
            together.append(t)
            used += need
        if together:
            yield together, False


def check_memory(item: Item, *, limit: float, device: torch.device) -> None:
    """A problem that is larger than the limit: can it be solved by streaming, or where it is?"""
    if item.features.device != device:
        need = streamed_bytes(item.n, item.d)
    else:
        need = resident_bytes(item.n, item.d, item.dtype.itemsize)
        need -= item.features.nbytes if item.is_ready else 0
    if need > limit:
        raise MemoryError(
            f"{item.n} items of {item.d} features need {need / 2**30:.3g} GiB on {device}, more than "
            f"memory_limit ({limit / 2**30:.3g} GiB): raise it, free memory there, or use device='cpu'"
        )


def make(
    items: Sequence[Item], device: torch.device, narrow: torch.dtype, limit: float, streamed: bool
) -> tuple[Pack | None, dict[int, Exception]]:
    """The pack of these items, or the errors of some of them."""
    features = _together([item.rows() for item in items], device, streamed)
    sizes = tuple(item.n for item in items)
    each = torch.arange(len(items), device=device)
    of = torch.repeat_interleave(each, torch.tensor(sizes, device=device), output_size=sum(sizes))
    a = torch.from_numpy(np.concatenate([item.last_column() for item in items])).to(device)
    # A sign far from 1 is exchanged for a longer column, by an even power of two.
    turns = [math.frexp(item.last)[1] // 2 for item in items]
    turns = [turn if abs(turn) > _USUAL // 2 else 0 for turn in turns]
    last = [math.ldexp(item.last, -2 * turn) for item, turn in zip(items, turns, strict=True)]
    if any(turns):
        a = a * _powers(turns, device)[of]
    last_of = torch.tensor(last, dtype=torch.float64, device=device)
    squares = _squares(features, device) + last_of.abs()[of] * a.square()
    top = _largest(squares, of, len(items)).tolist()
    errors = {t: error for t, item in enumerate(items) if (error := _wrong(item, top[t])) is not None}
    if errors:
        return None, errors
    exponents = [math.frexp(length)[1] // 2 if length else 0 for length in top]
    exponents = [exponent if abs(exponent) > _USUAL else 0 for exponent in exponents]
    magnitudes = squares.sqrt()
    if any(exponents):
        scale = _powers([-exponent for exponent in exponents], device)[of]
        features = (features * scale.to(features.device)[:, None]).to(features.dtype)
        a, magnitudes = a * scale, magnitudes * scale
    starts = torch.tensor([0, *np.cumsum(sizes).tolist()], device=device)
    signs = items[0].signs
    problem = TensorProblem(
        features,
        a,
        magnitudes,
        starts,
        last_of,
        None if signs is None else torch.tensor(signs, device=device),
        narrow,
        None if features.device == device else part_of(items[0].n, items[0].d, limit),
    )
    units = tuple(4.0**exponent for exponent in exponents)
    return Pack(problem, _init(items, of), units, sizes, _starts(items, limit)), {}


def _starts(items: Sequence[Item], limit: float) -> int:
    need = sum(resident_bytes(item.n, item.d, item.dtype.itemsize) for item in items)
    return STARTS if items[0].is_small and STARTS * need <= limit else 1


def _together(rows: list[Tensor], device: torch.device, streamed: bool) -> Tensor:
    if len({part.device for part in rows}) > 1:
        rows = [part.to(device) for part in rows]
    together = rows[0] if len(rows) == 1 else torch.cat(rows)
    return together if streamed and together.device.type == "cpu" else together.to(device)


def _powers(exponents: list[int], device: torch.device) -> Tensor:
    return torch.tensor([2.0**exponent for exponent in exponents], dtype=torch.float64, device=device)


def _squares(features: Tensor, device: torch.device) -> Tensor:
    """Squared lengths of the rows in float64."""
    parts = torch.split(features, max(1, _BLOCK // features.shape[1]))
    squares = [part.to(device).double().square().sum(1) for part in parts]
    return squares[0] if len(squares) == 1 else torch.cat(squares)


def _largest(squares: Tensor, of: Tensor, problems: int) -> Tensor:
    """The largest of every problem; what is no number is larger than any."""
    squares = squares.nan_to_num(nan=torch.inf, posinf=torch.inf)
    if problems == 1:
        return squares.max().reshape(1)  # atomic maxima at one place are slow
    return squares.new_zeros(problems).scatter_reduce(0, of, squares, "amax")


def _wrong(item: Item, longest: float) -> Exception | None:
    """What is wrong with a problem whose longest row has this squared length, if anything is."""
    try:
        if not longest <= checks.LARGEST**2:
            item.complain()
        checks.costs_in_range(longest, item.n)
    except ValueError as error:
        return error
    return None


def _init(items: Sequence[Item], of: Tensor) -> Tensor | None:
    """Labels to start from, below the number of items, no two problems with the same."""
    if items[0].init is None:
        return None
    given = np.concatenate([item.of_present(item.init) for item in items if item.init is not None])
    _, labels = torch.unique(torch.from_numpy(given).to(of.device), return_inverse=True)
    if len(items) > 1:
        _, labels = torch.unique(of * len(labels) + labels, return_inverse=True)
    return labels
