"""Images to features: real files, real (tiny) encoders, and naive references for both."""

import json
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from clusterfug.cli import main
from clusterfug.embedding import MEAN, STD, embed
from clusterfug.io.images import find, labels_of_images, read_image

DOCUMENT = Path(__file__).parent.parent / "docs" / "embedding.md"
WEIGHTS = np.random.default_rng(7).normal(size=(5, 3, 3, 3)).astype(np.float32)
MIX = np.random.default_rng(8).normal(size=(3, 4)).astype(np.float32)


def save_model(path, nodes, inputs, outputs, kind=TensorProto.FLOAT, **weights):
    """An ONNX file of nodes (operator, inputs, outputs); shapes of inputs and outputs by name."""
    graph = helper.make_graph(
        [helper.make_node(*node) for node in nodes],
        "encoder",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


CONVOLUTION = [
    ("Conv", ["images", "weights"], ["edges"]),
    ("Relu", ["edges"], ["map"]),
    ("GlobalAveragePool", ["map"], ["pooled"]),
    ("Flatten", ["pooled"], ["features"]),
]


@pytest.fixture
def model(tmp_path):
    """Convolution, rectifier, average: any batch, any size; the map is an output, too."""
    return save_model(
        tmp_path / "encoder.onnx",
        CONVOLUTION,
        {"images": ["n", 3, "h", "w"]},
        {"features": ["n", 5], "map": ["n", 5, "a", "b"]},
        weights=WEIGHTS,
    )


@pytest.fixture
def folder(tmp_path, rng):
    """Ten images of several shapes."""
    (tmp_path / "images").mkdir()
    for i in range(10):
        shape = (30 + 7 * i, 64 - 3 * i, 3)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(tmp_path / f"images/{i}.png")
    return tmp_path / "images"


@pytest.fixture
def run(capfd):
    """Run a command; returns exit code, standard output and standard error, those of C++ too."""

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return stop.value.code or 0, out, err

    return run


def naive_pixels(image, size, resize, mean=MEAN, std=STD):
    """The recipe of most encoders, word by word: (3, size, size) numbers."""
    scale = resize / min(image.size)
    image = image.resize(
        (int(image.width * scale + 1e-9), int(image.height * scale + 1e-9)), Image.BILINEAR
    )
    top, left = round((image.height - size) / 2), round((image.width - size) / 2)
    middle = np.asarray(image, dtype=np.float64)[top : top + size, left : left + size]
    return np.stack([(middle[:, :, c] / 255 - mean[c]) / std[c] for c in range(3)])


def naive_map(pixels):
    """Convolution and rectifier, one output pixel at a time."""
    height, width = pixels.shape[1] - 2, pixels.shape[2] - 2
    found = np.empty((5, height, width))
    for y in range(height):
        for x in range(width):
            found[:, y, x] = np.tensordot(WEIGHTS, pixels[:, y : y + 3, x : x + 3], 3)
    return np.maximum(found, 0)


def naive_features(folder, size, resize):
    images = [Image.open(path) for path in sorted(folder.glob("*.png"))]
    return np.array([naive_map(naive_pixels(image, size, resize)).mean(axis=(1, 2)) for image in images])


def lines(path):
    return path.read_text().splitlines()


def interrupt(*_, **__):
    raise KeyboardInterrupt


def interrupt_at(count):
    """A callback that stops a run after so many images."""
    return lambda phase, done, total: interrupt() if (phase, done) == ("images", count) else None


def test_features_are_those_of_the_naive_network(folder, model, tmp_path):
    done = embed(folder, model, tmp_path / "x.npy", size=21)
    X = np.load(tmp_path / "x.npy")
    assert (X.shape, X.dtype) == ((10, 5), np.float32)
    np.testing.assert_allclose(X, naive_features(folder, 21, 24), rtol=1e-5)
    assert lines(tmp_path / "x.files.txt") == [f"{i}.png" for i in range(10)]
    assert (done.n, done.d, done.skipped, done.classes, done.resumed) == (10, 5, {}, None, 0)
    assert done.files == (tmp_path / "x.npy", tmp_path / "x.files.txt")
    assert sorted(path.name for path in tmp_path.glob("x.*")) == ["x.files.txt", "x.npy"]


def test_without_resampling_the_pixels_are_the_image(tmp_path, rng):
    pixels = rng.integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 16, 16), pixels[:, 4:20])
    np.testing.assert_array_equal(read_image(tmp_path / "a.png", 10, 16), pixels[3:13, 7:17])


