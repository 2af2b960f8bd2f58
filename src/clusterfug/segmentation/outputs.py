"""`SegmentationWriter`: a folder with one file per image, in one of three formats."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType

import numpy as np

from clusterfug import checks
from clusterfug.io.files import complete, lock, save
from clusterfug.segmentation.cityscapes import write_instance_ids
from clusterfug.segmentation.coco import JSON, CocoWriter
from clusterfug.segmentation.image import Rules
from clusterfug.segmentation.overlay import overlay
from clusterfug.segmentation.panoptic import Panoptic
from clusterfug.segmentation.pictures import require_pillow, write_picture
from clusterfug.segmentation.pipeline import Sample
from clusterfug.segmentation.samples import GroundTruth

#: Files of an image below the folder, by format; the star is its name.
FILES = {"npy": "*.npy", "coco": "panoptic/*.png", "cityscapes": "*_instanceIds.png"}
OVERLAYS = "overlays/*.png"
PREFIX, LOCK = ".segment.", "lock"  # of the hidden folder of a run, and the file in it that a run locks
PATTERNS = (*FILES.values(), OVERLAYS, JSON)
#: The hidden file with the names of the results in a folder: a JSON list. Other files are never replaced.
LIST = ".segment-files.json"


class SegmentationWriter:
    """Writes images one by one into a hidden folder; `close` lets all of them appear under their names.

    At the end of a `with` block that did not reach `close`, nothing has changed. None of the `inputs`, the
    paths that the run reads, may be in the folder.
    """

    def __init__(
        self,
        folder: Path,
        form: str,
        rules: Rules,
        offset: int = 1000,
        overlays: bool = False,
        truth: GroundTruth | None = None,
        overwrite: bool = False,
        inputs: Iterable[Path] = (),
    ) -> None:
        self.pattern = FILES[checks.one_of("format", form, tuple(FILES))]
        if form != "npy" or overlays:
            require_pillow()
        check_inputs(folder, inputs)
        check_folder(folder, overwrite)
        self.folder, self.form, self.overlays, self.offset = folder, form, overlays, offset
        self.overwrite = overwrite
        self.things, self.stuff = rules.things, rules.stuff or ()
        self.names = truth.names if truth else None
        self.truth = truth.coco if truth else None

    def __enter__(self) -> "SegmentationWriter":
        self.is_new = not self.folder.exists()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.part = Path(tempfile.mkdtemp(dir=self.folder, prefix=PREFIX))
            self.lock = (self.part / LOCK).open("w")
        except OSError as error:
            raise OSError(f"cannot write to {self.folder}: {error.strerror}") from error
        lock(self.lock, f"another run is using {self.part}")
        self.coco: CocoWriter | None = None
        if self.form == "coco":
            categories = self.truth.categories if self.truth else None
            self.coco = CocoWriter(self.part, self.things, self.names, self.offset, categories)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lock.close()
        shutil.rmtree(self.part, ignore_errors=True)
        if kind is None:
            remove_killed(self.folder)
        if self.is_new:
            with suppress(OSError):  # it has results
                self.folder.rmdir()

    def write(self, sample: Sample, maps: Panoptic) -> None:
        path = self._path(self.pattern, sample.name)
        if self.overlays:
            picture = overlay(sample.image, maps, sample.truth, self.things, self.stuff)
            write_picture(self._path(OVERLAYS, sample.name), picture)
        if self.coco is not None:
            image_id = file_name = None
            if self.truth is not None and sample.name in self.truth.annotations:
                image_id = self.truth.annotations[sample.name]["image_id"]
                file_name = self.truth.image_file(sample.name)
            self.coco.write(sample.name, maps, image_id, file_name)
        elif self.form == "cityscapes":
            write_instance_ids(path, maps)
        else:
            with complete(path) as part:
                save(part, np.stack(maps).astype(np.int32))

    def discard(self, name: str) -> None:
        """Remove what is written of an image that cannot be finished."""
        for pattern in (self.pattern, OVERLAYS):
            self._path(pattern, name).unlink(missing_ok=True)
        if self.coco is not None:
            self.coco.discard(name)

    def close(self) -> None:
        """Let the results replace those of an earlier run; if no image is finished, nothing changes.

        Files are replaced one by one. COCO's JSON is removed before the files that it describes change, and
        appears after them. The list of results names earlier and new ones until all is done, so that every
        result that a kill leaves is in it.
        """
        if self.coco is not None and self.coco.images:
            self.coco.close()
        written = {path.relative_to(self.part) for path in self.part.rglob("*") if path.is_file()}
        written.remove(Path(LOCK))
        if not written:
            return
        check_folder(self.folder, self.overwrite, written)  # another run may have written to it
        earlier = results_in(self.folder)
        self._list(earlier | written)
        (self.folder / JSON).unlink(missing_ok=True)
        for name in earlier - written:  # first: names may differ in case only, and name the same file
            (self.folder / name).unlink(missing_ok=True)
        for name in sorted(written - {Path(JSON)}):
            (self.folder / name.parent).mkdir(exist_ok=True)
            (self.part / name).replace(self.folder / name)
        for subfolder in _subfolders(self.folder):
            with suppress(OSError):  # it has results
                subfolder.rmdir()
        if Path(JSON) in written:
            (self.part / JSON).replace(self.folder / JSON)
        self._list(written)

    def _list(self, names: set[Path]) -> None:
        path = self.part / LIST
        with complete(path) as part:
            part.write_text(json.dumps(sorted(name.as_posix() for name in names)), encoding="utf-8")
        path.replace(self.folder / LIST)

    def _path(self, pattern: str, name: str) -> Path:
        path = self.part / pattern.replace("*", name)
        path.parent.mkdir(exist_ok=True)
        return path


def remove_killed(folder: Path) -> None:
    """Remove the hidden folders of runs that were killed: a run that goes on has locked its own."""
    for part in folder.glob(f"{PREFIX}*"):
        with suppress(OSError, ValueError), (part / LOCK).open("a") as file:
            lock(file, f"another run is using {part}")
            shutil.rmtree(part)


def check_inputs(folder: Path, inputs: Iterable[Path]) -> None:
    """Raise an error if an input is in a folder or its subfolders, or where links in their places lead."""
    if not folder.is_dir():
        return
    places = {Path(os.path.realpath((folder / pattern).parent)) for pattern in PATTERNS}
    for path in inputs:
        where = [Path(os.path.realpath(path))] if os.path.exists(path) else []
        if os.path.islink(path):  # the link itself must not be replaced either
            where.append(Path(os.path.realpath(path.parent), path.name))
        if any(each.is_relative_to(place) for each in where for place in places):
            raise ValueError(f"cannot write to {folder}: the input {path} is in it; choose another folder")


def check_folder(folder: Path, overwrite: bool, names: Iterable[Path] = ()) -> None:
    """Raise an error unless a folder is new or empty, or holds results alone and may be overwritten.

    Hidden files may be there too, except under the names that will be written.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"cannot write to {folder}: it is not a folder")
    results = {folder / name for name in results_in(folder)}
    if not overwrite and (results or _visible(folder)):
        raise FileExistsError(
            f"cannot write to {folder}: it is not empty; choose another folder, or say --overwrite to "
            "replace the results of an earlier run"
        )
    known = results | set(_subfolders(folder))
    visible = [path for place in (folder, *_subfolders(folder)) for path in _visible(place)]
    for path in (*visible, *(folder / name for name in names)):
        if path not in known and os.path.lexists(path):
            raise ValueError(f"cannot overwrite {folder}: {path} is no result; choose another folder")


def results_in(folder: Path) -> set[Path]:
    """Return the files in a folder that runs have written, relative to it, as their list names them."""
    path = folder / LIST
    if not path.exists():
        return set()
    names = _read_list(path)
    if names is None:
        raise ValueError(f"cannot write to {folder}: its list {path} is damaged; choose another folder")
    return {Path(name) for name in names if os.path.isfile(folder / name)}


def _read_list(path: Path) -> list[str] | None:
    """Return the names in a list of results; None if it is damaged."""
    try:
        names = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (OSError, ValueError, RecursionError):
        return None
    is_list = isinstance(names, list) and all(isinstance(n, str) and _is_result(Path(n)) for n in names)
    return names if is_list else None


def _is_result(name: Path) -> bool:
    """Return whether a run could write a file of that name: then it is below its folder."""
    return any(name.parent == Path(p).parent and fnmatchcase(name.name, Path(p).name) for p in PATTERNS)


def _subfolders(folder: Path) -> list[Path]:
    places = (folder / Path(pattern).parent for pattern in PATTERNS if "/" in pattern)
    return [place for place in places if place.is_dir()]


def _visible(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if not path.name.startswith(".")] if folder.exists() else []
