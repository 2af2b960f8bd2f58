"""Values that wait on disk: arrays in a file without a name, mapped into memory."""

import mmap
import pickle
import tempfile
from typing import Any
from weakref import WeakSet

import numpy as np

_ALIGNED = 64  # as fresh arrays are
_LARGE = 1 << 18  # bytes of an array; below, it is not worth it

_mapped: WeakSet[mmap.mmap] = WeakSet()


def spilled(value: Any) -> Any:
    """The same value with its large arrays in a temporary file; gone when nobody needs them.

    The system reads and drops pages of the file as it likes, so they are no memory that is used up. Whoever
    writes to the arrays writes to a copy of those pages. A file that is mapped counts as an open one: when
    there are half as many as a process may have, values stay in memory.
    """
    large: list[memoryview] = []

    def is_small(buffer: pickle.PickleBuffer) -> bool:
        if buffer.raw().nbytes < _LARGE:
            return True  # to be pickled with the rest
        large.append(buffer.raw())
        return False

    pickled = pickle.dumps(value, protocol=5, buffer_callback=is_small)
    if not large or len(_mapped) >= _most_files() // 2:
        return value
    starts = np.cumsum([0, *(-(-view.nbytes // _ALIGNED) * _ALIGNED for view in large)]).tolist()
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


def _most_files() -> int:
    """How many files this process may have open at a time."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 1 << 13
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
