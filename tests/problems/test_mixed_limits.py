"""Mixed problems at the limits: costs of very different magnitudes, and nodes that nothing concerns."""

import numpy as np
import pytest

from clusterfug import (
    DenseProblem,
    GraphProblem,
    MixedProblem,
    dense_multicut,
    lower_bound,
    multicut,
    verify_bound,
)
from clusterfug.problems import mixed as module
from clusterfug.problems.links import make_links

REFINED = ("fast", "auto", "best", "exact")


@pytest.fixture(params=["as it is", "as a graph"])
def path(request, monkeypatch):
    """Small problems are solved as complete graphs; those of this fixture also as large ones are."""
    monkeypatch.setattr(module, "MAX_COMPLETE", 0 if request.param == "as it is" else 64)


def solve(problem, algorithm, **keywords):
    options = {"max_iter": 3} if algorithm == "best" else {}
    return multicut(problem, algorithm=algorithm, **options, **keywords)


def stuck(algorithm="fast", **keywords):
    """Labels that no single move and no join improves, beside a pair that costs 1e30; optimal is -4.8."""
    problem = MixedProblem(np.zeros((6, 1)), [[0, 1], [2, 3], [4, 5]], [1e30, 1.4, 1.4], threshold=0.4)
    return solve(problem, algorithm, init=[0, 0, 1, 1, 1, 1], **keywords)


def test_huge_costs_that_attract_do_not_make_a_poor_clustering_optimal(path):
    result = stuck(bound=True)
    assert result.objective == pytest.approx(-3.2)
    assert not result.optimal
    assert result.bound.rounding < 1e-6
    assert stuck("exact").objective == pytest.approx(-4.8)
    assert stuck("exact").optimal


@pytest.mark.parametrize("algorithm", ["gaec", "auto", "exact"])
def test_costs_beyond_those_of_an_edge_are_solved(algorithm):
    """Costs of features may be larger than what a user may give for an edge, and so may sums of edges."""
    X = np.array([[1.0], [1.0], [-1.0]]) * 1e100
    assert solve(DenseProblem(X, 0.0), algorithm).labels.tolist() == [0, 0, 1]
    assert solve(MixedProblem(X, [[0, 1]], [1.0], 0.0), algorithm).labels.tolist() == [0, 0, 1]
    sums = MixedProblem(np.zeros((3, 1)), [[0, 1], [1, 2]], [1e150, -1.0], threshold=0.0)
    assert solve(sums, algorithm, must_link=[[0, 1]], link_weight=1e150).labels.tolist() == [0, 0, 1]


@pytest.mark.parametrize("algorithm", ["gaec", *REFINED])
def test_nodes_without_edges_and_links_stay_alone(path, algorithm):
    init = {} if algorithm == "gaec" else {"init": [0] * 6}
    for links in ({"must_link": [[0, 2]]}, {"cannot_link": [[0, 2]]}, {"exclusive": [1, 0, 1, 2, 3, 4]}):
        result = solve(GraphProblem([[0, 1]], [1.0], 6), algorithm, **init, **links)
        assert np.all(np.bincount(result.labels)[result.labels[3:]] == 1)


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e45, 1e140])
def test_bounds_of_many_items_know_costs_of_any_scale(scale):
    """Triangles of more than 1,000 items are packed in float32."""
    edges = np.concatenate([[[i, i + 1], [i + 1, i + 2], [i, i + 2]] for i in range(0, 1050, 3)])
    problem = MixedProblem(
        np.full((1052, 1), 1e-3), edges, np.tile([1.0, 1.0, -3.0], 350) * scale, threshold=0.0
    )
    bound = lower_bound(problem)
    assert verify_bound(problem, bound)
    least = -700 * scale if scale > 1 else 0.0  # of each three edges two are cut, or all items attract
    assert least - max(1e-3 * abs(least), 1e-9) <= bound.value <= least


def test_links_are_of_as_many_items_as_the_problem():
    links = make_links(3, must_link=[[0, 1]])
    with pytest.raises(ValueError, match="the links are of 3 items, but the problem has 4"):
        DenseProblem(np.eye(4), 0.5).linked(links)
    linked = DenseProblem(np.eye(3), 0.5).linked(links)
    with pytest.raises(ValueError, match="the problem has links already"):
        linked.linked(links)


def test_soft_groups_too_large_to_write_down_are_refused(monkeypatch):
    monkeypatch.setattr("clusterfug.problems.apart.MAX_PAIRS", 5)
    with pytest.raises(MemoryError, match="10 pairs, too many to write down"):
        dense_multicut(np.eye(5), 0.5, exclusive=[0] * 5, link_weight=1.0)
    assert dense_multicut(np.eye(5), -0.5, exclusive=[0] * 5).n_clusters == 5


def test_features_in_a_file_have_links(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    result = dense_multicut(tmp_path / "x.npy", 0.5, must_link=[[0, 2]])
    np.testing.assert_array_equal(result.labels, [0, 1, 0])
