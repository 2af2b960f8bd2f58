"""Runs that were stopped and can go on: rows and progress in a folder beside the output."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import files


class Unfinished:
    """What has been done for an output so far, in a folder beside it, so that a later run can go on.

    rows.npy holds the rows. progress.json says of how many images they are, which were skipped, and under
    which settings; it is replaced after every batch, and rows that it does not know of are forgotten.
    """

    def __init__(self, output: Path, settings: dict[str, Any], d: int, restart: bool):
        self.done = 0
        self.skipped: dict[str, str] = {}
        self._output, self._settings, self._d, self._restart = output, settings, d, restart
        self._folder = output.with_name(f"{output.name}.partial")
        self._rows, self._progress = self._folder / "rows.npy", self._folder / "progress.json"

    def __enter__(self) -> "Unfinished":
        self._folder.mkdir(exist_ok=True)
        self._rows.touch()
        self._file = self._rows.open("r+b")
        try:
            files.lock(self._file, f"another run is writing {self._output}: wait until it has ended")
            if self._restart:
                self._progress.unlink(missing_ok=True)
            self._go_on()
            self._file.truncate(self._mark())
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, rows: NDArray[Any], skipped: dict[str, str], done: int) -> None:
        """The rows of so many more images, less those that were skipped."""
        self._file.seek(self._mark())
        self._file.write(np.ascontiguousarray(rows).tobytes())
        self._file.flush()
        os.fsync(self._file.fileno())  # before anybody is told of them
        self.done += done
        self.skipped |= skipped
        state = {"settings": self._settings, "done": self.done, "skipped": self.skipped}
        with files.complete(self._progress) as part:
            part.write_text(json.dumps(state), encoding="utf-8")

    def finish(self) -> None:
        """All rows are there: they become the output."""
        self._mark()
        self._file.close()
        self._rows.replace(self._output)
        self.remove()

    def remove(self) -> None:
        self._file.close()
        for path in (self._rows, *self._folder.glob(f"*{self._progress.name}*")):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # unless somebody keeps something else there
            self._folder.rmdir()

    def _go_on(self) -> None:
        """Take up what an earlier run has done, if there is any and it had the same settings."""
        try:
            state = json.loads(self._progress.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return
        other = [key for key, value in self._settings.items() if state["settings"].get(key) != value]
        if other:
            raise ValueError(
                f"{self._folder} is an unfinished run with other settings ({', '.join(other)}): "
                "repeat its command to go on, or start over with --restart"
            )
        size = self._file.seek(0, os.SEEK_END)
        self.done, self.skipped = state["done"], state["skipped"]
        if size < self._mark():  # stopped when the rows had just become the output
            self.done, self.skipped = 0, {}

    def _mark(self) -> int:
        """Write the header of a .npy file of the rows so far, always as long; where the next row begins."""
        dtype, rows = np.dtype(self._settings["dtype"]), self.done - len(self.skipped)
        header = {"descr": dtype.str, "fortran_order": False, "shape": (rows, self._d)}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell() + rows * self._d * dtype.itemsize
