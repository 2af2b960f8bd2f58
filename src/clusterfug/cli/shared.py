"""What the commands share: options, tables, the progress bar."""

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from clusterfug.instances.files import Features
    from clusterfug.shards.source import Files


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
        metavar="NUMBER | local",
        help="Similarity at which a pair neither attracts nor repels: larger gives more clusters. local is "
        "one for each item, from its neighbours. Default: 0.4, or what a text file says.",
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
CenterOption = Annotated[bool, typer.Option("--center", help="Subtract the mean feature first.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def console() -> Console:
    """Standard output; wide enough for every table when it is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def plain_table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    return table


def threshold_of(text: str | None, auto: bool = True) -> float | str | None:
    """What --threshold says."""
    if text == "auto" and not auto:
        raise ValueError("--threshold auto is for cluster: give what it chose, local and its --strictness")
    if text is None or text in ("local", "auto"):
        return text
    try:
        return float(text)
    except ValueError:
        known = "a number, local or auto" if auto else "a number or local"
        raise ValueError(f"--threshold must be {known}, not {text!r}") from None


def features_and_costs(
    instance: "Features | Files",
    threshold: float | str | None,
    metric: Metric | None,
    center: bool,
    *,
    alpha: str | None = None,
    prefer: Prefer = Prefer.small,
    weights: Path | None = None,
    strictness: float | None = None,
    n_neighbors: int | None = None,
) -> tuple[Any, dict[str, Any]]:
    """What a file of features and the options describe, as `DenseProblem` takes it."""
    from clusterfug import checks
    from clusterfug.instances import files
    from clusterfug.preprocess import mean_feature, prepare
    from clusterfug.shards.source import Files

    if threshold is None:
        local = strictness is not None or n_neighbors is not None
        stored = 0.4 if instance.threshold is None else instance.threshold
        threshold = "local" if local and alpha is None else stored
    array: Any = instance
    if not isinstance(instance, Files):  # what is read in parts is checked in parts, and prepared
        array = checks.features(instance.array)
    weight = None if weights is None else checks.weights(files.read_column(weights), array.shape[0])
    strength: Any = alpha
    if alpha is not None:
        try:
            strength = float(alpha)
        except ValueError:
            strength = files.read_column(Path(alpha))
    if not isinstance(instance, Files):
        mean = mean_feature(array, weight) if center else None
        array = prepare(array, metric or instance.metric, mean)
    costs = {
        "threshold": threshold,
        "alpha": strength,
        "prefer": prefer,
        "sample_weight": weight,
        "strictness": strictness,
        "n_neighbors": n_neighbors,
    }
    return array, costs


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


def of_features(
    threshold: float | str | None,
    strictness: float | None,
    n_neighbors: int | None,
    alpha: str | None,
    prefer: Prefer,
    weights: Path | None,
    metric: Metric | None,
    center: bool,
    device: str,
) -> dict[str, bool]:
    """Options that describe a problem of features, and whether they are used."""
    from clusterfug.gpu.device import is_given

    return {
        "--threshold": threshold is not None,
        "--strictness": strictness is not None,
        "--n-neighbors": n_neighbors is not None,
        "--alpha": alpha is not None,
        "--prefer": prefer != Prefer.small,
        "--weights": weights is not None,
        "--metric": metric is not None,
        "--center": center,
        "--device": is_given(device),
    }


def no_features(path: Path, options: dict[str, bool]) -> None:
    """Options that are used although the file holds a graph are an error."""
    for option, used in options.items():
        if used:
            raise ValueError(f"{option} goes with features, but {path} holds a graph")


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
