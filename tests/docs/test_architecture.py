"""The examples of docs/architecture.md work: an algorithm and a cost model, each in one piece of code."""

import re
from pathlib import Path

import numpy as np
import pytest

from clusterfug import DenseMulticut, dense_multicut, multicut, objective, solve_many, threshold_path
from clusterfug.costs import models
from clusterfug.solvers import SOLVERS

PAGES = Path(__file__).parents[2] / "docs"
SOURCE = Path(__file__).parents[2] / "src" / "clusterfug"
ARCHITECTURE = (PAGES / "architecture.md").read_text()


def example(heading):
    """Return the Python code below a heading of docs/architecture.md."""
    return re.search(rf"## {heading}\n.*?```python\n(.*?)```", ARCHITECTURE, re.DOTALL)[1]


@pytest.fixture
def blobs():
    return np.repeat(np.eye(4), 2, axis=0)


def test_a_new_algorithm_is_known_everywhere(blobs, run, tmp_path, monkeypatch):
    monkeypatch.delitem(SOLVERS, "pairs", raising=False)  # restored to "absent" after the test
    exec(compile(example("How to add an algorithm"), "architecture.md", "exec"), {"__name__": "example"})
    pairs = np.repeat(np.arange(4), 2)
    result = dense_multicut(blobs, 0.5, algorithm="pairs", bound=True)
    np.testing.assert_array_equal(result.labels, pairs)
    assert result.optimal
    assert dense_multicut(blobs, 0.5, algorithm="pairs", size=4).n_clusters == 8  # pairs of repelling items
    np.testing.assert_array_equal(DenseMulticut(0.5, algorithm="pairs").fit(blobs).labels_, pairs)
    assert solve_many([blobs, blobs], 0.5, algorithm="pairs")[1].n_clusters == 4
    assert threshold_path(blobs, [0.1, 0.5], algorithm="pairs").n_clusters.tolist() == [4, 4]
    assert multicut([[0, 1]], [1.0], algorithm="pairs").n_clusters == 1
    with pytest.raises(ValueError, match="max_iter goes with best, not with pairs"):
        dense_multicut(blobs, 0.5, algorithm="pairs", max_iter=3)
    np.save(tmp_path / "x.npy", blobs)
    code, out, _ = run("cluster", tmp_path / "x.npy", "-t", "0.5", "-a", "pairs")
    assert code == 0
    assert "pairs" in out
    del SOLVERS["pairs"]


def test_a_new_cost_model_is_known_everywhere(blobs, run, tmp_path, monkeypatch):
    monkeypatch.delitem(models.NAMED, "half-length", raising=False)
    exec(compile(example("How to add a cost model"), "architecture.md", "exec"), {"__name__": "example"})
    expected = dense_multicut(blobs, 0.5)
    result = dense_multicut(3 * blobs, "half-length", metric="inner_product", bound=True)
    np.testing.assert_array_equal(result.labels, expected.labels)
    assert result.objective == pytest.approx(9 * expected.objective)
    assert objective(3 * blobs, result) == result.objective
    np.testing.assert_array_equal(DenseMulticut("half-length").fit(blobs).labels_, expected.labels)
    np.save(tmp_path / "x.npy", blobs)
    labels = tmp_path / "l.npz"
    assert run("cluster", tmp_path / "x.npy", "-t", "half-length", "-o", labels)[0] == 0
    code, out, _ = run("evaluate", labels, "--features", tmp_path / "x.npy")
    assert code == 0
    assert "half-length" in out
    del models.NAMED["half-length"]


def test_the_tables_of_algorithms_are_those_of_the_registry():
    page = (PAGES / "algorithms.md").read_text()
    tables = re.findall(r"\|---.*?\n((?:\|.*\n)+)", page)
    algorithms, options = ([row.strip("|\n ").split(" | ") for row in t.splitlines()] for t in tables[:2])
    assert algorithms == [
        [f"`{name}`", s.summary, s.memory, ", ".join(sorted(s.problems)), ", ".join(sorted(s.executions))]
        for name, s in SOLVERS.items()
    ]
    having = {}
    for name, solver in SOLVERS.items():
        for option, doc in solver.options().items():
            having.setdefault(option, ([], doc))[0].append(name)
    assert options == [[f"`{option}`", ", ".join(names), doc] for option, (names, doc) in having.items()]
    for name, solver in SOLVERS.items():
        assert f'- "{name}": {solver.summary}.' in dense_multicut.__doc__


def test_the_package_tree_is_complete():
    named = re.findall(r"^\| `([\w/]+\.py)` \|", ARCHITECTURE, re.MULTILINE)
    files = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if path.name != "__init__.py"}
    assert sorted(named) == sorted(files)
