"""Where shards come from: a problem in memory (or mapped into it), or files that are read when needed."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.execution.sharded.checkpoint import digest
from clusterfug.io import files, tables
from clusterfug.io.labels import write_labels
from clusterfug.io.settings import LabelSettings
from clusterfug.problems.dense import DenseProblem

ENDINGS = (".npy", *tables.ENDINGS)
#: Items of a shard at most: the search for neighbours takes time that grows with it.
MOST = 1 << 16
#: Items of a shard at least: below, memory is not the problem.
LEAST = 1 << 10


def solve_bytes(n: int, d: int) -> int:
    """About what solving n items of d features takes, beside the features: sums, lists, neighbours."""
    return n * (9 * (d + 1) + 400)


def most_items(d: int, memory_limit: int | None) -> int:
    """How many items a task may have."""
    if memory_limit is None:
        return MOST
    return int(min(MOST, max(LEAST, memory_limit // solve_bytes(1, d))))


class Stretch(NamedTuple):
    """Rows of files: pieces of path, first row, row after the last; and how many columns they have."""

    pieces: tuple[tuple[Path, int, int], ...]
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


class Files:
    """The rows of one or more files, one after the other."""

    #: As for features that are read at once: the files say nothing about it.
    metric, threshold = "cosine", None

    def __init__(self, where: Any) -> None:
        self.paths = _paths(where)
        self._ends, self.n, self.d = [], 0, 0
        for path in self.paths:
            rows, d = _shape(path)
            if self.d not in (0, d):
                raise ValueError(f"{path} has {d} columns, but {self.paths[0]} has {self.d}")
            self.n, self.d = self.n + rows, d
            self._ends.append(self.n)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n, self.d

    def absolute(self) -> "Files":
        """The same for processes with another working directory."""
        return Files([path.absolute() for path in self.paths])

    def write_labels(
        self, folder: Path, labels: NDArray[np.int64], settings: LabelSettings | None = None
    ) -> None:
        """Write a new folder with a .parquet file of labels for each of the files; complete or absent."""
        with files.complete_folder(folder) as part:
            for name, (_, start, end) in zip(self.label_names, self._spans(), strict=True):
                write_labels(part / name, labels[start:end], settings)

    @property
    def label_names(self) -> list[str]:
        """Names of the files of labels: those of the features, if they end in .parquet."""
        names = [path.name if path.suffix == ".parquet" else f"{path.name}.parquet" for path in self.paths]
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise ValueError(f"the labels of two files would both be in {name}: rename one of them")
        return names

    def stretch(self, start: int, stop: int) -> Stretch:
        pieces = []
        for at in range(bisect_right(self._ends, start), len(self.paths)):
            begin = self._ends[at - 1] if at else 0
            if begin >= stop:
                break
            pieces.append((self.paths[at], max(start, begin) - begin, min(stop, self._ends[at]) - begin))
        return Stretch(tuple(pieces), self.d)

    def _spans(self) -> Iterator[tuple[Path, int, int]]:
        """Every file with its first item and the item after its last."""
        return zip(self.paths, [0, *self._ends], self._ends, strict=False)

    def read(self) -> NDArray[Any]:
        return self.stretch(0, self.n).read()

    @property
    def identity(self) -> str:
        about = ((path.name, path.stat()) for path in self.paths)
        return digest(*((name, stat.st_size, stat.st_mtime_ns) for name, stat in about))


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
    """A file, the files of a folder by their names, or what is a list of files already."""
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


def settings_of(problem: DenseProblem) -> dict[str, Any]:
    """What tells a problem apart: all of it."""
    features, alpha, weight, signature = problem.rows
    return {
        "features": digest(features),
        "threshold": digest(alpha, signature),
        "weights": digest(weight),
    }
