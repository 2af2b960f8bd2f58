"""Files that cannot be read: whatever a library says about one becomes one line that names the file.

The words of a library are repeated only where they help: of a sound file that it does not support.
"""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_REASON = 200  # characters of what a library says
_PICKLE = re.compile("pickled|Object arrays|Python objects")
_UNSUPPORTED = re.compile("support|not built|encrypted|required filter|pixels", re.IGNORECASE)


@contextmanager
def broken_is_named(path: Path) -> Iterator[None]:
    """Turn any error of a library about a file into an error of one line that names the file."""
    try:
        yield
    except MemoryError as error:
        raise MemoryError(f"{path} needs more memory than there is: it is too large, or damaged") from error
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):
            raise
        # A damaged file sends its reader to places that do not exist: an invalid argument.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise OSError(f"{path} cannot be read: {os.strerror(error.errno)}") from error
        if _PICKLE.search(str(error)):
            raise ValueError(
                f"{path} holds Python objects (a pickle), not a plain array of numbers; "
                "pickles are never loaded"
            ) from error
        if not isinstance(error, UnicodeError) and _UNSUPPORTED.search(str(error)):
            raise ValueError(f"{path} cannot be read: {reason(error)}") from error
        kind = f"not a {path.suffix} file" if path.suffix else "of another format"
        raise ValueError(f"{path} is broken: damaged, cut short, or {kind}") from error


def reason(error: Exception, separator: str | None = None) -> str:
    """Return what an error says in one line of limited length, without the numbers of the system.

    What precedes the last separator, a regular expression, is left out.
    """
    if isinstance(error, UnicodeError):
        return "bytes that are no text where a text should be"
    if type(error).__name__ == "DecompressionBombError":  # of Pillow
        numbers = re.findall(r"\d+", str(error))
        return f"too large: pictures may have up to {int(numbers[-1]):,} pixels" if numbers else "too large"
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    text = text if separator is None else re.split(separator, text)[-1]
    text = text or type(error).__name__
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}..."
