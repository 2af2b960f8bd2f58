"""Packing of conflicted cycles of a graph."""

import numpy as np
import pytest

from clusterfug import GraphProblem, lower_bound, multicut, verify_bound
from clusterfug.bounds.cycles import Arcs, CyclePacker, pack_cycles
from clusterfug.problems.graph import by_node


@pytest.mark.kernels
def test_a_conflicted_square_without_chords_is_packed_as_two_triangles():
    graph = GraphProblem([[0, 1], [1, 2], [2, 3], [0, 3]], [2.0, 3.0, 1.5, -1.0])
    assert lower_bound(graph, method="trivial").value == pytest.approx(-1)
    bound = lower_bound(graph)
    assert bound.value == pytest.approx(0, abs=1e-6)
    assert len(bound.certificate.amounts) == 2
    assert verify_bound(graph, bound)
    result = multicut(graph, bound=True)
    assert result.optimal
    assert result.gap == 0


@pytest.mark.kernels
@pytest.mark.parametrize("length", [2, 3, 4, 7, 10])
def test_cycles_of_any_length_are_packed(length):
    nodes = np.arange(length)
    edges = np.append(np.stack([nodes, nodes + 1], axis=1), [[0, length]], axis=0)
    graph = GraphProblem(edges, [1.0] * length + [-0.5])
    packer = CyclePacker(graph, 1000)
    assert packer.unit * packer.pack(lambda: False) == pytest.approx(0.5)
    assert lower_bound(graph).value == pytest.approx(0, abs=1e-6)


@pytest.mark.kernels
def test_packing_continues_where_a_kernel_call_ended(rng, monkeypatch):
    edges = np.stack(np.triu_indices(15, 1), axis=1)
    graph = GraphProblem(edges, rng.normal(size=len(edges)))
    expected = CyclePacker(graph, 10_000).pack(lambda: False)
    monkeypatch.setattr("clusterfug.bounds.cycles._CYCLES_PER_CALL", 2)
    monkeypatch.setattr("clusterfug.bounds.cycles._WORK", 10)
    assert CyclePacker(graph, 10_000).pack(lambda: False) == pytest.approx(expected)


@pytest.mark.kernels
def test_edges_that_close_no_cycle_take_no_work(rng):
    """The hub of a star has many attractive edges, and no repulsive one of them is in a cycle."""
    n = 50
    edges, costs = np.stack([np.zeros(n - 1, dtype=int), np.arange(1, n)], axis=1), rng.normal(size=n - 1)
    packer = CyclePacker(GraphProblem(edges, costs, n), 100)
    attractive = np.flatnonzero(packer.residual > 0)
    starts, ends, numbers = by_node(packer.pairs[attractive], n)
    paths, amounts = np.full((4, 3), -1, dtype=np.int32), np.empty(4, dtype=np.float32)
    arcs = Arcs(starts, ends, attractive[numbers])
    assert pack_cycles(packer.pairs, packer.residual, arcs, 0, paths, amounts, 1) == (n - 1, 0)


def test_a_search_that_finds_nothing_adds_no_triangles(monkeypatch):
    monkeypatch.setattr(CyclePacker, "_triangulate", None)
    edges, costs = [[0, 1], [1, 2], [2, 3]], [1.0, -1.0, 1.0]
    assert CyclePacker(GraphProblem(edges, costs), 100).pack(lambda: False) == 0


@pytest.mark.parametrize("scale", [1.0, 0.1, 0.3, 1e30])
def test_one_cycle_is_packed_to_the_last_digit(scale):
    """Amounts in single precision would leave a 1e-8th of the conflict, and no proof."""
    result = multicut([[0, 1], [1, 2], [0, 2]], scale * np.array([1, 1, -1]), bound=True)
    assert result.optimal
    assert result.gap == 0
