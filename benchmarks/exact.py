"""Instances that are proven optimal in 60 seconds each on one core.

    CLUSTERFUG_DATA=... OMP_NUM_THREADS=1 python benchmarks/exact.py [--quick]

Weighted: 45 instances of 40 nodes (15 mixtures, 15 subsets of digits, 15 of centred digits). PACE: +1 on
the edges of a graph and -1 on all other pairs, up to 80 nodes, with known optima.
`--quick` is every fifth instance, and graphs of up to 50 nodes.
"""

import csv
import os
from pathlib import Path

import measure
import numpy as np
from measure import options, report
from sklearn.datasets import load_digits

from clusterfug import multicut

SECONDS = 60


def main():
    quick = options(__doc__).quick
    run("warm up", -np.ones((3, 3)))  # load the kernels
    results = [run(*weighted(seed)) for seed in range(0, 45, 5 if quick else 1)]
    report("exact-weighted", results)
    summary("weighted", results)
    folder = os.environ.get("CLUSTERFUG_DATA")
    if folder:
        table = csv.DictReader((Path(folder) / "pace2021" / "optima.csv").open())
        graphs = [row for row in table if int(row["n"]) <= (50 if quick else 80)]
        results = [pace(Path(folder) / "pace2021" / row["instance"], int(row["optimum"])) for row in graphs]
        report("exact-pace", results)
        summary("PACE 2021", results)
        wrong = [row["instance"] for row in results if row["bound"] > 0]
        print("bounds above a known optimum:", wrong or "none")


def weighted(seed, n=40):
    """Return a mixture of random directions in 128 dimensions, or digits, or centred digits: in turns."""
    rng = np.random.default_rng(seed)
    if seed % 3 == 0:
        centres = rng.normal(size=(int(rng.integers(3, 13)), 128))
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        noise = rng.normal(size=(n, 128)) * rng.uniform(0.7, 1.3) / np.sqrt(128)
        X, name = centres[rng.integers(len(centres), size=n)] + noise, "mixture"
        threshold = rng.choice([0.2, 0.3, 0.4])
    else:
        X = load_digits().data
        centred = seed % 3 == 2
        X, name = X - X.mean(axis=0) * centred, "centred digits" if centred else "digits"
        X = X[rng.permutation(len(X))[:n]]
        threshold = rng.choice([0.05, 0.2, 0.3, 0.4] if centred else [0.2, 0.4, 0.6, 0.7, 0.75, 0.8, 0.9])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return f"{seed}: {name} at {threshold}", X @ X.T - threshold


def pace(path, optimum):
    """Return a row whose figures are edits above the known optimum."""
    costs = measure.pace(path)
    apart = np.count_nonzero(np.triu(costs < 0, 1))
    return run(path.name, costs, optimum - apart)


def run(name, costs, known=0.0):
    n = len(costs)
    i, j = np.triu_indices(n, 1)
    result = multicut(np.stack([i, j], axis=1), costs[i, j], algorithm="exact", time_limit=SECONDS)
    row = {"instance": name, "n": n, "start": result.trace[-2].objective - known}
    row |= {"found": result.objective - known, "bound": result.lower_bound - known}
    row |= {"optimal": result.optimal, "seconds": result.seconds}
    print(row, flush=True)
    return row


def summary(name, rows):
    proven, longest = sum(row["optimal"] for row in rows), max(row["seconds"] for row in rows)
    print(f"{name}: {proven} of {len(rows)} proven optimal within {SECONDS} s; longest {longest:.1f} s")


if __name__ == "__main__":
    main()
