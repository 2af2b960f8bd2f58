"""Edits: the sorted pairs in which a graph and the cliques of a clustering differ, in blocks."""

from itertools import combinations

import numpy as np
import pytest

from clusterfug import cluster_editing
from clusterfug.io import edits
from clusterfug.result import number_by_first_appearance


@pytest.mark.parametrize("most", [1, 5, 1 << 20])
@pytest.mark.parametrize("seed", range(8))
def test_edits_are_the_pairs_that_differ(tmp_path, monkeypatch, seed, most):
    monkeypatch.setattr(edits, "_MAX_PAIRS", most)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 15))
    graph = {pair for pair in combinations(range(n), 2) if rng.random() < 0.4}
    labels = number_by_first_appearance(rng.integers(0, 1 + n // 3, n))
    expected = [
        (i, j) for i, j in combinations(range(n), 2) if ((i, j) in graph) != (labels[i] == labels[j])
    ]
    edges = np.array(sorted(graph), dtype=np.int64).reshape(-1, 2)
    blocks = list(edits.edits(edges, labels))
    assert [tuple(pair) for block in blocks for pair in block.tolist()] == expected
    assert len(expected) == cluster_editing(edges, n).value(labels)
    edits.write_edits(tmp_path / "e.txt", edges, labels)
    assert (tmp_path / "e.txt").read_text() == "".join(f"{i + 1} {j + 1}\n" for i, j in expected)
