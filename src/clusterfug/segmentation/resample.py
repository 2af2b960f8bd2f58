"""From one resolution to another: maps, and features pixel by pixel. Pixels are squares; centres align."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints

Shape = tuple[int, int]


class Axis(NamedTuple):
    """Where the centres of the new pixels lie between those of the old ones, along one side."""

    lower: Ints  # the old pixel before
    upper: Ints  # and after
    share: Floats  # of the one after


def axis(old: int, new: int) -> Axis:
    place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    lower = np.floor(place).astype(np.int64)
    return Axis(lower, np.minimum(lower + 1, old - 1), (place - lower).astype(np.float32))


def nearest(values: NDArray[Any], shape: Shape) -> NDArray[Any]:
    """A map at another resolution: each pixel takes the value of the old one that its centre lies in."""
    if values.shape[:2] == shape:
        return values
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(np.int64)
        for old, new in zip(values.shape, shape, strict=False)
    )
    return values[rows[:, None], columns]


def bilinear(values: NDArray[Any], shape: Shape) -> NDArray[np.float32]:
    """A map of numbers at another resolution, interpolated between the old centres."""
    values = np.asarray(values, dtype=np.float32)
    if values.shape == shape:
        return values
    y, x = (axis(old, new) for old, new in zip(values.shape, shape, strict=True))
    rows = values[y.lower] * (1 - y.share)[:, None] + values[y.upper] * y.share[:, None]
    mixed: NDArray[np.float32] = rows[:, x.lower] * (1 - x.share) + rows[:, x.upper] * x.share
    return mixed


@kernel
def interpolate(features: Floats, y: Axis, x: Axis, rows: Ints, columns: Ints, out: Floats) -> None:
    """Features (h, w, d) at the new pixels (rows, columns): out (pixels, d or more)."""
    for t in range(rows.shape[0]):
        r, c = rows[t], columns[t]
        down, right = y.share[r], x.share[c]
        a, b = features[y.lower[r], x.lower[c]], features[y.lower[r], x.upper[c]]
        e, f = features[y.upper[r], x.lower[c]], features[y.upper[r], x.upper[c]]
        for p in range(features.shape[2]):
            above = a[p] + right * (b[p] - a[p])
            below = e[p] + right * (f[p] - e[p])
            out[t, p] = above + down * (below - above)
