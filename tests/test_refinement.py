"""Moves, joins, levels, Kernighan-Lin, shaking: certificates by brute force, optima by enumeration."""

import os
from itertools import pairwise

import numpy as np
import pytest
import reference
from conftest import INTERPRETED
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterfug import DenseProblem, dense_multicut, multicut
from clusterfug.problems.graph import GraphProblem
from clusterfug.refinement import candidate_lists
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.iterated import polish, subproblem_around
from clusterfug.refinement.kernighan_lin import kernighan_lin
from clusterfug.refinement.multilevel import refine
from clusterfug.refinement.part import ALONE, climb, make_part, move_node
from clusterfug.refinement.shake import restore, shake
from clusterfug.result import compact, number_by_first_appearance

LARGEST = 12 if INTERPRETED else 50
OURS = ("fast", "auto", "best")
seeds = st.integers(0, 2**32 - 1)


def random_problem(rng, n, d):
    """Features of both signs, alphas, weights, duplicates, integer ties: whatever the seed brings."""
    X = rng.normal(size=(n, d)) if rng.random() < 0.5 else rng.integers(-2, 3, size=(n, d)).astype(float)
    X[rng.random(n) < 0.2] = X[0]
    options = {}
    if rng.random() < 0.3:
        options |= {"alpha": rng.random(n), "prefer": rng.choice(["small", "large"])}
    if rng.random() < 0.3:
        options["sample_weight"] = rng.random(n) + 0.1
    dtype = np.float32 if rng.random() < 0.5 else np.float64
    return DenseProblem(X.astype(dtype), rng.choice([-0.2, 0.0, 0.4, 1.0]), **options), options


def costs_of(problem):
    everyone = np.arange(problem.n)
    return problem.group_costs(everyone, everyone)


def random_graph(rng, n, density):
    edges = np.argwhere(np.triu(rng.random((n, n)) < density, 1))
    whole = rng.random() < 0.5
    costs = rng.integers(-2, 3, size=len(edges)) if whole else rng.normal(size=len(edges))
    return GraphProblem(edges, costs.astype(float), n)


def assert_certified(problem, labels):
    costs = costs_of(problem)
    move, join = reference.best_single_change(costs, labels)
    assert max(move, join) <= 1e-9 * max(1.0, np.abs(costs).sum())


@given(seed=seeds, n=st.integers(1, LARGEST), d=st.integers(1, 6))
def test_no_single_move_and_no_single_join_improves_a_certified_result(seed, n, d):
    problem, _ = random_problem(np.random.default_rng(seed), n, d)
    for algorithm in OURS if n < 15 else OURS[:2]:
        result = dense_multicut(problem, algorithm=algorithm)
        assert result.trace[-1].move_optimal
        assert result.trace[-1].join_optimal
        assert_certified(problem, result.labels)


@given(seed=seeds, n=st.integers(1, LARGEST), density=st.floats(0.05, 1))
def test_the_same_holds_for_graphs(seed, n, density):
    graph = random_graph(np.random.default_rng(seed), n, density)
    for algorithm in OURS if n < 15 else OURS[:2]:
        result = multicut(graph, algorithm=algorithm)
        assert result.trace[-1].move_optimal
        assert result.trace[-1].join_optimal
        assert_certified(graph, result.labels)


@given(seed=seeds, n=st.integers(1, LARGEST), d=st.integers(1, 6))
def test_refinement_is_never_worse_than_where_it_starts(seed, n, d):
    rng = np.random.default_rng(seed)
    problem, _ = random_problem(rng, n, d)
    init = rng.integers(0, n, size=n)
    for algorithm in OURS[:2]:
        result = dense_multicut(problem, algorithm=algorithm, init=init)
        floor = max(problem.inside(init), 0.0, problem.all_singletons)
        assert result.inside >= floor - 1e-9 * max(1.0, abs(floor))
    greedy = dense_multicut(problem, algorithm="dgaec-inc")
    refined = dense_multicut(problem, algorithm="dgaec-inc", refine=True)
    assert refined.inside >= greedy.inside - 1e-9 * max(1.0, greedy.inside)
    assert refined.merges.tolist() == greedy.merges.tolist()
    assert_certified(problem, refined.labels)


