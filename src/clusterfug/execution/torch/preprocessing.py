"""Centring and scaling of tensors on a device. `costs/preprocessing.py` does the same for arrays."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clusterfug import checks
from clusterfug.costs.preprocessing import LARGE_MEAN, Preprocessing
from clusterfug.execution import threads
from clusterfug.execution.torch.inputs import check_values, feature_tensor

_BLOCK_ENTRIES = 1 << 24


def prepare_tensor(
    X: Any, preprocessing: Preprocessing, sample_weight: Any
) -> tuple[Tensor, NDArray[np.float64] | None]:
    """Return preprocessed features and the mean that was subtracted, computed in float64 in blocks."""
    X = feature_tensor(X)
    if preprocessing.is_identity:
        return X, None
    check_values(X)
    weight = torch.from_numpy(checks.optional_weights(sample_weight, len(X))).to(X.device)
    blocks = threads.slices(len(X), max(1, _BLOCK_ENTRIES // X.shape[1]))
    mean = None
    if preprocessing.center:
        mean = torch.zeros(X.shape[1], dtype=torch.float64, device=X.device)
        for some in blocks:
            mean += (weight[some, None] * X[some].double()).sum(0)
        mean /= weight.sum()
    is_large = mean is not None and bool(mean.abs().max() > LARGE_MEAN)
    dtype = torch.promote_types(X.dtype, torch.float64 if is_large else torch.float32)
    out = torch.empty(X.shape, dtype=dtype, device=X.device)
    for some in blocks:
        rows = X[some].double()
        if mean is not None:
            noise = 1e-14 * rows.abs().amax(1)
            rows = rows - mean
            rows[rows.abs().amax(1) <= noise] = 0.0  # a row that equals the mean, but for rounding
        if preprocessing.metric == "cosine":
            for order in (torch.inf, 2):  # by the largest entry first: squares neither overflow nor vanish
                lengths = torch.linalg.vector_norm(rows, ord=order, dim=1, keepdim=True)
                rows = rows / torch.where(lengths == 0, 1.0, lengths)
        out[some] = rows.to(out.dtype)
    return out, None if mean is None else mean.cpu().numpy()
