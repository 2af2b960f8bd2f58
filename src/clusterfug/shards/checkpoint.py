"""A folder from which a run that was stopped goes on, with the same labels in the end.

Labels are all that needs to be kept: of every shard and pool, and of all items after every round of moves.
Whatever is written appears under its name only when it is complete.
"""

import json
import os
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from clusterfug.instances import files

_ABOUT, _PLACE = "run.json", "place.npz"


class Place(NamedTuple):
    """Where a walk is: labels 0..K-1, the clusters that are not settled, rounds so far."""

    labels: NDArray[np.int64]
    changed: NDArray[np.bool_]
    turn: int = 0
    polished: bool = False


class Checkpoint:
    """What an earlier run with the same settings left in a folder; None keeps nothing."""

    def __init__(self, folder: Path | None, settings: dict[str, Any]) -> None:
        self._folder = folder
        if folder is None:
            return
        try:
            folder.mkdir(exist_ok=True)
            self._lock = (folder / "lock").open("w")
        except OSError as error:
            raise OSError(f"cannot write the checkpoint {folder}: {error.strerror or error}") from error
        files.lock(self._lock, f"another run is using the checkpoint {folder}: wait until it has ended")
        about = folder / _ABOUT
        if not about.exists():
            with files.complete(about) as part:
                part.write_text(json.dumps(settings), encoding="utf-8")
            return
        before = json.loads(about.read_text(encoding="utf-8"))
        other = [key for key, value in settings.items() if before.get(key) != value]
        if other:
            raise ValueError(
                f"{folder} is the checkpoint of another run (other {', '.join(other)}): give what that run "
                "was given, or another folder"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._lock.close()

    def labels(self, name: str) -> NDArray[np.int64] | None:
        """The labels of a shard or pool, if they are known."""
        if self._folder is None or not (self._folder / f"{name}.npy").exists():
            return None
        labels: NDArray[np.int64] = np.load(self._folder / f"{name}.npy", allow_pickle=False)
        return labels

    def keep_labels(self, name: str, labels: NDArray[np.int64]) -> None:
        if self._folder is not None and not (self._folder / f"{name}.npy").exists():
            files.write_labels(self._folder / f"{name}.npy", labels)

    def place(self) -> Place | None:
        """Where the last run was, if its shards were solved."""
        if self._folder is None or not (self._folder / _PLACE).exists():
            return None
        with np.load(self._folder / _PLACE, allow_pickle=False) as kept:
            return Place(kept["labels"], kept["changed"], int(kept["turn"]), bool(kept["polished"]))

    def keep(self, place: Place) -> None:
        """From here on; what is known of shards and pools is not needed any more."""
        if self._folder is None:
            return
        with files.complete(self._folder / _PLACE) as part, part.open("wb") as file:
            np.savez(file, **place._asdict())
            file.flush()
            os.fsync(file.fileno())
        for path in (*self._folder.glob("shard-*.npy"), *self._folder.glob("pool-*.npy")):
            path.unlink()


def digest(*values: Any) -> str:
    """A short name for numbers, arrays and texts: others have another."""
    hashed = blake2b(digest_size=8)
    for value in values:
        if isinstance(value, np.ndarray):
            hashed.update(f"{value.dtype}{value.shape}".encode())
            hashed.update(np.ascontiguousarray(value).tobytes())
        else:
            hashed.update(repr(value).encode())
        hashed.update(b";")
    return hashed.hexdigest()
