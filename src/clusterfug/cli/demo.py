"""clusterfug demo: cluster handwritten digits, which come with scikit-learn."""

from pathlib import Path
from typing import Annotated

import numpy as np
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
    from sklearn.datasets import load_digits
    from sklearn.metrics import adjusted_mutual_info_score

    from clusterfug import checks, dense_multicut
    from clusterfug.io.files import Features, write_instance
    from clusterfug.io.labels import write_labels
    from clusterfug.io.settings import settings_of
    from clusterfug.report.contact_sheet import contact_sheet, write_png

    terminal = Console(stderr=True)
    if terminal.is_terminal:
        terminal.print("clustering 1,797 digits")
    if threshold is not None:
        checks.number("threshold", threshold)
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"cannot write to {output}: it is not a folder")
    output.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    X = digits.data.astype(np.float32)
    result = dense_multicut(X, threshold, center=True)
    files = output / "digits.npy", output / "labels.npy", output / "clusters.png"
    write_instance(files[0], Features(X), 0.4)
    write_labels(files[1], result.labels, settings_of(result))
    images = (digits.images * (255 / 16)).astype(np.uint8)
    write_png(files[2], contact_sheet(images, result.labels))
    ami = adjusted_mutual_info_score(digits.target, result.labels)
    table = figures("items", "clusters", "objective", "AMI", "seconds")
    counts = f"{len(result.labels):,}", f"{result.n_clusters}"
    table.add_row(*counts, f"{result.objective:,.2f}", f"{ami:.3f}", f"{result.seconds:.2f}")
    console().print(table)
    if result.choice is not None:
        console().print(f"threshold: local, {result.choice.reason}", style="dim")
    for path in files:
        typer.echo(f"wrote {path}")
