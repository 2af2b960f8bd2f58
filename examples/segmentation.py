"""Partition the pixels of an image into objects, and compare options of `segment`.

    python examples/segmentation.py                     # a drawn picture of cells, truth included
    python examples/segmentation.py image.npz           # your file, see docs/segmentation.md

It needs pillow: pip install 'clusterfug[segmentation]'.

The steps, one function each:

1. Embeddings: a vector per pixel, similar within an object and different between objects. A network
   computes them, at a lower resolution than the image. Here they are simulated, for a drawing of cells.
2. Classes: which pixels are things, with which confidence.
3. Options: try some, and compare their panoptic quality (PQ) where the truth is known.
4. Overlay: image, prediction, truth and errors side by side.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter, zoom

from clusterfug.segmentation import Panoptic, Rules, Sample, panoptic_quality, segment
from clusterfug.segmentation.overlay import overlay
from clusterfug.segmentation.pictures import require_pillow, write_picture
from clusterfug.segmentation.samples import read_sample

CELL, BACKGROUND = 1, 2
OPTIONS = {
    "threshold 0.3": {"threshold": 0.3},
    "threshold 0.5": {"threshold": 0.5},
    "threshold 0.7": {"threshold": 0.7},
    "0.5, small ones dropped": {"threshold": 0.5, "min_size": 25},
    "0.5, connected regions": {"threshold": 0.5, "min_size": 25, "connected": True},
    "0.5, position counts": {"threshold": 0.5, "min_size": 25, "position": 4.0},
    "the same on a grid of pixels": {
        "threshold": 0.5,
        "min_size": 25,
        "graph": "grid",
        "algorithm": "gaec",
    },
}


def draw_cells(side=192, cells=36, codes=28, d=32):
    """Return a picture of touching cells, with simulated embeddings of its pixels.

    Networks give similar embeddings to objects far apart. So there are fewer codes than cells, and codes
    are mixed near the border of two cells."""
    rng = np.random.default_rng(0)
    truth = np.zeros((side, side), dtype=np.int64)
    y, x = np.mgrid[:side, :side]
    for number in range(1, cells + 1):
        centre, radii = rng.uniform(8, side - 8, size=2), rng.uniform(9, 17, size=2)
        inside = ((y - centre[0]) / radii[0]) ** 2 + ((x - centre[1]) / radii[1]) ** 2 < 1
        truth[inside & (truth == 0)] = number  # earlier cells are on top
    image = np.where(truth > 0, 150 + 6 * (truth % 12), 30)[..., None] * np.array([1.0, 0.8, 1.1])
    image = np.clip(gaussian_filter(image, (1, 1, 0)) + rng.normal(scale=6, size=image.shape), 0, 255)
    directions = np.linalg.qr(rng.normal(size=(d, d)))[0][:codes]
    sharp = directions[truth % codes] * (truth > 0)[..., None]
    embeddings = gaussian_filter(sharp, (2, 2, 0))[::2, ::2]
    embeddings = embeddings + 0.15 * rng.normal(size=embeddings.shape) / np.sqrt(d)
    confidence = np.clip(gaussian_filter((truth > 0).astype(float), 1.5), 0, 1)
    classes = np.where(truth > 0, CELL, BACKGROUND)
    return Sample(
        "cells",
        embeddings,
        np.full((side, side), CELL),
        zoom(confidence, 0.5, order=1),
        image.astype(np.uint8),
        Panoptic(classes, truth),
    )


def try_options(sample):
    """Print objects and scores for every set of options; return the best one, and all results."""
    found = {}
    print(f"{'options':30}{'objects':>8}{'PQ':>8}{'SQ':>8}{'RQ':>8}")
    for name, options in OPTIONS.items():
        result = segment(
            sample.embeddings,
            sample.semantic,
            [CELL],
            confidence=sample.confidence,
            shape=sample.shape,
            **options,
        )
        line = f"{name:30}{result.n_instances:8}"
        pq = 0.0
        if sample.truth is not None:
            scores = panoptic_quality([result], [sample.truth], [CELL]).things
            pq = scores.pq
            line += "".join(f"{100 * score:8.1f}" for score in scores[:3])
        print(line)
        found[name] = pq, result
    return max(found, key=lambda name: found[name][0]), found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("image", nargs="?", type=Path, help=".npz with embeddings of one thing class")
    parser.add_argument("-o", "--output", type=Path, default=Path("objects.png"), help="the picture")
    options = parser.parse_args()
    require_pillow()  # it draws the picture
    sample = draw_cells() if options.image is None else read_sample(options.image, Rules(things=[CELL]))
    best, found = try_options(sample)
    write_picture(options.output, overlay(sample.image, found[best][1].maps, sample.truth, (CELL,)))
    print(f"\n{options.output}: {best}")


if __name__ == "__main__":
    try:
        main()
    except (ImportError, OSError, TypeError, ValueError) as error:
        raise SystemExit(f"segmentation.py: {error}") from None
