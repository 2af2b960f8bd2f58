"""Naive references, obviously correct and slow, with which every fast path is compared."""

from functools import cache

import numpy as np

#: Costs of seven nodes on which the paper's incremental update fails with k = 2 (see docs/how-it-works.md).
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
    """Return all pair costs in float64, by the definition."""
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
    """Return the total cost of the pairs i < j with different labels, pair by pair."""
    i, j = np.triu_indices(len(labels), 1)
    cut = np.asarray(labels)[i] != np.asarray(labels)[j]
    return costs[i, j][cut].sum()


class Contraction:
    """Textbook GAEC on a full matrix: search all pairs, merge the best one, add its rows."""

    def __init__(self, costs):
        self.costs = np.where(np.eye(len(costs), dtype=bool), -np.inf, costs)
        self.scale = np.abs(costs).max()

    def best(self):
        """Return (i, j, cost) of the largest cost; ties go to the lower index, then to the other."""
        i, j = divmod(int(np.argmax(self.costs)), len(self.costs))
        return i, j, self.costs[i, j]

    def merge(self, i, j):
        """Merge node j into node i < j."""
        row = self.costs[i] + self.costs[j]
        row[[i, j]] = -np.inf
        self.costs[i] = self.costs[:, i] = row
        self.costs[j] = self.costs[:, j] = -np.inf


def gaec(costs):
    """Return the merges of textbook GAEC: a list of (i, j, cost)."""
    contraction = Contraction(costs)
    merges = []
    while True:
        i, j, cost = contraction.best()
        if not cost > 0:
            return merges
        merges.append((i, j, cost))
        contraction.merge(i, j)


def assert_greedy(costs, merges, rtol=1e-9):
    """Assert that every merge takes the largest cost of its time, to 1e-9, and none attracts after it.

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
    """Return the merge costs of the paper's Algorithms 2 and 3 as printed, with its incremental bound."""
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
    """Return the merges of lazy contraction (DLAEC) on a full matrix: no search within a round."""
    contraction = Contraction(costs)
    merges = []
    while True:
        full = contraction.costs
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
            full = contraction.costs
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
    """Return the largest gains of moving a node (to any cluster or a new one) and of joining clusters."""
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


def assert_optimal(costs, labels):
    """Assert that no move of one node and no join of two clusters improves the clustering."""
    move, join = best_single_change(costs, labels)
    assert move <= 1e-9
    assert join <= 1e-9


def best_partners(costs, k):
    """Return, per row, the indices of the k largest costs (ties by lower index), and the costs."""
    n = len(costs)
    k = min(k, n - 1)
    ids = np.empty((n, k), dtype=np.int64)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        ids[i] = sorted(others, key=lambda j: (-costs[i, j], j))[:k]
    return ids, np.take_along_axis(costs, ids, axis=1)


def partitions(n):
    """Yield all labels of n items, numbered by first appearance."""
    if n == 0:
        yield []
        return
    for labels in partitions(n - 1):
        for label in range(max(labels, default=-1) + 2):
            yield [*labels, label]


@cache
def all_partitions(n):
    """All labels of n items, one row each."""
    return np.array(list(partitions(n)))


def optimum(costs):
    """The smallest objective of all partitions."""
    i, j = np.triu_indices(len(costs), 1)
    labels = all_partitions(len(costs))
    return ((labels[:, i] != labels[:, j]) @ np.asarray(costs)[i, j]).min()


def assert_locally_optimal(problem, labels, moves=True, joins=True, share=1e-11):
    """Assert that no single move and no single join gains more than this share of the terms' magnitudes.

    The terms are those of the costs that the move changes, in extended precision: sum_d |g_id| |g_jd|.
    """
    features, alpha, weight, signature = (np.asarray(x, dtype=np.longdouble) for x in problem.rows)
    rows = np.column_stack([features, alpha]) * weight[:, None]
    costs, terms = (rows * signature) @ rows.T, np.abs(rows * signature) @ np.abs(rows).T
    for matrix in (costs, terms):
        np.fill_diagonal(matrix, 0)
    member = np.eye(labels.max() + 1, dtype=np.longdouble)[labels]
    for nodes, home in [(np.eye(len(labels)), labels)] * moves + [(member, None)] * joins:
        gain, magnitude = nodes.T @ costs @ member, nodes.T @ terms @ member
        if home is None:
            np.fill_diagonal(gain, 0)
        else:  # an item leaves the others of its cluster; -1 stands for a new cluster
            item = np.arange(len(labels))
            stay, of_stay = gain[item, home].copy(), magnitude[item, home].copy()
            gain[item, home], magnitude[item, home] = 0, 0  # alone
            gain, magnitude = gain - stay[:, None], magnitude + of_stay[:, None]
        assert np.all(gain <= share * magnitude), (gain, magnitude)


