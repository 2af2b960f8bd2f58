"""Similarities to neighbours and sums of clusters on a device.

`costs/local.py` calls `neighbour_means`, `selection/items.py` the other functions.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clusterfug.costs.local import mean_of_nearest, near
from clusterfug.execution import threads
from clusterfug.execution.torch.device import out_of_memory_error

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_BLOCK_ROWS, _BLOCK_COLUMNS = 2048, 1 << 15  # of a block of similarities: 256 MiB
_MAX_SAMPLE = 1 << 17  # items among which neighbours are searched
_BLOCK_ENTRIES = 1 << 26  # of a block of features


@contextmanager
def _one_line_errors(device: torch.device) -> Iterator[None]:
    """Replace torch's out-of-memory error by one line."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise out_of_memory_error(device) from None


def neighbour_means(
    features: Tensor, weight: Floats, present: Ints, m: int, device: torch.device
) -> Floats:
    """Return mean similarities to m neighbours and to the nearest of them, and squares, of items present.

    Of many items, neighbours are searched in a random sample, in which each item counts several times:
    about the same mean.
    """
    n = len(present)
    stride = max(1.0, n / _MAX_SAMPLE)
    sample = np.arange(n)
    if n > _MAX_SAMPLE:
        sample = np.sort(np.random.default_rng(0).permutation(n)[:_MAX_SAMPLE])
    column = np.full(n, -1)
    column[sample] = np.arange(len(sample))
    listed = min(int(np.ceil(m / stride)), len(sample) - 1)
    dtype = torch.float64 if features.dtype == torch.float64 else torch.float32
    found = np.empty((3, n))
    with _one_line_errors(device):
        columns = _rows(features, present[sample], device, dtype)
        counts = torch.from_numpy(stride * weight[present[sample]]).to(device)
        for some in threads.slices(n, _BLOCK_ROWS):
            rows = _rows(features, present[some], device, dtype)
            own = torch.from_numpy(column[some]).to(device)
            best, ids = _nearest(rows, columns, own, listed)
            squares = rows.double().square().sum(1)
            copies = torch.from_numpy(weight[present[some]]).to(device).sub(1).clip(0)
            similar = best.double(), counts[ids], copies, squares
            parts = mean_of_nearest(*similar, m), mean_of_nearest(*similar, near(m)), squares
            found[:, some] = torch.stack(parts).cpu().numpy()
    return found


def _nearest(rows: Tensor, columns: Tensor, own: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Return similarities and numbers of the m columns most similar to each row, best first.

    Column own[r] is the row r itself and left out; -1 if it is not among the columns.
    """
    best = rows.new_full((len(rows), m), -torch.inf)
    ids = torch.zeros((len(rows), m), dtype=torch.int64, device=rows.device)
    for left in range(0, len(columns), _BLOCK_COLUMNS):
        block = rows @ columns[left : left + _BLOCK_COLUMNS].T
        here = (own >= left) & (own < left + block.shape[1])
        block[here.nonzero()[:, 0], own[here] - left] = -torch.inf
        some, places = block.topk(min(m, block.shape[1]), dim=1)
        best, order = torch.cat([best, some], dim=1).topk(m, dim=1)
        ids = torch.cat([ids, places + left], dim=1).gather(1, order)
    return best, ids


def cluster_sums(features: Tensor, weight: Floats, labels: Ints, device: torch.device) -> Floats:
    """Return the (K, d) sums of weight times features of the clusters 0..K-1."""
    n, d = features.shape
    with _one_line_errors(device):
        sums = torch.zeros((int(labels.max()) + 1, d), dtype=torch.float64, device=device)
        for some in threads.slices(n, max(1, _BLOCK_ENTRIES // d)):
            order = some.start + np.argsort(labels[some], kind="stable")
            here, counts = np.unique(labels[order], return_counts=True)
            rows = _rows(features, order, device, torch.float64)
            rows = rows * torch.from_numpy(weight[order]).to(device)[:, None]
            lengths = torch.from_numpy(counts).to(device)
            # Segment by segment: the same sums in every run, unlike with atomic additions.
            sums[torch.from_numpy(here).to(device)] += torch.segment_reduce(rows, "sum", lengths=lengths)
    return sums.cpu().numpy()


def product_on_device(left: Floats, right: Floats, device: torch.device) -> Floats:
    """Return the matrix product of two arrays, computed on the device."""
    found = torch.from_numpy(left).to(device) @ torch.from_numpy(right).to(device)
    return found.cpu().numpy()


def rows_on_host(features: Tensor, items: Ints) -> Floats:
    """Return the features of some items as an array."""
    return _rows(features, items, torch.device("cpu"), torch.float64).numpy()


def _rows(features: Tensor, items: Ints, device: Any, dtype: torch.dtype) -> Tensor:
    """Return the features of some items on the device."""
    return features[torch.from_numpy(items).to(features.device)].to(device, dtype)
