"""Time, quality and memory of every contraction algorithm, and of its peers, on the same data.

    CLUSTERFUG_DATA=... python benchmarks/contraction.py [--quick]

Each row is a process of its own. Seconds are the median of three runs (one for peers); G is the median of
three blocked float32 products of all pairs in the same process; memory is the peak of the process. The
peers that need a graph get the complete one up to 5,000 items and the 20 nearest neighbours beyond; k-means
is told the number of clusters that dapplaec found.
"""

import sys

from measure import data, in_fresh_process, options, report

OURS = ("gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec")
PEERS = (
    "scikit-learn KMeans", "scikit-learn HDBSCAN", "scikit-learn average linkage", "faiss k-means",
    "bioimage-cpp GAEC", "bioimage-cpp Kernighan-Lin", "leidenalg CPM",
)  # fmt: skip
# HDBSCAN and average linkage take many minutes beyond 5,000 items.
PEERS_OF_MANY = tuple(name for name in PEERS if "HDBSCAN" not in name and "linkage" not in name)
SMALL = ("digits", "tinyimagenet-5k")

RUN = """
import json, resource, statistics, sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
from measure import data, digits, gemm
from clusterfug import DenseProblem, dense_multicut
name, threshold, solver, repeat = sys.argv[2], float(sys.argv[3]), sys.argv[4], int(sys.argv[5])
X = digits() if name == "digits" else data(name)
clusters = int(sys.argv[6])
problem = DenseProblem(X, threshold)
n = len(X)

def graph():
    if n <= 5000:
        i, j = np.triu_indices(n, 1)
        return np.stack([i, j], axis=1), (X @ X.T - threshold)[i, j].astype(np.float64)
    from clusterfug.neighbours.exact import nearest
    found = nearest(problem, 20)
    pairs = np.stack([np.repeat(np.arange(n), 20), found.ids.ravel()], axis=1)
    pairs, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    return pairs, found.costs.ravel()[first]

def peer():
    if solver == "scikit-learn KMeans":
        from sklearn.cluster import KMeans
        return KMeans(clusters, n_init=1, random_state=0).fit_predict(X)
    if solver == "scikit-learn HDBSCAN":
        from sklearn.cluster import HDBSCAN
        labels = HDBSCAN(min_cluster_size=5, copy=True).fit_predict(X)
        noise = labels < 0
        labels[noise] = labels.max() + 1 + np.arange(noise.sum())
        return labels
    if solver == "scikit-learn average linkage":
        from sklearn.cluster import AgglomerativeClustering
        return AgglomerativeClustering(
            None, metric="cosine", linkage="average", distance_threshold=1 - threshold
        ).fit_predict(X)
    if solver == "faiss k-means":
        import faiss
        means = faiss.Kmeans(X.shape[1], clusters, seed=1, niter=25, min_points_per_centroid=1)
        rows = np.ascontiguousarray(X, dtype=np.float32)
        means.train(rows)
        return means.index.search(rows, 1)[1][:, 0]
    if solver == "leidenalg CPM":
        import igraph, leidenalg
        g = igraph.Graph(n=n, edges=edges)
        part = leidenalg.find_partition(
            g, leidenalg.CPMVertexPartition, weights=costs, resolution_parameter=0.0, seed=0
        )
        return np.array(part.membership)
    from bioimage_cpp.graph import UndirectedGraph
    from bioimage_cpp.graph.multicut import (
        ChainedMulticutSolvers, GreedyAdditiveMulticut, KernighanLinMulticut, MulticutObjective,
    )
    objective = MulticutObjective(UndirectedGraph.from_unique_edges(n, edges.astype(np.uint64)), costs)
    steps = [GreedyAdditiveMulticut()]
    if solver.endswith("Lin"):
        steps.append(KernighanLinMulticut())
    return np.asarray(ChainedMulticutSolvers(steps).optimize(objective))

if solver in ("gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec"):
    dense_multicut(X[:200], threshold, algorithm=solver)  # load the kernels
    solve = lambda: dense_multicut(X, threshold, algorithm=solver).labels
else:
    if solver.startswith("bioimage") or solver.startswith("leiden"):
        edges, costs = graph()  # outside the clock
    solve = peer
seconds = []
for _ in range(repeat):
    start = time.perf_counter()
    labels = np.asarray(solve()).astype(np.int64)
    seconds.append(time.perf_counter() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
seconds = statistics.median(seconds)
print(json.dumps({
    "data": f"{name} {threshold:g}", "algorithm": solver, "seconds": seconds, "G": seconds / gemm(X),
    "inside": problem.inside(labels), "clusters": len(np.unique(labels)), "peak MB": peak,
}))
"""


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
            rows.append(run(name, threshold, solver, 1 if quick else 3, 0))
        if quick or threshold not in (0.2, 0.4):
            continue
        clusters = rows[-1]["clusters"]  # what k-means is told
        peers = PEERS if name in SMALL else ("faiss k-means",) if large else PEERS_OF_MANY
        for solver in peers:
            rows.append(run(name, threshold, solver, 1, clusters))
    report("contraction", rows)


def run(name, threshold, solver, repeat, clusters):
    row = in_fresh_process(RUN, sys.path[0], name, threshold, solver, repeat, clusters)
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
