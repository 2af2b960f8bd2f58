"""The picture is a PNG that an independent decoder reads back, with every image at its place."""

import struct
import zlib

import numpy as np

from clusterfug.report.contact_sheet import contact_sheet, write_png


def decode(data):
    """A grey 8-bit PNG without filters, chunk by chunk."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colour) == (8, 0)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def test_png_round_trip(tmp_path, rng):
    picture = rng.integers(0, 256, size=(13, 7), dtype=np.uint8)
    write_png(tmp_path / "x.png", picture)
    np.testing.assert_array_equal(decode((tmp_path / "x.png").read_bytes()), picture)


def test_rows_are_clusters_by_falling_size():
    images = np.arange(5, dtype=np.uint8)[:, None, None] * np.ones((1, 8, 8), dtype=np.uint8) + 100
    sheet = contact_sheet(images, np.array([0, 1, 1, 0, 1]), columns=2)
    grey = [row[(row >= 100) & (row < 105)] for row in (sheet[15], sheet[15 + 27])]
    assert [list(dict.fromkeys(row.tolist())) for row in grey] == [[101, 102], [100, 103]]
    assert np.count_nonzero(sheet == 255) == (11 + 11) * 9  # a 3 and a 2, eleven dots each
