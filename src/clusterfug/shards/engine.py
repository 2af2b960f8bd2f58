"""Where tasks run. Here: in this process, one after the other, each as soon as it is submitted."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol


class Engine(Protocol):
    """Runs tasks; what `submit` returns stands for the value, also as an argument of another task."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any: ...

    def submit_alone(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The same, for what nothing else runs beside: it may use all cores of its machine."""
        ...

    def value(self, submitted: Any) -> Any:
        """What came of a task, when it is done."""
        ...

    def done(self, submitted: Any) -> bool: ...

    def ahead(self, submitted: Iterable[Any]) -> Iterable[Any]:
        """The same, submitted as far ahead as there is somebody to work on it."""
        ...


class Here:
    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def submit_alone(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def value(self, submitted: Any) -> Any:
        return submitted

    def done(self, submitted: Any) -> bool:
        return True

    def ahead(self, submitted: Iterable[Any]) -> Iterable[Any]:
        return submitted


def tree(
    items: Iterable[Any],
    combine: Callable[[list[Any]], Any],
    size: Callable[[Any], int] = lambda _: 1,
    limit: int = 2,
    finish: Callable[[list[Any]], Any] | None = None,
) -> Any:
    """All items combined in groups, groups of groups and so on, as soon as a group is full.

    A group is consecutive items: as many as stay within a limit together, but two at least. So the shape
    follows from the sizes alone, and few items are waiting at any time. When no more items come, `finish`
    (if it is another function) combines what is left, one after the other.
    """
    waiting: list[list[Any]] = []

    def take(item: Any, level: int) -> None:
        if level == len(waiting):
            waiting.append([])
        group = waiting[level]
        if len(group) > 1 and sum(map(size, group)) + size(item) > limit:
            waiting[level] = []
            take(combine(group), level + 1)
        waiting[level].append(item)

    for item in items:
        take(item, 0)
    last: list[Any] = []
    for group in waiting:
        last = [*group, *last]
        if len(last) > 1:
            last = [(finish or combine)(last)]
    return last[0]
