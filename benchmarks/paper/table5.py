"""Tables 5 and 6: panoptic quality against the threshold (the paper's affinity strength), by class too.

CLUSTERFUG_DATA=... python benchmarks/paper/table5.py [--full]
"""

import numpy as np
from common import KINDS, bold_best, figure, is_full, kind, nuclei, save, table, write
from panoptic import partition, score

#: Thresholds of the published figures.
AT = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PUBLISHED = {
    "person": (31.5, 38.1, 43.2, 46.9, 49.8, 52.6, 54.3, 55.0, 52.4),
    "rider": (51.1, 53.0, 53.9, 54.5, 55.5, 55.4, 53.9, 51.0, 45.5),
    "car": (45.6, 52.9, 57.8, 60.5, 63.3, 64.8, 64.1, 62.2, 57.8),
    "truck": (54.1, 53.7, 52.7, 52.3, 49.0, 47.8, 45.4, 41.5, 34.7),
    "bus": (75.1, 74.2, 73.5, 71.2, 69.3, 63.6, 58.5, 54.5, 47.3),
    "train": (75.0, 74.9, 71.5, 62.9, 56.3, 51.7, 45.1, 40.4, 32.3),
    "motorcycle": (45.5, 46.1, 48.0, 46.8, 48.7, 49.1, 47.8, 45.2, 39.8),
    "bicycle": (38.1, 43.2, 45.6, 46.9, 47.8, 48.0, 46.9, 44.6, 40.4),
    "mean": (52.0, 54.5, 55.8, 55.2, 55.0, 54.1, 52.0, 49.3, 43.8),
}


def main():
    full = is_full(__doc__)
    samples = nuclei()
    thresholds = np.arange(2, 19) / 20 if full else AT
    sweeps = {"dense": {}, "dense, position": {"position": 1.0}}
    found = {
        name: [score(samples, partition(samples, threshold=float(t), **options)) for t in thresholds]
        for name, options in sweeps.items()
    }
    headings = ("threshold", *(f"{t:g}" for t in thresholds))
    kinds = (*KINDS.values(), "all")
    parts = [
        "Panoptic quality (%) of `auto` on 36 images of nuclei, node labels repeated 2 x 2, pooled. The "
        "best of each row is bold."
    ]
    for name, scores in found.items():
        rows = [(k, *bold_best([each[k] for each in scores])) for k in kinds]
        parts += [f"## {name}", table(headings, rows)]
    parts.append(by_kind(samples, thresholds, found["dense, position"]))
    parts += [
        "![panoptic quality against the threshold](table5.png)",
        "## Published (Cityscapes, DAppLAEC)",
        "Table 5 is the last row, Table 6 all of it.",
        table(("threshold", *map(str, AT)), [(c, *bold_best(row)) for c, row in PUBLISHED.items()]),
    ]
    write("table5", "Tables 5 and 6: panoptic quality against the threshold", parts, full)
    draw(thresholds, found, kinds)


def by_kind(samples, thresholds, scores):
    """Return the PQ of all images with the best threshold for each kind."""
    best = {k: float(thresholds[int(np.argmax([each[k] for each in scores]))]) for k in KINDS.values()}
    found = [None] * len(samples)
    for k, threshold in best.items():
        own = [t for t, sample in enumerate(samples) if kind(sample) == k]
        results = partition([samples[t] for t in own], threshold=threshold, position=1.0)
        for t, result in zip(own, results, strict=True):
            found[t] = result
    total = score(samples, found)["all"]
    chosen = ", ".join(f"{threshold:g} ({k})" for k, threshold in best.items())
    return f"With position and a threshold for each kind, {chosen}: {total:.1f} overall."


def draw(thresholds, found, kinds):
    drawing, axes = figure(10, 3.6, len(found) + 1)
    for panel, (name, scores) in zip(axes, found.items(), strict=False):
        for k in kinds:
            style = {"color": "black", "linewidth": 2} if k == "all" else {}
            panel.plot(thresholds, [each[k] for each in scores], "o-", label=k, **style)
        panel.set(title=name, xlabel="threshold", ylabel="PQ (%)")
    for c, row in PUBLISHED.items():
        style = {"color": "black", "linewidth": 2} if c == "mean" else {"linewidth": 1}
        axes[-1].plot(AT, row, "-", label=c, **style)
    axes[-1].set(title="published, Cityscapes", xlabel="threshold")
    for panel in axes:
        panel.grid(alpha=0.3)
        panel.legend(fontsize=6)
    save(drawing, "table5")


if __name__ == "__main__":
    main()
