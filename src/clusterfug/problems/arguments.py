"""From a user's arguments to a problem: the functions of `api.py` and the command line call this module."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from clusterfug import checks
from clusterfug.costs.models import cost_model
from clusterfug.costs.preprocessing import Preprocessing
from clusterfug.execution.plan import Execution
from clusterfug.problems.features import FeatureProblem
from clusterfug.problems.protocol import Problem, Solvable
from clusterfug.result import Clustering

if TYPE_CHECKING:
    from clusterfug.execution.jit import Progress


def any_problem(
    X: Any,
    threshold: Any = None,
    *,
    sample_weight: Any = None,
    metric: str | None = None,
    center: bool | None = None,
    **costs: Any,
) -> Solvable:
    """Return the problem of features. A problem is returned as it is; no costs may be given beside it."""
    if checks.is_problem(X):
        given = {"threshold": threshold, "sample_weight": sample_weight, "metric": metric, "center": center}
        for name, value in (given | costs).items():
            if value is not None and (name, value) != ("prefer", "small"):
                raise ValueError(f"X is a {type(X).__name__}, which has its costs: leave out {name}")
        return X
    model = cost_model(threshold, **costs)
    preprocessing = preprocessing_of(metric, center)
    if checks.is_path(X):
        from clusterfug.execution.sharded.source import FeatureFiles

        X = FeatureFiles(X)
    elif not checks.is_tensor(X) and not checks.is_dask(X):
        X = checks.numeric("X", X)
    return FeatureProblem(X, model, sample_weight, preprocessing)


def feature_problem(X: Any, threshold: Any = None, **costs: Any) -> Solvable:
    """Return the problem of features, or a `DenseProblem` as it is."""
    problem = any_problem(X, threshold, **costs)
    if problem.kind == "graph":
        raise TypeError("X is a GraphProblem: use multicut")
    return problem


def preprocessing_of(metric: str | None, center: bool | None) -> Preprocessing:
    """Return the preprocessing that arguments describe; by default cosine, without centring."""
    return Preprocessing("cosine" if metric is None else metric, False if center is None else center)


def known_problem(
    X: Any, labels: Any, threshold: Any = None, callback: "Progress | None" = None, **costs: Any
) -> Problem:
    """Return the problem on the CPU, with the costs given, those of a `Clustering`, or the default ones."""
    if isinstance(labels, Clustering) and not checks.is_problem(X):
        threshold, costs = _with_settings_of(labels, threshold, costs)
    return with_selected_costs(any_problem(X, threshold, **costs), Execution(), callback).resolved()


def _with_settings_of(
    result: Clustering, threshold: Any, costs: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return costs in which the settings of a clustering replace what is not given."""
    given = {name: value for name, value in costs.items() if value is not None}
    if threshold is None and not given.keys() - {"sample_weight", "metric", "center"}:
        if result.costs is None:
            raise ValueError(
                "the clustering is of a problem that has its costs: give that problem, or a threshold"
            )
        threshold = result.costs
    if result.weighted and "sample_weight" not in given:
        raise ValueError(
            "the clustering was solved with weights, which it does not hold: give sample_weight"
        )
    solved = {} if result.preprocessing is None else asdict(result.preprocessing)
    return threshold, solved | given


def with_selected_costs(
    problem: Solvable, execution: Execution, callback: "Progress | None" = None
) -> Solvable:
    """Return the problem with costs that need no selection any more."""
    if isinstance(problem, FeatureProblem) and problem.needs_selection:
        from clusterfug.selection.select import selected_costs

        problem = problem.prepared(execution.device)
        problem = problem.with_costs(selected_costs(problem, execution, callback))
    return problem
