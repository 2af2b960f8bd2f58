"""Pictures that help to choose; matplotlib is an extra."""

from pathlib import Path

import numpy as np

from clusterfug.path import ThresholdPath


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'clusterfug[plot]'") from None


def plot_path(path: ThresholdPath, file: Path) -> None:
    """Number of clusters, items alone and in the largest cluster, and agreement, against the threshold."""
    require_matplotlib()
    from matplotlib.figure import Figure

    x = path.thresholds
    items = len(path[0].labels)
    figure = Figure(figsize=(6.4, 6.4), layout="constrained")
    counts, shares, agreement = figure.subplots(3, 1, sharex=True)
    counts.plot(x, path.n_clusters, "o-", color="#1f5a96")
    counts.set_yscale("log")
    counts.set_ylabel("clusters")
    alone = [np.count_nonzero(sizes == 1) / items for sizes in path.sizes]
    largest = [sizes[0] / items for sizes in path.sizes]
    shares.plot(x, largest, "o-", color="#1f5a96", label="in the largest cluster")
    shares.plot(x, alone, "s-", color="#c2571a", label="alone")
    shares.set_ylabel("share of the items")
    shares.set_ylim(-0.03, 1.03)
    shares.legend(frameon=False)
    if len(x) > 1:
        between = (x[1:] + x[:-1]) / 2
        agreement.plot(between, path.agreement[1:], "o-", color="#1f5a96")
    agreement.set_ylabel("agreement of\nneighbours (ARI)")
    agreement.set_ylim(-0.03, 1.03)
    agreement.set_xlabel("threshold")
    for axes in (counts, shares, agreement):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, format="png", dpi=150)
