"""Rows of text files: of numbers, with the line of what is wrong in them; and of the fields of tables."""

import csv
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import text
from clusterfug.io.broken import broken_is_named


@dataclass(frozen=True)
class Rows:
    """The lines of a text file after the first `skip`, without comments: one row of numbers each."""

    path: Path
    comments: str  # the characters with which a comment may begin
    advice: str = ""  # what a row is, for errors
    skip: int = 0
    delimiter: str | None = None
    prefix: str = ""  # rows may begin with it
    blank: bool = False  # whether a blank line is a row, of no numbers

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield the number of the line and the text of every row."""
        with text.opened(self.path) as file:
            for at, line in enumerate(file, start=1):
                row = line.strip()
                if at > self.skip and (row[0] not in self.comments if row else self.blank):
                    yield at, row.removeprefix(self.prefix)

    def first(self) -> tuple[int, str]:
        return next(iter(self), (1, ""))

    def after_heading(self) -> "Rows":
        """Return the rows after a line of words, if the first is one, with the separator of numbers there.

        It is a comma, or else blanks.
        """
        rows = self
        at, first = rows.first()
        if not any(word[:1].isdigit() or text.is_number(word) for word in re.split(r"[\s,]+", first)):
            rows = replace(rows, skip=at)
            _, first = rows.first()
        return replace(rows, delimiter="," if "," in first else None)

    def line(self, row: int) -> int:
        """Return the number of the line of a row, counted from 0."""
        return next(islice(self, row, None), (0, ""))[0]

    def fault(self, line: int, what: str) -> ValueError:
        return ValueError(f"{self.path}, line {line}: {what}")

    def table(self, d: int) -> NDArray[np.float64]:
        """Return the numbers of all rows, d in each."""
        return self._parsed((row for _, row in self), d).reshape(-1, d)

    def numbers(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the numbers of all rows one after the other, and how many are in each row."""
        lengths: list[int] = []

        def fields() -> Iterator[str]:
            for _, row in self:
                found = row.split()
                lengths.append(len(found))
                yield from found

        return self._parsed(fields()).ravel(), np.array(lengths, dtype=np.int64)

    def _parsed(self, lines: Iterable[str], d: int | None = None) -> NDArray[np.float64]:
        """Return a table read by NumPy's parser; if it fails, the rows are read again to name the line."""
        try:
            with broken_is_named(self.path), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # no numbers: a graph without edges
                table = np.loadtxt(lines, delimiter=self.delimiter, comments=None, ndmin=2)
                if table.size and d not in (None, table.shape[1]):
                    raise ValueError("rows of another length")
                return table
        except ValueError as error:
            raise next(self._faults(d), error) from None

    def _faults(self, d: int | None) -> Iterator[ValueError]:
        """Yield what is wrong with rows, if they should be of d numbers."""
        for at, row in self:
            fields = [field.strip() for field in row.split(self.delimiter)]
            for field in fields:
                if not (field.isascii() and text.is_number(field)):
                    yield self.fault(at, f"{field[:40]!r} is not a number: {self.advice}")
            if d is not None and len(fields) != d:
                yield self.fault(at, f"{len(fields)} numbers where {d} are expected: {self.advice}")


def read_fields(path: Path) -> list[list[str]]:
    """Return the fields of every row of a .csv or .tsv file; every line of another file is one field."""
    separators = {".csv": ",", ".tsv": "\t"}
    with text.opened(path, newline="") as file:
        if path.suffix.lower() not in separators:
            return [[line.strip()] for line in file]
        try:
            rows = csv.reader(file, delimiter=separators[path.suffix.lower()])
            return [[field.strip() for field in row] for row in rows]
        except csv.Error as error:
            raise ValueError(f"{path} is broken: {error}") from error
