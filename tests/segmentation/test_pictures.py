"""Pictures are read by pillow, in known formats only."""

import pytest

from clusterfug.segmentation.pictures import read_picture


def test_a_picture_is_decoded_only_if_its_format_is_known(tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n")
    with pytest.raises(ValueError, match=r"x\.png is broken: "):
        read_picture(path)
