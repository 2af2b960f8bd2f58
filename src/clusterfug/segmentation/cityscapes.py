"""Cityscapes in its published layout: leftImg8bit/, gtFine/*_instanceIds.png, and the ids of its classes.

An instance id is ``class * 1000 + k``; below 1000 it is the class itself: stuff, or a group of things whose
instances are not separated.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.segmentation.panoptic import VOID, Panoptic, check_classes, list_segments
from clusterfug.segmentation.pictures import read_ids, write_picture

OFFSET = 1000

#: The 19 classes that are evaluated, by id, in the order of the train ids 0..18; all others are void.
NAMES = {
    7: "road", 8: "sidewalk", 11: "building", 12: "wall", 13: "fence", 17: "pole", 19: "traffic light",
    20: "traffic sign", 21: "vegetation", 22: "terrain", 23: "sky", 24: "person", 25: "rider", 26: "car",
    27: "truck", 28: "bus", 31: "train", 32: "motorcycle", 33: "bicycle",
}  # fmt: skip
STUFF, THINGS = tuple(NAMES)[:11], tuple(NAMES)[11:]


class CityscapesFiles(NamedTuple):
    """Files of one image; None where there is none."""

    image: Path | None
    truth: Path | None


def find_cityscapes(root: Path) -> dict[str, CityscapesFiles]:
    """Return the files of all images below a folder, by names such as frankfurt_000000_000294."""
    images = _named(root / "leftImg8bit", "_leftImg8bit.png")
    truths = _named(root / "gtFine", "_gtFine_instanceIds.png")
    if not images and not truths:
        raise FileNotFoundError(
            f"{root} is not laid out as Cityscapes is: it has no leftImg8bit/*/*/*_leftImg8bit.png and no "
            "gtFine/*/*/*_gtFine_instanceIds.png"
        )
    names = sorted({*images, *truths})
    return {name: CityscapesFiles(images.get(name), truths.get(name)) for name in names}


def _named(folder: Path, ending: str) -> dict[str, Path]:
    return {path.name.removesuffix(ending): path for path in folder.rglob(f"*{ending}")}


def read_truth(path: Path) -> Panoptic:
    """Return the panoptic map of an instanceIds PNG; classes that are not evaluated are void."""
    ids = read_ids(path)
    single = ids >= OFFSET
    semantic = np.where(single, ids // OFFSET, ids)
    unknown = np.setdiff1d(semantic, np.arange(34))
    if len(unknown):
        raise ValueError(f"{path} has the class {unknown[0]}, which Cityscapes does not have")
    semantic[~np.isin(semantic, list(NAMES))] = VOID
    numbers = np.unique(np.append(0, np.where(single & (semantic != VOID), ids, 0)), return_inverse=True)[1]
    return Panoptic(semantic, numbers[1:].reshape(ids.shape))


def from_train_ids(semantic: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the class ids of the data set for train ids 0..18; 255 and negative ones are void."""
    check_classes(semantic, [*range(len(NAMES)), 255], "is no train id (0 to 18, or 255)")
    classes = np.array([*NAMES, VOID])
    return classes[np.where((semantic < 0) | (semantic == 255), len(NAMES), semantic)]


def write_instance_ids(path: Path, maps: Panoptic) -> None:
    """Write an instanceIds PNG of 16 bits; void is 0."""
    if np.any(maps.semantic == 0):
        raise ValueError(f"cannot write {path}: class 0 is void in Cityscapes' format; count from 1")
    if maps.semantic.max() > 64:
        raise ValueError(f"cannot write {path}: Cityscapes has no room for class {maps.semantic.max()}")
    _, ids = list_segments(maps, THINGS, OFFSET)
    ids = np.where(maps.instance == 0, np.maximum(maps.semantic, 0), ids)
    write_picture(path, ids.astype(np.uint16))
