"""clusterfug cluster: features or a graph in, labels out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.text import Text

from clusterfug.cli.shared import (
    CenterOption,
    Index,
    JsonOption,
    Metric,
    MetricOption,
    Prefer,
    ThresholdOption,
    console,
    plain_table,
    progress,
)

if TYPE_CHECKING:
    from clusterfug import Clustering, DenseProblem


def cluster(
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES",
            help="One row per item: .npy, .npz, .csv, .parquet, or a text file that starts with "
            "FACTORIZED COMPLETE MULTICUT. Or an explicit graph: a text file that starts with "
            "MULTICUT, or .npz as scipy saves a sparse matrix.",
            show_default=False,
        ),
    ],
    threshold: ThresholdOption = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Instead of a threshold: cost = <f_i, f_j> - alpha_i alpha_j. One number, or a "
            ".npy or .csv file with one per item.",
            show_default=False,
        ),
    ] = None,
    prefer: Annotated[Prefer, typer.Option(help="Sign of the alpha term: large adds it.")] = Prefer.small,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="A .npy or .csv file with one weight per item (counts as that many items).",
            show_default=False,
        ),
    ] = None,
    metric: MetricOption = None,
    center: CenterOption = False,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="auto, gaec, dgaec, dgaec-inc, dlaec or dapplaec.")
    ] = "auto",
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            help="Neighbours kept per node. Default: 1 for dgaec, else 5.",
            show_default=False,
        ),
    ] = None,
    ann: Annotated[Index, typer.Option(help="Index of the approximate search of dapplaec.")] = Index.hnsw,
    memory_limit: Annotated[float, typer.Option(help="GiB that gaec may use for its n x n costs.")] = 4.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write one label per item: .npy, .csv or .parquet.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Cluster items by their features (or the nodes of a graph) and write their labels."""
    from clusterfug import checks
    from clusterfug.graph import GraphProblem
    from clusterfug.instances import files
    from clusterfug.solve import ALGORITHMS, dense_multicut, multicut

    if alpha is not None and threshold is not None:
        raise ValueError("give --threshold or --alpha, not both")
    checks.one_of("algorithm", algorithm, ("auto", *ALGORITHMS))
    if k is not None:
        checks.count("k", k)
    limit = int(checks.number("--memory-limit", memory_limit, 1e-9) * 2**30)
    if output is not None:
        inputs = [features, *(path for path in (weights, alpha and Path(alpha)) if path)]
        files.check_writable(output, files.LABEL_ENDINGS, tuple(inputs))
    instance = files.read(features)
    if isinstance(instance, GraphProblem):
        unused = {
            "--threshold": threshold is not None,
            "--alpha": alpha is not None,
            "--prefer": prefer != Prefer.small,
            "--weights": weights is not None,
            "--metric": metric is not None,
            "--center": center,
            "--ann": ann != Index.hnsw,
            "-k": k is not None,
        }
        for option, given in unused.items():
            if given:
                raise ValueError(f"{option} goes with features, but {features} holds a graph")
        if algorithm not in ("auto", "gaec"):
            raise ValueError(f"a graph is clustered by gaec, not {algorithm}")
        with progress() as callback:
            result = multicut(instance, algorithm=algorithm, callback=callback)
        about: dict[str, Any] = {
            "n": instance.n,
            "d": None,
            "edges": len(instance.costs),
            "threshold": None,
        }
    else:
        metric = metric or Metric(instance.metric)
        if threshold is None:
            threshold = 0.4 if instance.threshold is None else instance.threshold
        problem = _problem(instance.array, threshold, alpha, prefer, weights, metric, center)
        with progress() as callback:
            result = dense_multicut(
                problem, algorithm=algorithm, k=k, ann=ann, memory_limit=limit, callback=callback
            )
        about = {"n": problem.n, "d": problem.d, "threshold": problem.threshold}
        if alpha is not None:
            about |= {"alpha": alpha, "prefer": prefer.value}
        about |= {"metric": metric.value, "center": center}
    if output is not None:
        files.write_labels(output, result.labels)
    if as_json:
        about |= {
            "algorithm": result.algorithm,
            "n_clusters": result.n_clusters,
            "objective": result.objective,
            "inside": result.inside,
            "seconds": result.seconds,
            "output": None if output is None else str(output),
        }
        typer.echo(json.dumps(about))
    else:
        _print(result, output)


def _print(result: "Clustering", output: Path | None) -> None:
    sizes = np.sort(np.bincount(result.labels))[::-1]
    table = plain_table()
    table.add_row("items", f"{len(result.labels):,}")
    table.add_row("clusters", f"{result.n_clusters:,}")
    table.add_row("largest", ", ".join(f"{size:,}" for size in sizes[:5]))
    table.add_row("alone", f"{int(np.count_nonzero(sizes == 1)):,}")
    table.add_row("objective", f"{result.objective:,.2f}")
    table.add_row("inside", f"{result.inside:,.2f}")
    table.add_row("algorithm", result.algorithm)
    table.add_row("seconds", f"{result.seconds:.2f}")
    table.add_row("labels", Text(str(output)) if output else "not written; -o labels.npy writes them")
    console().print(table)


def _problem(
    array: Any,
    threshold: float,
    alpha: str | None,
    prefer: str,
    weights: Path | None,
    metric: str,
    center: bool,
) -> "DenseProblem":
    """The problem that the options describe."""
    from clusterfug import checks
    from clusterfug.instances import files
    from clusterfug.preprocess import mean_feature, prepare
    from clusterfug.problem import DenseProblem

    array = checks.features(array)
    weight = None if weights is None else checks.weights(files.read_column(weights), len(array))
    strength: Any = alpha
    if alpha is not None:
        try:
            strength = float(alpha)
        except ValueError:
            strength = files.read_column(Path(alpha))
    mean = mean_feature(array, weight) if center else None
    return DenseProblem(
        prepare(array, metric, mean), threshold, alpha=strength, prefer=prefer, sample_weight=weight
    )
