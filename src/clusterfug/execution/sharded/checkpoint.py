"""A folder from which an interrupted run continues, to end with the same labels.

Only labels are kept: those of every shard and pool, and those of all items after every round of moves. A
file appears under its name when it is complete.
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

_SETTINGS, _STATE, _LOCK = "run.json", "state.npz", "lock"
_SHARD_FILE = re.compile(r"\.?(shard|pool)-\d+-\d+\.npy.*")  # incomplete ones start with a dot
#: Errors of files that are missing, or incomplete after a power failure: their content is computed again.
_UNREADABLE = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile)


class DriverState(NamedTuple):
    """State of a run between two rounds of moves."""

    labels: NDArray[np.int64]  # 0..K-1
    changed: NDArray[np.bool_]  # (K,) clusters that changed since their items were move-optimal
    n_rounds: int = 0
    exact: bool = False  # the next round needs exact scores


class Checkpoint:
    """Labels and state of earlier runs with the same settings, in a folder; None keeps nothing."""

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
            self._check_settings(self._folder)
        except BaseException:
            self._lock.close()
            raise
        return self

    def _check_settings(self, folder: Path) -> None:
        """Write the settings, or raise an error if those of an earlier run differ."""
        path = folder / _SETTINGS
        if not path.exists():
            with files.complete(path) as part:
                part.write_text(json.dumps(self._settings), encoding="utf-8")
            return
        try:
            earlier = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError):
            raise ValueError(f"{path} is broken: start over with another folder") from None
        different = [key for key, value in self._settings.items() if earlier.get(key) != value]
        if different:
            raise ValueError(
                f"{folder} is the checkpoint of another run (other {', '.join(different)}): give what "
                "that run was given, or another folder"
            )

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._lock.close()

    def load_labels(self, name: str) -> NDArray[np.int64] | None:
        """Return the labels of a shard or pool, if they were saved."""
        if self._folder is not None:
            with suppress(*_UNREADABLE):
                return np.load(self._folder / f"{name}.npy", allow_pickle=False)
        return None

    def save_labels(self, name: str, labels: NDArray[np.int64]) -> None:
        if self._folder is not None:
            write_labels(self._folder / f"{name}.npy", labels)

    def load_state(self) -> DriverState | None:
        """Return the state of the last run, if its shards and pools were solved."""
        if self._folder is not None:
            with suppress(*_UNREADABLE), np.load(self._folder / _STATE, allow_pickle=False) as saved:
                labels, changed, n_rounds, exact = (saved[name] for name in DriverState._fields)
                return DriverState(labels, changed, int(n_rounds), bool(exact))
        return None

    def save_state(self, state: DriverState) -> None:
        """Save the state, and remove the labels of shards and pools, which it replaces."""
        if self._folder is None:
            return
        with files.complete(self._folder / _STATE) as part, part.open("wb") as file:
            np.savez(file, **state._asdict())
            file.flush()
            os.fsync(file.fileno())
        for path in self._folder.iterdir():
            if _SHARD_FILE.fullmatch(path.name):
                path.unlink()


def digest(*values: Any) -> str:
    """Return a hash of numbers, arrays and texts."""
    hashed = blake2b(digest_size=8)
    for value in values:
        if isinstance(value, np.ndarray):
            hashed.update(f"{value.dtype}{value.shape}".encode())
            hashed.update(np.ascontiguousarray(value).data.cast("B") if value.size else b"")
        else:
            hashed.update(repr(value).encode())
        hashed.update(b";")
    return hashed.hexdigest()
