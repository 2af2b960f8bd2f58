"""Reading of samples: .npz files with embeddings; pictures and ground truth of them or of a data set."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from clusterfug.io.files import check_readable, read_archive
from clusterfug.io.images import find_images
from clusterfug.segmentation import cityscapes
from clusterfug.segmentation.coco import CocoTruth
from clusterfug.segmentation.image import Rules
from clusterfug.segmentation.panoptic import VOID, Panoptic, as_panoptic, check_classes, whole_map
from clusterfug.segmentation.pictures import read_picture
from clusterfug.segmentation.pipeline import Sample

#: Arrays of a .npz file that are read; only `embeddings` is required.
ARRAYS = ("embeddings", "semantic", "confidence", "image", "truth_semantic", "truth_instance")


def find_samples(
    path: Path,
    rules: Rules,
    *,
    pictures: Path | None = None,
    truth: "GroundTruth | None" = None,
    train_ids: bool = False,
) -> dict[str, Callable[[], Sample]]:
    """Return functions that read the images of a .npz file or a folder of them, by name.

    If there is a ground truth, it must have at least one of the images.
    """
    files, shown = _sample_files(path), _shown(pictures, truth)
    named = _by_name(files, "samples")
    if truth is not None and truth.maps.keys().isdisjoint(named):
        example = next(iter(truth.maps), "nothing")
        raise ValueError(
            f"none of the {len(files)} images is in the truth: {files[0].name} must be named like {example}"
        )
    return {
        n: partial(read_sample, file, rules, shown.get(n), truth, train_ids) for n, file in named.items()
    }


def find_inputs(path: Path, pictures: Path | None = None, truth: "GroundTruth | None" = None) -> list[Path]:
    """Return the files that the functions of `find_samples` read, then the folders that it searches."""
    files, shown = _sample_files(path), _shown(pictures, truth)
    of_truth = {} if truth is None else truth.files
    names = [name_of(file) for file in files]
    read = [found[name] for found in (shown, of_truth) for name in names if name in found]
    searched = [] if truth is None else truth.sources
    return [*files, *read, *searched, *([] if pictures is None else [pictures])]


def name_of(file: Path) -> str:
    """Return the name of an image: that of its file without the suffix of Cityscapes."""
    return file.stem.removesuffix("_leftImg8bit")


def read_sample(
    file: Path,
    rules: Rules,
    picture: Path | None = None,
    truth: "GroundTruth | None" = None,
    train_ids: bool = False,
) -> Sample:
    """Return the sample of a .npz file; a given picture or ground truth replaces that of the file."""
    arrays, things = read_archive(file, ARRAYS), rules.things
    if "embeddings" not in arrays:
        raise ValueError(f"{file} must hold an array 'embeddings' (height, width, features)")
    embeddings = arrays["embeddings"]
    semantic = arrays.get("semantic")
    if semantic is None:
        if len(things) != 1:
            raise ValueError(f"{file} must hold an array 'semantic': there are {len(things)} thing classes")
        semantic = np.full(np.shape(arrays.get("confidence", embeddings))[:2], things[0])
    elif train_ids:
        semantic = cityscapes.from_train_ids(whole_map("semantic", semantic))
    elif truth is not None and truth.coco is None:
        hint = "say --train-ids if classes are 0 to 18, or name it in --void"
        evaluated = (*truth.things, *truth.stuff, *rules.void)
        check_classes(semantic, evaluated, f"Cityscapes does not evaluate: {hint}")
    image = arrays.get("image") if picture is None else read_picture(picture)
    if image is not None and (
        image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0
    ):
        raise ValueError(
            f"{file}: 'image' must be height x width x 3 bytes, not {image.dtype} {image.shape}"
        )
    name = name_of(file)
    true_map = truth.maps[name]() if truth is not None and name in truth.maps else None
    if "truth_semantic" in arrays and "truth_instance" not in arrays:
        raise ValueError(f"{file} must hold 'truth_instance' beside 'truth_semantic'")
    if truth is None and "truth_instance" in arrays:
        instance = whole_map("truth_instance", arrays["truth_instance"])
        if "truth_semantic" in arrays:
            classes = whole_map("truth_semantic", arrays["truth_semantic"])
            classes[np.isin(classes, rules.void)] = VOID
        elif len(things) == 1:  # all other pixels belong to another class
            classes = np.where(instance > 0, things[0], max(things) + 1)
        else:
            raise ValueError(f"{file} must hold 'truth_semantic' beside 'truth_instance'")
        true_map = as_panoptic(f"the truth in {file.name}", (classes, instance))
    return Sample(name, embeddings, semantic, arrays.get("confidence"), image, true_map)


class GroundTruth:
    """True maps of a data set: Cityscapes (a folder with gtFine/) or COCO (a panoptic JSON)."""

    def __init__(self, path: Path) -> None:
        self.coco: CocoTruth | None = None
        self.pictures: dict[str, Path] = {}  # of the data set
        self.files: dict[str, Path]  # with the map of each image
        self.sources: list[Path]  # the JSON, and the folders that hold files
        self.maps: dict[str, Callable[[], Panoptic]]  # functions that read the map of each image
        if path.suffix.lower() == ".json":
            self.coco = CocoTruth(path)
            self.files = {n: self.coco.pictures / a["file_name"] for n, a in self.coco.annotations.items()}
            self.sources = [path, self.coco.pictures]
            self.maps = {name: partial(self.coco.read, name) for name in sorted(self.coco.annotations)}
            self.things, self.stuff = self.coco.things, self.coco.stuff
            self.names = {c["id"]: str(c.get("name", c["id"])) for c in self.coco.categories}
        else:
            if not path.is_dir():
                raise FileNotFoundError(
                    f"{path} must be a folder with Cityscapes' gtFine/, or a panoptic JSON of COCO"
                )
            found = cityscapes.find_cityscapes(path)
            self.files = {name: files.truth for name, files in found.items() if files.truth}
            self.sources = sorted({file.parent for files in found.values() for file in files if file})
            self.maps = {name: partial(cityscapes.read_truth, file) for name, file in self.files.items()}
            self.pictures = {name: files.image for name, files in found.items() if files.image}
            self.things, self.stuff = cityscapes.THINGS, cityscapes.STUFF
            self.names = dict(cityscapes.NAMES)


def _sample_files(path: Path) -> list[Path]:
    if not path.is_dir():
        check_readable(path)
        return [path]
    files = sorted(path.glob("*.npz"))
    if not files:
        raise FileNotFoundError(f"{path} has no .npz files")
    return files


def _shown(pictures: Path | None, truth: GroundTruth | None) -> dict[str, Path]:
    """Return the pictures by name: those in a folder, or else those of a data set."""
    if pictures is not None:
        return _pictures(pictures)
    return {} if truth is None else truth.pictures


def _pictures(folder: Path) -> dict[str, Path]:
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder of pictures")
    return _by_name([folder / file for file in find_images(folder)[1]], "pictures")


def _by_name(files: list[Path], kind: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for path in files:
        other = found.setdefault(name_of(path), path)
        if other != path:
            raise ValueError(f"{other} and {path} are {kind} of the same name: keep or rename one of them")
    return found
