"""Panoptic maps: a class and an instance for every pixel; what segmentation makes and quality compares."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks

#: The class of a pixel that has none.
VOID = -1


class Panoptic(NamedTuple):
    """Two maps of one image.

    A pixel of a *stuff* class has instance 0: all such pixels are one segment. So has a pixel of a *thing*
    class that belongs to no instance in particular: a crowd, which a truth may have.
    """

    semantic: NDArray[np.int64]  # (h, w) class, VOID for none
    instance: NDArray[np.int64]  # (h, w) 1, 2, ... over the whole image, 0 for none


class Segment(NamedTuple):
    """The pixels of one instance, or of one stuff class."""

    id: int
    category: int
    instance: int
    area: int
    box: tuple[int, int, int, int]  # left, top, width, height
    crowd: bool = False


def as_panoptic(name: str, maps: Any) -> Panoptic:
    """Two whole-number maps of the same size; every negative class is VOID."""
    pair = (maps.semantic, maps.instance) if hasattr(maps, "semantic") else maps
    if len(pair) != 2:
        raise ValueError(f"{name} must be a pair of maps, classes and instances; give a list of such pairs")
    semantic, instance = pair
    semantic = whole_map(f"the classes of {name}", semantic)
    instance = whole_map(f"the instances of {name}", instance)
    if semantic.shape != instance.shape:
        raise ValueError(
            f"the classes and instances of {name} differ in size: {size(semantic)} and {size(instance)}"
        )
    instance = np.where(semantic < 0, 0, instance)
    if instance.min() < 0:
        raise ValueError(f"the instances of {name} must be 0, 1, 2, ...: there is a {instance.min()}")
    return Panoptic(np.maximum(semantic, VOID), instance)


def whole_map(name: str, values: Any) -> NDArray[np.int64]:
    """A 2-D map of whole numbers."""
    values = checks.numeric(name, values)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"{name} must be a map of height x width, not an array of shape {values.shape}")
    if values.dtype.kind == "f":
        raise TypeError(f"{name} must be whole numbers, not {values.dtype}")
    return np.asarray(values).astype(np.int64)


def class_ids(name: str, values: Any) -> tuple[int, ...]:
    """Class numbers >= 0, in order, each once."""
    values = [values] if np.ndim(values) == 0 else list(values)
    return tuple(sorted({checks.count(name, value, 0) for value in values}))


def size(array: NDArray[Any]) -> str:
    """Height x width, for a message."""
    return f"{array.shape[0]} x {array.shape[1]}"


def classes_of(maps: Panoptic) -> NDArray[np.int64]:
    """The class of every instance 0, 1, ...; VOID for a number that is not there, and for 0."""
    numbers, first = np.unique(maps.instance, return_index=True)
    classes = np.full(int(numbers[-1]) + 1, VOID)
    classes[numbers] = maps.semantic.ravel()[first]
    classes[0] = VOID
    return classes


def segments(maps: Panoptic, things: Any, offset: int = 1000) -> tuple[list[Segment], NDArray[np.int64]]:
    """All segments, and the map of their ids (0 where there is none).

    An id is ``class * offset + k`` for the k-th instance of its class (k = 1, 2, ...), and ``class *
    offset`` for a stuff class or a crowd: what Cityscapes and most tools for COCO do.
    """
    offset = checks.count("offset", offset)
    things = set(things)
    codes, first, inverse, areas = np.unique(
        maps.semantic * (int(maps.instance.max()) + 1) + maps.instance,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    inverse = inverse.reshape(maps.semantic.shape)
    boxes = _boxes(inverse, len(codes))
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
        crowd = not instance and category in things
        found.append(Segment(int(ids[t]), category, instance, int(areas[t]), boxes[t], crowd))
    return found, ids[inverse]


def _boxes(codes: NDArray[np.int64], count: int) -> list[tuple[int, int, int, int]]:
    from scipy.ndimage import find_objects

    slices = find_objects(codes + 1, max_label=count)
    return [(x.start, y.start, x.stop - x.start, y.stop - y.start) for y, x in slices]
