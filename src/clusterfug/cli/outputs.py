"""Files of labels that `cluster` writes: one file, or a folder with one for each file of features."""

from pathlib import Path
from typing import TYPE_CHECKING

from clusterfug.io import files, tables
from clusterfug.io.labels import LABEL_ENDINGS, write_labels

if TYPE_CHECKING:
    from clusterfug.execution.sharded.source import Files
    from clusterfug.result import Clustering


def check_output(output: Path, features: Path, inputs: tuple[Path, ...]) -> None:
    """Raise an error before the work if labels could not be written after it."""
    if features.is_dir() and features.resolve() in output.resolve().parents:
        raise ValueError(f"cannot write {output}: it would be among the features; write it elsewhere")
    if output.suffix or not features.is_dir():
        files.check_writable(output, LABEL_ENDINGS, inputs)
        return
    if output.exists():
        raise FileExistsError(f"cannot write {output}: it exists; labels go to a new folder")
    if not output.absolute().parent.is_dir():
        raise FileNotFoundError(f"cannot write {output}: the folder {output.parent} does not exist")
    tables.require_pyarrow()


def write_result(output: Path, result: "Clustering", folder: "Files | None", weighted: bool) -> None:
    """Write labels with their settings: one file, or one for each file of a folder of features."""
    from clusterfug.io.settings import settings_of

    settings = settings_of(result, weighted)
    if output.suffix or folder is None:
        write_labels(output, result.labels, settings)
    else:
        folder.write_labels(output, result.labels, settings)
