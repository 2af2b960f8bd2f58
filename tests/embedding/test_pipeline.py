"""`embed` writes the features of a naive implementation, and skips images without features."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from makers import CONVOLUTION_WEIGHTS, save_onnx
from PIL import Image
from reference import convolution_features, encoder_input

from clusterfug.embedding import embed

DOCUMENT = Path(__file__).parents[2] / "docs" / "embedding.md"


def lines(path):
    return path.read_text().splitlines()


def test_features_equal_those_of_the_naive_network(folder, model, tmp_path):
    done = embed(folder, model, tmp_path / "x.npy", size=21)
    X = np.load(tmp_path / "x.npy")
    assert (X.shape, X.dtype) == ((10, 5), np.float32)
    np.testing.assert_allclose(X, convolution_features(folder, CONVOLUTION_WEIGHTS, 21, 24), rtol=1e-5)
    assert lines(tmp_path / "x.files.txt") == [f"{i}.png" for i in range(10)]
    assert (done.n, done.d, done.skipped, done.classes, done.resumed) == (10, 5, {}, None, 0)
    assert done.files == (tmp_path / "x.npy", tmp_path / "x.files.txt")
    assert sorted(path.name for path in tmp_path.glob("x.*")) == ["x.files.txt", "x.npy"]


def test_half_precision(folder, model, tmp_path):
    embed(folder, model, tmp_path / "x.npy", size=16)
    embed(folder, model, tmp_path / "y.npy", size=16, dtype="float16")
    expected = np.load(tmp_path / "x.npy").astype(np.float16)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)
    assert np.load(tmp_path / "y.npy").dtype == np.float16


def test_features_that_are_not_finite_are_skipped(folder, tmp_path):
    Image.new("RGB", (20, 20), "black").save(folder / "3.png")
    model = save_onnx(
        tmp_path / "log.onnx",
        [("GlobalAveragePool", ["images"], ["mean"]), ("Log", ["mean"], ["features"])],
        {"images": ["n", 3, 20, 20]},
        {"features": ["n", 3, 1, 1]},
    )
    done = embed(folder, model, tmp_path / "x.npy", mean=(0, 0, 0), std=(1, 1, 1))
    assert done.skipped == {"3.png": "its features are not finite in float32"}
    assert np.isfinite(np.load(tmp_path / "x.npy")).all()
    assert len(np.load(tmp_path / "x.npy")) == len(lines(tmp_path / "x.files.txt")) == 9


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


def test_a_list_of_images_must_be_valid(model, tmp_path):
    with pytest.raises(ValueError, match="the list is empty"):
        embed([], model, tmp_path / "x.npy")
    with pytest.raises(ValueError, match="listed twice"):
        embed(["a.png", "a.png"], model, tmp_path / "x.npy")
    with pytest.raises(ValueError, match="has a line break: rename it"):
        embed(["a\nb.png"], model, tmp_path / "x.npy")


def test_the_example_of_the_documentation_exports_an_encoder(folder, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    code = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    names = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # by torch's older exporter
        exec(code, names)
    embed(folder, "encoder.onnx", "x.npy")
    paths = sorted(folder.glob("*.png"))
    pixels = torch.tensor(np.array([encoder_input(path, 224, 256) for path in paths]), dtype=torch.float32)
    with torch.no_grad():
        expected = names["encoder"](pixels).numpy()
    np.testing.assert_allclose(np.load("x.npy"), expected, rtol=1e-4, atol=1e-5)
