"""What every benchmark shares: the yardstick, peak memory in a process of its own, tables and JSON."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

OUT = Path(__file__).parent / "out"


def data(name):
    """Features of a shared data set in float32, exactly as stored; None where they are not at hand.

    NAME:COUNT is so many of its items, always the same ones.
    """
    features = _shared(name, "features.npy")
    return None if features is None else features.astype(np.float32)


def _shared(name, file):
    folder = os.environ.get("CLUSTERFUG_DATA")
    name, _, count = name.partition(":")
    path = Path(folder) / name / file if folder else None
    if not path or not path.exists():
        return None
    array = np.load(path)
    return array[np.random.default_rng(0).permutation(len(array))[: int(count)]] if count else array


def digits():
    """The 1,797 digits, mean-centred and scaled to length 1."""
    from sklearn.datasets import load_digits

    X = load_digits().data
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def truth(name):
    """Class labels of a data set, or None."""
    if name == "digits":
        from sklearn.datasets import load_digits

        return load_digits().target
    return _shared(name, "labels.npy")


def pace(path):
    """Costs of an instance of PACE 2021: 1 for the edges of its graph, -1 for all other pairs."""
    lines = [line.split() for line in path.read_text().splitlines() if line and line[0] != "c"]
    n = int(lines[0][2])
    costs = np.full((n, n), -1.0)
    for a, b in lines[1:]:
        costs[int(a) - 1, int(b) - 1] = costs[int(b) - 1, int(a) - 1] = 1.0
    return costs


def gemm(X, repeat=3):
    """G: median seconds of one blocked float32 product of all pairs; nothing is stored."""
    X = np.ascontiguousarray(X, dtype=np.float32)
    block = np.empty((1024, len(X)), dtype=np.float32)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        for top in range(0, len(X), 1024):
            rows = X[top : top + 1024]
            np.matmul(rows, X.T, out=block[: len(rows)])
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def in_fresh_process(code, *arguments):
    """The JSON that a Python snippet prints last; so that peak memory and caches are its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output.splitlines()[-1])


def run_one(name, threshold, solver, repeat=1, clusters=0, labels="-", **keywords):
    """A row of the table: one solver on one data set, in a process of its own (see run_one.py)."""
    extra = [f"{key}={json.dumps(value)}" for key, value in keywords.items()]
    arguments = [name, threshold, solver, repeat, clusters, labels, *extra]
    command = [sys.executable, str(Path(__file__).parent / "run_one.py"), *map(str, arguments)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    row = json.loads(output.splitlines()[-1])
    print(row, flush=True)
    return row


def options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, one repetition")
    parser.add_argument("--data", nargs="*", metavar="NAME", help="only these data sets")
    return parser.parse_args()


def report(name, rows):
    """Print rows (dictionaries with the same keys) as a table and write them as JSON."""
    table = Table(title=name, box=None, pad_edge=False, title_justify="left")
    for key in rows[0]:
        table.add_column(key, justify="left" if isinstance(rows[0][key], str) else "right")
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    Console(width=200).print(table)
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")


def _shown(value):
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
