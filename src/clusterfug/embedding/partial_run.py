"""Rows and progress of an unfinished run, in a folder beside the output, so that it can be resumed."""

import json
import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import files

_BLOCK_BYTES = 1 << 24


class PartialRun:
    """Unfinished output in a locked file, with what an earlier run has stored; `close` releases the lock.

    rows.npy holds the rows. progress.json has the number of images they belong to, the images that were
    skipped, the settings, and a checksum over all of these and the rows; it is replaced after every batch,
    and rows beyond it are overwritten.
    """

    def __init__(self, output: Path, settings: dict[str, Any], d: int, restart: bool):
        self.done = 0
        self.skipped: dict[str, str] = {}
        self._output, self._settings, self._d = output, settings, d
        self._digest = blake2b(digest_size=16)  # of the rows
        self._folder = output.with_name(f"{output.name}.partial")
        self._rows, self._progress = self._folder / "rows.npy", self._folder / "progress.json"
        self._folder.mkdir(exist_ok=True)
        self._rows.touch()
        files.check_readable(self._rows)
        self._file = self._rows.open("r+b")
        try:
            files.lock(self._file, f"another run is writing {self._output}: wait until it has ended")
            if restart:
                self._progress.unlink(missing_ok=True)
            self._resume()
            self._file.truncate(self._write_header())
        except BaseException:
            self._file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def append(self, rows: NDArray[Any], skipped: dict[str, str]) -> None:
        """Store the rows of a batch, and its skipped images with the reason."""
        self._file.seek(self._write_header())
        data = np.ascontiguousarray(rows).tobytes()
        self._file.write(data)
        self._digest.update(data)
        self._sync()  # before progress.json counts them
        self.done += len(rows) + len(skipped)
        self.skipped |= skipped
        state = {"settings": self._settings, "done": self.done, "skipped": self.skipped}
        with files.complete(self._progress) as part:
            part.write_text(json.dumps(state | {"checksum": self._checksum(state)}), encoding="utf-8")

    def finish(self) -> None:
        """Turn the stored rows into the output."""
        self._write_header()
        self._sync()
        self._file.close()
        self._rows.replace(self._output)
        self.remove()

    def _sync(self) -> None:
        """Have the system write the rows to the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        self._file.close()
        for path in (self._rows, self._progress, *self._folder.glob(f"{files.HIDDEN}*")):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it is kept if it holds other files
            self._folder.rmdir()

    def _resume(self) -> None:
        """Load the progress of an earlier run, if there is one; other settings are an error."""
        try:
            if self._progress.exists():
                files.check_readable(self._progress)
            state = dict(json.loads(self._progress.read_text(encoding="utf-8")))
            checksum, settings = str(state.pop("checksum")), dict(state["settings"])
        except FileNotFoundError:
            return
        except (ValueError, TypeError, KeyError, RecursionError):
            raise self._damaged(self._progress) from None
        other = [key for key, value in self._settings.items() if settings.get(key) != value]
        if other:
            raise ValueError(
                f"{self._folder} is an unfinished run with other settings ({', '.join(other)}): "
                "repeat its command to go on, or start over with --restart"
            )
        size = self._file.seek(0, os.SEEK_END)
        if not size:  # interrupted after the rows had become the output
            self._progress.unlink()
            return
        done, skipped = state.get("done"), state.get("skipped")
        if type(done) is not int or type(skipped) is not dict or done < len(skipped):
            raise self._damaged(self._progress)
        self.done, self.skipped = done, skipped
        end = self._write_header()
        if size < end:
            raise self._damaged(self._rows)
        start = self._file.seek(end - self._row_bytes)
        while start < end:
            data = self._file.read(min(end - start, _BLOCK_BYTES))
            self._digest.update(data)
            start += len(data)
        if checksum != self._checksum(state):
            raise self._damaged(self._folder)

    def _checksum(self, state: dict[str, Any]) -> str:
        digest = self._digest.copy()
        digest.update(json.dumps(state, sort_keys=True).encode())
        return digest.hexdigest()

    def _damaged(self, path: Path) -> ValueError:
        return ValueError(f"{path} is damaged: start over with --restart")

    @property
    def _row_bytes(self) -> int:
        """Size of the rows so far."""
        return (self.done - len(self.skipped)) * self._d * np.dtype(self._settings["dtype"]).itemsize

    def _write_header(self) -> int:
        """Write the .npy header, of fixed length, for the rows so far; return where the next row begins."""
        dtype, rows = np.dtype(self._settings["dtype"]), self.done - len(self.skipped)
        header = {"descr": dtype.str, "fortran_order": False, "shape": (rows, self._d)}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell() + self._row_bytes
