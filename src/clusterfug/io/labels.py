"""Label files: one label per item, with the settings of the problem that the labels solve.

Formats are .npy, .npz, .csv and .parquet; .txt is read, too. An .npz or .parquet file holds its settings;
those of a .npy or .csv file are in a small JSON file beside it, NAME.json.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import files, tables
from clusterfug.io.settings import LabelSettings, digest_of

LABEL_ENDINGS = (".npy", ".npz", ".csv", ".parquet")
#: Formats whose settings are in a file beside the labels.
BESIDE_ENDINGS = (".npy", ".csv")
#: Under this name .npz files hold settings as an array, and .parquet files as metadata.
SETTINGS_NAME = "clusterfug"


def read_column(path: Path) -> NDArray[Any]:
    """Return one number per item, from a .npy, .npz, .txt, .csv or .parquet file."""
    files.check_readable(path)
    ending = path.suffix.lower()
    if ending in (".csv", ".txt"):
        array = files.read_csv(path, np.float64)
    elif ending in (".npy", ".parquet"):
        array = files.read_features(path).array
    elif ending == ".npz":
        names = files.archive_shapes(path).keys() - {SETTINGS_NAME}
        if "labels" not in names and len(names) != 1:
            raise ValueError(f"{path} must hold an array named 'labels' or exactly one array")
        name = "labels" if "labels" in names else names.pop()
        array = files.read_archive(path, (name,))[name]
    else:
        raise ValueError(
            f"{path} must be a .npy, .npz, .csv, .parquet or .txt file with one number per item"
        )
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{path} must hold one number per item, not an array of {array.shape}")
    return array


def read_labels(path: Path) -> NDArray[np.int64]:
    """Return one label per item, as `write_labels` writes them."""
    return whole_numbers(path, read_column(path))


def whole_numbers(path: Path, column: NDArray[Any]) -> NDArray[np.int64]:
    """Return the numbers of a file as labels."""
    if column.dtype.kind not in "fiub":
        raise ValueError(f"{path} must hold whole numbers, not {column.dtype}")
    with np.errstate(invalid="ignore"):
        labels = column.astype(np.int64)
    wrong = labels != column
    if column.dtype.kind == "f":
        wrong |= np.abs(column) > 2**53  # beyond it, different labels may be the same float
    if np.any(wrong):
        raise ValueError(f"{path} must hold whole numbers: {column[wrong][0]} is no label")
    return labels


class LabelFile(NamedTuple):
    """Labels that were read, and their file: it may say which problem they solve."""

    path: Path
    labels: NDArray[np.int64]

    def check_items(self, other: Path, n: int) -> None:
        """Raise an error unless a file of n items may be one of the same items."""
        if len(self.labels) != n:
            raise ValueError(
                f"{self.path} has {len(self.labels):,} items, but {other} has {n:,}: "
                "give files of the same items, in the same order"
            )

    def settings(self) -> LabelSettings | None:
        """Return the settings of the labels, or None if the file has none.

        Settings that cannot be read, or that belong to other labels, are an error.
        """
        source, described = _described(self.path)
        if described is None:
            return None
        advice = "give --threshold or --alpha, --metric and --center (or --no-center), as they were"
        try:
            settings = LabelSettings.from_json(described)
        except ValueError as error:
            raise ValueError(f"the settings in {source} cannot be used ({error}): {advice}") from None
        if settings.labels != digest_of(self.labels):
            raise ValueError(f"the settings in {source} belong to other labels: {advice}")
        return settings


def check_labels_writable(path: Path, inputs: tuple[Path, ...] = ()) -> None:
    """Raise an error if labels and their settings could not be written."""
    files.check_writable(path, LABEL_ENDINGS, inputs)
    if path.suffix.lower() in BESIDE_ENDINGS:
        files.check_writable(settings_path(path), (".json",), inputs)


def write_labels(path: Path, labels: NDArray[np.int64], settings: LabelSettings | None = None) -> None:
    """Write one label per item: an array, or a table with the column `label`; and the settings.

    A file of settings beside the labels appears right before them, so labels that are new have theirs.
    """
    described = None if settings is None else replace(settings, labels=digest_of(labels)).to_json()
    ending = path.suffix.lower()
    with files.complete(path) as part:
        if ending == ".npy":
            files.save(part, labels)
        elif ending == ".npz":
            held: dict[str, Any] = {} if described is None else {SETTINGS_NAME: np.array(described)}
            with part.open("wb") as file:
                np.savez_compressed(file, labels=labels, **held)
        elif ending == ".csv":
            np.savetxt(part, labels, fmt="%d", header="label", comments="")
        else:
            tables.write(part, "label", labels, {} if described is None else {SETTINGS_NAME: described})
        if described is not None and ending in BESIDE_ENDINGS:
            with files.complete(settings_path(path)) as beside:
                beside.write_text(described + "\n", encoding="utf-8")


def settings_path(path: Path) -> Path:
    """Return the path of the settings of a .npy or .csv file."""
    return path.with_name(f"{path.name}.json")


def _described(path: Path) -> tuple[Path, str | None]:
    """Return the file that holds the settings of labels, and the settings as JSON, if there are any."""
    ending = path.suffix.lower()
    if ending == ".npz":
        found = files.read_archive(path, (SETTINGS_NAME,)).get(SETTINGS_NAME)
        return path, None if found is None else str(found)
    if ending == ".parquet":
        return path, tables.read_metadata(path).get(SETTINGS_NAME)
    source = settings_path(path)
    if ending not in BESIDE_ENDINGS or not source.exists():
        return source, None
    files.check_readable(source)
    return source, source.read_text(encoding="utf-8", errors="replace")
