"""Engines run tasks: `LocalEngine` in this process, `execution.dask.engine.DaskEngine` on a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from clusterfug.execution.sharded.spill import spilled


class Engine(ABC):
    """Runs tasks. What `submit` returns stands for the value, also as an argument of another task.

    The methods with a body are for engines whose `submit` runs the task at once and returns its value.
    """

    @abstractmethod
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any: ...

    def submit_alone(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a task that no other task runs beside, so it may use all cores of its machine."""
        return self.submit(function, *arguments)

    def split_pair(self, submitted: Any) -> tuple[Any, Any]:
        """Return the two values of a task that returns a pair."""
        return submitted

    def value(self, submitted: Any) -> Any:
        """Return the value of a task; waits until it is done."""
        return submitted

    def done(self, submitted: Any) -> bool:
        return True

    def wait(self, submitted: list[Any]) -> None:  # noqa: B027
        """Wait until one of the tasks is done."""

    def prefetch(self, submitted: Iterable[Any]) -> Iterable[Any]:
        """Return the same tasks, all submitted before the first one is used if they run in parallel."""
        return submitted


class LocalEngine(Engine):
    """Runs every task in this process, as soon as it is submitted.

    With limited memory, large values are kept on disk until they are needed.
    """

    def __init__(self, limited: bool = False) -> None:
        self._limited = limited

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        value = function(*arguments)
        return spilled(value) if self._limited else value


#: Yields lists of tasks, is sent the lists of their values, and returns a result.
TaskCoroutine = Generator[list[Any], list[Any], Any]


class CoroutineScheduler:
    """Runs several task coroutines at a time: while one waits for its tasks, others continue."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[TaskCoroutine, list[Any]] = {}
        self._results: dict[TaskCoroutine, Any] = {}

    def start(self, coroutine: TaskCoroutine) -> Callable[[], Any]:
        """Start a coroutine and return a function, to be called once, that waits for its result."""
        self._resume(coroutine, None)

        def result() -> Any:
            while coroutine not in self._results:
                pending = {
                    one: [task for task in tasks if not self._engine.done(task)]
                    for one, tasks in self._waiting.items()
                }
                ready = [one for one, tasks in pending.items() if not tasks]
                for one in ready:
                    self._resume(one, [self._engine.value(task) for task in self._waiting[one]])
                if not ready:
                    self._engine.wait([task for tasks in pending.values() for task in tasks])
            return self._results.pop(coroutine)

        return result

    def _resume(self, coroutine: TaskCoroutine, values: Any) -> None:
        try:
            self._waiting[coroutine] = coroutine.send(values)
        except StopIteration as end:
            self._waiting.pop(coroutine, None)
            self._results[coroutine] = end.value


def tree_reduce(
    items: Iterable[Any],
    combine: Callable[[list[Any]], Any],
    size: Callable[[Any], int] = lambda _: 1,
    limit: int = 2,
    finish: Callable[[list[Any]], Any] | None = None,
    prefetch: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> Any:
    """Combine all items in groups, groups of groups and so on; the last group by `finish`, if given.

    A group consists of consecutive items: as many as have a total size within the limit, but at least two.
    So the shape of the tree follows from the sizes alone, and few items exist at any time. With `prefetch`
    all items of a level are submitted before the size of the first one is computed.
    """

    def groups(items: Iterable[Any]) -> Iterator[list[Any]]:
        group: list[Any] = []
        total = 0
        for item in items:
            total += size(item)
            if len(group) > 1 and total > limit:
                yield group
                group, total = [], size(item)
            group.append(item)
        yield group

    level = groups(items)
    while True:
        first, *second = islice(level, 2)
        if not second:
            return first[0] if len(first) == 1 else (finish or combine)(first)
        every = chain((first, *second), level)
        level = groups(prefetch(group[0] if len(group) == 1 else combine(group) for group in every))
