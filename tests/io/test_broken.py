"""What is said about broken files."""

from pathlib import Path

import pytest

from clusterfug.io.broken import broken_is_named


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("a"), "x.npz is broken: 'a'"),
        (RuntimeError("first\n  second"), "x.npz is broken: first second"),
        (OSError(5, "Input/output error", "x.npz"), "x.npz is broken: Input/output error"),
        (AssertionError(), "x.npz is broken: AssertionError"),
        (ValueError("y" * 300), f"x.npz is broken: {'y' * 200}..."),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "bytes that are no text"),
        (ValueError("Object arrays cannot be loaded when allow_pickle=False"), "pickles are never loaded"),
        (ValueError("x.npz holds no numbers"), "^x.npz holds no numbers$"),
    ],
)
def test_an_error_of_a_library_becomes_one_line_that_names_the_file(error, message):
    with pytest.raises(ValueError, match=message) as caught, broken_is_named(Path("x.npz")):
        raise error
    assert "\n" not in str(caught.value)


def test_too_little_memory_does_not_mean_that_a_file_is_broken():
    with pytest.raises(MemoryError), broken_is_named(Path("x.npz")):
        raise MemoryError
