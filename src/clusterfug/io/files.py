"""Files to arrays and back, by the ending of their name.

Features: .npy (memory-mapped), .npz, .h5, .csv, .parquet, .arrow, .feather, and the text format
FACTORIZED COMPLETE MULTICUT.
Graphs: .npz as scipy saves a sparse matrix, and the text format MULTICUT. Labels are in `labels.py`.
Output appears under its name only when it is complete.
"""

import io
import math
import os
import shutil
import tempfile
import zipfile
from collections.abc import Collection
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.io import hdf5, tables, text
from clusterfug.io.broken import broken_is_named
from clusterfug.io.hdf5 import name_of_features
from clusterfug.problems.graph import GraphProblem

HDF5_ENDINGS = (".h5", ".hdf5")
FEATURE_ENDINGS = (".npy", ".npz", *HDF5_ENDINGS, ".csv", ".parquet", ".txt")
READ_ENDINGS = (*FEATURE_ENDINGS[:-1], *tables.ENDINGS[1:])
GRAPH_ENDINGS = (".txt", ".npz")
#: How the names of files begin that are not complete; they are short, whatever the name will be.
HIDDEN = ".clusterfug."
#: A graph in a file has at most so many nodes, which all take memory, whether they have edges or not.
MAX_NODES, MAX_NODES_PER_EDGE = 10**6, 10**3


class Features(NamedTuple):
    array: Any  # an array, or the paths of files that are read in parts
    threshold: float | None = None  # of a text file, which subtracts it from all inner products

    @property
    def metric(self) -> str:
        """The default metric: a file that says its threshold is a finished problem."""
        return "cosine" if self.threshold is None else "inner_product"


Instance = Features | GraphProblem


def read(path: Path, dtype: Any = np.float32) -> Instance:
    """Return the features or the graph in a file. Text becomes `dtype`; binary files keep their type."""
    check_readable(path)
    ending = path.suffix.lower()
    if ending == ".npy":
        return Features(read_npy(path))
    if ending == ".npz":
        return _read_npz(path)
    if ending in HDF5_ENDINGS:
        return Features(hdf5.read(path))
    if ending == ".csv":
        return Features(read_csv(path, dtype))
    if ending in tables.ENDINGS:
        return Features(tables.Table(path).read())
    header = text.read_header(path)
    if header == text.FACTORIZED:
        return Features(*text.read_factorized(path, dtype))
    if header == text.GRAPH:
        edges, costs = text.read_graph(path)
        return _graph(path, int(edges.max()) + 1, len(edges), edges, costs)
    raise ValueError(
        f"{path} has an unknown format: use {', '.join(READ_ENDINGS)}, or a text file "
        f"that starts with {text.FACTORIZED!r} or {text.GRAPH!r}"
    )


def _graph(path: Path, n: int, m: int, *edges: Any) -> GraphProblem:
    """Return the graph of n nodes and m edges in a file."""
    if n > MAX_NODES + MAX_NODES_PER_EDGE * m:
        raise ValueError(
            f"{path} has {m:,} edges and names node {n - 1}: nodes are numbered 0, 1, ...; "
            "leave out numbers without edges"
        )
    try:
        return GraphProblem(*edges)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def read_features(path: Path) -> Features:
    """Return the features in a file; a graph is an error."""
    instance = read(path)
    if isinstance(instance, GraphProblem):
        raise ValueError(f"{path} holds a graph, not features")
    return instance


def write_instance(path: Path, instance: Instance, threshold: float) -> None:
    """Write features or a graph in the format that the ending names."""
    ending = path.suffix.lower()
    with complete(path) as part:
        if isinstance(instance, GraphProblem):
            if ending == ".txt":
                with part.open("w", encoding="utf-8") as file:
                    text.write_graph(file, instance.edges, instance.costs)
            else:
                from scipy.sparse import coo_array, save_npz

                ends = (instance.edges[:, 0], instance.edges[:, 1])
                with part.open("wb") as binary:
                    save_npz(binary, coo_array((instance.costs, ends), shape=(instance.n, instance.n)))
            return
        array = instance.array
        if ending == ".npy":
            save(part, array)
        elif ending == ".npz":
            with part.open("wb") as binary:
                np.savez(binary, features=array)
        elif ending in HDF5_ENDINGS:
            content = io.BytesIO()  # on a full disk, HDF5 could end the process
            with _require_h5py().File(content, "w") as file:
                file.create_dataset("features", data=array)
            part.write_bytes(content.getbuffer())
        elif ending == ".csv":
            header = ",".join(f"f{p}" for p in range(array.shape[1]))
            np.savetxt(part, array, text.format_of(array.dtype), ",", header=header, comments="")
        elif ending == ".parquet":
            tables.write(part, "features", array)
        else:
            with part.open("w", encoding="utf-8") as file:
                text.write_factorized(file, array, threshold)


def save(path: Path, array: NDArray[Any]) -> None:
    """Write a .npy file. (np.save is silent about a disk that is full when the last bytes are written.)"""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.data.cast("B") if array.size else b"")


def check_readable(path: Path) -> None:
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file")
    if not path.is_file():  # a pipe could be read only once
        raise ValueError(f"{path} is not a regular file: write it to a file first")
    if not os.access(path, os.R_OK):
        raise PermissionError(f"{path} may not be read: check its permissions")
    with broken_is_named(path), path.open("rb") as file:
        file.read(1)
    _require_extra(path.suffix.lower())


