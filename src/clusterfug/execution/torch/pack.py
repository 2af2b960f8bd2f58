"""Packs: problems with the same number of features side by side as one `TensorProblem`, as many as fit.

Here the features are read for the first time: one pass on the device computes the length of every row,
which tells whether a value is not finite or too large, and by which power of two to scale.
"""

import math
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from clusterfug import checks
from clusterfug.execution import threads
from clusterfug.execution.torch import operations as ops
from clusterfug.execution.torch.inputs import TensorInput, check_values
from clusterfug.execution.torch.memory import resident_bytes, streamed_bytes, streamed_part_size
from clusterfug.execution.torch.problem import TensorProblem

#: Starts of "auto" for a small problem.
STARTS = 8
_BLOCK_ENTRIES = 1 << 26  # squared at a time
#: Lengths of 2^-24 to 2^24 need no scaling: their products and sums are in the range of float32.
_MAX_EXPONENT = 24
#: Numbers of at least this size have products that are normal numbers of float64.
_SMALLEST = 2.0**-500
_TOO_SMALL = (
    "X or its costs have numbers too small beside the longest row to compute with on a device: use "
    "device='cpu'"
)


class Pack(NamedTuple):
    """Problems that are solved simultaneously."""

    problem: TensorProblem
    init: Tensor | None
    units: tuple[float, ...]  # the given cost that a cost of 1 stands for, per problem
    starts: int  # copies of each problem to solve


def plan_packs(inputs: dict[int, TensorInput], limit: float) -> Iterator[tuple[list[int], bool]]:
    """Yield the keys of the problems of each pack, largest first, and whether it exceeds the limit.

    A pack that exceeds it is one problem, whose features are streamed.
    """
    kinds: dict[Any, list[int]] = {}
    for t in sorted(inputs, key=lambda t: -inputs[t].n):
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


