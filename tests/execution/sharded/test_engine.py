"""Engines, reductions in a tree, and coroutines of tasks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import memory_for, mixture

from clusterfug import dense_multicut
from clusterfug.execution.sharded import engine
from clusterfug.execution.sharded.engine import CoroutineScheduler, LocalEngine, tree_reduce

# Trees


def bracketed(text, **options):
    return tree_reduce(text, lambda group: f"({''.join(group)})", **options)


def test_a_tree_of_pairs():
    assert bracketed("a") == "a"
    assert bracketed("ab") == "(ab)"
    assert bracketed("abcd") == "((ab)(cd))"
    assert bracketed("abcdefg") == "(((ab)(cd))((ef)g))"


def test_the_last_group_may_be_combined_differently():
    def finish(group):
        return f"[{''.join(group)}]"

    assert bracketed("a", finish=finish) == "a"
    assert bracketed("ab", finish=finish) == "[ab]"
    assert bracketed("abcdefg", finish=finish) == "[((ab)(cd))((ef)g)]"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(0, 12))
def test_a_tree_keeps_the_order_and_the_limit_and_combines_at_least_two(sizes, limit):
    groups = []

    def combine(group):
        groups.append(group)
        return max(size for size, _ in group), [at for _, items in group for at in items]

    items = ((size, [at]) for at, size in enumerate(sizes))
    size, order = tree_reduce(items, combine, lambda pair: pair[0], limit)
    assert order == list(range(len(sizes)))
    assert size == max(sizes)
    assert all(len(group) > 1 for group in groups)
    for group in groups:
        first = [size for size, _ in group[:-1]]
        assert len(group) == 2 or sum(first) <= limit or group[-1][1][-1] == len(sizes) - 1


def test_groups_are_as_large_as_the_limit_allows():
    groups = []

    def combine(group):
        groups.append(list(group))
        return 3

    tree_reduce([3] * 8, combine, lambda size: size, 12)
    assert groups[0] == [3, 3, 3, 3]
    groups.clear()
    tree_reduce([5, 7, 1, 100, 100, 1], combine, lambda size: size, 12)
    assert groups[:2] == [[5, 7], [1, 100]]


@pytest.mark.parametrize("count", [1, 2, 3, 64, 100])
def test_at_most_two_items_of_every_level_exist_at_a_time(count):
    alive = most = 0

    def items():
        nonlocal alive, most
        for at in range(count):
            alive += 1
            most = max(most, alive)
            yield at

    def combine(group):
        nonlocal alive
        alive -= len(group) - 1
        return group

    tree_reduce(items(), combine)
    assert alive == 1
    assert most <= 2 * max(1, int(np.ceil(np.log2(count)))) + 1


# Values on disk


def test_values_go_to_disk_only_if_memory_is_limited():
    big = np.zeros(200_000)
    assert LocalEngine().submit(np.asarray, big) is big
    assert not LocalEngine(limited=True).submit(np.asarray, big).flags.owndata


@pytest.mark.parametrize("kind", ["array", "path"])
def test_a_memory_limit_sends_values_of_tasks_to_disk(monkeypatch, rng, tmp_path, kind):
    X, _ = mixture(rng, 60, 10)
    np.save(tmp_path / "x.npy", X)
    features, seen = X if kind == "array" else tmp_path / "x.npy", []
    monkeypatch.setattr(engine, "spilled", lambda value: seen.append(value) or value)
    dense_multicut(features, 0.4, memory_limit=memory_for(8, 8))
    assert seen
    seen.clear()
    dense_multicut(features, 0.4, checkpoint=tmp_path / "checkpoint")
    assert not seen


# Coroutines


class SlowEngine:
    """An engine whose tasks are done only when they were waited for."""

    def __init__(self):
        self.finished, self.waits = set(), []

    def done(self, task):
        return task in self.finished

    def wait(self, tasks):
        self.waits.append(list(tasks))
        self.finished.add(tasks[-1])

    def value(self, task):
        assert task in self.finished
        return task.upper()


def coroutine(*names):
    values = []
    for name in names:
        values += yield [name, name + name]
    return values


def test_coroutines_continue_while_another_is_waited_for():
    engine = SlowEngine()
    scheduler = CoroutineScheduler(engine)
    first, second = scheduler.start(coroutine("a", "b")), scheduler.start(coroutine("x", "y"))
    assert engine.waits == []
    assert first() == ["A", "AA", "B", "BB"]
    assert {"x", "xx", "y"} <= {task for tasks in engine.waits for task in tasks}
    assert second() == ["X", "XX", "Y", "YY"]


def test_a_coroutine_may_have_no_tasks_or_fail():
    def nothing():
        return 3
        yield

    def broken():
        yield ["a"]
        raise ValueError("broken")

    assert CoroutineScheduler(SlowEngine()).start(nothing())() == 3
    result = CoroutineScheduler(SlowEngine()).start(broken())
    with pytest.raises(ValueError, match="broken"):
        result()
