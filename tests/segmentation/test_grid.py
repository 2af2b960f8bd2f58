"""The sparse baseline has the edges of its offsets, with the costs of the dense problem."""

import numpy as np
import pytest
from makers import assert_same_clusters, scene

from clusterfug.segmentation import grid_graph, segment
from clusterfug.segmentation.grid import OFFSETS


def test_grid_edges_have_the_costs_of_the_dense_problem(rng):
    mask = rng.random((9, 21)) < 0.7
    rows = rng.normal(size=(mask.sum(), 4))
    graph = grid_graph(mask, rows, 0.25, np.array([1.0, -1.0, 1.0, 1.0]))
    where = np.argwhere(mask)
    expected = {}
    for i, a in enumerate(where):
        for j, b in enumerate(where):
            if tuple(b - a) in OFFSETS:
                expected[min(i, j), max(i, j)] = (rows[i] * [1, -1, 1, 1]) @ rows[j] - 0.25
    found = {tuple(edge): cost for edge, cost in zip(graph.edges.tolist(), graph.costs, strict=True)}
    assert found.keys() == expected.keys()
    assert all(found[edge] == pytest.approx(cost) for edge, cost in expected.items())


def test_the_grid_has_about_ten_edges_per_pixel_and_finds_simple_objects(rng):
    mask = np.ones((100, 100), dtype=bool)
    assert 8 < len(grid_graph(mask, np.ones((10_000, 1)), 0.5).costs) / 10_000 < 10
    embeddings, semantic, truth = scene(rng)
    result = segment(embeddings, semantic, [1, 2], graph="grid", algorithm="gaec")
    assert_same_clusters(result.instance.ravel(), truth.ravel())


def test_dense_costs_connect_the_parts_of_a_hidden_object_and_a_grid_does_not():
    embeddings = np.zeros((2, 60, 2))
    embeddings[:, :5] = embeddings[:, -5:] = [1, 0]
    embeddings[:, 5:-5] = [0, 1]
    semantic = np.ones((2, 60), dtype=int)
    assert segment(embeddings, semantic, [1]).n_instances == 2
    grid = segment(embeddings, semantic, [1], graph="grid", algorithm="gaec", upsample="labels")
    assert grid.n_instances == 3
