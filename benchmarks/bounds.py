"""Lower bounds beside the best clusterings found.

    CLUSTERFUG_DATA=... python benchmarks/bounds.py [--quick] [--data digits tinyimagenet-5k ...]

`best` has 60 seconds for the clustering, packing up to 55 (240 for more than 10,000 items); then follow one
pass over all pairs, and another one by `verify_bound`. Every row is a separate process, and peak memory is
that of the whole process, features and libraries included.
"""

import os
from pathlib import Path

from measure import in_fresh_process, options, report

ROWS = [
    ("digits", 0.4),
    ("digits", 0.2),
    ("tinyimagenet-5k", 0.4),
    ("clinc150", 0.4),
    ("tinyimagenet-50k", 0.4),
]

CODE = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[1])
import measure
from clusterfug import DenseProblem, dense_multicut, lower_bound, verify_bound
name, threshold, seconds, packing = sys.argv[2], *map(float, sys.argv[3:])
X = measure.digits() if name == "digits" else measure.data(name)
problem = DenseProblem(X, threshold)
lower_bound(problem.subset(range(200)))
trivial = lower_bound(problem, method="trivial")
bound = lower_bound(problem, method="triangles", time_limit=packing)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
verified = verify_bound(problem, bound)
verifying = time.perf_counter() - start
best = dense_multicut(problem, algorithm="best", time_limit=seconds)
distance = best.objective - bound.value
print(json.dumps({
    "data": name, "threshold": threshold, "objective": best.objective, "bound": bound.value,
    "distance": distance, "gap %": 100 * distance / abs(bound.value),
    "of inside %": 100 * distance / best.inside,
    "closed %": 100 * (bound.value - trivial.value) / (best.objective - trivial.value),
    "seconds": bound.seconds, "trivial s": trivial.seconds, "verify s": verifying,
    "verified": str(verified), "triangles": len(bound.certificate.amounts),
    "pairs": len(bound.certificate.pairs), "peak MB": peak / 1e3,
}))
"""


def main():
    arguments = options(__doc__)
    rows = []
    for name, threshold in ROWS:
        if arguments.data and name not in arguments.data:
            continue
        if name != "digits" and not os.environ.get("CLUSTERFUG_DATA"):
            continue
        large = name in ("clinc150", "tinyimagenet-50k")
        if arguments.quick and large:
            continue
        times = (2, 5) if arguments.quick else (60, 240 if large else 55)
        rows.append(in_fresh_process(CODE, Path(__file__).parent, name, threshold, *times))
        print(rows[-1], flush=True)
    report("bounds", rows)


if __name__ == "__main__":
    main()
