"""One problem as it was given, checked except for the values of its features.

`pack.py` reads the features, once, on the device.
"""

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clusterfug import checks
from clusterfug.execution import threads
from clusterfug.problems.features import FeatureProblem
from clusterfug.solvers import Solver

_MAX_ITEMS_FOR_STARTS = 2500  # of a problem that "auto" solves from several starts
_FLOAT64_TYPES = (torch.float64, torch.int32, torch.int64, torch.uint32, torch.uint64)  # exceed float32
_BLOCK_ENTRIES = 1 << 24


class TensorInput:
    """Features, costs, weights and initial labels of one problem."""

    def __init__(self, problem: Any, device: torch.device, solver: Solver | None = None) -> None:
        self.signs: NDArray[np.float64] | None = None  # of the features, if not all are +1
        if isinstance(problem, FeatureProblem):
            problem = problem.prepared(device)
            self.features = feature_tensor(problem.X)
            self.weight = checks.optional_weights(problem.sample_weight, len(self.features))
            self.column, self.last = problem.costs.column(self.features, self.weight, device)
        else:
            features, self.column, self.weight, signature = problem.rows
            self.features = _as_tensor(features)  # (n, d) without a copy, on the host or on the device
            self.last = float(signature[-1])
            if np.any(signature[:-1] < 0):
                self.signs = signature[:-1]
        init = getattr(solver, "init", None)
        self.init = None if init is None else checks.labels(init, len(self.features), "init")
        self.n = int(np.count_nonzero(self.weight))  # items of positive weight
        self.d = self.features.shape[1]
        #: Which items have positive weight; None if all have.
        self.present = None if self.n == len(self.weight) else self.weight > 0
        #: Whether weights change the features, which needs float64.
        self.weighted = bool(np.any((self.weight != 1) & (self.weight != 0)))
        wide = self.weighted or self.features.dtype in _FLOAT64_TYPES
        self.dtype = torch.float64 if wide else torch.float32
        #: Whether the problem is solved from several starts, since it is small.
        several = init is None and getattr(solver, "several_starts", False)
        self.starts_often = several and self.n <= _MAX_ITEMS_FOR_STARTS
        #: Problems of equal kind can be packed together.
        signs = None if self.signs is None else self.signs.tobytes()
        self.kind = self.starts_often, self.d, self.dtype, signs

    def of_present(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of the items of positive weight."""
        return values if self.present is None else values[self.present]

    def rows(self) -> Tensor:
        """Return weight times features of the items of positive weight, without a copy if possible."""
        rows = self.features
        if self.present is not None:
            rows = rows[torch.from_numpy(self.present).to(rows.device)]
        rows = rows.to(self.dtype)
        if self.weighted:
            rows = rows * torch.from_numpy(self.of_present(self.weight)).to(rows.device)[:, None]
        return rows.contiguous()

    def last_column(self) -> NDArray[np.float64]:
        """Return weight times the column of the cost model, of the items of positive weight."""
        return self.of_present(self.weight * self.column) * (self.last != 0)

    @property
    def is_ready(self) -> bool:
        """Whether `rows` returns the features without a copy."""
        unchanged = self.present is None and not self.weighted
        return unchanged and self.features.dtype == self.dtype and self.features.is_contiguous()


def check_values(features: Tensor) -> None:
    """Raise an error if a feature is not finite or too large."""
    for some in threads.slices(len(features), max(1, _BLOCK_ENTRIES // features.shape[1])):
        bad = torch.nonzero(~(features[some].double().abs() <= checks.LARGEST))
        if len(bad):
            row, column = bad[0].tolist()
            checks.bad_value(features[some.start + row, column].item(), some.start + row, column)


def feature_tensor(X: Any) -> Tensor:
    """Return features as a tensor where they are stored; arrays as float32 or float64."""
    is_tensor = checks.is_tensor(X)
    X = checks.tensor("X", X) if is_tensor else checks.numeric("X", X)
    checks.rectangle(X)
    return X if is_tensor else _as_tensor(np.ascontiguousarray(X, dtype=checks.float_type(X)))


def _as_tensor(array: NDArray[Any]) -> Tensor:
    """Return a tensor that shares the memory of an array, which may be a memory map."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a read-only array: tensors of features are never written to
        return torch.from_numpy(array)
