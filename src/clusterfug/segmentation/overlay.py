"""Pictures a person can judge: image, prediction, truth and errors side by side."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.segmentation.panoptic import Panoptic
from clusterfug.segmentation.pictures import require_pillow
from clusterfug.segmentation.quality import match

RIGHT, EDGE, WRONG, MISSED = (64, 176, 88), (240, 200, 60), (226, 61, 55), (58, 110, 226)

_CAPTION = 18  # pixels
_GAP = 4


def overlay(
    image: NDArray[np.uint8] | None,
    prediction: Panoptic,
    truth: Panoptic | None,
    things: tuple[int, ...],
    stuff: tuple[int, ...] = (),
) -> NDArray[np.uint8]:
    """(h, w, 3): panels in a row, each with its caption; without a truth the last two are left out."""
    shape = prediction.semantic.shape
    grey = np.full((*shape, 3), 40, dtype=np.uint8) if image is None else image
    panels = [] if image is None else [("image", image)]
    panels.append((f"{_count(prediction)} found", _coloured(grey, prediction, stuff)))
    if truth is not None:
        panels.append((f"{_count(truth)} in the truth", _coloured(grey, truth, stuff)))
        matching = match(prediction, truth, things, stuff)
        caption = (
            f"{len(matching.pairs)} right (yellow: their errors), {int(matching.wrong.sum())} wrong (red), "
            f"{int(matching.missed.sum())} missed (blue)"
        )
        panels.append((caption, _errors(grey, matching)))
    return _row(panels)


def colour(number: int) -> NDArray[np.float64]:
    """A colour for a number, far from that of the next: the hue goes round by the golden ratio."""
    hue = (0.13 + number * 0.6180339887) % 1.0
    wheel = np.abs((hue * 6 + np.array([0, 4, 2])) % 6 - 3) - 1
    bright = 255 * (0.65 + 0.35 * (number % 3) / 2)
    shaded: NDArray[np.float64] = bright * (0.25 + 0.75 * np.clip(wheel, 0, 1))
    return shaded


def _count(maps: Panoptic) -> int:
    return len(np.setdiff1d(maps.instance, [0]))


def _coloured(image: NDArray[np.uint8], maps: Panoptic, stuff: tuple[int, ...]) -> NDArray[np.uint8]:
    """Instances in colours of their own, stuff in the colour of its class and paler; edges in white."""
    out = image.astype(np.float64)
    for c in stuff:
        mask = maps.semantic == c
        out[mask] = 0.8 * out[mask] + 0.2 * colour(c)
    table = np.array([colour(number) for number in range(int(maps.instance.max()) + 1)])
    mask = maps.instance > 0
    out[mask] = 0.4 * out[mask] + 0.6 * table[maps.instance[mask]]
    out[_edges(maps.instance) & mask] = 255
    return out.astype(np.uint8)


def _errors(image: NDArray[np.uint8], matching: Any) -> NDArray[np.uint8]:
    predicted, true, pairs, _, wrong, missed = matching
    partner = np.full(len(predicted.place), -1)
    partner[pairs[:, 0]] = pairs[:, 1]
    matched_truth = np.isin(np.arange(len(true.place)), pairs[:, 1])
    found, there = partner[predicted.of] >= 0, matched_truth[true.of]
    grey = image.mean(axis=2, keepdims=True).repeat(3, axis=2) * 0.6
    for mask, paint in (
        (found | there, EDGE),
        (found & (partner[predicted.of] == true.of), RIGHT),
        (missed[true.of], MISSED),
        (wrong[predicted.of], WRONG),
    ):
        grey[mask] = 0.35 * image[mask] + 0.65 * np.array(paint)
    return grey.astype(np.uint8)


def _edges(instance: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Pixels whose neighbour to the right or below is another instance."""
    edges = np.zeros(instance.shape, dtype=bool)
    edges[:, :-1] |= instance[:, :-1] != instance[:, 1:]
    edges[:-1] |= instance[:-1] != instance[1:]
    return edges


def _row(panels: list[tuple[str, NDArray[np.uint8]]]) -> NDArray[np.uint8]:
    library = require_pillow()
    from PIL import ImageDraw

    height, width = panels[0][1].shape[:2]
    zoom = max(1, -(-420 // width))  # captions need room
    step = width * zoom + _GAP
    sheet = library.new("RGB", (step * len(panels) - _GAP, height * zoom + _CAPTION), "white")
    draw = ImageDraw.Draw(sheet)
    for place, (caption, panel) in enumerate(panels):
        picture = library.fromarray(panel).resize((width * zoom, height * zoom), library.Resampling.NEAREST)
        sheet.paste(picture, (place * step, _CAPTION))
        draw.text((place * step + 2, 3), caption, fill="black")
    return np.asarray(sheet)
