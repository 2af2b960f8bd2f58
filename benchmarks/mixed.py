"""Mixed problems: links on labelled data, modularity beside Leiden, cluster editing without all pairs.

    CLUSTERFUG_DATA=... python benchmarks/mixed.py [--quick] [--data links modularity editing large]

links: random pairs of equal class are must-links, as many of different classes cannot-links. modularity:
`auto` once, and leidenalg with ten seeds, on graphs of 15 nearest neighbours and others. editing: graphs
of PACE 2021, whose optima are proven, by `auto` and `best`. large: a generated graph of 80,000 nodes.
Links and the large graph run in processes of their own for their peak memory.
"""

import csv
import os
import statistics
import time
from pathlib import Path

import numpy as np
from measure import data, digits, in_fresh_process, options, report

from clusterfug import cluster_editing, modularity, multicut
from clusterfug.costs.models import NeighbourGraph
from clusterfug.costs.neighbour_graph import neighbour_graph
from clusterfug.io.graphs import read_graph_file

BEST_SECONDS = 20
SEEDS = 10
KARATE = """
0-1 0-2 0-3 0-4 0-5 0-6 0-7 0-8 0-10 0-11 0-12 0-13 0-17 0-19 0-21 0-31 1-2 1-3 1-7 1-13 1-17 1-19
1-21 1-30 2-3 2-7 2-8 2-9 2-13 2-27 2-28 2-32 3-7 3-12 3-13 4-6 4-10 5-6 5-10 5-16 6-16 8-30 8-32
8-33 9-33 13-33 14-32 14-33 15-32 15-33 18-32 18-33 19-33 20-32 20-33 22-32 22-33 23-25 23-27 23-29
23-32 23-33 24-25 24-27 24-31 25-31 26-29 26-33 27-33 28-31 28-33 29-32 29-33 30-32 30-33 31-32
31-33 32-33
"""

LINKS = """
import json, resource, sys, time
sys.path.insert(0, "benchmarks")
import numpy as np
from measure import data, digits, truth
from sklearn.metrics import adjusted_mutual_info_score
from clusterfug import dense_multicut
name, kind, count, threshold = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
X, y = digits() if name == "digits" else data(name), truth(name)
rng, n = np.random.default_rng(0), len(X)
order = np.argsort(y, kind="stable")
starts = np.searchsorted(y[order], np.arange(y.max() + 2))
i = rng.integers(n, size=4 * count)
j = order[(starts[y[i]] + rng.random(len(i)) * np.diff(starts)[y[i]]).astype(int)]
must = np.stack([i, j], axis=1)[i != j][:count]
pairs = rng.integers(n, size=(4 * count, 2))
cannot = pairs[y[pairs[:, 0]] != y[pairs[:, 1]]][:count]
links = {"must_link": must} if kind in ("must", "both", "soft") else {}
links |= {"cannot_link": cannot} if kind in ("cannot", "both", "soft") else {}
links |= {"link_weight": 1.0} if kind == "soft" else {}
small = {key: v[(v < 500).all(axis=1)] if np.ndim(v) else v for key, v in links.items()}
dense_multicut(X[:500], threshold, metric="inner_product", **small)  # load the kernels
seconds = []
for _ in range(3):
    start = time.perf_counter()
    result = dense_multicut(X, threshold, metric="inner_product", **links)
    seconds.append(time.perf_counter() - start)
print(json.dumps({
    "data": f"{name} {threshold:g}", "links": kind, "of each kind": count, "seconds": min(seconds),
    "AMI": f"{adjusted_mutual_info_score(y, result.labels):.4f}", "clusters": result.n_clusters,
    "broken": result.broken_links, "move-optimal": str(result.trace[-1].move_optimal),
    "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
}))
"""

LARGE = """
import json, resource, sys, time
sys.path.insert(0, "benchmarks")
from mixed import planted
from clusterfug import cluster_editing, multicut
algorithm, n, m = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
edges = planted(n, m)
multicut(cluster_editing(edges[edges.max(axis=1) < n // 40]), algorithm=algorithm)  # load the kernels
problem = cluster_editing(edges, n)
start = time.perf_counter()
result = multicut(problem, algorithm=algorithm)
print(json.dumps({
    "nodes": n, "edges": len(edges), "algorithm": algorithm, "seconds": time.perf_counter() - start,
    "edits": int(problem.value(result)), "clusters": result.n_clusters,
    "move-optimal": str(result.trace[-1].move_optimal), "join-optimal": str(result.trace[-1].join_optimal),
    "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
}))
"""


def main():
    chosen = options(__doc__)
    parts = {"links": links, "modularity": modularities, "editing": editing, "large": large}
    for name, make in parts.items():
        if chosen.data is None or name in chosen.data:
            rows = make(chosen.quick)
            if rows:
                report(f"mixed-{name}", rows)