def certified_sum(costs, certificate):
    """The lower bound that a certificate proves for a matrix of costs, triangle by triangle."""
    residual = costs.copy()
    for pairs, amount in zip(certificate.triangles, certificate.amounts, strict=True):
        assert amount >= 0
        raised, *lowered = (set(certificate.pairs[pair].tolist()) for pair in pairs)
        assert len(raised | lowered[0] | lowered[1]) == 3
        assert raised == lowered[0] ^ lowered[1]
        for (i, j), change in zip(certificate.pairs[pairs], (amount, -amount, -amount), strict=True):
            residual[i, j] += change
    upper = residual[np.triu_indices(len(costs), 1)]
    return upper[upper < 0].sum()


def weighted_instance(seed):
    """Return costs of a mixture of up to 40 nodes, of digits, or (harder to solve exactly) at random."""
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
    """Return the largest cost inside clusters, by an integer program with lazy triangle inequalities."""
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


def interpolation(features, shape):
    """Bilinear interpolation with the centres of pixels at 0.5 and repeated edges, one number at a time."""
    h, w = features.shape[:2]
    out = np.zeros((*shape, *features.shape[2:]))
    for r in range(shape[0]):
        for c in range(shape[1]):
            y = min(max((r + 0.5) * h / shape[0] - 0.5, 0), h - 1)
            x = min(max((c + 0.5) * w / shape[1] - 0.5, 0), w - 1)
            y0, x0 = int(y), int(x)
            for a, wa in ((y0, 1 - (y - y0)), (min(y0 + 1, h - 1), y - y0)):
                for b, wb in ((x0, 1 - (x - x0)), (min(x0 + 1, w - 1), x - x0)):
                    out[r, c] += wa * wb * features[a, b]
    return out


def panoptic_counts(predictions, truths, things, stuff):
    """Sum of IoU, TP, FP, FN by class: the definition of Kirillov et al. and of COCO's tools."""
    counts = {c: [0.0, 0, 0, 0] for c in (*things, *stuff)}

    def segments(semantic, instance, crowds):
        found = {}
        for c in (*things, *stuff):
            numbers = np.unique(instance[semantic == c]) if c in things else [None]
            for k in numbers:
                mask = semantic == c if k is None else (semantic == c) & (instance == k)
                if mask.any() and (k == 0) == crowds:
                    found[c, k] = mask
        return found

    for (ps, pi), (ts, ti) in zip(predictions, truths, strict=True):
        void = ts < 0
        predicted, true = segments(ps, pi, False), segments(ts, ti, False)
        crowds = segments(ts, ti, True)
        matched = set()
        for (c, k), p in predicted.items():
            for (other, q), t in true.items():
                both = (p & t).sum()
                union = p.sum() + t.sum() - both - (p & void).sum()
                if c == other and both / union > 0.5:
                    counts[c][0] += both / union
                    counts[c][1] += 1
                    matched |= {("p", c, k), ("t", c, q)}
        for (c, k), p in predicted.items():
            excused = (p & void).sum() + sum((p & m).sum() for (d, _), m in crowds.items() if d == c)
            if ("p", c, k) not in matched and excused <= 0.5 * p.sum():
                counts[c][2] += 1
        for c, k in true:
            counts[c][3] += ("t", c, k) not in matched
    return counts


