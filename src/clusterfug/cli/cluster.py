"""clusterfug cluster: features or a graph in, labels out."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.text import Text

from clusterfug.cli.path import show_path
from clusterfug.cli.problem import CostOptions
from clusterfug.cli.shared import (
    AlphaOption,
    CenterOption,
    DeviceOption,
    FeaturesOrFolder,
    Index,
    JsonOption,
    MetricOption,
    NeighborsOption,
    Precision,
    PrecisionOption,
    Prefer,
    PreferOption,
    StrictnessOption,
    WeightsOption,
    console,
    finite,
    in_bytes,
    no_options,
    plain_table,
    progress,
)

if TYPE_CHECKING:
    from clusterfug import Clustering
    from clusterfug.execution.sharded.source import Files


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
            "Default: auto, or what a text file says.",
            show_default=False,
        ),
    ] = None,
    strictness: StrictnessOption = None,
    n_neighbors: NeighborsOption = None,
    n_clusters: Annotated[
        str | None,
        typer.Option(
            metavar="N | LOW:HIGH",
            help="Target number of clusters: a local threshold is made as strict as it takes.",
            show_default=False,
        ),
    ] = None,
    alpha: AlphaOption = None,
    prefer: PreferOption = Prefer.small,
    weights: WeightsOption = None,
    metric: MetricOption = None,
    center: CenterOption = None,
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
    ann: Annotated[
        Index | None,
        typer.Option(
            help="Index of the approximate search of dapplaec. Default: hnsw.", show_default=False
        ),
    ] = None,
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
    from clusterfug import core
    from clusterfug.cli.outputs import check_output, write_result
    from clusterfug.execution.plan import plan
    from clusterfug.io import files
    from clusterfug.io.labels import read_labels
    from clusterfug.solvers import make_solver

    costs = CostOptions(
        threshold, strictness, n_neighbors, n_clusters, alpha, prefer, weights, metric, center
    )
    values = None if thresholds is None else _range(thresholds)
    if values is not None:
        _check_table_options(costs, output, init, bound, checkpoint, scheduler)
    inputs = (features, *costs.inputs, *([init] if init else []))
    if plot is not None:
        from clusterfug.report.plots import require_matplotlib

        require_matplotlib()
        files.check_writable(plot, (".png",), inputs)
    if output is not None:
        check_output(output, features, inputs)
    solver = make_solver(
        algorithm,
        refine=refine,
        init=None if init is None else read_labels(init),
        time_limit=time_limit,
        max_iter=max_iter,
        random_state=seed,
        k=k,
        ann=None if ann is None else ann.value,
    )
    where: dict[str, Any] = {"device": device, "precision": precision.value}
    where |= {"memory_limit": in_bytes(memory_limit)}
    where |= {"checkpoint": checkpoint, "client": scheduler, "bound": bound}
    problem, folder = _read(features, costs, where)
    if folder is not None and output is not None and not output.suffix:
        _ = folder.label_names  # an error before the work
    if problem.kind == "graph":
        no_options(
            {"--plot": plot, "--thresholds": thresholds}, f"goes with features; {features} is a graph"
        )
    elif plot is not None and values is None and not problem.costs.needs_selection:
        raise ValueError("--plot goes with --thresholds, or where the strictness is chosen")
    execution = plan(problem, solver, **where)
    if values is not None:
        show_path(problem, values, solver, execution, plot, as_json)
        return
    with progress() as callback, _quiet():
        result = core.solve(problem, solver, execution, bound=bound, callback=callback)
    if plot is not None and result.choice is not None:
        from clusterfug.report.plots import plot_choice

        with files.complete(plot) as part:
            plot_choice(result.choice, part)
    if output is not None:
        write_result(output, result, folder, weights is not None)
    if as_json:
        about = _problem_as_dict(problem, costs, str(execution.device or "cpu")) | _result_as_dict(result)
        paths = {"output": output, "plot": plot}
        typer.echo(json.dumps(about | {key: path and str(path) for key, path in paths.items()}))
    else:
        _print(result, output)


def _read(features: Path, costs: CostOptions, where: dict[str, Any]) -> tuple[Any, "Files | None"]:
    """Return the problem of a file or folder, and the files of a folder, to write labels for the same.

    Files are opened but not read where they may be solved in parts.
    """
    from clusterfug.execution.sharded.source import ENDINGS, Files
    from clusterfug.io import files
    from clusterfug.problems.graph import GraphProblem

    in_parts = where["checkpoint"] is not None or where["client"] is not None
    limited = where["memory_limit"] is not None and features.suffix.lower() in ENDINGS
    if features.is_dir() or in_parts or limited:
        stored = Files(features)
        return costs.problem(stored.paths, None), stored if features.is_dir() else None
    instance = files.read(features)
    if isinstance(instance, GraphProblem):
        costs.not_for_graphs(features)
        return instance, None
    return costs.problem(instance.array, instance.threshold), None


def _check_table_options(
    costs: CostOptions,
    output: Path | None,
    init: Path | None,
    bound: bool,
    checkpoint: Path | None,
    scheduler: str | None,
) -> None:
    """Raise an error for options that do not go with a table of thresholds."""
    given = {
        "--threshold": costs.threshold,
        "--alpha": costs.alpha,
        "--strictness": costs.strictness,
        "--n-neighbors": costs.n_neighbors,
        "--n-clusters": costs.n_clusters,
        "--output": output,
        "--init": init,
        "--bound": bound,
        "--checkpoint": checkpoint,
        "--scheduler": scheduler,
    }
    no_options(given, "does not go with --thresholds, which makes a table")


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings, which the table says in words, and what dask logs: an error is one line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        logging.disable()
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


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


def _problem_as_dict(problem: Any, costs: CostOptions, device: str) -> dict[str, Any]:
    """Describe the problem for --json."""
    if problem.kind == "graph":
        return {"n": problem.n, "d": None, "edges": len(problem.costs), "threshold": None, "device": device}
    n, d = problem.shape
    model = problem.costs
    about = {"n": n, "d": d, "threshold": getattr(model, "value", model.name), "device": device}
    if costs.alpha is not None:
        about |= {"threshold": None, "alpha": costs.alpha, "prefer": costs.prefer.value}
    return about | {"metric": problem.preprocessing.metric, "center": problem.preprocessing.center}


def _result_as_dict(result: "Clustering") -> dict[str, Any]:
    """Describe the result for --json."""
    last = result.trace[-1]
    about: dict[str, Any] = {
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
    }
    if result.choice is not None:
        about |= {
            "strictness": result.choice.strictness,
            "reason": result.choice.reason,
            "target": result.choice.target,
            "met": result.choice.met,
            "candidates": result.choice.rows(),
        }
    return about


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
