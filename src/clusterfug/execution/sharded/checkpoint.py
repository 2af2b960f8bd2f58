"""A folder from which an interrupted run continues, to end with the same labels.

Only labels are kept: those of every shard and pool, and those of all items after every round of moves. A
file appears under its name when it is complete and on the disk. It has a checksum over its values, its name
and the settings of the run, so what is read is what this run has written.
"""

import json
import re
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import files

_SETTINGS, _STATE, _LOCK = "run.json", "state.npz", "lock"
_SHARD_FILE = re.compile(r"(shard|pool)-\d+-\d+\.npz")
_INCOMPLETE_FILE = re.compile(re.escape(files.HIDDEN) + r".*\.(json|npz)")  # of a killed run
_CHECKSUM = "checksum"


class DriverState(NamedTuple):
    """State of a run between two rounds of moves."""

    labels: NDArray[np.int64]  # 0..K-1
    changed: NDArray[np.bool_]  # (K,) clusters that changed since their items were move-optimal
    n_rounds: int = 0
    exact: bool = False  # the next round needs exact scores
    close: bool = False  # gains were seen that may count, but are not clear


class Checkpoint:
    """Labels and state of earlier runs with the same settings, in a folder; None keeps nothing."""

    def __init__(self, folder: Path | None, settings: dict[str, Any]) -> None:
        self._folder, self._settings = folder, settings

    def __enter__(self) -> Self:
        if self._folder is None:
            return self
        try:
            self._folder.mkdir(exist_ok=True)
            if any(self._folder.iterdir()) and not (self._folder / _LOCK).is_file():
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
            self._remove(_INCOMPLETE_FILE)
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
            files.check_readable(path)
            earlier = dict(json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError, RecursionError):
            raise ValueError(f"{path} is damaged: delete this file, and the run continues") from None
        different = [key for key, value in self._settings.items() if earlier.get(key) != value]
        if different:
            raise ValueError(
                f"{folder} is the checkpoint of another run (other {', '.join(different)}): give what "
                "that run was given, or another folder"
            )

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._lock.close()

    def load_labels(self, name: str, n: int) -> NDArray[np.int64] | None:
        """Return the n labels of a shard or pool, if they were saved."""
        values = self._load(f"{name}.npz", ("labels",))
        if values is None:
            return None
        labels = values["labels"]
        self._check(f"{name}.npz", _are_labels(labels, n))
        return labels

    def save_labels(self, name: str, labels: NDArray[np.int64]) -> None:
        self._save(f"{name}.npz", {"labels": labels})

    def load_state(self, n: int) -> DriverState | None:
        """Return the state of the last run on n items, if its shards and pools were solved."""
        values = self._load(_STATE, DriverState._fields)
        if values is None:
            return None
        labels, changed, n_rounds, exact, close = (values[name] for name in DriverState._fields)
        sound = _are_labels(labels, n) and changed.dtype == bool and n_rounds.shape == exact.shape == ()
        self._check(_STATE, sound and changed.shape == (labels.max() + 1,))
        return DriverState(labels, changed, int(n_rounds), bool(exact), bool(close))

    def save_state(self, state: DriverState) -> None:
        """Save the state, and remove the labels of shards and pools, which it replaces."""
        if self._folder is None:
            return
        self._save(_STATE, {name: np.asarray(value) for name, value in state._asdict().items()})
        self._remove(_SHARD_FILE)

    def _remove(self, pattern: re.Pattern[str]) -> None:
        """Remove the files of the folder whose names match."""
        assert self._folder is not None
        for path in self._folder.iterdir():
            if pattern.fullmatch(path.name):
                path.unlink()

    def _save(self, name: str, values: dict[str, NDArray[Any]]) -> None:
        if self._folder is None:
            return
        with files.complete(self._folder / name) as part, part.open("wb") as file:
            np.savez(file, **{_CHECKSUM: np.array(self._checksum(name, values))}, **values)  # type: ignore[arg-type]

    def _load(self, name: str, keys: tuple[str, ...]) -> dict[str, NDArray[Any]] | None:
        """Return the values of a file, or None if there is none; a file that is damaged is an error."""
        if self._folder is None or not (self._folder / name).exists():
            return None
        try:
            found = files.read_archive(self._folder / name, (*keys, _CHECKSUM))
        except ValueError:
            found = {}
        checksum = str(found.pop(_CHECKSUM, ""))
        sound = found.keys() == set(keys) and checksum == self._checksum(name, found)
        self._check(name, sound)
        return found

    def _checksum(self, name: str, values: dict[str, NDArray[Any]]) -> str:
        return digest(name, json.dumps(self._settings), *(values[key] for key in sorted(values)))

    def _check(self, name: str, sound: bool) -> None:
        if not sound:
            raise ValueError(
                f"{self._folder}/{name} is damaged: delete this file, and the work in it is done again"
            )


def _are_labels(labels: NDArray[Any], n: int) -> bool:
    """Return whether an array holds labels 0..K-1 of n items."""
    return labels.dtype == np.int64 and labels.shape == (n,) and labels.min() >= 0 and labels.max() < n


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
