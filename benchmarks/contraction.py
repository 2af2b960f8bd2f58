"""Time, quality and memory of every contraction algorithm, and of other packages, on the same data.

    CLUSTERFUG_DATA=... python benchmarks/contraction.py [--quick]

Each row is a separate process. Seconds are the median of three runs (one for other packages); G is the
median of three blocked float32 products of all pairs in the process; memory is the peak of the process.
Packages for graphs get the complete graph up to 5,000 items and the 20 nearest neighbours beyond; k-means
gets the number of clusters of dapplaec.
"""

from measure import data, options, report, run_one

OURS = ("gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec")
PEERS = (
    "scikit-learn KMeans", "scikit-learn HDBSCAN", "scikit-learn average linkage", "faiss k-means",
    "bioimage-cpp GAEC", "bioimage-cpp Kernighan-Lin", "leidenalg CPM",
)  # fmt: skip
# HDBSCAN and average linkage take many minutes beyond 5,000 items.
PEERS_OF_MANY = tuple(name for name in PEERS if "HDBSCAN" not in name and "linkage" not in name)
SMALL = ("digits", "tinyimagenet-5k")


def main():
    chosen = options(__doc__)
    quick = chosen.quick
    sets = [("digits", 0.2), ("digits", 0.4)]
    if data("tinyimagenet-5k") is not None and not quick:
        sets += [("tinyimagenet-5k", 0.4), ("tinyimagenet-5k", 0.3), ("clinc150", 0.4), ("clinc150", 0.5)]
        sets += [("tinyimagenet-50k", 0.4)]
    rows = []
    for name, threshold in sets:
        if chosen.data and name not in chosen.data:
            continue
        large = name == "tinyimagenet-50k"
        for solver in ("dlaec", "dapplaec") if large else OURS:
            rows.append(run_one(name, threshold, solver, 1 if quick else 3))
        if quick or threshold not in (0.2, 0.4):
            continue
        clusters = rows[-1]["clusters"]  # for k-means
        peers = PEERS if name in SMALL else ("faiss k-means",) if large else PEERS_OF_MANY
        for solver in peers:
            rows.append(run_one(name, threshold, solver, 1, clusters))
    report("contraction", rows)


if __name__ == "__main__":
    main()
