"""The linear program: any prices give a bound, and Ctrl-C does not wait for HiGHS."""

import math
from itertools import permutations
from threading import Event

import numpy as np
import pytest
from makers import symmetric
from reference import objective, optimum, partitions

from clusterfug.exact import program
from clusterfug.exact.program import StarProgram
from clusterfug.exact.stars import violated_stars


def test_any_prices_make_a_bound(rng):
    costs = symmetric(7, rng.normal(size=21))
    weights = costs[np.triu_indices(7, 1)]
    relaxation = StarProgram(weights, 7)
    relaxation.add(violated_stars((costs > 0).astype(float), set(), 100))
    best = weights.sum() - optimum(costs)
    for _ in range(50):
        count = len(relaxation.stars)
        prices = rng.exponential(size=count) * rng.integers(0, 2, size=count)
        relaxed = relaxation._priced(weights, prices, np.zeros(21), np.ones(21))
        assert relaxed.bound >= best


def test_the_bound_of_the_program_is_never_rounded_below_the_optimum():
    every = list(partitions(6))
    for seed in range(30):
        costs = symmetric(6, np.random.default_rng(seed).normal(size=15))
        weights = costs[np.triu_indices(6, 1)]
        relaxation = StarProgram(weights, 6)
        relaxation.add([(hub, a, b) for hub, a, b in permutations(range(6), 3) if a < b])
        relaxed = relaxation.solve(np.zeros(15), np.ones(15), None)
        near = [labels for labels in every if objective(costs, labels) <= optimum(costs) + 1e-9]
        best = max(math.fsum([*weights, -objective(costs, labels)]) for labels in near)
        assert best <= relaxed.bound


def test_ctrl_c_does_not_wait_for_the_linear_program(monkeypatch):
    started, finish = Event(), Event()

    def endless(**arguments):
        started.set()
        assert finish.wait(300)
        raise RuntimeError("it was left to its end")

    def interrupt():
        assert started.wait(300)
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "linprog", endless)
    monkeypatch.setattr(program.threads, "check_stop", interrupt)
    relaxation = StarProgram(np.ones(3), 3)
    with pytest.raises(KeyboardInterrupt):
        relaxation.solve(np.zeros(3), np.ones(3), None)
    assert not finish.is_set()
    finish.set()


def test_a_failed_method_is_followed_by_the_other(monkeypatch):
    methods = []
    real = program.linprog

    def failing(**arguments):
        methods.append(arguments["method"])
        answer = real(**arguments)
        if len(methods) == 1:
            answer.status = 4
        return answer

    monkeypatch.setattr(program, "linprog", failing)
    relaxed = StarProgram(np.array([1.0, 1.0, -1.0]), 3).solve(np.zeros(3), np.ones(3), None)
    assert methods == ["highs-ipm", "highs-ds"]
    assert relaxed.bound == pytest.approx(2)
