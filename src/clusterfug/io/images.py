"""Images: their names, labels and pixels, and the lists that are written beside their features.

`embedding` reads images with it; `segmentation` finds pictures.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import files, text
from clusterfug.io.broken import reason
from clusterfug.io.classes import numbered
from clusterfug.io.labels import write_labels

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp")

#: Formats that are decoded, whatever the name of a file is: Pillow runs other programs for some others.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP")
#: Longer images are cut to this ratio of the sides first: an enlarged copy could exceed the memory.
MAX_ASPECT_RATIO = 16
#: Largest side of a square, and of the shorter side of an image it is cut out of, in pixels.
MAX_SIDE = 1 << 14


class ImageLabels(NamedTuple):
    numbers: NDArray[np.int64]  # one per image
    classes: tuple[str, ...]  # the name of every number; empty if there are none


def find_images(images: str | Path | Iterable[str | Path]) -> tuple[Path, list[str]]:
    """Return a folder and the sorted names of the images below it; a list of files stays as it is."""
    if isinstance(images, str | Path):
        folder = Path(images)
        names = _below(folder)
        if not names:
            raise ValueError(f"{folder} has no images: their names must end in {', '.join(ENDINGS)}")
    else:
        folder, names = Path(), [str(image) for image in images]
        if not names:
            raise ValueError("there are no images: the list is empty")
    if len(set(names)) < len(names):
        raise ValueError("an image is listed twice: every image needs a name of its own")
    for name in names:
        if len(name.splitlines()) != 1:
            raise ValueError(f"the file name {name!r} has a line break: rename it")
    return folder, names


def _below(folder: Path) -> list[str]:
    if not folder.exists():
        raise FileNotFoundError(f"{folder} does not exist")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file, not a folder of images")

    def fail(error: OSError) -> None:
        raise OSError(f"the folder {error.filename} may not be read: {error.strerror}") from error

    names: list[str] = []
    seen: set[Path] = set()  # folders that were visited: links may form cycles
    for place, folders, here in os.walk(folder, onerror=fail, followlinks=True):
        at = Path(place).resolve()
        if at in seen:
            folders.clear()
            continue
        seen.add(at)
        folders[:] = sorted(f for f in folders if f[0] != ".")
        images = (name for name in here if name[0] != "." and name.lower().endswith(ENDINGS))
        names += [(Path(place) / name).relative_to(folder).as_posix() for name in images]
    return sorted(names)


def class_folders(names: list[str]) -> ImageLabels | None:
    """Return the first folder of each name as its class; None unless all have one and several occur."""
    classes = [name.split("/")[0] for name in names]
    if not all("/" in name for name in names) or len(set(classes)) < 2:
        return None
    return ImageLabels(*numbered(classes))


def labels_of_images(path: Path, names: list[str]) -> ImageLabels:
    """Return the label of every image from lines `name label`, or one whole number per image in order."""
    files.check_readable(path)
    with text.opened(path, errors="surrogateescape") as file:
        content = file.read()
    lines = [line.strip().rsplit(maxsplit=1) for line in content.split("\n")]
    if not any(lines):
        raise ValueError(f"{path} holds no labels")
    if all(len(words) < 2 for words in lines):
        return _in_order(path, [words[0] for words in lines if words], len(names))
    table: dict[str, str] = {}
    for number, words in enumerate(lines, 1):
        if len(words) == 1:
            raise ValueError(f"{path}, line {number}: lines must be NAME LABEL, and one of them is missing")
        if words:
            name, label = PurePath(words[0]).as_posix(), words[1]
            if table.setdefault(name, label) != label:
                raise ValueError(f"{path}, line {number}: {name} has two labels, {table[name]} and {label}")
    labels = _looked_up(path, table, names)
    with suppress(ValueError, OverflowError):  # numbers are kept
        return ImageLabels(np.array([int(label) for label in labels], dtype=np.int64), ())
    return ImageLabels(*numbered(labels))


def _in_order(path: Path, words: list[str], n: int) -> ImageLabels:
    try:
        numbers = np.array([int(word) for word in words], dtype=np.int64)
    except (ValueError, OverflowError):
        raise ValueError(f"{path} must hold lines NAME LABEL, or one whole number per line") from None
    if len(numbers) != n:
        raise ValueError(f"{path} holds {len(numbers):,} labels, but there are {n:,} images")
    return ImageLabels(numbers, ())


def _looked_up(path: Path, table: dict[str, str], names: list[str]) -> list[str]:
    """Return the label of every image by its name, with folders or, where that is unique, without."""
    keys = [name if name in table else PurePath(name).name for name in names]
    missing = [name for name, key in zip(names, keys, strict=True) if key not in table]
    if missing:
        raise ValueError(f"{path} has no label for {missing[0]} (images without a label: {len(missing):,})")
    image_of: dict[str, str] = {}
    for name, key in zip(names, keys, strict=True):
        if image_of.setdefault(key, name) != name:
            raise ValueError(
                f"{path}: {key} may be {image_of[key]} or {name}; write names with their folders"
            )
    return [table[key] for key in keys]


def pixels_or_reason(folder: Path, size: int, resize: int, name: str) -> NDArray[np.uint8] | str:
    """Return the pixels of an image, or the reason why it cannot be read, in one line."""
    from PIL import UnidentifiedImageError

    path = folder / name
    if path.exists() and not path.is_file():
        return "not a regular file"
    try:
        return read_image(path, size, resize)
    except MemoryError as error:
        raise MemoryError(f"{path} needs more memory than there is: use a smaller resize") from error
    except UnidentifiedImageError:
        return "not an image of a known format"
    except Exception as error:
        return reason(error)


def read_image(path: Path, size: int, resize: int) -> NDArray[np.uint8]:
    """Return the (size, size, 3) centre of an image whose shorter side is scaled to `resize` pixels."""
    from PIL import Image, ImageOps

    with Image.open(path, formats=FORMATS) as file:
        file.load()
        image: Image.Image = file
        with suppress(Exception):  # with broken EXIF data it is not rotated
            image = ImageOps.exif_transpose(image)
        image = _colours(image)
    long = MAX_ASPECT_RATIO * min(image.size)
    image = _middle(image, min(image.width, long), min(image.height, long))
    short = min(image.size)
    scaled = (resize * image.width // short, resize * image.height // short)
    image = image.resize(scaled, Image.Resampling.BILINEAR)
    return np.asarray(_middle(image, size, size))


def _middle(image: Any, width: int, height: int) -> Any:
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def _colours(image: Any) -> Any:
    """Return red, green and blue, 8 bits each: 16 bits are scaled, transparent pixels become white."""
    from PIL import Image

    if image.mode == "F" or image.mode.startswith("I"):
        grey = np.asarray(image)
        if image.mode == "F" or grey.min() < 0 or grey.max() > 65535:
            raise ValueError("its pixels have 32 bits: save it with 8 or 16")
        image = Image.fromarray(np.rint(grey / 257).astype(np.uint8))  # 65535 = 257 * 255
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def beside(output: Path) -> list[Path]:
    """Return the paths of the files beside features: names, labels, classes, skipped images."""
    endings = (".files.txt", ".labels.npy", ".classes.txt", ".skipped.txt")
    return [output.with_suffix(ending) for ending in endings]


def write_beside(
    output: Path, names: list[str], skipped: dict[str, str], labels: ImageLabels | None
) -> list[Path]:
    """Write the lists that describe the rows of the output; those of an earlier output are deleted."""
    of_names, of_labels, of_classes, of_skipped = beside(output)
    _write_lines(of_names, names)
    _write_lines(of_classes, [] if labels is None else labels.classes)
    _write_lines(of_skipped, [f"{name}\t{reason}" for name, reason in skipped.items()])
    if labels is None:
        of_labels.unlink(missing_ok=True)
    else:
        write_labels(of_labels, labels.numbers)
    return [path for path in beside(output) if path.exists()]


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    if not lines:
        path.unlink(missing_ok=True)
        return
    with files.complete(path) as part, part.open("w", encoding="utf-8", errors="surrogateescape") as file:
        file.writelines(f"{line}\n" for line in lines)
