"""COCO's panoptic format: a PNG per image whose colours are segment ids, and one JSON for all images.

The id of a pixel is ``red + 256 * green + 65536 * blue``; 0 is void.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.io.broken import reason
from clusterfug.io.files import check_readable, complete
from clusterfug.segmentation.overlay import colour
from clusterfug.segmentation.panoptic import VOID, Panoptic, list_segments
from clusterfug.segmentation.pictures import read_picture, write_picture

#: The file about all images, beside the folder `panoptic` with one PNG for each.
JSON = "panoptic.json"

_MAX_IDS = 1 << 24  # three bytes


class CocoTruth:
    """A panoptic JSON with its PNGs: `things`, `stuff`, and a map per image."""

    def __init__(self, path: Path) -> None:
        self.path, self.pictures = path, path.with_suffix("")
        check_readable(path)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            self.categories: list[dict[str, Any]] = content["categories"]
            self.things = tuple(sorted(_whole(c, "id") for c in self.categories if c["isthing"]))
            self.stuff = tuple(sorted(_whole(c, "id") for c in self.categories if not c["isthing"]))
            self.annotations = {Path(a["file_name"]).stem: a for a in content["annotations"]}
            self.images = {image["id"]: image["file_name"] for image in content.get("images", ())}
            for annotation in self.annotations.values():
                self.images.get(annotation["image_id"])  # it is there, and may be a key
                for info in annotation["segments_info"]:
                    _whole(info, "id"), _whole(info, "category_id")
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise ValueError(
                f"{path} is not a panoptic JSON as COCO has it (categories, annotations): {reason(error)}"
            ) from error
        if not self.pictures.is_dir():
            raise FileNotFoundError(
                f"{path} has its PNGs in the folder {self.pictures}, which does not exist"
            )

    def image_file(self, name: str) -> str | None:
        """Return the file name of the picture."""
        return self.images.get(self.annotations[name]["image_id"])

    def read(self, name: str) -> Panoptic:
        """Return the map of one image; crowds have instance 0."""
        annotation = self.annotations[name]
        path = self.pictures / annotation["file_name"]
        ids = read_segment_ids(path)
        values, index = np.unique(np.append(0, ids), return_inverse=True)
        index = index[1:].reshape(ids.shape)
        classes, numbers = np.full(len(values), VOID), np.zeros(len(values), dtype=np.int64)
        position = {segment: t for t, segment in enumerate(values[1:].tolist(), 1)}
        for number, info in enumerate(annotation["segments_info"], 1):
            segment, category = info["id"], info["category_id"]
            if segment not in position:
                raise ValueError(f"{self.path}: {path} does not show segment {segment} of {name}")
            if category not in self.things + self.stuff:
                raise ValueError(
                    f"{self.path}: segment {segment} of {name} has the unknown category {category}"
                )
            t = position.pop(segment)
            classes[t] = category
            if category in self.things and not info.get("iscrowd", 0):
                numbers[t] = number
        if position:
            raise ValueError(f"{path} shows a segment {min(position)} that {self.path} does not describe")
        return Panoptic(classes[index], numbers[index])


def _whole(entry: dict[str, Any], key: str) -> int:
    """Return an entry that must be a whole number."""
    if type(entry[key]) is not int:
        raise TypeError(f"{key} is {checks.shown(entry[key])}")
    return entry[key]


def read_segment_ids(path: Path) -> NDArray[np.int64]:
    """Return the segment ids (h, w) of a PNG."""
    return read_picture(path).astype(np.int64) @ np.array([1, 256, 65536])


class CocoWriter:
    """Writer of one PNG per image into ``folder/panoptic/``, and ``folder/panoptic.json`` at the end."""

    def __init__(
        self,
        folder: Path,
        things: Iterable[int],
        names: Mapping[int, str] | None = None,
        offset: int = 1000,
        categories: list[dict[str, Any]] | None = None,
    ) -> None:
        self.folder, self.offset = folder, offset
        self.things, self.names = tuple(things), names or {}
        self.categories = categories
        self.images: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []

    def write(self, name: str, maps: Panoptic, image_id: Any = None, file_name: str | None = None) -> None:
        found, ids = list_segments(maps, self.things, self.offset)
        if any(segment.id == 0 for segment in found):
            raise ValueError("class 0 has no segment id in COCO's format, where 0 is void: count from 1")
        if ids.max() >= _MAX_IDS:
            raise ValueError(
                f"a segment id of {ids.max()} is too large for COCO's format: use a smaller offset"
            )
        file = self.folder / "panoptic" / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_picture(file, np.stack([ids % 256, ids // 256 % 256, ids // 65536], axis=2).astype(np.uint8))
        height, width = ids.shape
        image_id = name if image_id is None else image_id
        image = {"id": image_id, "file_name": file_name or name, "height": height, "width": width}
        self.images.append(image)
        segments = [
            {"id": s.id, "category_id": s.category, "area": s.area, "bbox": s.box, "iscrowd": int(s.crowd)}
            for s in found
        ]
        annotation = {"image_id": image_id, "file_name": file.name, "segments_info": segments}
        self.annotations.append(annotation)

    def discard(self, name: str) -> None:
        """Forget an image that cannot be finished."""
        kept = [at for at, each in enumerate(self.annotations) if each["file_name"] != f"{name}.png"]
        self.images = [self.images[at] for at in kept]
        self.annotations = [self.annotations[at] for at in kept]

    def close(self) -> Path:
        """Write the JSON and return its path."""
        path = self.folder / JSON
        categories = self.categories or self._own_categories()
        content = {"images": self.images, "annotations": self.annotations, "categories": categories}
        with complete(path) as part:
            part.write_text(json.dumps(content), encoding="utf-8")
        return path

    def _own_categories(self) -> list[dict[str, Any]]:
        used = {info["category_id"] for a in self.annotations for info in a["segments_info"]}
        return [
            {
                "id": c,
                "name": self.names.get(c, f"class {c}"),
                "isthing": int(c in self.things),
                "color": [int(v) for v in colour(c)],
            }
            for c in sorted(used | set(self.things))
        ]
