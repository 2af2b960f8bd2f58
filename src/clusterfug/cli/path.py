"""clusterfug cluster --thresholds: a table of clusterings, and its picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterfug.cli.terminal import console, figures, print_json, progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from clusterfug.execution.plan import Execution
    from clusterfug.problems.features import FeatureProblem
    from clusterfug.solvers import Solver


def show_path(
    problem: "FeatureProblem",
    thresholds: "NDArray[Any]",
    solver: "Solver",
    execution: "Execution",
    plot: Path | None,
    as_json: bool,
) -> None:
    """Cluster along the thresholds, print the table, write the picture."""
    from clusterfug.io import files
    from clusterfug.report.plots import plot_path
    from clusterfug.selection.path import solve_path

    with progress() as callback:
        path = solve_path(problem, thresholds, solver, execution, False, callback)
    if plot is not None:
        with files.complete(plot) as part:
            plot_path(path, part)
    if as_json:
        n, d = problem.shape
        about = {"n": n, "d": d, "algorithm": path[0].algorithm, "device": str(execution.device or "cpu")}
        print_json(about | {"thresholds": path.rows(), "plot": plot})
        return
    table = figures("threshold", "clusters", "largest", "alone", "inside", "agreement")
    for row in path.rows():
        counts = (f"{row[key]:,}" for key in ("n_clusters", "largest", "alone"))
        agreement = "" if row["agreement"] is None else f"{row['agreement']:.3f}"
        table.add_row(f"{row['threshold']:.4g}", *counts, f"{row['inside']:,.2f}", agreement)
    console().print(table)
    console().print("agreement: adjusted Rand index with the row above", style="dim")
    if plot is not None:
        console().print(f"picture: {plot}", style="dim")
