"""Selection for the cost model `TargetClusters`: a strictness that gives the requested number of clusters.

Where no candidate gives it, clusters of a finer candidate are joined.
"""

import warnings

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.core import recorded
from clusterfug.costs.models import STRICTNESS
from clusterfug.execution.jit import clock
from clusterfug.problems.features import FeatureProblem
from clusterfug.result import Clustering, Phase, number_by_first_appearance
from clusterfug.selection.candidates import Candidate, StrictnessSearch
from clusterfug.solvers import Solver, names

_MAX_CANDIDATES = 8
_JOINED_PER_TARGET = (2, 3, 8)  # clusters to join per requested cluster: minimum, aim, maximum
_MIN_MAXIMUM = 32  # clusters that may be joined even if fewer are requested
_MAX_JOINED = 8192  # clusters: their similarities take 512 MiB
_BLOCK_ENTRIES = 1 << 23  # quotients at a time


def with_target_count(search: StrictnessSearch, low: int, high: int) -> Clustering:
    """Return a clustering of low to high clusters, or with a warning the candidate nearest to that.

    Where no candidate has the requested number, clusters of a finer one are joined, in the order in which
    pairs of clusters begin to attract as the strictness falls.
    """
    target = low, high
    # If there would be too many clusters to join, the search aims at the requested number itself.
    factors = _JOINED_PER_TARGET if high <= _MAX_JOINED else (1, 1, 1)
    fewest, aim, most = (min(t * high, search.items.n, max(high, _MAX_JOINED)) for t in factors)
    most = max(most, _MIN_MAXIMUM)
    strictness = STRICTNESS
    while True:
        solver = search.solver_from(None) if search.tried else search.solver
        found = search.add_candidate(strictness, solver)
        count = found.n_clusters
        if low <= count <= high:
            reason = f"{_clusters(count)} as requested, at strictness {strictness:.2g}"
            return search.with_choice(found.result, strictness, reason, target)
        if fewest <= count <= most or count == search.items.n or len(search.tried) == _MAX_CANDIDATES:
            break
        strictness = _next_strictness(search.tried, aim)
    finer = [c for c in search.tried if high < c.n_clusters <= _MAX_JOINED]
    if finer:
        enough = [c for c in finer if c.n_clusters >= fewest]
        start = enough[0] if enough else finer[-1]
        result, strictness = _joined(search, start, high)
        reason = (
            f"{_clusters(high)} as requested: {start.n_clusters:,} at strictness {start.strictness:.2g}, "
            f"and the most similar of them joined, down to strictness {strictness:.2g}"
        )
        return search.with_choice(result, strictness, reason, target)
    nearest = min(search.tried, key=lambda c: max(low / c.n_clusters, c.n_clusters / high))
    reason = (
        f"no strictness tried gives {low:,}{'' if low == high else f' to {high:,}'} clusters: "
        f"the nearest is {nearest.n_clusters:,}, at {nearest.strictness:.2g}"
    )
    if nearest.n_clusters < search.tried[-1].n_clusters > high:
        reason += f" (more than {_MAX_JOINED:,} are not joined)"
    warnings.warn(reason, UserWarning, stacklevel=5)  # of the caller of api or fit
    return search.with_choice(nearest.result, nearest.strictness, reason, target, met=False)


def check_target(problem: FeatureProblem, solver: Solver, low: int) -> None:
    """Raise an error, before any work, if the target number of clusters is impossible."""
    if "torch" not in solver.executions:
        known = " and ".join(names(execution="torch"))
        raise ValueError(f"n_clusters goes with {known}, not with {solver.name}")
    if problem.links is not None:
        raise ValueError("n_clusters joins clusters without regard to links: leave it out, or the links")
    n = int(np.count_nonzero(checks.optional_weights(problem.sample_weight, problem.shape[0])))
    if low > n:
        raise ValueError(f"n_clusters is {low:,}, but there are only {n:,} items")