@settings(max_examples=5 if INTERPRETED else 100)
@given(seed=seeds, n=st.integers(1, 6 if INTERPRETED else 8), d=st.integers(1, 4))
def test_best_finds_the_optimum_of_all_partitions(seed, n, d):
    problem, _ = random_problem(np.random.default_rng(seed), n, d)
    most = max(problem.inside(labels) for labels in reference.partitions(n))
    assert dense_multicut(problem, algorithm="best").inside == pytest.approx(most, abs=1e-9)


@pytest.mark.large
@pytest.mark.parametrize("seed", range(20))
def test_best_finds_the_optimum_of_an_integer_program(seed):
    costs = reference.weighted_instance(seed)
    result = dense_multicut(DenseProblem.from_costs(costs), algorithm="best", time_limit=2)
    assert result.inside == pytest.approx(reference.exact_inside(costs), rel=1e-9)


@pytest.mark.parametrize("nominees", [1, 4])
@pytest.mark.parametrize("kind", ["normal", "whole", "close"])
def test_a_list_of_nominees_never_hides_a_better_cluster(rng, monkeypatch, nominees, kind):
    """Many clusters, short lists, scores that single precision cannot tell apart: all moves are seen."""
    monkeypatch.setattr(candidate_lists, "_N_CANDIDATES", nominees)
    n, trials = (30, 3) if INTERPRETED else (200, 40)
    for _ in range(trials):
        X = rng.integers(-2, 3, size=(n, 5)) if kind == "whole" else rng.normal(size=(n, 5))
        if kind == "close":
            X = 10 + 1e-4 * X
        problem = DenseProblem(X.astype(np.float32), 500.0 if kind == "close" else 1.0)
        start = compact(rng.integers(0, n // 3, n))
        labels, settled = problem.move_items(start, Budget())
        assert settled
        assert problem.inside(labels) > problem.inside(start)
        # What a node costs has a rounding error of about 1e-16 times 500 n.
        assert reference.best_single_change(costs_of(problem), labels)[0] <= 1e-10 * n


def test_more_items_want_to_be_alone_than_there_are_slots(rng):
    problem = DenseProblem(-np.eye(300), 0.1)  # everybody repels everybody
    labels, settled = problem.move_items(np.zeros(300, dtype=np.int64), Budget())
    assert settled
    assert len(np.unique(labels)) == 300


def test_large_clusters_in_float32_are_certified_in_float64(rng):
    """Sums of many rows cancel: what the products nominate must be decided exactly."""
    X = np.ones((400, 3), dtype=np.float32) * np.float32(10.0)
    X += rng.normal(size=X.shape).astype(np.float32) * np.float32(0.05)
    problem = DenseProblem(X, 300.0)
    result = dense_multicut(problem, algorithm="fast")
    assert_certified(problem, result.labels)


@pytest.mark.parametrize("scale", [1e14, 1e-14, 1.0])
def test_the_scale_of_the_features_changes_nothing(scale):
    X = np.array([[1.0, 0], [1, 0], [0, 1], [0, 1]]) * scale
    result = dense_multicut(X, 0.4 * scale**2, algorithm="fast", init=[0, 1, 0, 1])
    assert result.labels.tolist() == [0, 0, 1, 1]


def test_light_items_beside_heavy_ones_are_moved():
    X = np.repeat(np.eye(2), 5, axis=0)
    weight = np.repeat([1e-6, 1e6], 5)
    result = dense_multicut(X, 0.4, sample_weight=weight, algorithm="fast")
    assert result.labels.tolist() == [0] * 5 + [1] * 5


@pytest.mark.parametrize("algorithm", OURS)
def test_no_time_at_all_is_still_no_worse_than_all_alone_or_together(rng, algorithm):
    for threshold in (2.0, -2.0):
        problem = DenseProblem(rng.normal(size=(50, 3)), threshold)
        for init in (None, np.zeros(50, dtype=int), np.arange(50)):
            result = dense_multicut(problem, algorithm=algorithm, init=init, time_limit=0)
            assert result.inside >= max(0.0, problem.all_singletons) - 1e-9


@pytest.mark.large
def test_several_threads_leave_blas_as_it_was(rng):
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_info

    X = rng.normal(size=(3000, 20)).astype(np.float32)
    before = [library["num_threads"] for library in threadpool_info()]
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: dense_multicut(X, 8.0, algorithm="fast").labels, range(12)))
    assert [library["num_threads"] for library in threadpool_info()] == before
    assert all(labels.tolist() == results[0].tolist() for labels in results)


