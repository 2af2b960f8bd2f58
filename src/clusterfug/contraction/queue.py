"""One number per node, and quickly the largest of all: keys in blocks, with the largest of each block."""

from typing import NamedTuple

import numpy as np

from clusterfug.execution.jit import kernel, reduction
from clusterfug.problems.cost_kernels import Floats

_BLOCK = 256


class Queue(NamedTuple):
    keys: Floats  # (n,)
    tops: Floats  # largest key of each block of _BLOCK nodes


def queue_of(n: int, key: float) -> Queue:
    """All nodes at the same key."""
    return Queue(np.full(n, key), np.full(-(-n // _BLOCK), key))


@reduction
def largest(values: Floats) -> float:
    top = values[0]
    for t in range(values.shape[0]):
        top = max(top, values[t])
    return top


@kernel
def set_key(queue: Queue, u: int, key: float) -> None:
    block = u // _BLOCK
    before = queue.keys[u]
    queue.keys[u] = key
    if key >= queue.tops[block]:
        queue.tops[block] = key
    elif before == queue.tops[block]:
        queue.tops[block] = largest(queue.keys[block * _BLOCK : (block + 1) * _BLOCK])


@kernel
def largest_key(queue: Queue) -> float:
    return largest(queue.tops)


@kernel
def next_at(queue: Queue, key: float, start: int) -> int:
    """The lowest node from `start` on with this key, the largest of all; -1 for none."""
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
