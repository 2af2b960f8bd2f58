"""Known classes: numbers as in any label file, or names in .csv and .txt files."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import files, text
from clusterfug.io.labels import read_labels, whole_numbers
from clusterfug.io.rows import read_fields


def read_classes(path: Path) -> NDArray[np.int64]:
    """Return one label per item; names are numbered in alphabetical order, and -1 stays -1.

    A .csv file may have several columns if one of them is called `label`.
    """
    files.check_readable(path)
    if path.suffix.lower() not in (".csv", ".txt"):
        return read_labels(path)
    names = _read_names(path)
    if all(map(text.is_number, names)):
        return whole_numbers(path, np.array(names, dtype=np.float64))
    known = [name for name in names if name != "-1"]
    numbers = np.full(len(names), -1)
    numbers[[name != "-1" for name in names]] = numbered(known)[0]
    return numbers


def numbered(names: list[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return numbers 0, 1, ... of the names in alphabetical order, and the distinct names."""
    classes = sorted(set(names))
    number = {name: at for at, name in enumerate(classes)}
    return np.array([number[name] for name in names], dtype=np.int64), tuple(classes)


def _read_names(path: Path) -> list[str]:
    """Return the column `label`, or the only one, without its heading."""
    rows = read_fields(path)
    while rows and not any(rows[-1]):
        rows.pop()
    first = rows[0] if rows else [""]
    if len(first) > 1 and "label" not in first:
        raise ValueError(f"{path} must have one column, or one called 'label'")
    column = first.index("label") if "label" in first else 0
    names = [row[column] if column < len(row) else "" for row in rows]
    if "" in names:
        raise ValueError(f"{path}, line {names.index('') + 1}: the label is missing; -1 means no class")
    numbers_below = len(names) > 1 and all(map(text.is_number, names[1:]))
    if names[:1] == ["label"] or (numbers_below and not text.is_number(names[0])):
        names = names[1:]
    if not names:
        raise ValueError(f"{path} holds no labels")
    return names
