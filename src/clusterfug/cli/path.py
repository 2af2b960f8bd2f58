"""clusterfug cluster --thresholds: a table of clusterings, and its picture."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table

from clusterfug.cli.shared import console, progress

if TYPE_CHECKING:
    from numpy.typing import NDArray


def show_path(
    features: "NDArray[Any]",
    weights: "NDArray[Any] | None",
    thresholds: "NDArray[Any]",
    options: dict[str, Any],
    plot: Path | None,
    as_json: bool,
) -> None:
    """Cluster along the thresholds, print the table, write the picture."""
    from clusterfug.instances import files
    from clusterfug.path import threshold_path
    from clusterfug.plots import plot_path

    with progress() as callback:
        path = threshold_path(
            features,
            thresholds,
            sample_weight=weights,
            callback=callback,
            **options,
        )
    if plot is not None:
        with files.complete(plot) as part:
            plot_path(path, part)
    if as_json:
        plotted = None if plot is None else str(plot)
        about = {
            "n": features.shape[0],
            "d": features.shape[1],
            "algorithm": path[0].algorithm,
            "device": options["device"],
        }
        typer.echo(json.dumps(about | {"thresholds": path.rows(), "plot": plotted}))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("threshold", "clusters", "largest", "alone", "inside", "agreement"):
        table.add_column(heading, justify="right")
    for row in path.rows():
        agreement = "" if row["agreement"] is None else f"{row['agreement']:.3f}"
        table.add_row(
            f"{row['threshold']:.4g}",
            *(f"{row[key]:,}" for key in ("n_clusters", "largest", "alone")),
            f"{row['inside']:,.2f}",
            agreement,
        )
    console().print(table)
    console().print("agreement: adjusted Rand index with the row above", style="dim")
    if plot is not None:
        console().print(f"picture: {plot}", style="dim")
