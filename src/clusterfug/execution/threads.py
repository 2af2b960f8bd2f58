"""Products in blocks, on several threads, with the same bits on any number of them.

A BLAS library adds up in another order when it has other threads to share the work with. So it gets one
thread, and the blocks, which are always the same, are dealt out to as many threads as it would have had.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from threading import Event, Lock, local
from typing import Any

import numpy as np
from numpy.typing import NDArray


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def slices(n: int, step: int) -> list[slice]:
    """0..n-1 in blocks of so many."""
    return [slice(start, min(n, start + step)) for start in range(0, n, step)]


def each(function: Callable[[slice], None], blocks: Iterable[slice]) -> None:
    """Call the function for every block; it must not matter which goes first."""
    look()
    blocks = list(blocks)
    with _one_blas_thread() as threads:
        if threads == 1 or len(blocks) == 1 or _here.alone:
            for block in blocks:
                function(block)
            return
        running = [_pool(threads).submit(function, block) for block in blocks]
        try:
            for done in running:
                done.result()
        finally:
            wait(running)  # after Ctrl-C too: nobody writes behind our back


class _Here(local):
    """What holds for one thread."""

    alone = False
    stop: Event | None = None
    memory: NDArray[np.uint8] | None = None


_here = _Here()


@contextmanager
def alone(stop: Event | None = None) -> Iterator[None]:
    """This thread does all its work itself, as one of several side by side, until `stop` is set."""
    with _one_blas_thread():
        _here.alone, _here.stop = True, stop
        try:
            yield
        finally:
            _here.alone, _here.stop = False, None


@contextmanager
def on_all_cores() -> Iterator[None]:
    """BLAS has a thread for every core, however few it was given."""
    with _blas().limit(limits=cores()):
        yield


def is_alone() -> bool:
    return _here.alone


def look() -> None:
    """Called now and then by long work: KeyboardInterrupt if this thread is to stop.

    Ctrl-C itself reaches only the main thread.
    """
    if _here.stop is not None and _here.stop.is_set():
        raise KeyboardInterrupt


class _Limit:
    """BLAS has one thread for the whole process while anybody is inside; the last one out restores it."""

    lock = Lock()
    inside = 0
    threads = 1  # that BLAS had before
    restore: Any = None


@contextmanager
def _one_blas_thread() -> Iterator[int]:
    """BLAS with one thread; how many it had."""
    with _Limit.lock:
        if _Limit.inside == 0:
            _Limit.threads = max((library["num_threads"] for library in _blas().info()), default=1)
            _Limit.restore = _blas().limit(limits=1)
        _Limit.inside += 1
    try:
        yield _Limit.threads
    finally:
        with _Limit.lock:
            _Limit.inside -= 1
            if _Limit.inside == 0:
                _Limit.restore.restore_original_limits()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that stay: BLAS keeps memory for each that calls it."""
    return ThreadPoolExecutor(threads, thread_name_prefix="clusterfug")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    np.ones((2, 2)) @ np.ones((2, 2))  # the library is there
    return ThreadpoolController().select(user_api="blas")


def scratch(rows: int, columns: int, dtype: Any) -> NDArray[Any]:
    """An array to write to that is this thread's until it asks for the next one.

    Where memory goes back to the system as soon as it is free, as on workers of dask, fresh ones are slow.
    """
    size = rows * columns * np.dtype(dtype).itemsize
    if _here.memory is None or len(_here.memory) < size:
        _here.memory = np.empty(size, dtype=np.uint8)
    return _here.memory[:size].view(dtype).reshape(rows, columns)


def product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """left @ right, in blocks of rows."""
    out = np.empty((left.shape[0], right.shape[1]))

    def block(rows: slice) -> None:
        np.matmul(left[rows], right, out=out[rows])

    each(block, slices(len(left), 256))
    return out
