"""Moves and multilevel refinement of tensor problems: never worse, and certificates that hold."""

import numpy as np
import pytest
import torch
from makers import split_by_problem, uneven_mixture
from reference import best_single_change, cost_matrix

from clusterfug import DenseProblem, dense_multicut
from clusterfug.execution.torch.moves import move_items
from clusterfug.execution.torch.multilevel import refinement_steps
from clusterfug.refinement.budget import Budget


def solved(problem, init=None):
    """All steps of a run."""
    return list(refinement_steps(problem, init, Budget()))


def inside(problem, labels):
    """Total cost inside clusters, per problem."""
    return problem.inside(problem.contract(labels)[0])


def single_changes(problem, costs, labels):
    """The largest gains of a move and of a join in each problem, by trying all."""
    own = split_by_problem(problem, labels)
    return np.array([best_single_change(*pair) for pair in zip(costs, own, strict=True)])


@pytest.fixture
def hard(packed):
    """A function that returns a pack of problems that are hard to cluster, and their costs."""

    def hard(rng, threshold, search_dtype=torch.float32):
        features = [
            uneven_mixture(rng, 150, 16, 8),
            uneven_mixture(rng, 40, 16, 3, 0.2, 2.0),
            rng.normal(size=(60, 16)) / 4,
        ]
        return packed(features, threshold, search_dtype), [cost_matrix(X, threshold) for X in features]

    return hard


@pytest.mark.parametrize("threshold", [-0.05, 0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("seed", range(3))
def test_certificates_hold_for_every_problem_and_runs_are_deterministic(hard, threshold, seed):
    problem, costs = hard(np.random.default_rng(seed), threshold)
    last = solved(problem)[-1]
    assert last.move_optimal.all()
    assert last.join_optimal.all()
    assert single_changes(problem, costs, last.labels).max() < 1e-9
    assert torch.equal(last.labels, solved(problem)[-1].labels)


@pytest.mark.parametrize("exact", [False, True])
def test_moves_never_make_a_problem_worse(backend, rng, hard, exact):
    problem, costs = hard(rng, 0.2)
    for clusters in (1, 5, 100):
        labels = torch.tensor(rng.integers(clusters, size=problem.n), device=backend)
        better, certain = move_items(problem, labels, Budget(), exact)
        assert (inside(problem, better) >= inside(problem, labels)).all()
        assert bool(certain.all()) == bool(certain.any()) == exact
        if exact:
            assert single_changes(problem, costs, better)[:, 0].max() < 1e-9
        same, certain = move_items(problem, better, Budget(time_limit=0), exact)
        assert not certain.any()
        torch.testing.assert_close(inside(problem, same), inside(problem, better))


@pytest.mark.parametrize("search_dtype", [torch.float32, torch.bfloat16], ids=str)
def test_steps_never_make_a_problem_worse(backend, rng, hard, search_dtype):
    problem, costs = hard(rng, 0.2, search_dtype)
    for init in (None, torch.tensor(rng.integers(9, size=problem.n), device=backend)):
        before = 0 * problem.own_total if init is None else inside(problem, init)
        for step in solved(problem, init):
            after = inside(problem, step.labels)
            assert (after >= before - 1e-9).all()
            before = after
        gains = single_changes(problem, costs, step.labels).max(0)
        assert not step.move_optimal.any() or gains[0] < 1e-9
        assert not step.join_optimal.any() or gains[1] < 1e-9


@pytest.mark.parametrize("part_size", [1, 33, 128, 10**6])
def test_streamed_features_are_refined_to_the_same_labels(backend, rng, packed, streamed, part_size):
    problem = packed([uneven_mixture(rng, 120, 16, 6)], 0.2)
    init = torch.tensor(rng.integers(9, size=120), device=backend)
    found, expected = solved(streamed(problem, part_size), init)[-1], solved(problem, init)[-1]
    assert torch.equal(found.labels, expected.labels)
    assert found.move_optimal.all()
    assert found.join_optimal.all()


def test_streamed_features_are_contracted_in_parts(rng, packed, streamed):
    X = uneven_mixture(rng, 300, 16, 6)
    problem = packed([X], 0.2)
    expected = solved(problem)[-1]
    for part_size in (64, 150, 300):
        last = solved(streamed(problem, part_size))[-1]
        assert single_changes(problem, [cost_matrix(X, 0.2)], last.labels).max() < 1e-9
        assert float(inside(problem, last.labels)) >= 0.98 * float(inside(problem, expected.labels))
    assert torch.equal(last.labels, expected.labels)  # one part holds all items
    with pytest.raises(MemoryError, match="clusters of 16 features need"):
        solved(streamed(packed([np.eye(100, 16)], 2.0), 10))


@pytest.mark.parametrize("search_dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("X", "threshold", "clusters"),
    [
        (np.ones((1, 3)), 0.4, 1),
        (np.ones((2, 3)), 0.4, 1),
        (np.eye(2), 0.4, 2),
        (np.eye(2), -0.4, 1),
        (np.repeat(np.eye(3), 50, axis=0), 0.4, 3),  # duplicates
        (np.repeat(np.eye(3), 50, axis=0)[:, :2], 0.0, 52),  # of which a third has no costs
        (np.eye(100), 0.1, 100),  # all pairs repel
        (np.eye(100), 0.0, 100),  # all pairs are neutral
        (np.eye(100), -0.1, 1),  # all pairs attract
    ],
)
def test_degenerate_problems_alone_and_in_packs(packed, search_dtype, X, threshold, clusters):
    for features in ([X], [X, X, X]):
        problem = packed(features, threshold, search_dtype)
        last = solved(problem)[-1]
        assert last.move_optimal.all()
        assert last.join_optimal.all()
        own = split_by_problem(problem, last.labels)
        assert [len(np.unique(labels)) for labels in own] == [clusters] * len(features)
        costs = [cost_matrix(X, threshold)] * len(features)
        assert single_changes(problem, costs, last.labels).max() < 1e-9


def test_a_large_mixture_is_as_good_as_on_the_cpu(backend, rng, packed):
    X = uneven_mixture(rng, 2000, 64, 20).astype(np.float32)
    problem = packed([X], 0.25, torch.bfloat16 if backend.type == "cuda" else torch.float32)
    last = solved(problem)[-1]
    assert last.move_optimal.all()
    assert last.join_optimal.all()
    expected = dense_multicut(DenseProblem(X, 0.25), algorithm="fast").inside
    assert float(inside(problem, last.labels)) >= 0.99 * expected


def test_certificates_allow_for_the_rounding_of_alpha(backend):
    # In float32 these affinity strengths are equal, and the features are short compared with them.
    X = np.array([[1.0, 0.0], [0.0, 0.001], [1.0, -2000.0]])
    problem = DenseProblem(X, alpha=np.array([1.0, 1 + 2.0**-25, 0.0]), prefer="large")
    options = {"init": [0, 1, 0], "algorithm": "fast"}
    result = dense_multicut(problem, **options, device=backend)
    assert result.inside >= dense_multicut(problem, **options).inside - 1e-9
