"""Packs: problems with the same number of features side by side as one `TensorProblem`, as many as fit.

Here the features are read for the first time: one pass on the device computes the length of every row,
which tells whether a value is not finite or too large, and by which power of two to scale.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clusterfug import checks
from clusterfug.execution.torch.inputs import STARTS, TensorInput, check_values
from clusterfug.execution.torch.memory import resident_bytes, streamed_bytes, streamed_part_size
from clusterfug.execution.torch.problem import TensorProblem

_BLOCK_ENTRIES = 1 << 26  # squared at a time
#: Lengths of 2^-24 to 2^24 need no scaling: their products and sums are in the range of float32.
_MAX_EXPONENT = 24


class Pack(NamedTuple):
    """Problems that are solved simultaneously."""

    problem: TensorProblem
    init: Tensor | None
    units: tuple[float, ...]  # the given cost that a cost of 1 stands for, per problem
    sizes: tuple[int, ...]  # items of positive weight, per problem
    starts: int  # copies of each problem to solve


def plan_packs(inputs: Sequence[TensorInput], limit: float) -> Iterator[tuple[list[int], bool]]:
    """Yield the positions of the problems of each pack, largest first, and whether it exceeds the limit.

    A pack that exceeds it is one problem, whose features are streamed.
    """
    kinds: dict[Any, list[int]] = {}
    for t in sorted(range(len(inputs)), key=lambda t: -inputs[t].n):
        kinds.setdefault(inputs[t].kind, []).append(t)
    for group in kinds.values():
        together: list[int] = []
        used = 0
        for t in group:
            need = _resident_bytes(inputs[t])
            if need > limit:
                yield [t], True
                continue
            need *= STARTS if inputs[t].starts_often else 1
            if together and used + need > limit:
                yield together, False
                together, used = [], 0
            together.append(t)
            used += need
        if together:
            yield together, False


def _resident_bytes(given: TensorInput) -> int:
    return resident_bytes(given.n, given.d, given.dtype.itemsize)


def check_memory(given: TensorInput, *, limit: float, device: torch.device) -> None:
    """Raise an error if a problem can be solved neither where its features are nor by streaming them."""
    if given.features.device != device:
        need = streamed_bytes(given.n, given.d)
    else:
        need = _resident_bytes(given) - (given.features.nbytes if given.is_ready else 0)
    if need > limit:
        raise MemoryError(
            f"{given.n} items of {given.d} features need {need / 2**30:.3g} GiB on {device}, more than "
            f"memory_limit ({limit / 2**30:.3g} GiB): raise it, free memory there, or use device='cpu'"
        )


def make_pack(
    inputs: Sequence[TensorInput], device: torch.device, dtype: torch.dtype, limit: float, streamed: bool
) -> tuple[Pack | None, dict[int, Exception]]:
    """Return the pack of these problems, or the errors of the invalid ones by position.

    Candidates are found in `dtype`.
    """
    features = _concatenated([given.rows() for given in inputs], device, streamed)
    sizes = tuple(given.n for given in inputs)
    each = torch.arange(len(inputs), device=device)
    of = torch.repeat_interleave(each, torch.tensor(sizes, device=device), output_size=sum(sizes))
    a = torch.from_numpy(np.concatenate([given.last_column() for given in inputs])).to(device)
    # Where `last` is far from 1, an even power of two is moved from it to the column.
    shifts = [math.frexp(given.last)[1] // 2 for given in inputs]
    shifts = [shift if abs(shift) > _MAX_EXPONENT // 2 else 0 for shift in shifts]
    last = [math.ldexp(given.last, -2 * shift) for given, shift in zip(inputs, shifts, strict=True)]
    if any(shifts):
        a = a * _powers(shifts, device)[of]
    last_of = torch.tensor(last, dtype=torch.float64, device=device)
    squares = _squares(features, device) + last_of.abs()[of] * a.square()
    longest = _maxima(squares, of, len(inputs)).tolist()
    errors = {
        t: error for t, given in enumerate(inputs) if (error := _error(given, longest[t])) is not None
    }
    if errors:
        return None, errors
    exponents = [math.frexp(square)[1] // 2 if square else 0 for square in longest]
    exponents = [exponent if abs(exponent) > _MAX_EXPONENT else 0 for exponent in exponents]
    magnitudes = squares.sqrt()
    if any(exponents):
        scale = _powers([-exponent for exponent in exponents], device)[of]
        features = (features * scale.to(features.device)[:, None]).to(features.dtype)
        a, magnitudes = a * scale, magnitudes * scale
    starts = torch.tensor([0, *np.cumsum(sizes).tolist()], device=device)
    signs = inputs[0].signs
    problem = TensorProblem(
        features,
        a,
        magnitudes,
        starts,
        last_of,
        None if signs is None else torch.tensor(signs, device=device),
        dtype,
        None if features.device == device else streamed_part_size(inputs[0].n, inputs[0].d, limit),
    )
    units = tuple(4.0**exponent for exponent in exponents)
    fits = STARTS * sum(map(_resident_bytes, inputs)) <= limit
    copies = STARTS if inputs[0].starts_often and fits else 1
    return Pack(problem, _init(inputs, of), units, sizes, copies), {}


def _concatenated(rows: list[Tensor], device: torch.device, streamed: bool) -> Tensor:
    """Return all rows as one tensor on the device; on the host if they are there and streamed."""
    if len({part.device for part in rows}) > 1:
        rows = [part.to(device) for part in rows]
    together = rows[0] if len(rows) == 1 else torch.cat(rows)
    return together if streamed and together.device.type == "cpu" else together.to(device)


def _powers(exponents: list[int], device: torch.device) -> Tensor:
    return torch.tensor([2.0**exponent for exponent in exponents], dtype=torch.float64, device=device)


def _squares(features: Tensor, device: torch.device) -> Tensor:
    """Return squared lengths of the rows in float64."""
    parts = torch.split(features, max(1, _BLOCK_ENTRIES // features.shape[1]))
    squares = [part.to(device).double().square().sum(1) for part in parts]
    return squares[0] if len(squares) == 1 else torch.cat(squares)


def _maxima(squares: Tensor, of: Tensor, problems: int) -> Tensor:
    """Return the maximum of every problem, infinite if there is a NaN."""
    squares = squares.nan_to_num(nan=torch.inf, posinf=torch.inf)
    if problems == 1:
        return squares.max().reshape(1)  # atomic maxima at one address are slow
    return squares.new_zeros(problems).scatter_reduce(0, of, squares, "amax")


def _error(given: TensorInput, longest: float) -> Exception | None:
    """Return the error of a problem whose longest row has this squared length, or None."""
    try:
        if not longest <= checks.LARGEST**2:
            check_values(given.features)
        checks.costs_in_range(longest, given.n)
    except ValueError as error:
        return error
    return None


def _init(inputs: Sequence[TensorInput], of: Tensor) -> Tensor | None:
    """Return initial labels below the number of items, different ones in different problems."""
    if inputs[0].init is None:
        return None
    init = np.concatenate([given.of_present(given.init) for given in inputs if given.init is not None])
    _, labels = torch.unique(torch.from_numpy(init).to(of.device), return_inverse=True)
    if len(inputs) > 1:
        _, labels = torch.unique(of * len(labels) + labels, return_inverse=True)
    return labels
