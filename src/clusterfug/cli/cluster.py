"""clusterfug cluster: features or a graph in, labels out."""

import json
import warnings
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
    FeaturesOrFolder,
    Index,
    JsonOption,
    Metric,
    MetricOption,
    NeighborsOption,
    Precision,
    PrecisionOption,
    Prefer,
    PreferOption,
    StrictnessOption,
    WeightsOption,
    console,
    features_and_costs,
    finite,
    in_bytes,
    no_features,
    of_features,
    plain_table,
    progress,
    threshold_of,
)

if TYPE_CHECKING:
    from clusterfug import Choice, Clustering


def cluster(
    features: FeaturesOrFolder,
    threshold: Annotated[
        str | None,
        typer.Option(
            "--threshold",
            "-t",
            metavar="NUMBER | local | auto",
            help="Similarity at which a pair neither attracts nor repels: larger gives more clusters. "
            "local is one for each item, from its neighbours; auto chooses how strict, and says why. "
            "Default: auto; what a text file says; 0.4 for the paper's algorithms.",
            show_default=False,
        ),
    ] = None,
    strictness: StrictnessOption = None,
    n_neighbors: NeighborsOption = None,
    n_clusters: Annotated[
        str | None,
        typer.Option(
            metavar="N | LOW:HIGH",
            help="A wish: a local threshold is made as strict as it takes to have so many clusters.",
            show_default=False,
        ),
    ] = None,
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
        str | None,
        typer.Option(
            metavar="600MB | 2GiB",
            help="What gaec may use for its n x n costs (default: 4GiB), what auto and fast may use for a "
            "part (items that need more are read and solved shard by shard), or what may be used on a GPU "
            "(default: 90 % of what is free). A number without a unit is GiB.",
            show_default=False,
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Solve shard by shard and keep there what is done: the same command goes on from it after "
            "it was stopped.",
            show_default=False,
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT",
            help="Run on a dask cluster, whose workers can read FEATURES (needs dask).",
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
        typer.Option(
            help="With --thresholds, or where the strictness is chosen: draw what was tried, .png.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write one label per item: .npy, .csv or .parquet; for a folder of features also a new "
            "folder, with a .parquet file for each of its files.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Cluster items by their features (or the nodes of a graph) and write their labels."""
    from clusterfug import checks
    from clusterfug.cli import parts
    from clusterfug.gpu.device import choose, is_given
    from clusterfug.graph import GraphProblem
    from clusterfug.instances import files
    from clusterfug.options import ALGORITHMS, CONTRACTIONS, GRAPH_ALGORITHMS, Task
    from clusterfug.shards.source import Files
    from clusterfug.solve import dense_multicut, multicut
    from clusterfug.strength import usual_threshold

    if alpha is not None and threshold is not None:
        raise ValueError("give --threshold or --alpha, not both")
    threshold_of(threshold)
    wish = None if n_clusters is None else _wish(n_clusters)
    if wish is not None and threshold not in (None, "local", "auto"):
        raise ValueError("--n-clusters chooses a local threshold: leave out --threshold")
    checks.one_of("algorithm", algorithm, ALGORITHMS)
    if k is not None:
        checks.count("k", k)
    place = str(choose(device, algorithm) or "cpu")
    limit = in_bytes(memory_limit)
    inputs = tuple(Path(path) for path in (features, weights, alpha, init) if path)
    values = None
    if thresholds is not None:
        unused: dict[str, Any] = {"--threshold": threshold, "--alpha": alpha, "--output": output}
        unused |= {"--init": init}
        unused |= {"--strictness": strictness, "--n-neighbors": n_neighbors, "--n-clusters": n_clusters}
        for option, given in (unused | {"--bound": bound or None}).items():
            if given is not None:
                raise ValueError(f"--thresholds makes a table: it does not go with {option}")
        values = _range(thresholds)
    if plot is not None:
        from clusterfug.plots import require_matplotlib

        require_matplotlib()
        files.check_writable(plot, (".png",), inputs)
    if output is not None:
        parts.check_output(output, features, inputs)
    kept = Task(algorithm=algorithm, memory_limit=limit, checkpoint=checkpoint)
    instance, folder = parts.read(features, kept, scheduler, device)
    if folder is not None and output is not None and not output.suffix:
        _ = folder.label_names  # an error before the work
    if isinstance(instance, Files):
        unused = {"--thresholds": thresholds, "--plot": plot, "--n-clusters": n_clusters}
        unused |= {"--bound": bound or None, "--device": device if is_given(device) else None}
        for option, given in unused.items():
            if given is not None:
                raise ValueError(f"items that are solved shard by shard do not go with {option}")
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
        used = of_features(
            threshold, strictness, n_neighbors, alpha, prefer, weights, metric, center, device
        )
        used |= {
            "--thresholds": thresholds is not None,
            "--n-clusters": n_clusters is not None,
            "--plot": plot is not None,
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
        told = threshold_of(threshold)
        if told is None and values is None:
            plain = algorithm in CONTRACTIONS or instance.threshold is not None
            told = usual_threshold(plain, alpha, strictness, n_neighbors, wish)
            told = instance.threshold if told == 0.4 and instance.threshold is not None else told
        if plot is not None and values is None and wish is None and told != "auto":
            raise ValueError("--plot goes with --thresholds, or where the strictness is chosen")
        options |= {"k": k, "ann": ann, "device": place, "precision": precision, "memory_limit": limit}
        array, costs = features_and_costs(
            instance,
            told,
            metric,
            center,
            alpha=alpha,
            prefer=prefer,
            weights=weights,
            strictness=strictness,
            n_neighbors=n_neighbors,
        )
        if values is not None:
            show_path(array, costs["sample_weight"], values, options, plot, as_json)
            return
        with progress() as callback, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a wish that is not met: the table says so
            options |= costs | {"n_clusters": wish, "init": start}
            if isinstance(array, Files):
                result = parts.cluster(array, options, metric, center, checkpoint, scheduler, callback)
            else:
                result = dense_multicut(array, callback=callback, **options)
        n, d = array.shape
        about = {"n": n, "d": d, "threshold": costs["threshold"], "device": place}
        if alpha is not None:
            about |= {"threshold": None, "alpha": alpha, "prefer": prefer.value}
        about |= {"metric": metric.value, "center": center}
        if result.choice is not None:
            about |= _choice(result.choice) | {"plot": None if plot is None else str(plot)}
            if plot is not None:
                from clusterfug.plots import plot_choice

                with files.complete(plot) as part:
                    plot_choice(result.choice, part)
    if output is not None:
        parts.write_labels(output, result.labels, folder)
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


def _wish(text: str) -> int | tuple[int, int]:
    """N or LOW:HIGH as numbers."""
    try:
        numbers = [int(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise ValueError(f"--n-clusters must be N or LOW:HIGH (140:160), not {text!r}")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])


def _choice(choice: "Choice") -> dict[str, Any]:
    """How strict a local threshold is, and why, as JSON."""
    return {
        "strictness": choice.strictness,
        "reason": choice.reason,
        "wish": choice.wish,
        "met": choice.met,
        "candidates": choice.rows(),
    }


def _print(result: "Clustering", output: Path | None) -> None:
    sizes = np.sort(np.bincount(result.labels))[::-1]
    table = plain_table()
    table.add_row("items", f"{len(result.labels):,}")
    table.add_row("clusters", f"{result.n_clusters:,}")
    table.add_row("largest", ", ".join(f"{size:,}" for size in sizes[:5]))
    table.add_row("alone", f"{int(np.count_nonzero(sizes == 1)):,}")
    if result.choice is not None:
        table.add_row("threshold", f"local, {result.choice.reason}")
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
    return "" if last.name in ("contraction", "joins") else "; stopped early"
