"""clusterfug bound: what no clustering can cost less than, and how far a given one is from it."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

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
    center: CenterOption = False,
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
    from clusterfug import DenseProblem, LowerBound, checks, lower_bound, verify_bound
    from clusterfug.graph import GraphProblem
    from clusterfug.instances import files

    if alpha is not None and threshold is not None:
        raise ValueError("give --threshold or --alpha, not both")
    limit = in_bytes(memory_limit)
    if time_limit is not None:
        checks.number("--time-limit", time_limit, 0.0)
    if check is not None:
        unused: dict[str, Any] = {
            "--output": output,
            "--time-limit": time_limit,
            "--memory-limit": memory_limit,
        }
        unused |= {"--method": None if method == Method.auto else method}
        unused |= {"--device": None if device == "cpu" else device}
        for option, value in unused.items():
            if value is not None:
                raise ValueError(f"--check reads a certificate: it does not go with {option}")
        files.check_readable(check)
    if output is not None:
        inputs = tuple(Path(path) for path in (features, labels, weights, alpha) if path)
        files.check_writable(output, (".npz",), inputs)
    instance = files.read(features)
    given = None if labels is None else files.read_labels(labels)
    problem: Any
    if isinstance(instance, GraphProblem):
        used = of_features(
            threshold, strictness, n_neighbors, alpha, prefer, weights, metric, center, device
        )
        no_features(features, used | {"--memory-limit": memory_limit is not None})
        problem = instance
    else:
        array, costs = features_and_costs(
            instance,
            threshold_of(threshold, auto=False),
            metric,
            center,
            alpha=alpha,
            prefer=prefer,
            weights=weights,
            strictness=strictness,
            n_neighbors=n_neighbors,
        )
        problem = DenseProblem(array, **costs)
    if given is not None:
        given = checks.labels(given, problem.n, str(labels))
    with progress("bound") as callback:
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
                device=None if isinstance(problem, GraphProblem) else device,
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
    if given is not None:
        about |= _distance(problem, given, found)
    if as_json:
        gaps = {name: finite(about[name]) for name in ("gap", "gap_inside") if name in about}
        typer.echo(json.dumps(about | gaps))
    else:
        _print(about)


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
