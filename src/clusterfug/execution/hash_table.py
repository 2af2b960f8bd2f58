"""Hash tables of integers >= 0 in plain arrays, for kernels: open addressing with linear probing.

Unused positions hold -1, and the length is a power of two. `contraction/gaec.py` finds the edge of a pair
in one, and `refinement/sparse_costs.py` the groups of a cluster.
"""

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel


@kernel
def first_position(keys: NDArray[np.int64], key: int) -> int:
    """Where probing for a key starts; the halves are mixed by factors that do not overflow."""
    mixed = (key & 0xFFFFFFFF) * 0x5BD1E995 ^ (key >> 32) * 0x45D9F3B5
    return (mixed ^ (mixed >> 29)) & (keys.shape[0] - 1)


@kernel
def position_of(keys: NDArray[np.int64], key: int) -> int:
    """The position of a key, or the unused position for it."""
    mask = keys.shape[0] - 1
    at = first_position(keys, key)
    while keys[at] >= 0 and keys[at] != key:
        at = (at + 1) & mask
    return at


@kernel
def remove_key(keys: NDArray[np.int64], values: NDArray[np.integer], key: int) -> None:
    """Remove a key that is in the table, with its value. The gap is closed, so there are no tombstones.

    A table without values is given twice.
    """
    mask = keys.shape[0] - 1
    gap = position_of(keys, key)
    at = gap
    while True:
        at = (at + 1) & mask
        if keys[at] < 0:
            break
        home = first_position(keys, keys[at])
        if (at - home) & mask >= (at - gap) & mask:  # its probe sequence passes through the gap
            keys[gap] = keys[at]
            values[gap] = values[at]
            gap = at
    keys[gap] = -1
