"""`best` against proven optima: PACE 2021 cluster editing, and small weighted instances.

    CLUSTERFUG_DATA=... python benchmarks/optima.py [--quick]

PACE: +1 on the edges of a graph and -1 on all other pairs, so that the edits are the attraction cut and the
repulsion kept; the optima are proven. Weighted: 200 instances of up to 40 nodes (a random matrix, a
mixture, digits, in turns) against an integer program solved by HiGHS. `--quick` is every tenth instance.
"""

import csv
import os
import sys
import time
from pathlib import Path

import measure
import numpy as np
from measure import options, report

from clusterfug import DenseProblem, dense_multicut, multicut

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from reference import exact_inside, weighted_instance

PACE_SECONDS = 20
WEIGHTED_SECONDS = 2


def main():
    step = 10 if options(__doc__).quick else 1
    multicut([[0, 1]], [1.0], algorithm="best")  # load the kernels
    folder = os.environ.get("CLUSTERFUG_DATA")
    if folder:
        rows = list(csv.DictReader((Path(folder) / "pace2021" / "optima.csv").open()))[::step]
        results = [pace(Path(folder) / "pace2021" / row["instance"], int(row["optimum"])) for row in rows]
        report("pace", results)
        summary("PACE 2021", results)
    results = [weighted(seed) for seed in range(0, 200, step)]
    report("weighted", results)
    summary("weighted", results)


def pace(path, optimum):
    costs = measure.pace(path)
    n = len(costs)
    i, j = np.triu_indices(n, 1)
    start = time.perf_counter()
    result = multicut(np.stack([i, j], axis=1), costs[i, j], algorithm="best", time_limit=PACE_SECONDS)
    seconds = time.perf_counter() - start
    same = result.labels[i] == result.labels[j]
    edits = int(np.count_nonzero(same != (costs[i, j] > 0)))
    row = {"instance": path.name, "n": n, "optimum": optimum, "found": edits, "seconds": seconds}
    print(row, flush=True)
    return row | {"above": edits / optimum - 1}


def weighted(seed):
    costs = weighted_instance(seed)
    start = time.perf_counter()
    result = dense_multicut(DenseProblem.from_costs(costs), algorithm="best", time_limit=WEIGHTED_SECONDS)
    seconds = time.perf_counter() - start
    optimum = exact_inside(costs)
    row = {"instance": str(seed), "n": len(costs), "optimum": optimum, "found": result.inside}
    return row | {"seconds": seconds, "above": max(0.0, 1 - result.inside / optimum)}


def summary(name, rows):
    solved = sum(row["above"] <= 1e-9 for row in rows)
    worst, longest = max(row["above"] for row in rows), max(row["seconds"] for row in rows)
    print(f"{name}: optimum of {solved} of {len(rows)}; worst {worst:.2%} off; longest {longest:.1f} s")


if __name__ == "__main__":
    main()
