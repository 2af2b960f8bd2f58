"""The two text formats of the multicut literature.

Features (dense multicut)              An explicit graph

    FACTORIZED COMPLETE MULTICUT           MULTICUT
    0.4                                    0 1 2.5
    3 2                                    1 2 -1
    0.1 0.9
    0.2 0.8
    1 0

The second line is the number subtracted from every inner product (the threshold), the third is n and
d; then one line of d numbers per item. A graph has one line `i j cost` per edge, nodes counted from 0.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from clusterfug.io.broken import broken_is_named

FACTORIZED = "FACTORIZED COMPLETE MULTICUT"
GRAPH = "MULTICUT"


@contextmanager
def opened(path: Path, errors: str = "replace", newline: str | None = None) -> Iterator[TextIO]:
    """Open a file of text to read it; errors of the system name it."""
    with broken_is_named(path), path.open("rb") as binary:
        if binary.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise ValueError(f"{path} is UTF-16 text: save it as UTF-8")
        yield TextIOWrapper(binary, encoding="utf-8-sig", errors=errors, newline=newline)


def read_header(path: Path) -> str:
    """Return the first line of a text instance."""
    with opened(path) as file:
        return file.readline(200).strip()


def read_factorized(path: Path, dtype: Any) -> tuple[NDArray[Any], float]:
    """Return features and threshold."""
    with opened(path) as file:
        file.readline()
        threshold = _numbers(path, 2, file.readline(), 1, float)[0]
        n, d = _numbers(path, 3, file.readline(), 2, int)
        if n < 1 or d < 1:
            raise ValueError(f"{path}, line 3: n and d must be at least 1, not {n} and {d}")
    return read_table(path, skip=3, dtype=dtype, n=n, d=d), threshold


def read_graph(path: Path) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return edges and costs."""
    table = read_table(path, skip=1, dtype=np.float64, d=3)
    nodes = table[:, :2]
    bad = np.flatnonzero(~((nodes >= 0) & (nodes < 2**31) & (nodes == np.floor(nodes))).all(axis=1))
    if len(bad):
        raise ValueError(
            f"{path}, edge {bad[0] + 1}: nodes are whole numbers from 0, "
            f"not {nodes[bad[0], 0]:g} {nodes[bad[0], 1]:g}"
        )
    return nodes.astype(np.int64), table[:, 2].copy()


def read_table(
    path: Path,
    *,
    skip: int,
    dtype: Any,
    n: int | None = None,
    d: int | None = None,
    delimiter: str | None = None,
) -> NDArray[Any]:
    """Return the numbers after the first `skip` lines: n lines of d numbers where n and d are known.

    The file is read by NumPy's parser; if that fails, it is read again to name the line.
    """
    try:
        with opened(path) as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files without numbers, reported below
            lines = (line for at, line in enumerate(file) if at >= skip)
            table = np.loadtxt(lines, dtype=dtype, delimiter=delimiter, comments=None, ndmin=2)
        if table.shape == (n or len(table), d or table.shape[1]) and len(table):
            return table
    except ValueError:
        pass
    raise ValueError(_first_fault(path, skip, n, d, delimiter))


def _first_fault(path: Path, skip: int, n: int | None, d: int | None, delimiter: str | None) -> str:
    """Return the message that says what is wrong with a table, and in which line."""
    rows = at = 0
    with opened(path) as file:
        lines = ((at, line) for at, line in enumerate(file, start=1) if at > skip and line.strip())
        for at, line in lines:
            fields = [field.strip() for field in line.split(delimiter)]
            d = d or len(fields)
            for field in fields:
                if not is_number(field):
                    return f"{path}, line {at}: {field[:40]!r} is not a number"
            if len(fields) != d:
                return f"{path}, line {at}: {len(fields)} numbers where {d} are expected"
            rows += 1
            if n is not None and rows > n:
                return f"{path}, line {at}: more than the {n} rows that line 3 announces"
    if n is not None and rows < n:
        return f"{path} ends after line {max(at, skip)}: {rows} of the {n} rows that line 3 announces"
    return f"{path} holds no numbers"


def is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field


def _numbers(path: Path, line: int, text: str, count: int, kind: type) -> list[Any]:
    fields = text.split()
    try:
        if len(fields) == count:
            return [kind(field) for field in fields]
    except ValueError:
        pass
    what = "the number to subtract" if count == 1 else "the two sizes n and d"
    raise ValueError(f"{path}, line {line}: expected {what}, found {text.strip()[:40]!r}")


def format_of(dtype: np.dtype[Any]) -> str:
    """Return a number format that is read back to the same bits."""
    if dtype.kind in "iub":
        return "%d"
    return "%.17g" if dtype == np.float64 else "%.9g"


def write_factorized(file: Any, features: NDArray[Any], threshold: float) -> None:
    file.write(f"{FACTORIZED}\n{threshold!r}\n{features.shape[0]} {features.shape[1]}\n")
    np.savetxt(file, features, fmt=format_of(features.dtype))


def write_graph(file: Any, edges: NDArray[np.int64], costs: NDArray[np.float64]) -> None:
    file.write(f"{GRAPH}\n")
    for (i, j), cost in zip(edges.tolist(), costs.tolist(), strict=True):
        file.write(f"{i} {j} {cost!r}\n")
