"""GAEC on explicit graphs (Algorithm 1): contract the edge of largest cost until none attracts.

Attractive edges wait in a heap; an entry that no longer describes its edge is dropped when it comes
up. A contraction walks the shorter of the two adjacency lists and finds parallel edges in a hash
table of node pairs, so an edge is moved O(log n) times. Equal costs are decided by the names of nodes,
their lowest items: a node that gets a lower name keeps its entries in the heap, and queues its edges
anew only when a tie has to be decided.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.contraction.history import record
from clusterfug.execution import threads
from clusterfug.execution.jit import Progress, kernel
from clusterfug.problems.cost_kernels import Floats, Ints
from clusterfug.result import MERGE

_WORK = 1_000_000  # heap and adjacency operations per kernel call: a fraction of a second
FINISHED, INTERRUPTED, HEAP_FULL = range(3)

# Counters of a contraction, in Graph.counts.
MERGES, HEAP, RENAMED = range(3)


class Graph(NamedTuple):
    """A graph under contraction. A node lives in the slot of one of its items; `lowest` names it."""

    ends: Ints  # (m, 2) slots of an edge's two ends; -1 for an edge that is gone
    costs: Floats  # (m,)
    head: Ints  # (n,) first half-edge of a slot; half-edge 2 e + s is end s of edge e
    following: Ints  # (2 m,) next half-edge in the same slot, -1 at the end
    degree: Ints  # (n,)
    lowest: Ints  # (n,) lowest item of the node in a slot
    keys: Ints  # hash table of node pairs, open addressing; -1 for an empty place
    edges: Ints  # hash table: the edge of a pair
    renamed: Ints  # (n,) stack of slots whose edges are in the heap under an old name
    is_renamed: Ints  # (n,)
    merges: Any  # (n,) MERGE records
    counts: Ints


class Heap(NamedTuple):
    """Largest cost first, then the smaller lowest item, then the other."""

    costs: Floats
    low: Ints
    high: Ints
    edges: Ints


def gaec(
    ends: NDArray[np.int64], costs: NDArray[np.float64], n: int, progress: Progress | None = None
) -> NDArray[np.void]:
    """The contraction history of a simple graph: no loops, no parallel edges."""
    m = len(costs)
    places = 1 << max(4, (2 * m).bit_length())
    graph = Graph(
        ends=ends.astype(np.int32),
        costs=costs.astype(np.float64),
        head=np.full(n, -1, dtype=np.int32),
        following=np.full(2 * m, -1, dtype=np.int32),
        degree=np.bincount(ends.ravel(), minlength=n).astype(np.int32),
        lowest=np.arange(n, dtype=np.int32),
        keys=np.full(places, -1, dtype=np.int64),
        edges=np.empty(places, dtype=np.int32),
        merges=np.empty(n, dtype=MERGE),
        renamed=np.empty(n, dtype=np.int32),
        is_renamed=np.zeros(n, dtype=np.bool_),
        counts=np.zeros(3, dtype=np.int64),
    )
    heap = _heap(int(np.count_nonzero(costs > 0)) + n + 16)
    for start in range(0, m, _WORK):
        add_edges(graph, heap, start, min(m, start + _WORK))
    while (status := contract(graph, heap, _WORK)) != FINISHED:
        threads.look()
        if status == HEAP_FULL:
            drop_stale(graph, heap)
            if 2 * graph.counts[HEAP] > len(heap.costs) - 2 * m:
                heap = _grown(heap, int(graph.counts[HEAP]), 2 * m)
        if progress is not None:
            progress("contraction", int(graph.counts[MERGES]), n)
    return graph.merges[: graph.counts[MERGES]].copy()


def _heap(size: int) -> Heap:
    return Heap(np.empty(size), *(np.empty(size, dtype=np.int32) for _ in range(3)))


def _grown(heap: Heap, used: int, least: int) -> Heap:
    larger = _heap(max(2 * len(heap.costs), used + least))
    for new, old in zip(larger, heap, strict=True):
        new[:used] = old[:used]
    return larger


@kernel
def add_edges(graph: Graph, heap: Heap, start: int, stop: int) -> None:
    for e in range(start, stop):
        store(graph, graph.ends[e, 0], graph.ends[e, 1], e)
        for side in range(2):
            slot = graph.ends[e, side]
            graph.following[2 * e + side] = graph.head[slot]
            graph.head[slot] = 2 * e + side
        if graph.costs[e] > 0:
            push(graph, heap, e)


@kernel
def contract(graph: Graph, heap: Heap, work: int) -> int:
    """Contract until no edge attracts, `work` operations are done or the heap may overflow."""
    counts = graph.counts
    while work > 0:
        if counts[HEAP] == 0:
            return FINISHED
        work -= 1
        e = heap.edges[0]
        if not is_alive(graph, heap, 0):
            pop(graph, heap)
            continue
        room = heap.costs.shape[0] - counts[HEAP]
        if is_tied(graph, heap):
            if counts[RENAMED] > 0:
                slot = graph.renamed[counts[RENAMED] - 1]
                if room < graph.degree[slot]:
                    return HEAP_FULL
                counts[RENAMED] -= 1
                graph.is_renamed[slot] = False
                work -= graph.degree[slot]
                queue_edges(graph, heap, slot)
                continue
            if not is_named(graph, heap, 0):  # it is in the heap under its name, too
                pop(graph, heap)
                continue
        a, b = graph.ends[e]
        if graph.degree[a] < graph.degree[b]:
            a, b = b, a
        if room < graph.degree[b]:
            return HEAP_FULL
        low, high = names_of(graph, e)
        record(graph.merges[counts[MERGES]], low, high, graph.costs[e])
        counts[MERGES] += 1
        pop(graph, heap)
        remove(graph, a, b)
        graph.ends[e, 0] = -1
        graph.degree[a] -= 1
        if graph.lowest[b] < graph.lowest[a]:
            graph.lowest[a] = graph.lowest[b]
            if not graph.is_renamed[a]:
                graph.is_renamed[a] = True
                graph.renamed[counts[RENAMED]] = a
                counts[RENAMED] += 1
        work -= graph.degree[b]
        move_edges(graph, heap, b, a)
        graph.degree[b] = 0
        graph.head[b] = -1
    return INTERRUPTED


@kernel
def names_of(graph: Graph, e: int) -> tuple[int, int]:
    """The names of the ends of an edge, lower first."""
    a, b = graph.lowest[graph.ends[e, 0]], graph.lowest[graph.ends[e, 1]]
    return min(a, b), max(a, b)


@kernel
def is_alive(graph: Graph, heap: Heap, at: int) -> bool:
    """Whether the edge of an entry exists and costs what the entry says."""
    e = heap.edges[at]
    return graph.ends[e, 0] >= 0 and heap.costs[at] == graph.costs[e]


@kernel
def is_named(graph: Graph, heap: Heap, at: int) -> bool:
    """Whether an entry carries the present names of the ends of its edge."""
    low, high = names_of(graph, heap.edges[at])
    return heap.low[at] == low and heap.high[at] == high


@kernel
def is_tied(graph: Graph, heap: Heap) -> bool:
    """Whether another entry costs as much as the first."""
    size = graph.counts[HEAP]
    return (size > 1 and heap.costs[1] == heap.costs[0]) or (size > 2 and heap.costs[2] == heap.costs[0])


@kernel
def drop_stale(graph: Graph, heap: Heap) -> None:
    """Keep the entries that are alive and, where no renamed node waits, carry present names."""
    size = graph.counts[HEAP]
    kept = 0
    for at in range(size):
        if is_alive(graph, heap, at) and (graph.counts[RENAMED] > 0 or is_named(graph, heap, at)):
            swap(heap, at, kept)
            kept += 1
    graph.counts[HEAP] = 0
    for _ in range(kept):
        graph.counts[HEAP] += 1
        sift_up(heap, graph.counts[HEAP] - 1)


@kernel
def queue_edges(graph: Graph, heap: Heap, slot: int) -> None:
    half = graph.head[slot]
    while half >= 0:
        e = half >> 1
        if graph.ends[e, 0] >= 0 and graph.costs[e] > 0:
            push(graph, heap, e)
        half = graph.following[half]


@kernel
def move_edges(graph: Graph, heap: Heap, source: int, target: int) -> None:
    """Give the edges of one slot to another; costs of edges that become parallel add."""
    half = graph.head[source]
    while half >= 0:
        e, side = half >> 1, half & 1
        after = graph.following[half]
        if graph.ends[e, 0] >= 0:
            other = graph.ends[e, 1 - side]
            remove(graph, source, other)
            parallel = edge_between(graph, target, other)
            if parallel >= 0:
                graph.costs[parallel] += graph.costs[e]
                graph.ends[e, 0] = -1
                graph.degree[other] -= 1
                e = parallel
            else:
                graph.ends[e, side] = target
                store(graph, target, other, e)
                graph.following[half] = graph.head[target]
                graph.head[target] = half
                graph.degree[target] += 1
            if graph.costs[e] > 0:
                push(graph, heap, e)
        half = after


# The heap.


@kernel
def is_before(heap: Heap, s: int, t: int) -> bool:
    if heap.costs[s] != heap.costs[t]:
        return heap.costs[s] > heap.costs[t]
    if heap.low[s] != heap.low[t]:
        return heap.low[s] < heap.low[t]
    return heap.high[s] < heap.high[t]


@kernel
def swap(heap: Heap, s: int, t: int) -> None:
    heap.costs[s], heap.costs[t] = heap.costs[t], heap.costs[s]
    heap.low[s], heap.low[t] = heap.low[t], heap.low[s]
    heap.high[s], heap.high[t] = heap.high[t], heap.high[s]
    heap.edges[s], heap.edges[t] = heap.edges[t], heap.edges[s]


@kernel
def push(graph: Graph, heap: Heap, e: int) -> None:
    at = graph.counts[HEAP]
    heap.costs[at] = graph.costs[e]
    heap.low[at], heap.high[at] = names_of(graph, e)
    heap.edges[at] = e
    graph.counts[HEAP] = at + 1
    sift_up(heap, at)


@kernel
def sift_up(heap: Heap, at: int) -> None:
    while at > 0 and is_before(heap, at, (at - 1) >> 1):
        swap(heap, at, (at - 1) >> 1)
        at = (at - 1) >> 1


@kernel
def pop(graph: Graph, heap: Heap) -> None:
    size = graph.counts[HEAP] - 1
    graph.counts[HEAP] = size
    swap(heap, 0, size)
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and is_before(heap, child + 1, child):
            child += 1
        if not is_before(heap, child, at):
            return
        swap(heap, child, at)
        at = child


# The hash table: linear probing; removal closes the gap, so there are no tombstones.


@kernel
def key_of(graph: Graph, a: int, b: int) -> np.int64:
    return np.int64(min(a, b)) * graph.head.shape[0] + np.int64(max(a, b))


@kernel
def home_of(graph: Graph, key: np.int64) -> np.int64:
    """Where probing for a key starts; the halves are mixed by factors that do not overflow."""
    mixed = (key & 0xFFFFFFFF) * 0x5BD1E995 ^ (key >> 32) * 0x45D9F3B5
    return (mixed ^ (mixed >> 29)) & (graph.keys.shape[0] - 1)


@kernel
def place_of(graph: Graph, key: np.int64) -> np.int64:
    """Where a key is, or the empty place where it would go."""
    mask = graph.keys.shape[0] - 1
    at = home_of(graph, key)
    while graph.keys[at] >= 0 and graph.keys[at] != key:
        at = (at + 1) & mask
    return at


@kernel
def edge_between(graph: Graph, a: int, b: int) -> int:
    at = place_of(graph, key_of(graph, a, b))
    return graph.edges[at] if graph.keys[at] >= 0 else -1


@kernel
def store(graph: Graph, a: int, b: int, e: int) -> None:
    key = key_of(graph, a, b)
    at = place_of(graph, key)
    graph.keys[at] = key
    graph.edges[at] = e


@kernel
def remove(graph: Graph, a: int, b: int) -> None:
    mask = graph.keys.shape[0] - 1
    gap = place_of(graph, key_of(graph, a, b))
    at = gap
    while True:
        at = (at + 1) & mask
        if graph.keys[at] < 0:
            break
        home = home_of(graph, graph.keys[at])
        if (at - home) & mask >= (at - gap) & mask:  # its probe sequence passes through the gap
            graph.keys[gap] = graph.keys[at]
            graph.edges[gap] = graph.edges[at]
            gap = at
    graph.keys[gap] = -1
