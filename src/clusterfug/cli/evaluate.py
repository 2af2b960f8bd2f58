"""clusterfug evaluate: sizes of clusters, agreement with known classes, cost."""

from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from rich.table import Table
from rich.text import Text

from clusterfug.cli import options
from clusterfug.cli.links import LinkOptions, describe_links, links_row
from clusterfug.cli.options import argument, option
from clusterfug.cli.problem import CostOptions, describe
from clusterfug.cli.terminal import console, facts, figures, note, print_json

if TYPE_CHECKING:
    from clusterfug.report.evaluation import Evaluation

_COUNTS = {"items": "n", "clusters": "n_clusters", "singletons": "singletons", "largest": "largest"}
_BAR_WIDTH = 40


def evaluate(
    labels: Annotated[
        Path,
        argument(
            "LABELS",
            "One label per item: .npy, .npz, .csv with the column label, .parquet, or .txt with one per "
            "line; .csv and .txt may hold names. An item of label -1 (noise) is a cluster of its own.",
        ),
    ],
    truth: Annotated[
        Path | None,
        option(
            "The known class of each item, in the same formats. An item of class -1 is left out of the "
            "comparison."
        ),
    ] = None,
    features: Annotated[
        Path | None, option(f"To say what the clustering costs. {options.FEATURES}")
    ] = None,
    threshold: options.Threshold = None,
    strictness: options.Strictness = None,
    n_neighbors: options.Neighbors = None,
    alpha: options.Alpha = None,
    prefer: options.PreferSign = None,
    weights: options.Weights = None,
    metric: options.MetricName = None,
    center: options.Center = None,
    must_link: options.MustLink = None,
    cannot_link: options.CannotLink = None,
    exclusive: options.Exclusive = None,
    link_weight: options.LinkWeight = None,
    as_json: options.Json = False,
) -> None:
    """Say how large clusters are, how well they agree with known classes, and what they cost."""
    from clusterfug.execution.plan import Execution
    from clusterfug.io import files
    from clusterfug.io.classes import read_classes
    from clusterfug.io.labels import LabelFile
    from clusterfug.problems.arguments import with_selected_costs
    from clusterfug.report import evaluation

    links = LinkOptions(must_link, cannot_link, exclusive, link_weight)
    costs = CostOptions(
        threshold, strictness, n_neighbors, None, alpha, prefer, weights, metric, center, links
    )
    if features is None:
        links.check_none_given("goes with --features")
        costs.check_none_given("goes with --features")
    for path in (labels, truth, features):
        if path is not None:
            files.check_readable(path)
    given = LabelFile(labels, read_classes(labels))
    known = problem = None
    if truth is not None:
        known = read_classes(truth)
        given.check_items(truth, len(known))
    about: dict[str, Any] = {}  # what the costs are
    if features is not None:
        problem = links.linked(costs.problem(files.read_features(features), features, given), features)
        is_noise = given.labels == evaluation.NO_LABEL
        alone = given.labels.max() + 1 + np.arange(len(is_noise))
        about_links = describe_links(problem.links, np.where(is_noise, alone, given.labels))
        problem = with_selected_costs(problem, Execution())
        about = describe(problem) | {"links": about_links}
        problem = problem.resolved()
    found = evaluation.evaluate(given.labels, known, problem)
    if found.cost is not None and features is not None:
        scale = max(abs(found.cost.all_singletons), abs(found.cost.inside))
        costs.check_objective(given, found.cost.objective, scale, features)
    if as_json:
        print_json(found.as_dict() | about)
    else:
        _print(found, labels, truth, about)


def _print(found: "Evaluation", labels: Path, truth: Path | None, about: dict[str, Any]) -> None:
    out = console()
    out.print(_sizes_table(found, labels, truth))
    if (scores := found.scores) is not None:
        rows = {"NMI, V-measure": scores.nmi, "AMI": scores.ami, "ARI": scores.ari}
        rows |= {"homogeneity": scores.homogeneity, "completeness": scores.completeness}
        out.print()
        out.print(facts({name: f"{score:.4f}" for name, score in rows.items()}))
    if (cost := found.cost) is not None:
        rows = {"objective": cost.objective, "all singletons": cost.all_singletons, "inside": cost.inside}
        out.print()
        out.print(facts({name: f"{value:,.2f}" for name, value in rows.items()} | _cost_rows(about)))
    out.print()
    out.print(_histogram(found))
    if found.noise:
        out.print(note("noise", f"(label -1): {found.noise:,}, each counted as a cluster of its own"))
    if found.unlabelled:
        out.print(note("unlabelled", f"(class -1): {found.unlabelled:,}, left out of the comparison"))


def _cost_rows(about: dict[str, Any]) -> dict[str, str | None]:
    """Return the rows that say what the costs and the links are."""
    features = f"({'centred ' if about['center'] else ''}{about['metric']})"
    links = {"links": links_row(about["links"])}
    if "alpha" in about:
        return {"alpha": f"{about['alpha']}, prefer {about['prefer']} {features}"} | links
    strict = f", strictness {about['strictness']:g}" if "strictness" in about else ""
    return {"threshold": f"{about['threshold']}{strict} {features}"} | links


def _sizes_table(found: "Evaluation", labels: Path, truth: Path | None) -> Table:
    """Return sizes of the clustering and, beside it, of the classes."""
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
    table = figures("size", "clusters", "items")
    table.add_column()
    most = max(part.items for part in found.histogram)
    for part in found.histogram:
        size = f"{part.first:,}" if part.first == part.last else f"{part.first:,}-{part.last:,}"
        bar = "#" * ceil(_BAR_WIDTH * part.items / most)
        table.add_row(size, f"{part.clusters:,}", f"{part.items:,}", bar)
    return table
