"""Cityscapes as it is published: leftImg8bit/, gtFine/*_instanceIds.png, and the ids of its classes.

An instance id is ``class * 1000 + k``; below 1000 it is the class itself: stuff, or a group of things whose
instances nobody could tell apart.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.segmentation.panoptic import VOID, Panoptic, segments
from clusterfug.segmentation.pictures import read_ids, write_picture

OFFSET = 1000


class Category(NamedTuple):
    id: int
    train_id: int
    name: str
    thing: bool


#: The 19 classes that are evaluated; all others are void.
CATEGORIES = (
    Category(7, 0, "road", False),
    Category(8, 1, "sidewalk", False),
    Category(11, 2, "building", False),
    Category(12, 3, "wall", False),
    Category(13, 4, "fence", False),
    Category(17, 5, "pole", False),
    Category(19, 6, "traffic light", False),
    Category(20, 7, "traffic sign", False),
    Category(21, 8, "vegetation", False),
    Category(22, 9, "terrain", False),
    Category(23, 10, "sky", False),
    Category(24, 11, "person", True),
    Category(25, 12, "rider", True),
    Category(26, 13, "car", True),
    Category(27, 14, "truck", True),
    Category(28, 15, "bus", True),
    Category(31, 16, "train", True),
    Category(32, 17, "motorcycle", True),
    Category(33, 18, "bicycle", True),
)
THINGS = tuple(category.id for category in CATEGORIES if category.thing)
STUFF = tuple(category.id for category in CATEGORIES if not category.thing)
NAMES = {category.id: category.name for category in CATEGORIES}


class Files(NamedTuple):
    """Of one image; None for what is not there."""

    image: Path | None
    truth: Path | None


def find(root: Path) -> dict[str, Files]:
    """All images below a folder in the published layout, by name such as frankfurt_000000_000294."""
    images = _named(root / "leftImg8bit", "_leftImg8bit.png")
    truths = _named(root / "gtFine", "_gtFine_instanceIds.png")
    if not images and not truths:
        raise FileNotFoundError(
            f"{root} is not laid out as Cityscapes is: it has no leftImg8bit/*/*/*_leftImg8bit.png and no "
            "gtFine/*/*/*_gtFine_instanceIds.png"
        )
    return {name: Files(images.get(name), truths.get(name)) for name in sorted({*images, *truths})}


def _named(folder: Path, ending: str) -> dict[str, Path]:
    return {path.name.removesuffix(ending): path for path in folder.rglob(f"*{ending}")}


def read_truth(path: Path) -> Panoptic:
    """The panoptic map of an instanceIds PNG: classes that are not evaluated are void."""
    ids = read_ids(path)
    single = ids >= OFFSET
    semantic = np.where(single, ids // OFFSET, ids)
    unknown = np.setdiff1d(semantic, np.arange(34))
    if len(unknown):
        raise ValueError(f"{path} has the class {unknown[0]}, which Cityscapes does not have")
    semantic[~np.isin(semantic, [*THINGS, *STUFF])] = VOID
    numbers = np.unique(np.append(0, np.where(single & (semantic != VOID), ids, 0)), return_inverse=True)[1]
    return Panoptic(semantic, numbers[1:].reshape(ids.shape))


def from_train_ids(semantic: NDArray[np.integer]) -> NDArray[np.int64]:
    """Classes 0..18 of a network as the ids of the data set; 255 and negative ones are void."""
    strange = np.setdiff1d(semantic[semantic >= 0], [*range(len(CATEGORIES)), 255])
    if len(strange):
        raise ValueError(f"semantic has the class {strange[0]}, which is no train id (0 to 18, or 255)")
    table = np.full(256, VOID)
    table[[category.train_id for category in CATEGORIES]] = [category.id for category in CATEGORIES]
    return np.where((semantic >= 0) & (semantic < 256), table[np.clip(semantic, 0, 255)], VOID)


def write_instance_ids(path: Path, maps: Panoptic, things: tuple[int, ...] = THINGS) -> None:
    """An instanceIds PNG of 16 bits; void is 0."""
    if np.any(maps.semantic == 0):
        raise ValueError(f"cannot write {path}: class 0 is void in Cityscapes' format; count from 1")
    if maps.semantic.max() > 64:
        raise ValueError(f"cannot write {path}: Cityscapes has no room for class {maps.semantic.max()}")
    _, ids = segments(maps, things, OFFSET)
    ids = np.where(maps.instance == 0, np.maximum(maps.semantic, 0), ids)
    write_picture(path, ids.astype(np.uint16))
