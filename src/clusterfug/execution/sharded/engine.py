"""Where tasks run. Here: in this process, one after the other, each as soon as it is submitted."""

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain, islice
from typing import Any, Protocol

from clusterfug.execution.sharded.spill import spilled


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

    def done(self, submitted: Any) -> bool: ...

    def wait(self, submitted: list[Any]) -> None:
        """Until one of them is done."""
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

    def done(self, submitted: Any) -> bool:
        return True

    def wait(self, submitted: list[Any]) -> None:
        return None

    def ahead(self, submitted: Iterable[Any]) -> Iterable[Any]:
        return submitted


#: Work in steps: it yields tasks that it waits for, is sent their values, and returns something in the end.
Steps = Generator[list[Any], list[Any], Any]


class Errands:
    """Work in steps, several at a time: while one waits for its tasks, others go on."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: dict[Steps, list[Any]] = {}
        self._results: dict[Steps, Any] = {}

    def start(self, steps: Steps) -> Callable[[], Any]:
        """Begin; a function that waits for the end and returns the result, to be called once."""
        self._go_on(steps, None)

        def result() -> Any:
            while steps not in self._results:
                left = {
                    one: [task for task in tasks if not self._engine.done(task)]
                    for one, tasks in self._waiting.items()
                }
                ready = [one for one, tasks in left.items() if not tasks]
                for one in ready:
                    self._go_on(one, [self._engine.value(task) for task in self._waiting[one]])
                if not ready:
                    self._engine.wait([task for tasks in left.values() for task in tasks])
            return self._results.pop(steps)

        return result

    def _go_on(self, steps: Steps, values: Any) -> None:
        try:
            self._waiting[steps] = steps.send(values)
        except StopIteration as end:
            self._waiting.pop(steps, None)
            self._results[steps] = end.value


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
        level = groups(ahead(group[0] if len(group) == 1 else combine(group) for group in every))
