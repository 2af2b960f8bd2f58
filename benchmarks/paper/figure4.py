"""Figure 4: growth of time with the number of items, on subsets of the same features.

    CLUSTERFUG_DATA=... python benchmarks/paper/figure4.py [--full]

Fits the exponent e of seconds ~ n^e by least squares in logarithms.
"""

import statistics
import time

import numpy as np
from common import figure, is_full, save, table, write
from measure import data

from clusterfug import dense_multicut

ALGORITHMS = ("gaec", "dgaec-inc", "dlaec", "dapplaec", "auto")


def main():
    full = is_full(__doc__)
    X = data("tinyimagenet-50k")
    sizes = (5_000, 10_000, 20_000, 35_000, 50_000) if full else (2_500, 5_000, 10_000, 20_000)
    order = np.random.default_rng(0).permutation(len(X))
    seconds = {}
    for algorithm in ALGORITHMS:
        dense_multicut(X[:200], 0.4, algorithm=algorithm, metric="inner_product")  # load the kernels
        for n in sizes:
            if algorithm == "gaec" and n > 20_000:
                continue  # its matrix would not fit
            part = np.ascontiguousarray(X[order[:n]])
            times = []
            for _ in range(1 if algorithm == "dgaec-inc" and n > 10_000 else 3):
                start = time.perf_counter()
                dense_multicut(part, 0.4, algorithm=algorithm, metric="inner_product")
                times.append(time.perf_counter() - start)
            seconds[algorithm, n] = statistics.median(times)
            print(algorithm, n, round(seconds[algorithm, n], 3), flush=True)
    exponents = {name: exponent(seconds, name) for name in ALGORITHMS}
    rows = [
        (name, *(f"{seconds[name, n]:.2f}" if (name, n) in seconds else "" for n in sizes), f"{e:.2f}")
        for name, e in exponents.items()
    ]
    parts = [
        "Seconds for n of the 50,000 Tiny-ImageNet features (256 dimensions, threshold 0.4), median of "
        "three; and the exponent e of n^e.",
        table(("algorithm", *(f"{n:,}" for n in sizes), "exponent"), rows),
        "![seconds against items](figure4.png)",
        "The paper: DGAECInc and DLAEC grow with n^2, DAppLAEC more slowly (ImageNet, 2,048 dimensions).",
    ]
    write("figure4", "Figure 4: growth of time", parts, full)
    draw(seconds, exponents)


def exponent(seconds, algorithm):
    own = {n: s for (name, n), s in seconds.items() if name == algorithm}
    return float(np.polyfit(np.log(list(own)), np.log(list(own.values())), 1)[0])


def draw(seconds, exponents):
    drawing, axes = figure(6, 4)
    for name, marker in zip(ALGORITHMS, "Dos^v", strict=True):
        own = {n: s for (other, n), s in seconds.items() if other == name}
        axes.loglog(
            list(own), list(own.values()), marker + "-", label=f"{name}: n$^{{{exponents[name]:.2f}}}$"
        )
    axes.set(xlabel="items", ylabel="seconds, 2 cores", title="Tiny-ImageNet features, 256 dimensions")
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    save(drawing, "figure4")


if __name__ == "__main__":
    main()
