"""clusterfug multicut: a graph in, clusters of its nodes out, for one of four objectives."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from clusterfug.cli import options
from clusterfug.cli.clustering import algorithm_row, bound_row, size_rows
from clusterfug.cli.links import LinkOptions, describe_links, links_row
from clusterfug.cli.options import argument, no_options, option
from clusterfug.cli.terminal import console, facts, print_json, progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from clusterfug import Clustering
    from clusterfug.io.graphs import GraphFile
    from clusterfug.problems.graph import GraphProblem
    from clusterfug.problems.protocol import Problem

Objective = StrEnum("Objective", ["costs", "modularity", "potts", "editing"])


def multicut(
    graph: Annotated[
        Path,
        argument(
            "GRAPH",
            "A PACE file (.gr), a METIS file (.graph, .metis), an edge list with or without weights (.txt, "
            ".edges, .csv, .tsv), a sparse matrix of scipy or arrays (.npz), or a text file that starts "
            "with MULTICUT.",
        ),
    ],
    objective: Annotated[
        Objective | None,
        option(
            "costs: weights are what it costs to cut edges. modularity: weights are compared with those of "
            "random edges between nodes of the same degrees. potts: the density of clusters is compared "
            "with --resolution. editing: the fewest edges to insert or delete until clusters are cliques. "
            "Default: editing for a PACE file; costs for a MULTICUT file, or where a weight is negative; "
            "else modularity."
        ),
    ] = None,
    resolution: Annotated[
        float | None,
        option("Of modularity (default: 1) and potts: larger gives more clusters.", metavar="NUMBER"),
    ] = None,
    must_link: options.MustLink = None,
    cannot_link: options.CannotLink = None,
    exclusive: options.Exclusive = None,
    link_weight: options.LinkWeight = None,
    algorithm: options.GraphAlgorithm = "auto",
    refine: options.Refine = False,
    init: options.Init = None,
    time_limit: options.TimeLimit = None,
    max_iter: options.MaxIter = None,
    seed: options.Seed = 0,
    bound: options.Bound = False,
    edits: Annotated[
        Path | None,
        option(
            "For editing: write the edited pairs, one 'u v' per line, nodes counted from 1, as in the "
            "output of PACE: .txt or .edits.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        option(
            "Write one label per node: .npy, .npz, .csv or .parquet.",
            *("--output", "-o"),
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Cluster the nodes of a graph and write their labels."""
    from clusterfug import core
    from clusterfug.execution import threads
    from clusterfug.execution.plan import plan
    from clusterfug.io import files
    from clusterfug.io.edits import EDIT_ENDINGS, write_edits
    from clusterfug.io.graphs import read_graph_file
    from clusterfug.io.labels import check_labels_writable, read_labels, write_labels
    from clusterfug.io.settings import settings_of
    from clusterfug.solvers import make_solver, names

    links = LinkOptions(must_link, cannot_link, exclusive, link_weight)
    inputs = (graph, *links.inputs, *([init] if init else []))
    if output is not None:
        check_labels_writable(output, inputs)
    if edits is not None:
        files.check_writable(edits, EDIT_ENDINGS, inputs)
    solver = make_solver(
        algorithm,
        refine=refine,
        init=None if init is None else read_labels(init),
        time_limit=time_limit,
        max_iter=max_iter,
        random_state=seed,
    )
    if "mixed" not in solver.problems:
        raise ValueError(f"a graph is solved by {', '.join(names('mixed'))}, not by {solver.name}")
    given = read_graph_file(graph)
    model = _model(given, graph, objective, resolution)
    if model.name != "editing":
        no_options({"--edits": edits}, f"goes with --objective editing, not with {model.name}")
    problem = links.linked(model.problem, graph)
    execution = plan(problem, solver, bound=bound)
    with progress() as callback:
        result = core.solve(problem, solver, execution, bound=bound, callback=callback)
    threads.check_stop()
    if edits is not None:
        write_edits(edits, model.graph.edges, result.labels)
    if output is not None:
        write_labels(output, result.labels, settings_of(result))
    note = None
    if model.name == "editing" and np.any(given.weights != 1):
        note = "editing counts every edge once, whatever its weight"
    if as_json:
        about = {"n": given.n, "edges": len(model.graph.edges), "format": given.format}
        about |= model.describe(result) | _describe(result)
        print_json(about | {"note": note, "output": output, "edits": edits})
    else:
        size = {"nodes": f"{given.n:,}", "edges": f"{len(model.graph.edges):,}"}
        rows = {**size, **size_rows(result), **model.rows(result)}
        more = {
            "algorithm": algorithm_row(result, solver.refines),
            "seconds": f"{result.seconds:.2f}",
            "labels": str(output or "not written; -o labels.npy writes them"),
            "edited pairs": None if edits is None else str(edits),
            "note": note,
        }
        console().print(facts(rows | more))


