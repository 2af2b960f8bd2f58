"""Fingerprints of results: labels, objectives and bounds of every algorithm, before and after a change.

    CLUSTERFUG_DATA=... python benchmarks/parity.py RECORD.json [--against BEFORE.json] [--data NAME ...]

Every case is solved once, and its labels (as a hash), objective, number of clusters and lower bound are
written to RECORD.json. With --against, cases that differ from an earlier record are listed, and the exit
code is 1 if there are any. Objectives and bounds are compared to ten digits, labels exactly. Only
deterministic budgets are used (`max_iter`, never `time_limit`).
"""

import argparse
import hashlib
import json
import os
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from measure import data, digits, pace

from clusterfug import (
    DenseMulticut,
    DenseProblem,
    GraphProblem,
    dense_multicut,
    lower_bound,
    multicut,
    solve_many,
    threshold_path,
)

SETS = ("digits", "tinyimagenet-5k", "clinc150", "tinyimagenet-50k")
#: `best` by iterations, so that the answer does not depend on the machine's speed.
ITERATIONS = {"digits": 20, "tinyimagenet-5k": 20, "clinc150": 5, "tinyimagenet-50k": 2}
GRAPHS = ("exact001", "exact021", "exact059")


def cases(chosen):
    """Names of cases and functions that solve them."""
    for name in SETS:
        X = digits() if name == "digits" else data(name)
        if X is None or (chosen and name not in chosen):
            continue
        for case, solve in of_features(X, ITERATIONS[name], large=name == "tinyimagenet-50k"):
            yield f"{name} {case}", solve
    if not chosen or "digits" in chosen:
        X = digits()
        for threshold, result in zip(
            (0.2, 0.4, 0.6), threshold_path(X, [0.2, 0.4, 0.6], metric="inner_product"), strict=True
        ):
            yield f"digits path {threshold}", lambda result=result: result
        for t, result in enumerate(
            solve_many(
                [X[:500], X[500:900], X[900:]], threshold=0.4, algorithm="fast", metric="inner_product"
            )
        ):
            yield f"digits many {t}", lambda result=result: result
    folder = os.environ.get("CLUSTERFUG_DATA")
    if not folder:
        return
    if not chosen or "pace" in chosen:
        for name in GRAPHS:
            costs = pace(Path(folder) / "pace2021" / f"{name}.gr")
            i, j = np.triu_indices(len(costs), 1)
            graph = GraphProblem(np.stack([i, j], axis=1), costs[i, j])
            for algorithm in ("fast", "auto", "gaec"):
                yield f"{name} {algorithm}", lambda a=algorithm, g=graph: multicut(g, algorithm=a)
            yield f"{name} best", lambda g=graph: multicut(g, algorithm="best", max_iter=50)
            yield f"{name} bound", lambda g=graph: lower_bound(g)
            dense = DenseProblem.from_costs(costs)
            yield f"{name} dense", lambda p=dense: dense_multicut(p)
    if not chosen or "nuclei" in chosen:
        yield from nuclei()


def of_features(X, iterations, large):
    """Every algorithm at 0.4 on rows as they are, other costs, bounds, shards."""
    for algorithm in ("fast", "auto", "gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec"):
        options = {"memory_limit": "12GB"} if algorithm == "gaec" else {}
        yield algorithm, partial(solve, X, 0.4, algorithm=algorithm, **options)
    yield "best", partial(solve, X, 0.4, algorithm="best", max_iter=iterations)
    yield "exact, 40 items", partial(solve, X[:: len(X) // 40][:40], 0.4, algorithm="exact")
    yield "auto threshold", partial(solve, X, "auto")
    yield "local", partial(solve, X, "local", strictness=0.7, algorithm="fast")
    yield "estimator", lambda: DenseMulticut().fit(X).result_
    yield "estimator centred", lambda: DenseMulticut(center=True).fit(X).result_
    yield "trivial bound", lambda: lower_bound(DenseProblem(X, 0.4), method="trivial")
    if large:
        return
    yield "refined dlaec", partial(solve, X, 0.4, algorithm="dlaec", refine=True)
    yield "20 clusters", partial(solve, X, n_clusters=20)
    yield "bound", lambda: lower_bound(DenseProblem(X, 0.4))
    yield (
        "alpha and weights",
        partial(solve, X, alpha=alpha(X), sample_weight=weights(X), algorithm="fast"),
    )
    yield "shards", partial(solve, X, 0.4, memory_limit=len(X) * 9 * X.shape[1] // 3)


def solve(X, *costs, **options):
    """Rows as they are: the shared features are normalised already."""
    return dense_multicut(X, *costs, metric="inner_product", **options)


def nuclei():
    """Segmentations of the nuclei, by three ways to partition the pixels."""
    sys.path.insert(0, str(Path(__file__).parent / "paper"))
    import common
    import panoptic

    samples = common.nuclei()
    for name, algorithm, rules in (
        ("plain", "auto", {"threshold": 0.6}),
        ("dlaec", "dlaec", {"threshold": 0.6}),
        ("pipeline", "auto", {"threshold": 0.6} | panoptic.PIPELINE),
    ):
        found = panoptic.partition(samples, algorithm, **rules)
        yield f"nuclei {name}", lambda found=found: np.concatenate([one.instance.ravel() for one in found])


def alpha(X):
    return np.random.default_rng(0).uniform(0.5, 0.8, len(X))


def weights(X):
    return np.random.default_rng(1).integers(0, 4, len(X))


def fingerprint(result):
    """What is compared of a clustering, a bound or an array of labels."""
    if isinstance(result, np.ndarray):
        return {"labels": digest(result)}
    if not hasattr(result, "labels"):
        return {"bound": f"{float(result):.10g}"}
    return {
        "labels": digest(result.labels),
        "objective": f"{result.objective:.10g}",
        "clusters": result.n_clusters,
        "bound": None if result.lower_bound is None else f"{result.lower_bound:.10g}",
    }


def digest(labels):
    return hashlib.sha256(np.ascontiguousarray(labels, dtype=np.int64)).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("record", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--data", nargs="*", metavar="NAME", help="only these data sets, pace, nuclei")
    chosen = parser.parse_args()
    found = {}
    for name, solve in cases(chosen.data):
        begin = time.perf_counter()
        found[name] = fingerprint(solve())
        print(f"{time.perf_counter() - begin:7.2f} s  {name}: {found[name]}", flush=True)
        chosen.record.write_text(json.dumps(found, indent=1) + "\n")
    if chosen.against is None:
        return
    before = json.loads(chosen.against.read_text())
    missing = set(before) - set(found) if not chosen.data else set()
    differ = [name for name in found if name in before and found[name] != before[name]]
    for name in differ:
        print(f"differs: {name}: {before[name]} -> {found[name]}")
    for name in sorted(missing):
        print(f"missing: {name}")
    print(f"{len(found)} cases, {len(differ)} differ, {len(missing)} missing")
    sys.exit(bool(differ or missing))


if __name__ == "__main__":
    main()
