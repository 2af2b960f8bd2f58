"""GAEC on the complete graph with the n x n matrix of all costs in memory.

The matrix is computed by a blocked product over half of all pairs. A contraction adds two rows. Nodes have
the lists of partners of `neighbours/incremental.py`, and a search reads a row instead of scoring features.
Columns are never written: of two nodes, the row of the newer one is correct, and a row that is needed again
is first updated by the contractions since its last update.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.greedy import most_attractive
from clusterfug.contraction.history import record_merge
from clusterfug.contraction.queue import NodeQueue, set_key, uniform_queue
from clusterfug.execution.jit import Progress, kernel
from clusterfug.neighbours.exact import Neighbours
from clusterfug.neighbours.incremental import NEVER, NeighbourLists, fill_list, has_partner, initial_lists
from clusterfug.problems.cost_kernels import Floats, Ints, mirror
from clusterfug.problems.dense import DenseProblem
from clusterfug.result import MERGE

_MAX_DOUBLE_ITEMS = 4096  # the costs of at most this many items are in float64 in any case: 128 MiB
_BLOCK = 1024  # rows of one product
_N_PARTNERS = 5  # in the list of a node
_WORK_PER_CALL = 50_000_000  # costs read or written per kernel call: a fraction of a second


class MatrixContraction(NamedTuple):
    """A cost matrix under contraction. The index of a node is its lowest item."""

    costs: Floats  # (n, n); a row is correct for the time of its node's list; -inf on the diagonal
    nodes: Ints  # (n,) 0..n-1
    queue: NodeQueue  # upper bound on the cost of a node's best partner; -inf for nodes that are gone
    merges: Any  # (n,) contraction history, MERGE records


def matrix_bytes(problem: DenseProblem) -> int:
    """Return the bytes of the result of `cost_matrix`."""
    return problem.n**2 * _dtype(problem).itemsize


def require_memory(problem: DenseProblem, memory_limit: int) -> None:
    """Raise an error if the result of `cost_matrix` takes more than the limit."""
    need = matrix_bytes(problem)
    if need > memory_limit:
        raise MemoryError(
            f"gaec needs {need / 2**30:.3g} GiB for the costs of {problem.n} items, more than "
            f"memory_limit ({memory_limit / 2**30:.3g} GiB): use algorithm='dgaec-inc', "
            "which makes the same merges in O(n d) memory, or raise memory_limit"
        )


def _dtype(problem: DenseProblem) -> np.dtype[Any]:
    """Return the dtype of the features, or float64 if n is small or float32 may overflow or underflow."""
    features, weight = problem.rows.features, problem.rows.weight
    size = max(features.max(), -features.min()) * weight.max()
    if problem.n > _MAX_DOUBLE_ITEMS and size > 1e-10 and problem.largest_cost * problem.n**2 < 1e37:
        return features.dtype
    return np.dtype(np.float64)


def cost_matrix(problem: DenseProblem, progress: Progress | None = None) -> Floats:
    """Return all pair costs, shape (n, n) and exactly symmetric, with -inf on the diagonal."""
    n, dtype = problem.n, _dtype(problem)
    costs = np.empty((n, n), dtype=dtype)
    columns = problem.extended(0, n, dtype.type)
    for top in range(0, n, _BLOCK):
        bottom = min(n, top + _BLOCK)
        queries = problem.queries(top, bottom, dtype.type)
        np.matmul(queries, columns[top:].T, out=costs[top:bottom, top:])
        mirror(costs, top, bottom)
        if progress is not None:
            progress("neighbours", bottom * (2 * n - bottom), n * n)
    return costs


def contract_matrix(costs: Floats, progress: Progress | None = None) -> NDArray[np.void]:
    """Return the contraction history of GAEC on a matrix of costs, which is overwritten."""
    n = len(costs)
    k = min(_N_PARTNERS, n - 1)
    lists = initial_lists(Neighbours(np.empty((n, k), dtype=np.int64), np.full((n, k), -np.inf)))
    queue = uniform_queue(n, np.inf if k else -np.inf)
    state = MatrixContraction(costs, np.arange(n), queue, np.empty(n, dtype=MERGE))
    for start in range(0, n, _BLOCK):
        fill_lists(lists, state, start, min(n, start + _BLOCK))
    done, finished = 0, False
    while not finished:
        done, finished = contract_rows(lists, state, done, _WORK_PER_CALL)
        if progress is not None:
            progress("contraction", done, n)
    return state.merges[:done].copy()


@kernel
def fill_lists(lists: NeighbourLists, state: MatrixContraction, start: int, stop: int) -> None:
    """Make the lists of nodes start..stop-1 at time 0."""
    for u in range(start, stop):
        fill_list(lists, u, state.nodes, state.costs[u], 0, -np.inf)


@kernel
def update_row(lists: NeighbourLists, state: MatrixContraction, u: int, done: int) -> None:
    """Apply to row u the contractions since its list was made; the list has to be filled next."""
    row = state.costs[u]
    for t in range(lists.list_time[u], done):
        i, j = state.merges[t]["i"], state.merges[t]["j"]
        row[j] = -np.inf
        if lists.node_time[i] == t + 1:  # the node has not changed since
            row[i] = state.costs[i, u]


@kernel
def contract_rows(
    lists: NeighbourLists, state: MatrixContraction, done: int, work: int
) -> tuple[int, bool]:
    """Contract until no pair attracts, or about `work` costs are read or written.

    Returns the total number of contractions, and whether no pair attracts any more.
    """
    n = state.costs.shape[0]
    while work > 0:
        u = most_attractive(lists, state.queue)
        if u < 0:
            return done, True
        update_row(lists, state, u, done)
        work -= 2 * n
        if has_partner(lists, u):
            v, cost = lists.ids[u, lists.head[u]], lists.costs[u, lists.head[u]]
            update_row(lists, state, v, done)
            i, j = min(u, v), max(u, v)
            record_merge(state.merges[done], i, j, cost)
            done += 1
            row = state.costs[i]
            row += state.costs[j]
            row[i] = row[j] = -np.inf
            lists.node_time[i] = done
            lists.node_time[j] = NEVER
            set_key(state.queue, j, -np.inf)
            work -= 4 * n
            u = i
        set_key(state.queue, u, fill_list(lists, u, state.nodes, state.costs[u], done, -np.inf))
    return done, False
