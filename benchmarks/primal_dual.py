"""Contraction on reparametrised costs, the method of the paper's RAMA row, on features.

    CLUSTERFUG_DATA=... python benchmarks/primal_dual.py [--data digits ...]

Triangles are packed (and messages passed for some seconds), then GAEC contracts the residual costs, and
moves and joins refine its result. For comparison: GAEC on the original costs, and `fast`. Inside is in the
original costs.
"""

import time

import numpy as np
from measure import data, digits, options, report

from clusterfug import DenseProblem, dense_multicut
from clusterfug.bounds.packing import TrianglePacker
from clusterfug.bounds.triangles import pack_and_ascend
from clusterfug.contraction.history import labels_of_merges
from clusterfug.contraction.matrix import contract_matrix
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import refine


def main():
    arguments = options(__doc__)
    rows = []
    for name, threshold in (
        ("digits", 0.4),
        ("digits", 0.2),
        ("tinyimagenet-5k", 0.4),
        ("tinyimagenet-5k", 0.3),
    ):
        X = digits() if name == "digits" else data(name)
        if X is None or (arguments.data and name not in arguments.data):
            continue
        problem = DenseProblem(X, threshold)
        primal_dual(problem.subset(np.arange(300)), 0)
        for algorithm in ("fast", "gaec"):
            result = dense_multicut(problem, algorithm=algorithm, refine=algorithm == "gaec")
            contracted = [phase.objective for phase in result.trace if phase.name == "contraction"]
            inside = problem.all_singletons - contracted[0] if contracted else None
            rows.append(row(name, threshold, algorithm, result.seconds, inside, result.inside))
        for seconds in (0, 5, 20):
            start = time.perf_counter()
            labels = primal_dual(problem, seconds)
            refined = refine(problem, labels, Budget()).labels
            spent = time.perf_counter() - start
            inside = problem.inside(labels)
            rows.append(
                row(name, threshold, f"packed, {seconds} s", spent, inside, problem.inside(refined))
            )
    report("primal_dual", rows)


def row(name, threshold, what, seconds, contracted, refined):
    found = {"data": name, "threshold": threshold, "costs": what, "seconds": seconds}
    return found | {"inside of contraction": contracted, "inside refined": refined}


def primal_dual(problem, seconds):
    """Return labels of GAEC on residual costs."""
    packer = TrianglePacker(problem, 4_000_000 + 200 * problem.n)
    if seconds:
        pack_and_ascend(packer, Budget(seconds).over)
    else:
        packer.pack(lambda: False)
    np.fill_diagonal(packer.residual, -np.inf)
    return labels_of_merges(problem.n, contract_matrix(packer.residual))


if __name__ == "__main__":
    main()
