"""Obviously right and slow: what every fast path is compared with."""

import numpy as np

#: The pairs on which the paper's incremental update goes wrong with k = 2 (see docs/how-it-works.md).
SEVEN = "abijxvw"
SEVEN_COSTS = {
    "ab": 4, "ij": 3.5, "ia": 1.45, "ib": 1.45, "ja": 1.45, "jb": 1.45, "ix": 2, "jx": 2,
    "av": 1.6, "bv": 1.6, "aw": 1.55, "bw": 1.55, "ax": -3, "bx": -3,
}  # fmt: skip
SEVEN_MERGE_COSTS = [4, 3.5, 5.8, 1.2, 0.1]


def seven_node_costs():
    costs = np.full((7, 7), -1.0)
    np.fill_diagonal(costs, 0)
    for (a, b), cost in SEVEN_COSTS.items():
        i, j = SEVEN.index(a), SEVEN.index(b)
        costs[i, j] = costs[j, i] = cost
    return costs


def cost_matrix(X, threshold=0.4, alpha=None, prefer="small", sample_weight=None):
    """All pair costs in float64, by the definition."""
    X = np.asarray(X, dtype=np.float64)
    costs = X @ X.T
    if alpha is None:
        costs -= threshold
    else:
        alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), len(X))
        costs += np.outer(alpha, alpha) * (-1 if prefer == "small" else 1)
    if sample_weight is not None:
        costs *= np.outer(sample_weight, sample_weight)
    return costs


def objective(costs, labels):
    """Total cost of the pairs i < j with different labels, pair by pair."""
    i, j = np.triu_indices(len(labels), 1)
    cut = np.asarray(labels)[i] != np.asarray(labels)[j]
    return costs[i, j][cut].sum()


class Contraction:
    """Textbook GAEC on a full matrix: look at every pair, merge the best, add its rows."""

    def __init__(self, costs):
        self.costs = np.where(np.triu(np.ones_like(costs, dtype=bool), 1), costs, -np.inf)
        self.scale = np.abs(costs).max()

    def best(self):
        """(i, j, cost) of the largest cost; equal ones by the lower index, then the other."""
        at = int(np.argmax(self.costs))
        i, j = divmod(at, len(self.costs))
        return i, j, self.costs[i, j]

    def merge(self, i, j):
        full = np.maximum(self.costs, self.costs.T)
        row = full[i] + full[j]
        row[[i, j]] = -np.inf
        full[i], full[:, i] = row, row
        full[j], full[:, j] = -np.inf, -np.inf
        self.costs = np.where(np.triu(np.ones_like(full, dtype=bool), 1), full, -np.inf)


def gaec(costs):
    """The merges of textbook GAEC: a list of (i, j, cost)."""
    contraction = Contraction(costs)
    merges = []
    while True:
        i, j, cost = contraction.best()
        if not cost > 0:
            return merges
        merges.append((i, j, cost))
        contraction.merge(i, j)


def assert_greedy(costs, merges, rtol=1e-9):
    """Every merge takes the largest cost of that moment, to 1e-9, and there are no more to make.

    Costs of merged nodes are differences of larger numbers, so the tolerance is relative to the
    larger of the cost itself and a hundred-thousandth of the largest cost in the instance.
    """
    contraction = Contraction(costs)
    for i, j, cost in merges:
        tolerance = rtol * max(abs(cost), 1e-5 * contraction.scale)
        _, _, best = contraction.best()
        assert abs(cost - best) <= tolerance
        assert abs(contraction.costs[i, j] - best) <= tolerance
        contraction.merge(i, j)
    _, _, best = contraction.best()
    assert best <= rtol * 1e-5 * contraction.scale


def printed_dgaec_inc(costs, k):
    """Merge costs of the paper's Algorithms 2 and 3 as printed, its incremental bound included."""
    n = len(costs)
    cost = {(u, v): costs[u, v] for u in range(n) for v in range(n) if u != v}
    nodes = set(range(n))

    def search(u):
        return sorted(nodes - {u}, key=lambda v: (-cost[u, v], v))[:k]

    lists = {u: search(u) for u in nodes}
    merged = []
    while True:
        arcs = [(cost[u, v], -u, -v) for u in nodes for v in lists[u]]
        best, i, j = max(arcs, default=(-1, 0, 0))
        if best <= 0:
            return merged
        merged.append(best)
        i, j, m = -i, -j, n + len(merged)
        bound = min(cost[i, p] for p in lists[i]) + min(cost[j, q] for q in lists[j])
        known = set(lists[i]) | set(lists[j])
        nodes -= {i, j}
        for v in nodes:
            cost[m, v] = cost[v, m] = cost[i, v] + cost[j, v]
        nodes.add(m)
        near = sorted((v for v in known & nodes if cost[m, v] >= bound), key=lambda v: -cost[m, v])
        lists[m] = near[:k] or search(m)
        for q in nodes - {m}:
            if {i, j} & set(lists[q]):
                if cost[q, m] >= min(cost[q, v] for v in lists[q]):
                    lists[q] = [m, *(v for v in lists[q] if v not in (i, j))]
                else:
                    lists[q] = search(q)


