"""A demonstration on scikit-learn's 1,797 handwritten digits; `clusterfug demo` runs it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from clusterfug import checks
from clusterfug.api import dense_multicut
from clusterfug.io.files import Features, write_instance
from clusterfug.io.labels import write_labels
from clusterfug.io.settings import settings_of
from clusterfug.report.contact_sheet import contact_sheet, write_png
from clusterfug.result import Clustering


class Demo(NamedTuple):
    result: Clustering
    ami: float
    files: tuple[Path, ...]


def run_demo(folder: Path, threshold: float | None = None) -> Demo:
    """Cluster the digits; write features, labels and a contact sheet of the clusters to a folder."""
    from sklearn.datasets import load_digits
    from sklearn.metrics import adjusted_mutual_info_score

    if threshold is not None:
        checks.number("threshold", threshold)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"cannot write to {folder}: it is not a folder")
    folder.mkdir(parents=True, exist_ok=True)
    digits = load_digits()
    raw = digits.data.astype(np.float32)
    result = dense_multicut(raw, threshold, center=True)
    files = folder / "digits.npy", folder / "labels.npy", folder / "clusters.png"
    write_instance(files[0], Features(raw), 0.4)
    write_labels(files[1], result.labels, settings_of(result))
    images = (digits.images * (255 / 16)).astype(np.uint8)
    write_png(files[2], contact_sheet(images, result.labels))
    ami = float(adjusted_mutual_info_score(digits.target, result.labels))
    return Demo(result, ami, files)
