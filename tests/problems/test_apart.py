"""Pairs of items that must be apart, against the matrix of all pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterfug import DenseProblem, dense_multicut, lower_bound, multicut, verify_bound
from clusterfug.problems import apart as module
from clusterfug.problems.apart import NO_PAIRS, Apart
from clusterfug.result import compact

SEEDS = st.integers(0, 2**32 - 1)


def random_apart(rng, n):
    """Pairs, and several groups per item as contracted items have, and the matrix of all of them."""
    pairs = np.unique(np.sort(rng.integers(n, size=(rng.integers(0, n), 2)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    belongs = rng.random((n, int(rng.integers(1, 5)))) < 0.25
    matrix = belongs @ belongs.T
    matrix[tuple(pairs.T)] = matrix[tuple(pairs.T[::-1])] = True
    np.fill_diagonal(matrix, False)
    return Apart(pairs, np.argwhere(belongs)), matrix


def as_matrix(apart, n):
    found = np.zeros((n, n), dtype=bool)
    found[tuple(apart.all_pairs().T)] = True
    return found | found.T


def feasible_labels(rng, matrix):
    """Labels 0..K-1 that obey the matrix: items join clusters at random where they may."""
    labels = np.arange(len(matrix))
    for i in rng.permutation(len(matrix)):
        members = [labels == c for c in np.unique(labels)]
        open_to = [m for m in members if not matrix[i, m].any()]
        labels[i] = labels[np.argmax(open_to[rng.integers(len(open_to))])]
    return compact(labels)


@pytest.mark.kernels
@given(seed=SEEDS, n=st.integers(2, 12))
def test_all_pairs_are_those_of_the_matrix(seed, n):
    apart, matrix = random_apart(np.random.default_rng(seed), n)
    found = apart.all_pairs()
    assert found.tolist() == np.argwhere(np.triu(matrix)).tolist()
    assert apart.known_pairs().tolist() == found.tolist()
    assert apart.is_empty == (len(apart.pairs) + len(apart.members) == 0)
    np.testing.assert_array_equal(np.isin(np.arange(n), apart.items())[matrix.any(axis=1)], True)
    every = np.stack(np.triu_indices(n, 1), axis=1)
    np.testing.assert_array_equal(apart.includes(every), matrix[tuple(every.T)])
    np.testing.assert_array_equal(apart.includes(every.astype(np.int32)), matrix[tuple(every.T)])
    starts, groups = apart.compressed_groups(n)
    if len(groups):
        of_items = [[i, g] for i in range(n) for g in groups[starts[i] : starts[i + 1]].tolist()]
        assert of_items == apart.members.tolist()


@pytest.mark.kernels
@given(seed=SEEDS, n=st.integers(2, 12))
def test_derived_problems_keep_what_is_apart(seed, n):
    rng = np.random.default_rng(seed)
    apart, matrix = random_apart(rng, n)
    labels = feasible_labels(rng, matrix)
    member = np.eye(labels.max() + 1, dtype=bool)[labels]
    between = member.T @ matrix @ member
    np.testing.assert_array_equal(as_matrix(apart.contract(labels), len(between)), between)
    items = np.flatnonzero(rng.random(n) < 0.6)
    at = np.full(n, -1)
    at[items] = np.arange(len(items))
    np.testing.assert_array_equal(as_matrix(apart.subset(at), len(items)), matrix[np.ix_(items, items)])
    found = apart.between(np.arange(n), labels, n)
    np.testing.assert_array_equal(np.zeros_like(between) if found is None else found, between)


@pytest.mark.kernels
@given(seed=SEEDS, n=st.integers(2, 12))
def test_separated_labels_are_feasible_and_join_nothing(seed, n):
    rng = np.random.default_rng(seed)
    apart, matrix = random_apart(rng, n)
    labels = compact(rng.integers(0, 4, size=n))
    found = apart.separated(labels)
    together = found[:, None] == found
    assert not together[matrix].any()
    assert np.all(labels[:, None] == labels, where=together)
    assert sorted(set(found.tolist())) == list(range(found.max() + 1))
    feasible = feasible_labels(rng, matrix)
    np.testing.assert_array_equal(apart.separated(feasible), feasible)
    first = np.array([np.flatnonzero(labels == c).min() for c in labels])
    assert np.all(together[np.arange(n), first][~matrix.any(axis=1)])  # what nothing forbids stays


def test_nothing_is_apart():
    nothing = Apart.nothing()
    assert nothing.is_empty
    assert nothing.all_pairs().shape == (0, 2)
    assert not nothing.includes(np.array([[0, 1]])).any()
    assert nothing.between(np.arange(3), np.arange(3), 3) is None
    assert nothing.separated(np.zeros(3, dtype=np.int64)).tolist() == [0, 0, 0]
    assert nothing.compressed_groups(3)[0].tolist() == [0]


def test_groups_with_too_many_pairs_are_not_written_down(rng, monkeypatch):
    monkeypatch.setattr(module, "MAX_PAIRS", 50)
    X, exclusive = rng.normal(size=(70, 2)), [0] * 40 + [1] * 30
    apart = Apart(NO_PAIRS, np.stack([np.arange(70), exclusive], axis=1))
    assert apart.known_pairs().shape == (0, 2)
    with pytest.raises(MemoryError, match="use auto, fast or best"):
        apart.all_pairs()
    problem = DenseProblem(X, -1.0)
    for algorithm in ("fast", "auto"):
        result = dense_multicut(problem, exclusive=exclusive, algorithm=algorithm, bound=True)
        assert result.links.broken(result.labels) == 0
        assert result.trace[-1].move_optimal
        assert result.bound.value <= result.objective
        assert verify_bound(problem, result.bound, exclusive=exclusive)
    with pytest.raises(MemoryError, match="pairs, too many to write down"):
        multicut(problem, exclusive=exclusive, algorithm="gaec")
    monkeypatch.undo()
    assert lower_bound(problem, exclusive=exclusive).value >= result.bound.value
