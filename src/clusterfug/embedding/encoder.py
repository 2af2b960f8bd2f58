"""`Encoder`: an ONNX model that maps images to vectors, run by onnxruntime (extra `[embed]`)."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.execution.threads import cores
from clusterfug.io.broken import reason
from clusterfug.io.images import MAX_SIDE

_INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}

#: What precedes the words of onnxruntime: a code, what it was doing, a line and a function of its source.
_PREFIXES = r" : | failed:|\.(?:cc|h):\d+ [^(]*\([^)]*\) (?:const )?"


class Encoder:
    """An ONNX model that maps pixels to features. The constructor tries it on blank images."""

    def __init__(
        self,
        model: Path,
        size: int | None,
        mean: Sequence[float],
        std: Sequence[float],
        layer: str | None,
        batch: int | None,
    ):
        self.mean, self.std = _channels("mean", mean), _channels("std", std)
        if not self.std.all():
            raise ValueError("std must be above 0")
        self._model = model
        self._session = _session(model, layer)
        self.layer = layer or self._session.get_outputs()[0].name
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            names = ", ".join(each.name for each in inputs)
            raise ValueError(f"{model} needs {len(inputs)} inputs ({names}): it must need images only")
        self._input = inputs[0]
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
        if self.size > MAX_SIDE:
            raise ValueError(f"size must be at most {MAX_SIDE}, not {self.size}")
        self.batch = self._fixed("batch", batch, shape[:1], 32)
        self._padded = isinstance(shape[0], int)
        self.d = self(np.zeros((min(self.batch, 2), self.size, self.size, 3), np.uint8)).shape[1]

    def _fixed(self, name: str, given: int | None, of_model: list[Any], default: int) -> int:
        """Return a dimension: the given one, that of the model, or the default; a model may fix it."""
        numbers = {number for number in of_model if isinstance(number, int)}
        if len(numbers) > 1:
            shape = " x ".join(str(number) for number in of_model)
            raise ValueError(f"{self._model} takes images of {shape}: they must be square")
        number = numbers.pop() if numbers else None
        if given is None:
            return number or default
        checks.count(name, given)
        if number is not None and number != given:
            raise ValueError(f"{self._model} has {name} {number}, not {given}: leave --{name} out")
        return given

    def __call__(self, pixels: NDArray[np.uint8]) -> NDArray[Any]:
        """Return features (n, d) of pixels (n, size, size, 3)."""
        images = (pixels / np.float32(255) - self.mean) / self.std
        if not self._channels_last:
            images = images.transpose(0, 3, 1, 2)
        if self._padded:
            missing = self.batch - len(images)
            images = np.pad(images, [(0, missing), (0, 0), (0, 0), (0, 0)])
        images = np.ascontiguousarray(images, _INPUT_TYPES[self._input.type])
        try:
            [values] = self._session.run([self.layer], {self._input.name: images})
        except Exception as error:
            what = f"{len(images)} images of {self.size} x {self.size}"
            raise ValueError(f"{self._model} fails on {what}: {_words(error)}") from error
        return self._pooled(np.asarray(values), len(images))[: len(pixels)]

    def _pooled(self, values: NDArray[Any], n: int) -> NDArray[Any]:
        """Return one row per image: maps (n, d, h, w) and tokens (n, tokens, d) are averaged."""
        if values.ndim not in (2, 3, 4) or len(values) != n or values.dtype.kind not in "fiu":
            raise ValueError(
                f"{self._model}: {self.layer!r} is {values.dtype} of shape {values.shape} for {n} images: "
                "it must hold a vector, tokens or a map per image; choose another --layer"
            )
        axes = {2: (), 3: (1,), 4: (1, 2) if self._channels_last else (2, 3)}[values.ndim]
        return values.mean(axis=axes, dtype=np.float64) if axes else values


def require_onnxruntime() -> Any:
    """Return the module onnxruntime, without the telemetry that it would keep in the user's home."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    return onnxruntime


def _session(model: Path, layer: str | None) -> Any:
    """Return a session of the model with the layer among its outputs."""
    onnxruntime = require_onnxruntime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised, not printed
    options.intra_op_num_threads = cores()
    folder = str(model.parent.resolve())  # large weights may be in another file there
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    # Waiting threads leave the cores to those that decode images.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")

    def load(source: str | bytes) -> Any:
        providers = ["CPUExecutionProvider"]
        # Without a second attempt, which is announced on standard output.
        return onnxruntime.InferenceSession(source, options, providers=providers, enable_fallback=False)

    try:
        session = load(str(model))
    except Exception as error:
        raise ValueError(f"{model} is not an ONNX model that can be run: {_words(error)}") from error
    outputs = [each.name for each in session.get_outputs()]
    if layer is None and not outputs:
        raise ValueError(f"{model} has no outputs: name a tensor inside it with --layer")
    if layer is None or layer in outputs:
        return session
    try:
        return load(model.read_bytes() + _as_output(layer))
    except Exception:
        raise ValueError(
            f"{model} has no layer {layer!r}: its outputs are {', '.join(outputs) or 'none'}; "
            "other layers go by the name of their tensor"
        ) from None


def _words(error: Exception) -> str:
    """Return what onnxruntime says, without codes and the place in its source."""
    words = reason(error, _PREFIXES)
    return "it is damaged, or of an unknown kind" if "::" in words else words


def _as_output(tensor: str) -> bytes:
    """Return bytes that make a tensor an output of a model when appended to its file.

    Concatenated protocol buffers are merged: this is a model with a graph (field 7) with an output (field
    12) of that name (field 1).
    """
    message = tensor.encode()
    for field in (1, 12, 7):
        length, size = len(message), b""
        while length > 127:
            size, length = size + bytes([length % 128 + 128]), length // 128
        message = bytes([field * 8 + 2]) + size + bytes([length]) + message
    return message


def _channels(name: str, values: Sequence[float]) -> NDArray[np.float32]:
    numbers = checks.vector(name, values)
    if len(numbers) != 3 or numbers.min() < 0 or numbers.max() > 1:
        given = ",".join(f"{number:g}" for number in numbers)
        raise ValueError(f"{name} must be three numbers between 0 and 1 (red, green, blue), not {given}")
    return numbers.astype(np.float32)
