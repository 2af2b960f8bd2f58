"""clusterfug cluster: features or a graph in, labels out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.text import Text

from clusterfug.cli.path import show_path
from clusterfug.cli.shared import (
    AlphaOption,
    CenterOption,
    DeviceOption,
    FeaturesOrGraph,
    Index,
    JsonOption,
    Metric,
    MetricOption,
    Precision,
    PrecisionOption,
    Prefer,
    PreferOption,
    ThresholdOption,
    WeightsOption,
    console,
    dense_problem,
    finite,
    in_bytes,
    no_features,
    of_features,
    plain_table,
    progress,
)

if TYPE_CHECKING:
    from clusterfug import Clustering


def cluster(
    features: FeaturesOrGraph,
    threshold: ThresholdOption = None,
    alpha: AlphaOption = None,
    prefer: PreferOption = Prefer.small,
    weights: WeightsOption = None,
    metric: MetricOption = None,
    center: CenterOption = False,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            "-a",
            help="Ours refine: auto, fast, or best (searches until --time-limit); exact proves its answer, "
            "for up to about 80 items. The paper's contract: gaec, dgaec, dgaec-inc, dlaec or dapplaec. "
            "A graph: auto, fast, best, exact or gaec.",
        ),
    ] = "auto",
    refine: Annotated[
        bool, typer.Option("--refine", help="Refine what an algorithm of the paper found.")
    ] = False,
    init: Annotated[
        Path | None,
        typer.Option(
            help="Labels to start from, one per item: .npy, .csv with the column label, .parquet or .txt.",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="Seconds after which refinement stops with the best so far. Default: 60 for best, exact.",
            show_default=False,
        ),
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(
            help="Iterations of best: a budget that does not depend on the machine's speed.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search of best and the shaking of auto.")] = 0,
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            help="Neighbours kept per node by the paper's algorithms. Default: 1 for dgaec, else 5.",
            show_default=False,
        ),
    ] = None,
    ann: Annotated[Index, typer.Option(help="Index of the approximate search of dapplaec.")] = Index.hnsw,
    device: DeviceOption = "cpu",
    precision: PrecisionOption = Precision.fast,
    memory_limit: Annotated[
        float | None,
        typer.Option(
            help="GiB that gaec may use for its n x n costs (default: 4), or that may be used on a GPU "
            "(default: 90 % of what is free).",
            show_default=False,
        ),
    ] = None,
    bound: Annotated[
        bool,
        typer.Option("--bound", help="Compute a lower bound, too: how far from optimal it is at most."),
    ] = False,
    thresholds: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:LAST:COUNT",
            help="Instead of one threshold: a table of the clusterings at several, such as 0.2:0.8:7, "
            "to choose one.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="With --thresholds: write the table as a picture, .png.", show_default=False),
    ] = None,
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
    from clusterfug.gpu.device import choose
    from clusterfug.graph import GraphProblem
    from clusterfug.instances import files
    from clusterfug.options import ALGORITHMS, GRAPH_ALGORITHMS
    from clusterfug.solve import dense_multicut, multicut

    if alpha is not None and threshold is not None:
        raise ValueError("give --threshold or --alpha, not both")
    checks.one_of("algorithm", algorithm, ALGORITHMS)
    if k is not None:
        checks.count("k", k)
    place = str(choose(device, algorithm) or "cpu")
    limit = in_bytes(memory_limit)
    inputs = tuple(Path(path) for path in (features, weights, alpha, init) if path)
    values = None
    if thresholds is not None:
        unused = {"--threshold": threshold, "--alpha": alpha, "--output": output, "--init": init}
        for option, given in (unused | {"--bound": bound or None}).items():
            if given is not None:
                raise ValueError(f"--thresholds makes a table: it does not go with {option}")
        values = _range(thresholds)
    if plot is not None:
        from clusterfug.plots import require_matplotlib

        if values is None:
            raise ValueError("--plot goes with --thresholds")
        require_matplotlib()
        files.check_writable(plot, (".png",), inputs)
    if output is not None:
        files.check_writable(output, files.LABEL_ENDINGS, inputs)
    instance = files.read(features)
    start = None if init is None else files.read_labels(init)
    options: dict[str, Any] = {
        "algorithm": algorithm,
        "refine": refine,
        "time_limit": time_limit,
        "max_iter": max_iter,
        "random_state": seed,
        "bound": bound,
    }
    if isinstance(instance, GraphProblem):
        used = of_features(threshold, alpha, prefer, weights, metric, center, device)
        used |= {
            "--thresholds": thresholds is not None,
            "--ann": ann != Index.hnsw,
            "-k": k is not None,
            "--precision": precision != Precision.fast,
        }
        no_features(features, used)
        if algorithm not in GRAPH_ALGORITHMS:
            raise ValueError(f"a graph is clustered by {', '.join(GRAPH_ALGORITHMS)}, not {algorithm}")
        with progress() as callback:
            result = multicut(instance, init=start, callback=callback, **options)
        about: dict[str, Any] = {
            "n": instance.n,
            "d": None,
            "edges": len(instance.costs),
            "threshold": None,
            "device": "cpu",
        }
    else:
        metric = metric or Metric(instance.metric)
        options |= {"k": k, "ann": ann, "device": place, "precision": precision, "memory_limit": limit}
        problem = dense_problem(
            instance, threshold, metric, center, alpha=alpha, prefer=prefer, weights=weights
        )
        if values is not None:
            show_path(problem, values, options, plot, as_json)
            return
        with progress() as callback:
            result = dense_multicut(problem, init=start, callback=callback, **options)
        about = {"n": problem.n, "d": problem.d, "threshold": problem.threshold, "device": place}
        if alpha is not None:
            about |= {"alpha": alpha, "prefer": prefer.value}
        about |= {"metric": metric.value, "center": center}
    if output is not None:
        files.write_labels(output, result.labels)
    if as_json:
        last = result.trace[-1]
        about |= {
            "algorithm": result.algorithm,
            "n_clusters": result.n_clusters,
            "objective": result.objective,
            "inside": result.inside,
            "lower_bound": result.lower_bound,
            "gap": finite(result.gap),
            "gap_inside": finite(result.gap_inside),
            "move_optimal": last.move_optimal,
            "join_optimal": last.join_optimal,
            "seconds": result.seconds,
            "output": None if output is None else str(output),
        }
        typer.echo(json.dumps(about))
    else:
        _print(result, output)


def _range(text: str) -> NDArray[np.float64]:
    """FIRST:LAST:COUNT as numbers."""
    try:
        first, last, count = text.split(":")
        values = np.linspace(float(first), float(last), int(count))
    except ValueError:
        raise ValueError(f"--thresholds must be FIRST:LAST:COUNT (0.2:0.8:7), not {text!r}") from None
    if not 0 < len(values) <= 1000 or not np.all(np.isfinite(values)):
        raise ValueError(f"--thresholds must name 1 to 1,000 finite numbers, not {text!r}")
    return values


def _print(result: "Clustering", output: Path | None) -> None:
    sizes = np.sort(np.bincount(result.labels))[::-1]
    table = plain_table()
    table.add_row("items", f"{len(result.labels):,}")
    table.add_row("clusters", f"{result.n_clusters:,}")
    table.add_row("largest", ", ".join(f"{size:,}" for size in sizes[:5]))
    table.add_row("alone", f"{int(np.count_nonzero(sizes == 1)):,}")
    table.add_row("objective", f"{result.objective:,.2f}")
    table.add_row("inside", f"{result.inside:,.2f}")
    if result.gap is not None:
        far = "proven optimal" if result.optimal else _far(result)
        table.add_row("bound", f"{result.lower_bound:,.2f}; {far}")
    table.add_row("algorithm", result.algorithm + _certificate(result))
    table.add_row("seconds", f"{result.seconds:.2f}")
    table.add_row("labels", Text(str(output)) if output else "not written; -o labels.npy writes them")
    console().print(table)


def _far(result: "Clustering") -> str:
    return f"at most {result.gap:.4%} from optimal, {result.gap_inside:.2%} of inside"


def _certificate(result: "Clustering") -> str:
    last = result.trace[-1]
    if last.move_optimal and last.join_optimal:
        return "; no single move or join improves it"
    return "" if last.name == "contraction" else "; stopped early"
