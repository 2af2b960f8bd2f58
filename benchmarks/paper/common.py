"""Functions of the scripts for the paper's tables and figures: options, data, and output."""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def is_full(description, needs_data=True):
    """Return whether --full is given; without the data it needs the script ends with a message."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="full sizes, which takes long")
    full = parser.parse_args().full
    if needs_data and not os.environ.get("CLUSTERFUG_DATA"):
        print(f"{Path(sys.argv[0]).name} is left out: CLUSTERFUG_DATA does not name a folder of data")
        sys.exit()
    return full


def write(name, title, parts, full=False):
    """Write docs/results/NAME.md: a title, the command that made it, then text and tables."""
    command = f"python benchmarks/paper/{name}.py" + (" --full" if full else "")
    text = "\n\n".join([f"# {title}", f"`{command}`, two cores.", *parts]) + "\n"
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)
    print(text)


def table(headings, rows):
    """Return a Markdown table; columns of numbers are aligned to the right."""
    right = [all(_is_number(row[t]) for row in rows) for t in range(len(headings))]
    lines = [
        "| " + " | ".join(headings) + " |",
        "|" + "|".join("---:" if r else "---" for r in right) + "|",
    ]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _is_number(cell):
    return (
        str(cell).strip("*-+%s ").replace(",", "").replace(".", "").replace("e", "").isdigit() or not cell
    )


def bold_best(cells, best=max):
    """Return the cells of a row as text, the best of them in bold."""
    top = best(cells)
    return [f"**{cell:.1f}**" if cell == top else f"{cell:.1f}" for cell in cells]


def nuclei():
    """Return the 36 images as samples; the background of the truth is class 2."""
    from clusterfug.segmentation import Panoptic, Sample

    archive = np.load(Path(os.environ["CLUSTERFUG_DATA"]) / "nuclei" / "nuclei.npz")
    samples = []
    for t in range(36):
        image, truth, embeddings, foreground = (archive[f"{k}{t:02d}"] for k in ("img", "gt", "emb", "fg"))
        classes = np.where(truth > 0, 1, 2)
        samples.append(
            Sample(
                f"img{t:02d}",
                embeddings,
                np.ones(foreground.shape, dtype=np.int64),
                foreground / np.float32(255),
                image,
                Panoptic(classes, truth.astype(np.int64)),
            )
        )
    return samples


#: The nuclei are of three kinds of microscopes, by the size of the image.
KINDS = {
    (256, 256): "fluorescence, small nuclei",
    (360, 360): "fluorescence, large nuclei",
    (256, 320): "stained tissue",
}


def kind(sample):
    return KINDS[sample.image.shape[:2]]


def figure(width=6.0, height=4.0, columns=1):
    """Return a matplotlib figure and its axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(1, columns, figsize=(width, height), layout="constrained")


def save(drawing, name):
    RESULTS.mkdir(parents=True, exist_ok=True)
    drawing.savefig(RESULTS / f"{name}.png", dpi=110)
