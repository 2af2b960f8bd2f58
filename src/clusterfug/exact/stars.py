"""Separation of star inequalities: how much a node can be together with nodes that are not together.

x is 1 on pairs that are together and 0 on pairs that are cut. A hub s and a set T of other nodes give

    sum over t in T of x[s, t]  -  sum over pairs t, u in T of x[t, u]  <=  1

because if k members of T are with s, k(k - 1)/2 pairs of T are together, and k - k(k - 1)/2 <= 1. With two
members it is the triangle inequality; more members make it the 2-partition inequality of Grötschel and
Wakabayashi (1990) with one node on one side, which closes most of the gap that triangles leave.
"""

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints

Star = tuple[int, ...]  # the hub, then the members in order

MIN_VIOLATION = 1e-5
MIN_MEMBER_GAIN = 1e-6  # violation that another member has to add


def violated_stars(x: NDArray[np.float64], known: set[Star], most: int) -> list[Star]:
    """Return up to `most` triangles and as many stars that x (n, n) violates, except known ones.

    The list is empty only if x satisfies every triangle inequality.
    """
    found: dict[Star, None] = {}
    for largest in (2, len(x)):
        hubs, ends, members, violation = separate(x, largest)
        sizes = np.diff(ends, prepend=0)
        farthest_first = np.argsort(-violation / np.sqrt(sizes * (sizes + 1)), kind="stable")
        room = len(found) + most
        for at in farthest_first.tolist():
            star = (int(hubs[at]), *sorted(members[ends[at] - sizes[at] : ends[at]].tolist()))
            if star not in known:
                found[star] = None
            if len(found) == room:
                break
    return list(found)


@kernel
def separate(x: Floats, largest: int) -> tuple[Ints, Ints, Ints, Floats]:
    """Separate star inequalities greedily: starting from each pair of a hub and a first member, repeatedly
    add the member that increases the violation most, up to `largest` members.

    Returns the hub of each violated star, the end of its members in the array of all members, that array,
    and the violations.
    """
    n = x.shape[0]
    hubs, ends, violation = np.empty(n * n, np.int64), np.empty(n * n, np.int64), np.empty(n * n)
    members = np.empty(16 * n, np.int64)
    gains = np.empty(n)
    stars = 0
    end = 0
    for hub in range(n):
        for first in range(n):
            if first == hub or x[hub, first] < MIN_MEMBER_GAIN:
                continue
            if end + n > members.shape[0]:
                longer = np.empty(2 * members.shape[0] + n, np.int64)
                longer[:end] = members[:end]
                members = longer
            for v in range(n):
                gains[v] = x[hub, v]
            gains[hub] = -np.inf
            total = -1.0
            size = 0
            v = first
            while gains[v] > MIN_MEMBER_GAIN and size < largest:
                members[end + size] = v
                size += 1
                total += gains[v]
                gains[v] = -np.inf
                best = v
                for u in range(n):
                    gains[u] -= x[v, u]
                    if gains[u] > gains[best]:
                        best = u
                v = best
            if total > MIN_VIOLATION:
                end += size
                hubs[stars], ends[stars], violation[stars] = hub, end, total
                stars += 1
    return hubs[:stars], ends[:stars], members[:end], violation[:stars]
