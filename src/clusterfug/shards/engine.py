"""Where tasks run. Here: in this process, one after the other, each as soon as it is submitted."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Protocol

from clusterfug.shards.spill import spilled


class Engine(Protocol):
    """Runs tasks; what `submit` returns stands for the value, also as an argument of another task."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any: ...

    def submit_alone(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The same, for what nothing else runs beside: it may use all cores of its machine."""
        ...

    def parts(self, submitted: Any) -> tuple[Any, Any]:
        """The two values of a task that has a pair of them."""
        ...

    def value(self, submitted: Any) -> Any:
        """What came of a task, when it is done."""
        ...

    def ahead(self, submitted: Iterable[Any]) -> Iterable[Any]:
        """The same, submitted as far ahead as there is somebody to work on it."""
        ...


class Here:
    """Where memory is limited, large values wait on disk until they are needed."""

    def __init__(self, limited: bool = False) -> None:
        self._limited = limited

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        value = function(*arguments)
        return spilled(value) if self._limited else value

    def submit_alone(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return self.submit(function, *arguments)

    def parts(self, submitted: Any) -> tuple[Any, Any]:
        first, second = submitted
        return first, second

    def value(self, submitted: Any) -> Any:
        return submitted

    def ahead(self, submitted: Iterable[Any]) -> Iterable[Any]:
        return submitted


def tree(
    items: Iterable[Any],
    combine: Callable[[list[Any]], Any],
    size: Callable[[Any], int] = lambda _: 1,
    limit: int = 2,
    finish: Callable[[list[Any]], Any] | None = None,
    ahead: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> Any:
    """All items combined in groups, groups of groups and so on; the last group by `finish`, if given.

    A group is consecutive items: as many as stay within a limit together, but two at least. So the shape
    follows from the sizes alone, and few items are waiting at any time. With `ahead` those of a level are
    all on their way before the size of the first of them is asked for.
    """

    def groups(items: Iterable[Any]) -> Iterator[list[Any]]:
        group: list[Any] = []
        for item in items:
            if len(group) > 1 and sum(map(size, group)) + size(item) > limit:
                yield group
                group = []
            group.append(item)
        yield group

    level = groups(items)
    while True:
        first, *second = islice(level, 2)
        if not second:
            return first[0] if len(first) == 1 else (finish or combine)(first)
        every = chain((first, *second), level)
        level = groups(ahead(group[0] if len(group) == 1 else combine(group) for group in every))
