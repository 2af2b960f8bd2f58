"""Pairs of items that no feasible clustering puts together: single pairs, and groups of exclusive items.

Two items of the same group must be apart. Groups are kept as lists, since their pairs may be too many to be
written down. `MixedProblem` has an `Apart`; contraction gives a node the groups of all its items.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel
from clusterfug.problems.links import Links
from clusterfug.result import compact

NO_PAIRS = np.empty((0, 2), dtype=np.int64)
#: Pairs of groups that are written down where an algorithm needs each of them.
MAX_PAIRS = 20_000_000


class Apart(NamedTuple):
    """Pairs of items, and members of groups; both are distinct and sorted."""

    pairs: NDArray[np.int64]  # (c, 2), lower item first
    members: NDArray[np.int64]  # (p, 2) an item and one of its groups 0..G-1

    @classmethod
    def nothing(cls) -> "Apart":
        return cls(NO_PAIRS, NO_PAIRS)

    @classmethod
    def of_links(cls, links: Links) -> "Apart":
        """The cannot-links and exclusive groups."""
        items = np.flatnonzero(links.exclusive >= 0)
        return cls(links.cannot, np.stack([items, links.exclusive[items]], axis=1))

    @property
    def is_empty(self) -> bool:
        return not len(self.pairs) and not len(self.members)

    def contract(self, labels: NDArray[np.int64]) -> "Apart":
        """The same of the clusters of feasible labels 0..K-1."""
        pairs = np.sort(labels[self.pairs], axis=1)
        members = np.stack([labels[self.members[:, 0]], self.members[:, 1]], axis=1)
        return Apart(_distinct(pairs), _distinct(members))

    def subset(self, at: NDArray[np.int64]) -> "Apart":
        """The same of some items, whose new numbers are in `at` (-1: not among them)."""
        pairs, members = at[self.pairs], at[self.members[:, 0]]
        kept, there = (pairs >= 0).all(axis=1), members >= 0
        new = np.stack([members[there], self.members[there, 1]], axis=1)
        return Apart(_distinct(np.sort(pairs[kept], axis=1)), _distinct(new))

    def items(self) -> NDArray[np.int64]:
        """Items that are in a pair or in a group."""
        return np.unique(np.concatenate([self.pairs.ravel(), self.members[:, 0]]))

    def compressed_groups(self, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Groups by item: those of item i are at starts[i]:starts[i + 1]. Short starts mean none at all."""
        if not len(self.members):
            return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.searchsorted(self.members[:, 0], np.arange(n + 1)), self.members[:, 1].copy()

    def pairs_of_groups(self) -> int:
        """Number of pairs of items of the same group."""
        sizes = np.bincount(self.members[:, 1])
        return int((sizes * (sizes - 1) // 2).sum())

    def all_pairs(self) -> NDArray[np.int64]:
        """All pairs, those of groups included; an error if they are too many to be written down."""
        count = self.pairs_of_groups()
        if count > MAX_PAIRS:
            raise MemoryError(
                f"the exclusive groups have {count:,} pairs, too many to write down ({MAX_PAIRS:,}): leave "
                "out link_weight, and use auto, fast or best, which need no list of them"
            )
        return _distinct(np.concatenate([self.pairs, self._pairs_within_groups()]))

    def _pairs_within_groups(self) -> NDArray[np.int64]:
        """All pairs of items of the same group, once per group."""
        by_group = self.members[np.argsort(self.members[:, 1], kind="stable")]
        pairs = np.empty((self.pairs_of_groups(), 2), dtype=np.int64)
        write_pairs(np.ascontiguousarray(by_group), pairs)
        return pairs

    def known_pairs(self) -> NDArray[np.int64]:
        """All pairs if they are few enough to be written down, else those outside groups."""
        return self.all_pairs() if self.pairs_of_groups() <= MAX_PAIRS else self.pairs

    def includes(self, pairs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of some pairs (lower item first) must be apart."""
        if self.is_empty or not len(pairs):
            return np.zeros(len(pairs), dtype=np.bool_)
        n = 1 + max(int(pairs.max()), int(self.pairs.max(initial=0)), int(self.members.max(initial=0)))
        pairs = pairs.astype(np.int64)
        found = np.isin(pairs[:, 0] * n + pairs[:, 1], self.pairs[:, 0] * n + self.pairs[:, 1])
        starts, groups = self.compressed_groups(n)
        if len(groups):
            mark_shared_groups(starts, groups, pairs, found)
        return found

    def between(
        self, items: NDArray[np.int64], nodes: NDArray[np.int64], n: int
    ) -> NDArray[np.bool_] | None:
        """Which nodes must be apart, a matrix; ``nodes[t]`` is the node of ``items[t]``. None: no two."""
        if self.is_empty:
            return None
        at = np.full(n, -1)
        at[items] = nodes
        local = self.subset(at)
        if local.is_empty:
            return None
        apart = np.zeros((int(nodes.max()) + 1,) * 2, dtype=np.bool_)
        for pairs in (local.pairs, local._pairs_within_groups()):
            apart[pairs[:, 0], pairs[:, 1]] = apart[pairs[:, 1], pairs[:, 0]] = True
        return apart

    def separated(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Feasible labels 0..K-1: items that must be apart from a lower item of their cluster are alone."""
        if self.is_empty:
            return labels
        n = len(labels)
        order = np.argsort(self.pairs[:, 1], kind="stable")
        pairs = self.pairs[order]
        starts = np.searchsorted(pairs[:, 1], np.arange(n + 1))
        labels = labels.copy()
        # A lower item of the same cluster and group, or in a pair with the item, stays where it is.
        separate_pairs(starts, np.ascontiguousarray(pairs[:, 0]), labels, int(labels.max()) + 1)
        keys = (
            labels[self.members[:, 0]] * (int(self.members[:, 1].max(initial=0)) + 1) + self.members[:, 1]
        )
        first = np.unique(keys, return_index=True)[1]
        repeated = np.ones(len(keys), dtype=np.bool_)
        repeated[first] = False
        moved = np.unique(self.members[repeated, 0])
        labels[moved] = int(labels.max()) + 1 + np.arange(len(moved))
        return compact(labels)


def _distinct(pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distinct rows, sorted."""
    if not len(pairs):
        return pairs
    base = int(pairs[:, 1].max()) + 1
    keys = np.unique(pairs[:, 0] * base + pairs[:, 1])
    return np.stack([keys // base, keys % base], axis=1)


@kernel
def write_pairs(members: NDArray[np.int64], pairs: NDArray[np.int64]) -> None:
    """Write all pairs of items of the same group; the members are sorted by group, then by item."""
    count = 0
    first = 0
    for t in range(members.shape[0]):
        if members[t, 1] != members[first, 1]:
            first = t
        for s in range(first, t):
            pairs[count, 0] = members[s, 0]
            pairs[count, 1] = members[t, 0]
            count += 1


@kernel
def mark_shared_groups(
    starts: NDArray[np.int64], groups: NDArray[np.int64], pairs: NDArray[np.int64], found: NDArray[np.bool_]
) -> None:
    """Mark the pairs of items that have a group in common; the groups of an item are sorted."""
    for t in range(pairs.shape[0]):
        a, b = starts[pairs[t, 0]], starts[pairs[t, 1]]
        while a < starts[pairs[t, 0] + 1] and b < starts[pairs[t, 1] + 1] and not found[t]:
            found[t] = groups[a] == groups[b]
            if groups[a] < groups[b]:
                a += 1
            else:
                b += 1


@kernel
def separate_pairs(
    starts: NDArray[np.int64], lower: NDArray[np.int64], labels: NDArray[np.int64], fresh: int
) -> None:
    """Give a new label to every item that must be apart from a lower item with the same label."""
    for i in range(labels.shape[0]):
        for at in range(starts[i], starts[i + 1]):
            if labels[lower[at]] == labels[i]:
                labels[i] = fresh
                fresh += 1
                break
