"""Encoders of all supported kinds give the features of a naive implementation."""

import numpy as np
import onnx
import pytest
from makers import CONVOLUTION, CONVOLUTION_WEIGHTS, save_onnx
from onnx import TensorProto
from reference import convolution_features, encoder_input

from clusterfug.embedding import embed
from clusterfug.embedding.encoder import Encoder

MIX = np.random.default_rng(8).normal(size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize("batch", [1, 2, 3, 10, 32])
def test_features_do_not_depend_on_the_batch(folder, model, tmp_path, batch):
    embed(folder, model, tmp_path / "x.npy", size=20)
    embed(folder, model, tmp_path / "y.npy", size=20, batch=batch)
    embed(folder, model, tmp_path / "z.npy", size=20, batch=batch)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy"), rtol=1e-5)
    assert (tmp_path / "y.npy").read_bytes() == (tmp_path / "z.npy").read_bytes()


def test_a_model_may_fix_its_batch_and_size(folder, tmp_path):
    model = save_onnx(
        tmp_path / "fixed.onnx",
        CONVOLUTION,
        {"images": [4, 3, 14, 14]},
        {"features": [4, 5]},
        weights=CONVOLUTION_WEIGHTS,
    )
    (folder / "5.png").write_bytes(b"nothing")
    embed(folder, model, tmp_path / "x.npy")
    (folder / "5.png").unlink()
    assert (tmp_path / "x.npy").stat().st_size == 128 + 9 * 5 * 4  # no row of padding is left
    np.testing.assert_allclose(
        np.load(tmp_path / "x.npy"), convolution_features(folder, CONVOLUTION_WEIGHTS, 14, 16), rtol=1e-5
    )


def test_channels_may_come_last(folder, tmp_path):
    model = save_onnx(
        tmp_path / "last.onnx",
        [("MatMul", ["images", "mix"], ["map"]), ("Relu", ["map"], ["features"])],
        {"images": ["n", "h", "w", 3]},
        {"features": ["n", "h", "w", 4]},
        mix=MIX,
    )
    embed(folder, model, tmp_path / "x.npy", size=12, resize=12, mean=(0.5, 0.4, 0.3), std=(1, 0.5, 0.25))
    paths = sorted(folder.glob("*.png"))
    pixels = [encoder_input(path, 12, 12, (0.5, 0.4, 0.3), (1, 0.5, 0.25)) for path in paths]
    expected = [np.maximum(np.tensordot(MIX, p, (0, 0)), 0).mean(axis=(1, 2)) for p in pixels]
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), expected, rtol=1e-4, atol=1e-6)


def test_tokens_are_averaged(folder, tmp_path):
    model = save_onnx(
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
    paths = sorted(folder.glob("*.png"))
    expected = [encoder_input(path, 8, 8).mean(axis=0).ravel() for path in paths]
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layer", ["features", "map", "pooled"])
def test_a_layer_is_an_output_or_a_tensor_inside(folder, model, tmp_path, layer):
    embed(folder, model, tmp_path / "x.npy", size=16, layer=layer)
    np.testing.assert_allclose(
        np.load(tmp_path / "x.npy"), convolution_features(folder, CONVOLUTION_WEIGHTS, 16, 18), rtol=1e-5
    )


def test_a_layer_may_be_inside_a_model_with_external_weights_and_long_names(folder, tmp_path, monkeypatch):
    long = "/encoder/" + "block/" * 40
    nodes = [
        ("Conv", ["images", "weights"], [long]),
        ("Relu", [long], ["map"]),
        ("GlobalAveragePool", ["map"], ["pooled"]),
    ]
    path = save_onnx(
        tmp_path / "one.onnx",
        nodes,
        {"images": ["n", 3, 16, 16]},
        {"pooled": None},
        weights=CONVOLUTION_WEIGHTS,
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
    np.testing.assert_allclose(
        np.load(tmp_path / "y.npy"), convolution_features(folder, CONVOLUTION_WEIGHTS, 16, 18), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [(TensorProto.FLOAT16, 1e-2), (TensorProto.FLOAT, 1e-5), (TensorProto.DOUBLE, 1e-6)],
)
def test_a_model_may_have_any_precision(folder, tmp_path, kind, tolerance):
    same = [("Identity", ["images"], ["features"])]
    shape = {"images": ["n", 3, 16, 16]}
    model = save_onnx(tmp_path / "same.onnx", same, shape, {"features": None}, kind=kind)
    embed(folder, model, tmp_path / "x.npy")
    paths = sorted(folder.glob("*.png"))
    expected = [encoder_input(path, 16, 18).mean(axis=(1, 2)) for path in paths]
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), expected, atol=tolerance)


def test_a_damaged_model_is_refused_in_one_line(model, capfd):
    data = model.read_bytes()
    for at in range(0, len(data), 7):
        model.write_bytes(data[:at] + b"\xff" * 4 + data[at + 4 :])
        try:
            encoder = Encoder(model, 8, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), None, None)
        except ValueError as error:
            message = str(error)
        else:
            message = f"{model} has {encoder.d} features"  # of the damage nothing is seen
        assert message.startswith(str(model))
        assert "\n" not in message
        assert "codec" not in message
    assert capfd.readouterr().out == ""