def check_writable(path: Path, endings: tuple[str, ...], inputs: tuple[Path, ...] = ()) -> None:
    """Raise an error, before any work, if an output could not be written or is one of the inputs."""
    if path.exists() and any(path.samefile(other) for other in inputs if other.exists()):
        raise ValueError(f"cannot write {path}: it is an input")
    ending = path.suffix.lower()
    if ending not in endings:
        raise ValueError(f"cannot write {path}: its name must end in {', '.join(endings)}")
    _require_extra(ending)
    if path.is_symlink():
        path = Path(os.path.realpath(path))
        if path.is_symlink():
            raise ValueError(f"cannot write {path}: it is a link to itself")
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder")
    if path.exists() and not path.is_file():
        raise ValueError(f"cannot write {path}: it is not a regular file")
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(f"cannot write {path}: {path.parent} is not a folder")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: the folder {path.parent} does not exist")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError("it exists and is read-only")
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}") from error


@contextmanager
def complete(path: Path) -> Any:
    """Yield a path to write to, which replaces `path` when all is written, or is deleted on an error.

    What is written is on the disk before it appears under its name, so a power failure leaves all or none.
    """
    path = Path(os.path.realpath(path)) if path.is_symlink() else path  # the link stays
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=HIDDEN, suffix=path.suffix)
    os.close(handle)
    part = Path(name)
    try:
        with _named(path):
            yield part
            with part.open("r+b") as file:
                os.fsync(file.fileno())
        part.chmod(0o666 & ~_umask())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def complete_folder(folder: Path) -> Any:
    """Yield a folder to write to, which becomes `folder`, a new one, when all is written."""
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=HIDDEN))
    try:
        with _named(folder):
            yield part
        part.chmod(0o777 & ~_umask())
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _named(path: Path) -> Any:
    """Add the path to errors of the system that name no file, such as a full disk."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(f"cannot write {path}: {os.strerror(error.errno)}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def lock(file: Any, message: str) -> None:
    """Lock an open file until it is closed; raise ValueError if another process holds the lock."""
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(message) from None


def read_npy(path: Path) -> NDArray[Any]:
    with broken_is_named(path), path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError(f"{path} is not a .npy file")
    with broken_is_named(path):
        return np.load(path, mmap_mode="r", allow_pickle=False)


def read_archive(path: Path, wanted: Collection[str] | None = None) -> dict[str, Any]:
    """Return the arrays of a .npz file, or those among them with the names in `wanted`."""
    with _archive(path) as (archive, names):
        return {name: _read_member(archive, name) for name in names if wanted is None or name in wanted}


def archive_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays of a .npz file, which are not read."""
    with _archive(path) as (archive, names):
        shapes = {}
        for name in names:
            with archive.open(f"{name}.npy") as file:
                shapes[name] = _read_header(file)[0]
        return shapes


@contextmanager
def _archive(path: Path) -> Any:
    """Yield a .npz file and the names of its arrays."""
    check_readable(path)
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{path} is not a .npz file")
    with broken_is_named(path), zipfile.ZipFile(path) as archive:
        yield archive, [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def _read_header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the type that the header of an array announces."""
    version = np.lib.format.read_magic(file)
    # Versions 2 and 3 differ in the encoding of the names of fields.
    shape, _, dtype = (
        np.lib.format.read_array_header_1_0(file)
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0(file)
    )
    return shape, dtype


def _read_member(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """Return an array of a .npz file. Memory is allocated only if it is as large as it announces."""
    entry = archive.getinfo(f"{name}.npy")
    with archive.open(entry) as file:
        shape, dtype = _read_header(file)
        size = file.tell() + math.prod(shape) * dtype.itemsize
        if size != entry.file_size and not dtype.hasobject:
            raise ValueError("an array has another size than it announces")
        file.seek(0)
        return np.lib.format.read_array(file, allow_pickle=False)


def _read_npz(path: Path) -> Instance:
    shapes = archive_shapes(path)
    if {"format", "shape", "data"} <= set(shapes) and "features" not in shapes:
        from scipy.sparse import load_npz

        read_archive(path)  # raises an error unless arrays are as large as they announce
        with broken_is_named(path):
            matrix = load_npz(path)
        return _graph(path, max(matrix.shape), matrix.data.size, matrix)
    name = name_of_features({name: len(shape) for name, shape in shapes.items()})
    if name is None:
        raise ValueError(
            f"{path} must hold an array named 'features' or exactly one 2-D array; "
            f"it holds {', '.join(shapes) or 'nothing'}"
        )
    return Features(read_archive(path, (name,))[name])


def read_csv(path: Path, dtype: Any) -> NDArray[Any]:
    """Return the numbers after the header, if any: a first line without numbers, or 0, 1, ..."""
    with text.opened(path) as file:
        first = [field.strip() for field in file.readline().split(",")]
    counted = len(first) > 1 and first == [str(column) for column in range(len(first))]
    named = all(first) and not any(text.is_number(field) for field in first)
    return text.read_table(path, skip=1 if counted or named else 0, dtype=dtype, delimiter=",")


def _require_extra(ending: str) -> None:
    """Raise an error if a format needs a package that is not installed."""
    if ending in tables.ENDINGS:
        tables.require_pyarrow()
    elif ending in HDF5_ENDINGS:
        _require_h5py()


def _require_h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise ImportError("HDF5 files need h5py: pip install 'clusterfug[io]'") from error
    return h5py
