"""How hot loops are compiled: by numba, without the GIL, kept on disk between runs."""

from collections.abc import Callable
from typing import Any, TypeVar

#: How a long run tells where it is: phase, done, total.
Progress = Callable[[str, int, int], None]

F = TypeVar("F", bound=Callable[..., Any])

#: Reordering of sums, so that they vectorise; NaN and infinity keep their meaning.
REORDER = frozenset({"reassoc", "contract", "nsz"})


def kernel(function: F) -> F:
    """Compile a function over arrays."""
    return _compiled(function)


def reduction(function: F) -> F:
    """Compile a function that sums or takes maxima, in any order."""
    return _compiled(function, fastmath=set(REORDER))


def _compiled(function: F, **options: Any) -> F:
    from numba import njit

    try:
        return njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write a cache to
        return njit(nogil=True, **options)(function)
