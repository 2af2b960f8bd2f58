"""Broken files: whatever a library says about one becomes one line that names the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAX_REASON = 200  # characters of what a library says


@contextmanager
def broken_is_named(path: Path) -> Iterator[None]:
    """Turn any error of a library about a broken file into a ValueError of one line."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):
            raise
        if "pickle" in str(error) or "Python objects" in str(error):
            raise ValueError(
                f"{path} holds Python objects (a pickle), not a plain array of numbers; "
                "pickles are never loaded"
            ) from error
        raise ValueError(f"{path} is broken: {reason(error)}") from error


def reason(error: Exception, separator: str | None = None) -> str:
    """Return what an error says in one line of limited length, without the numbers of the system.

    What precedes the last separator is left out.
    """
    if isinstance(error, UnicodeError):
        return "bytes that are no text where a text should be"
    strerror = getattr(error, "strerror", None)
    text = str(strerror or error)
    text = " ".join((text if separator is None else text.split(separator)[-1]).split())
    text = text or type(error).__name__
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}..."
