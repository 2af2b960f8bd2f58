"""Features that are read in parts, because memory is short or because many machines read them."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.gpu.device import is_given
from clusterfug.instances import files
from clusterfug.options import Task
from clusterfug.result import Clustering
from clusterfug.shards.solve import check_task, solve_files
from clusterfug.shards.source import ENDINGS, Files, in_shards


def read(path: Path, task: Task, scheduler: str | None, device: str) -> Files | files.Instance:
    """What a file holds, or the files of a folder; only where they are, if they are to be read in parts."""
    whole = scheduler is None and task.checkpoint is None
    plain = task.memory_limit is None or path.suffix.lower() not in ENDINGS
    if whole and plain and not path.is_dir():
        return files.read(path)
    stored = Files([path] if path.is_file() else path)
    if not whole or (not is_given(device) and in_shards(stored.n, stored.d, task)):
        return stored
    return files.Features(stored.read()) if path.is_dir() else files.read(path)


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
    with connected(scheduler) as client:
        return solve_files(stored.absolute(), task, Cluster(client), metric, center, callback)


def check_output(output: Path, features: Path, inputs: tuple[Path, ...]) -> None:
    """Find out before the work whether labels can be written after it."""
    if output.suffix or not features.is_dir():
        files.check_writable(output, files.LABEL_ENDINGS, inputs)
        return
    if output.exists():
        raise FileExistsError(f"cannot write {output}: it exists; labels go to a new folder")
    files.check_writable(output.with_suffix(".parquet"), files.LABEL_ENDINGS)
    _ = Files(features).label_names


def write_labels(output: Path, labels: NDArray[np.int64], features: Path) -> None:
    if output.suffix or not features.is_dir():
        files.write_labels(output, labels)
    else:
        Files(features).write_labels(output, labels)
