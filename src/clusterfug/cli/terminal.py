"""What the commands print: tables, JSON and the progress bar."""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """Return standard output; wide enough for every table when it is not a terminal.

    Texts are printed as they are: names of files and of classes may look like markup.
    """
    width = None if sys.stdout.isatty() else 120
    return Console(width=width, markup=False, emoji=False)


def facts(rows: Mapping[str, str | None]) -> Table:
    """Return a table of names and values, without the rows whose value is None."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, Text(value))
    return table


def figures(*headings: str) -> Table:
    """Return a table, without rows yet, whose columns are numbers."""
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def note(heading: str, line: str) -> Text:
    """Return a line with a heading, and an empty line before it."""
    return Text.assemble("\n", (heading, "bold"), " ", line)


def print_json(about: Mapping[str, Any]) -> None:
    """Print one object as JSON, which has no infinite numbers: they become null. Paths become texts."""
    values = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in about.items()
    }
    typer.echo(json.dumps(values, default=os.fspath))


@contextmanager
def progress(first: str = "neighbours") -> Iterator[Any]:
    """Yield a callback that draws a progress bar on a terminal, or None where there is none."""
    terminal = Console(stderr=True)
    if not terminal.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:12}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task(first, total=1.0)

        def callback(phase: str, done: int, total: int) -> None:
            bar.update(task, description=phase, completed=done / total)

        yield callback