@pytest.mark.large
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_solves_too(rng):
    """Threads do not survive a fork: the child makes its own."""
    import multiprocessing

    X = rng.normal(size=(3000, 20)).astype(np.float32)
    expected = dense_multicut(X, 8.0, algorithm="fast").objective
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply_async(_objective_of, (X,)).get(timeout=60)
    assert found == expected


def _objective_of(X):
    return dense_multicut(X, 8.0, algorithm="fast").objective


@pytest.mark.large
@pytest.mark.parametrize("n", [1900, 2100])
def test_best_is_never_worse_than_auto(rng, n):
    X = rng.normal(size=(n, 8)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    auto = dense_multicut(X, 0.6)
    best = dense_multicut(X, 0.6, algorithm="best", max_iter=2)
    assert best.inside >= auto.inside
    assert [phase.name for phase in auto.trace] == ["multilevel", "contraction", "kernighan-lin"]
    assert [phase.name for phase in best.trace] == ["multilevel", "contraction", "kernighan-lin", "search"]
    for result in (auto, best):
        objectives = [phase.objective for phase in result.trace]
        assert all(later <= earlier + 1e-6 for earlier, later in pairwise(objectives))


def test_weightless_items_take_no_part(rng):
    X = rng.normal(size=(60, 3))
    weight = np.ones(60)
    weight[::3] = 0
    with_them = dense_multicut(X, 0.3, sample_weight=weight, algorithm="fast")
    without = dense_multicut(X[weight > 0], 0.3, algorithm="fast")
    assert with_them.inside == pytest.approx(without.inside, rel=1e-12)
    assert with_them.n_clusters == without.n_clusters == with_them.trace[-1].n_clusters


@given(seed=seeds, m=st.integers(1, 12))
def test_a_part_keeps_its_table_and_takes_moves_back(seed, m):
    rng = np.random.default_rng(seed)
    costs = rng.integers(-3, 4, size=(m, m)).astype(float)
    costs = np.triu(costs, 1) + np.triu(costs, 1).T
    labels = compact(rng.integers(0, m, size=m))
    part = make_part(costs, labels, 1e-9)
    before = part.labels.copy()
    for v in rng.integers(0, m, size=20):
        to = rng.choice([ALONE, part.labels[rng.integers(m)]])
        if to != part.labels[v] and not (to == ALONE and part.sizes[part.labels[v]] == 1):
            move_node(part, v, to)
        fresh = make_part(costs, part.labels, 1e-9)
        assert part.inside[0] == fresh.inside[0]
        assert sorted(part.sizes[part.sizes > 0]) == sorted(fresh.sizes[fresh.sizes > 0])
        for slot in np.unique(part.labels):
            assert part.table[slot].tolist() == costs[part.labels == slot].sum(axis=0).tolist()
    restore(part, before)
    assert part.labels.tolist() == before.tolist()
    assert part.inside[0] == make_part(costs, before, 1e-9).inside[0]


@given(seed=seeds, m=st.integers(1, 14))
def test_climbing_kernighan_lin_and_shaking_never_lose(seed, m):
    rng = np.random.default_rng(seed)
    costs = rng.normal(size=(m, m))
    costs = np.triu(costs, 1) + np.triu(costs, 1).T
    part = make_part(costs, rng.integers(0, m, size=m), 1e-9)
    inside = [part.inside[0]]
    for step in (lambda: climb(part, 0), lambda: kernighan_lin(part), lambda: shake(part, rng, 30)):
        step()
        inside.append(part.inside[0])
        assert make_part(costs, part.labels, 1e-9).inside[0] == pytest.approx(part.inside[0], abs=1e-9)
        assert reference.best_single_change(costs, part.labels)[0] <= 1e-8
    assert np.all(np.diff(inside) >= -1e-8)


def test_kernighan_lin_splits_what_no_single_move_does():
    """Two triangles of friends, strangers to each other, in one cluster; each is held by a third party."""
    costs = np.full((6, 6), -1.0)
    costs[:3, :3] = costs[3:, 3:] = 2.0
    np.fill_diagonal(costs, 0.0)
    together = make_part(costs, np.zeros(6, dtype=np.int64), 1e-9)
    climb(together, 0)
    assert len(np.unique(together.labels)) == 1  # a node costs 4 to its friends and -3 to the others
    kernighan_lin(together)
    assert number_by_first_appearance(together.labels).tolist() == [0, 0, 0, 1, 1, 1]


def test_kernighan_lin_exchanges_two_nodes():
    """Two pairs are swapped between clusters: no single move gains, the chain of two does."""
    costs = np.full((4, 4), -2.0)
    costs[0, 2] = costs[2, 0] = costs[1, 3] = costs[3, 1] = 3.0
    costs[0, 1] = costs[1, 0] = costs[2, 3] = costs[3, 2] = 2.0
    np.fill_diagonal(costs, 0.0)
    part = make_part(costs, np.array([0, 0, 1, 1]), 1e-9)
    kernighan_lin(part)
    assert part.inside[0] == 6.0


def test_a_neighbourhood_is_worth_what_the_whole_is(rng):
    problem = DenseProblem(rng.normal(size=(200, 4)), 0.5)
    labels = compact(rng.integers(0, 6, size=200))  # clusters larger than their share: rests are one node
    near = subproblem_around(problem, labels, 7, 30)
    assert len(near.part.labels) < len(near.items)
    before, inside = near.part.inside[0], problem.inside(labels)
    kernighan_lin(near.part)
    after = labels.copy()
    after[near.items] = 1000 + near.part.labels[near.groups]
    assert near.part.inside[0] > before
    assert problem.inside(after) - inside == pytest.approx(near.part.inside[0] - before, rel=1e-9)


def test_a_neighbourhood_of_a_graph_is_worth_what_the_whole_is(rng):
    graph = random_graph(rng, 150, 0.1)
    labels = compact(rng.integers(0, 4, size=150))
    near = subproblem_around(graph, labels, 3, 30)
    before, inside = near.part.inside[0], graph.inside(labels)
    kernighan_lin(near.part)
    after = labels.copy()
    after[near.items] = 1000 + near.part.labels[near.groups]
    assert graph.inside(after) - inside == pytest.approx(near.part.inside[0] - before, rel=1e-9)


def test_polishing_gains_on_many_small_neighbourhoods(rng):
    problem = DenseProblem(rng.normal(size=(150, 3)), 0.5)
    labels = refine(problem, np.arange(150), Budget()).labels
    polished = polish(problem, labels, 40, np.random.default_rng(0), Budget())
    assert problem.inside(polished) >= problem.inside(labels)


def test_contracting_a_graph_adds_parallel_edges(rng):
    graph = random_graph(rng, 30, 0.4)
    labels = compact(rng.integers(0, 6, size=30))
    contracted = graph.contract(labels)
    joined = rng.integers(0, 3, size=contracted.n)
    assert contracted.inside(joined) + graph.inside(labels) == pytest.approx(graph.inside(joined[labels]))


def test_moves_stop_when_the_time_is_up(rng):
    problem = DenseProblem(rng.normal(size=(50, 3)), 0.3)
    graph = random_graph(rng, 50, 0.3)
    labels = compact(rng.integers(0, 5, 50))
    for instance in (problem, graph):
        found, settled = instance.move_items(labels, Budget(0.0))
        assert not settled
        assert found.tolist() == labels.tolist()
    result = dense_multicut(problem, algorithm="fast", time_limit=0)
    assert not result.trace[-1].move_optimal
    assert result.inside >= 0


@pytest.mark.large
def test_the_labels_do_not_depend_on_threads(digits):
    from threadpoolctl import threadpool_limits

    X = digits.astype(np.float32)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(
                (
                    dense_multicut(X, 0.2, algorithm="auto").labels,
                    dense_multicut(X, 0.4, algorithm="best", max_iter=3).labels,
                )
            )
    for one, two in zip(*found, strict=True):
        assert one.tolist() == two.tolist()


@pytest.mark.large
def test_digits_beat_every_contraction(digits):
    """Known bests: 44,428.6 at .2 and 17,448.7 at .4."""
    for threshold, most in ((0.2, 44425), (0.4, 17440)):
        assert dense_multicut(digits, threshold).inside >= most


@pytest.mark.large
def test_a_permutation_changes_little(digits):
    order = np.random.default_rng(0).permutation(len(digits))
    straight, permuted = (dense_multicut(X, 0.4).inside for X in (digits, digits[order]))
    assert permuted == pytest.approx(straight, rel=0.005)


def test_max_iter_and_random_state_make_best_repeatable(rng):
    X = rng.normal(size=(80, 4))
    runs = [dense_multicut(X, 0.5, algorithm="best", max_iter=2, random_state=s) for s in (1, 1, 2)]
    assert runs[0].labels.tolist() == runs[1].labels.tolist()
    assert dense_multicut(X, 0.5, algorithm="best", max_iter=0).trace[-1].move_optimal


def test_ctrl_c_returns_the_best_so_far(rng):
    X = rng.normal(size=(120, 4))

    def interrupt(phase, done, total):
        if phase == "search":
            raise KeyboardInterrupt

    fast = dense_multicut(X, 0.5, algorithm="fast")
    stopped = dense_multicut(X, 0.5, algorithm="best", callback=interrupt)
    assert stopped.inside >= fast.inside
    assert stopped.trace[0].name == "multilevel"
    assert stopped.trace[-1].name == "interrupted"

    def early(phase, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dense_multicut(X, 0.5, algorithm="best", callback=early)


def test_a_small_problem_ends_by_itself(rng):
    """With an hour to spend: nothing improves any more, so the search ends."""
    result = dense_multicut(rng.normal(size=(10, 3)), 0.4, algorithm="best", time_limit=np.inf)
    assert result.trace[-1].move_optimal


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "dlaec", "init": [0] * 9}, "init goes with"),
        ({"algorithm": "fast", "init": [0] * 8}, "init must have one entry per item"),
        ({"algorithm": "fast", "init": [0.5] * 9}, "init must be integers"),
        ({"algorithm": "dlaec", "time_limit": 1}, "use refine=True"),
        ({"time_limit": -1}, "time_limit must be at least 0"),
        ({"max_iter": 3}, "max_iter goes with best"),
        ({"algorithm": "best", "max_iter": -1}, "max_iter must be at least 0"),
        ({"algorithm": "best", "random_state": "x"}, "random_state must be a whole number"),
        ({"refine": 1}, "refine must be True or False"),
        ({"k": 3}, "k does not go with auto"),
    ],
)
def test_options_that_do_not_go_together_are_one_line_errors(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        dense_multicut(np.eye(9), **options)
