"""A dask cluster as the place where tasks run."""

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

from clusterfug.execution import threads

_PATIENCE = 20  # seconds to wait for a scheduler, and for its first worker
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # what mallopt calls them
_KEPT, _USUAL = 1 << 25, 1 << 17  # bytes that glibc keeps in tasks of ours, and without being told
_LOST = (FutureCancelledError, ClosedClientError, CommClosedError)


class WorkersDiedError(ConnectionError):
    """A task that no worker survives."""


class Cluster:
    """Tasks on the workers of a client. What is lost with a worker is computed again."""

    def __init__(self, client: distributed.Client) -> None:
        self._client = client
        self._address = client.scheduler.address if client.scheduler else "the given address"

    def submit(self, function: Callable[..., Any], *arguments: Any) -> distributed.Future:
        return self._submit(function.__name__, keeping_memory, function, *arguments)

    def _submit(self, name: str, function: Callable[..., Any], *arguments: Any) -> distributed.Future:
        with self._explained():
            return self._client.submit(function, *arguments, key=f"clusterfug-{name}-{uuid4().hex}")

    def submit_alone(self, function: Callable[..., Any], *arguments: Any) -> distributed.Future:
        return self.submit(on_all_cores, function, *arguments)

    def parts(self, submitted: distributed.Future) -> tuple[distributed.Future, distributed.Future]:
        first, second = (self._submit("part", itemgetter(at), submitted) for at in (0, 1))
        return first, second

    def compute(self, delayed: list[Any]) -> list[distributed.Future]:
        """What dask knows how to compute, to be kept where it was computed."""
        with self._explained():
            futures: list[distributed.Future] = self._client.compute(delayed)
            return futures

    def value(self, submitted: distributed.Future) -> Any:
        with self._explained():
            return submitted.result()

    def done(self, submitted: distributed.Future) -> bool:
        return bool(submitted.done())

    def wait(self, submitted: list[distributed.Future]) -> None:
        with (
            self._explained(),
            self._client.as_current(),
            suppress(FuturesCancelledError),  # they are done: asking for their value says why
        ):
            distributed.wait(submitted, return_when="FIRST_COMPLETED")

    def ahead(self, submitted: Iterable[Any]) -> Iterable[Any]:
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
                    "features that were scattered are lost with their worker, and nobody can compute them "
                    "again: use files, or an array that dask can compute"
                ) from error
            raise ConnectionError(
                f"the scheduler at {self._address} is gone: start it again and repeat the call; with a "
                "checkpoint it goes on where it stopped"
            ) from error


def keeping_memory(function: Callable[..., Any], *arguments: Any) -> Any:
    """Workers give memory back as soon as it is free, which makes fresh arrays slow: not before the end."""
    told = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    libc = _glibc() if told.isdigit() and "MALLOC_MMAP_THRESHOLD_" not in os.environ else None
    if libc is None:
        return function(*arguments)
    for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
        libc.mallopt(option, _KEPT)
    try:
        return function(*arguments)
    finally:
        libc.mallopt(_TRIM_THRESHOLD, int(told))
        libc.mallopt(_MMAP_THRESHOLD, _USUAL)
        libc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None


def on_all_cores(function: Callable[..., Any], *arguments: Any) -> Any:
    """Workers tell BLAS to use one thread, since there are many of them; not when only one has work."""
    with threads.on_all_cores():
        return function(*arguments)


@contextmanager
def connected(client: Any) -> Iterator[distributed.Client]:
    """A client that is given, that of an address, or the one that is there already."""
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
        raise TypeError(f"client must be a distributed.Client or a scheduler's address, not {client!r}")
    if re.fullmatch(r"((tcp|tls|ucx|ws|wss)://)?[^/]+:\d+|inproc://.+", client) is None:
        raise ValueError(f"the address of a scheduler is like tcp://host:8786, not {client!r}")
    try:
        opened = distributed.Client(client, set_as_default=False, timeout=_PATIENCE)
    except (OSError, ValueError) as error:
        raise ConnectionError(f"there is no scheduler at {client}: is it running?") from error
    with opened:
        try:
            opened.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise ConnectionError(
                f"the scheduler at {client} has no workers: start some (dask worker {client})"
            ) from None
        yield opened
