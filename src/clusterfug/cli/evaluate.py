"""clusterfug evaluate: sizes of clusters, agreement with known classes, cost."""

import json
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from clusterfug.cli.problem import CostOptions, settings_for
from clusterfug.cli.shared import (
    FEATURES,
    AlphaOption,
    CenterOption,
    JsonOption,
    MetricOption,
    NeighborsOption,
    Prefer,
    PreferOption,
    StrictnessOption,
    ThresholdOption,
    WeightsOption,
    console,
    plain_table,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from clusterfug.problems.dense import DenseProblem
    from clusterfug.report.evaluation import Evaluation

_COUNTS = {"items": "n", "clusters": "n_clusters", "singletons": "singletons", "largest": "largest"}
_BAR = 40


def evaluate(
    labels: Annotated[
        Path,
        typer.Argument(
            metavar="LABELS",
            help="One label per item: .npy, .csv with the column label, .parquet, or .txt with one per "
            "line; .csv and .txt may hold names. An item of label -1 (noise) is a cluster of its own.",
            show_default=False,
        ),
    ],
    truth: Annotated[
        Path | None,
        typer.Option(
            help="The known class of each item, in the same formats. An item of class -1 is left out of "
            "the comparison.",
            show_default=False,
        ),
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help=f"To say what the clustering costs. {FEATURES}", show_default=False)
    ] = None,
    threshold: ThresholdOption = None,
    strictness: StrictnessOption = None,
    n_neighbors: NeighborsOption = None,
    alpha: AlphaOption = None,
    prefer: PreferOption = Prefer.small,
    weights: WeightsOption = None,
    metric: MetricOption = None,
    center: CenterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say how large clusters are, how well they agree with known classes, and what they cost."""
    from clusterfug.io import files
    from clusterfug.io.classes import read_classes
    from clusterfug.report import evaluation

    costs = CostOptions(threshold, strictness, n_neighbors, None, alpha, prefer, weights, metric, center)
    if features is None:
        costs.not_without_features()
    for path in (labels, truth, features):
        if path is not None:
            files.check_readable(path)
    given = read_classes(labels)
    known = problem = None
    if truth is not None:
        known = read_classes(truth)
        _check_same_items(labels, len(given), truth, len(known))
    about: dict[str, Any] = {}
    if features is not None:
        problem, about = _problem(features, labels, given, costs)
    found = evaluation.evaluate(given, known, problem)
    if as_json:
        typer.echo(json.dumps(found.as_dict() | about))
    else:
        _print(found, labels, truth, about)


def _problem(
    features: Path, labels: Path, given: "NDArray[np.int64]", costs: CostOptions
) -> tuple["DenseProblem", dict[str, Any]]:
    """Return the problem that labels are costed with, and a description of its costs."""
    from clusterfug.api import with_selected_costs
    from clusterfug.execution.plan import Execution
    from clusterfug.io import files

    instance = files.read(features)
    if not isinstance(instance, files.Features):
        raise ValueError(f"{features} holds a graph, not features")
    _check_same_items(labels, len(given), features, len(np.atleast_1d(instance.array)))
    settings = settings_for(labels, given, costs, instance.threshold)
    problem = costs.problem(instance.array, instance.threshold, settings)
    problem = with_selected_costs(problem, Execution(), None)
    model, preprocessing = problem.costs, problem.preprocessing
    about = {"threshold": getattr(model, "value", model.name)}
    if hasattr(model, "strictness"):
        about["strictness"] = model.strictness
    return problem.dense(), about | {"metric": preprocessing.metric, "center": preprocessing.center}


def _check_same_items(labels: Path, n: int, other: Path, m: int) -> None:
    if n != m:
        raise ValueError(
            f"{labels} has {n:,} items, but {other} has {m:,}: "
            "give files of the same items, in the same order"
        )


def _print(found: "Evaluation", labels: Path, truth: Path | None, about: dict[str, Any]) -> None:
    out = console()
    out.print(_sizes_table(found, labels, truth))
    if found.scores is not None:
        out.print()
        scores = plain_table()
        scores.add_row("NMI, V-measure", f"{found.scores.nmi:.4f}")
        scores.add_row("AMI", f"{found.scores.ami:.4f}")
        scores.add_row("ARI", f"{found.scores.ari:.4f}")
        scores.add_row("homogeneity", f"{found.scores.homogeneity:.4f}")
        scores.add_row("completeness", f"{found.scores.completeness:.4f}")
        out.print(scores)
    if found.cost is not None:
        out.print()
        cost = plain_table()
        cost.add_row("objective", f"{found.cost.objective:,.2f}")
        cost.add_row("all singletons", f"{found.cost.all_singletons:,.2f}")
        cost.add_row("inside", f"{found.cost.inside:,.2f}")
        centred = "centred " if about["center"] else ""
        strict = f", strictness {about['strictness']:g}" if "strictness" in about else ""
        cost.add_row("threshold", f"{about['threshold']}{strict} ({centred}{about['metric']})")
        out.print(cost)
    out.print()
    out.print(_histogram(found))
    if found.noise:
        out.print(f"\n[bold]noise[/bold] (label -1): {found.noise:,}, each counted as a cluster of its own")
    if found.unlabelled:
        out.print(f"\n[bold]unlabelled[/bold] (class -1): {found.unlabelled:,}, left out of the comparison")


def _sizes_table(found: "Evaluation", labels: Path, truth: Path | None) -> Table:
    """The clustering and, beside it, the classes."""
    columns = [(labels, found.sizes)]
    if truth is not None and found.truth is not None:
        columns.append((truth, found.truth))
    table = Table(box=None, pad_edge=False)
    table.add_column(style="dim")
    for path, _ in columns:
        table.add_column(Text(path.name), justify="right")
    for heading, key in _COUNTS.items():
        table.add_row(heading, *(f"{getattr(sizes, key):,}" for _, sizes in columns))
    table.add_row("mean size", *(f"{sizes.mean_size:,.1f}" for _, sizes in columns))
    return table


def _histogram(found: "Evaluation") -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("size", "clusters", "items"):
        table.add_column(heading, justify="right")
    table.add_column()
    most = max(part.items for part in found.histogram)
    for part in found.histogram:
        size = f"{part.first:,}" if part.first == part.last else f"{part.first:,}-{part.last:,}"
        bar = "#" * ceil(_BAR * part.items / most)
        table.add_row(size, f"{part.clusters:,}", f"{part.items:,}", bar)
    return table
