"""Edits of a graph: the pairs that turn it into the cliques of a clustering, in the format of PACE.

One line `u v` per pair, nodes counted from 1, u < v: an edge that is deleted, or a pair that is inserted.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import files

EDIT_ENDINGS = (".txt", ".edits")

_MAX_PAIRS = 1 << 20  # pairs of a block


def write_edits(path: Path, edges: NDArray[np.int64], labels: NDArray[np.int64]) -> None:
    """Write the sorted edits between a graph and a clustering of its nodes."""
    with files.complete(path) as part, part.open("w", encoding="utf-8") as file:
        for pairs in edits(edges, labels):
            np.savetxt(file, pairs + 1, fmt="%d")


def edits(edges: NDArray[np.int64], labels: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Yield blocks of the pairs that are edges between clusters, or in a cluster and no edges; sorted.

    The edges are distinct and sorted, lower node first; labels are 0..K-1. The pairs in clusters may be
    many, and are written down for a few nodes at a time.
    """
    n = len(labels)
    order = np.argsort(labels, kind="stable")
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    after = np.cumsum(np.bincount(labels))[labels] - 1 - place  # higher nodes in the cluster of each
    done = np.concatenate([[0], np.cumsum(after)])
    first_edge = np.searchsorted(edges[:, 0], np.arange(n + 1))
    start = 0
    while start < n:
        stop = max(start + 1, int(np.searchsorted(done, done[start] + _MAX_PAIRS, side="right")) - 1)
        counts = after[start:stop]
        lower = np.repeat(np.arange(start, stop), counts)
        step = np.arange(len(lower)) - np.repeat(np.cumsum(counts) - counts, counts)
        together = lower * n + order[place[lower] + 1 + step]
        joined = edges[first_edge[start] : first_edge[stop]]
        keys = np.setxor1d(together, joined[:, 0] * n + joined[:, 1], assume_unique=True)
        if len(keys):
            yield np.stack([keys // n, keys % n], axis=1)
        start = stop
