"""What the commands share: options, tables, the progress bar."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table


class Metric(StrEnum):
    cosine = "cosine"
    inner_product = "inner_product"


class Index(StrEnum):
    hnsw = "hnsw"
    ivf = "ivf"


class Precision(StrEnum):
    fast = "fast"
    exact = "exact"


class Prefer(StrEnum):
    small = "small"
    large = "large"


FEATURES = (
    "One row per item: .npy, .npz, .h5, .csv, .parquet, or a text file that starts with "
    "FACTORIZED COMPLETE MULTICUT."
)
FeaturesArgument = Annotated[Path, typer.Argument(metavar="FEATURES", help=FEATURES, show_default=False)]
FeaturesOrGraph = Annotated[
    Path,
    typer.Argument(
        metavar="FEATURES",
        help=f"{FEATURES} Or an explicit graph: a text file that starts with MULTICUT, or .npz as "
        "scipy saves a sparse matrix.",
        show_default=False,
    ),
]
FeaturesOrFolder = Annotated[
    Path,
    typer.Argument(
        metavar="FEATURES",
        help=f"{FEATURES} A folder of .npy, .parquet, .arrow or .feather files. Or an explicit graph: a "
        "text file that starts with MULTICUT, or .npz as scipy saves a sparse matrix.",
        show_default=False,
    ),
]
ThresholdOption = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        "-t",
        metavar="NUMBER | local | auto",
        help="Similarity at which a pair neither attracts nor repels: larger gives more clusters. local is "
        "one for each item, from its neighbours; auto selects how strict. Default: what the labels were "
        "solved with; what a text file says; auto.",
        show_default=False,
    ),
]
StrictnessOption = Annotated[
    float | None,
    typer.Option(
        help="Of a local threshold: the share of the similarity to its neighbours at which an item is "
        "neutral. Larger gives more clusters. Default: 0.6.",
        show_default=False,
    ),
]
NeighborsOption = Annotated[
    int | None,
    typer.Option(
        help="Nearest items that a local threshold looks at. Default: 100, or two thirds of the items.",
        show_default=False,
    ),
]
AlphaOption = Annotated[
    str | None,
    typer.Option(
        help="Instead of a threshold: cost = <f_i, f_j> - alpha_i alpha_j. One number, or a "
        ".npy, .csv, .parquet or .txt file with one per item.",
        show_default=False,
    ),
]
PreferOption = Annotated[Prefer, typer.Option(help="Sign of the alpha term: large adds it.")]
WeightsOption = Annotated[
    Path | None,
    typer.Option(
        help="One weight per item (counts as that many items): .npy, .csv, .parquet or .txt.",
        show_default=False,
    ),
]
MetricOption = Annotated[
    Metric | None,
    typer.Option(
        help="cosine scales rows to length 1, inner_product uses them as they are. "
        "Default: cosine; inner_product for a text file, which is a finished problem.",
        show_default=False,
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        metavar="cpu | cuda | cuda:N | auto",
        help="Where to run: cuda is a GPU (needs torch; auto and fast run there); auto is one if it is "
        "there and the algorithm runs there, else the CPU.",
    ),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        help="On a GPU, how candidates are found: in bfloat16 or in float32. The CPU is always exact."
    ),
]
CenterOption = Annotated[
    bool | None,
    typer.Option("--center/--no-center", help="Subtract the mean feature first.", show_default=False),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def console() -> Console:
    """Standard output; wide enough for every table when it is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def plain_table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    return table


def in_bytes(text: str | None) -> int | None:
    """What --memory-limit says, in bytes; a number alone is GiB."""
    from clusterfug import checks

    if text is None:
        return None
    try:
        gib = float(text)
    except ValueError:
        return checks.memory("--memory-limit", text)
    return int(checks.number("--memory-limit", gib, 1e-9) * 2**30)


def finite(number: float | None) -> float | None:
    """A number as JSON knows it."""
    return number if number is not None and math.isfinite(number) else None


def no_options(given: dict[str, Any], reason: str) -> None:
    """Raise an error for the first option that is given although it does not go with something."""
    for option, value in given.items():
        if value is not None and value is not False:
            raise ValueError(f"{option} {reason}")


@contextmanager
def progress(first: str = "neighbours") -> Iterator[Any]:
    """A callback that draws a progress bar on a terminal, or None where there is none."""
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
