"""Table 4: the algorithms on many segmentation problems.

CLUSTERFUG_DATA=... python benchmarks/paper/table4.py [--full]
"""

import time

import numpy as np
from common import is_full, nuclei, table, write
from panoptic import PLAIN, score

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
COMPARED = ("gaec", "dapplaec", "auto")
HEADINGS = ("method", "t [s]", "side by side [s]", "mean objective", "mean inside", "PQ")


def main():
    full = is_full(__doc__)
    samples = nuclei()
    parts = [
        "36 problems of 256 to 12,919 pixels, 133,760 in all. *t*: seconds for all, one after the other "
        f"(median of three{'' if full else ', once for some'}); *side by side*: the same by `solve_many` "
        "on two threads. PQ with labels repeated 2 x 2."
    ]
    for threshold in (0.4, 0.7):
        rules = Rules(things=[1], threshold=threshold, **PLAIN)
        images = [Image(rules, s.embeddings, s.semantic, s.confidence, s.shape) for s in samples]
        problems = [image.problems[1] for image in images]
        rows = []
        for algorithm in ALGORITHMS:
            repeat = 3 if full or algorithm in COMPARED else 1
            alone, results = seconds(repeat, one_by_one, problems, algorithm=algorithm)
            beside, _ = seconds(repeat, solve_many, problems, algorithm=algorithm)
            maps = [image.assemble({1: result}) for image, result in zip(images, results, strict=True)]
            quality = score(samples, maps)["all"]
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
    """Return the median time to solve all problems with loaded kernels, and the results."""
    solve(problems[:1], algorithm=algorithm)
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        results = solve(problems, algorithm=algorithm)
        times.append(time.perf_counter() - start)
    return float(np.median(times)), results


if __name__ == "__main__":
    main()
