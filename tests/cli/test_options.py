"""Options: values of --memory-limit, and help that is made from the registry of solvers."""

import pytest

from clusterfug.cli.options import in_bytes
from clusterfug.solvers import SOLVERS, names


@pytest.mark.parametrize(
    ("text", "size"), [(None, None), ("2", 2**31), ("0.5", 2**29), ("600MB", 600_000_000), ("1 GiB", 2**30)]
)
def test_a_memory_limit_without_a_unit_is_gib(text, size):
    assert in_bytes(text) == size


@pytest.mark.parametrize("text", ["0", "-1", "nan", "much", "1 parsec"])
def test_a_wrong_memory_limit_names_the_option(text):
    with pytest.raises(ValueError, match="--memory-limit must be"):
        in_bytes(text)


def test_the_help_lists_every_solver_with_its_summary(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    _, out, _ = run("cluster", "--help")
    for name, solver in SOLVERS.items():
        assert f"{name}: {solver.summary}." in out
    assert f"For a graph: {', '.join(names('graph'))}." in out
