"""An encoder and images to embed."""

import pytest
from makers import save_encoder, save_images


@pytest.fixture
def model(tmp_path):
    return save_encoder(tmp_path / "encoder.onnx")


@pytest.fixture
def folder(tmp_path, rng):
    return save_images(tmp_path / "images", rng)
