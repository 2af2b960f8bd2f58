"""A short part of the fuzzer, always the same; ``make fuzz`` runs as many cases as there is time for."""

import logging
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from clusterfug import DenseProblem, dense_multicut
from clusterfug.execution.sharded import source
from clusterfug.problems import mixed
from fuzz import SHARES, files, run_case
from fuzz.oracles import Exact, WrongError, check_bound, check_clustering
from fuzz.pictures import originals

CASES = 60  # times the share of a target


@pytest.fixture
def unchanged(monkeypatch):
    """Take back what cases change in this process."""
    monkeypatch.setattr(source, "MIN_SHARD_ITEMS", source.MIN_SHARD_ITEMS)
    monkeypatch.setattr(mixed, "MAX_COMPLETE", mixed.MAX_COMPLETE)
    log = logging.getLogger("clusterfug")
    level = log.level
    yield
    log.setLevel(level)


@pytest.mark.parametrize("name", SHARES)
def test_random_inputs(name, unchanged):
    if name == "tensors":
        pytest.importorskip("torch", reason="tensors need torch, the extra [gpu]")
    for number in range(CASES * SHARES[name]):
        try:
            run_case(name, 0, number)
        except Exception as error:
            raise AssertionError(f"PYTHONPATH=tests python -m fuzz --replay {name}:0:{number}") from error


#: What stands for a target: half of its cases crash, the others are wrong.
BAD_TARGET = """
import os
def graphs(rng, folder):
    if rng.random() < 0.5:
        os.abort()
    assert False, "wrong"
"""


def test_the_driver_counts_cases_and_names_findings(tmp_path):
    tests = Path(__file__).parents[1]
    shutil.copytree(tests / "fuzz", tmp_path / "fuzz")
    (tmp_path / "fuzz" / "graphs.py").write_text(BAD_TARGET)
    done = subprocess.run(
        [sys.executable, "-m", "fuzz", "--cases", "6", "--only", "graphs", "--jobs", "1"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(tests)])},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (1, 8)
    assert lines[-1].split() == ["all", "6", "cases,", "6", "findings"]
    kinds = {line.partition(":")[0] for line in (line.split()[1] for line in lines[:6])}
    assert kinds == {"AssertionError", "crash"}


@pytest.fixture
def solved(rng):
    """The oracle of a small problem, and the optimum that the package finds."""
    X = rng.normal(size=(7, 3))
    return Exact.of_features(X, 0.2), dense_multicut(DenseProblem(X, 0.2), algorithm="exact")


def test_the_oracle_rejects_what_is_wrong(solved):
    exact, result = solved
    check_clustering(exact, result)
    alone = np.arange(7)
    wrong = [
        replace(result, objective=result.objective + 1e-6),
        replace(result, inside=result.inside - 1e-6),
        replace(result, labels=result.labels[::-1].copy()),
        replace(result, labels=alone),
        replace(
            result,
            labels=alone,
            objective=exact.objective(alone)[0],
            inside=0.0,
            trace=(result.trace[-1]._replace(objective=exact.objective(alone)[0]),),
        ),
    ]
    for other in wrong:
        with pytest.raises(WrongError):
            check_clustering(exact, other)
    with pytest.raises(WrongError):
        check_bound(exact, result.labels, replace(result.bound, value=result.objective + 1e-6))
    for rounding in (0.0, 1.0):
        bound = replace(result.bound, value=result.objective - 1, rounding=rounding)
        with pytest.raises(WrongError):
            check_bound(exact, alone, bound, optimal=True)


def test_undamaged_graphs_and_links_are_read(tmp_path, monkeypatch, run):
    shutil.copytree(files.originals(), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    graphs = [path.name for path in tmp_path.iterdir() if path.name.startswith(files.GRAPHS)]
    links = [path.name for path in tmp_path.iterdir() if path.name.startswith(files.LINKS)]
    assert (len(graphs), len(links)) == (10, 14)
    for name in graphs:
        code, out, errors = run("multicut", name, "--objective", "costs")
        assert (code, errors) == (0, "")
        assert "nodes              12" in out
    for name in links:
        code, out, errors = run("cluster", "x.npy", "-t", 0.4, *files.link_options(name))
        assert (code, errors) == (0, "")
        assert "none broken" in out


def test_undamaged_pictures_are_segmented(tmp_path, monkeypatch, run):
    """So that damage, and not the way they are made, is what the fuzzer sees."""
    shutil.copytree(originals(), tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    shown = "--images", "shown", "--truth", "truth/panoptic.json"
    code, out, errors = run("segment", "samples", *shown, "--things", 26, "-o", "out", "--overlays")
    assert (code, errors) == (0, "")
    assert "car" in out
