"""Plots of threshold paths and of selections (extra `[plot]`: matplotlib).

`clusterfug cluster --plot` draws them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from clusterfug.costs.models import STRICTNESS
from clusterfug.selection.auto import MIN_SCORE_GAIN
from clusterfug.selection.candidates import Choice
from clusterfug.selection.path import ThresholdPath

_BLUE, _ORANGE = "#1f5a96", "#c2571a"


def require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'clusterfug[plot]'") from None


@contextmanager
def _figure(file: Path) -> Iterator[Any]:
    """Yield three axes, one below the other, for a figure that is written to a .png file at the end."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 6.4), layout="constrained")
    yield figure.subplots(3, 1, sharex=True)
    for axes in figure.axes:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, format="png", dpi=150)


def plot_path(path: ThresholdPath, file: Path) -> None:
    """Plot number of clusters, singletons, the largest cluster and agreement against the threshold."""
    x = path.thresholds
    items = len(path[0].labels)
    with _figure(file) as (counts, shares, agreement):
        counts.plot(x, path.n_clusters, "o-", color=_BLUE)
        counts.set_yscale("log")
        counts.set_ylabel("clusters")
        alone = [np.count_nonzero(sizes == 1) / items for sizes in path.sizes]
        largest = [sizes[0] / items for sizes in path.sizes]
        shares.plot(x, largest, "o-", color=_BLUE, label="in the largest cluster")
        shares.plot(x, alone, "s-", color=_ORANGE, label="alone")
        shares.set_ylabel("share of the items")
        shares.set_ylim(-0.03, 1.03)
        shares.legend(frameon=False)
        if len(x) > 1:
            agreement.plot((x[1:] + x[:-1]) / 2, path.agreement[1:], "o-", color=_BLUE)
        agreement.set_ylabel("agreement of\nneighbours (ARI)")
        agreement.set_ylim(-0.03, 1.03)
        agreement.set_xlabel("threshold")


def plot_choice(choice: Choice, file: Path) -> None:
    """Plot number of clusters, silhouette, agreement and score against the strictness of the candidates."""
    x = choice.candidates
    with _figure(file) as (counts, parts, scores):
        counts.plot(x, choice.n_clusters, "o-", color=_BLUE)
        if choice.target is not None:
            counts.axhspan(*choice.target, color=_ORANGE, alpha=0.3, linewidth=2, label="target")
            counts.legend(frameon=False)
        for at, count in zip(x, choice.n_clusters, strict=True):
            counts.annotate(f"{count:,}", (at, count), (0, 6), textcoords="offset points", ha="center")
        counts.set_yscale("log")
        counts.set_yticks([])
        counts.minorticks_off()
        counts.margins(y=0.25)
        counts.set_ylabel("clusters")
        parts.set_ylim(-0.03, 1.03)
        parts.plot(x, choice.silhouette, "o-", color=_BLUE, label="silhouette")
        parts.plot(np.sqrt(x[1:] * x[:-1]), choice.agreement, "s-", color=_ORANGE, label="agreement (ARI)")
        parts.legend(frameon=False)
        scores.plot(x, choice.scores, "o-", color=_BLUE)
        if choice.target is None:
            clearly = choice.scores[x == STRICTNESS] + MIN_SCORE_GAIN
            scores.axhline(clearly, color=_ORANGE, linestyle=":", label="clearly better than the default")
            scores.legend(frameon=False)
        scores.set_ylim(bottom=min(0.0, 1.1 * choice.scores.min()))
        scores.set_ylabel("score")
        scores.set_xlabel("strictness")
        scores.set_xscale("log")
        scores.set_xticks(x, [f"{value:.2g}" for value in x])
        scores.minorticks_off()
        if choice.strictness > 0:
            for axes in (counts, parts, scores):
                axes.axvline(choice.strictness, color="#888888", linestyle="--", linewidth=1)