def encoder_input(path, size, resize, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)):
    """The usual preprocessing of an image file, step by step: (3, size, size) numbers."""
    from PIL import Image

    image = Image.open(path)
    scale = resize / min(image.size)
    image = image.resize(
        (int(image.width * scale + 1e-9), int(image.height * scale + 1e-9)), Image.BILINEAR
    )
    top, left = round((image.height - size) / 2), round((image.width - size) / 2)
    middle = np.asarray(image, dtype=np.float64)[top : top + size, left : left + size]
    return np.stack([(middle[:, :, c] / 255 - mean[c]) / std[c] for c in range(3)])


def convolution_features(folder, weights, size, resize):
    """Convolution, rectifier and mean of every .png file of a folder, one output pixel at a time."""
    rows = []
    for path in sorted(folder.glob("*.png")):
        pixels = encoder_input(path, size, resize)
        patches = [pixels[:, y : y + 3, x : x + 3] for y in range(size - 2) for x in range(size - 2)]
        rows.append(np.mean([np.maximum(np.tensordot(weights, patch, 3), 0) for patch in patches], axis=0))
    return np.array(rows)


def assert_selected(result, X, n_neighbors=None, **weights):
    """A result has the costs that it states, and its choice is a consistent table of candidates."""
    from clusterfug import DenseProblem, local_alpha
    from clusterfug.result import number_by_first_appearance

    choice, labels = result.choice, result.labels
    np.testing.assert_array_equal(labels, number_by_first_appearance(labels))
    prefer = "small" if choice.strictness >= 0 else "large"
    for problem in (
        DenseProblem(X, alpha=choice.alpha, prefer=prefer, **weights),
        DenseProblem(X, result.costs, **weights),
    ):
        np.testing.assert_allclose(result.inside, problem.inside(labels), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(result.objective, problem.objective(labels), rtol=1e-9, atol=1e-9)
    assert result.trace[-1].n_clusters == result.n_clusters
    assert result.trace[-1].objective == result.objective
    alpha = local_alpha(X, abs(choice.strictness), n_neighbors=n_neighbors, **weights)
    np.testing.assert_allclose(choice.alpha, alpha, rtol=1e-9)
    assert np.all(np.diff(choice.candidates) > 0)
    assert len(choice.n_clusters) == len(choice.silhouette) == len(choice.candidates)
    assert len(choice.agreement) == len(choice.candidates) - 1
    beside = np.concatenate([[0], choice.agreement, [0]])
    np.testing.assert_allclose(choice.scores, choice.silhouette * np.maximum(beside[:-1], beside[1:]))
    assert [row["strictness"] for row in choice.rows()] == choice.candidates.tolist()
    assert choice.rows()[-1]["agreement"] is None
    return result


def node_costs(costs, groups, apart):
    """Costs between groups 0..K-1 of items, and which groups must be apart."""
    member = np.eye(groups.max() + 1)[groups]
    nodes = member.T @ costs @ member
    np.fill_diagonal(nodes, 0.0)
    return nodes, member.T @ apart @ member > 0


def is_feasible(labels, groups, apart):
    """Whether a clustering keeps groups together and pairs apart."""
    together = labels[:, None] == labels
    return bool(together[groups[:, None] == groups].all() and not together[apart].any())


def feasible_optimum(costs, groups, apart):
    """The smallest objective of all feasible clusterings of up to about eight groups of items."""
    nodes, barred = node_costs(costs, groups, apart)
    found = [
        objective(nodes, labels)
        for labels in all_partitions(len(nodes))
        if not barred[labels[:, None] == labels].any()
    ]
    return min(found)


def best_feasible_change(costs, labels, groups, apart):
    """The largest gains of feasible moves of a group of items, and of feasible joins of clusters."""
    nodes, barred = node_costs(costs, groups, apart)
    labels = np.unique(labels[np.unique(groups, return_index=True)[1]], return_inverse=True)[1]
    member = np.eye(labels.max() + 1)[labels]
    to, closed = nodes @ member, barred @ member > 0
    own = to[np.arange(len(labels)), labels]
    to[closed] = 0.0
    joins = member.T @ nodes @ member
    np.fill_diagonal(joins, 0.0)
    joins[member.T @ closed > 0] = 0.0
    return float((np.maximum(to.max(axis=1), 0.0) - own).max()), float(joins.max())