@pytest.mark.parametrize("batch", [1, 2, 3, 10, 32])
def test_the_batch_changes_nothing(folder, model, tmp_path, batch):
    embed(folder, model, tmp_path / "x.npy", size=20)
    embed(folder, model, tmp_path / "y.npy", size=20, batch=batch)
    embed(folder, model, tmp_path / "z.npy", size=20, batch=batch)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy"), rtol=1e-5)
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "z.npy").read_bytes()


def test_a_model_says_its_batch_and_size(folder, tmp_path):
    model = save_model(
        tmp_path / "fixed.onnx",
        CONVOLUTION,
        {"images": [4, 3, 14, 14]},
        {"features": [4, 5]},
        weights=WEIGHTS,
    )
    (folder / "5.png").write_bytes(b"nothing")
    embed(folder, model, tmp_path / "x.npy")
    (folder / "5.png").unlink()
    assert (tmp_path / "x.npy").stat().st_size == 128 + 9 * 5 * 4  # no row of padding is left
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), naive_features(folder, 14, 16), rtol=1e-5)


def test_channels_may_come_last(folder, tmp_path):
    model = save_model(
        tmp_path / "last.onnx",
        [("MatMul", ["images", "mix"], ["map"]), ("Relu", ["map"], ["features"])],
        {"images": ["n", "h", "w", 3]},
        {"features": ["n", "h", "w", 4]},
        mix=MIX,
    )
    embed(folder, model, tmp_path / "x.npy", size=12, resize=12, mean=(0.5, 0.4, 0.3), std=(1, 0.5, 0.25))
    images = [Image.open(path) for path in sorted(folder.glob("*.png"))]
    pixels = [naive_pixels(image, 12, 12, (0.5, 0.4, 0.3), (1, 0.5, 0.25)) for image in images]
    expected = [np.maximum(np.tensordot(MIX, p, (0, 0)), 0).mean(axis=(1, 2)) for p in pixels]
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), expected, rtol=1e-4, atol=1e-6)


def test_tokens_are_averaged(folder, tmp_path):
    model = save_model(
        tmp_path / "tokens.onnx",
        [
            ("Reshape", ["images", "shape"], ["rows"]),
            ("Transpose", ["rows"], ["turned"]),
            ("Transpose", ["turned"], ["tokens"]),
        ],
        {"images": ["n", 3, 8, 8]},
        {"tokens": ["n", 3, 64]},
        shape=np.array([0, 3, 64]),
    )
    embed(folder, model, tmp_path / "x.npy", resize=8)
    images = [Image.open(path) for path in sorted(folder.glob("*.png"))]
    expected = [naive_pixels(image, 8, 8).mean(axis=0).ravel() for image in images]
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layer", ["features", "map", "pooled"])
def test_a_layer_is_an_output_or_inside(folder, model, tmp_path, layer):
    embed(folder, model, tmp_path / "x.npy", size=16, layer=layer)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), naive_features(folder, 16, 18), rtol=1e-5)


def test_a_layer_inside_a_model_with_weights_of_their_own_and_long_names(folder, tmp_path, monkeypatch):
    long = "/encoder/" + "block/" * 40
    nodes = [
        ("Conv", ["images", "weights"], [long]),
        ("Relu", [long], ["map"]),
        ("GlobalAveragePool", ["map"], ["pooled"]),
    ]
    path = save_model(
        tmp_path / "one.onnx", nodes, {"images": ["n", 3, 16, 16]}, {"pooled": None}, weights=WEIGHTS
    )
    apart = tmp_path / "apart.onnx"
    onnx.save(
        onnx.load(path), apart, save_as_external_data=True, location="apart.onnx.data", size_threshold=0
    )
    monkeypatch.chdir(folder)
    embed(folder, path, tmp_path / "x.npy", layer=long)
    embed(folder, apart, tmp_path / "y.npy", layer=long)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
    embed(folder, apart, tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), naive_features(folder, 16, 18), rtol=1e-5)


