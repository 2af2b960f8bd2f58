"""One problem as it was given: checked, but for the numbers among its features, which are read only once.

`pack.py` does that where they are needed, on the device.
"""

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clusterfug import checks
from clusterfug.problems.features import FeatureProblem
from clusterfug.solvers import Solver

#: Starts of `auto` where a problem is small.
STARTS = 8
_SMALL = 2500
_WIDE = (torch.float64, torch.int32, torch.int64, torch.uint32, torch.uint64)  # float32 does not hold them


class Item:
    """Features, costs, weights and first labels of one problem."""

    def __init__(self, problem: Any, device: torch.device, solver: Solver | None = None) -> None:
        signs: NDArray[np.float64]
        if isinstance(problem, FeatureProblem):
            problem = problem.prepared(device)
            self.features = _rows(problem.X)
            signs = np.ones(0)
            self.weight = checks.optional_weights(problem.sample_weight, len(self.features))
            self.column, self.last = problem.costs.column(self.features, self.weight, device)
        else:
            features, self.column, self.weight, signature = problem.rows
            signs, self.last = signature[:-1], float(signature[-1])
            self.features = _as_tensor(features)  # (n, d) without a copy, on the host or on the device
        self.signs = signs if np.any(signs < 0) else None
        init = getattr(solver, "init", None)
        self._several = init is None and getattr(solver, "several_starts", False)
        self.init = None if init is None else checks.labels(init, len(self.features), "init")

    @property
    def d(self) -> int:
        return self.features.shape[1]

    @cached_property
    def n(self) -> int:
        """Items that take part."""
        return int(np.count_nonzero(self.weight))

    @cached_property
    def weighted(self) -> bool:
        """Whether weights change the features, which needs float64."""
        return bool(np.any((self.weight != 1) & (self.weight != 0)))

    @cached_property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.weighted or self.features.dtype in _WIDE else torch.float32

    @property
    def is_small(self) -> bool:
        """Whether it is so small that it starts several times."""
        return self._several and self.n <= _SMALL

    @property
    def kind(self) -> tuple[Any, ...]:
        """Problems of one kind can be packed together."""
        return self.is_small, self.d, self.dtype, None if self.signs is None else self.signs.tobytes()

    @cached_property
    def present(self) -> NDArray[np.bool_] | None:
        """Which items take part, if not all do."""
        return None if self.n == len(self.weight) else self.weight > 0

    def of_present(self, values: NDArray[Any]) -> NDArray[Any]:
        """Of one number per item, those of items that take part."""
        return values if self.present is None else values[self.present]

    def rows(self) -> Tensor:
        """Weight times features of the items that take part; the features themselves if that is all."""
        rows = self.features
        if self.present is not None:
            rows = rows[torch.from_numpy(self.present).to(rows.device)]
        rows = rows.to(self.dtype)
        if self.weighted:
            weight = torch.from_numpy(self.of_present(self.weight)).to(rows.device)
            rows = rows * weight[:, None]
        return rows.contiguous()

    def last_column(self) -> NDArray[np.float64]:
        """Weight times alpha (or 1) of the items that take part; 0 where that costs nothing."""
        return self.of_present(self.weight * self.column) * (self.last != 0)

    @property
    def is_ready(self) -> bool:
        """Whether the rows are the features as they lie."""
        as_they_are = self.present is None and not self.weighted
        return as_they_are and self.features.dtype == self.dtype and self.features.is_contiguous()

    def complain(self) -> None:
        """Raise the error that a number among the features causes, if there is one."""
        for start, block in _blocks(self.features):
            bad = torch.nonzero(~(block.double().abs() <= checks.LARGEST))
            if len(bad):
                row, column = bad[0].tolist()
                checks.bad_value(block[row, column].item(), start + row, column)


def _rows(X: Any) -> Tensor:
    """Rows of features as a tensor where they lie; an array in float32 or float64, else as it is."""
    if checks.is_tensor(X):
        X = checks.tensor("X", X)
        checks.rectangle(X)
        return X
    X = checks.numeric("X", X)
    checks.rectangle(X)
    return _as_tensor(np.ascontiguousarray(np.asarray(X), dtype=checks.float_type(X)))


def _as_tensor(array: NDArray[Any]) -> Tensor:
    """The array itself: a memory map stays one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may be read-only: nobody writes to it
        return torch.from_numpy(array)


def _blocks(rows: Tensor) -> Any:
    """Stretches of rows and where they start."""
    step = max(1, (1 << 24) // rows.shape[1])
    return ((start, rows[start : start + step]) for start in range(0, len(rows), step))
