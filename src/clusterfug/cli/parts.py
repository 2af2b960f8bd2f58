"""Features that are read in parts, because memory is short or because many machines read them."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.gpu.device import is_given
from clusterfug.instances import files, tables
from clusterfug.options import Task
from clusterfug.result import Clustering
from clusterfug.shards.solve import check_task, solve_files
from clusterfug.shards.source import ENDINGS, Files, in_shards


def read(
    path: Path, task: Task, scheduler: str | None, device: str
) -> tuple[Files | files.Instance, Files | None]:
    """What a file or the files of a folder hold; or only where it is, if it is to be read in parts.

    And the files of a folder as they are now, to write labels for the same.
    """
    whole = scheduler is None and task.checkpoint is None
    plain = task.memory_limit is None or path.suffix.lower() not in ENDINGS
    if whole and plain and not path.is_dir():
        return files.read(path), None
    stored = Files(path)
    folder = stored if path.is_dir() else None
    if not whole or (not is_given(device) and in_shards(stored.n, stored.d, task)):
        return stored, folder
    return (files.read(path) if folder is None else files.Features(stored.read())), folder


def cluster(
    stored: Files,
    options: dict[str, Any],
    metric: str,
    center: bool,
    checkpoint: Path | None,
    scheduler: str | None,
    callback: Any,
) -> Clustering:
    """Shard by shard, here or on a cluster."""
    for name in ("device", "precision"):
        options.pop(name)
    task = Task(checkpoint=checkpoint, **options)
    check_task(task)
    if scheduler is None:
        return solve_files(stored, task, None, metric, center, callback)
    from clusterfug.distributed.cluster import Cluster, connected

    logging.disable()  # dask's own words: an error is one line, ours
    try:
        with connected(scheduler) as client:
            return solve_files(stored.absolute(), task, Cluster(client), metric, center, callback)
    finally:
        logging.disable(logging.NOTSET)


def check_output(output: Path, features: Path, inputs: tuple[Path, ...]) -> None:
    """Find out before the work whether labels can be written after it."""
    if features.is_dir() and features.resolve() in output.resolve().parents:
        raise ValueError(f"cannot write {output}: it would be among the features; write it elsewhere")
    if output.suffix or not features.is_dir():
        files.check_writable(output, files.LABEL_ENDINGS, inputs)
        return
    if output.exists():
        raise FileExistsError(f"cannot write {output}: it exists; labels go to a new folder")
    if not output.absolute().parent.is_dir():
        raise FileNotFoundError(f"cannot write {output}: the folder {output.parent} does not exist")
    tables.require_pyarrow()


def write_labels(output: Path, labels: NDArray[np.int64], stored: Files | None) -> None:
    """One file; or one for each file of the features, if they are in a folder."""
    if output.suffix or stored is None:
        files.write_labels(output, labels)
    else:
        stored.write_labels(output, labels)
