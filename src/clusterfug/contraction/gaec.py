"""GAEC on explicit graphs (Algorithm 1): contract the edge of largest cost until none attracts.

Attractive edges are in a heap; an entry that no longer describes its edge is removed when it is the first.
A contraction moves the edges of the shorter of the two adjacency lists and finds parallel edges in a hash
table of node pairs, so an edge is moved O(log n) times. Ties between equal costs go to the lowest items of
the nodes. A node whose lowest item changes keeps its entries in the heap; its edges are inserted again only
when a tie has to be decided.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.history import record_merge
from clusterfug.execution import threads
from clusterfug.execution.hash_table import position_of, remove_key
from clusterfug.execution.jit import Progress, inlined, kernel
from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.problems.dense import DenseProblem
from clusterfug.result import MERGE

_WORK_PER_CALL = 1_000_000  # heap and adjacency operations per kernel call: a fraction of a second

# Why `contract_edges` returns.
FINISHED, OUT_OF_WORK, HEAP_FULL = range(3)
# Indices into GraphContraction.counts.
N_MERGES, HEAP_SIZE, N_OUTDATED = range(3)


class GraphContraction(NamedTuple):
    """A graph under contraction. Every node is in the slot of one of its items."""

    ends: Ints  # (m, 2) slots of the two ends of an edge; the first is -1 once the edge is gone
    costs: Floats  # (m,)
    head: Ints  # (n,) first half-edge of a slot; half-edge 2 e + s is end s of edge e
    following: Ints  # (2 m,) next half-edge in the same slot, -1 at the end
    degree: Ints  # (n,)
    lowest: Ints  # (n,) lowest item of the node in a slot
    keys: Ints  # hash table of node pairs with open addressing; -1 for an empty position
    edges: Ints  # hash table: the edge of a pair
    outdated: Ints  # (n,) stack of slots whose entries in the heap have a former lowest item
    is_outdated: Ints  # (n,) whether the slot is on the stack
    merges: Any  # (n,) MERGE records
    counts: Ints  # (3,)
    keys_in_heap: Floats  # (m,) cost of the last entry of an edge; `costs` itself without features
    sums: Floats  # (n, d + 1) extended row of each node, or of shape (0, 0)
    signature: Floats  # (d + 1,) that of the rows


class EdgeHeap(NamedTuple):
    """Entries in order of decreasing cost, then of the lowest items of both ends, the lower one first."""

    costs: Floats
    low: Ints
    high: Ints
    edges: Ints


def gaec(
    ends: NDArray[np.int64],
    costs: NDArray[np.float64],
    n: int,
    progress: Progress | None = None,
    features: DenseProblem | None = None,
) -> NDArray[np.void]:
    """Return the contraction history of a simple graph: no loops, no parallel edges.

    With features, the cost of an edge is that of the graph plus that of the features of its ends. If no
    cost of features is positive (then contractions only lower them), an edge of largest cost is contracted
    each time; otherwise it is one whose cost was the largest when it was computed last.
    """
    m = len(costs)
    costs = costs.astype(np.float64)
    if features is None:
        sums, signature, in_heap = np.empty((0, 0)), np.empty(0), costs
    else:
        sums, signature = features.sums(np.arange(n), n), features.rows.signature
        in_heap = np.full(m, -np.inf)
    capacity = 1 << max(4, (2 * m).bit_length())
    graph = GraphContraction(
        ends=ends.astype(np.int32),
        costs=costs,
        head=np.full(n, -1, dtype=np.int32),
        following=np.full(2 * m, -1, dtype=np.int32),
        degree=np.bincount(ends.ravel(), minlength=n).astype(np.int32),
        lowest=np.arange(n, dtype=np.int32),
        keys=np.full(capacity, -1, dtype=np.int64),
        edges=np.empty(capacity, dtype=np.int32),
        merges=np.empty(n, dtype=MERGE),
        outdated=np.empty(n, dtype=np.int32),
        is_outdated=np.zeros(n, dtype=np.bool_),
        counts=np.zeros(3, dtype=np.int64),
        keys_in_heap=in_heap,
        sums=sums,
        signature=np.asarray(signature),
    )
    heap = _empty_heap((m if features is not None else int(np.count_nonzero(costs > 0))) + n + 16)
    for start in range(0, m, _WORK_PER_CALL):
        add_edges(graph, heap, start, min(m, start + _WORK_PER_CALL))
    while (status := contract_edges(graph, heap, _WORK_PER_CALL)) != FINISHED:
        threads.check_stop()
        if status == HEAP_FULL:
            drop_stale(graph, heap)
            if 2 * graph.counts[HEAP_SIZE] > len(heap.costs) - 2 * m:
                heap = _enlarged(heap, max(2 * len(heap.costs), int(graph.counts[HEAP_SIZE]) + 2 * m))
        if progress is not None:
            progress("contraction", int(graph.counts[N_MERGES]), n)
    return graph.merges[: graph.counts[N_MERGES]].copy()


def _empty_heap(size: int) -> EdgeHeap:
    return EdgeHeap(np.empty(size), *(np.empty(size, dtype=np.int32) for _ in range(3)))


def _enlarged(heap: EdgeHeap, size: int) -> EdgeHeap:
    return EdgeHeap(*(np.resize(array, size) for array in heap))


@kernel
def add_edges(graph: GraphContraction, heap: EdgeHeap, start: int, stop: int) -> None:
    """Enter edges start..stop-1 into the hash table, the adjacency lists and the heap."""
    for e in range(start, stop):
        add_pair(graph, graph.ends[e, 0], graph.ends[e, 1], e)
        for side in range(2):
            slot = graph.ends[e, side]
            graph.following[2 * e + side] = graph.head[slot]
            graph.head[slot] = 2 * e + side
        if graph.costs[e] > 0 or graph.sums.shape[0] > 0:
            push(graph, heap, e)


@kernel
def contract_edges(graph: GraphContraction, heap: EdgeHeap, work: int) -> int:
    """Contract until no edge attracts, `work` operations are done or the heap is full. Return which."""
    counts = graph.counts
    while work > 0:
        if counts[HEAP_SIZE] == 0:
            return FINISHED
        work -= 1
        e = heap.edges[0]
        if not has_current_cost(graph, heap, 0):
            pop(graph, heap)
            continue
        if graph.sums.shape[0] > 0 and total_cost(graph, e) < heap.costs[0]:
            pop(graph, heap)
            push(graph, heap, e)
            work -= graph.sums.shape[1]
            continue
        room = heap.costs.shape[0] - counts[HEAP_SIZE]
        # Without outdated slots, the first entry has the present lowest items: former ones were larger.
        if counts[N_OUTDATED] > 0 and is_tied(graph, heap):
            slot = graph.outdated[counts[N_OUTDATED] - 1]
            if room < graph.degree[slot]:
                return HEAP_FULL
            counts[N_OUTDATED] -= 1
            graph.is_outdated[slot] = False
            work -= graph.degree[slot]
            push_edges(graph, heap, slot)
            continue
        a, b = graph.ends[e]
        if graph.degree[a] < graph.degree[b]:
            a, b = b, a
        if room < graph.degree[b]:
            return HEAP_FULL
        low, high = lowest_items(graph, e)
        record_merge(graph.merges[counts[N_MERGES]], low, high, heap.costs[0])
        counts[N_MERGES] += 1
        pop(graph, heap)
        remove_pair(graph, a, b)
        graph.ends[e, 0] = -1
        graph.degree[a] -= 1
        if graph.lowest[b] < graph.lowest[a]:
            graph.lowest[a] = graph.lowest[b]
            if not graph.is_outdated[a]:
                graph.is_outdated[a] = True
                graph.outdated[counts[N_OUTDATED]] = a
                counts[N_OUTDATED] += 1
        work -= graph.degree[b]
        if graph.sums.shape[0] > 0:
            graph.sums[a] += graph.sums[b]
        move_edges(graph, heap, b, a)
        graph.degree[b] = 0
        graph.head[b] = -1
    return OUT_OF_WORK


@kernel
def lowest_items(graph: GraphContraction, e: int) -> tuple[int, int]:
    """Return the lowest items of the two ends of an edge, the lower one first."""
    a, b = graph.lowest[graph.ends[e, 0]], graph.lowest[graph.ends[e, 1]]
    return min(a, b), max(a, b)


@kernel
def has_current_cost(graph: GraphContraction, heap: EdgeHeap, at: int) -> bool:
    """Return whether the edge of an entry still exists and has the cost of the entry."""
    e = heap.edges[at]
    return graph.ends[e, 0] >= 0 and heap.costs[at] == graph.keys_in_heap[e]


@inlined
def total_cost(graph: GraphContraction, e: int) -> float:
    """Return the cost of an edge, that of the features of its ends included."""
    cost = graph.costs[e]
    if graph.sums.shape[0] > 0 and cost > -np.inf:
        a, b = graph.ends[e]
        for p in range(graph.signature.shape[0]):
            cost += graph.signature[p] * (graph.sums[a, p] * graph.sums[b, p])
    return cost


@kernel
def is_tied(graph: GraphContraction, heap: EdgeHeap) -> bool:
    """Return whether another entry has the same cost as the first."""
    size = graph.counts[HEAP_SIZE]
    return (size > 1 and heap.costs[1] == heap.costs[0]) or (size > 2 and heap.costs[2] == heap.costs[0])


@kernel
def drop_stale(graph: GraphContraction, heap: EdgeHeap) -> None:
    """Remove the entries of former costs and, if no slot is outdated, those of former lowest items."""
    size = graph.counts[HEAP_SIZE]
    kept = 0
    for at in range(size):
        if not has_current_cost(graph, heap, at):
            continue
        low, high = lowest_items(graph, heap.edges[at])
        if graph.counts[N_OUTDATED] > 0 or (heap.low[at] == low and heap.high[at] == high):
            swap_entries(heap, at, kept)
            kept += 1
    graph.counts[HEAP_SIZE] = kept
    for at in range(kept):
        sift_up(heap, at)


@kernel
def push_edges(graph: GraphContraction, heap: EdgeHeap, slot: int) -> None:
    """Insert the attractive edges of a slot into the heap."""
    half = graph.head[slot]
    while half >= 0:
        e = half >> 1
        if graph.ends[e, 0] >= 0 and (graph.costs[e] > 0 or graph.sums.shape[0] > 0):
            push(graph, heap, e)
        half = graph.following[half]


@kernel
def move_edges(graph: GraphContraction, heap: EdgeHeap, source: int, target: int) -> None:
    """Move the edges of one slot to another; the costs of parallel edges add."""
    half = graph.head[source]
    while half >= 0:
        e, side = half >> 1, half & 1
        after = graph.following[half]
        if graph.ends[e, 0] >= 0:
            other = graph.ends[e, 1 - side]
            remove_pair(graph, source, other)
            parallel = add_pair(graph, target, other, e)
            if parallel != e:
                graph.costs[parallel] += graph.costs[e]
                graph.ends[e, 0] = -1
                graph.degree[other] -= 1
                e = parallel
            else:
                graph.ends[e, side] = target
                graph.following[half] = graph.head[target]
                graph.head[target] = half
                graph.degree[target] += 1
            if graph.costs[e] > 0 or graph.sums.shape[0] > 0:
                push(graph, heap, e)
        half = after


# The heap.


@kernel
def is_before(heap: EdgeHeap, s: int, t: int) -> bool:
    """Return whether the entry at position s precedes the one at position t."""
    if heap.costs[s] != heap.costs[t]:
        return heap.costs[s] > heap.costs[t]
    if heap.low[s] != heap.low[t]:
        return heap.low[s] < heap.low[t]
    return heap.high[s] < heap.high[t]


@kernel
def swap_entries(heap: EdgeHeap, s: int, t: int) -> None:
    heap.costs[s], heap.costs[t] = heap.costs[t], heap.costs[s]
    heap.low[s], heap.low[t] = heap.low[t], heap.low[s]
    heap.high[s], heap.high[t] = heap.high[t], heap.high[s]
    heap.edges[s], heap.edges[t] = heap.edges[t], heap.edges[s]


@kernel
def push(graph: GraphContraction, heap: EdgeHeap, e: int) -> None:
    """Insert edge e into the heap if it attracts."""
    cost = total_cost(graph, e)
    graph.keys_in_heap[e] = cost
    if not cost > 0:
        return
    at = graph.counts[HEAP_SIZE]
    heap.costs[at] = cost
    heap.low[at], heap.high[at] = lowest_items(graph, e)
    heap.edges[at] = e
    graph.counts[HEAP_SIZE] = at + 1
    sift_up(heap, at)


@kernel
def sift_up(heap: EdgeHeap, at: int) -> None:
    """Move the entry at a position up to where it belongs."""
    while at > 0 and is_before(heap, at, (at - 1) >> 1):
        swap_entries(heap, at, (at - 1) >> 1)
        at = (at - 1) >> 1


@kernel
def pop(graph: GraphContraction, heap: EdgeHeap) -> None:
    """Remove the first entry from the heap."""
    size = graph.counts[HEAP_SIZE] - 1
    graph.counts[HEAP_SIZE] = size
    swap_entries(heap, 0, size)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and is_before(heap, child + 1, child):
            child += 1
        if not is_before(heap, child, at):
            return
        swap_entries(heap, child, at)
        at = child


# The hash table from pairs of slots to edges.


@kernel
def key_of(graph: GraphContraction, a: int, b: int) -> int:
    return np.int64(min(a, b)) * graph.head.shape[0] + np.int64(max(a, b))


@kernel
def add_pair(graph: GraphContraction, a: int, b: int, e: int) -> int:
    """Return the edge between two slots; if there is none yet, it is edge e from now on."""
    key = key_of(graph, a, b)
    at = position_of(graph.keys, key)
    if graph.keys[at] < 0:
        graph.keys[at] = key
        graph.edges[at] = e
    return graph.edges[at]


@kernel
def remove_pair(graph: GraphContraction, a: int, b: int) -> None:
    remove_key(graph.keys, graph.edges, key_of(graph, a, b))
