"""A priority queue of nodes: one key per node in blocks, and the largest key of each block."""

from typing import NamedTuple

import numpy as np

from clusterfug.execution.jit import kernel
from clusterfug.neighbours.exact import largest_value
from clusterfug.problems.cost_kernels import Floats

_BLOCK = 256  # nodes per block


class NodeQueue(NamedTuple):
    """Keys of the nodes 0..n-1."""

    keys: Floats  # (n,)
    tops: Floats  # largest key of each block


def uniform_queue(n: int, key: float) -> NodeQueue:
    """Return a queue in which all nodes have the same key."""
    return NodeQueue(np.full(n, key), np.full(-(-n // _BLOCK), key))


@kernel
def set_key(queue: NodeQueue, u: int, key: float) -> None:
    """Change the key of node u."""
    block = u // _BLOCK
    before = queue.keys[u]
    queue.keys[u] = key
    if key >= queue.tops[block]:
        queue.tops[block] = key
    elif before == queue.tops[block]:
        queue.tops[block] = largest_value(queue.keys[block * _BLOCK : (block + 1) * _BLOCK])


@kernel
def largest_key(queue: NodeQueue) -> float:
    """Return the largest key of all nodes."""
    return largest_value(queue.tops)


@kernel
def first_with_key(queue: NodeQueue, key: float, start: int) -> int:
    """Return the lowest node >= `start` with this key, the largest of all; -1 if there is none."""
    n = queue.keys.shape[0]
    u = start
    while u < n:
        if u % _BLOCK == 0 and queue.tops[u // _BLOCK] != key:
            u += _BLOCK
        elif queue.keys[u] == key:
            return u
        else:
            u += 1
    return -1
