"""Images are found, read and labelled."""

import os
import re
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from clusterfug.io.images import find_images, labels_of_images, pixels_or_reason, read_image
from clusterfug.segmentation.pictures import read_picture


def test_without_resampling_the_pixels_are_the_image(tmp_path, rng):
    pixels = rng.integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 16, 16), pixels[:, 4:20])
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 10, 16), pixels[3:13, 7:17])


def test_every_pixel_format_becomes_rgb(tmp_path, rng):
    def read(image, name="a.png", **options):
        image.save(tmp_path / name, **options)
        return read_image(tmp_path / name, 8, 8)

    grey = rng.integers(0, 256, (8, 8), dtype=np.uint8)
    rgb = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    as_rgb = np.repeat(grey[:, :, None], 3, axis=2)
    np.testing.assert_array_equal(read(Image.fromarray(grey)), as_rgb)
    np.testing.assert_array_equal(read(Image.fromarray(grey.astype(np.uint16) * 257)), as_rgb)
    np.testing.assert_array_equal(read(Image.fromarray(grey.astype(np.uint16) * 257), "a.TIFF"), as_rgb)
    np.testing.assert_array_equal(read(Image.fromarray(grey.astype(np.int32) * 257), "a.tif"), as_rgb)
    np.testing.assert_array_equal(read(Image.fromarray(grey > 127)), (as_rgb > 127) * 255)
    np.testing.assert_array_equal(read(Image.fromarray(rgb), "a.bmp"), rgb)
    np.testing.assert_array_equal(read(Image.fromarray(rgb), "a.webp", lossless=True), rgb)
    opaque = np.dstack([rgb, np.full((8, 8), 255, np.uint8)])
    np.testing.assert_array_equal(read(Image.fromarray(opaque)), rgb)
    opaque[:, :4, 3] = 0
    np.testing.assert_array_equal(read(Image.fromarray(opaque)), np.where(opaque[:, :, 3:] == 0, 255, rgb))
    palette = Image.fromarray(rgb).quantize(16)
    np.testing.assert_array_equal(read(palette, "a.gif"), np.asarray(palette.convert("RGB")))
    cmyk = Image.fromarray(rgb).convert("CMYK")
    assert read(cmyk, "a.jpg").shape == (8, 8, 3)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_turned_photograph_is_upright(tmp_path, rng, orientation):
    upright = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright),
        7: np.rot90(upright[::-1]),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.ascontiguousarray(stored)).save(tmp_path / "a.png", exif=exif)
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 8, 8), upright)


def test_a_very_long_image_does_not_fill_the_memory(tmp_path, monkeypatch):
    Image.new("RGB", (60_000, 1), "red").save(tmp_path / "a.png")
    sizes = []
    resize = Image.Image.resize
    monkeypatch.setattr(
        Image.Image, "resize", lambda self, size, how: sizes.append(size) or resize(self, size, how)
    )
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 8, 9), np.full((8, 8, 3), (255, 0, 0)))
    assert sizes == [(144, 9)]


def test_images_are_found_in_folders_by_ending(tmp_path):
    for name in ("b/1.JPG", "b/c/2.jpeg", "a.webp", "B.png", ".hidden.png", ".cache/3.png", "a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b/up").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "b/c")  # searched once
    assert find_images(tmp_path) == (tmp_path, ["B.png", "a.webp", "b/1.JPG", "b/c/2.jpeg"])


@pytest.mark.parametrize(
    ("content", "numbers", "classes"),
    [
        ("a.png 3\nb/c d.png -1\n\nmore.png 7\n", [3, -1], ()),
        ("./b/c d.png  cat \r\na.png dog\r\n", [1, 0], ("cat", "dog")),
        ("c d.png 3\na.png cat\n", [1, 0], ("3", "cat")),
        ("a.png 99999999999999999999\nc d.png 1\n", [1, 0], ("1", "99999999999999999999")),
        ("5\n6\n", [5, 6], ()),
        ("\ufeff5\r\n\r\n6", [5, 6], ()),
    ],
)
def test_label_files_have_names_or_one_number_per_image(tmp_path, content, numbers, classes):
    (tmp_path / "labels.txt").write_bytes(content.encode())
    found = labels_of_images(tmp_path / "labels.txt", ["a.png", "b/c d.png"])
    assert (found.numbers.tolist(), found.classes) == (numbers, classes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no labels"),
        ("1.png 1\nb/a.png 2\n", "has no label for c/a.png (images without a label: 1)"),
        ("1.png 1\na.png\n", "line 2: lines must be NAME LABEL, and one of them is missing"),
        ("1.png 1\n\n1.png 3\n", "line 3: 1.png has two labels, 1 and 3"),
        ("1.png 1\na.png 2\n", "a.png may be b/a.png or c/a.png; write names with their folders"),
        ("1\n2\n", "holds 2 labels, but there are 3 images"),
        ("1\n2\ncat\n", "must hold lines NAME LABEL, or one whole number per line"),
    ],
)
def test_bad_label_files_are_errors(tmp_path, content, message):
    (tmp_path / "labels.txt").write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        labels_of_images(tmp_path / "labels.txt", ["1.png", "b/a.png", "c/a.png"])


def test_a_pipe_is_no_image(tmp_path):
    os.mkfifo(tmp_path / "a.png")
    assert pixels_or_reason(tmp_path, 8, 8, "a.png") == "not a regular file"


def test_the_error_for_a_picture_that_is_too_large_names_the_limit(tmp_path, monkeypatch):
    Image.new("RGB", (60, 50)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1200)
    message = "too large: pictures may have up to 2,400 pixels"
    assert pixels_or_reason(tmp_path, 8, 8, "a.png") == message
    with pytest.raises(ValueError, match=rf"a\.png cannot be read: {message}$"):
        read_picture(tmp_path / "a.png")


def test_too_little_memory_for_an_image_names_it(tmp_path, monkeypatch):
    monkeypatch.setattr("clusterfug.io.images.read_image", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError, match=r"a\.png needs more memory than there is: use a smaller resize"):
        pixels_or_reason(tmp_path, 8, 8, "a.png")


def test_labels_of_images_in_utf_16_are_named(tmp_path):
    (tmp_path / "labels.txt").write_text("1.png 1\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"labels\.txt is UTF-16 text: save it as UTF-8"):
        labels_of_images(tmp_path / "labels.txt", ["1.png"])
