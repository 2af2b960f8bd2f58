"""An ONNX model from images to vectors, through onnxruntime (extra `[embed]`)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.execution.threads import cores

_INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
_SPINNING = "session.intra_op.allow_spinning"


class Encoder:
    """An ONNX model from pixels to features. Making one tries it on blank images."""

    def __init__(
        self,
        model: Path,
        size: int | None,
        mean: Sequence[float],
        std: Sequence[float],
        layer: str | None,
        batch: int | None,
    ):
        self.mean, self.std = _colours("mean", mean), _colours("std", std)
        if not self.std.all():
            raise ValueError("std must be above 0")
        self._model = model
        self._session = _session(model, layer)
        self.layer = layer or self._session.get_outputs()[0].name
        of_model = self._session.get_inputs()
        if len(of_model) != 1:
            names = ", ".join(one.name for one in of_model)
            raise ValueError(f"{model} needs {len(of_model)} inputs ({names}): it must need images only")
        self._input = of_model[0]
        shape = self._input.shape
        if len(shape) != 4 or self._input.type not in _INPUT_TYPES:
            raise ValueError(
                f"{model} takes {self._input.type} of shape {shape}: it must take floats, "
                "batch x 3 x height x width or batch x height x width x 3"
            )
        self._channels_last = shape[3] == 3 and shape[1] != 3
        channels, *sides = shape[3:] + shape[1:3] if self._channels_last else shape[1:]
        if isinstance(channels, int) and channels != 3:
            raise ValueError(f"{model} takes images of {channels} channels: it must take 3 (RGB)")
        self.size = self._fixed("size", size, sides, 224)
        self.batch = self._fixed("batch", batch, shape[:1], 32)
        self._padded = isinstance(shape[0], int)
        self.d = self(np.zeros((min(self.batch, 2), self.size, self.size, 3), np.uint8)).shape[1]

    def _fixed(self, name: str, wanted: int | None, by_model: list[Any], default: int) -> int:
        """A number that the model may have fixed: then nothing else is possible."""
        numbers = {number for number in by_model if isinstance(number, int)}
        if len(numbers) > 1:
            shape = " x ".join(str(number) for number in by_model)
            raise ValueError(f"{self._model} takes images of {shape}: they must be square")
        number = numbers.pop() if numbers else None
        if wanted is not None:
            checks.count(name, wanted)
            if number not in (None, wanted):
                raise ValueError(f"{self._model} has {name} {number}, not {wanted}: leave --{name} out")
        return wanted or number or default

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[Any]:
        """(n, d) features of (n, size, size, 3) pixels."""
        images = (pixels / np.float32(255) - self.mean) / self.std
        if not self._channels_last:
            images = images.transpose(0, 3, 1, 2)
        if self._padded:
            missing = self.batch - len(images)
            images = np.pad(images, [(0, missing), (0, 0), (0, 0), (0, 0)])
        images = np.ascontiguousarray(images, _INPUT_TYPES[self._input.type])
        try:
            [found] = self._session.run([self.layer], {self._input.name: images})
        except Exception as error:
            what = f"{len(images)} images of {self.size} x {self.size}"
            raise ValueError(f"{self._model} fails on {what}: {_reason(error)}") from error
        return self._pooled(np.asarray(found), len(images))[: len(pixels)]

    def _pooled(self, found: NDArray[Any], n: int) -> NDArray[Any]:
        """One row per image: maps (n, d, h, w) and tokens (n, tokens, d) are averaged."""
        if found.ndim not in (2, 3, 4) or len(found) != n or found.dtype.kind not in "fiu":
            raise ValueError(
                f"{self._model}: {self.layer!r} is {found.dtype} of shape {found.shape} for {n} images: "
                "it must hold a vector, tokens or a map per image; choose another --layer"
            )
        axes = {2: (), 3: (1,), 4: (1, 2) if self._channels_last else (2, 3)}[found.ndim]
        return found.mean(axis=axes, dtype=np.float64) if axes else found


def _session(model: Path, layer: str | None) -> Any:
    """The model, with the layer among its outputs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, not printed
    options.intra_op_num_threads = cores()
    options.add_session_config_entry(_WEIGHTS_FOLDER, str(model.parent.resolve()))
    options.add_session_config_entry(_SPINNING, "0")  # threads that wait leave the cores to decoding

    def load(source: str | bytes) -> Any:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])

    try:
        session = load(str(model))
    except Exception as error:
        raise ValueError(f"{model} is not an ONNX model that can be run: {_reason(error)}") from error
    outputs = [one.name for one in session.get_outputs()]
    if layer is None or layer in outputs:
        return session
    try:
        return load(model.read_bytes() + _as_output(layer))
    except Exception:
        raise ValueError(
            f"{model} has no layer {layer!r}: its outputs are {', '.join(outputs)}; "
            "other layers go by the name of their tensor"
        ) from None


def _as_output(tensor: str) -> bytes:
    """What makes a tensor inside a model an output of it, when appended to the file.

    Protocol buffers merge when they are joined: this is a model with a graph (field 7) with an output
    (field 12) with that name (field 1).
    """
    message = tensor.encode()
    for field in (1, 12, 7):
        length, size = len(message), b""
        while length > 127:
            size, length = size + bytes([length % 128 + 128]), length // 128
        message = bytes([field * 8 + 2]) + size + bytes([length]) + message
    return message


def _colours(name: str, values: Sequence[float]) -> NDArray[np.float32]:
    numbers = checks.vector(name, values)
    if len(numbers) != 3 or numbers.min() < 0 or numbers.max() > 1:
        given = ",".join(f"{number:g}" for number in numbers)
        raise ValueError(f"{name} must be three numbers between 0 and 1 (red, green, blue), not {given}")
    return numbers.astype(np.float32)


def _reason(error: Exception) -> str:
    """What ONNX Runtime says, without the codes in front."""
    return " ".join(str(error).split(" : ")[-1].split())
