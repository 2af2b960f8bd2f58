"""Panoptic quality: agreement of predicted and true segments (Kirillov et al., 2019).

A predicted and a true segment of the same class match if their intersection over union is larger than 0.5;
then neither can match another. With the matches (TP), the unmatched predictions (FP) and truths (FN)

    PQ = SQ * RQ,   SQ = mean IoU of the matches,   RQ = |TP| / (|TP| + |FP| / 2 + |FN| / 2).

Pixels that are void in the truth do not count: they are in no union, and an unmatched prediction that lies
mostly in them, or in a crowd of its class, is no error. A crowd is never matched and never a FN.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.segmentation.panoptic import VOID, Panoptic, as_panoptic, class_ids, size_of


class Quality(NamedTuple):
    """Scores of one class, or their mean over several; nan where there are no segments."""

    pq: float
    sq: float
    rq: float
    tp: int
    fp: int
    fn: int


_NO_SEGMENTS = Quality(np.nan, np.nan, np.nan, 0, 0, 0)


@dataclass(frozen=True, eq=False)
class PanopticQuality:
    """Panoptic quality of a set of images, pooled: matches and errors of all images are added up first.

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
        """Return the scores for JSON; None where there are no segments."""

        def plain(quality: Quality) -> dict[str, Any]:
            return {k: None if v != v else v for k, v in quality._asdict().items()}

        means = {name: plain(getattr(self, name)) for name in ("things", "stuff", "all")}
        return means | {"classes": {str(c): plain(quality) for c, quality in self.classes.items()}}


