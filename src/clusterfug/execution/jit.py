"""Compilation of hot loops: by numba, without the GIL, cached on disk between runs."""

import logging
import os
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

#: Callback that reports the progress of a long run: phase, done, total.
Progress = Callable[[str, int, int], None]

F = TypeVar("F", bound=Callable[..., Any])

#: Sums may be reordered, so that they vectorise; NaN and infinity keep their meaning.
_REORDERED_SUMS = frozenset({"reassoc", "contract", "nsz"})
_UNANNOUNCED_SECONDS = 1.0  # of compilation: a few new kernels are no reason for a message

_log = logging.getLogger("clusterfug")


def kernel(function: F) -> F:
    """Compile a function over arrays."""
    return _compiled(function)


def inlined(function: F) -> F:
    """Compile a short function that becomes part of the kernels that call it.

    A call of a function with large named tuples passes every field of every array, which takes longer than
    a short function itself.
    """
    return _compiled(function, forceinline=True)


def reduction(function: F) -> F:
    """Compile a function that computes sums or maxima, in any order."""
    return _compiled(function, fastmath=set(_REORDERED_SUMS))


def clock() -> float:
    """Return seconds of a clock that stands still while this process compiles kernels."""
    return _compilations().clock() if "numba" in sys.modules else time.perf_counter()


def _compiled(function: F, **options: Any) -> F:
    from numba import config, njit

    _compilations()
    try:
        return njit(cache=True, nogil=True, **options)(function)
    except RuntimeError:  # neither the folder of the package nor the user's cache folder is writable
        folder = _temporary_cache()
    before, config.CACHE_DIR = config.CACHE_DIR, folder  # type: ignore[attr-defined]
    try:
        return njit(cache=bool(folder), nogil=True, **options)(function)
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]


@cache
def _temporary_cache() -> str:
    """Return a folder for compiled kernels among temporary files, or "" if there is none.

    Numba executes what it finds there, so nobody else may be able to write to it.
    """
    with suppress(OSError, AttributeError):  # not on every system do files have a user
        folder = Path(tempfile.gettempdir()) / f"clusterfug-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            tempfile.TemporaryFile(dir=folder).close()
            return str(folder)
    _log.warning("clusterfug: no folder for compiled kernels is writable: set NUMBA_CACHE_DIR to one")
    return ""


@cache
def _compilations() -> Any:
    """Return the one listener of this process, which measures compilations and announces the first ones."""
    from numba.core import event

    class Compilations(event.Listener):
        """Numba holds a lock while it compiles, so calls of `on_start` and `on_end` do not overlap."""

        def __init__(self) -> None:
            self.depth, self.announced = 0, False
            self.past: tuple[float, float | None] = 0.0, None  # seconds so far; begin of the current one

        def clock(self) -> float:
            seconds, begin = self.past
            return (time.perf_counter() if begin is None else begin) - seconds

        def on_start(self, _: Any) -> None:
            now, self.depth = time.perf_counter(), self.depth + 1
            seconds, begin = self.past
            begin = now if begin is None else begin
            self.past = seconds, begin
            if not self.announced and seconds + now - begin > _UNANNOUNCED_SECONDS:
                self.announced = True
                _log.warning("clusterfug: compiling kernels, once; this takes about half a minute")

        def on_end(self, _: Any) -> None:
            seconds, begin = self.past
            if self.depth == 1 and begin is not None:
                self.past = seconds + time.perf_counter() - begin, None
            self.depth -= 1

    listener = Compilations()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    return listener
