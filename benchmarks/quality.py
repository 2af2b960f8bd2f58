"""Quality of clusterings: inside as a share of the best known, AMI, seconds; also of other packages.

    CLUSTERFUG_DATA=... python benchmarks/quality.py [--quick] [--data NAME ...]

Each row is a separate process. best_known.json holds the largest known inside of every problem; it changes
only when labels of a run have a larger one, recomputed from the labels in float64. `--quick` is digits
alone, with shorter searches; `--slow` adds the packages that take minutes on 5,000 items.
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from measure import data, digits, options, report, run_one

from clusterfug import DenseProblem

KNOWN = Path(__file__).parent / "best_known.json"
CONTRACTIONS = ("dgaec-inc", "dlaec", "dapplaec")
PEERS = (
    "bioimage-cpp Kernighan-Lin",
    "leidenalg CPM",
    "scikit-learn average linkage",
    "scikit-learn KMeans",
)
SETS = (
    ("digits", 0.2, 10),
    ("digits", 0.4, 10),
    ("tinyimagenet-5k", 0.4, 120),
    ("tinyimagenet-5k", 0.3, 120),
    ("clinc150", 0.4, 120),
    ("tinyimagenet-50k", 0.4, 120),
)


def main():
    slow = "--slow" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--slow"]
    chosen = options(__doc__)
    rows = []
    for name, threshold, limit in SETS:
        absent = name != "digits" and (chosen.quick or data(name) is None)
        if absent or (chosen.data and name not in chosen.data):
            continue
        limit = 2 if chosen.quick else limit
        runs = [(solver, {}) for solver in (*CONTRACTIONS, "fast", "auto")]
        runs.append(("best", {"time_limit": limit}))
        if name == "tinyimagenet-50k":
            runs = [run for run in runs if run[0] != "dgaec-inc"]  # minutes
        clusters = 0
        for solver, keywords in runs:
            row = solve(name, threshold, solver, 1 if solver == "best" else 3, 0, keywords)
            clusters = row["clusters"]
            rows.append(row)
        for solver in PEERS:
            graph = "KMeans" not in solver
            if name != "digits" and graph and (not slow or name != "tinyimagenet-5k"):
                continue
            if name != "tinyimagenet-50k":
                rows.append(solve(name, threshold, solver, 1, clusters, {}))
    known = json.loads(KNOWN.read_text())
    for row in rows:
        row["share"] = row["inside"] / known[row["data"]]["inside"]
    report("quality", rows)


def solve(name, threshold, solver, repeat, clusters, keywords):
    """Return a row; its inside is stored if it is the best known."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "labels.npy"
        row = run_one(name, threshold, solver, repeat, clusters, file, **keywords)
        labels = np.load(file)
    X = digits() if name == "digits" else data(name)
    remember(
        row["data"], DenseProblem(X, threshold).inside(labels), len(np.unique(labels)), row["algorithm"]
    )
    return row


def remember(problem, inside, clusters, by):
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    if inside > known.get(problem, {"inside": -np.inf})["inside"] + 1e-6:
        known[problem] = {"inside": inside, "clusters": clusters, "by": by}
        KNOWN.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
