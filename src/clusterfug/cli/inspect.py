"""clusterfug inspect: what one needs to know before choosing a threshold."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from clusterfug.cli import options
from clusterfug.cli.options import FEATURES, argument, shown
from clusterfug.cli.terminal import console, facts, figures, note, print_json


def inspect(
    features: Annotated[Path, argument("FEATURES", FEATURES)],
    metric: options.MetricName = None,
    center: options.Center = None,
    seed: Annotated[int, shown("Seed of the sample of pairs.")] = 0,
    as_json: options.Json = False,
) -> None:
    """Say what one needs to know before choosing a threshold."""
    from clusterfug import checks
    from clusterfug.io import files
    from clusterfug.report import inspection

    checks.count("seed", seed, 0)
    instance = files.read_features(features)
    found = inspection.inspect(instance.array, metric or instance.metric, bool(center), seed, str(features))
    if as_json:
        print_json(asdict(found))
        return
    rows = {
        "items": f"{found.n:,}",
        "features": f"{found.d:,} ({found.dtype})",
        "norms": f"{found.norm_min:.4g} to {found.norm_max:.4g}, mean {found.norm_mean:.4g}",
        "zero rows": f"{found.zero_rows:,}",
        "duplicates": f"{found.duplicates:,}",
        "mean cosine": f"{found.mean_cosine:.3f}",
    }
    out = console()
    out.print(facts(rows))
    if found.pairs:
        how = "centred " if found.center else ""
        what = "cosines" if found.metric == "cosine" else "inner products"
        out.print(f"\n{how}{what} of {found.pairs:,} pairs")
        named = {0.0: "min", 0.5: "median", 1.0: "max"}
        quantiles = figures(*(named.get(q, f"{q:.1%}") for q in found.quantiles))
        quantiles.add_row(*(f"{value:.3g}" for value in found.quantiles.values()))
        out.print(quantiles)
        out.print("\nshare of pairs that attract, by threshold")
        attracting = figures(*(f"{t:g}" for t in found.attracting))
        attracting.add_row(*(f"{share:.2%}" for share in found.attracting.values()))
        out.print(attracting)
    for line in found.advice:
        out.print(note("note", line))
