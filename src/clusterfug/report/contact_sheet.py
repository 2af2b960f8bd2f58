"""A picture of a clustering of small grey images: one row per cluster, written as PNG."""

import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Digits as 3 x 5 dots: five octal figures each, one per row of dots.
_DIGITS = ("75557", "26227", "71747", "71717", "55711", "74717", "74757", "71111", "75757", "75717")
_SCALE = 3  # pixels per dot, and per pixel of an image


def contact_sheet(
    images: NDArray[np.uint8], labels: NDArray[np.int64], columns: int = 24
) -> NDArray[np.uint8]:
    """Return a picture with one row per cluster, by falling size: the size, then its first images."""
    sizes = np.bincount(labels)
    height, width = (side * _SCALE + 3 for side in images.shape[1:])
    margin = 4 * _SCALE * len(str(sizes.max())) + 6
    sheet = np.full((height * len(sizes) + 3, margin + width * columns + 3), 24, dtype=np.uint8)
    for row, c in enumerate(np.argsort(-sizes, kind="stable")):
        top = row * height + 3
        _write_number(sheet, int(sizes[c]), top + (height - 3 - 5 * _SCALE) // 2, margin - 4)
        for column, item in enumerate(np.flatnonzero(labels == c)[:columns]):
            left = margin + column * width + 3
            picture = np.kron(images[item], np.ones((_SCALE, _SCALE), dtype=np.uint8))
            sheet[top : top + height - 3, left : left + width - 3] = picture
    return sheet


def _write_number(sheet: NDArray[np.uint8], number: int, top: int, right: int) -> None:
    """Draw a number into the sheet."""
    for place, figure in enumerate(reversed(str(number))):
        dots = [[int(row) >> (2 - p) & 1 for p in range(3)] for row in _DIGITS[int(figure)]]
        glyph = np.kron(np.array(dots, dtype=bool), np.ones((_SCALE, _SCALE), dtype=bool))
        left = right - (place + 1) * 4 * _SCALE + _SCALE
        sheet[top : top + 5 * _SCALE, left : left + 3 * _SCALE][glyph] = 255


def write_png(path: Path, grey: NDArray[np.uint8]) -> None:
    """Write a grey (h, w) picture as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    height, width = grey.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each line starts with its filter, 0 for none
    lines[:, 1:] = grey
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + chunk(b"IEND", b"")
    )
