"""Run one solver on one data set and print a row as JSON; other scripts start it as a separate process.

    python benchmarks/run_one.py DATA THRESHOLD SOLVER REPEAT CLUSTERS LABELS [OPTION=VALUE ...]

CLUSTERS is the number of clusters for k-means. LABELS is a file to write the labels to, or "-". Packages
for graphs get the complete graph up to 5,000 items and the 20 nearest neighbours beyond.
"""

import json
import resource
import statistics
import sys
import time

import numpy as np
from measure import data, digits, gemm, truth

from clusterfug import DenseProblem, dense_multicut
from clusterfug.solvers import SOLVERS


def main():
    name, threshold, solver, repeat, clusters, out, *options = sys.argv[1:]
    X = digits() if name == "digits" else data(name)
    problem = DenseProblem(X, float(threshold))
    if solver in SOLVERS:
        keywords = {"metric": "inner_product"} | {
            key: json.loads(value) for key, value in (option.split("=") for option in options)
        }
        warm = keywords | ({"time_limit": 0.5} if solver == "best" else {})
        dense_multicut(X[:300], float(threshold), algorithm=solver, **warm)  # load the kernels
        dense_multicut(X[:2500:2], float(threshold), algorithm=solver, **warm)

        def solve():
            return dense_multicut(X, float(threshold), algorithm=solver, **keywords).labels
    else:
        solve = peer(solver, X, problem, float(threshold), int(clusters))
    seconds = []
    for _ in range(int(repeat)):
        start = time.perf_counter()
        labels = np.asarray(solve()).astype(np.int64)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if out != "-":
        np.save(out, labels)
    row = {
        "data": f"{name} {float(threshold):g}",
        "algorithm": " ".join([solver, *options]),
        "seconds": statistics.median(seconds),
        "G": statistics.median(seconds) / gemm(X),
        "objective": problem.objective(labels),
        "inside": problem.inside(labels),
        "clusters": len(np.unique(labels)),
        "peak MB": peak,
    }
    classes = truth(name)
    if classes is not None:
        from sklearn.metrics import adjusted_mutual_info_score, normalized_mutual_info_score

        row["NMI"] = float(normalized_mutual_info_score(classes, labels))
        row["AMI"] = float(adjusted_mutual_info_score(classes, labels))
    print(json.dumps(row))


def graph(X, problem, threshold):
    n = len(X)
    if n <= 5000:
        i, j = np.triu_indices(n, 1)
        return np.stack([i, j], axis=1), (X @ X.T - threshold)[i, j].astype(np.float64)
    from clusterfug.neighbours.exact import exact_neighbours

    found = exact_neighbours(problem, 20)
    pairs = np.stack([np.repeat(np.arange(n), 20), found.ids.ravel()], axis=1)
    pairs, first = np.unique(np.sort(pairs, axis=1), axis=0, return_index=True)
    return pairs, found.costs.ravel()[first]


def peer(solver, X, problem, threshold, clusters):
    """Return a function without arguments that returns labels; it does not include building a graph."""
    if solver == "scikit-learn KMeans":
        from sklearn.cluster import KMeans

        return lambda: KMeans(clusters, n_init=1, random_state=0).fit_predict(X)
    if solver == "scikit-learn HDBSCAN":
        return lambda: hdbscan(X)
    if solver == "scikit-learn average linkage":
        from sklearn.cluster import AgglomerativeClustering

        average = AgglomerativeClustering(
            None, metric="cosine", linkage="average", distance_threshold=1 - threshold
        )
        return lambda: average.fit_predict(X)
    if solver == "faiss k-means":
        return lambda: faiss_kmeans(X, clusters)
    edges, costs = graph(X, problem, threshold)
    if solver == "leidenalg CPM":
        return lambda: leiden(len(X), edges, costs)
    return lambda: bioimage(len(X), edges, costs, solver)


def hdbscan(X):
    from sklearn.cluster import HDBSCAN

    labels = HDBSCAN(min_cluster_size=5, copy=True).fit_predict(X)
    noise = labels < 0
    labels[noise] = labels.max() + 1 + np.arange(noise.sum())
    return labels


def faiss_kmeans(X, clusters):
    import faiss

    means = faiss.Kmeans(X.shape[1], clusters, seed=1, niter=25, min_points_per_centroid=1)
    rows = np.ascontiguousarray(X, dtype=np.float32)
    means.train(rows)
    return means.index.search(rows, 1)[1][:, 0]


def leiden(n, edges, costs):
    import igraph
    import leidenalg

    part = leidenalg.find_partition(
        igraph.Graph(n=n, edges=edges),
        leidenalg.CPMVertexPartition,
        weights=costs,
        resolution_parameter=0.0,
        seed=0,
    )
    return np.array(part.membership)


def bioimage(n, edges, costs, solver):
    from bioimage_cpp.graph import UndirectedGraph
    from bioimage_cpp.graph.multicut import (
        ChainedMulticutSolvers,
        GreedyAdditiveMulticut,
        KernighanLinMulticut,
        MulticutObjective,
    )

    objective = MulticutObjective(UndirectedGraph.from_unique_edges(n, edges.astype(np.uint64)), costs)
    steps = [GreedyAdditiveMulticut()]
    if solver.endswith("Lin"):
        steps.append(KernighanLinMulticut())
    return ChainedMulticutSolvers(steps).optimize(objective)


if __name__ == "__main__":
    main()
