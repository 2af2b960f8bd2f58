"""From a user's arguments to a problem: the functions of `api.py` and the command line call this module."""

from inspect import signature
from typing import TYPE_CHECKING, Any

from clusterfug import checks
from clusterfug.costs.models import CostModel, TargetClusters, cost_model, updated_model
from clusterfug.costs.preprocessing import Preprocessing
from clusterfug.execution.plan import Execution
from clusterfug.problems.features import FeatureProblem
from clusterfug.problems.links import make_links
from clusterfug.problems.protocol import Problem, Solvable
from clusterfug.result import Clustering

if TYPE_CHECKING:
    from clusterfug.execution.jit import Progress


#: Arguments that say what is known about pairs of items.
LINKS = ("must_link", "cannot_link", "exclusive", "link_weight")


def any_problem(
    X: Any,
    threshold: Any = None,
    *,
    like: Clustering | None = None,
    sample_weight: Any = None,
    metric: str | None = None,
    center: bool | None = None,
    name: str = "X",
    **costs: Any,
) -> Solvable:
    """Return the problem of features. A problem is returned as it is; no costs may be given beside it.

    What is not given of costs and preprocessing is that of the clustering `like`, which may be given as
    `threshold`, too. Errors call the features by `name`.
    """
    links = {key: costs.pop(key) for key in LINKS if key in costs}
    for other in costs.keys() - signature(cost_model).parameters.keys():
        raise TypeError(
            f"{other} is no parameter of costs: they are {', '.join(signature(cost_model).parameters)}"
        )
    given_links = any(value is not None for value in links.values())
    if checks.is_problem(X):
        given = {"threshold": threshold, "sample_weight": sample_weight, "metric": metric, "center": center}
        for other, value in (given | costs).items():
            if value is not None:
                raise ValueError(f"X is a {type(X).__name__}, which has its costs: leave out {other}")
        return with_links(X, **links) if given_links else X
    if isinstance(threshold, Clustering):
        like, threshold = threshold, None
    model = cost_model(threshold, **costs) if like is None else _model_like(like, threshold, **costs)
    if like is not None:
        if like.weighted and sample_weight is None:
            raise ValueError(
                "the clustering was solved with weights, which it does not hold: give sample_weight"
            )
        solved = like.preprocessing or Preprocessing()
        metric = solved.metric if metric is None else metric
        center = solved.center if center is None else center
    preprocessing = preprocessing_of(metric, center)
    if checks.is_path(X):
        from clusterfug.execution.sharded.source import FeatureFiles

        X = FeatureFiles(X)
    elif not checks.is_tensor(X) and not checks.is_dask(X):
        X = checks.numeric(name, X)
    problem = FeatureProblem(X, model, sample_weight, preprocessing, name=name)
    if given_links:
        return with_links(problem, **links)
    if like is None or like.links is None:
        return problem
    if like.links.n != X.shape[0]:
        raise ValueError(
            f"the clustering's links are of {like.links.n:,} items, but {name} has {X.shape[0]:,}: for its "
            "costs alone give threshold=result.costs"
        )
    return problem.linked(like.links)


def with_links(problem: Any, **links: Any) -> Any:
    """Return a problem with what a user says about pairs of its items."""
    if isinstance(problem, FeatureProblem) and not problem.is_stored:
        checks.rectangle(problem.X, problem.name)
    known = make_links(problem.n if isinstance(problem, Problem) else problem.shape[0], **links)
    return problem if known is None else problem.linked(known)


def _model_like(result: Clustering, threshold: Any, **costs: Any) -> CostModel:
    """Return the cost model of a clustering, in which arguments replace what they name."""
    nothing_given = threshold is None and all(value is None for value in costs.values())
    if result.costs is None:
        if nothing_given:
            raise ValueError(
                "the clustering is of a problem that has its costs: give that problem, or a threshold"
            )
        return cost_model(threshold, **costs)
    if nothing_given:
        return result.costs
    known = {"name": result.costs.name} | vars(result.costs)
    return updated_model(known, threshold=threshold, **costs)


def feature_problem(X: Any, threshold: Any = None, **costs: Any) -> Solvable:
    """Return the problem of features, or a `DenseProblem` as it is."""
    problem = any_problem(X, threshold, **costs)
    if getattr(X, "kind", None) == "graph":
        raise TypeError("X is a GraphProblem: use multicut")
    return problem


def preprocessing_of(metric: str | None, center: bool | None) -> Preprocessing:
    """Return the preprocessing that arguments describe; by default cosine, without centring."""
    return Preprocessing("cosine" if metric is None else metric, False if center is None else center)


def known_problem(
    X: Any, labels: Any, threshold: Any = None, callback: "Progress | None" = None, **costs: Any
) -> Problem:
    """Return the problem on the CPU, with the costs given, those of a `Clustering`, or the default ones."""
    like = labels if isinstance(labels, Clustering) else None
    if like is not None and like.costs is not None and checks.is_problem(X):
        raise ValueError(
            f"the clustering has costs of its own: to use those of the {type(X).__name__}, give its labels"
        )
    problem = any_problem(X, threshold, like=like, **costs)
    return with_selected_costs(problem, Execution(), callback).resolved()


def with_selected_costs(
    problem: Solvable, execution: Execution, callback: "Progress | None" = None
) -> Solvable:
    """Return the problem with costs that need no selection any more."""
    if isinstance(problem, FeatureProblem) and problem.needs_selection:
        from clusterfug.selection.select import selected_costs

        if isinstance(problem.costs, TargetClusters):
            raise ValueError("n_clusters is for solving: give the clustering, or its costs, as threshold")
        problem = problem.prepared(execution.device)
        problem = problem.with_costs(selected_costs(problem, execution, callback))
    return problem
