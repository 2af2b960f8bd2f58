"""A problem larger than its memory limit: seconds, memory, and inside beside the planted clusters.

    python benchmarks/shards.py [--items 2000000] [--clusters 20000] [--limit 600] [--folder FOLDER]

Unit centres plus noise of norm 0.8, renormalised, in 128 dimensions, written once as a .npy file to FOLDER
(a temporary one by default) and read as a memory map; threshold 0.4. Memory is the anonymous memory of the
process at its peak: pages of the mapped file can be dropped at any time and are not counted. Linux only.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from clusterfug import DenseProblem, dense_multicut

D, NOISE, THRESHOLD, BLOCK = 128, 0.8, 0.4, 100_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=2_000_000)
    parser.add_argument("--clusters", type=int, default=20_000)
    parser.add_argument("--limit", type=float, default=600, help="MB for a part")
    parser.add_argument("--folder", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        file = Path(folder) / "features.npy"
        truth = write(file, chosen.items, chosen.clusters)
        measure(np.load(file, mmap_mode="r"), truth, int(chosen.limit * 1e6))


def write(file, n, clusters):
    """Write the features in blocks; return the planted labels."""
    rng = np.random.default_rng(0)
    centres = unit(rng.normal(size=(clusters, D)).astype(np.float32))
    labels = rng.integers(0, clusters, n)
    features = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(n, D))
    for start in range(0, n, BLOCK):
        part = labels[start : start + BLOCK]
        noise = NOISE * unit(rng.normal(size=(len(part), D)).astype(np.float32))
        features[start : start + BLOCK] = unit(centres[part] + noise)
    return labels


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def measure(X, truth, limit):
    peak = Peak()
    begin = time.perf_counter()
    result = dense_multicut(X, THRESHOLD, metric="inner_product", memory_limit=limit, callback=peak.report)
    seconds = time.perf_counter() - begin
    planted = DenseProblem(X, THRESHOLD).inside(truth)
    print(f"{len(X):,} x {D}, limit {limit / 1e6:,.0f} MB: {seconds:,.0f} s, peak {peak.megabytes:,} MB")
    print(
        f"{result.n_clusters:,} clusters, {result.inside / planted:.4%} of the inside of the planted ones"
    )
    for phase in result.trace:
        print(f"  {phase.name}: {phase.seconds:,.0f} s, {phase.n_clusters:,} clusters")


class Peak:
    """Peak of the anonymous memory of this process, sampled five times a second."""

    def __init__(self):
        self.megabytes, self.printed = 0, time.perf_counter()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        while True:
            status = Path("/proc/self/status").read_text()
            kilobytes = int(status.split("RssAnon:")[1].split()[0])
            self.megabytes = max(self.megabytes, kilobytes // 1000)
            time.sleep(0.2)

    def report(self, phase, done, total):
        if time.perf_counter() - self.printed > 30:
            self.printed = time.perf_counter()
            print(f"  {phase} {done:,} of {total:,}, {self.megabytes:,} MB", flush=True)


if __name__ == "__main__":
    main()
