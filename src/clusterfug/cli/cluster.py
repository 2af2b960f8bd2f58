"""clusterfug cluster: features or a graph in, labels out; or a table of clusterings (--thresholds)."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.cli import options
from clusterfug.cli.clustering import algorithm_row, bound_row, size_rows
from clusterfug.cli.links import LinkOptions, describe_links, links_row
from clusterfug.cli.options import no_options
from clusterfug.cli.problem import CostOptions, describe
from clusterfug.cli.terminal import console, facts, figures, print_json, progress

if TYPE_CHECKING:
    from clusterfug import Clustering
    from clusterfug.execution.plan import Execution
    from clusterfug.execution.sharded.source import FeatureFiles
    from clusterfug.solvers import Solver


def cluster(
    features: options.FeaturesFolderOrGraph,
    threshold: options.Threshold = None,
    strictness: options.Strictness = None,
    n_neighbors: options.Neighbors = None,
    n_clusters: options.NClusters = None,
    alpha: options.Alpha = None,
    prefer: options.PreferSign = None,
    weights: options.Weights = None,
    metric: options.MetricName = None,
    center: options.Center = None,
    must_link: options.MustLink = None,
    cannot_link: options.CannotLink = None,
    exclusive: options.Exclusive = None,
    link_weight: options.LinkWeight = None,
    algorithm: options.Algorithm = "auto",
    refine: options.Refine = False,
    init: options.Init = None,
    time_limit: options.TimeLimit = None,
    max_iter: options.MaxIter = None,
    seed: options.Seed = 0,
    k: options.KeptNeighbors = None,
    ann: options.Ann = None,
    device: options.Device = "cpu",
    precision: options.CandidatePrecision = options.Precision.fast,
    memory_limit: options.MemoryLimit = None,
    checkpoint: options.Checkpoint = None,
    scheduler: options.Scheduler = None,
    bound: options.Bound = False,
    thresholds: options.Thresholds = None,
    plot: options.Plot = None,
    output: options.LabelsOutput = None,
    as_json: options.Json = False,
) -> None:
    """Cluster items by their features (or the nodes of a graph) and write their labels."""
    from clusterfug import core
    from clusterfug.costs.models import Threshold
    from clusterfug.execution import threads
    from clusterfug.execution.plan import plan
    from clusterfug.execution.sharded.source import ENDINGS
    from clusterfug.io.files import Features
    from clusterfug.io.labels import read_labels
    from clusterfug.solvers import make_solver

    links = LinkOptions(must_link, cannot_link, exclusive, link_weight)
    costs = CostOptions(
        threshold, strictness, n_neighbors, n_clusters, alpha, prefer, weights, metric, center, links
    )
    values = None if thresholds is None else _range(thresholds)
    if values is not None:
        results = {"--output": output, "--init": init, "--bound": bound}
        places = {"--checkpoint": checkpoint, "--scheduler": scheduler}
        no_options(
            costs.models | links.files | results | places,
            "does not go with --thresholds, which makes a table",
        )
    _check_outputs(features, output, plot, (features, *costs.inputs, *([init] if init else [])))
    solver = make_solver(
        algorithm,
        refine=refine,
        init=None if init is None else read_labels(init),
        time_limit=time_limit,
        max_iter=max_iter,
        random_state=seed,
        k=k,
        ann=ann and ann.value,
    )
    limit = options.in_bytes(memory_limit)
    if links.are_given:
        links.check_solver(solver)
        elsewhere: dict[str, Any] = {"--checkpoint": checkpoint, "--scheduler": scheduler}
        elsewhere |= {"--n-clusters": n_clusters, "--device": device not in ("cpu", "auto")}
        no_options(elsewhere, "does not go with links: leave out one or the other")
        if features.is_dir():
            raise ValueError(f"links go with one file of features, but {features} is a folder")
    in_parts = features.is_dir() or checkpoint is not None or scheduler is not None
    if in_parts or (limit is not None and features.suffix.lower() in ENDINGS):
        problem = costs.problem(Features(features), features)  # files are opened, but not read yet
    else:
        problem = costs.read(features)
    folder = None  # of features, if there will be a folder of labels
    if output is not None and features.is_dir() and not output.suffix:
        folder = problem.X
        _ = folder.label_names  # raises an error if two names are equal
    if problem.kind == "graph":
        for_features = {"--plot": plot, "--thresholds": thresholds, "--precision": precision != "fast"}
        no_options(for_features, f"goes with features; {features} is a graph")
    elif plot is not None and values is None and not problem.needs_selection:
        raise ValueError("--plot goes with --thresholds, or where the strictness is chosen")
    if values is not None:
        problem = problem.with_costs(Threshold(values[0]))
    linked = links.linked(problem, features)
    execution = plan(
        linked,
        solver,
        device=device,
        precision=precision.value,
        memory_limit=limit,
        checkpoint=checkpoint,
        client=scheduler,
        bound=bound,
    )
    if values is not None:
        if execution.is_sharded:
            raise ValueError("--memory-limit is exceeded: shards do not go with --thresholds")
        _cluster_at_thresholds(problem, values, solver, execution, plot, as_json)
        return
    with progress() as callback, _advice() as notes:
        result = core.solve(linked, solver, execution, bound=bound, callback=callback)
    threads.check_stop()
    _write(result, output, plot, folder)
    advice = None if result.choice is not None or not notes else str(notes[0].message)
    if as_json:
        about = _as_dict(problem, result, execution)
        print_json(about | {"note": advice, "output": output, "plot": plot})
    else:
        _print(result, output, advice, solver.refines)


def _check_outputs(
    features: Path, output: Path | None, plot: Path | None, inputs: tuple[Path, ...]
) -> None:
    """Raise an error before the work if its results could not be written after it."""
    from clusterfug.io import files, tables
    from clusterfug.io.labels import check_labels_writable

    if plot is not None:
        from clusterfug.report.plots import require_matplotlib

        require_matplotlib()
        files.check_writable(plot, (".png",), inputs)
    if output is None:
        return
    if features.is_dir() and features.resolve() in output.resolve().parents:
        raise ValueError(f"cannot write {output}: it would be among the features; write it elsewhere")
    if output.suffix or not features.is_dir():
        check_labels_writable(output, inputs)
        return
    if output.exists():
        raise FileExistsError(f"cannot write {output}: it exists; labels go to a new folder")
    if not output.absolute().parent.is_dir():
        raise FileNotFoundError(f"cannot write {output}: the folder {output.parent} does not exist")
    tables.require_pyarrow()


@contextmanager
def _advice() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings, to be printed after the result; silence what dask logs: an error is one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        logging.disable()
        try:
            yield caught
        finally:
            logging.disable(logging.NOTSET)


def _range(text: str) -> NDArray[np.float64]:
    """FIRST:LAST:COUNT as numbers."""
    from clusterfug import checks

    try:
        first, last, number = text.split(":")
        ends, count = (float(first), float(last)), int(number)
    except ValueError:
        raise ValueError(f"--thresholds must be FIRST:LAST:COUNT (0.2:0.8:7), not {text!r}") from None
    if not 0 < count <= 1000 or not np.all(np.abs(ends) <= checks.LARGEST):
        raise ValueError(f"--thresholds must name 1 to 1,000 finite numbers, not {text!r}")
    return np.linspace(*ends, count)


def _write(
    result: "Clustering", output: Path | None, plot: Path | None, folder: "FeatureFiles | None"
) -> None:
    """Write the labels with their settings, and the picture of the strictness that was selected."""
    from clusterfug.io.files import complete
    from clusterfug.io.labels import write_labels
    from clusterfug.io.settings import settings_of

    if plot is not None and result.choice is not None:
        from clusterfug.report.plots import plot_choice

        with complete(plot) as part:
            plot_choice(result.choice, part)
    if output is not None:
        write = write_labels if folder is None else folder.write_labels
        write(output, result.labels, settings_of(result))


def _as_dict(problem: Any, result: "Clustering", execution: "Execution") -> dict[str, Any]:
    """Return the description of the problem and of the result for --json."""
    if problem.kind == "graph":
        about = {"n": problem.n, "d": None, "edges": len(problem.costs), "threshold": None}
    else:
        about = {"n": problem.shape[0], "d": problem.shape[1]} | describe(problem)
    last, choice = result.trace[-1], result.choice
    about |= {
        "device": str(execution.device or "cpu"),
        "algorithm": result.algorithm,
        "n_clusters": result.n_clusters,
        "objective": result.objective,
        "inside": result.inside,
        "links": describe_links(result.links, result.labels),
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "gap_inside": result.gap_inside,
        "move_optimal": last.move_optimal,
        "join_optimal": last.join_optimal,
        "seconds": result.seconds,
    }
    if choice is not None:
        about |= {name: getattr(choice, name) for name in ("strictness", "reason", "target", "met")}
        about["candidates"] = choice.rows()
    return about


def _print(result: "Clustering", output: Path | None, advice: str | None, refines: bool) -> None:
    rows = {"items": f"{len(result.labels):,}"} | size_rows(result)
    more = {
        "threshold": None if result.choice is None else f"local, {result.choice.reason}",
        "links": links_row(describe_links(result.links, result.labels)),
        "objective": f"{result.objective:,.2f}",
        "inside": f"{result.inside:,.2f}",
        "bound": bound_row(result),
        "algorithm": algorithm_row(result, refines),
        "seconds": f"{result.seconds:.2f}",
        "labels": str(output or "not written; -o labels.npy writes them"),
        "note": advice,
    }
    console().print(facts(rows | more))


def _cluster_at_thresholds(
    problem: Any,
    thresholds: NDArray[np.float64],
    solver: "Solver",
    execution: "Execution",
    plot: Path | None,
    as_json: bool,
) -> None:
    """Cluster at several thresholds, print the table, and write its picture."""
    from clusterfug.io.files import complete
    from clusterfug.report.plots import plot_path
    from clusterfug.selection.path import solve_path

    with progress() as callback:
        path = solve_path(problem, thresholds, solver, execution, False, callback)
    if plot is not None:
        with complete(plot) as part:
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
