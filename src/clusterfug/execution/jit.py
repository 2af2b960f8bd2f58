"""Compilation of hot loops: by numba, without the GIL, cached on disk between runs."""

from collections.abc import Callable
from typing import Any, TypeVar

#: Callback that reports the progress of a long run: phase, done, total.
Progress = Callable[[str, int, int], None]

F = TypeVar("F", bound=Callable[..., Any])

#: Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_REORDERED_SUMS = frozenset({"reassoc", "contract", "nsz"})


def kernel(function: F) -> F:
    """Compile a function over arrays."""
    return _compiled(function)


def reduction(function: F) -> F:
    """Compile a function that computes sums or maxima, in any order."""
    return _compiled(function, fastmath=set(_REORDERED_SUMS))


def _compiled(function: F, **options: Any) -> F:
    from numba import njit

    try:
        return njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # there is no writable folder for numba's cache
        return njit(nogil=True, **options)(function)
