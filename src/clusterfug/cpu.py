"""The road on the CPU: a problem is contracted and refined by compiled kernels."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfug.contraction.gaec import gaec
from clusterfug.contraction.greedy import greedy
from clusterfug.contraction.lazy import lazy
from clusterfug.contraction.matrix import contract_matrix, cost_matrix, matrix_bytes
from clusterfug.graph import GraphProblem, as_graph
from clusterfug.kernels import Progress
from clusterfug.neighbours.approximate import approximate, require_faiss
from clusterfug.neighbours.exact import nearest
from clusterfug.options import CONTRACTIONS, OURS, Refinement, Task
from clusterfug.problem import DenseProblem, as_problem
from clusterfug.refinement.multilevel import Problem, Refined
from clusterfug.result import Clustering
from clusterfug.run import Run
from clusterfug.shards.source import in_shards

if TYPE_CHECKING:
    from clusterfug.bounds.certificate import LowerBound

#: What `gaec` may take for its n x n costs unless told otherwise.
MEMORY_LIMIT = 4 * 2**30


def solve_dense(X: Any, task: Task, callback: Progress | None) -> Clustering:
    """The clustering of features or of a `DenseProblem`."""
    if task.algorithm == "dapplaec":
        require_faiss()
    run = Run(task.algorithm)
    problem = as_problem(X, task.costs)
    bound = _bound(problem, task.refinement, task.bound, run, callback)
    found = _dense(problem, task, run, callback)
    return replace(found, bound=bound or found.bound)


def solve_graph(
    edges: Any, costs: Any, n_nodes: int | None, options: Refinement, bound: bool, callback: Progress | None
) -> Clustering:
    """The clustering of an explicit graph."""
    run = Run(options.algorithm)
    graph = as_graph(edges, costs, n_nodes)
    lower = _bound(graph, options, bound, run, callback)
    found = _graph(graph, options, run, callback)
    return replace(found, bound=lower or found.bound)


def _bound(
    problem: Problem, options: Refinement, wanted: bool, run: Run, callback: Progress | None
) -> "LowerBound | None":
    """A lower bound, if one is wanted: the run begins after it, and `best` stops when it is reached."""
    if not wanted or options.algorithm == "exact":
        return None
    from clusterfug.bounds.bound import lower_bound

    bound = lower_bound(problem, time_limit=options.given_time, callback=callback)
    options.enough = problem.all_singletons - bound.value - 2 * bound.rounding
    run.begin += bound.seconds
    return bound


def _graph(graph: GraphProblem, options: Refinement, run: Run, callback: Progress | None) -> Clustering:
    if options.algorithm == "exact":
        return run.exact(graph, options, callback)
    if options.algorithm in OURS:
        return run.strategy(graph, options, callback)
    return run.contracted(graph, gaec(graph.edges, graph.costs, graph.n, callback), options)


def _dense(problem: DenseProblem, task: Task, run: Run, callback: Progress | None) -> Clustering:
    algorithm = task.algorithm
    if algorithm == "exact":
        return run.exact(problem, task.refinement, callback)
    if algorithm in OURS:
        if in_shards(problem.n, problem.d, task):
            from clusterfug.shards.solve import solve_problem

            return solve_problem(problem, task, callback)
        return run.strategy(problem, task.refinement, callback)
    alone = Refined(np.arange(problem.n), False, False)
    if algorithm == "gaec":
        need, limit = matrix_bytes(problem), task.memory_limit or MEMORY_LIMIT
        if need > limit:
            raise MemoryError(
                f"gaec needs {need / 2**30:.3g} GiB for the costs of {problem.n} items, more than "
                f"memory_limit ({limit / 2**30:.3g} GiB): use algorithm='dgaec-inc', "
                "which makes the same merges in O(n d) memory, or raise memory_limit"
            )
        costs = cost_matrix(problem, callback)
        run.passes("neighbours", alone)
        merges = contract_matrix(costs, callback)
    else:
        k = task.k or CONTRACTIONS[algorithm]
        if algorithm == "dapplaec":
            neighbours = approximate(problem, k, task.ann, callback)
        else:
            neighbours = nearest(problem, k, callback)
        run.passes("neighbours", alone)
        if algorithm.startswith("dgaec"):
            merges = greedy(problem, neighbours, callback)
        else:
            merges = lazy(problem, neighbours, k, callback)
    return run.contracted(problem, merges, task.refinement)
