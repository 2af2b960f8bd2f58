"""What must hold for every outcome, computed in extended precision and by enumeration."""

import warnings
from contextlib import contextmanager

import numpy as np
from reference import all_partitions

#: Items up to which all clusterings are enumerated.
MAX_ENUMERATED = 8
#: The share of the magnitudes of its terms that a gain must exceed to count, and some room for it.
GAIN_SHARE = 2e-12
#: What may be missing to the optimum, as a share of the magnitudes of all costs, whatever a bound says.
OPTIMAL_SHARE = 1e-11
#: Products below the range of float64 are 0.
TINY = 64 * float(np.finfo(np.float64).tiny)
_EPSILON = 2.0**-52


class WrongError(AssertionError):
    """An outcome that must not be."""


def check(condition, message):
    if not condition:
        raise WrongError(message)


@contextmanager
def no_runtime_warnings():
    """Turn every warning into an error, except advice to the user."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        yield


class Exact:
    """The costs of all pairs of a problem, in extended precision, with the magnitudes of their terms."""

    def __init__(self, costs, terms, width):
        for matrix in (costs, terms):
            np.fill_diagonal(matrix, 0)
        self.costs, self.terms = costs, terms
        self.n = len(costs)
        self.apart = np.zeros((self.n, self.n), dtype=bool)  # pairs that must be apart
        self.tiny = TINY
        self.share = _EPSILON * (
            self.n + width + 16
        )  # of the terms of some costs: the rounding of their sum
        self.extra = self.n**2 * TINY

    @classmethod
    def of_features(cls, X, threshold=None, alpha=None, prefer="small", weight=None):
        """The definition: cost(i, j) = w_i w_j (<f_i, f_j> - threshold), or -/+ alpha_i alpha_j."""
        X = np.asarray(X, dtype=np.longdouble)
        products, terms = X @ X.T, np.abs(X) @ np.abs(X).T
        if alpha is None:
            other = np.full_like(products, np.longdouble(threshold))
        else:
            alpha = np.broadcast_to(np.asarray(alpha, dtype=np.longdouble), len(X))
            other = np.outer(alpha, alpha) * (1 if prefer == "small" else -1)
        scale = 1 if weight is None else np.outer(*[np.asarray(weight, dtype=np.longdouble)] * 2)
        return cls((products - other) * scale, (terms + np.abs(other)) * scale, X.shape[1])

    @classmethod
    def of_graph(cls, edges, costs, n):
        matrix, terms = np.zeros((2, n, n), dtype=np.longdouble)
        for (i, j), cost in zip(np.asarray(edges).reshape(-1, 2), costs, strict=True):
            for a, b in ((i, j), (j, i)):
                matrix[a, b] += np.longdouble(cost)
                terms[a, b] += abs(np.longdouble(cost))
        return cls(matrix, terms, 1)

    def subset(self, items):
        at = np.ix_(items, items)
        part = Exact(self.costs[at].copy(), self.terms[at].copy(), 1)
        part.tiny, part.apart = self.tiny, self.apart[at]
        return part

    def plus(self, other):
        """The problem whose costs are the sums of those of two problems."""
        both = Exact(self.costs + other.costs, self.terms + other.terms, 1)
        both.share = max(self.share, other.share)
        return both

    def contracted(self, groups, apart):
        """The problem of groups 0..K-1 of items; `apart` are the items that must be apart."""
        member = np.eye(groups.max() + 1, dtype=np.longdouble)[groups]
        nodes = Exact(member.T @ self.costs @ member, member.T @ self.terms @ member, 1)
        nodes.apart = member.T @ apart @ member > 0
        nodes.share, nodes.tiny, nodes.extra = self.share, self.n * self.tiny, self.extra
        return nodes

    def rounding(self, pairs):
        """Room for rounding of a sum of the costs of some pairs."""
        return self.share * float(self.terms[pairs].sum()) + self.extra

    def inside(self, labels):
        """The total cost of the pairs that share a label, and room for its rounding."""
        same = labels[:, None] == labels
        return float(self.costs[same].sum() / 2), self.rounding(same)

    def objective(self, labels):
        """The total cost of the pairs that are cut, and room for its rounding."""
        cut = labels[:, None] != labels
        return float(self.costs[cut].sum() / 2), self.rounding(cut)

    def optimum(self):
        """The best feasible clustering of at most MAX_ENUMERATED items."""
        if self.n == 1:
            return np.zeros(1, dtype=int)
        i, j = np.triu_indices(self.n, 1)
        partitions = all_partitions(self.n)
        cut = partitions[:, i] != partitions[:, j]
        feasible = cut[:, self.apart[i, j]].all(axis=1)
        partitions, cut = partitions[feasible], cut[feasible]
        return partitions[(cut @ self.costs[i, j]).argmin()]

    def doubtful(self, *clusterings):
        """The pairs without those that attract beyond doubt and are kept together by all clusterings."""
        kept = self.costs > self.share * self.terms
        for labels in clusterings:
            kept &= labels[:, None] == labels
        return ~kept

    def check_gains(self, labels, moves, joins):
        """No single move (no join of two clusters) gains more than rounding, if that is claimed."""
        member = np.unique(labels)[:, None] == labels
        member = member.T.astype(np.longdouble)
        barred = self.apart @ member > 0
        if moves:
            gain, size = self.costs @ member, self.terms @ member
            at = np.arange(self.n), member.argmax(axis=1)
            stay, of_stay = gain[at].copy(), size[at].copy()
            gain[at], size[at] = 0, 0  # alone
            gain, size = gain - stay[:, None], size + of_stay[:, None]
            gain[barred] = 0
            check(
                np.all(gain <= GAIN_SHARE * size + self.n * self.tiny),
                f"move_optimal, but a move gains {gain.max():.3g}",
            )
        if joins:
            gain, size = member.T @ self.costs @ member, member.T @ self.terms @ member
            np.fill_diagonal(gain, 0)
            gain[member.T @ barred > 0] = 0
            check(
                np.all(gain <= GAIN_SHARE * size + self.n * self.tiny),
                f"join_optimal, but a join gains {gain.max():.3g}",
            )


def check_labels(labels, n):
    labels = np.asarray(labels)
    check(labels.dtype == np.int64 and labels.shape == (n,), f"labels {labels.dtype} {labels.shape}")
    _, first = np.unique(labels, return_index=True)
    check(labels.min() == 0 and np.all(np.diff(first) > 0), f"labels are not numbered in order: {labels}")


def check_clustering(exact, result, present=None, trivial=True):
    """Check labels, objective, claims and bound of a result; `present` are the items of positive weight.

    `trivial`: the result must not be worse than leaving all items alone, or joining them all.
    """
    labels, n = result.labels, exact.n
    check_labels(labels, n)
    objective, _ = exact.objective(labels)
    for name, found, (true, room) in (
        ("objective", result.objective, exact.objective(labels)),
        ("inside", result.inside, exact.inside(labels)),
        ("objective of the trace", result.trace[-1].objective, exact.objective(labels)),
    ):
        check(abs(found - true) <= room, f"{name} is {found!r}, in truth {true!r}, room {room:.3g}")
    check(result.n_clusters == labels.max() + 1, "n_clusters is not the number of labels")
    if trivial:
        for name, other in (("all alone", np.arange(n)), ("one cluster", np.zeros(n, dtype=int))):
            least, room = exact.objective(other)
            room += exact.rounding(exact.doubtful(labels))
            check(objective <= least + room, f"worse than {name}: {objective!r}")
    some = np.arange(n) if present is None else np.flatnonzero(present)
    last = result.trace[-1]
    exact.subset(some).check_gains(labels[some], last.move_optimal, last.join_optimal)
    if result.bound is not None:
        check_bound(exact, labels, result.bound, result.optimal)


def check_bound(exact, labels, bound, optimal=False):
    """No clustering has a smaller objective than the bound; labels that are called optimal are."""
    found, _ = exact.objective(labels)
    best = exact.optimum() if exact.n <= MAX_ENUMERATED else labels
    least, _ = exact.objective(best)
    check(bound.value <= least + 1e-15 * abs(least), f"the bound {bound.value!r} is above {least!r}")
    if optimal:
        doubtful = exact.doubtful(labels, best)
        room = min(4 * bound.rounding, OPTIMAL_SHARE * float(exact.terms[doubtful].sum()))
        room += exact.rounding(doubtful)
        check(found - least <= room, f"optimal, but {found - least!r} above the optimum")


def check_error(error, what=""):
    """An error of a user is one line of a kind that the command line catches."""
    kinds = (ValueError, TypeError, OSError, ImportError)
    check(isinstance(error, kinds), f"{what}{type(error).__name__}: {str(error)[:300]}")
    message = str(error)
    check("\n" not in message, f"{what}more than one line: {message[:300]!r}")
    check(10 < len(message) < 400, f"{what}the message has {len(message)} characters: {message[:600]!r}")
    check(not message.startswith("[Errno"), f"{what}an error of the system: {message!r}")
    check(not isinstance(error, UnicodeError), f"{what}{message!r}")
