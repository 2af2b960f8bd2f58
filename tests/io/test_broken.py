"""What is said about broken files."""

from pathlib import Path

import pytest

from clusterfug.io.broken import broken_is_named, reason

DAMAGED = "^x.npz is broken: damaged, cut short, or not a .npz file$"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (KeyError("a"), DAMAGED),
        (RuntimeError("first\n  second"), DAMAGED),
        (OSError(22, "Invalid argument"), DAMAGED),
        (AssertionError(), DAMAGED),
        (ValueError("y" * 300), DAMAGED),
        (ValueError("Header info length is large: use allow_pickle=True"), DAMAGED),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), DAMAGED),
        (OSError(5, "in line 7", "x.npz"), "^x.npz cannot be read: Input/output error$"),
        (RuntimeError("File 'a' is\nencrypted"), "^x.npz cannot be read: File 'a' is encrypted$"),
        (NotImplementedError("not supported" + "y" * 300), f"not supported{'y' * 187}...$"),
        (ValueError("Object arrays cannot be loaded when allow_pickle=False"), "pickles are never loaded"),
        (ValueError("x.npz holds no numbers"), "^x.npz holds no numbers$"),
    ],
)
def test_an_error_of_a_library_becomes_one_line_that_names_the_file(error, message):
    with pytest.raises((ValueError, OSError), match=message) as caught, broken_is_named(Path("x.npz")):
        raise error
    assert "\n" not in str(caught.value)


def test_too_little_memory_does_not_mean_that_a_file_is_broken():
    with (
        pytest.raises(
            MemoryError, match=r"x\.npz needs more memory than there is: it is too large, or dam"
        ),
        broken_is_named(Path("x.npz")),
    ):
        raise MemoryError("malloc of size 281474976710656 failed")


def test_a_reason_begins_after_the_last_separator():
    assert reason(ValueError("code : 7 : it\nfailed"), " : ") == "it failed"
    assert reason(UnicodeDecodeError("utf-8", b"", 0, 1, "x")).startswith("bytes that are no text")
