"""Factorisation of an explicit cost matrix into features and a signature, for `DenseProblem.from_costs`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks

_MAX_ASYMMETRY = 1e-6  # of |costs[i, j] - costs[j, i]|, relative to the largest cost
_MAX_DIAGONAL = 1e3  # of a diagonal entry, relative to the largest cost; larger ones are clipped


def factorise(costs: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Features (n, r) and signature (r,) whose indefinite inner products are the given costs.

    With eigenvalues l_d and eigenvectors v_d of the matrix, feature column d is sqrt(|l_d|) v_d and its
    sign that of l_d. Eigenvalues that are rounding errors are left out; r is 0 if all costs are 0.
    """
    matrix = checks.features(costs, "costs").astype(np.float64)
    n = len(matrix)
    if matrix.shape != (n, n):
        raise ValueError(f"a cost matrix must be square, not {matrix.shape}")
    diagonal = matrix.diagonal().copy()
    np.fill_diagonal(matrix, 0.0)
    largest = np.abs(matrix).max()
    uneven = np.argwhere(np.abs(matrix - matrix.T) > _MAX_ASYMMETRY * largest)
    if len(uneven):
        i, j = uneven[0]
        raise ValueError(
            f"a cost matrix must be symmetric: costs[{i}, {j}] is {matrix[i, j]:g} "
            f"but costs[{j}, {i}] is {matrix[j, i]:g}"
        )
    limit = _MAX_DIAGONAL * largest
    np.fill_diagonal(matrix, np.clip(diagonal, -limit, limit))
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    kept = np.abs(values) > n * np.finfo(np.float64).eps * np.abs(values).max()
    values, vectors = values[kept], vectors[:, kept]
    return vectors * np.sqrt(np.abs(values)), np.sign(values)
