"""Table 1: agreement of clusters and classes, beside k-means with the number of classes and with ours.

CLUSTERFUG_DATA=... python benchmarks/paper/table1.py [--full]
"""

from common import is_full, table, write
from measure import run_one, truth

PUBLISHED = {
    "ImageNet-100, 5,000 x 2,048": [
        ("k-means", "16", "0.42", "0.27", "100"),
        ("k-means", "32", "0.53", "0.26", "333"),
        ("RAMA", "0.9", "0.57", "0.29", "639"),
        ("DGAECInc", "42", "0.43", "0.22", "343"),
        ("DAppLAEC", "3.2", "0.47", "0.26", "333"),
    ],
    "ImageNet-1000, 50,000 x 2,048": [
        ("k-means", "701", "0.54", "0.2", "1000"),
        ("k-means", "1801", "0.61", "0.19", "2440"),
        ("RAMA", "out of memory", "", "", ""),
        ("DGAECInc", "2964", "0.49", "0.19", "2488"),
        ("DAppLAEC", "65", "0.56", "0.26", "2440"),
    ],
}
SETS = {
    "tinyimagenet-5k": "Tiny-ImageNet features, 5,000 x 2,048, 100 classes",
    "clinc150": "CLINC150 sentences, 22,500 x 384, 150 classes",
    "tinyimagenet-50k:10000": "Tiny-ImageNet features, 10,000 x 256, 200 classes",
    "tinyimagenet-50k": "Tiny-ImageNet features, 50,000 x 256, 200 classes",
}
HEADINGS = ("method", "t [s]", "NMI", "AMI", "clusters")


def main():
    full = is_full(__doc__)
    parts = [
        "Agreement of clusters and classes. k-means (scikit-learn, k-means++, one start) gets the number "
        "of clusters: that of the classes, then that of `auto`. All other methods find their number at "
        "threshold 0.4."
    ]
    for name in ("tinyimagenet-5k", "clinc150", "tinyimagenet-50k" if full else "tinyimagenet-50k:10000"):
        ours = [run_one(name, 0.4, solver) for solver in ("dgaec-inc", "dapplaec", "auto")]
        classes, found = len(set(truth(name))), ours[-1]["clusters"]
        kmeans = [run_one(name, 0.4, "scikit-learn KMeans", clusters=k) for k in (classes, found)]
        rows = [shown(row) for row in (*kmeans, *ours)]
        parts += [f"## {SETS[name]}", table(HEADINGS, rows)]
    parts.append("## Published (other features, 16 threads; RAMA on an NVIDIA A40)")
    for name, rows in PUBLISHED.items():
        parts += [f"### {name}", table(HEADINGS, rows)]
    write("table1", "Table 1: quality of clustering", parts, full)


def shown(row):
    name = row["algorithm"].replace("scikit-learn KMeans", "k-means")
    scores = f"{row['NMI']:.3f}", f"{row['AMI']:.3f}"
    return name, f"{row['seconds']:.2f}", *scores, f"{row['clusters']:,}"


if __name__ == "__main__":
    main()