def check_memory(given: TensorInput, limit: float, device: torch.device) -> None:
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
    problems: dict[int, TensorInput], device: torch.device, dtype: torch.dtype, limit: float, streamed: bool
) -> tuple[Pack | None, dict[int, ValueError]]:
    """Return the pack of these problems, or the errors of the invalid ones by their keys.

    Candidates are found in `dtype`.
    """
    inputs = problems.values()
    first = next(iter(inputs))
    if streamed:
        check_memory(first, limit, device)
    features = _concatenated([given.rows() for given in inputs], device, streamed)
    sizes = [given.n for given in inputs]
    each = torch.arange(len(inputs), device=device)
    of = torch.repeat_interleave(each, torch.tensor(sizes, device=device), output_size=sum(sizes))
    a = torch.from_numpy(np.concatenate([given.last_column() for given in inputs])).to(device)
    # Where `last` is far from 1, an even power of two is moved from it to the column.
    shifts = [_half_exponent(given.last, _MAX_EXPONENT // 2) for given in inputs]
    last = [math.ldexp(given.last, -2 * shift) for given, shift in zip(inputs, shifts, strict=True)]
    if any(shifts):
        a = a * _powers(shifts, device)[of]
    last_of = torch.tensor(last, dtype=torch.float64, device=device)
    squares = _squares(features, device) + last_of.abs()[of] * a.square()
    longest = dict(zip(problems, _maxima(squares, of, len(inputs)).tolist(), strict=True))
    errors = {t: error for t, given in problems.items() if (error := _error(given, longest[t])) is not None}
    if errors:
        return None, errors
    exponents = [_half_exponent(square, _MAX_EXPONENT) for square in longest.values()]
    magnitudes = squares.sqrt()
    if any(exponents):
        scale = _powers([-exponent for exponent in exponents], device)[of]
        vanishing = _vanishing(last_of.abs()[of].sqrt() * a, scale) | _vanishing_in_rows(features, scale)
        if vanishing.any():
            affected = set(of[vanishing].tolist())
            return None, {t: ValueError(_TOO_SMALL) for p, t in enumerate(problems) if p in affected}
        features = _scaled(features, scale.to(features.device)[:, None])
        a, magnitudes = a * scale, magnitudes * scale
    starts = torch.tensor([0, *np.cumsum(sizes).tolist()], device=device)
    problem = TensorProblem(
        features,
        torch.stack([a, magnitudes, torch.ones_like(a)], 1),
        starts,
        last_of,
        None if first.signs is None else torch.tensor(first.signs, device=device),
        dtype,
        None if features.device == device else streamed_part_size(first.n, first.d, limit),
    )
    units = tuple(4.0**exponent for exponent in exponents)
    fits = STARTS * sum(map(_resident_bytes, inputs)) <= limit
    return Pack(problem, _init(inputs, of), units, STARTS if first.starts_often and fits else 1), {}


def _concatenated(rows: list[Tensor], device: torch.device, streamed: bool) -> Tensor:
    """Return all rows as one tensor on the device; on the host if they are there and streamed."""
    if len({part.device for part in rows}) > 1:
        rows = [part.to(device) for part in rows]
    together = ops.concatenated(rows)
    return together if streamed and together.device.type == "cpu" else together.to(device)


def _half_exponent(number: float, most: int) -> int:
    """Return half the binary exponent of a number if its size exceeds `most`, else 0."""
    half = math.frexp(number)[1] // 2
    return half if abs(half) > most else 0


def _powers(exponents: list[int], device: torch.device) -> Tensor:
    return torch.tensor([2.0**exponent for exponent in exponents], dtype=torch.float64, device=device)


def _vanishing(values: Tensor, scale: Tensor) -> Tensor:
    """Return where scaling down moves numbers so near 0 that products of them vanish."""
    return (scale < 1) & (values != 0) & ((values * scale).abs() < _SMALLEST)


def _vanishing_in_rows(features: Tensor, scale: Tensor) -> Tensor:
    """Return the rows of features in which numbers vanish."""
    blocks = threads.slices(len(features), max(1, _BLOCK_ENTRIES // features.shape[1]))
    some = [_vanishing(features[rows].to(scale.device), scale[rows, None]).any(1) for rows in blocks]
    return ops.concatenated(some)


def _scaled(features: Tensor, scale: Tensor) -> Tensor:
    """Return features times powers of two: in float64 if float32 cannot hold the small ones."""
    scaled = features * scale
    narrow = scaled.to(features.dtype)
    return narrow if torch.equal(narrow.to(scaled.dtype), scaled) else scaled


def _squares(features: Tensor, device: torch.device) -> Tensor:
    """Return squared lengths of the rows in float64."""
    parts = torch.split(features, max(1, _BLOCK_ENTRIES // features.shape[1]))
    return ops.concatenated([part.to(device).double().square().sum(1) for part in parts])


def _maxima(squares: Tensor, of: Tensor, problems: int) -> Tensor:
    """Return the maximum of every problem, infinite if there is a NaN."""
    squares = squares.nan_to_num(nan=torch.inf, posinf=torch.inf)
    if problems == 1:
        return squares.max().reshape(1)  # atomic maxima at one address are slow
    return squares.new_zeros(problems).scatter_reduce(0, of, squares, "amax")


def _error(given: TensorInput, longest: float) -> ValueError | None:
    """Return the error of a problem whose longest row has this squared length, or None."""
    try:
        if not longest <= checks.LARGEST**2:
            check_values(given.features)
        checks.costs_in_range(longest, given.n)
    except ValueError as error:
        return error
    return None


def _init(inputs: Collection[TensorInput], of: Tensor) -> Tensor | None:
    """Return initial labels below the number of items, different ones in different problems."""
    given_labels = [given.of_present(given.init) for given in inputs if given.init is not None]
    if not given_labels:
        return None
    init = np.concatenate(given_labels)
    _, labels = torch.unique(torch.from_numpy(init).to(of.device), return_inverse=True)
    if len(inputs) > 1:
        _, labels = torch.unique(of * len(labels) + labels, return_inverse=True)
    return labels
