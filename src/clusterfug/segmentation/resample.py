"""Resampling of maps and features. Pixels are squares; their borders, not their centres, align."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints

Shape = tuple[int, int]


class Axis(NamedTuple):
    """Positions of the centres of new pixels between those of old ones, along one side."""

    lower: Ints  # the old pixel before
    upper: Ints  # the old pixel after
    share: Floats  # weight of `upper`


def axis(old: int, new: int) -> Axis:
    place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    lower = np.floor(place).astype(np.int64)
    return Axis(lower, np.minimum(lower + 1, old - 1), (place - lower).astype(np.float32))


def resize_nearest(values: NDArray[Any], shape: Shape) -> NDArray[Any]:
    """Return a map at another resolution, with the value of the old pixel that contains the centre."""
    if values.shape[:2] == shape:
        return values
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(np.int64)
        for old, new in zip(values.shape, shape, strict=False)
    )
    return values[rows[:, None], columns]


def resize_bilinear(values: NDArray[Any], shape: Shape) -> NDArray[np.float32]:
    """Return a map of numbers at another resolution, interpolated between the old centres."""
    values = np.asarray(values, dtype=np.float32)
    if values.shape == shape:
        return values
    y, x = (axis(old, new) for old, new in zip(values.shape, shape, strict=True))
    rows = values[y.lower] * (1 - y.share)[:, None] + values[y.upper] * y.share[:, None]
    mixed: NDArray[np.float32] = rows[:, x.lower] * (1 - x.share) + rows[:, x.upper] * x.share
    return mixed


@kernel
def interpolate(features: Floats, y: Axis, x: Axis, rows: Ints, columns: Ints, out: Floats) -> None:
    """Interpolate features (h, w, d) at the new pixels (rows, columns), into out (pixels, d or more)."""
    for t in range(rows.shape[0]):
        r, c = rows[t], columns[t]
        down, right = y.share[r], x.share[c]
        a, b = features[y.lower[r], x.lower[c]], features[y.lower[r], x.upper[c]]
        e, f = features[y.upper[r], x.lower[c]], features[y.upper[r], x.upper[c]]
        for p in range(features.shape[2]):
            above = a[p] + right * (b[p] - a[p])
            below = e[p] + right * (f[p] - e[p])
            out[t, p] = above + down * (below - above)
