"""Files of links: pairs of items, one per line, and a group of exclusive items for every item.

Pairs (.csv, .tsv, .txt, .npy)     Groups (.csv, .tsv, .txt, or numbers as in files of labels)

    # a comment                        beach.jpg
    first second
    0 3                                beach.jpg
    1 2                                zoo.jpg

Items are counted from 0. The group of an item is named in its line, which is empty if it has none.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import files, text
from clusterfug.io.labels import read_column
from clusterfug.io.rows import Rows, read_fields

PAIR_ENDINGS = (".csv", ".tsv", ".txt", ".npy")
TEXT_ENDINGS = (".csv", ".tsv", ".txt")
GROUP_ENDINGS = (*TEXT_ENDINGS, ".npy", ".npz", ".parquet")
#: Files of groups in which a column may be named.
TABLE_ENDINGS = (".csv", ".tsv")

_MAX_ITEM = 2**53  # smaller whole numbers are exact in float64


def read_pairs(path: Path) -> NDArray[Any]:
    """Return the pairs of items in a file, one per row; in text, after a line of words, if there is one."""
    files.check_readable(path)
    ending = path.suffix.lower()
    if ending not in PAIR_ENDINGS:
        raise ValueError(
            f"{path} has an unknown ending: a file of pairs of items ends in {', '.join(PAIR_ENDINGS)}"
        )
    if ending == ".npy":
        return files.read_npy(path)
    rows = Rows(path, "#%", "a line is a pair 'i j' of items, which are numbers 0..n-1").after_heading()
    pairs = rows.table(2)
    wrong = np.argwhere(~((pairs >= 0) & (pairs < _MAX_ITEM) & (pairs == np.floor(pairs))))
    if len(wrong):
        at, end = wrong[0]
        raise rows.fault(rows.line(at), f"{pairs[at, end]:.15g} is no item: {rows.advice}")
    return pairs.astype(np.int64)


def read_groups(path: Path, column: str | None = None) -> Any:
    """Return the group of each item in a file: its only column, or the one with a name.

    Groups in text are their names, "" for none: that is an empty field, or a number below 0.
    """
    files.check_readable(path)
    ending = path.suffix.lower()
    if ending not in GROUP_ENDINGS:
        raise ValueError(
            f"{path} has an unknown ending: a file of groups of items ends in {', '.join(GROUP_ENDINGS)}"
        )
    if ending not in TEXT_ENDINGS:
        if column is not None:
            raise ValueError(f"{path} has no names of columns: leave out ':{column}'")
        return read_column(path)
    names = _only_column(path) if column is None else _named_column(path, column)
    return [name if _is_group(name) else "" for name in names]


def _only_column(path: Path) -> list[str]:
    rows = read_fields(path)
    wide = next((at for at, row in enumerate(rows, start=1) if len(row) > 1), None)
    if wide is not None:
        raise ValueError(
            f"{path}, line {wide}: {len(rows[wide - 1])} columns where one is expected, the group of an "
            f"item; name the column of a file with a heading, as in {path}:{rows[0][-1] or 'group'}"
        )
    return [row[0] if row else "" for row in rows]


def _named_column(path: Path, column: str) -> list[str]:
    if path.suffix.lower() not in TABLE_ENDINGS:
        raise ValueError(
            f"{path} has no names of columns: leave out ':{column}', or give a file with a heading, "
            f"{' or '.join(TABLE_ENDINGS)}"
        )
    rows = read_fields(path)
    heading = rows[0] if rows else []
    if heading.count(column) != 1:
        found = ", ".join(map(repr, heading)) or "no heading"
        how_many = "several columns" if column in heading else "no column"
        raise ValueError(f"{path} has {how_many} {column!r}: its first line is {found}")
    width, at = len(heading), heading.index(column)
    names = []
    for line, row in enumerate(rows[1:], start=2):
        if not row and width > 1:
            continue  # an empty line is no row of a table of several columns
        if row and len(row) != width:
            raise ValueError(f"{path}, line {line}: {len(row)} fields where the heading has {width}")
        names.append(row[at] if row else "")
    return names


def _is_group(name: str) -> bool:
    """Return whether a field names a group: it is not empty, NaN or a negative number."""
    return bool(name) and not (text.is_number(name) and not float(name) >= 0)