@dataclass(frozen=True)
class _Model:
    """An objective of the clusterings of a graph: its problem, and its value as it is usually given."""

    name: str  # as for --objective
    why: str | None  # it was selected, if it was
    problem: "Problem"
    graph: "GraphProblem"  # the edges of the file, each once
    value_name: str
    value_of: "Callable[[NDArray[Any]], float]"  # labels; without the costs of links
    per_inside: float  # change of the value with `inside` of the problem
    resolution: float | None = None

    def value(self, result: "Clustering") -> float:
        return float(self.value_of(result.labels))

    def bound(self, result: "Clustering") -> float | None:
        """Return what no clustering's value is better than, if a bound on the costs says so."""
        from clusterfug.result import Distance

        if result.bound is None or _has_soft_links(result):
            return None
        missing = Distance(result.objective, result.inside, result.bound).missing
        return self.value(result) + self.per_inside * missing

    def describe(self, result: "Clustering") -> dict[str, Any]:
        value, bound = self.value(result), self.bound(result)
        about = {"objective": self.name, "resolution": self.resolution, "value": value, "bound": bound}
        about |= {"gap": None if bound is None else _gap(value, bound)}
        return about | {"disagreements": self.disagreements(result)}

    def disagreements(self, result: "Clustering") -> float | None:
        """Return the weight of edges that attract and are cut, and of those that repel and are not."""
        if self.name != "costs":
            return None
        return self.value(result) - float(self.graph.costs[self.graph.costs < 0].sum())

    def rows(self, result: "Clustering") -> dict[str, str | None]:
        """Return the rows of a table about the objective and its value."""
        value, bound, wrong = self.value(result), self.bound(result), self.disagreements(result)
        resolution = "" if self.resolution is None else f", resolution {self.resolution:g}"
        why = "" if self.why is None else f", the default {self.why}"
        is_soft = _has_soft_links(result)
        rows = {
            "links": links_row(describe_links(result.links, result.labels)),
            "objective": f"{self.name}{resolution}{why}",
            self.value_name: self._shown(value),
            "disagreements": None if wrong is None else self._shown(wrong),
            "cost with links": f"{result.objective:,.2f}" if is_soft else None,
            "bound": bound_row(result) if is_soft else None,
        }
        if bound is not None:
            end = "proven optimal" if result.optimal else f"at most {_gap(value, bound):.2%} from optimal"
            rows["bound"] = f"at {'least' if self.per_inside < 0 else 'most'} {self._shown(bound)}; {end}"
        return rows

    def _shown(self, value: float) -> str:
        if self.name == "modularity":
            return f"{value:.4f}"
        return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def _model(given: "GraphFile", path: Path, objective: Objective | None, resolution: float | None) -> _Model:
    """Return the objective that options select, or the default one of a file."""
    from clusterfug.problems.graph import GraphProblem
    from clusterfug.problems.graph_objectives import cluster_editing, constant_potts, modularity

    edges, weights, n = given.edges, given.weights, given.n
    graph = GraphProblem(edges, weights, n)
    name, why = _default(given, graph) if objective is None else (objective.value, None)
    if name in ("costs", "editing"):
        no_options({"--resolution": resolution}, f"goes with modularity and potts, not with {name}")
    if name == "costs":
        return _Model(name, why, graph, graph, "cost of cut edges", graph.objective, -1.0)
    if len(graph.costs) and graph.costs.min() < 0:
        at = int(np.argmin(graph.costs))
        u, v = graph.edges[at]
        raise ValueError(
            f"{name} needs weights that are not negative, but {path} has {graph.costs[at]:g} between nodes "
            f"{u} and {v} (counted from 0): use --objective costs"
        )
    if name == "editing":
        problem = cluster_editing(edges, n)
        return _Model(name, why, problem, graph, "edits", problem.value, -1.0)
    if name == "potts":
        if resolution is None:
            raise ValueError("--objective potts compares densities with --resolution: give it")
        problem = constant_potts(edges, weights, n, resolution=resolution)
        return _Model(name, why, problem, graph, "quality", problem.value, 1.0, resolution)
    resolution = 1.0 if resolution is None else resolution
    problem = modularity(edges, weights, n, resolution=resolution)
    per_inside = 1 / float(graph.costs.sum())
    return _Model(name, why, problem, graph, "modularity", problem.value, per_inside, resolution)


def _default(given: "GraphFile", graph: "GraphProblem") -> tuple[str, str]:
    """Return the objective of a file for which none is given, and why."""
    if given.format == "PACE":
        return "editing", "for a PACE file"
    if given.format == "MULTICUT":
        return "costs", "for a MULTICUT file"
    if np.any(graph.costs < 0):
        return "costs", "where a weight is negative"
    return "modularity", "where no weight is negative"


def _has_soft_links(result: "Clustering") -> bool:
    return result.links is not None and not result.links.is_hard


def _gap(value: float, bound: float) -> float:
    """Return the distance of a value from its bound, as a share of the bound."""
    if value == bound:
        return 0.0
    return abs(value - bound) / abs(bound) if bound else float("inf")


def _describe(result: "Clustering") -> dict[str, Any]:
    """Return the description of a clustering for --json."""
    last = result.trace[-1]
    return {
        "n_clusters": result.n_clusters,
        "links": describe_links(result.links, result.labels),
        "cost": result.objective,
        "inside": result.inside,
        "lower_bound": result.lower_bound,
        "optimal": result.optimal,
        "algorithm": result.algorithm,
        "move_optimal": last.move_optimal,
        "join_optimal": last.join_optimal,
        "seconds": result.seconds,
    }
