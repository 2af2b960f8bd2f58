"""Blocks of work on several threads, with results that do not depend on the number of threads.

A BLAS library adds in another order when it uses another number of threads. So it gets one thread, and the
blocks, which are always the same, are distributed over as many threads as it would have used.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from threading import Event, Lock, current_thread, local, main_thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PRODUCT_ROWS = 256  # rows of a block of `product`


class _ThreadState(local):
    """Settings and workspace of the current thread."""

    single_threaded = False
    stop: Event | None = None
    workspace: NDArray[np.uint8] | None = None


class _BlasLimit:
    """Process-wide limit of BLAS to one thread, and the number of callers that rely on it."""

    lock = Lock()
    users = 0
    threads = 1  # before the limit
    restore: Any = None


class _Interrupts:
    """What happened to Ctrl-C, if `keep_interrupts` was called."""

    received = False
    lost = False  # Python has ignored the KeyboardInterrupt, and nothing has raised it again


_current = _ThreadState()


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def slices(n: int, step: int) -> list[slice]:
    """Return 0..n-1 as slices of length `step`; the last may be shorter."""
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def for_each(function: Callable[[slice], None], blocks: Iterable[slice]) -> None:
    """Call the function for every block, in any order."""
    check_stop()
    blocks = list(blocks)
    with _one_blas_thread() as threads:
        if threads == 1 or len(blocks) == 1 or _current.single_threaded:
            for block in blocks:
                function(block)
            return
        running = [_pool(threads).submit(function, block) for block in blocks]
        try:
            for future in running:
                future.result()
        finally:
            wait(running)  # after Ctrl-C too: no thread writes to arrays that are in use again


@contextmanager
def single_threaded(stop: Event | None = None) -> Iterator[None]:
    """Make this thread do all its work itself, as one of several in parallel, until `stop` is set."""
    with _one_blas_thread():
        _current.single_threaded, _current.stop = True, stop
        try:
            yield
        finally:
            _current.single_threaded, _current.stop = False, None


def is_single_threaded() -> bool:
    return _current.single_threaded


@contextmanager
def all_cores() -> Iterator[None]:
    """Give BLAS a thread for every core, whatever its limit was."""
    with _blas().limit(limits=cores()):
        yield


def check_stop() -> None:
    """Raise KeyboardInterrupt if this thread is to stop; long work calls it regularly.

    Ctrl-C itself reaches only the main thread. If it was lost there, it is raised here.
    """
    if _current.stop is not None and _current.stop.is_set():
        raise KeyboardInterrupt
    if _Interrupts.lost and current_thread() is main_thread():
        _Interrupts.lost = False
        raise KeyboardInterrupt


def keep_interrupts() -> None:
    """Let `check_stop` raise a KeyboardInterrupt that Python ignores; the command line calls this.

    Python prints and ignores what is raised in a destructor or in a callback from C, as numba has them.
    Other errors there, after Ctrl-C, are consequences of work that was cut off, and are not printed either.
    """
    print_ignored = sys.unraisablehook

    def interrupt(number: int, frame: Any) -> None:
        _Interrupts.received, _Interrupts.lost = True, False
        raise KeyboardInterrupt

    def ignored(error: Any) -> None:
        if issubclass(error.exc_type, KeyboardInterrupt):
            _Interrupts.lost = True
        elif not _Interrupts.received:
            print_ignored(error)

    signal.signal(signal.SIGINT, interrupt)
    sys.unraisablehook = ignored


def interrupt_is_lost() -> bool:
    """Return whether a KeyboardInterrupt is still to be raised; an error may be its consequence."""
    return _Interrupts.lost


def scratch(rows: int, columns: int, dtype: Any) -> NDArray[Any]:
    """Return an uninitialised array that belongs to this thread until its next call.

    Allocating it anew is slow where freed memory goes back to the system at once, as on workers of dask.
    """
    size = rows * columns * np.dtype(dtype).itemsize
    if _current.workspace is None or len(_current.workspace) < size:
        _current.workspace = np.empty(size, dtype=np.uint8)
    return _current.workspace[:size].view(dtype).reshape(rows, columns)


def product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return left @ right, computed in blocks of rows."""
    out = np.empty((left.shape[0], right.shape[1]))

    def block(rows: slice) -> None:
        np.matmul(left[rows], right, out=out[rows])

    for_each(block, slices(len(left), _PRODUCT_ROWS))
    return out


@contextmanager
def _one_blas_thread() -> Iterator[int]:
    """Limit BLAS to one thread, until the last of several callers leaves; yield the number it had."""
    with _BlasLimit.lock:
        if _BlasLimit.users == 0:
            _unlock_blas()
            _BlasLimit.threads = max((library["num_threads"] for library in _blas().info()), default=1)
            _BlasLimit.restore = _blas().limit(limits=1)
        _BlasLimit.users += 1
    try:
        yield _BlasLimit.threads
    finally:
        with _BlasLimit.lock:
            _BlasLimit.users -= 1
            if _BlasLimit.users == 0:
                _unlock_blas()
                _BlasLimit.restore.restore_original_limits()
                _unlock_blas()


def _unlock_blas() -> None:
    """Let any thread set the limit of BLAS: here the last of several restores what the first has set.

    Since version 3.8 of threadpoolctl the thread that has set a limit is otherwise the only one that may.
    """
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool that is kept: BLAS allocates memory for each thread that calls it."""
    return ThreadPoolExecutor(threads, thread_name_prefix="clusterfug")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    np.ones((2, 2)) @ np.ones((2, 2))  # loads the library
    return ThreadpoolController().select(user_api="blas")
