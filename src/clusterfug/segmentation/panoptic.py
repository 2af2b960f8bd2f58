"""Panoptic maps, a class and an instance per pixel: the results of segmentation, compared by `quality`."""

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks

#: Class of pixels without a class.
VOID = -1
#: Maps are written as int32.
LARGEST_CLASS = 2**31 - 1


class Panoptic(NamedTuple):
    """Class map and instance map of one image.

    Pixels of a *stuff* class have instance 0: all of them are one segment. Pixels of a *thing* class with
    instance 0 are a crowd, a group of instances that a ground truth does not separate.
    """

    semantic: NDArray[np.int64]  # (h, w) class, VOID for none
    instance: NDArray[np.int64]  # (h, w) 1, 2, ... over the whole image, 0 for none


class Segment(NamedTuple):
    """The pixels of one instance, or of one stuff class."""

    id: int
    category: int
    area: int
    box: tuple[int, int, int, int]  # left, top, width, height
    crowd: bool


def as_panoptic(name: str, maps: Any) -> Panoptic:
    """Return two checked maps of the same size; negative classes become VOID."""
    pair = (maps.semantic, maps.instance) if hasattr(maps, "semantic") else maps
    if len(pair) != 2:
        raise ValueError(f"{name} must be a pair of maps, classes and instances; give a list of such pairs")
    semantic, instance = pair
    semantic = whole_map(f"the classes of {name}", semantic)
    instance = whole_map(f"the instances of {name}", instance)
    if semantic.shape != instance.shape:
        sizes = f"{size_of(semantic)} and {size_of(instance)}"
        raise ValueError(f"the classes and instances of {name} differ in size: {sizes}")
    instance = np.where(semantic < 0, 0, instance)
    if instance.min() < 0:
        raise ValueError(f"the instances of {name} must be 0, 1, 2, ...: there is a {instance.min()}")
    return Panoptic(np.maximum(semantic, VOID), instance)


def whole_map(name: str, values: Any) -> NDArray[np.int64]:
    """Return a checked 2-D map of whole numbers."""
    values = checks.numeric(name, values)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"{name} must be a map of height x width, not an array of shape {values.shape}")
    if values.dtype.kind == "f":
        raise TypeError(f"{name} must be whole numbers, not {values.dtype}")
    return np.asarray(values).astype(np.int64)


def check_classes(semantic: NDArray[np.integer], known: Iterable[int], complaint: str) -> None:
    """Raise an error if a class map has a class >= 0 that is not among the known ones."""
    unknown = np.setdiff1d(semantic[semantic >= 0], [*known])
    if len(unknown):
        raise ValueError(f"semantic has the class {unknown[0]}, which {complaint}")


def class_ids(name: str, values: Any) -> tuple[int, ...]:
    """Return distinct class numbers >= 0 in rising order."""
    values = [values] if np.ndim(values) == 0 else list(values)
    for value in values:
        if checks.count(name, value, 0) > LARGEST_CLASS:
            raise ValueError(f"{name} must be at most {LARGEST_CLASS}, not {checks.shown(value)}")
    return tuple(sorted({int(value) for value in values}))


def size_of(array: NDArray[Any]) -> str:
    """Return "height x width" for messages."""
    return f"{array.shape[0]} x {array.shape[1]}"


def list_segments(
    maps: Panoptic, things: Collection[int], offset: int
) -> tuple[list[Segment], NDArray[np.int64]]:
    """Return all segments, and the map of their ids (0 where there is none).

    As in Cityscapes and most tools for COCO, an id is ``class * offset + k`` for the k-th instance of its
    class (k = 1, 2, ...), and ``class * offset`` for a stuff class or a crowd.
    """
    from scipy.ndimage import find_objects

    offset = checks.count("offset", offset)
    codes, first, inverse, areas = np.unique(
        maps.semantic * (int(maps.instance.max()) + 1) + maps.instance,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    inverse = inverse.reshape(maps.semantic.shape)
    boxes = find_objects(inverse + 1)
    found: list[Segment] = []
    ids = np.zeros(len(codes), dtype=np.int64)
    used: dict[int, int] = {}
    for t in np.argsort(first):
        category, instance = int(maps.semantic.flat[first[t]]), int(maps.instance.flat[first[t]])
        if category == VOID:
            continue
        k = 0
        if instance:
            k = used[category] = used.get(category, 0) + 1
        if k >= offset:
            raise ValueError(
                f"class {category} has {offset} instances or more: choose an offset larger than {offset}"
            )
        ids[t] = category * offset + k
        y, x = boxes[t]
        box = (x.start, y.start, x.stop - x.start, y.stop - y.start)
        found.append(
            Segment(int(ids[t]), category, int(areas[t]), box, not instance and category in things)
        )
    return found, ids[inverse]
