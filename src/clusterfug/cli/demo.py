"""clusterfug demo: cluster handwritten digits, which come with scikit-learn."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from clusterfug.cli.options import option, shown
from clusterfug.cli.terminal import console, figures


def demo(
    output: Annotated[Path, shown("Folder for features, labels and picture.", "--output", "-o")] = Path(
        "clusterfug-demo"
    ),
    threshold: Annotated[
        float | None,
        option(
            "Larger gives more clusters. By default one for each item is selected.", "--threshold", "-t"
        ),
    ] = None,
) -> None:
    """Cluster scikit-learn's 1,797 handwritten digits; write labels and a picture of the clusters."""
    from clusterfug.report.demo import run_demo

    terminal = Console(stderr=True)
    if terminal.is_terminal:
        terminal.print("clustering 1,797 digits; the first run compiles kernels (about ten seconds)")
    done = run_demo(output, threshold)
    result = done.result
    table = figures("items", "clusters", "objective", "AMI", "seconds")
    counts = f"{len(result.labels):,}", f"{result.n_clusters}"
    table.add_row(*counts, f"{result.objective:,.2f}", f"{done.ami:.3f}", f"{result.seconds:.2f}")
    console().print(table)
    if result.choice is not None:
        console().print(f"threshold: local, {result.choice.reason}", style="dim")
    for path in done.files:
        typer.echo(f"wrote {path}")
