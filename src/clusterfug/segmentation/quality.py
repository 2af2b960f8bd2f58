"""Panoptic quality: how well predicted segments match true ones (Kirillov et al., 2019).

A predicted and a true segment of the same class match if their intersection over union is larger than 0.5;
then neither can match another. With the matches (TP), the unmatched predictions (FP) and truths (FN)

    PQ = SQ * RQ,   SQ = mean IoU of the matches,   RQ = |TP| / (|TP| + |FP| / 2 + |FN| / 2).

Pixels that are void in the truth do not count: they are in no union, and an unmatched prediction that lies
mostly in them, or in a crowd of its class, is no error. A crowd matches nothing and cannot be missed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.segmentation.panoptic import VOID, Panoptic, as_panoptic, class_ids, size

# Columns of the counts.
IOU, TP, FP, FN = range(4)


class Quality(NamedTuple):
    """Of one class, or the mean over several; nan where there is nothing to compare."""

    pq: float
    sq: float
    rq: float
    tp: int
    fp: int
    fn: int


@dataclass(frozen=True, eq=False)
class PanopticQuality:
    """Panoptic quality over a set of images, pooled: matches and errors of all images are added first.

    Attributes
    ----------
    classes : dict from class to Quality
    things, stuff, all : Quality
        Means over the classes that occur; their counts are totals.
    """

    classes: dict[int, Quality]
    things: Quality
    stuff: Quality
    all: Quality

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON; None where there is nothing to compare."""

        def plain(quality: Quality) -> dict[str, Any]:
            return {k: None if v != v else v for k, v in quality._asdict().items()}

        means = {name: plain(getattr(self, name)) for name in ("things", "stuff", "all")}
        return means | {"classes": {str(c): plain(quality) for c, quality in self.classes.items()}}


def panoptic_quality(
    predictions: Iterable[Any], truths: Iterable[Any], things: Iterable[int], stuff: Iterable[int] = ()
) -> PanopticQuality:
    """Compare predicted panoptic maps with the truth.

    Parameters
    ----------
    predictions, truths : iterables of pairs of maps
        Per image: `Segmentation`, `Panoptic`, or (semantic, instance), two integer arrays of the same
        size. Negative classes are void. A thing class with instance 0 is a crowd in a truth, and no
        segment in a prediction.
    things, stuff : iterables of int
        The classes to compare. Pixels of other classes count like any, but their segments do not.

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug.segmentation import panoptic_quality
    >>> classes = np.array([[1, 1, 1, 1]])
    >>> truth, prediction = np.array([[1, 1, 1, 2]]), np.array([[1, 1, 2, 2]])
    >>> panoptic_quality([(classes, prediction)], [(classes, truth)], things=[1]).things.pq
    0.3333333333333333
    """
    things, stuff = class_ids("things", things), class_ids("stuff", stuff)
    if set(things) & set(stuff):
        raise ValueError(f"class {min(set(things) & set(stuff))} is in things and in stuff: choose one")
    total = np.zeros((len(things) + len(stuff), 4))
    for number, (prediction, truth) in enumerate(zip_longest(predictions, truths)):
        if prediction is None or truth is None:
            raise ValueError("predictions and truths must be as many: one of each per image")
        predicted = as_panoptic(f"prediction {number}", prediction)
        total += count(match(predicted, as_panoptic(f"truth {number}", truth), things, stuff))
    return quality(total, things, stuff)


class Segments(NamedTuple):
    """All segments of a map; number 0 is void."""

    of: NDArray[np.int64]  # (h, w) the segment of each pixel
    place: NDArray[np.int64]  # (segments,) of the class in things and stuff; the last place is all others
    crowd: NDArray[np.bool_]  # (segments,) pixels of a thing class in no instance


class Matching(NamedTuple):
    """Who matches whom in one image."""

    predicted: Segments
    true: Segments
    pairs: NDArray[np.int64]  # (matches, 2) segments, predicted and true
    iou: NDArray[np.float64]  # (matches,)
    wrong: NDArray[np.bool_]  # (predicted segments,) false positives
    missed: NDArray[np.bool_]  # (true segments,) false negatives


