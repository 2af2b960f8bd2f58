"""Margin of `auto` over the paper's algorithms: all data sets, thresholds 0.2 to 0.6.

    CLUSTERFUG_DATA=... python benchmarks/sweep.py [--quick] [--data NAME ...]

gaec, dgaec and dgaec-inc make the same merges, so only one of them runs. "nuclei" are the foreground pixels
of 36 microscopy images, one problem each; the row is that of the smallest margin.
"""

import os
from pathlib import Path

import numpy as np
from measure import data, digits, options, report

from clusterfug import dense_multicut

THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6)
PAPER = ("dgaec-inc", "dlaec", "dapplaec")


def problems(name):
    """Return the feature arrays of a data set."""
    if name == "digits":
        return [digits()]
    if name == "nuclei":
        images = np.load(Path(os.environ["CLUSTERFUG_DATA"]) / "nuclei" / "nuclei.npz")
        names = sorted(key for key in images if key.startswith("emb"))
        return [images[key][images[f"fg{key[3:]}"] > 127].astype(np.float32) for key in names]
    return [data(name)]


def main():
    chosen = options(__doc__)
    names = ["digits"]
    if os.environ.get("CLUSTERFUG_DATA") and not chosen.quick:
        names += ["nuclei", "tinyimagenet-5k", "clinc150", "tinyimagenet-50k"]
    rows = []
    for name in names:
        if chosen.data and name not in chosen.data:
            continue
        for threshold in THRESHOLDS:
            worst = None
            for X in problems(name):
                inside = {
                    a: dense_multicut(X, threshold, algorithm=a, metric="inner_product").inside
                    for a in ("auto", *PAPER)
                }
                margin = inside["auto"] / max(inside[a] for a in PAPER) - 1
                row = {"data": name, "threshold": threshold, **inside, "margin %": 100 * margin}
                worst = row if worst is None or margin < worst["margin %"] / 100 else worst
            print(worst, flush=True)
            rows.append(worst)
    report("sweep", rows)


if __name__ == "__main__":
    main()
