"""HDF5 files to arrays, read by a child process: on a damaged file the HDF5 library may crash or never end.

`read`, which `files.py` calls, starts this module as a program. It checks where the numbers of the features
are in the file, and sends them box by box (a box is a range along each axis), and holds only one of them.
"""

import fcntl
import itertools
import json
import math
import os
import select
import signal
import subprocess
import sys
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution.threads import check_stop
from clusterfug.io.broken import broken_is_named

#: Seconds without data after which the child process is killed, and seconds between two checks for Ctrl-C.
PATIENCE, STEP = 60, 0.1
BOX_BYTES = 16 * 2**20  # largest size of a box, unless one chunk is larger
_PIPE_BYTES = 2**20
_BYTES_ADDED_BY_FILTER = {2: 0, 3: 4}  # shuffle and fletcher32; all others change the size of a chunk


def read(path: Path) -> NDArray[Any]:
    """Return the features in an HDF5 file: the dataset 'features', or the only 2-D one."""
    folders = [*filter(None, sys.path), str(Path(__file__).parents[2])]
    with (
        broken_is_named(path),
        subprocess.Popen(
            [sys.executable, "-P", "-m", "clusterfug.io.hdf5", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        ) as child,
    ):
        try:
            assert child.stdout is not None
            with suppress(AttributeError, OSError):  # where it is not allowed, it is only slower
                fcntl.fcntl(child.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            return _received(_Pipe(child.stdout.fileno()))
        except TimeoutError:
            raise ValueError(
                f"{path} is broken, or on a very slow disk: nothing was read for {PATIENCE} s"
            ) from None
        finally:
            child.kill()


class _Pipe:
    """What the child sends: lines of JSON and the bytes of numbers."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.poll = select.poll()
        self.poll.register(descriptor, select.POLLIN)

    def line(self) -> dict[str, Any]:
        """Return the next line; raise the error that it reports, if any."""
        line, byte = bytearray(), bytearray(1)
        while byte != b"\n":
            self.fill(memoryview(byte))
            line += byte
        content: dict[str, Any] = json.loads(line)
        if content.get("memory"):
            raise MemoryError
        if content.get("errno"):
            raise OSError(content["errno"], content["error"])
        if "error" in content:
            raise ValueError(content["error"])
        return content

    def fill(self, buffer: memoryview) -> None:
        """Wait until the buffer is full."""
        while buffer:
            self._wait()
            count = os.readv(self.descriptor, [buffer])
            if count == 0:
                raise EOFError("the child has ended early")
            buffer = buffer[count:]

    def _wait(self) -> None:
        for _ in range(round(PATIENCE / STEP)):  # steps are counted: a pause of both processes is only one
            check_stop()
            if self.poll.poll(1000 * STEP):
                return
        raise TimeoutError("the child sends nothing")


def _received(pipe: _Pipe) -> NDArray[Any]:
    """Return the array that the child sends."""
    header = pipe.line()
    array = np.empty(header["shape"], header["dtype"])
    for box in _boxes(header["shape"], header["steps"]):
        pipe.line()
        part = array[box]
        whole = part if part.flags.c_contiguous else np.empty(part.shape, part.dtype)
        pipe.fill(_bytes(whole))
        if whole is not part:
            part[...] = whole
    return array


def _boxes(shape: list[int], steps: list[int]) -> Iterator[tuple[Any, ...]]:
    """Yield the slices of the boxes that divide an array; `steps` are their lengths along each axis."""
    if 0 in shape:
        return
    axes = ([slice(p, p + step) for p in range(0, n, step)] for n, step in zip(shape, steps, strict=True))
    for box in itertools.product(*axes):
        yield (*box, ...)


def _bytes(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def main() -> None:
    """Send the features in a file, or an error: the program that `read` starts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # `read` ends this process
    _limit_time()
    try:
        _send_features(Path(sys.argv[1]))
    except Exception as error:
        memory = isinstance(error, MemoryError)
        _send({"error": str(error), "errno": getattr(error, "errno", None), "memory": memory})


def _send(content: dict[str, Any], numbers: memoryview | None = None) -> None:
    for part in (json.dumps(content).encode() + b"\n", numbers or b""):
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()
    _limit_time()


def _limit_time() -> None:
    """End this process if it hangs from now on, even if `read` no longer exists."""
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)


def _send_features(path: Path) -> None:
    import h5py

    if not h5py.is_hdf5(path):
        raise ValueError(f"{path} is not an HDF5 file")
    datasets: dict[str, Any] = {}  # also those in groups; other files are not read

    def visit(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset):
            datasets[name] = entry

    with h5py.File(path, "r") as file:
        file.visititems(visit)
        name = name_of_features({name: dataset.ndim for name, dataset in datasets.items()})
        if name is None:
            raise ValueError(
                f"{path} must hold a dataset named 'features' or exactly one 2-D dataset; "
                f"it holds {', '.join(datasets) or 'nothing'}"
            )
        dataset = datasets[name]
        _check_stored(path, name, dataset)
        shape, steps = list(dataset.shape), _steps(dataset)
        _send({"shape": shape, "dtype": dataset.dtype.str, "steps": steps})
        for box in _boxes(shape, steps):
            if dataset.chunks:
                _find_chunks(dataset, box)
            _send({}, _bytes(np.ascontiguousarray(dataset[box])))


def name_of_features(dimensions: dict[str, int]) -> str | None:
    """Return 'features', or the name of the only 2-D array, or None if there is not exactly one."""
    if "features" in dimensions:
        return "features"
    two_dimensional = [name for name, count in dimensions.items() if count == 2]
    return two_dimensional[0] if len(two_dimensional) == 1 else None


def _check_stored(path: Path, name: str, dataset: Any) -> None:
    """Raise an error unless a dataset holds numbers, and all of them are in its file.

    Numbers that were never written take no space in the file, but would take memory.
    """
    if dataset.is_virtual or dataset.external:
        raise ValueError(f"{path}: {name!r} takes its numbers from other files: write them into this one")
    if dataset.shape is None or dataset.dtype.kind not in "fiub":
        content = "nothing" if dataset.shape is None else dataset.dtype.str
        raise ValueError(f"{path}: {name!r} holds {content}, not numbers")
    if dataset.chunks:
        wanted = math.prod(-(-n // size) for n, size in zip(dataset.shape, dataset.chunks, strict=True))
        whole = _number_of_chunks(dataset) >= wanted
    else:
        whole = dataset.id.get_storage_size() >= dataset.size * dataset.id.get_type().get_size()
    if not whole:
        raise ValueError(f"{path}: parts of {name!r} were never written: write it again")


def _number_of_chunks(dataset: Any) -> int:
    """Return how many chunks are in the file; raise an error unless their places and sizes are possible."""
    chunks: list[Any] = []
    if hasattr(dataset.id, "chunk_iter"):  # with most versions of HDF5; a search for every chunk is slow
        dataset.id.chunk_iter(chunks.append)
    else:
        chunks = [dataset.id.get_chunk_info(k) for k in range(dataset.id.get_num_chunks())]
    offsets = np.array([chunk.chunk_offset for chunk in chunks], np.uint64).reshape(-1, dataset.ndim)
    shape, sides = np.array(dataset.shape, np.uint64), np.array(dataset.chunks, np.uint64)
    inside = np.all((offsets < shape) & (offsets % sides == 0))
    if not inside or len({chunk.chunk_offset for chunk in chunks}) < len(chunks):
        raise ValueError("chunks are not where they can be")
    sizes = {mask: _sizes(dataset, mask) for mask in {chunk.filter_mask for chunk in chunks}}
    if not all(chunk.size in sizes[chunk.filter_mask] for chunk in chunks):
        raise ValueError("chunks have sizes that they cannot have")
    places = sorted((chunk.byte_offset, chunk.size) for chunk in chunks)
    places.append((dataset.file.id.get_filesize(), 0))
    if any(start + size > following for (start, size), (following, _) in itertools.pairwise(places)):
        raise ValueError("chunks overlap, or are not in the file")
    return len(chunks)


def _sizes(dataset: Any, mask: int) -> Container[int]:
    """Return the sizes in the file that a chunk may have that skips the filters in `mask`."""
    plist = dataset.id.get_create_plist()
    filters = [plist.get_filter(k)[0] for k in range(plist.get_nfilters()) if not mask >> k & 1]
    if not set(filters) <= _BYTES_ADDED_BY_FILTER.keys():
        return range(1, sys.maxsize)
    plain = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
    return (plain, plain + sum(_BYTES_ADDED_BY_FILTER[number] for number in filters))


def _find_chunks(dataset: Any, box: tuple[Any, ...]) -> None:
    """Raise an error if HDF5 does not find a chunk that it has listed: it would return zeros."""
    sides = zip(box, dataset.shape, dataset.chunks, strict=False)  # a box ends with an ellipsis
    for offset in itertools.product(*(range(*along.indices(n))[::side] for along, n, side in sides)):
        dataset.id.read_direct_chunk(offset)


def _steps(dataset: Any) -> list[int]:
    """Return the lengths of boxes: whole chunks, and as many as fit, along the last axes first."""
    steps = list(dataset.chunks or (1,) * dataset.ndim)
    for axis in reversed(range(dataset.ndim)):
        count = max(1, BOX_BYTES // (math.prod(steps) * dataset.dtype.itemsize))
        steps[axis] = max(1, min(count * steps[axis], dataset.shape[axis]))
    return steps


if __name__ == "__main__":
    main()
