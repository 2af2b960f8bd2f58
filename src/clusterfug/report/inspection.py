"""Inspection of features before a threshold is chosen: norms, duplicates, similarities of pairs.

`clusterfug inspect` prints it.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.costs.preprocessing import mean_feature, prepare

THRESHOLDS = tuple(round(0.1 * t, 1) for t in range(1, 10))
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999, 1.0)
HIGH_MEAN_COSINE = 0.25

MAX_PAIRS = 200_000  # of more pairs a sample is drawn
_BLOCK_ROWS = 4096


@dataclass(frozen=True)
class Inspection:
    """Result of `inspect`: similarities of preprocessed features; the rest is about features as given."""

    n: int
    d: int
    dtype: str
    norm_min: float
    norm_mean: float
    norm_max: float
    zero_rows: int
    duplicates: int  # rows equal to an earlier one, other than zero rows
    mean_cosine: float  # over all pairs, before any centring
    metric: str
    center: bool
    pairs: int  # number of pairs in the statistics below: all, or a sample
    quantiles: dict[float, float]  # of pair similarities
    attracting: dict[float, float]  # share of pairs more similar than a threshold
    advice: tuple[str, ...]


def inspect(
    X: Any, metric: str = "cosine", center: bool = False, random_state: int = 0, name: str = "X"
) -> Inspection:
    """Return sizes, norms, duplicates and similarities of features, which errors call by a name."""
    dtype = str(np.asanyarray(X).dtype)
    X = checks.features(X, name)
    n, d = X.shape
    norms = np.empty(n)
    seen: set[bytes] = set()
    zero_rows = 0
    for start in range(0, n, _BLOCK_ROWS):
        block = X[start : start + _BLOCK_ROWS].astype(np.float64)
        norms[start : start + _BLOCK_ROWS] = np.linalg.norm(block, axis=1)
        block += 0.0  # -0.0 becomes 0.0
        zero_rows += len(block) - int(np.count_nonzero(block.any(axis=1)))
        seen.update(blake2b(row.tobytes(), digest_size=16).digest() for row in block)
    prepared = prepare(X, "cosine")
    nonzero = n - zero_rows
    total = mean_feature(prepared) * n
    mean_cosine = float(total @ total - nonzero) / (nonzero * (nonzero - 1)) if nonzero > 1 else 0.0
    if metric != "cosine" or center:
        prepared = prepare(X, metric, mean_feature(X) if center else None)
    similarities = _similarities(prepared, np.random.default_rng(random_state))
    duplicates = n - len(seen) - max(0, zero_rows - 1)  # zero rows are counted on their own
    advice = []
    if mean_cosine > HIGH_MEAN_COSINE and not center:
        advice.append(f"the mean cosine is {mean_cosine:.2f}: all items share a common part; try --center")
    if duplicates:
        advice.append(f"{duplicates} rows repeat earlier ones; they attract each other most of all")
    if zero_rows:
        advice.append(f"{zero_rows} rows are zero; at a threshold of 0 or more each stays alone")
    return Inspection(
        n=n,
        d=d,
        dtype=dtype,
        norm_min=float(norms.min()),
        norm_mean=float(norms.mean()),
        norm_max=float(norms.max()),
        zero_rows=zero_rows,
        duplicates=duplicates,
        mean_cosine=mean_cosine,
        metric=metric,
        center=center,
        pairs=len(similarities),
        quantiles={q: float(np.quantile(similarities, q)) for q in QUANTILES if n > 1},
        attracting={t: float(np.mean(similarities > t)) for t in THRESHOLDS if n > 1},
        advice=tuple(advice),
    )


def _similarities(X: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
    """Return inner products of all pairs, or of a sample of them."""
    n = len(X)
    if n * (n - 1) // 2 <= MAX_PAIRS:
        i, j = np.triu_indices(n, 1)
    else:
        i = rng.integers(0, n, MAX_PAIRS)
        j = (i + rng.integers(1, n, MAX_PAIRS)) % n
    found = np.empty(len(i))
    for start in range(0, len(i), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        found[part] = np.einsum("ij,ij->i", X[i[part]], X[j[part]], dtype=np.float64)
    return found
