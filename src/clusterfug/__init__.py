"""Clustering without choosing the number of clusters: dense multicut on feature vectors.

The public names below are loaded when first used, so that importing clusterfug is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterfug.bounds.bound import lower_bound
    from clusterfug.bounds.certificate import Certificate, LowerBound, verify_bound
    from clusterfug.choice.search import Choice
    from clusterfug.estimator import DenseMulticut
    from clusterfug.graph import GraphProblem
    from clusterfug.many import SolveManyError, solve_many
    from clusterfug.path import ThresholdPath, threshold_path
    from clusterfug.problem import DenseProblem, objective
    from clusterfug.result import Clustering
    from clusterfug.solve import dense_multicut, multicut
    from clusterfug.strength import local_alpha

__version__ = "0.1.0"

__all__ = [
    "Certificate",
    "Choice",
    "Clustering",
    "DenseMulticut",
    "DenseProblem",
    "GraphProblem",
    "LowerBound",
    "SolveManyError",
    "ThresholdPath",
    "dense_multicut",
    "local_alpha",
    "lower_bound",
    "multicut",
    "objective",
    "solve_many",
    "threshold_path",
    "verify_bound",
]

_HOME = {
    "Certificate": "bounds.certificate",
    "Choice": "choice.search",
    "Clustering": "result",
    "DenseMulticut": "estimator",
    "DenseProblem": "problem",
    "GraphProblem": "graph",
    "LowerBound": "bounds.certificate",
    "SolveManyError": "many",
    "ThresholdPath": "path",
    "dense_multicut": "solve",
    "local_alpha": "strength",
    "lower_bound": "bounds.bound",
    "multicut": "solve",
    "objective": "problem",
    "solve_many": "many",
    "threshold_path": "path",
    "verify_bound": "bounds.certificate",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'clusterfug' has no attribute {name!r}")
    return getattr(import_module(f"clusterfug.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
