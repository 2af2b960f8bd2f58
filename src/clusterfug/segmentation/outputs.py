"""`SegmentationWriter`: a folder with one file per image, in one of three formats."""

from pathlib import Path

import numpy as np

from clusterfug import checks
from clusterfug.io.files import complete, save
from clusterfug.segmentation.cityscapes import write_instance_ids
from clusterfug.segmentation.coco import CocoWriter
from clusterfug.segmentation.image import Rules
from clusterfug.segmentation.overlay import overlay
from clusterfug.segmentation.panoptic import Panoptic
from clusterfug.segmentation.pictures import require_pillow, write_picture
from clusterfug.segmentation.pipeline import Sample
from clusterfug.segmentation.samples import GroundTruth


class SegmentationWriter:
    """Writes images one by one; `close` writes the file about all of them, if the format has one."""

    def __init__(
        self,
        folder: Path,
        form: str,
        rules: Rules,
        offset: int = 1000,
        overlays: bool = False,
        truth: GroundTruth | None = None,
    ) -> None:
        checks.one_of("format", form, ("npy", "coco", "cityscapes"))
        if form != "npy" or overlays:
            require_pillow()
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"cannot write to {folder}: it is not a folder")
        try:
            (folder / "overlays" if overlays else folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OSError(f"cannot write to {folder}: {error.strerror}") from error
        self.folder, self.form, self.overlays = folder, form, overlays
        self.things, self.stuff = rules.things, rules.stuff or ()
        self.truth = truth.coco if truth else None
        if form == "coco" and self.truth and folder.resolve() == self.truth.path.parent.resolve():
            raise ValueError(f"cannot write to {folder}: the truth is there; choose another folder")
        names = truth.names if truth else None
        categories = self.truth.categories if self.truth else None
        self.coco = CocoWriter(folder, self.things, names, offset, categories) if form == "coco" else None

    def write(self, sample: Sample, maps: Panoptic) -> None:
        if self.coco is not None:
            image_id = file_name = None
            if self.truth is not None and sample.name in self.truth.annotations:
                image_id = self.truth.annotations[sample.name]["image_id"]
                file_name = self.truth.image_file(sample.name)
            self.coco.write(sample.name, maps, image_id, file_name)
        elif self.form == "cityscapes":
            write_instance_ids(self._file(sample.name), maps)
        else:
            with complete(self._file(sample.name)) as part:
                save(part, np.stack(maps).astype(np.int32))
        if self.overlays:
            picture = overlay(sample.image, maps, sample.truth, self.things, self.stuff)
            write_picture(self.folder / "overlays" / f"{sample.name}.png", picture)

    def discard(self, name: str) -> None:
        """Remove the files of an earlier run for an image that has failed now."""
        for path in (self._file(name), self.folder / "overlays" / f"{name}.png"):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        if self.coco is not None:
            self.coco.close()

    def _file(self, name: str) -> Path:
        endings = {"npy": f"{name}.npy", "coco": f"panoptic/{name}.png"}
        return self.folder / endings.get(self.form, f"{name}_instanceIds.png")
