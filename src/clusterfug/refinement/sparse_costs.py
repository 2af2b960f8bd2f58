"""The sparse part of a `MixedProblem` while items move: costs along edges, and items that must be apart.

`feature_moves` adds the costs of an item's edges to those of its features. An edge of cost -inf, and a
group that an item has in common with a cluster, exclude the item from the cluster.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.hash_table import position_of, remove_key
from clusterfug.execution.jit import inlined, kernel
from clusterfug.problems.cost_kernels import Floats, Ints

_EMPTY = -1  # an unused position of the hash table


class SparseTerms(NamedTuple):
    """Edges and groups by item in compressed form; `starts` of length 1 means that there are none."""

    starts: NDArray[np.int64]  # edges of item i are at starts[i]:starts[i + 1]
    ends: NDArray[np.int64]
    costs: NDArray[np.float64]  # -inf: the two items must be apart
    clear: NDArray[np.float64]  # (n,) tolerance of a gain, from the finite costs of an item's edges
    group_starts: NDArray[np.int64]  # groups of item i are at group_starts[i]:group_starts[i + 1]
    groups: NDArray[np.int64]  # items of the same group must be apart

    @property
    def has_edges(self) -> bool:
        return len(self.starts) > 1


NO_TERMS = SparseTerms(
    np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0), np.empty(0),
    np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64),
)  # fmt: skip


class SparseState(NamedTuple):
    """`SparseTerms`, the groups that each cluster contains, and sums for the item that is evaluated."""

    starts: Ints
    ends: Ints
    costs: Floats
    clear: Floats
    group_starts: Ints
    groups: Ints
    n_groups: int
    member_starts: Ints  # items of group g are members[member_starts[g]:member_starts[g + 1]]
    members: Ints
    keys: Ints  # hash table: slot * n_groups + group for the groups of each cluster
    cost: Floats  # (slots,) cost of the item that is evaluated along its edges; 0 between items
    magnitude: Floats  # (slots,) the same of absolute costs, where they are needed; 0 between items
    is_adjacent: Ints  # (slots,) whether the item has an edge to the cluster; False between items
    adjacent: Ints  # (slots,) the clusters to which it has one, first

    @property
    def has_edges(self) -> bool:
        return len(self.starts) > 1


def sparse_state(terms: SparseTerms, labels: NDArray[np.int64], slots: int) -> SparseState:
    """State for clusters in slots, given the slot of every item."""
    n_groups = int(terms.groups.max(initial=-1)) + 1
    slots = slots if terms.has_edges else 0
    order = np.argsort(terms.groups, kind="stable")
    items = np.repeat(np.arange(len(terms.group_starts) - 1), np.diff(terms.group_starts))
    state = SparseState(
        *terms,
        n_groups=n_groups,
        member_starts=np.searchsorted(terms.groups[order], np.arange(n_groups + 1)),
        members=items[order],
        keys=np.full(1 << (2 * len(terms.groups)).bit_length(), _EMPTY),
        cost=np.zeros(slots),
        magnitude=np.zeros(slots),
        is_adjacent=np.zeros(slots, dtype=np.bool_),
        adjacent=np.empty(slots, dtype=np.int64),
    )
    if n_groups:
        add_groups_of_items(state, labels)
    return state


@inlined
def gather_edges(state: SparseState, labels: Ints, i: int) -> int:
    """Add up the costs of item i along its edges to each cluster. Returns the number of clusters."""
    count = 0
    for at in range(state.starts[i], state.starts[i + 1]):
        slot = labels[state.ends[at]]
        if not state.is_adjacent[slot]:
            state.is_adjacent[slot] = True
            state.adjacent[count] = slot
            count += 1
        state.cost[slot] += state.costs[at]
    return count


@inlined
def release_edges(state: SparseState, count: int) -> None:
    """Forget the costs that were added up for an item."""
    for slot in state.adjacent[:count]:
        state.is_adjacent[slot] = False
        state.cost[slot] = state.magnitude[slot] = 0.0


@inlined
def edges_changed(state: SparseState, labels: Ints, changed: Ints, i: int, since: int) -> bool:
    """Whether a cluster to which item i has an edge has changed since a time."""
    for at in range(state.starts[i], state.starts[i + 1]):
        if changed[labels[state.ends[at]]] > since:
            return True
    return False


@kernel
def gather_magnitudes(state: SparseState, labels: Ints, i: int) -> None:
    """Add up the absolute finite costs of item i along its edges to each cluster."""
    for at in range(state.starts[i], state.starts[i + 1]):
        if state.costs[at] > -np.inf:
            state.magnitude[labels[state.ends[at]]] += abs(state.costs[at])


@kernel
def add_edge_costs_to_own(state: SparseState, labels: Ints, items: Ints, stay: Floats) -> None:
    """stay[i] += cost of item i to the other items of its cluster along its edges, for the given items."""
    for i in items:
        for at in range(state.starts[i], state.starts[i + 1]):
            if labels[state.ends[at]] == labels[i]:
                stay[i] += state.costs[at]


# The groups of each cluster, in a hash table.


@inlined
def is_open(state: SparseState, i: int, slot: int) -> bool:
    """Whether a cluster has no group in common with item i."""
    for at in range(state.group_starts[i], state.group_starts[i + 1]):
        if state.keys[position_of(state.keys, slot * state.n_groups + state.groups[at])] >= 0:
            return False
    return True


@inlined
def move_groups(state: SparseState, i: int, home: int, to: int) -> None:
    """Move the groups of item i from one cluster to another."""
    for at in range(state.group_starts[i], state.group_starts[i + 1]):
        remove_key(state.keys, state.keys, home * state.n_groups + state.groups[at])
        key = to * state.n_groups + state.groups[at]
        state.keys[position_of(state.keys, key)] = key


@kernel
def add_groups_of_items(state: SparseState, labels: Ints) -> None:
    """Enter the groups of all items for their clusters."""
    for i in range(labels.shape[0]):
        for at in range(state.group_starts[i], state.group_starts[i + 1]):
            key = labels[i] * state.n_groups + state.groups[at]
            state.keys[position_of(state.keys, key)] = key


#: That of problems without edges and groups.
NO_SPARSE = sparse_state(NO_TERMS, np.empty(0, dtype=np.int64), 0)
