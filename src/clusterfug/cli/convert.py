"""clusterfug convert: from one file format to another."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer


class Precision(StrEnum):
    float16 = "float16"
    float32 = "float32"
    float64 = "float64"


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Features or a graph.", show_default=False)
    ],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUTPUT",
            help="Features: .npy, .npz, .h5, .csv, .parquet or .txt. A graph: .txt or .npz.",
            show_default=False,
        ),
    ],
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            "-t",
            help="The number that a .txt file subtracts. Default: 0.4.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[
        Precision | None,
        typer.Option(
            help="Precision of the output. Default: that of the input; float32 for text.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Convert features or a graph from one file format to another."""
    from clusterfug import checks
    from clusterfug.io import files
    from clusterfug.problems.graph import GraphProblem

    files.check_readable(source)
    files.check_writable(target, files.FEATURE_ENDINGS, (source,))
    instance = files.read(source, np.float64 if dtype == Precision.float64 else np.float32)
    if isinstance(instance, GraphProblem):
        files.check_writable(target, files.GRAPH_ENDINGS)
        if threshold is not None or dtype is not None:
            raise ValueError(f"--threshold and --dtype go with features; {source} holds a graph")
        what = f"{instance.n:,} nodes, {len(instance.costs):,} edges"
    else:
        if threshold is not None and target.suffix.lower() != ".txt":
            raise ValueError("--threshold goes with a .txt output: other formats hold features only")
        array = instance.array
        checks.features(array)
        if dtype is not None:
            with np.errstate(over="ignore"):  # what becomes infinite is reported below
                array = array.astype(dtype.value)
            checks.features(array)
        instance = instance._replace(array=array)
        what = f"{array.shape[0]:,} x {array.shape[1]:,} {array.dtype}"
        if threshold is None:
            threshold = instance.threshold
    threshold = checks.number("threshold", 0.4 if threshold is None else threshold)
    files.write_instance(target, instance, threshold)
    typer.echo(f"{target}: {what}")
