"""An engine whose tasks run on the workers of a dask cluster, and the connection to its scheduler."""

import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from operator import itemgetter
from typing import Any
from uuid import uuid4

import distributed
from distributed.client import ClosedClientError, FutureCancelledError, FuturesCancelledError
from distributed.comm.core import CommClosedError

from clusterfug import checks
from clusterfug.execution import threads
from clusterfug.execution.sharded.engine import Engine

_CONNECT_SECONDS = 20  # time to wait for a scheduler, and for its first worker
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameters of mallopt
_TASK_THRESHOLD, _DEFAULT_MMAP_THRESHOLD = 1 << 25, 1 << 17  # bytes: in our tasks, and glibc's default
_LOST = (FutureCancelledError, ClosedClientError, CommClosedError)


class WorkersDiedError(ConnectionError):
    """Every worker that ran a task died."""


class DaskEngine(Engine):
    """Runs tasks on the workers of a client. Values that are lost with a worker are computed again."""

    def __init__(self, client: distributed.Client) -> None:
        self._client = client
        self._address = client.scheduler.address if client.scheduler else "the given address"

    def submit(self, function: Callable[..., Any], *arguments: Any) -> distributed.Future:
        return self._submit(function.__name__, run_keeping_memory, function, *arguments)

    def _submit(self, name: str, function: Callable[..., Any], *arguments: Any) -> distributed.Future:
        with self._explained():
            return self._client.submit(function, *arguments, key=f"clusterfug-{name}-{uuid4().hex}")

    def submit_alone(self, function: Callable[..., Any], *arguments: Any) -> distributed.Future:
        return self.submit(run_on_all_cores, function, *arguments)

    def split_pair(self, submitted: distributed.Future) -> tuple[distributed.Future, distributed.Future]:
        first, second = (self._submit("part", itemgetter(at), submitted) for at in (0, 1))
        return first, second

    def compute(self, delayed: list[Any]) -> list[distributed.Future]:
        """Compute delayed values of dask; they stay on the workers."""
        with self._explained():
            return self._client.compute(delayed)

    def value(self, submitted: distributed.Future) -> Any:
        with self._explained():
            return submitted.result()

    def done(self, submitted: distributed.Future) -> bool:
        return bool(submitted.done())

    def wait(self, submitted: list[distributed.Future]) -> None:
        with (
            self._explained(),
            self._client.as_current(),
            suppress(FuturesCancelledError),  # `value` raises the reason
        ):
            distributed.wait(submitted, return_when="FIRST_COMPLETED")

    def prefetch(self, submitted: Iterable[Any]) -> Iterable[Any]:
        return list(submitted)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except distributed.KilledWorker as error:
            raise WorkersDiedError(
                f"workers die at the same task (tried {error.allowed_failures + 1} times): give them more "
                "memory, or give a smaller memory_limit"
            ) from error
        except _LOST as error:
            if getattr(error, "reason", None) == "lost dependencies":
                raise ConnectionError(
                    "features that were scattered are lost with their worker and cannot be computed again: "
                    "use files, or an array that dask can compute"
                ) from error
            raise ConnectionError(
                f"the scheduler at {self._address} is gone: start it again and repeat the call; with a "
                "checkpoint it goes on where it stopped"
            ) from error


def run_keeping_memory(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, and return freed memory to the system only at its end.

    Workers of dask return it at once, which makes the allocation of arrays slow.
    """
    trim_threshold = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    libc = _glibc() if trim_threshold.isdigit() and "MALLOC_MMAP_THRESHOLD_" not in os.environ else None
    if libc is None:
        return function(*arguments)
    for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        libc.mallopt(option, _TASK_THRESHOLD)
    try:
        return function(*arguments)
    finally:
        libc.mallopt(_TRIM_THRESHOLD, int(trim_threshold))
        libc.mallopt(_MMAP_THRESHOLD, _DEFAULT_MMAP_THRESHOLD)
        libc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None


def run_on_all_cores(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function with BLAS on all cores; workers of dask limit it to one thread."""
    with threads.all_cores():
        return function(*arguments)


@contextmanager
def connected(client: Any) -> Iterator[distributed.Client]:
    """Yield the given client, one for the address of a scheduler, or the current one."""
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise ValueError(
                "there is no dask client: give client=distributed.Client(), or the address of a scheduler"
            ) from None
    if isinstance(client, distributed.Client):
        if client.asynchronous:
            raise TypeError("the dask client is asynchronous: give one that is not")
        if client.status != "running":
            raise ValueError(f"the dask client is {client.status}: give one that is connected")
        yield client
        return
    if not isinstance(client, str):
        raise TypeError(
            f"client must be a distributed.Client or a scheduler's address, not {checks.shown(client)}"
        )
    if re.fullmatch(r"((tcp|tls|ucx|ws|wss)://)?[^/]+:\d+|inproc://.+", client) is None:
        raise ValueError(f"the address of a scheduler is like tcp://host:8786, not {checks.shown(client)}")
    try:
        opened = distributed.Client(client, set_as_default=False, timeout=_CONNECT_SECONDS)
    except (OSError, ValueError) as error:
        raise ConnectionError(f"there is no scheduler at {client}: is it running?") from error
    with opened:
        try:
            opened.wait_for_workers(1, timeout=_CONNECT_SECONDS)
        except TimeoutError:
            raise ConnectionError(
                f"the scheduler at {client} has no workers: start some (dask worker {client})"
            ) from None
        yield opened
