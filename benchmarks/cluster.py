"""Shards on two processes of a dask cluster, beside one process with two threads.

    python benchmarks/cluster.py [clinc150 tinyimagenet-50k] [--orders given random sorted]

Needs CLUSTERFUG_DATA. Every line is the second of two runs, so that starting the cluster and loading
compiled kernels are not measured; the features are in the memory of the workers. Orders: as given, random
(shuffled), or sorted by cluster, so that a shard has all of some clusters and none of the others.
"""

import argparse
import time
import warnings

import dask.array
import numpy as np
from distributed import Client, LocalCluster
from measure import data

from clusterfug import dense_multicut

THRESHOLD = 0.4


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", default=["clinc150", "tinyimagenet-50k"])
    parser.add_argument("--shards", nargs="+", type=int, default=[1, 4, 16])
    parser.add_argument("--orders", nargs="+", default=["given"], choices=["given", "random", "sorted"])
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore", "Sending large graph")  # the features, once
    address = {"dashboard_address": None, "host": "127.0.0.1"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **address) as cluster, Client(cluster) as client:
        for name in chosen.names:
            X = data(name)
            alone, seconds = timed(lambda X=X: dense_multicut(X, THRESHOLD, metric="inner_product"))
            print(f"{name}, one process: {seconds:.1f} s, inside {alone.inside:,.0f}", flush=True)
            for order in chosen.orders:
                rows = ordered(X, alone.labels, order)
                for count in chosen.shards:
                    report(rows, count, order, alone.inside, seconds, client)


def ordered(X, labels, order):
    if order == "given":
        return X
    if order == "sorted":
        return np.ascontiguousarray(X[np.argsort(labels, kind="stable")])
    return np.ascontiguousarray(X[np.random.default_rng(0).permutation(len(X))])


def report(X, count, order, inside, seconds, client):
    chunks = (-(-len(X) // count), X.shape[1])
    held = dask.array.from_array(X, chunks=chunks).persist()
    result, taken = timed(lambda: dense_multicut(held, THRESHOLD, metric="inner_product", client=client))
    print(
        f"  {count:3} shards, {order}: {taken:.1f} s ({taken / seconds:.2f} of one process), inside "
        f"{result.inside:,.0f} ({result.inside / inside:.2%}), {result.n_clusters:,} clusters; "
        + ", ".join(f"{phase.name} {phase.seconds:.1f} s" for phase in result.trace),
        flush=True,
    )


def timed(function):
    function()
    begin = time.perf_counter()
    result = function()
    return result, time.perf_counter() - begin


if __name__ == "__main__":
    main()