def panoptic_quality(
    predictions: Iterable[Any], truths: Iterable[Any], things: Iterable[int], stuff: Iterable[int] = ()
) -> PanopticQuality:
    """Return the panoptic quality of predicted maps.

    Parameters
    ----------
    predictions, truths : iterables of pairs of maps
        Per image: `Segmentation`, `Panoptic`, or (semantic, instance), two integer arrays of the same
        size. Negative classes are void. A thing class with instance 0 is a crowd in a truth, and no
        segment in a prediction.
    things, stuff : iterables of int
        The classes to compare. Pixels of other classes count in unions, but their segments are not scored.

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
    if both := set(things) & set(stuff):
        raise ValueError(f"class {min(both)} is in things and in stuff: choose one")
    total = np.zeros((len(things) + len(stuff), 4))
    for number, (prediction, truth) in enumerate(zip_longest(predictions, truths)):
        if prediction is None or truth is None:
            raise ValueError("predictions and truths must be as many: one of each per image")
        predicted = as_panoptic(f"prediction {number}", prediction)
        true = as_panoptic(f"truth {number}", truth)
        total += count_matches(match_segments(predicted, true, things, stuff))
    return quality_of_counts(total, things, stuff)


class SegmentMap(NamedTuple):
    """All segments of a panoptic map, numbered; number 0 is void."""

    number: NDArray[np.int64]  # (h, w) the segment of each pixel
    position: NDArray[np.int64]  # (segments,) of its class in (*things, *stuff), then all other classes
    crowd: NDArray[np.bool_]  # (segments,) whether it is the crowd of a thing class


class Matching(NamedTuple):
    """Matches of predicted and true segments of one image (IoU > 0.5)."""

    predicted: SegmentMap
    true: SegmentMap
    pairs: NDArray[np.int64]  # (matches, 2) segments, predicted and true
    iou: NDArray[np.float64]  # (matches,)
    wrong: NDArray[np.bool_]  # (predicted segments,) false positives
    missed: NDArray[np.bool_]  # (true segments,) false negatives


def match_segments(
    prediction: Panoptic, truth: Panoptic, things: tuple[int, ...], stuff: tuple[int, ...]
) -> Matching:
    if prediction.semantic.shape != truth.semantic.shape:
        sizes = f"{size_of(prediction.semantic)} and {size_of(truth.semantic)}"
        raise ValueError(f"prediction and truth differ in size: {sizes}")
    predicted, true = _numbered(prediction, things, stuff), _numbered(truth, things, stuff)
    shape = len(predicted.position), len(true.position)
    codes = predicted.number.ravel() * shape[1] + true.number.ravel()
    both = np.bincount(codes, minlength=shape[0] * shape[1]).reshape(shape)
    areas, true_areas = both.sum(axis=1), both.sum(axis=0)
    p, t = np.nonzero(both)
    same_class = predicted.position[p] == true.position[t]
    may_match = same_class & (p > 0) & (t > 0) & ~predicted.crowd[p] & ~true.crowd[t]
    p, t = p[may_match], t[may_match]
    iou = both[p, t] / (areas[p] + true_areas[t] - both[p, t] - both[p, 0])
    p, t, iou = p[iou > 0.5], t[iou > 0.5], iou[iou > 0.5]
    in_crowd = true.crowd & (predicted.position[:, None] == true.position)
    excused = both[:, 0] + np.where(in_crowd, both, 0).sum(axis=1)
    compared = len(things) + len(stuff)  # void and all other classes have this position
    wrong = (predicted.position < compared) & ~predicted.crowd & (excused <= 0.5 * areas)
    missed = (true.position < compared) & ~true.crowd
    wrong[p] = missed[t] = False
    return Matching(predicted, true, np.stack([p, t], axis=1), iou, wrong, missed)


def count_matches(matching: Matching) -> NDArray[np.float64]:
    """Return counts (classes, 4) of one image: sum of IoU, TP, FP, FN."""
    predicted, true, pairs, iou, wrong, missed = matching
    position = predicted.position[pairs[:, 0]]
    n = predicted.position[0] + 1  # void is in the last position, with all other classes
    columns = (
        np.bincount(position, weights=iou, minlength=n),
        np.bincount(position, minlength=n),
        np.bincount(predicted.position[wrong], minlength=n),
        np.bincount(true.position[missed], minlength=n),
    )
    return np.stack(columns, axis=1, dtype=np.float64)[:-1]


def _numbered(maps: Panoptic, things: tuple[int, ...], stuff: tuple[int, ...]) -> SegmentMap:
    shape = maps.semantic.shape
    others = len(things) + len(stuff)
    positions = {c: p for p, c in enumerate((*things, *stuff))}
    classes, index = np.unique(maps.semantic, return_inverse=True)
    position = np.array([positions.get(c, others) for c in classes.tolist()])[index.reshape(shape)]
    # Instances are numbered again: those of a truth may be large numbers.
    instances, index = np.unique(np.append(0, maps.instance), return_inverse=True)
    width = len(instances)
    code = 1 + position * width + np.where(position < len(things), index[1:].reshape(shape), 0)
    code[maps.semantic == VOID] = 0
    codes, number = np.unique(np.append(0, code), return_inverse=True)
    position, instance = np.divmod(codes - 1, width)
    crowd = (position < len(things)) & (instance == 0)
    position[0], crowd[0] = others, False
    return SegmentMap(number[1:].reshape(shape), position, crowd)


def quality_of_counts(
    counts: NDArray[np.float64], things: tuple[int, ...], stuff: tuple[int, ...]
) -> PanopticQuality:
    """Return the quality for counts that are summed over images."""
    each = {c: _quality(row) for c, row in zip((*things, *stuff), counts, strict=True)}
    means = (_mean([each[c] for c in classes]) for classes in (things, stuff, each))
    return PanopticQuality(each, *means)


def _quality(row: NDArray[np.float64]) -> Quality:
    iou, tp, fp, fn = row.tolist()
    if tp + fp + fn == 0:
        return _NO_SEGMENTS
    mean_count = tp + 0.5 * fp + 0.5 * fn  # of predicted and true segments
    sq = iou / tp if tp else 0.0
    return Quality(iou / mean_count, sq, tp / mean_count, int(tp), int(fp), int(fn))


def _mean(qualities: list[Quality]) -> Quality:
    occurring = [quality for quality in qualities if quality.tp + quality.fp + quality.fn]
    if not occurring:
        return _NO_SEGMENTS
    pq, sq, rq, tp, fp, fn = zip(*occurring, strict=True)
    return Quality(fmean(pq), fmean(sq), fmean(rq), sum(tp), sum(fp), sum(fn))
