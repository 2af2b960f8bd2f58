"""Options of "fast", "auto" and "best": budgets, random states, interruption, errors."""

import numpy as np
import pytest

from clusterfug import DenseProblem, dense_multicut


def test_max_iter_and_random_state_make_best_repeatable(rng):
    problem = DenseProblem(rng.normal(size=(80, 4)), 0.5)
    runs = [dense_multicut(problem, algorithm="best", max_iter=2, random_state=s) for s in (1, 1, 2)]
    assert runs[0].labels.tolist() == runs[1].labels.tolist()
    assert dense_multicut(problem, algorithm="best", max_iter=0).trace[-1].move_optimal


def test_interrupting_the_search_returns_the_best_labels_so_far(rng):
    problem = DenseProblem(rng.normal(size=(120, 4)), 0.5)

    def interrupt_search(phase, done, total):
        if phase == "search":
            raise KeyboardInterrupt

    fast = dense_multicut(problem, algorithm="fast")
    stopped = dense_multicut(problem, algorithm="best", callback=interrupt_search)
    assert stopped.inside >= fast.inside
    assert stopped.trace[0].name == "multilevel"
    assert stopped.trace[-1].name == "interrupted"

    def interrupt(phase, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dense_multicut(problem, algorithm="best", callback=interrupt)


def test_the_search_on_a_small_problem_ends_without_a_time_limit(rng):
    problem = DenseProblem(rng.normal(size=(10, 3)), 0.4)
    assert dense_multicut(problem, algorithm="best", time_limit=np.inf).trace[-1].move_optimal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "fast", "init": [0] * 8}, "init must have one entry per item"),
        ({"algorithm": "fast", "init": [0.5] * 9}, "init must be integers"),
        ({"time_limit": -1}, "time_limit must be at least 0"),
        ({"max_iter": 3}, "max_iter goes with best, not with auto: leave it out"),
        ({"algorithm": "best", "max_iter": -1}, "max_iter must be at least 0"),
        ({"algorithm": "best", "random_state": "x"}, "random_state must be a whole number"),
        ({"k": 3}, "k goes with dgaec, dgaec-inc, dlaec, dapplaec, not with auto"),
        ({"refine": True}, "refine goes with gaec, dgaec, dgaec-inc, dlaec, dapplaec, not with auto"),
    ],
)
def test_wrong_options_are_one_line_errors(options, message):
    with pytest.raises((ValueError, TypeError), match=message) as error:
        dense_multicut(np.eye(9), 0.4, **options)
    assert "\n" not in str(error.value)
