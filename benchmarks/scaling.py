"""Cost of the tasks of a run on shards, on one core, and predictions for larger runs: docs/scaling.md.

    python benchmarks/scaling.py [--size 65536] [--clusters 2000 20000]

Unit centres plus noise of norm 0.8 in 128 dimensions, threshold 0.4, as in shards.py. Every task is timed
on one thread, once after a warm-up at a small size, and divided by its number of operations: all pairs of a
shard, or items times clusters. The second table has the predictions of the model of docs/scaling.md.
"""

import argparse
import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pickle
import time

import numpy as np

from clusterfug.costs.models import Threshold
from clusterfug.execution.sharded import tasks
from clusterfug.execution.sharded.block_joins import find_partners
from clusterfug.execution.sharded.moves import ShardScores

D = 128
RECIPE = tasks.Recipe(0, Threshold(0.4))
MAX_NODES = 65_536  # of a task
CORES, NETWORK = 16, 1.25e9  # cores of a machine, and its bytes per second


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", type=int, default=MAX_NODES, help="items of a shard")
    parser.add_argument("--clusters", type=int, nargs="+", default=[2_000, 20_000, 50_000])
    chosen = parser.parse_args()
    measured(1_000, 50)
    print("| clusters | task | seconds | law | ns per unit | result |\n|---|---|---|---|---|---|")
    for clusters in chosen.clusters:
        law = measured(chosen.size, clusters, verbose=True)  # the last one holds
    print("\n| items | clusters | machines | shards | pools | last join | a round | network | in all |")
    print("|---|---|---|---|---|---|---|---|---|")
    predict(2e6, 2e4, 2 / CORES, law)
    for n, clusters in ((1e8, 1e4), (1e8, 1e5), (1e8, 1e6), (1e9, 1e5), (1e9, 1e6), (1e9, 1e7)):
        for machines in (1, 16, 256):
            predict(n, clusters, machines, law)


def measured(m, k, verbose=False):
    """Return nanoseconds per operation of every task, for m items in k clusters."""
    X, labels = mixture(m, k)
    ids, labels = np.unique(labels, return_inverse=True)
    totals = tasks.total_shard(X, RECIPE, labels)
    everything = np.ones(len(ids), dtype=np.bool_)
    found = {}

    def law(name, units, text, function, *arguments):
        begin = time.perf_counter()
        result = function(*arguments)
        seconds = time.perf_counter() - begin
        found[name] = 1e9 * seconds / units
        if verbose:
            size = len(pickle.dumps(result, protocol=5)) / 1e6
            print(
                f"| {k:,} | {name} | {seconds:.2f} | {text} | {found[name]:.4f} | {size:.1f} MB |",
                flush=True,
            )
        return result

    _, nodes = law("solve", m * m * D, "m² d", tasks.solve_shard, None, X, RECIPE)
    if verbose:
        print(f"| {k:,} | | | | | {nodes.n:,} nodes |")
    law("join", nodes.n**2 * D, "P² d", tasks.solve_pool, None, nodes)
    law("total", m * D, "m d", tasks.total_shard, X, RECIPE, labels)
    half = nodes.n // 2
    blocks = nodes.subset(slice(half)), nodes.subset(slice(half, 2 * half))
    law("partners", half**2 * D, "B² d", find_partners, *blocks)
    for name, units, text, changed in (
        ("score", m * len(ids) * D, "m K d", everything),
        ("score, settled", m * D, "m d", ~everything),
    ):
        scores = ShardScores(labels, changed[labels])
        law(name, units, text, tasks.shard_candidates, X, RECIPE, False, False, scores, totals, changed)
    return found


def mixture(m, k):
    rng = np.random.default_rng(0)
    centres = unit(rng.normal(size=(k, D)))
    labels = rng.integers(k, size=m)
    return unit(centres[labels] + 0.8 * unit(rng.normal(size=(m, D)))).astype(np.float32), labels


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def predict(n, k, machines, law):
    """Print a row of the model: work is divided by all cores, except for pools that fit in a task."""
    cores = machines * CORES
    shards = law["solve"] * n * MAX_NODES * D / cores
    if k < MAX_NODES:
        group = max(2, MAX_NODES // k)  # pools joined at a time
        pools = law["join"] * n / MAX_NODES / (group - 1) * (group * k) ** 2 * D / cores
        last = law["join"] * (2 * k) ** 2 * D / min(cores, CORES)
    else:  # n / k times two pools of k nodes, in blocks: one is searched for the other, groups are solved
        pools = (law["partners"] * n / k * k**2 + law["join"] * 2 * n * MAX_NODES) * D / cores
        last = law["partners"] * k**2 / 2 * D / cores
    turn = (law["score"] * n * k * D + (law["total"] + law["score, settled"]) * n * D) / cores
    # All sums are sent to all machines, along a tree; or, in blocks, to every shard in turn.
    copies = np.log2(2 * max(1, machines)) if k < MAX_NODES else n / MAX_NODES / machines
    network = 1e9 * (2 * 4 * n + 8 * k * (D + 1) * copies) / NETWORK
    total = shards + pools + last + 2 * turn + 10 * network
    times = (duration(1e-9 * t) for t in (shards, pools, last, turn, network, total))
    where = f"{machines:g}" if machines >= 1 else f"{cores:g} cores"
    print(f"| {n:.0e} | {k:.0e} | {where} | {' | '.join(times)} |")


def duration(seconds):
    for unit_, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit_}"
    return f"{seconds:.0f} s"


if __name__ == "__main__":
    main()