def test_half_precision(folder, model, tmp_path):
    embed(folder, model, tmp_path / "x.npy", size=16)
    embed(folder, model, tmp_path / "y.npy", size=16, dtype="float16")
    expected = np.load(tmp_path / "x.npy").astype(np.float16)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    assert np.load(tmp_path / "y.npy").dtype == np.float16


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [(TensorProto.FLOAT16, 1e-2), (TensorProto.FLOAT, 1e-5), (TensorProto.DOUBLE, 1e-6)],
)
def test_a_model_may_have_any_precision(folder, tmp_path, kind, tolerance):
    same = [("Identity", ["images"], ["features"])]
    shape = {"images": ["n", 3, 16, 16]}
    model = save_model(tmp_path / "same.onnx", same, shape, {"features": None}, kind=kind)
    embed(folder, model, tmp_path / "x.npy")
    images = [Image.open(path) for path in sorted(folder.glob("*.png"))]
    expected = [naive_pixels(image, 16, 18).mean(axis=(1, 2)) for image in images]
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), expected, atol=tolerance)


def test_features_that_are_not_finite_are_skipped(folder, tmp_path):
    Image.new("RGB", (20, 20), "black").save(folder / "3.png")
    model = save_model(
        tmp_path / "log.onnx",
        [("GlobalAveragePool", ["images"], ["mean"]), ("Log", ["mean"], ["features"])],
        {"images": ["n", 3, 20, 20]},
        {"features": ["n", 3, 1, 1]},
    )
    done = embed(folder, model, tmp_path / "x.npy", mean=(0, 0, 0), std=(1, 1, 1))
    assert done.skipped == {"3.png": "its features are not finite in float32"}
    assert np.isfinite(np.load(tmp_path / "x.npy")).all()
    assert len(np.load(tmp_path / "x.npy")) == len(lines(tmp_path / "x.files.txt")) == 9


