"""Features in files that are read in parts, and how many items a part may have.

`api.py` and the command line make `FeatureFiles` of paths; tasks read `FileRows`.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.execution.sharded.checkpoint import digest
from clusterfug.io import files, tables
from clusterfug.io.labels import write_labels
from clusterfug.io.settings import LabelSettings

ENDINGS = (".npy", *tables.ENDINGS)
#: Most items of a shard: the time of the neighbour search grows with the square.
MAX_SHARD_ITEMS = 1 << 16
#: Fewest items of a shard, however small the memory limit.
MIN_SHARD_ITEMS = 1 << 10


def solve_bytes(n: int, d: int) -> int:
    """Return an estimate of the memory for solving n items of d features, without the features."""
    return n * (9 * (d + 1) + 400)


def max_items(d: int, memory_limit: int | None) -> int:
    """Return the largest number of items of d features that one task may have."""
    if memory_limit is None:
        return MAX_SHARD_ITEMS
    return int(min(MAX_SHARD_ITEMS, max(MIN_SHARD_ITEMS, memory_limit // solve_bytes(1, d))))


class FileRows(NamedTuple):
    """Consecutive rows of one or more files, to be read."""

    pieces: tuple[tuple[Path, int, int], ...]  # path, first row, row after the last
    d: int

    def read(self) -> NDArray[Any]:
        arrays = [self._piece(*piece) for piece in self.pieces]
        return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)

    def _piece(self, path: Path, start: int, stop: int) -> NDArray[Any]:
        files.check_readable(path)
        if path.suffix.lower() == ".npy":
            array = files.read_npy(path)[start:stop]
        else:
            array = tables.Table(path).read(start, stop)
        if array.shape != (stop - start, self.d):
            raise ValueError(
                f"{path} has {len(array)} rows of {array.shape[1]} columns from row {start} on, not "
                f"{stop - start} of {self.d}: it has changed, or not all of its rows are as long"
            )
        return checks.features(array, str(path), start)


class FeatureFiles:
    """The rows of one or more files, in sequence: a file, the files of a folder by name, or a list."""

    def __init__(self, where: Any) -> None:
        self.paths = _paths(where)
        self._bounds, self.n, self.d = [0], 0, 0  # each file has the items between two bounds
        for path in self.paths:
            rows, d = _shape(path)
            if self.d not in (0, d):
                raise ValueError(f"{path} has {d} columns, but {self.paths[0]} has {self.d}")
            self.n, self.d = self.n + rows, d
            self._bounds.append(self.n)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.d

    @property
    def identity(self) -> str:
        """Hash of the names, sizes and times of modification."""
        stats = ((path.name, path.stat()) for path in self.paths)
        return digest(*((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats))

    def absolute(self) -> "FeatureFiles":
        """Return the same files with absolute paths, for processes in other folders."""
        return FeatureFiles([path.absolute() for path in self.paths])

    def __getitem__(self, items: slice) -> FileRows:
        """Return consecutive rows, to be read later."""
        start, stop, _ = items.indices(self.n)
        pieces = []
        for at in range(bisect_right(self._bounds, start) - 1, bisect_left(self._bounds, stop)):
            first, end = self._bounds[at : at + 2]
            pieces.append((self.paths[at], max(start, first) - first, min(stop, end) - first))
        return FileRows(tuple(pieces), self.d)

    def read(self) -> NDArray[Any]:
        return self[:].read()

    @property
    def label_names(self) -> list[str]:
        """Names of the files of labels: those of the features, with the ending .parquet."""
        names = [path.name if path.suffix == ".parquet" else f"{path.name}.parquet" for path in self.paths]
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise ValueError(f"the labels of two files would both be in {name}: rename one of them")
        return names

    def write_labels(
        self, folder: Path, labels: NDArray[np.int64], settings: LabelSettings | None = None
    ) -> None:
        """Write a new folder with a .parquet file of labels for each of the files, all or none of them."""
        if settings is not None:
            settings = replace(settings, objective=None, inside=None)  # they are of all files together
        with files.complete_folder(folder) as part:
            for name, labels_of_file in zip(
                self.label_names, np.split(labels, self._bounds[1:-1]), strict=True
            ):
                write_labels(part / name, labels_of_file, settings)


def _shape(path: Path) -> tuple[int, int]:
    files.check_readable(path)
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"{path} cannot be read in parts: use {', '.join(ENDINGS)}")
    if path.suffix.lower() != ".npy":
        table = tables.Table(path)
        return len(table), table.read(0, 1).shape[1]
    array = files.read_npy(path)
    checks.rectangle(array, str(path))
    return array.shape


def _paths(where: Any) -> list[Path]:
    if isinstance(where, list | tuple):
        return [Path(path) for path in where]
    path = Path(where)
    if not path.is_dir():
        return [path]
    found = sorted(
        file for file in path.iterdir() if file.suffix.lower() in ENDINGS and not file.name.startswith(".")
    )
    if not found:
        raise FileNotFoundError(f"{path} is a folder without any {', '.join(ENDINGS)} file")
    return found
