"""Table 4: the algorithms on many segmentation problems.

CLUSTERFUG_DATA=... python benchmarks/paper/table4.py [--full]
"""

import time

import numpy as np
from common import arguments, nuclei, table, write
from panoptic import partition, score

from clusterfug import dense_multicut, solve_many
from clusterfug.segmentation import Rules
from clusterfug.segmentation.image import Image

PUBLISHED = [
    ("GAEC", "7.7", "-6.338"),
    ("DGAEC", "84.1", "-6.338"),
    ("DGAECInc", "3.2", "-6.338"),
    ("DLAEC", "2.1", "-6.340"),
    ("DAppLAEC", "1.5", "-6.341"),
]
ALGORITHMS = ("gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec", "fast", "auto")
HEADINGS = ("method", "t [s]", "side by side [s]", "mean objective", "mean inside", "PQ")


def main():
    full = arguments(__doc__).full
    samples = nuclei()
    parts = [
        "36 problems of 256 to 12,919 pixels, 133,760 in all. *t*: seconds for all, one after the other, "
        "median of three; *side by side*: the same by `solve_many` on two threads. PQ with labels repeated "
        "2 x 2."
    ]
    for threshold in (0.4, 0.7):
        rules = Rules(things=[1], min_confidence=0.5, metric="inner_product", threshold=threshold)
        problems = [
            Image(rules, sample.embeddings, sample.semantic, sample.confidence).problems[1]
            for sample in samples
        ]
        rows = []
        for algorithm in ALGORITHMS:
            repeat = 1 if algorithm.startswith("dgaec") and not full else 3
            alone, results = seconds(repeat, one_by_one, problems, algorithm=algorithm)
            beside, _ = seconds(repeat, solve_many, problems, algorithm=algorithm)
            quality = score(samples, partition(samples, algorithm, threshold=threshold))["all"]
            rows.append(
                (
                    algorithm,
                    f"{alone:.2f}",
                    f"{beside:.2f}",
                    f"{np.mean([r.objective for r in results]):,.0f}",
                    f"{np.mean([r.inside for r in results]):,.0f}",
                    f"{quality:.1f}",
                )
            )
            print(rows[-1], flush=True)
        parts += [f"## Threshold {threshold:g}", table(HEADINGS, rows)]
    parts += [
        "## Published (Cityscapes, 1,631 problems, 16 threads; means per problem)",
        table(("method", "t [s]", "objective (millions)"), PUBLISHED),
    ]
    write("table4", "Table 4: algorithms on many segmentation problems", parts, full)


def one_by_one(problems, algorithm):
    return [dense_multicut(problem, algorithm=algorithm) for problem in problems]


def seconds(repeat, solve, problems, algorithm):
    """The median time to solve them all, kernels loaded."""
    solve(problems[:1], algorithm=algorithm)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        results = solve(problems, algorithm=algorithm)
        times.append(time.perf_counter() - start)
    return float(np.median(times)), results


if __name__ == "__main__":
    main()