def match(
    prediction: Panoptic, truth: Panoptic, things: tuple[int, ...], stuff: tuple[int, ...]
) -> Matching:
    if prediction.semantic.shape != truth.semantic.shape:
        raise ValueError(
            f"prediction and truth differ in size: {size(prediction.semantic)} and {size(truth.semantic)}"
        )
    predicted, true = _segments(prediction, things, stuff), _segments(truth, things, stuff)
    shape = len(predicted.place), len(true.place)
    codes = predicted.of.ravel() * shape[1] + true.of.ravel()
    both = np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape)
    areas, true_areas = both.sum(axis=1), both.sum(axis=0)
    p, t = np.nonzero(both)
    same = (p > 0) & (t > 0) & (predicted.place[p] == true.place[t]) & ~predicted.crowd[p] & ~true.crowd[t]
    p, t = p[same], t[same]
    iou = both[p, t] / (areas[p] + true_areas[t] - both[p, t] - both[p, 0])
    p, t, iou = p[iou > 0.5], t[iou > 0.5], iou[iou > 0.5]
    in_crowd = true.crowd & (predicted.place[:, None] == true.place)
    excused = both[:, 0] + np.where(in_crowd, both, 0).sum(axis=1)
    wrong = ~predicted.crowd & (excused <= 0.5 * areas)
    missed = ~true.crowd
    for unmatched, matched, of in ((wrong, p, predicted), (missed, t, true)):
        unmatched[of.place == predicted.place[0]] = False  # void, and classes that are not compared
        unmatched[matched] = False
    return Matching(predicted, true, np.stack([p, t], axis=1), iou, wrong, missed)


def count(matching: Matching) -> NDArray[np.float64]:
    """(classes, 4): sum of IoU, TP, FP, FN of one image."""
    predicted, true, pairs, iou, wrong, missed = matching
    place = predicted.place[pairs[:, 0]]
    n = predicted.place[0] + 1  # void is in the last place, with all others
    counts = np.empty((n, 4))
    counts[:, IOU] = np.bincount(place, weights=iou, minlength=n)
    counts[:, TP] = np.bincount(place, minlength=n)
    counts[:, FP] = np.bincount(predicted.place[wrong], minlength=n)
    counts[:, FN] = np.bincount(true.place[missed], minlength=n)
    return counts[:-1]


def _segments(maps: Panoptic, things: tuple[int, ...], stuff: tuple[int, ...]) -> Segments:
    classes = np.array((*things, *stuff), dtype=np.int64)
    others = len(classes)
    place = np.full(max(int(maps.semantic.max()), int(classes.max(initial=0))) + 1, others)
    place[classes] = np.arange(others)
    at = place[maps.semantic]  # of void: anything
    width = int(maps.instance.max()) + 1
    code = 1 + at * width + np.where(at < len(things), maps.instance, 0)
    code[maps.semantic == VOID] = 0
    codes, of = np.unique(np.append(0, code), return_inverse=True)
    at, number = np.divmod(codes - 1, width)
    crowd = (at < len(things)) & (number == 0)
    at[0], crowd[0] = others, False
    return Segments(of[1:].reshape(code.shape), at, crowd)


def quality(
    counts: NDArray[np.float64], things: tuple[int, ...], stuff: tuple[int, ...]
) -> PanopticQuality:
    """From counts, summed over images."""
    each = {c: _quality(row) for c, row in zip((*things, *stuff), counts, strict=True)}
    return PanopticQuality(
        each,
        _mean([each[c] for c in things]),
        _mean([each[c] for c in stuff]),
        _mean(list(each.values())),
    )


def _quality(row: NDArray[np.float64]) -> Quality:
    iou, (tp, fp, fn) = float(row[IOU]), (int(row[column]) for column in (TP, FP, FN))
    if tp + fp + fn == 0:
        return Quality(np.nan, np.nan, np.nan, 0, 0, 0)
    half = tp + 0.5 * fp + 0.5 * fn
    return Quality(iou / half, iou / tp if tp else 0.0, tp / half, tp, fp, fn)


def _mean(qualities: list[Quality]) -> Quality:
    there = [quality for quality in qualities if quality.tp + quality.fp + quality.fn]
    if not there:
        return Quality(np.nan, np.nan, np.nan, 0, 0, 0)
    pq, sq, rq, tp, fp, fn = zip(*there, strict=True)
    return Quality(fmean(pq), fmean(sq), fmean(rq), sum(tp), sum(fp), sum(fn))