def lazy(costs, k):
    """The merges of lazy contraction (DLAEC) on a full matrix: no search within a round."""
    contraction = Contraction(costs)
    merges = []
    while True:
        full = np.maximum(contraction.costs, contraction.costs.T)
        nodes = np.flatnonzero(np.isfinite(full).any(axis=1)).tolist()
        lists = {u: sorted((v for v in nodes if v != u), key=lambda v: (-full[u, v], v))[:k] for u in nodes}
        floors = dict.fromkeys(nodes, -np.inf)
        before = len(merges)
        while True:
            heads = [(full[u, lists[u][0]], -u) for u in nodes if lists[u]]
            cost, u = max(heads, default=(-1, 0))
            if not cost > 0:
                break
            i, j = sorted((-u, lists[-u][0]))
            merges.append((i, j, cost))
            lows = {u: min((full[u, v] for v in lists[u]), default=floors[u]) for u in nodes}
            known = (set(lists[i]) | set(lists[j])) - {i, j}
            contraction.merge(i, j)
            full = np.maximum(contraction.costs, contraction.costs.T)
            nodes.remove(j)
            floors[i] = lows[i] + lows[j]
            near = [v for v in known if full[i, v] >= floors[i]]
            lists[i] = sorted(near, key=lambda v: (-full[i, v], v))[:k]
            for q in nodes:
                if q != i and {i, j} & set(lists[q]):
                    floors[q] = lows[q]
                    kept = [v for v in lists[q] if v not in (i, j)]
                    if full[q, i] >= lows[q]:
                        kept.append(i)
                    lists[q] = sorted(kept, key=lambda v, q=q: (-full[q, v], v))
        if len(merges) == before:
            return merges


def best_single_change(costs, labels):
    """The largest gain of moving one node (to any cluster, or to be alone) and of joining two clusters."""
    labels = np.asarray(labels)
    n = len(labels)
    costs = np.where(np.eye(n, dtype=bool), 0.0, costs)
    clusters = np.unique(labels)
    to_cluster = np.stack([costs[:, labels == c].sum(axis=1) for c in clusters], axis=1)
    own = to_cluster[np.arange(n), np.searchsorted(clusters, labels)]
    move = max((max(to_cluster[v].max(), 0.0) - own[v] for v in range(n)), default=0.0)
    join = max(
        (
            to_cluster[labels == a][:, np.searchsorted(clusters, b)].sum()
            for a in clusters
            for b in clusters
            if a < b
        ),
        default=0.0,
    )
    return move, join


def partitions(n):
    """All labels of n items, numbered by first appearance."""
    if n == 0:
        yield []
        return
    for labels in partitions(n - 1):
        for label in range(max(labels, default=-1) + 2):
            yield [*labels, label]


def weighted_instance(seed):
    """Costs of a noisy mixture of up to 40 nodes, of digits, or (harder to solve exactly) at random."""
    rng = np.random.default_rng(seed)
    if seed % 3 == 0:
        n = int(rng.integers(8, 19))
        costs = rng.normal(loc=-0.3, size=(n, n))
        return (costs + costs.T) / 2
    n = int(rng.integers(20, 41))
    if seed % 3 == 1:
        X = rng.normal(size=(4, 16))[rng.integers(4, size=n)] + rng.normal(size=(n, 16))
    else:
        from sklearn.datasets import load_digits

        X = load_digits().data
        X = (X - X.mean(axis=0))[rng.permutation(len(X))[:n]]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X @ X.T - 0.3


def exact_inside(costs):
    """The largest total cost inside clusters, by an integer program with lazy triangle inequalities."""
    import scipy.optimize as opt
    import scipy.sparse as sp

    n = len(costs)
    i, j = np.triu_indices(n, 1)
    number = np.zeros((n, n), dtype=int)
    number[i, j] = number[j, i] = np.arange(len(i))
    triangles = []
    while True:
        constraints = ()
        if triangles:
            row = np.repeat(np.arange(len(triangles)), 3)
            signs = np.tile([1, 1, -1], len(triangles))
            shape = (len(triangles), len(i))
            constraints = opt.LinearConstraint(
                sp.csr_array((signs, (row, np.ravel(triangles))), shape), ub=1
            )
        whole = np.ones(len(i))
        answer = opt.milp(-costs[i, j], integrality=whole, bounds=opt.Bounds(0, 1), constraints=constraints)
        together = np.zeros((n, n), dtype=bool)
        together[i, j] = answer.x > 0.5
        together |= together.T
        # a with b and b with c, but not a with c
        broken = [
            (number[a, b], number[b, c], number[a, c])
            for b in range(n)
            for a in np.flatnonzero(together[b])
            for c in np.flatnonzero(together[b] & ~together[a])
            if a < c
        ]
        if not broken:
            return -answer.fun
        triangles += broken
