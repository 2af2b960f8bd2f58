"""Neighbourhoods as parts: an improvement of the part is an improvement of the whole problem."""

import makers
import numpy as np
import pytest

from clusterfug import DenseProblem
from clusterfug.refinement import iterated
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.iterated import iterated_local_search, polish, subproblem_around
from clusterfug.refinement.kernighan_lin import kernighan_lin
from clusterfug.refinement.multilevel import refine
from clusterfug.result import compact


def problem_of(kind, rng, n):
    return (
        DenseProblem(rng.normal(size=(n, 4)), 0.5) if kind == "dense" else makers.random_graph(rng, n, 0.1)
    )


@pytest.mark.parametrize("kind", ["dense", "graph"])
def test_the_gain_of_a_neighbourhood_is_that_of_the_problem(rng, kind):
    problem = problem_of(kind, rng, 200)
    labels = compact(rng.integers(0, 6, size=200))  # clusters exceed their share: the rests are contracted
    near = subproblem_around(problem, labels, 7, 30)
    assert len(near.part.labels) < len(near.items)
    before, inside = near.part.inside[0], problem.inside(labels)
    kernighan_lin(near.part)
    after = labels.copy()
    after[near.items] = 1000 + near.part.labels[near.groups]
    assert near.part.inside[0] > before
    assert problem.inside(after) - inside == pytest.approx(near.part.inside[0] - before, rel=1e-9)


@pytest.mark.parametrize("kind", ["dense", "graph"])
@pytest.mark.parametrize("max_part_items", [0, 2000])
def test_polishing_and_searching_never_lose(rng, monkeypatch, kind, max_part_items):
    monkeypatch.setattr(iterated, "MAX_PART_ITEMS", max_part_items)
    monkeypatch.setattr(iterated, "_MAX_NODES", 60)
    problem = problem_of(kind, rng, 150)
    labels = refine(problem, np.arange(150), Budget()).labels
    polished = polish(problem, labels, 40, np.random.default_rng(0), Budget())
    assert problem.inside(polished) >= problem.inside(labels)
    found = list(iterated_local_search(problem, polished, Budget(max_iter=5), np.random.default_rng(0)))
    assert len(found) == 5
    inside = [problem.inside(labels) for labels in (polished, *found)]
    assert np.all(np.diff(inside) >= -1e-9)
