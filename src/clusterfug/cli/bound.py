"""clusterfug bound: a lower bound on all objectives, and how far a given clustering is from it."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from clusterfug.cli import options
from clusterfug.cli.options import no_options, option, shown
from clusterfug.cli.problem import CostOptions
from clusterfug.cli.terminal import console, facts, finite, print_json, progress

if TYPE_CHECKING:
    from clusterfug import LowerBound

Method = StrEnum("Method", ["auto", "trivial", "triangles"])


def bound(
    features: options.FeaturesOrGraph,
    threshold: options.Threshold = None,
    strictness: options.Strictness = None,
    n_neighbors: options.Neighbors = None,
    alpha: options.Alpha = None,
    prefer: options.PreferSign = options.Prefer.small,
    weights: options.Weights = None,
    metric: options.MetricName = None,
    center: options.Center = None,
    method: Annotated[
        Method,
        shown(
            "trivial adds up all pairs that repel; triangles packs conflicts of three; auto packs them for "
            "up to 100,000 items."
        ),
    ] = Method.auto,
    labels: Annotated[
        Path | None,
        option(f"A clustering, to say how far from optimal it is at most: {options.COLUMN}."),
    ] = None,
    time_limit: Annotated[float | None, option("Seconds after which no more triangles are packed.")] = None,
    memory_limit: Annotated[
        str | None,
        option(
            "For the costs of a group of items; a number without a unit is GiB. Default: 1GiB, for groups "
            "of 8,192.",
            metavar="600MB | 2GiB",
        ),
    ] = None,
    device: Annotated[
        str,
        shown(
            "Where trivial adds up: cuda is a GPU (needs torch). Triangles are packed on the CPU.",
            metavar="cpu | cuda | cuda:N | auto",
        ),
    ] = "cpu",
    check: Annotated[
        Path | None, option("Compute no bound: add up again the certificate that -o wrote.")
    ] = None,
    output: Annotated[
        Path | None, option("Write the bound and its certificate: .npz.", "--output", "-o")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compute a lower bound on the objective of all clusterings, with a certificate."""
    from clusterfug import checks, lower_bound
    from clusterfug.api import with_selected_costs
    from clusterfug.execution.plan import Execution
    from clusterfug.io import files
    from clusterfug.io.labels import LabelFile, read_labels

    costs = CostOptions(threshold, strictness, n_neighbors, None, alpha, prefer, weights, metric, center)
    limit = options.in_bytes(memory_limit)
    if time_limit is not None:
        checks.number("--time-limit", time_limit, 0.0)
    for_features: dict[str, Any] = {
        "--memory-limit": limit,
        "--device": None if device == "cpu" else device,
    }
    if check is not None:
        others: dict[str, Any] = {"--output": output, "--time-limit": time_limit}
        others |= {"--method": None if method == Method.auto else method}
        no_options(others | for_features, "does not go with --check")
        files.check_readable(check)
    if output is not None:
        files.check_writable(output, (".npz",), (features, *costs.inputs, *([labels] if labels else [])))
    given = None if labels is None else LabelFile(labels, read_labels(labels))
    problem = costs.read(features, given)
    if problem.kind == "graph":
        no_options(for_features, f"goes with features, but {features} holds a graph")
    with progress("bound") as callback:
        problem = with_selected_costs(problem, Execution(), callback).resolved()
        if check is not None:
            found = _checked(check, problem, features, callback)
        else:
            found = lower_bound(
                problem,
                method=method.value,
                time_limit=time_limit,
                memory_limit=limit,
                device=for_features["--device"],
                callback=callback,
            )
    if output is not None:
        with files.complete(output) as part:
            found.save(part)
    about = _describe(found, problem, given and given.labels) | {
        "verified": check is not None,
        "output": output,
    }
    if as_json:
        print_json(about | {name: finite(about[name]) for name in ("gap", "gap_inside") if name in about})
    else:
        _print(about)


def _checked(check: Path, problem: Any, features: Path, callback: Any) -> "LowerBound":
    """Return the bound in a file, or raise an error if its certificate does not prove it."""
    from clusterfug import LowerBound, verify_bound

    found = LowerBound.load(check)
    if not verify_bound(problem, found, callback=callback):
        raise ValueError(f"the certificate in {check} does not prove its bound for {features}")
    return found


def _describe(found: "LowerBound", problem: Any, labels: Any) -> dict[str, Any]:
    """Describe the bound, and how far labels are from it, for --json."""
    from clusterfug.result import Distance

    assert found.certificate is not None
    about: dict[str, Any] = {"n": problem.n, "bound": found.value, "method": found.method}
    about |= {"triangles": len(found.certificate.amounts), "seconds": found.seconds}
    if labels is None:
        return about
    inside = problem.inside(labels)
    distance = Distance(problem.all_singletons - inside, inside, found)
    gaps = {"gap": distance.gap, "gap_inside": distance.gap_inside}
    return about | {"objective": distance.objective, "inside": inside} | gaps


def _print(about: dict[str, Any]) -> None:
    has_labels, verified = "objective" in about, about["verified"]
    gap = f"{about['gap']:.4%} of the bound, {about['gap_inside']:.2%} of inside" if has_labels else None
    rows = {
        "items": f"{about['n']:,}",
        "objective": f"{about['objective']:,.2f}" if has_labels else None,
        "bound": f"{about['bound']:,.2f}{'; the certificate adds up' if verified else ''}",
        "gap": gap,
        "method": f"{about['method']}, {about['triangles']:,} triangles",
        "seconds": f"{about['seconds']:.2f}",
        "certificate": None if verified else str(about["output"] or "not written; -o bound.npz writes it"),
    }
    console().print(facts(rows))
