"""clusterfug convert: from one file format to another."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from clusterfug.cli.options import argument, no_options, option

FloatType = StrEnum("FloatType", ["float16", "float32", "float64"])


def convert(
    source: Annotated[Path, argument("INPUT", "Features or a graph.")],
    target: Annotated[
        Path,
        argument("OUTPUT", "Features: .npy, .npz, .h5, .csv, .parquet or .txt. A graph: .txt or .npz."),
    ],
    threshold: Annotated[
        float | None,
        option("The number that a .txt file subtracts. Default: 0.4.", "--threshold", "-t"),
    ] = None,
    dtype: Annotated[
        FloatType | None,
        option("Type of the numbers. Default: that of the input; float32 for text."),
    ] = None,
) -> None:
    """Convert features or a graph from one file format to another."""
    from clusterfug import checks
    from clusterfug.io import files
    from clusterfug.problems.graph import GraphProblem

    files.check_readable(source)
    files.check_writable(target, files.FEATURE_ENDINGS, (source,))
    instance = files.read(source, np.float64 if dtype == FloatType.float64 else np.float32)
    if isinstance(instance, GraphProblem):
        files.check_writable(target, files.GRAPH_ENDINGS)
        no_options(
            {"--threshold": threshold, "--dtype": dtype}, f"goes with features; {source} holds a graph"
        )
        what = f"{instance.n:,} nodes, {len(instance.costs):,} edges"
    else:
        if threshold is not None and target.suffix.lower() != ".txt":
            raise ValueError("--threshold goes with a .txt output: other formats hold features only")
        array = instance.array
        checks.features(array, name=str(source))
        if dtype is not None:
            with np.errstate(over="ignore"):  # infinite values are reported below
                array = array.astype(dtype.value)
            checks.features(array, name=str(source))
        instance = instance._replace(array=array)
        what = f"{array.shape[0]:,} x {array.shape[1]:,} {array.dtype}"
        if threshold is None and instance.threshold is not None and target.suffix.lower() == ".txt":
            threshold = checks.number(f"line 2 of {source}", instance.threshold)
    threshold = 0.4 if threshold is None else checks.number("threshold", threshold)
    files.write_instance(target, instance, threshold)
    typer.echo(f"{target}: {what}")
