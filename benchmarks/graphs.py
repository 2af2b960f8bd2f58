"""GAEC on random explicit graphs of 10^5 to 10^7 edges, beside bioimage-cpp's GAEC on the same graphs.

    python benchmarks/graphs.py [--quick]

Each run is a separate process: seconds are the median of three solves, without building the problem;
memory is the peak of the process.
"""

from measure import in_fresh_process, options, report

RUN = """
import json, resource, statistics, sys, time
import numpy as np
solver, n, m, repeat = sys.argv[1], *map(int, sys.argv[2:])
rng = np.random.default_rng(0)
edges = rng.integers(0, n, size=(m, 2))
edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
costs = rng.normal(size=len(edges))
if solver == "clusterfug":
    from clusterfug import multicut
    from clusterfug.problems.graph import GraphProblem
    multicut([[0, 1]], [1.0])  # load the kernels
    graph = GraphProblem(edges, costs, n)
    solve = lambda: multicut(graph).labels
else:
    from bioimage_cpp.graph import UndirectedGraph
    from bioimage_cpp.graph.multicut import GreedyAdditiveMulticut, MulticutObjective
    graph = UndirectedGraph.from_unique_edges(n, edges.astype(np.uint64))
    objective = MulticutObjective(graph, costs)
    solve = lambda: GreedyAdditiveMulticut().optimize(objective)
seconds = []
for _ in range(repeat):
    start = time.perf_counter()
    labels = np.asarray(solve())
    seconds.append(time.perf_counter() - start)
kept = labels[edges[:, 0]] == labels[edges[:, 1]]
print(json.dumps({
    "solver": solver, "nodes": n, "edges": len(edges), "seconds": statistics.median(seconds),
    "inside": float(costs[kept].sum()), "clusters": len(np.unique(labels)),
    "peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
}))
"""


def main():
    quick = options(__doc__).quick
    rows = []
    for m in (10**5, 3 * 10**5, 10**6) if not quick else (10**5,):
        for degree in (10, 200):
            for solver in ("clusterfug", "bioimage-cpp"):
                rows.append(in_fresh_process(RUN, solver, 2 * m // degree, m, 1 if quick else 3))
    if not quick:  # ten million edges, by clusterfug only
        rows.append(in_fresh_process(RUN, "clusterfug", 2_000_000, 10**7, 1))
    report("graphs", rows)


if __name__ == "__main__":
    main()
