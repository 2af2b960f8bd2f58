"""clusterfug bound: a lower bound on all objectives, and how far a given clustering is from it."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from clusterfug.cli import options
from clusterfug.cli.links import LinkOptions, describe_links, links_row
from clusterfug.cli.options import FEATURES, GRAPH, argument, no_options, option, shown
from clusterfug.cli.problem import CostOptions
from clusterfug.cli.terminal import console, facts, print_json, progress

Method = StrEnum("Method", ["auto", "trivial", "triangles"])


def bound(
    features: Annotated[Path, argument("FEATURES", f"{FEATURES} {GRAPH}")],
    threshold: options.Threshold = None,
    strictness: options.Strictness = None,
    n_neighbors: options.Neighbors = None,
    alpha: options.Alpha = None,
    prefer: options.PreferSign = None,
    weights: options.Weights = None,
    metric: options.MetricName = None,
    center: options.Center = None,
    must_link: options.MustLink = None,
    cannot_link: options.CannotLink = None,
    exclusive: options.Exclusive = None,
    link_weight: options.LinkWeight = None,
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
    from clusterfug import LowerBound, checks, lower_bound, verify_bound
    from clusterfug.execution.plan import Execution
    from clusterfug.io import files
    from clusterfug.io.labels import LabelFile, read_labels
    from clusterfug.problems.arguments import with_selected_costs
    from clusterfug.result import Distance

    links = LinkOptions(must_link, cannot_link, exclusive, link_weight)
    costs = CostOptions(
        threshold, strictness, n_neighbors, None, alpha, prefer, weights, metric, center, links
    )
    if links.are_given:
        no_options({"--device": device not in ("cpu", "auto")}, "does not go with links: leave it out")
    limit = options.in_bytes(memory_limit)
    if time_limit is not None:
        checks.number("--time-limit", time_limit, 0.0)
    for_features: dict[str, Any] = {"--memory-limit": limit, "--device": device != "cpu"}
    if check is not None:
        others = {"--output": output, "--time-limit": time_limit, "--method": method != Method.auto}
        no_options(others | for_features, "does not go with --check")
        files.check_readable(check)
    if output is not None:
        files.check_writable(output, (".npz",), (features, *costs.inputs, *([labels] if labels else [])))
    given = None if labels is None else LabelFile(labels, read_labels(labels))
    problem = costs.read(features, given)
    if problem.kind == "graph":
        no_options(for_features, f"goes with features, but {features} holds a graph")
    problem = links.linked(problem, features)
    about_links = describe_links(getattr(problem, "links", None), None if given is None else given.labels)
    if about_links is not None and about_links["broken"] and not links.are_soft:
        raise ValueError(
            f"{labels} breaks {about_links['broken']:,} of the links, but the bound is one for clusterings "
            "that break none: leave out --labels, or give --link-weight"
        )
    with progress("bound") as callback:
        problem = with_selected_costs(problem, Execution(), callback).resolved()
        if given is not None:
            inside, objective = problem.costs_of(given.labels)
            costs.check_objective(given, objective, max(abs(objective), abs(inside)), features)
        if check is None:
            found = lower_bound(
                problem,
                method=method.value,
                time_limit=time_limit,
                memory_limit=limit,
                device=device,
                callback=callback,
            )
        else:
            found = LowerBound.load(check)
            if not verify_bound(problem, found, callback=callback):
                raise ValueError(f"the certificate in {check} does not prove its bound for {features}")
    if output is not None:
        found.save(output)
    assert found.certificate is not None
    about: dict[str, Any] = {"n": problem.n, "bound": found.value, "method": found.method}
    about |= {"triangles": len(found.certificate.amounts), "seconds": found.seconds}
    if given is not None:
        distance = Distance(objective, inside, found)
        about |= {"objective": distance.objective, "inside": inside}
        about |= {"gap": distance.gap, "gap_inside": distance.gap_inside}
    about |= {"links": about_links, "verified": check is not None, "output": output}
    if as_json:
        print_json(about)
    else:
        _print(about)


def _print(about: dict[str, Any]) -> None:
    objective = gap = None
    if "objective" in about:
        objective = f"{about['objective']:,.2f}"
        gap = f"{about['gap']:.4%} of the bound, {about['gap_inside']:.2%} of inside"
    verified = about["verified"]
    rows = {
        "items": f"{about['n']:,}",
        "links": links_row(about["links"]),
        "objective": objective,
        "bound": f"{about['bound']:,.2f}{'; the certificate adds up' if verified else ''}",
        "gap": gap,
        "method": f"{about['method']}, {about['triangles']:,} triangles",
        "seconds": f"{about['seconds']:.2f}",
        "certificate": None if verified else str(about["output"] or "not written; -o bound.npz writes it"),
    }
    console().print(facts(rows))
