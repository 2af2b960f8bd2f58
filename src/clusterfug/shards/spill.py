"""Values that wait on disk: arrays in a file without a name, mapped into memory."""

import mmap
import pickle
import tempfile
from typing import Any

_LARGE = 1 << 20  # bytes; below, it is not worth it


def spilled(value: Any) -> Any:
    """The same value with its arrays in a temporary file, if they are large; gone when nobody needs it.

    The system reads and drops pages of the file as it likes, so they are no memory that is used up. Whoever
    writes to the arrays writes to a copy of those pages.
    """
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    ends = [0]
    for view in views:
        ends.append(-(-(ends[-1] + view.nbytes) // 64) * 64)  # aligned, as fresh arrays are
    if ends[-1] < _LARGE:
        return value
    try:
        with tempfile.TemporaryFile() as file:
            for view, start in zip(views, ends, strict=False):
                file.seek(start)
                file.write(view)
            file.truncate(ends[-1])
            file.flush()
            mapped = memoryview(mmap.mmap(file.fileno(), ends[-1], access=mmap.ACCESS_COPY))
    except OSError as error:
        raise OSError(
            f"cannot write to the folder for temporary files, {tempfile.gettempdir()}: "
            f"{error.strerror or error}; set TMPDIR to a folder with more room"
        ) from error
    parts = [mapped[start : start + view.nbytes] for view, start in zip(views, ends, strict=False)]
    return pickle.loads(pickled, buffers=parts)
