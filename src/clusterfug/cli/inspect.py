"""clusterfug inspect: what one needs to know before choosing a threshold."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from clusterfug.cli.shared import (
    CenterOption,
    FeaturesArgument,
    JsonOption,
    Metric,
    MetricOption,
    console,
    plain_table,
)


def inspect(
    features: FeaturesArgument,
    metric: MetricOption = None,
    center: CenterOption = None,
    seed: Annotated[int, typer.Option(help="Seed of the sample of pairs.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say what one needs to know before choosing a threshold."""
    from clusterfug import checks
    from clusterfug.io import files
    from clusterfug.problems.graph import GraphProblem
    from clusterfug.report import inspection

    checks.count("seed", seed, 0)
    instance = files.read(features)
    if isinstance(instance, GraphProblem):
        raise ValueError(f"{features} holds a graph, not features")
    metric = metric or Metric(instance.metric)
    found = inspection.inspect(instance.array, metric, bool(center), seed)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    table = plain_table()
    table.add_row("items", f"{found.n:,}")
    table.add_row("features", f"{found.d:,} ({found.dtype})")
    table.add_row("norms", f"{found.norm_min:.4g} to {found.norm_max:.4g}, mean {found.norm_mean:.4g}")
    table.add_row("zero rows", f"{found.zero_rows:,}")
    table.add_row("duplicates", f"{found.duplicates:,}")
    table.add_row("mean cosine", f"{found.mean_cosine:.3f}")
    out = console()
    out.print(table)
    if found.pairs:
        how = "centred " if center else ""
        what = "cosines" if metric == Metric.cosine else "inner products"
        out.print(f"\n{how}{what} of {found.pairs:,} pairs")
        quantiles = Table(box=None, pad_edge=False)
        for q in found.quantiles:
            quantiles.add_column(
                {0.0: "min", 0.5: "median", 1.0: "max"}.get(q, f"{q:.1%}"), justify="right"
            )
        quantiles.add_row(*(f"{value:.3g}" for value in found.quantiles.values()))
        out.print(quantiles)
        out.print("\nshare of pairs that attract, by threshold")
        attracting = Table(box=None, pad_edge=False)
        for t in found.attracting:
            attracting.add_column(f"{t:g}", justify="right")
        attracting.add_row(*(f"{share:.2%}" for share in found.attracting.values()))
        out.print(attracting)
    for line in found.advice:
        out.print(f"\n[bold]note[/bold] {line}")
