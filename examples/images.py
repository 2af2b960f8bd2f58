"""Cluster images by their features, and draw a contact sheet of the clusters.

    python examples/images.py                                               # scikit-learn's digits
    python examples/images.py --features features.npy --images folder       # your images and features
    python examples/images.py --features features.npy --labels labels.npy   # agreement with classes

The steps, one function each:

1. Inspect the cosines of pairs. If most are high, the images share a common part: subtract the mean.
2. Solve at several thresholds on a sample. A useful threshold gives neither one huge cluster nor mostly
   singletons; of those, select one at which the clusters change least with the threshold.
3. Cluster all images at that threshold. The number of clusters is a result, not an input.
4. Compare the clusters with known classes, and look at them: a contact sheet has one row per cluster.

Row i of the features belongs to image i: of the list that `clusterfug embed` wrote beside the features, or
else of the images of the folder in the order of their names, or of the files that a .txt file lists.
"""

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from clusterfug import DenseMulticut, threshold_path
from clusterfug.io.images import find_images
from clusterfug.report.contact_sheet import contact_sheet, write_png
from clusterfug.report.evaluation import evaluate
from clusterfug.report.inspection import HIGH_MEAN_COSINE, inspect

THRESHOLDS = np.arange(1, 9) / 10
SIDE = 32  # pixels of an image on the sheet
ROWS = 60  # clusters on the sheet


def read_images(source, features):
    """Return small grey images in the order of the features."""
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("reading images needs pillow: pip install 'clusterfug[embed]'") from None
    listed = features.with_suffix(".files.txt")  # `clusterfug embed` writes it
    if not source.is_dir():
        names, folder = source.read_text().splitlines(), source.parent
    elif listed.exists():
        names, folder = listed.read_text().splitlines(), source
    else:
        folder, names = find_images(source)
    files = [folder / name for name in names]
    return np.array([np.asarray(Image.open(file).convert("L").resize((SIDE, SIDE))) for file in files])


def directions(features):
    """Return features without their common part, scaled to length 1: inner products are cosines."""
    features = features.astype(np.float32)
    found = inspect(features)
    print(f"{found.n:,} images, {found.d:,} features, mean cosine {found.mean_cosine:.2f}")
    if found.mean_cosine > HIGH_MEAN_COSINE:
        print("that is high: subtract the mean")
        features -= features.mean(axis=0)
        found = inspect(features)
    print("threshold              ", "".join(f"{threshold:7.1f}" for threshold in found.attracting))
    print("pairs more similar than", "".join(f"{share:7.1%}" for share in found.attracting.values()))
    return normalize(features)


def choose_threshold(X):
    """Return the threshold whose clusters agree most with those of the threshold before.

    A threshold applies to pairs, so that a sample of the images is enough to select it. Thresholds with
    half of the images in one cluster, or a quarter of them alone, are stable but not useful."""
    sample = X[np.random.default_rng(0).permutation(len(X))[:2000]]
    rows = threshold_path(sample, THRESHOLDS).rows()
    print(f"\n{len(sample):,} images\nthreshold  clusters  largest  alone  agreement")
    for row in rows:
        sizes = f"{row['n_clusters']:8,}  {row['largest']:7,}  {row['alone']:5,}"
        agreement = "" if row["agreement"] is None else f"{row['agreement']:9.3f}"
        print(f"{row['threshold']:9.1f}  {sizes}  {agreement}")
    n = len(sample)
    good = [row for row in rows if row["largest"] < n / 2 and row["alone"] < n / 4]
    return max(good or rows, key=lambda row: row["agreement"] or 0)["threshold"]


def draw(path, images, labels):
    """Write a contact sheet of the largest clusters: the size, and the first images."""
    largest = np.argsort(-np.bincount(labels), kind="stable")[:ROWS]
    shown = np.isin(labels, largest)
    write_png(path, contact_sheet(images[shown], np.unique(labels[shown], return_inverse=True)[1]))
    print(f"{path}: the {len(largest)} largest clusters, one per row")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--features", type=Path, help=".npy, one row per image (default: the digits)")
    parser.add_argument("--images", type=Path, help="a folder of images, or a .txt file that lists them")
    parser.add_argument("--labels", type=Path, help=".npy, known classes")
    parser.add_argument("--threshold", type=float, help="default: selected on a sample")
    parser.add_argument("-o", "--output", type=Path, default=Path("clusters.png"), help="the contact sheet")
    options = parser.parse_args()

    if options.features is None and (options.images or options.labels):
        raise ValueError("--images and --labels go with --features")
    if options.features is None:  # the features of a digit are its 64 pixels
        digits = load_digits()
        features, classes = digits.data, digits.target
        images = (digits.images * (255 / 16)).astype(np.uint8)
    else:
        features = np.load(options.features)
        classes = None if options.labels is None else np.load(options.labels)
        images = None if options.images is None else read_images(options.images, options.features)
        if images is not None and len(images) != len(features):
            raise ValueError(
                f"{options.images} has {len(images)} images, {options.features} {len(features)} rows"
            )

    X = directions(features)
    threshold = choose_threshold(X) if options.threshold is None else options.threshold
    model = DenseMulticut(threshold).fit(X)
    found = evaluate(model.labels_, classes)
    sizes = found.sizes
    print(f"\nthreshold {threshold:g}: {sizes.n_clusters:,} clusters, {sizes.singletons:,} images alone")
    if found.scores is not None:
        print(f"AMI {found.scores.ami:.3f}, homogeneity {found.scores.homogeneity:.3f}")
    if images is not None:
        draw(options.output, images, model.labels_)


if __name__ == "__main__":
    try:
        main()
    except (OSError, TypeError, ValueError) as error:
        raise SystemExit(f"images.py: {error}") from None
