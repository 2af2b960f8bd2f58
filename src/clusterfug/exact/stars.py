"""Star inequalities: how much a node can be together with others that are not with each other.

x is 1 on pairs that are together and 0 on pairs that are cut. A hub s and a set T of other nodes give

    sum over t in T of x[s, t]  -  sum over pairs t, u in T of x[t, u]  <=  1

because k members of T with s are k(k - 1)/2 pairs among themselves, and k - k(k - 1)/2 <= 1. Two members
make it the triangle inequality; more make the 2-partition inequality of Grötschel and Wakabayashi (1990)
with one node on one side, which closes most of the gap that triangles leave.
"""

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.jit import kernel
from clusterfug.problems.cost_kernels import Floats, Ints

Star = tuple[int, ...]  # the hub, then the members in order

_VIOLATED = 1e-5  # by at least this
_GAIN = 1e-6  # what one more member has to add


def violated(x: NDArray[np.float64], known: set[Star], most: int) -> list[Star]:
    """At most so many triangles and as many stars whose inequality x (n, n) violates, and no known ones.

    None only if x satisfies every triangle inequality.
    """
    found: dict[Star, None] = {}
    for largest in (2, len(x)):
        hubs, ends, members, excess = search(x, largest)
        sizes = np.diff(ends, prepend=0)
        far = np.argsort(-excess / np.sqrt(sizes * (sizes + 1)), kind="stable")  # the farthest from x first
        room = len(found) + most
        for at in far.tolist():
            star = (int(hubs[at]), *sorted(members[ends[at] - sizes[at] : ends[at]].tolist()))
            if star not in known:
                found[star] = None
            if len(found) == room:
                break
    return list(found)


@kernel
def search(x: Floats, largest: int) -> tuple[Ints, Ints, Ints, Floats]:
    """From every hub and every first member: add who adds most, up to so many who add something.

    Returns of each violated star the hub, the end of its members in the list of all members, the members,
    and by how much it is violated.
    """
    n = x.shape[0]
    hubs, ends, excess = np.empty(n * n, np.int64), np.empty(n * n, np.int64), np.empty(n * n)
    members = np.empty(16 * n, np.int64)
    gains = np.empty(n)
    stars = 0
    end = 0
    for hub in range(n):
        for first in range(n):
            if first == hub or x[hub, first] < _GAIN:
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
            while gains[v] > _GAIN and size < largest:
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
            if total > _VIOLATED:
                end += size
                hubs[stars], ends[stars], excess[stars] = hub, end, total
                stars += 1
    return hubs[:stars], ends[:stars], members[:end], excess[:stars]