@pytest.mark.large
def test_the_example_of_the_documentation(folder, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    code = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch's older exporter
        exec(code, names)
    embed(folder, "encoder.onnx", "x.npy")
    images = [Image.open(path) for path in sorted(folder.glob("*.png"))]
    pixels = torch.tensor(
        np.array([naive_pixels(image, 224, 256) for image in images]), dtype=torch.float32
    )
    with torch.no_grad():
        expected = names["encoder"](pixels).numpy()
    np.testing.assert_allclose(np.load("x.npy"), expected, rtol=1e-4, atol=1e-5)


# What is in a file


def test_every_kind_of_pixel_becomes_rgb(tmp_path, rng):
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


def test_broken_images_are_skipped_and_listed(run, folder, model, tmp_path):
    whole = (folder / "4.png").read_bytes()
    (folder / "1.png").write_bytes(b"not an image")
    (folder / "4.png").write_bytes(whole[: len(whole) // 2])
    (folder / "6.png").unlink()
    (folder / "6.png").symlink_to("nowhere")
    Image.fromarray(np.ones((9, 9), np.float32)).save(folder / "8.tif")
    (folder / "9.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n")
    code, out, err = run("embed", folder, model, "-o", tmp_path / "x.npy", "--batch", 3, "--size", 16)
    assert (code, err) == (0, "")
    skipped = dict(line.split("\t") for line in lines(tmp_path / "x.skipped.txt"))
    assert list(skipped) == ["1.png", "4.png", "6.png", "8.tif", "9.png"]
    assert skipped["1.png"] == skipped["9.png"] == "not an image of a known format"
    assert skipped["6.png"] == "No such file or directory"
    assert skipped["8.tif"] == "its pixels have 32 bits: save it with 8 or 16"
    for name, reason in skipped.items():
        assert f"skipped {name}: {reason}" in out
    kept = [f"{i}.png" for i in (0, 2, 3, 5, 7, 8)]
    assert lines(tmp_path / "x.files.txt") == kept
    alone = embed([folder / name for name in kept], model, tmp_path / "y.npy", size=16, batch=3)
    assert alone.skipped == {}
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy"), rtol=1e-5)
    assert not (tmp_path / "y.skipped.txt").exists()


def test_a_list_of_skipped_images_that_is_long_is_in_a_file(run, tmp_path, model):
    (tmp_path / "many").mkdir()
    for i in range(30):
        (tmp_path / f"many/{i:02}[red].jpg").write_bytes(b"")
    Image.new("RGB", (9, 9)).save(tmp_path / "many/good.gif")
    code, out, err = run("embed", tmp_path / "many", model, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")
    assert "skipped 19[red].jpg" in out
    assert "20[red].jpg" not in out
    assert f"and 10 more: {tmp_path / 'x.skipped.txt'}" in out
    assert len(lines(tmp_path / "x.skipped.txt")) == 30


# Which images, and of which class


def test_images_are_found_in_folders_by_ending(tmp_path):
    for name in ("b/1.JPG", "b/c/2.jpeg", "a.webp", "B.png", ".hidden.png", ".cache/3.png", "a.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b/up").symlink_to(tmp_path)
    (tmp_path / "linked").symlink_to(tmp_path / "b/c")  # searched once
    assert find(tmp_path) == (tmp_path, ["B.png", "a.webp", "b/1.JPG", "b/c/2.jpeg"])


def test_folders_are_classes(folder, model, tmp_path):
    for i, name in enumerate(["10", "9", "dog", "9"]):
        (folder / name / "deep").mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.png").rename(folder / name / f"deep/{i}.png")
    done = embed(folder, model, tmp_path / "x.npy", size=16)
    assert done.classes is None  # other images are beside the folders
    for path in folder.glob("*.png"):
        path.unlink()
    (folder / "dog/a.png").write_bytes(b"broken")
    done = embed(folder, model, tmp_path / "x.npy", size=16)
    assert (done.n, done.classes) == (4, 3)
    assert lines(tmp_path / "x.files.txt") == [
        "10/deep/0.png",
        "9/deep/1.png",
        "9/deep/3.png",
        "dog/deep/2.png",
    ]
    assert lines(tmp_path / "x.classes.txt") == ["10", "9", "dog"]
    labels = np.load(tmp_path / "x.labels.npy")
    assert labels.dtype == np.int64
    assert labels.tolist() == [0, 1, 1, 2]
    embed(folder / "9", model, tmp_path / "x.npy", size=16)  # one folder says nothing
    assert sorted(path.name for path in tmp_path.glob("x.*")) == ["x.files.txt", "x.npy"]


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
def test_label_files(tmp_path, content, numbers, classes):
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
def test_bad_label_files(tmp_path, content, message):
    (tmp_path / "labels.txt").write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        labels_of_images(tmp_path / "labels.txt", ["1.png", "b/a.png", "c/a.png"])


def test_labels_follow_the_images_that_are_left(run, folder, model, tmp_path):
    (folder / "2.png").write_bytes(b"")
    (tmp_path / "val.txt").write_text("".join(f"{i}.png {10 - i}\n" for i in range(10)))
    code, out, _ = run(
        "embed", folder, model, "-o", tmp_path / "x.npy", "--labels", tmp_path / "val.txt", "--json"
    )
    report = json.loads(out)
    assert (code, report["n"], report["d"], report["classes"]) == (0, 9, 5, 9)
    assert list(report["skipped"]) == ["2.png"]
    assert report["output"] == report["files"][0] == str(tmp_path / "x.npy")
    assert np.load(tmp_path / "x.labels.npy").tolist() == [10, 9, 7, 6, 5, 4, 3, 2, 1]
    assert not (tmp_path / "x.classes.txt").exists()


def test_names_that_are_no_utf8(run, tmp_path, model):
    (tmp_path / "odd").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "good.png")
    os.rename(tmp_path / "good.png", os.fsencode(tmp_path / "odd") + b"/\xff.png")
    (tmp_path / "odd" / os.fsdecode(b"\xfe.png")).write_bytes(b"")
    code, out, err = run("embed", tmp_path / "odd", model, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")
    assert "skipped ?.png" in out
    assert (tmp_path / "x.files.txt").read_bytes() == b"\xff.png\n"


# Stopping and going on


def test_a_stopped_run_goes_on_to_the_same_bytes(folder, model, tmp_path):
    (folder / "2.png").write_bytes(b"broken")
    options = {"size": 16, "batch": 3}
    embed(folder, model, tmp_path / "whole.npy", **options)
    for count in (0, 3, 6, 9, 10):
        output = tmp_path / f"{count}.npy"
        with pytest.raises(KeyboardInterrupt):
            embed(folder, model, output, callback=interrupt_at(count), **options)
        assert not output.exists()
        done = embed(folder, model, output, **options)
        assert done.resumed == count
        assert list(done.skipped) == ["2.png"]
        assert output.read_bytes() == (tmp_path / "whole.npy").read_bytes()
        for ending in (".files.txt", ".skipped.txt"):
            other = tmp_path / f"whole{ending}"
            assert output.with_suffix(ending).read_bytes() == other.read_bytes()
        assert not (tmp_path / f"{count}.npy.partial").exists()


def test_what_was_done_is_not_done_again(folder, model, tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, tmp_path / "x.npy", size=16, batch=4, callback=interrupt_at(8))
    read = []
    monkeypatch.setattr(
        "clusterfug.io.images.read_image",
        lambda path, *sizes: read.append(path.name) or read_image(path, *sizes),
    )
    embed(folder, model, tmp_path / "x.npy", size=16, batch=4)
    assert sorted(read) == ["8.png", "9.png"]


@pytest.mark.parametrize("moment", ["between batches", "while progress is written"])
def test_a_killed_process_goes_on(folder, model, tmp_path, moment):
    code = f"""
import os, signal
from pathlib import Path
from clusterfug.embedding import embed

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def callback(phase, done, total):
    if done == 4 and {moment == "while progress is written"}:
        Path.replace = die
    if done == 6:
        die()

embed({str(folder)!r}, {str(model)!r}, {str(tmp_path / "x.npy")!r}, size=16, batch=2, callback=callback)
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "x.npy").exists()
    done = embed(folder, model, tmp_path / "x.npy", size=16, batch=2)
    assert done.resumed == (6 if moment == "between batches" else 4)
    embed(folder, model, tmp_path / "y.npy", size=16, batch=2)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
    assert not (tmp_path / "x.npy.partial").exists()


def test_a_run_that_was_stopped_at_the_very_end_starts_over(folder, model, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("clusterfug.embedding.Unfinished.remove", interrupt)
        with pytest.raises(KeyboardInterrupt):
            embed(folder, model, tmp_path / "x.npy", size=16)
    before = (tmp_path / "x.npy").read_bytes()
    assert embed(folder, model, tmp_path / "x.npy", size=16).resumed == 0
    assert (tmp_path / "x.npy").read_bytes() == before
    assert not (tmp_path / "x.npy.partial").exists()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"size": 17, "resize": 18}, "size"),
        ({"resize": 19}, "resize"),
        ({"mean": (0.5, 0.5, 0.5)}, "mean"),
        ({"std": (0.5, 0.5, 0.5)}, "std"),
        ({"layer": "map"}, "layer"),
        ({"dtype": "float16"}, "dtype"),
    ],
)
def test_other_settings_are_refused(folder, model, tmp_path, change, name):
    output = tmp_path / "x.npy"
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, output, size=16, batch=4, callback=interrupt_at(8))
    with pytest.raises(ValueError, match=rf"unfinished run with other settings \({name}\): .* --restart"):
        embed(folder, model, output, **({"size": 16} | change))
    embed(folder, model, tmp_path / "y.npy", **({"size": 16} | change))
    done = embed(folder, model, output, restart=True, **({"size": 16} | change))
    assert done.resumed == 0
    assert output.read_bytes() == (tmp_path / "y.npy").read_bytes()


def test_other_images_and_another_model_are_refused(run, folder, model, tmp_path):
    output = tmp_path / "x.npy"
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, output, size=16, batch=4, callback=interrupt_at(4))
    kept = (folder / "7.png").stat()
    os.utime(folder / "7.png", ns=(0, 0))
    code, out, err = run("embed", folder, model, "-o", output, "--size", 16)
    assert (code, out) == (2, "")
    assert err == (
        f"clusterfug: error: {output}.partial is an unfinished run with other settings (images): "
        "repeat its command to go on, or start over with --restart\n"
    )
    os.utime(folder / "7.png", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    save_model(
        model, CONVOLUTION, {"images": ["n", 3, "h", "w"]}, {"features": ["n", 5]}, weights=WEIGHTS + 1
    )
    code, _, err = run("embed", folder, model, "-o", output, "--size", 16)
    assert (code, "unfinished run with other settings (model):" in err) == (2, True)
    code, _, err = run("embed", folder, model, "-o", output, "--size", 16, "--restart")
    assert (code, err) == (0, "")


def test_another_batch_may_go_on(folder, model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, tmp_path / "x.npy", size=16, batch=4, callback=interrupt_at(4))
    assert embed(folder, model, tmp_path / "x.npy", size=16, batch=1).resumed == 4
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), naive_features(folder, 16, 18), rtol=1e-5)


def test_two_runs_do_not_write_one_output(folder, model, tmp_path):
    def again(phase, done, total):
        if done == 4:
            with pytest.raises(ValueError, match="another run is writing"):
                embed(folder, model, tmp_path / "x.npy", size=16)

    embed(folder, model, tmp_path / "x.npy", size=16, batch=4, callback=again)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), naive_features(folder, 16, 18), rtol=1e-5)


def test_ctrl_c_says_how_to_go_on(run, folder, model, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("clusterfug.embedding.Unfinished.append", interrupt)
        stopped = run("embed", folder, model, "-o", tmp_path / "x.npy")
    assert stopped == (130, "", "clusterfug: interrupted; repeat the command to go on\n")
    code, _, err = run("embed", folder, model, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")


def test_the_table(run, folder, model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, tmp_path / "x.npy", batch=4, callback=interrupt_at(4))
    code, out, err = run("embed", folder, model, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")
    table = dict(line.split("  ", 1) for line in out.splitlines() if line[0] != " ")
    assert list(table) == ["images", "skipped", "features", "seconds", "images per second", "files"]
    assert table["images"].strip() == "10, 4 of an earlier run"
    assert table["features"].strip() == "5 (float32)"


# What can go wrong


@pytest.fixture
def models(tmp_path, model):
    """Models that are no encoders of images, beside one that is."""
    free = ["n", 3, "h", "w"]
    pool = [("GlobalAveragePool", ["images"], ["features"])]
    out = {"features": None}
    save_model(tmp_path / "grey.onnx", pool, {"images": ["n", 1, "h", "w"]}, out)
    save_model(tmp_path / "wide.onnx", pool, {"images": ["n", 3, 256, 128]}, out)
    save_model(tmp_path / "small.onnx", pool, {"images": [2, 3, 8, 8]}, out)
    save_model(tmp_path / "flat.onnx", [("Relu", ["images"], ["features"])], {"images": ["n", 9]}, out)
    save_model(
        tmp_path / "two.onnx",
        [("Add", ["images", "more"], ["features"])],
        {"images": free, "more": free},
        out,
    )
    save_model(tmp_path / "one.onnx", [("Size", ["images"], ["n"]), *pool], {"images": free}, out)
    (tmp_path / "bad.onnx").write_text("not a model")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none", "encoder.onnx"], "none does not exist"),
        (["bad.onnx", "encoder.onnx"], "bad.onnx is a file, not a folder of images"),
        (["empty", "encoder.onnx"], "empty has no images: their names must end in .jpg, .jpeg"),
        (["broken", "encoder.onnx"], "none of the 2 images can be embedded; 1.jpg: not an image"),
        (["images", "none.onnx"], "none.onnx does not exist"),
        (["images", "bad.onnx"], "bad.onnx is not an ONNX model that can be run: Load model from"),
        (["images", "images"], "images is a folder, not a file"),
        (["images", "grey.onnx"], "grey.onnx takes images of 1 channels: it must take 3 (RGB)"),
        (["images", "wide.onnx"], "wide.onnx takes images of 256 x 128: they must be square"),
        (["images", "flat.onnx"], "flat.onnx takes tensor(float) of shape ['n', 9]: it must take floats"),
        (["images", "two.onnx"], "two.onnx needs 2 inputs (images, more)"),
        (["images", "small.onnx", "--size", "9"], "small.onnx has size 8, not 9: leave --size out"),
        (["images", "small.onnx", "--batch", "3"], "small.onnx has batch 2, not 3: leave --batch out"),
        (["images", "encoder.onnx", "--size", "2"], "encoder.onnx fails on 2 images of 2 x 2:"),
        (["images", "encoder.onnx", "--size", "0"], "size must be at least 1, not 0"),
        (["images", "encoder.onnx", "--size", "big"], "Invalid value for '--size'"),
        (["images", "encoder.onnx", "--resize", "200"], "resize must be at least the size, 224, not 200"),
        (["images", "encoder.onnx", "--batch", "0"], "batch must be at least 1, not 0"),
        (["images", "encoder.onnx", "--mean", "0.5"], "mean must be three numbers between 0 and 1"),
        (["images", "encoder.onnx", "--mean", "a,b,c"], "--mean must be R,G,B (0.5,0.5,0.5), not 'a,b,c'"),
        (["images", "encoder.onnx", "--mean", "123.7,116.3,103.5"], "between 0 and 1 (red, green, blue)"),
        (["images", "encoder.onnx", "--mean", "nan,0,0"], "mean must be a finite number"),
        (["images", "encoder.onnx", "--std", "0,1,1"], "std must be above 0"),
        (["images", "encoder.onnx", "--dtype", "int8"], "Invalid value for '--dtype'"),
        (["images", "encoder.onnx", "--layer", "nope"], "no layer 'nope': its outputs are features, map;"),
        (["images", "encoder.onnx", "--layer", ""], "encoder.onnx has no layer ''"),
        (["images", "encoder.onnx", "--layer", "weights"], "'weights' is float32 of shape (5, 3, 3, 3)"),
        (["images", "one.onnx", "--layer", "n"], "'n' is int64 of shape () for 2 images"),
        (["images", "encoder.onnx", "--labels", "none.txt"], "none.txt does not exist"),
        (["images", "encoder.onnx", "--labels", "labels.txt"], "labels.txt has no label for 1.png"),
        (["images", "encoder.onnx", "--labels", "x.classes.txt"], "cannot write x.classes.txt: it is an"),
        (["images", "encoder.onnx", "-o", "x.csv"], "cannot write x.csv: its name must end in .npy"),
        (["images", "encoder.onnx", "-o", "no/x.npy"], "the folder no does not exist"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    run, folder, models, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/1.jpg").write_bytes(b"broken")
    (tmp_path / "broken/2.jpg").touch()
    (tmp_path / "labels.txt").write_text("0.png 1\n")
    (tmp_path / "x.classes.txt").write_text("0.png 1\n")
    before = sorted(tmp_path.rglob("*"))
    if "-o" not in arguments:
        arguments = [*arguments, "-o", "x.npy"]
    code, out, err = run("embed", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(tmp_path.rglob("*")) == before


def test_a_list_of_images_must_be_one(model, tmp_path):
    with pytest.raises(ValueError, match="the list is empty"):
        embed([], model, tmp_path / "x.npy")
    with pytest.raises(ValueError, match="listed twice"):
        embed(["a.png", "a.png"], model, tmp_path / "x.npy")
    with pytest.raises(ValueError, match="has a line break: rename it"):
        embed(["a\nb.png"], model, tmp_path / "x.npy")


@pytest.mark.parametrize("package", ["onnxruntime", "PIL"])
def test_a_missing_extra_is_named(run, folder, model, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = run("embed", folder, model, "-o", tmp_path / "x.npy")
    assert (code, err) == (
        2,
        "clusterfug: error: embedding images needs onnxruntime and pillow: "
        "pip install 'clusterfug[embed]'\n",
    )


def test_importing_the_command_is_light():
    code = "import sys, clusterfug.cli; print([n for n in ('onnxruntime', 'PIL') if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert result.stdout == "[]\n"
