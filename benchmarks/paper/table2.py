"""Table 2: the algorithms by time and objective.

CLUSTERFUG_DATA=... python benchmarks/paper/table2.py [--full]
"""

from common import is_full, table, write
from measure import run_one

PUBLISHED = [
    ("GAEC", "4.5", "-6.84e5", "552", "-9.353e7"),
    ("RAMA (A40)", "0.9", "-6.95e5", "out of memory", ""),
    ("DGAEC", "132", "-6.84e5", "over 3 hours", ""),
    ("DGAECInc", "42", "-6.84e5", "2934", "-9.353e7"),
    ("DLAEC", "5", "-6.83e5", "341", "-9.332e7"),
    ("DAppLAEC", "3.2", "-6.83e5", "65", "-9.332e7"),
]
ALGORITHMS = ("gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec", "fast", "auto")
#: RAMA on our features on an NVIDIA H200, measured with its published code, not here.
RAMA = [
    ("RAMA P", "0.065", "", "6,542", ""),
    ("RAMA PD", "0.47", "", "3,827", ""),
    ("RAMA PD+", "0.61", "", "3,709", ""),
]
HEADINGS = ("method", "t [s]", "objective", "inside", "clusters")


def main():
    full = is_full(__doc__)
    parts = [
        "Threshold 0.4. The objective is lower where clusters are better. *inside* is what is gained over "
        "leaving every item alone: the same without the large constant that all objectives share.",
    ]
    best = ("best", {"time_limit": 120 if full else 10})
    for name, title in (
        ("tinyimagenet-5k", "Tiny-ImageNet features, 5,000 x 2,048"),
        ("clinc150", "CLINC150 sentences, 22,500 x 384"),
        ("tinyimagenet-50k", "Tiny-ImageNet features, 50,000 x 256"),
    ):
        large = name == "tinyimagenet-50k"
        if large and not full:
            continue
        slow = ("gaec", "dgaec") if large else () if full or name == "tinyimagenet-5k" else ("dgaec",)
        runs = [(solver, {}) for solver in ALGORITHMS if solver not in slow]
        rows = [shown(run_one(name, 0.4, solver, **options)) for solver, options in (*runs, best)]
        if name == "tinyimagenet-5k":
            rows[1:1] = RAMA
            parts.append(f"## {title}\n\nRAMA: on an NVIDIA H200, not measured by this script.")
        else:
            parts.append(f"## {title}")
        parts.append(table(HEADINGS, rows))
    parts += [
        "## Published (other features, 16 threads)",
        table(
            ("method", "ImageNet-100, t [s]", "objective", "ImageNet-1000, t [s]", "objective"), PUBLISHED
        ),
    ]
    write("table2", "Table 2: algorithms", parts, full)


def shown(row):
    name = row["algorithm"].replace(" time_limit=", ", ") + (
        "s" if "time_limit" in row["algorithm"] else ""
    )
    return (
        name,
        f"{row['seconds']:.2f}",
        f"{row['objective']:,.0f}",
        f"{row['inside']:,.0f}",
        f"{row['clusters']:,}",
    )


if __name__ == "__main__":
    main()