def links(quick):
    rows = []
    cases = [("digits", 500, 0.3), ("clinc150", 50_000, 0.4)][: 1 if quick else 2]
    for name, count, threshold in cases:
        if name == "digits" or data(name) is not None:
            for kind in ("none", "both", "must", "cannot", "soft"):
                rows.append(in_fresh_process(LINKS, name, kind, count, threshold))
                print(rows[-1], flush=True)
    return rows


def modularities(quick):
    import igraph
    import leidenalg

    rows = []
    for name, edges, n in graphs(quick):
        problem = modularity(edges, n_nodes=n)
        multicut(modularity(edges[:1000]))  # load the kernels
        start = time.perf_counter()
        result = multicut(problem)
        ours = time.perf_counter() - start
        graph = igraph.Graph(n=n, edges=edges)
        found, seconds = [], []
        for seed in range(2 if quick else SEEDS):
            start = time.perf_counter()
            partition = leidenalg.find_partition(graph, leidenalg.ModularityVertexPartition, seed=seed)
            seconds.append(time.perf_counter() - start)
            found.append(partition.modularity)
        rows.append(
            {
                "graph": name, "nodes": n, "edges": len(edges), "auto": f"{problem.value(result):.6f}",
                "seconds": ours, "Leiden, best": f"{max(found):.6f}",
                "Leiden, mean": f"{statistics.mean(found):.6f}", "one run": statistics.median(seconds),
                "move-optimal": str(result.trace[-1].move_optimal),
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
    start = time.perf_counter()
    problem = modularity(karate())
    result = multicut(problem, algorithm="exact")
    print(f"karate: {problem.value(result):.4f}, {result.optimal=}, {time.perf_counter() - start:.1f} s")
    return rows


def karate():
    return np.array([[int(end) for end in pair.split("-")] for pair in KARATE.split()])


def graphs(quick):
    """Yield names, edges and numbers of nodes."""
    yield "karate", karate(), 34
    for name in ("digits", "tinyimagenet-5k", "clinc150")[: 1 if quick else 3]:
        X = digits() if name == "digits" else data(name)
        if X is not None:
            X = X / np.linalg.norm(X, axis=1, keepdims=True)
            graph = neighbour_graph(NeighbourGraph(15), X)
            yield f"{name}, 15 neighbours", graph.edges, graph.n
    path = Path(os.environ.get("CLUSTERFUG_DATA", ".")) / "slashdot" / "graph.npz"
    if path.exists() and not quick:
        graph = read_graph_file(path)
        yield "slashdot, positive edges", graph.edges[graph.weights > 0], graph.n


def editing(quick):
    folder = Path(os.environ.get("CLUSTERFUG_DATA", ".")) / "pace2021"
    if not folder.exists():
        return []
    instances = list(csv.DictReader((folder / "optima.csv").open()))[:: 10 if quick else 1]
    rows = []
    for algorithm, limits in (("auto", {}), ("best", {"time_limit": BEST_SECONDS})):
        above, seconds = [], []
        for instance in instances:
            graph = read_graph_file(folder / instance["instance"])
            problem = cluster_editing(graph.edges, graph.n)
            start = time.perf_counter()
            result = multicut(problem, algorithm=algorithm, **limits)
            seconds.append(time.perf_counter() - start)
            above.append(int(problem.value(result)) - int(instance["optimum"]))
        rows.append(
            {
                "algorithm": algorithm, "instances": len(instances), "optimal": above.count(0),
                "edits above": sum(above), "seconds": sum(seconds), "longest": max(seconds),
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def planted(n, m):
    """Edges of a graph: three quarters within clusters of about ten nodes, the others random."""
    rng = np.random.default_rng(0)
    labels = rng.integers(n // 10, size=n)
    order = np.argsort(labels, kind="stable")
    starts = np.searchsorted(labels[order], np.arange(n // 10 + 1))
    heads = rng.integers(n, size=2 * m)
    sizes = np.diff(starts)[labels[heads]]
    tails = order[starts[labels[heads]] + (rng.random(2 * m) * sizes).astype(int)]
    inside = np.unique(np.sort(np.stack([heads, tails], axis=1)[heads != tails], axis=1), axis=0)
    inside = inside[rng.permutation(len(inside))[: 3 * m // 4]]
    across = rng.integers(n, size=(m, 2))
    across = np.unique(np.sort(across[across[:, 0] != across[:, 1]], axis=1), axis=0)
    across = across[rng.permutation(len(across))[: m - len(inside)]]
    return np.unique(np.concatenate([inside, across]), axis=0)


def large(quick):
    n, m = (8_000, 40_000) if quick else (80_000, 400_000)
    return [in_fresh_process(LARGE, algorithm, n, m) for algorithm in ("fast", "auto")]


if __name__ == "__main__":
    main()
