"""Basic figures and their limits: objectives, agreement on real data, import, memory, start-up.

    CLUSTERFUG_DATA=... python benchmarks/foundation.py

Rows on the shared data are left out if CLUSTERFUG_DATA is not set.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from measure import data, digits, gemm, in_fresh_process, options, report

from clusterfug import dense_multicut

ALGORITHMS = ("gaec", "dgaec", "dgaec-inc")

IMPORT = """
import json, sys, time
start = time.perf_counter()
import clusterfug
seconds = time.perf_counter() - start
heavy = [m for m in ("torch", "faiss", "dask", "matplotlib", "numba", "sklearn") if m in sys.modules]
print(json.dumps([seconds, heavy]))
"""

MEMORY = """
import json, os, resource, sys
import numpy as np
from sklearn.datasets import load_digits
from clusterfug import dense_multicut
def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))
dense_multicut(load_digits().data.astype(np.float32), 0.4, algorithm="dgaec-inc", metric="inner_product")
before = status("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # forget the peak so far
X = np.load(sys.argv[1]).astype(np.float32)
dense_multicut(X, 0.4, algorithm="dgaec-inc", metric="inner_product")
print(json.dumps([status("VmHWM") - before, X.nbytes]))
"""


def main():
    options(__doc__)
    rows = []
    X = digits()
    for threshold in (0.2, 0.4):
        rows += [agreement("digits", X, threshold, name) for name in ALGORITHMS]
    X = data("tinyimagenet-5k")
    if X is not None:
        rows += [agreement("tinyimagenet-5k", X, 0.4, name) for name in ALGORITHMS]
    report("agreement", rows)

    rows = []
    runs = [in_fresh_process(IMPORT) for _ in range(5)]
    rows.append(row("import clusterfug, seconds", statistics.median(s for s, _ in runs), 0.5))
    rows.append(row("heavy modules it imports", max(len(heavy) for _, heavy in runs), 0))
    rows.append(row("second `clusterfug cluster` on digits, seconds", second_run(), 2.5))
    if X is not None:
        path = Path(os.environ["CLUSTERFUG_DATA"]) / "clinc150" / "features.npy"
        used, size = in_fresh_process(MEMORY, path)
        limit = 3 * size / 2**20 + 50 * 10**6 / 2**20
        rows.append(row("dgaec-inc on clinc150, MiB above warm-up", used / 2**20, limit))
    report("foundation", rows)


def agreement(name, X, threshold, algorithm):
    dense_multicut(X[:100], threshold, algorithm=algorithm, metric="inner_product")  # load the kernels
    result = dense_multicut(X, threshold, algorithm=algorithm, metric="inner_product")
    return {
        "data": name,
        "threshold": f"{threshold:g}",
        "algorithm": algorithm,
        "clusters": result.n_clusters,
        "objective": round(result.objective, 2),
        "inside": round(result.inside, 2),
        "seconds": result.seconds,
        "G": result.seconds / gemm(X),
    }


def row(what, figure, limit):
    return {"what": what, "measured": figure, "at most": limit}


def second_run():
    """Return the seconds of a whole process when the kernels are compiled already."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "digits.npy"
        np.save(path, digits())
        command = [sys.executable, "-m", "clusterfug", "cluster", str(path)]
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds = time.perf_counter() - start
    return seconds


if __name__ == "__main__":
    main()
