"""clusterfug bound: what no clustering can cost less than, and how far a given one is from it."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from clusterfug.cli.problem import CostOptions, settings_for
from clusterfug.cli.shared import (
    AlphaOption,
    CenterOption,
    FeaturesOrGraph,
    JsonOption,
    MetricOption,
    NeighborsOption,
    Prefer,
    PreferOption,
    StrictnessOption,
    ThresholdOption,
    WeightsOption,
    console,
    finite,
    in_bytes,
    no_options,
    plain_table,
    progress,
)

if TYPE_CHECKING:
    from clusterfug import LowerBound


class Method(StrEnum):
    auto = "auto"
    trivial = "trivial"
    triangles = "triangles"


def bound(
    features: FeaturesOrGraph,
    threshold: ThresholdOption = None,
    strictness: StrictnessOption = None,
    n_neighbors: NeighborsOption = None,
    alpha: AlphaOption = None,
    prefer: PreferOption = Prefer.small,
    weights: WeightsOption = None,
    metric: MetricOption = None,
    center: CenterOption = None,
    method: Annotated[
        Method,
        typer.Option(
            help="trivial adds up all pairs that repel; triangles packs conflicts of three; auto packs "
            "them for up to 100,000 items."
        ),
    ] = Method.auto,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="A clustering, to say how far from optimal it is at most: .npy, .csv with the column "
            "label, .parquet or .txt.",
            show_default=False,
        ),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds after which no more triangles are packed.", show_default=False),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            metavar="600MB | 2GiB",
            help="For the costs of a group of items; a number without a unit is GiB. Default: 1GiB, for "
            "groups of 8,192.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            metavar="cpu | cuda | cuda:N | auto",
            help="Where trivial adds up: cuda is a GPU (needs torch). Triangles are packed on the CPU.",
        ),
    ] = "cpu",
    check: Annotated[
        Path | None,
        typer.Option(
            help="Compute no bound: add up again the certificate that -o wrote.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write the bound and its certificate: .npz.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compute a lower bound on the objective of all clusterings, with a certificate."""
    from clusterfug import LowerBound, checks, lower_bound, verify_bound
    from clusterfug.api import with_selected_costs
    from clusterfug.execution.plan import Execution
    from clusterfug.io import files

    costs = CostOptions(threshold, strictness, n_neighbors, None, alpha, prefer, weights, metric, center)
    limit = in_bytes(memory_limit)
    if time_limit is not None:
        checks.number("--time-limit", time_limit, 0.0)
    if check is not None:
        given = {"--output": output, "--time-limit": time_limit, "--memory-limit": memory_limit}
        given |= {"--method": None if method == Method.auto else method}
        no_options(given | {"--device": None if device == "cpu" else device}, "does not go with --check")
        files.check_readable(check)
    if output is not None:
        inputs = (features, *costs.inputs, *([labels] if labels else []))
        files.check_writable(output, (".npz",), inputs)
    problem, given_labels = _read(features, labels, costs)
    with progress("bound") as callback:
        if problem.kind == "graph":
            no_options({"--memory-limit": limit}, f"goes with features, but {features} holds a graph")
            no_options({"--device": None if device == "cpu" else device}, "goes with features, not a graph")
        else:
            problem = with_selected_costs(problem, Execution(), callback).dense()
        if given_labels is not None:
            given_labels = checks.labels(given_labels, problem.n, str(labels))
        if check is not None:
            found = LowerBound.load(check)
            if not verify_bound(problem, found, callback=callback):
                raise ValueError(f"the certificate in {check} does not prove its bound for {features}")
        else:
            found = lower_bound(
                problem,
                method=method.value,
                time_limit=time_limit,
                memory_limit=limit,
                device=None if problem.kind == "graph" else device,
                callback=callback,
            )
    if output is not None:
        with files.complete(output) as part:
            found.save(part)
    assert found.certificate is not None
    about: dict[str, Any] = {
        "n": problem.n,
        "bound": found.value,
        "method": found.method,
        "triangles": len(found.certificate.amounts),
        "verified": check is not None,
        "seconds": found.seconds,
        "output": None if output is None else str(output),
    }
    if given_labels is not None:
        about |= _distance(problem, given_labels, found)
    if as_json:
        gaps = {name: finite(about[name]) for name in ("gap", "gap_inside") if name in about}
        typer.echo(json.dumps(about | gaps))
    else:
        _print(about)


def _read(features: Path, labels: Path | None, costs: CostOptions) -> tuple[Any, Any]:
    """Return the problem and the labels; costs that are not given are those that the labels were solved
    with.
    """
    from clusterfug.io import files
    from clusterfug.io.labels import read_labels
    from clusterfug.problems.graph import GraphProblem

    instance = files.read(features)
    given = None if labels is None else read_labels(labels)
    if isinstance(instance, GraphProblem):
        costs.not_for_graphs(features)
        return instance, given
    settings = None
    if labels is not None:
        settings = settings_for(labels, given, costs, instance.threshold)
    return costs.problem(instance.array, instance.threshold, settings), given


def _distance(problem: Any, labels: Any, found: "LowerBound") -> dict[str, float]:
    """How far a clustering is from the bound."""
    from clusterfug.result import Distance

    inside = problem.inside(labels)
    objective = problem.all_singletons - inside
    distance = Distance(objective, inside, found)
    return {
        "objective": objective,
        "inside": inside,
        "gap": distance.gap,
        "gap_inside": distance.gap_inside,
    }


def _print(about: dict[str, Any]) -> None:
    table = plain_table()
    table.add_row("items", f"{about['n']:,}")
    if "objective" in about:
        table.add_row("objective", f"{about['objective']:,.2f}")
    table.add_row(
        "bound", f"{about['bound']:,.2f}{'; the certificate adds up' if about['verified'] else ''}"
    )
    if "objective" in about:
        table.add_row("gap", f"{about['gap']:.4%} of the bound, {about['gap_inside']:.2%} of inside")
    table.add_row("method", f"{about['method']}, {about['triangles']:,} triangles")
    table.add_row("seconds", f"{about['seconds']:.2f}")
    if not about["verified"]:
        table.add_row("certificate", Text(about["output"] or "not written; -o bound.npz writes it"))
    console().print(table)
