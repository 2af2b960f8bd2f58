"""How similar items are to their neighbours, and sums of clusters: what choosing a strictness looks at."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clusterfug.costs.local import mean_of_nearest, near
from clusterfug.execution.torch.device import out_of_memory

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Means = tuple[Floats, Floats, Floats]

_ROWS, _COLUMNS = 2048, 1 << 15  # of one block of similarities: 256 MiB
_ASKED = 1 << 17  # items that neighbours are searched among, at most
_BLOCK = 1 << 26  # numbers of a block of features


def on_device(features: Tensor, weight: Floats, present: Ints, m: int, device: torch.device) -> Means:
    """Mean similarities to m neighbours and to the nearest of them, and squares, of the items present.

    Of many items a sample is asked, each for several: about the same mean.
    """
    with _plain_errors(device):
        return _means(features, weight, present, m, device)


@contextmanager
def _plain_errors(device: torch.device) -> Iterator[None]:
    """Running out of memory is one line."""
    try:
        yield
    except torch.cuda.OutOfMemoryError:
        raise out_of_memory(device) from None


def _means(features: Tensor, weight: Floats, present: Ints, m: int, device: torch.device) -> Means:
    n = len(present)
    stride = max(1.0, n / _ASKED)
    asked = np.arange(n) if n <= _ASKED else np.sort(np.random.default_rng(0).permutation(n)[:_ASKED])
    column = np.full(n, -1)
    column[asked] = np.arange(len(asked))
    listed = min(int(np.ceil(m / stride)), len(asked) - 1)
    dtype = torch.float64 if features.dtype == torch.float64 else torch.float32
    columns = _rows(features, present[asked], device, dtype)
    counts = torch.from_numpy(stride * weight[present[asked]]).to(device)
    found = np.empty((3, n))
    for start in range(0, n, _ROWS):
        stop = min(n, start + _ROWS)
        rows = _rows(features, present[start:stop], device, dtype)
        own = torch.from_numpy(column[start:stop]).to(device)
        best, ids = _nearest(rows, columns, own, listed)
        squares = rows.double().square().sum(1)
        copies = torch.from_numpy(weight[present[start:stop]]).to(device).sub(1).clip(0)
        similar = best.double(), counts[ids], copies, squares
        parts = mean_of_nearest(*similar, m), mean_of_nearest(*similar, near(m)), squares
        found[:, start:stop] = torch.stack(parts).cpu().numpy()
    return found[0], found[1], found[2]


def _nearest(rows: Tensor, columns: Tensor, own: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """The m columns most similar to each row, best first; row r is the column own[r], or none (-1)."""
    best = rows.new_full((len(rows), m), -torch.inf)
    ids = torch.zeros((len(rows), m), dtype=torch.int64, device=rows.device)
    for left in range(0, len(columns), _COLUMNS):
        block = rows @ columns[left : left + _COLUMNS].T
        here = (own >= left) & (own < left + block.shape[1])
        block[here.nonzero()[:, 0], own[here] - left] = -torch.inf
        some, places = block.topk(min(m, block.shape[1]), dim=1)
        best, order = torch.cat([best, some], dim=1).topk(m, dim=1)
        ids = torch.cat([ids, places + left], dim=1).gather(1, order)
    return best, ids


def sums_on_device(features: Tensor, weight: Floats, labels: Ints, device: torch.device) -> Floats:
    """(K, d) sums of weight times features of the clusters 0..K-1."""
    with _plain_errors(device):
        return _sums(features, weight, labels, device)


def _sums(features: Tensor, weight: Floats, labels: Ints, device: torch.device) -> Floats:
    n, d = features.shape
    sums = torch.zeros((int(labels.max()) + 1, d), dtype=torch.float64, device=device)
    step = max(1, _BLOCK // d)
    for start in range(0, n, step):
        order = start + np.argsort(labels[start : start + step], kind="stable")
        here, counts = np.unique(labels[order], return_counts=True)
        rows = _rows(features, order, device, torch.float64)
        rows = rows * torch.from_numpy(weight[order]).to(device)[:, None]
        lengths = torch.from_numpy(counts).to(device)
        # One cluster after the other: the same sums in every run, which atomic additions would not give.
        sums[torch.from_numpy(here).to(device)] += torch.segment_reduce(rows, "sum", lengths=lengths)
    return sums.cpu().numpy()


def product_on_device(left: Floats, right: Floats, device: torch.device) -> Floats:
    found = torch.from_numpy(left).to(device) @ torch.from_numpy(right).to(device)
    return found.cpu().numpy()


def rows_on_host(features: Tensor, items: Ints) -> Floats:
    """Features of some items as an array."""
    return _rows(features, items, torch.device("cpu"), torch.float64).numpy()


def _rows(features: Tensor, items: Ints, device: Any, dtype: torch.dtype) -> Tensor:
    """Features of some items, brought to the device."""
    return features[torch.from_numpy(items).to(features.device)].to(device, dtype)
