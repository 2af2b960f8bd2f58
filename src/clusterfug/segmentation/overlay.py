"""Pictures for visual checks: image, prediction, truth and errors side by side."""

import numpy as np
from numpy.typing import NDArray

from clusterfug.segmentation.panoptic import Panoptic
from clusterfug.segmentation.pictures import require_pillow
from clusterfug.segmentation.quality import Matching, match_segments

# Colours of matched pixels, other pixels of matched segments, false positives and false negatives.
RIGHT, EDGE, WRONG, MISSED = (64, 176, 88), (240, 200, 60), (226, 61, 55), (58, 110, 226)

_CAPTION_HEIGHT, _GAP = 18, 4  # pixels


def overlay(
    image: NDArray[np.uint8] | None,
    prediction: Panoptic,
    truth: Panoptic | None,
    things: tuple[int, ...],
    stuff: tuple[int, ...] = (),
) -> NDArray[np.uint8]:
    """Return a picture (h, w, 3) of captioned panels in a row, two of them only if there is a truth."""
    shape = prediction.semantic.shape
    grey = np.full((*shape, 3), 40, dtype=np.uint8) if image is None else image
    panels = [] if image is None else [("image", image)]
    panels.append((f"{_count(prediction)} found", _coloured(grey, prediction, stuff)))
    if truth is not None:
        panels.append((f"{_count(truth)} in the truth", _coloured(grey, truth, stuff)))
        matching = match_segments(prediction, truth, things, stuff)
        caption = (
            f"{len(matching.pairs)} right (yellow: their errors), {int(matching.wrong.sum())} wrong (red), "
            f"{int(matching.missed.sum())} missed (blue)"
        )
        panels.append((caption, _errors(grey, matching)))
    return _in_row(panels)


def colour(number: int) -> NDArray[np.float64]:
    """Return a colour for a number, unlike that of the next: hues differ by the golden ratio."""
    hue = (0.13 + number * 0.6180339887) % 1.0
    wheel = np.abs((hue * 6 + np.array([0, 4, 2])) % 6 - 3) - 1
    bright = 255 * (0.65 + 0.35 * (number % 3) / 2)
    shaded: NDArray[np.float64] = bright * (0.25 + 0.75 * np.clip(wheel, 0, 1))
    return shaded


def _count(maps: Panoptic) -> int:
    return len(np.setdiff1d(maps.instance, [0]))


def _coloured(image: NDArray[np.uint8], maps: Panoptic, stuff: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the image with instances in individual colours, pale stuff, and white edges."""
    out = image.astype(np.float64)
    for c in stuff:
        mask = maps.semantic == c
        out[mask] = 0.8 * out[mask] + 0.2 * colour(c)
    mask = maps.instance > 0
    numbers, place = np.unique(maps.instance[mask], return_inverse=True)
    table = np.array([colour(k) for k in range(1, len(numbers) + 1)]).reshape(-1, 3)
    out[mask] = 0.4 * out[mask] + 0.6 * table[place]
    out[_edges(maps.instance) & mask] = 255
    return out.astype(np.uint8)


def _errors(image: NDArray[np.uint8], matching: Matching) -> NDArray[np.uint8]:
    """Return the grey image with segments in the colours of their errors."""
    predicted, true, pairs, _, wrong, missed = matching
    partner = np.full(len(predicted.position), -1)
    partner[pairs[:, 0]] = pairs[:, 1]
    matched_truth = np.isin(np.arange(len(true.position)), pairs[:, 1])
    found, there = partner[predicted.number] >= 0, matched_truth[true.number]
    grey = image.mean(axis=2, keepdims=True).repeat(3, axis=2) * 0.6
    for mask, paint in (
        (found | there, EDGE),
        (found & (partner[predicted.number] == true.number), RIGHT),
        (missed[true.number], MISSED),
        (wrong[predicted.number], WRONG),
    ):
        grey[mask] = 0.35 * image[mask] + 0.65 * np.array(paint)
    return grey.astype(np.uint8)


def _edges(instance: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the mask of pixels whose neighbour to the right or below is another instance."""
    edges = np.zeros(instance.shape, dtype=bool)
    edges[:, :-1] |= instance[:, :-1] != instance[:, 1:]
    edges[:-1] |= instance[:-1] != instance[1:]
    return edges


def _in_row(panels: list[tuple[str, NDArray[np.uint8]]]) -> NDArray[np.uint8]:
    library = require_pillow()
    from PIL import ImageDraw

    height, width = panels[0][1].shape[:2]
    zoom = max(1, -(-420 // width))  # panels are wide enough for captions
    step = width * zoom + _GAP
    sheet = library.new("RGB", (step * len(panels) - _GAP, height * zoom + _CAPTION_HEIGHT), "white")
    draw = ImageDraw.Draw(sheet)
    for place, (caption, panel) in enumerate(panels):
        picture = library.fromarray(panel).resize((width * zoom, height * zoom), library.Resampling.NEAREST)
        sheet.paste(picture, (place * step, _CAPTION_HEIGHT))
        draw.text((place * step + 2, 3), caption, fill="black")
    return np.asarray(sheet)
