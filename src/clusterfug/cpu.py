"""The road on the CPU: a problem is contracted and refined by compiled kernels."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

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

#: What `gaec` may take for its n x n costs unless told otherwise.
MEMORY_LIMIT = 4 * 2**30


def solve_dense(X: Any, task: Task, callback: Progress | None) -> Clustering:
    """The clustering of features or of a `DenseProblem`."""
    if task.algorithm == "dapplaec":
        require_faiss()
    problem = as_problem(X, *task.costs)
    return _with_bound(
        problem, task.refinement, task.bound, callback, lambda: _dense(problem, task, callback)
    )


def solve_graph(
    edges: Any, costs: Any, n_nodes: int | None, options: Refinement, bound: bool, callback: Progress | None
) -> Clustering:
    """The clustering of an explicit graph."""
    graph = as_graph(edges, costs, n_nodes)
    return _with_bound(graph, options, bound, callback, lambda: _graph(graph, options, callback))


def _with_bound(
    problem: Problem,
    options: Refinement,
    bound: bool,
    callback: Progress | None,
    solve: Callable[[], Clustering],
) -> Clustering:
    """The clustering and, if it is wanted, a lower bound. `best` stops when it is reached."""
    if not bound or options.algorithm == "exact":
        return solve()
    from clusterfug.bounds.bound import lower_bound

    found = lower_bound(problem, time_limit=options.given_time, callback=callback)
    options.enough = problem.all_singletons - found.value - 2 * found.rounding
    return replace(solve(), bound=found)


def _graph(graph: GraphProblem, options: Refinement, callback: Progress | None) -> Clustering:
    run = Run(options.algorithm)
    if options.algorithm == "exact":
        return run.exact(graph, options, callback)
    if options.algorithm in OURS:
        return run.strategy(graph, options, callback)
    return run.contracted(graph, gaec(graph.edges, graph.costs, graph.n, callback), options)


def _dense(problem: DenseProblem, task: Task, callback: Progress | None) -> Clustering:
    algorithm = task.algorithm
    run = Run(algorithm)
    if algorithm == "exact":
        return run.exact(problem, task.refinement, callback)
    if algorithm in OURS:
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
