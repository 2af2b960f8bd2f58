"""How time grows with the number of items: the paper's figure, on 5,000 to 50,000 of the same features.

    CLUSTERFUG_DATA=... python benchmarks/complexity.py [--quick]

Fits the exponent e of seconds ~ n^e by least squares in logarithms, writes JSON and docs/complexity.png.
"""

import statistics
import time
from pathlib import Path

import numpy as np
from measure import data, options, report

from clusterfug import dense_multicut

PICTURE = Path(__file__).parent.parent / "docs" / "complexity.png"
ALGORITHMS = ("dgaec-inc", "dlaec", "dapplaec")


def main():
    quick = options(__doc__).quick
    X = data("tinyimagenet-50k")
    if X is None:
        raise SystemExit("set CLUSTERFUG_DATA to the folder of benchmark data")
    sizes = (2_500, 5_000) if quick else (5_000, 10_000, 20_000, 35_000, 50_000)
    order = np.random.default_rng(0).permutation(len(X))
    rows = []
    for algorithm in ALGORITHMS:
        dense_multicut(X[:200], algorithm=algorithm)  # load the kernels
        for n in sizes:
            part = np.ascontiguousarray(X[order[:n]])
            seconds = []
            for _ in range(1 if quick or algorithm == "dgaec-inc" else 3):
                start = time.perf_counter()
                result = dense_multicut(part, algorithm=algorithm)
                seconds.append(time.perf_counter() - start)
            rows.append(
                {
                    "algorithm": algorithm,
                    "n": n,
                    "seconds": statistics.median(seconds),
                    "clusters": result.n_clusters,
                    "inside": result.inside,
                }
            )
            print(rows[-1], flush=True)
    exponents = {name: exponent(rows, name) for name in ALGORITHMS}
    for row in rows:
        row["exponent"] = exponents[row["algorithm"]]
    report("complexity", rows)
    if not quick:
        draw(rows, exponents)


def exponent(rows, algorithm):
    own = [row for row in rows if row["algorithm"] == algorithm]
    return float(np.polyfit(np.log([r["n"] for r in own]), np.log([r["seconds"] for r in own]), 1)[0])


def draw(rows, exponents):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for name, marker in zip(ALGORITHMS, "os^", strict=True):
        own = [row for row in rows if row["algorithm"] == name]
        label = f"{name}: n$^{{{exponents[name]:.2f}}}$"
        axes.loglog([r["n"] for r in own], [r["seconds"] for r in own], marker + "-", label=label)
    axes.set(xlabel="items", ylabel="seconds, 2 cores", title="Tiny-ImageNet features, 256 dimensions")
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