def _clusters(count: int) -> str:
    return f"{count:,} cluster{'' if count == 1 else 's'}"


def _next_strictness(tried: list[Candidate], aim: float) -> float:
    """Return the strictness to try next: between two candidates, or beyond the last."""
    lenient = [c for c in tried if c.n_clusters < aim]
    strict = [c for c in tried if c.n_clusters > aim]
    if lenient and strict:
        (x, few), (y, many) = ((np.log(c[0]), np.log(c[1].n_clusters)) for c in (lenient[-1], strict[0]))
        share = (np.log(aim) - few) / (many - few)
        return float(np.exp(x + np.clip(share, 0.1, 0.9) * (y - x)))
    end = lenient[-1] if lenient else strict[0]
    # The number of clusters grows about as the fourth power of the strictness; if not, steps get larger.
    least = 1.3 ** (len(tried) - 1)
    factor = np.clip(max(aim / end.n_clusters, end.n_clusters / aim) ** 0.25, least, least / STRICTNESS)
    return end.strictness * float(factor if lenient else 1 / factor)


def _joined(search: StrictnessSearch, start: Candidate, count: int) -> tuple[Clustering, float]:
    """Join the clusters of a candidate until `count` are left; return the result and its strictness."""
    begin = clock()
    items = search.items
    sums = items.sums(start.labels)
    of, strictness = join(items.product(sums, sums.T), items.alpha_sums(start.labels), count)
    labels = number_by_first_appearance(of[start.labels])
    inside, objective = search.cost(labels, strictness)
    joins = Phase("joins", clock() - begin, count, objective, False, True)
    trace = (*start.result.trace, joins)
    result = recorded(start.result.algorithm, labels, inside, trace, begin)
    return result, strictness


def join(
    similarities: NDArray[np.float64], strengths: NDArray[np.float64], count: int
) -> tuple[NDArray[np.int64], float]:
    """Join clusters until `count` are left; return the joined cluster of each, and the final strictness.

    Two clusters attract if their similarity exceeds strictness times the product of their affinity
    strengths, so as the strictness falls, the pair of largest quotient joins first. Similarities and
    strengths of joined clusters add up; both arrays are overwritten.
    """
    k = len(strengths)
    of, alive = np.arange(k), np.ones(k, dtype=bool)
    partner, best = np.zeros(k, dtype=np.int64), np.full(k, -np.inf)

    def find_partners(rows: NDArray[np.int64]) -> None:
        """Update the best partners of some clusters."""
        step = max(1, _BLOCK_ENTRIES // k)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            products = strengths[some, None] * strengths
            quotients = np.zeros(products.shape)  # of a cluster of zero rows, which has no costs, too
            np.divide(similarities[some], products, out=quotients, where=products > 0)
            quotients[:, ~alive] = -np.inf
            here = np.arange(len(some))
            quotients[here, some] = -np.inf
            partner[some] = quotients.argmax(axis=1)
            best[some] = quotients[here, partner[some]]

    find_partners(np.arange(k))
    stale = np.zeros(k, dtype=bool)

    def best_cluster() -> int:
        """Return a cluster of the best pair."""
        while stale[best.argmax()]:
            row = int(best.argmax())
            find_partners(np.array([row]))
            stale[row] = False
        return int(best.argmax())

    last = best.max()
    for _ in range(k - count):
        i = best_cluster()
        j, last = int(partner[i]), best[i]
        similarities[i] += similarities[j]
        similarities[:, i] += similarities[:, j]
        strengths[i] += strengths[j]
        of[of == j] = i
        alive[j], best[j] = False, -np.inf
        # A joined quotient is a mean of two, so the stored best is an upper bound: update it when needed.
        stale |= (partner == i) | (partner == j)
        stale[i] = True
    following = best[best_cluster()] if count > 1 else last
    return of, float((last + following) / 2)
