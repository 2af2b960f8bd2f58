"""Clustering without choosing the number of clusters: dense multicut on feature vectors.

The public names below are loaded when first used, so that importing clusterfug is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterfug.api import (
        dense_multicut,
        lower_bound,
        multicut,
        objective,
        solve_many,
        threshold_path,
        verify_bound,
    )
    from clusterfug.bounds.certificate import Certificate, LowerBound
    from clusterfug.costs.local import local_alpha
    from clusterfug.costs.models import Alpha, Auto, CostModel, Local, NeighbourGraph, Threshold
    from clusterfug.costs.preprocessing import Preprocessing
    from clusterfug.execution.batch import SolveManyError
    from clusterfug.models.estimator import DenseMulticut
    from clusterfug.problems.dense import DenseProblem
    from clusterfug.problems.graph import GraphProblem
    from clusterfug.problems.graph_objectives import cluster_editing, constant_potts, modularity
    from clusterfug.problems.mixed import MixedProblem
    from clusterfug.result import Clustering
    from clusterfug.selection.candidates import Choice
    from clusterfug.selection.path import ThresholdPath
    from clusterfug.solvers import Solver

__version__ = "0.1.0"

__all__ = [
    "Alpha",
    "Auto",
    "Certificate",
    "Choice",
    "Clustering",
    "CostModel",
    "DenseMulticut",
    "DenseProblem",
    "GraphProblem",
    "Local",
    "LowerBound",
    "MixedProblem",
    "NeighbourGraph",
    "Preprocessing",
    "SolveManyError",
    "Solver",
    "Threshold",
    "ThresholdPath",
    "cluster_editing",
    "constant_potts",
    "dense_multicut",
    "local_alpha",
    "lower_bound",
    "modularity",
    "multicut",
    "objective",
    "solve_many",
    "threshold_path",
    "verify_bound",
]

#: The modules of the public names.
_MODULES = {
    "api": "dense_multicut lower_bound multicut objective solve_many threshold_path verify_bound",
    "bounds.certificate": "Certificate LowerBound",
    "costs.local": "local_alpha",
    "costs.models": "Alpha Auto CostModel Local NeighbourGraph Threshold",
    "costs.preprocessing": "Preprocessing",
    "execution.batch": "SolveManyError",
    "models.estimator": "DenseMulticut",
    "problems.dense": "DenseProblem",
    "problems.graph": "GraphProblem",
    "problems.graph_objectives": "cluster_editing constant_potts modularity",
    "problems.mixed": "MixedProblem",
    "result": "Clustering",
    "selection.candidates": "Choice",
    "selection.path": "ThresholdPath",
    "solvers": "Solver",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'clusterfug' has no attribute {name!r}")
    return getattr(import_module(f"clusterfug.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
