"""A folder from which a run that was stopped goes on, with the same labels in the end.

Labels are all that needs to be kept: of every shard and pool, and of all items after every round of moves.
Whatever is written appears under its name only when it is complete.
"""

import json
import os
import re
import zipfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import files
from clusterfug.io.labels import write_labels

_ABOUT, _PLACE, _LOCK = "run.json", "place.npz", "lock"
_OF_SHARDS = re.compile(r"\.?(shard|pool)-\d+-\d+\.npy.*")  # also what a killed run left half-written
#: What is not there, or was not written to the end when the power went: it is computed again.
_UNREADABLE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile)


class Place(NamedTuple):
    """Where a walk is: labels 0..K-1, the clusters that are not settled, rounds so far."""

    labels: NDArray[np.int64]
    changed: NDArray[np.bool_]
    turn: int = 0
    exact: bool = False  # the next round needs exact scores


class Checkpoint:
    """What an earlier run with the same settings left in a folder; None keeps nothing."""

    def __init__(self, folder: Path | None, settings: dict[str, Any]) -> None:
        self._folder, self._settings = folder, settings

    def __enter__(self) -> Self:
        if self._folder is None:
            return self
        try:
            self._folder.mkdir(exist_ok=True)
            if any(self._folder.iterdir()) and not (self._folder / _LOCK).exists():
                raise ValueError(f"{self._folder} is no checkpoint, and not empty: give another folder")
            self._lock = (self._folder / _LOCK).open("w")
        except OSError as error:
            raise OSError(
                f"cannot write the checkpoint {self._folder}: {error.strerror or error}"
            ) from error
        try:
            files.lock(
                self._lock, f"another run is using the checkpoint {self._folder}: wait until it has ended"
            )
            self._compare()
        except BaseException:
            self._lock.close()
            raise
        return self

    def _compare(self) -> None:
        """Write down the settings, or find those of an earlier run to be the same."""
        assert self._folder is not None
        about = self._folder / _ABOUT
        if not about.exists():
            with files.complete(about) as part:
                part.write_text(json.dumps(self._settings), encoding="utf-8")
            return
        try:
            before = dict(json.loads(about.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise ValueError(f"{about} is broken: start over with another folder") from None
        other = [key for key, value in self._settings.items() if before.get(key) != value]
        if other:
            raise ValueError(
                f"{self._folder} is the checkpoint of another run (other {', '.join(other)}): give what "
                "that run was given, or another folder"
            )

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._lock.close()

    def labels(self, name: str) -> NDArray[np.int64] | None:
        """The labels of a shard or pool, if they are known."""
        if self._folder is None:
            return None
        with suppress(*_UNREADABLE):
            labels: NDArray[np.int64] = np.load(self._folder / f"{name}.npy", allow_pickle=False)
            return labels
        return None

    def keep_labels(self, name: str, labels: NDArray[np.int64]) -> None:
        if self._folder is not None:
            write_labels(self._folder / f"{name}.npy", labels)

    def place(self) -> Place | None:
        """Where the last run was, if its shards were solved."""
        if self._folder is None:
            return None
        with suppress(*_UNREADABLE), np.load(self._folder / _PLACE, allow_pickle=False) as kept:
            return Place(kept["labels"], kept["changed"], int(kept["turn"]), bool(kept["exact"]))

        return None

    def keep(self, place: Place) -> None:
        """From here on; what is known of shards and pools is not needed any more."""
        if self._folder is None:
            return
        with files.complete(self._folder / _PLACE) as part, part.open("wb") as file:
            np.savez(file, **place._asdict())
            file.flush()
            os.fsync(file.fileno())
        for path in self._folder.iterdir():
            if _OF_SHARDS.fullmatch(path.name):
                path.unlink()


def digest(*values: Any) -> str:
    """A short name for numbers, arrays and texts: others have another."""
    hashed = blake2b(digest_size=8)
    for value in values:
        if isinstance(value, np.ndarray):
            hashed.update(f"{value.dtype}{value.shape}".encode())
            hashed.update(np.ascontiguousarray(value).data.cast("B") if value.size else b"")
        else:
            hashed.update(repr(value).encode())
        hashed.update(b";")
    return hashed.hexdigest()
