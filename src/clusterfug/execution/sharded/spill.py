"""Values on disk: large arrays in an unnamed temporary file that is mapped into memory."""

import mmap
import pickle
import tempfile
from typing import Any
from weakref import WeakSet

import numpy as np

_ALIGNMENT = 64  # bytes, as for arrays in memory
_MIN_BYTES = 1 << 18  # smaller arrays stay in memory

_mapped: WeakSet[mmap.mmap] = WeakSet()


def spilled(value: Any) -> Any:
    """Return the same value with its large arrays in a temporary file, which exists as long as they do.

    The system loads and drops pages of the file as needed, so they do not use up memory. Writing to the
    arrays copies the pages concerned. A mapped file counts as an open one: when there are half as many as
    the process may have, values stay in memory.
    """
    large: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _MIN_BYTES:
            return True  # pickled with the rest
        large.append(buffer.raw())
        return False

    pickled = pickle.dumps(value, protocol=5, buffer_callback=is_small)
    if not large or len(_mapped) >= _max_open_files() // 2:
        return value
    starts = np.cumsum([0, *(-(-view.nbytes // _ALIGNMENT) * _ALIGNMENT for view in large)]).tolist()
    try:
        with tempfile.TemporaryFile() as file:
            for view, start in zip(large, starts, strict=False):
                file.seek(start)
                file.write(view)
            file.truncate(starts[-1])
            file.flush()
            mapped = mmap.mmap(file.fileno(), starts[-1], access=mmap.ACCESS_COPY)
    except OSError as error:
        raise OSError(
            f"cannot write to the folder for temporary files, {tempfile.gettempdir()}: "
            f"{error.strerror or error}; set TMPDIR to a folder with more room"
        ) from error
    _mapped.add(mapped)
    whole = memoryview(mapped)
    parts = [whole[start : start + view.nbytes] for view, start in zip(large, starts, strict=False)]
    return pickle.loads(pickled, buffers=parts)


def _max_open_files() -> int:
    """Return the number of files that this process may have open at a time."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 1 << 13
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
