"""Approximate search for the k most attractive partners of every item, with faiss, for "dapplaec".

It is used for the first neighbour graph only, where rows are of similar length. faiss selects candidates,
the float64 kernels compute their costs. An HNSW index is built by one thread, so the result does not depend
on the number of threads.
"""

from typing import Any

import numpy as np

from clusterfug.execution import threads
from clusterfug.execution.jit import Progress, kernel
from clusterfug.neighbours.exact import Neighbours, insert
from clusterfug.problems.cost_kernels import ExtendedRows, Floats, Ints, cost_to_item, query_of_item
from clusterfug.problems.dense import DenseProblem

_NUMBERS_PER_CALL = 10_000_000  # numbers passed to faiss at a time, so that Ctrl-C works


def approximate_neighbours(
    problem: DenseProblem, k: int, index: str = "hnsw", progress: Progress | None = None
) -> Neighbours:
    """Return up to k partners of large cost of every item; missing partners have id -1 and cost -inf."""
    n = problem.n
    k = min(k, n - 1)
    found = Neighbours(np.full((n, k), -1, dtype=np.int64), np.full((n, k), -np.inf))
    if k == 0:
        return found
    query_scale, row_scale = (2.0 ** -np.frexp(norms.max())[1] for norms in problem.norms)
    step = max(1, _NUMBERS_PER_CALL // (problem.d + 1))
    parts = [(start, min(n, start + step)) for start in range(0, n, step)]
    spare = -(problem.d + 1) % 16  # widths that are multiples of 16 are faster
    faiss = require_faiss()
    searcher = (
        _hnsw(faiss, problem.d + 1 + spare) if index == "hnsw" else _ivf(faiss, problem, row_scale, spare)
    )
    omp_threads = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(1)
        for start, stop in parts:
            searcher.add(problem.extended(start, stop, np.float32, row_scale, spare))
            if progress is not None:
                progress("neighbours", stop, 2 * n)
    finally:
        faiss.omp_set_num_threads(1 if threads.is_single_threaded() else omp_threads)
    for start, stop in parts:
        _, candidates = searcher.search(problem.queries(start, stop, np.float32, query_scale, spare), k + 1)
        insert_partners(problem.rows, candidates, start, *found)
        if progress is not None:
            progress("neighbours", n + stop, 2 * n)
    return found


def require_faiss() -> Any:
    """Return the module faiss, or raise an error that names the extra."""
    try:
        import faiss
    except ImportError as error:
        raise ImportError("dapplaec searches with faiss: pip install 'clusterfug[ann]'") from error
    return faiss


def _hnsw(faiss: Any, width: int) -> Any:
    """Return an empty graph index of rows in half precision, which suffices for candidates."""
    half = faiss.ScalarQuantizer.QT_fp16
    searcher = faiss.IndexHNSWSQ(width, half, 16, faiss.METRIC_INNER_PRODUCT)
    searcher.is_trained = True  # conversion to half precision needs no training
    searcher.hnsw.efConstruction = 40
    searcher.hnsw.efSearch = 32
    return searcher


def _ivf(faiss: Any, problem: DenseProblem, scale: float, spare: int) -> Any:
    """Return an index of sqrt(n) cells, of which a search visits 16, trained on evenly spaced rows."""
    n, width = problem.n, problem.d + 1 + spare
    cells = max(1, int(np.sqrt(n)))
    searcher = faiss.IndexIVFFlat(faiss.IndexFlatIP(width), width, cells, faiss.METRIC_INNER_PRODUCT)
    searcher.nprobe = 16
    searcher.cp.niter = 5
    searcher.cp.min_points_per_centroid = 1
    sample = np.unique(np.linspace(0, n - 1, min(n, 64 * cells)).astype(np.int64))
    rows = [problem.extended(i, i + 1, np.float32, scale, spare) for i in sample.tolist()]
    searcher.train(np.concatenate(rows))
    return searcher


@kernel
def insert_partners(rows: ExtendedRows, candidates: Ints, start: int, ids: Ints, costs: Floats) -> None:
    """Insert the candidates of each item that are other items, each once, with their costs in float64."""
    query = np.empty(rows.signature.shape[0])
    for t in range(candidates.shape[0]):
        i = start + t
        query_of_item(rows, i, query)
        length = 0
        for j in candidates[t]:
            if j >= 0 and j != i and j not in ids[i, :length]:
                length = insert(ids[i], costs[i], length, j, cost_to_item(rows, query, j))
