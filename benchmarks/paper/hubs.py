"""The worst case of the appendix: all nodes have the same nearest neighbour, for k = 1 and larger k.

    python benchmarks/paper/hubs.py [--full]

The first hub is the nearest neighbour of every node, the second hub the next one, and so on; nodes repel
each other, and so do hubs. A hub that is contracted with a node repels all other nodes. With one neighbour
per node (k = 1) every contraction starts a search for all nodes; for larger k their lists have more hubs.
"""

import time

import numpy as np
from common import is_full, table, write

from clusterfug import DenseProblem, dense_multicut

KS = (1, 2, 3, 5, 10, 20)
HUBS = 40


def main():
    full = is_full(__doc__, needs_data=False)
    sizes = (500, 1000, 2000, 4000, 8000) if full else (500, 1000, 2000, 4000)
    dense_multicut(hubs(50), algorithm="dgaec-inc")  # load the kernels
    rows = []
    for k in KS:
        seconds = []
        for n in sizes:
            problem = hubs(n)
            start = time.perf_counter()
            result = dense_multicut(problem, algorithm="dgaec-inc", k=k)
            seconds.append(time.perf_counter() - start)
            assert len(result.merges) == HUBS
        growth = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        rows.append((k, *(f"{s:.3f}" for s in seconds), f"{growth:.2f}"))
        print(rows[-1], flush=True)
    parts = [
        f"Seconds of `dgaec-inc` for {HUBS} hubs among n nodes: {HUBS} contractions, whatever k is. "
        "The last column is the exponent e of n^e.",
        table(("k", *(f"{n:,}" for n in sizes), "exponent"), rows),
        "The paper's bound: with k = 1 every contraction of a hub causes n searches, n^2 in all; with "
        "larger k nodes use the next entries of their lists, and search once in k contractions.",
    ]
    write("hubs", "Appendix: the worst case of k = 1", parts, full)


def hubs(n):
    """Return the problem in three dimensions: one in which nodes repel each other, one for hubs."""
    rng = np.random.default_rng(0)
    nodes = np.stack([1 + 0.1 * rng.random(n), np.full(n, 1.5), np.zeros(n)], axis=1)
    pull = np.linspace(0.9, 0.5, HUBS)
    centres = np.stack([pull, np.zeros(HUBS), np.full(HUBS, 1.5)], axis=1)
    return DenseProblem(np.concatenate([nodes, centres]), 0.0, signature=[1, -1, -1])


if __name__ == "__main__":
    main()
