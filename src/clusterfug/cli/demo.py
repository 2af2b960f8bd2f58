"""clusterfug demo: the main job on data that everybody has."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from clusterfug.cli.shared import console


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for features, labels and picture.")
    ] = Path("clusterfug-demo"),
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            "-t",
            help="Larger gives more clusters. By default it is chosen, one for each item.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Cluster scikit-learn's 1,797 handwritten digits; write labels and a picture of the clusters."""
    from clusterfug.report.demo import run_demo

    terminal = Console(stderr=True)
    if terminal.is_terminal:
        terminal.print("clustering 1,797 digits; the first run compiles kernels (about ten seconds)")
    done = run_demo(output, threshold)
    table = Table(box=None, pad_edge=False)
    for heading in ("items", "clusters", "objective", "AMI", "seconds"):
        table.add_column(heading, justify="right")
    result = done.result
    table.add_row(
        f"{len(result.labels):,}",
        str(result.n_clusters),
        f"{result.objective:,.2f}",
        f"{done.ami:.3f}",
        f"{result.seconds:.2f}",
    )
    console().print(table)
    if result.choice is not None:
        console().print(f"threshold: local, {result.choice.reason}", style="dim")
    for path in done.files:
        typer.echo(f"wrote {path}")
