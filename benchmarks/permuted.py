"""Influence of the order of the items on inside, and of the number of threads on labels.

CLUSTERFUG_DATA=... python benchmarks/permuted.py [--quick] [--data NAME ...]
"""

import numpy as np
from measure import data, digits, options, report
from threadpoolctl import threadpool_limits

from clusterfug import dense_multicut

SETS = (("digits", 0.2, 10), ("digits", 0.4, 10), ("tinyimagenet-5k", 0.4, 60), ("clinc150", 0.4, 60))


def main():
    chosen = options(__doc__)
    rows = []
    for name, threshold, limit in SETS:
        X = digits() if name == "digits" else None if chosen.quick else data(name)
        if X is None or (chosen.data and name not in chosen.data):
            continue
        orders = [np.arange(len(X)), *(np.random.default_rng(s).permutation(len(X)) for s in (1, 2))]
        for algorithm, keywords in (("auto", {}), ("best", {"time_limit": 2 if chosen.quick else limit})):
            if algorithm == "best" and len(X) > 2000:
                orders = orders[:2]
            inside = [solve(X[order], threshold, algorithm, **keywords).inside for order in orders]
            row = {"data": f"{name} {threshold:g}", "algorithm": algorithm, "inside": inside[0]}
            row["spread %"] = 100 * (max(inside) / min(inside) - 1)
            row["same labels"] = ""
            if algorithm == "auto":
                labels = []
                for threads in (1, 2):
                    with threadpool_limits(threads):
                        labels.append(solve(X, threshold, algorithm).labels)
                row["same labels"] = str(np.array_equal(*labels))
            print(row, flush=True)
            rows.append(row)
    report("permuted", rows)


def solve(X, threshold, algorithm, **keywords):
    return dense_multicut(X, threshold, algorithm=algorithm, metric="inner_product", **keywords)


if __name__ == "__main__":
    main()
