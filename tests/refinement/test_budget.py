"""The budget of a refinement."""

import math

from clusterfug.refinement.budget import Budget


def test_iterations_are_counted_up_to_their_maximum():
    budget = Budget(max_iter=2)
    assert [budget.spend() for _ in range(3)] == [True, True, False]
    assert budget.spent() == (2, 2)
    assert not budget.over()


def test_no_time_is_over_at_once_and_unlimited_time_never():
    assert Budget(0.0).over()
    assert not Budget(0.0).spend()
    assert Budget(0.0).left() == 0
    assert Budget().left() == math.inf
    assert not Budget(math.inf).over()


def test_compilation_takes_nothing_of_the_time_limit(monkeypatch):
    seconds = iter([10.0, 10.5, 12.0])
    monkeypatch.setattr("clusterfug.refinement.budget.clock", lambda: next(seconds))
    budget = Budget(1.0)
    assert budget.left() == 0.5
    assert budget.over()
