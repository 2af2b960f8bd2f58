"""GAEC on the complete graph with all costs in memory: the matrix road, n^2 numbers.

The matrix is made by one blocked product. Every node remembers its best partner; a contraction adds
two rows and repairs only the nodes whose best partner it touched, so there is no heap of all pairs.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.history import MERGE, record
from clusterfug.costs import Floats, Ints
from clusterfug.kernels import Progress, kernel
from clusterfug.problem import DenseProblem

_SMALL = 4096  # up to here costs are kept in float64 whatever the features are: 128 MiB at most
_BLOCK = 1024
_WORK = 50_000_000  # costs touched per kernel call: a fraction of a second


class State(NamedTuple):
    costs: Floats  # (n, n), symmetric; -inf on the diagonal and for nodes merged away
    partner: Ints  # (n,) best partner of a node
    best: Floats  # (n,) its cost, -inf for nodes merged away
    merges: Any  # (n,) contraction history, MERGE records


def matrix_bytes(problem: DenseProblem) -> int:
    """Memory that `cost_matrix` needs."""
    return problem.n**2 * _dtype(problem).itemsize


def _dtype(problem: DenseProblem) -> np.dtype[Any]:
    """float64 where it costs little or single precision would overflow or vanish."""
    features, weight = problem.rows.features, problem.rows.weight
    size = max(features.max(), -features.min()) * weight.max()
    if problem.n > _SMALL and size > 1e-10 and problem.largest_cost * problem.n**2 < 1e37:
        return features.dtype
    return np.dtype(np.float64)


def cost_matrix(problem: DenseProblem, progress: Progress | None = None) -> Floats:
    """All pair costs, (n, n) and symmetric, with -inf on the diagonal."""
    n, dtype = problem.n, _dtype(problem)
    costs = np.empty((n, n), dtype=dtype)
    for left in range(0, n, _BLOCK):
        right = min(n, left + _BLOCK)
        columns = problem.extended(left, right, dtype.type)
        for top in range(0, right, _BLOCK):
            bottom = min(n, top + _BLOCK)
            block = problem.queries(top, bottom, dtype.type) @ columns.T
            if top == left:  # BLAS does not promise symmetry to the last bit
                block = np.triu(block, 1)
                block += block.T
            costs[top:bottom, left:right] = block
            costs[left:right, top:bottom] = block.T
        if progress is not None:
            progress("neighbours", right, n)
    np.fill_diagonal(costs, -np.inf)
    return costs


def contract_matrix(costs: Floats, progress: Progress | None = None) -> NDArray[np.void]:
    """The contraction history of GAEC on a matrix of costs, which is used up."""
    n = len(costs)
    state = State(
        costs=costs,
        partner=np.full(n, -1, dtype=np.int64),
        best=np.full(n, -np.inf),
        merges=np.empty(n, dtype=MERGE),
    )
    for start in range(0, n, _BLOCK):
        find_partners(state, start, min(n, start + _BLOCK))
    done, finished = 0, False
    while not finished:
        done, finished = contract(state, done, _WORK)
        if progress is not None:
            progress("contraction", done, n)
    return state.merges[:done].copy()


@kernel
def find_partner(state: State, u: int) -> None:
    """The best partner of u; of equal ones the lowest."""
    row = state.costs[u]
    at = np.argmax(row)
    state.partner[u] = at
    state.best[u] = row[at]


@kernel
def find_partners(state: State, start: int, stop: int) -> None:
    for u in range(start, stop):
        find_partner(state, u)


@kernel
def contract(state: State, done: int, work: int) -> tuple[int, bool]:
    """Contract until no pair attracts or about `work` costs were touched.

    Returns the number of contractions in all, and whether they are complete.
    """
    n = state.best.shape[0]
    while work > 0:
        # The lowest node of the largest cost is the lower end of its pair.
        i = int(np.argmax(state.best))
        cost = state.best[i]
        if not cost > 0:
            return done, True
        j = state.partner[i]
        record(state.merges[done], i, j, cost)
        done += 1
        row = state.costs[i]
        row += state.costs[j]
        row[j] = -np.inf
        state.best[j] = -np.inf
        find_partner(state, i)
        work -= 8 * n
        for u in range(n):
            if u == i or state.best[u] == -np.inf:
                continue
            state.costs[u, i] = row[u]
            state.costs[u, j] = -np.inf
            if row[u] > state.best[u] or (row[u] == state.best[u] and i <= state.partner[u]):
                state.best[u] = row[u]
                state.partner[u] = i
            elif state.partner[u] == i or state.partner[u] == j:
                find_partner(state, u)
                work -= n
    return done, False
