"""Images to features through an ONNX encoder: `embed` writes what `clusterfug cluster` reads.

A few threads decode images, the encoder embeds them in batches, and the rows are kept in a folder beside
the output, so that a run that was stopped can go on. The output appears when all of it is there.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.instances import files
from clusterfug.instances.images import beside, class_folders, find, look, read_labels, write_beside

#: Of ImageNet, with pixels from 0 to 1: what most encoders of images were trained with.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
DTYPES = ("float32", "float16")

_INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"
_SPINNING = "session.intra_op.allow_spinning"


@dataclass(frozen=True)
class Embedding:
    """What a run has done."""

    n: int  # images embedded: rows of the output
    d: int
    dtype: str
    skipped: dict[str, str]  # images that have no row, and why
    classes: int | None  # how many different labels, where labels are known
    resumed: int  # images that an earlier run had done
    seconds: float
    images_per_second: float
    files: tuple[Path, ...]  # the output, and what was written beside it


def embed(
    images: str | Path | Iterable[str | Path],
    model: str | Path,
    output: str | Path,
    *,
    size: int | None = None,
    resize: int | None = None,
    mean: Sequence[float] = MEAN,
    std: Sequence[float] = STD,
    layer: str | None = None,
    batch: int | None = None,
    labels: str | Path | None = None,
    dtype: str = "float32",
    restart: bool = False,
    callback: Callable[[str, int, int], None] | None = None,
) -> Embedding:
    """Write one feature vector per image, and beside them the names of the images and their labels.

    Parameters
    ----------
    images : a folder, searched with all folders in it, or a list of files.
    model : .onnx file with one input, a batch of RGB images.
    output : .npy file to write. What lies beside it has the same name with other endings.
    size : pixels of the square that the encoder sees. Default: what the model says, or 224.
    resize : pixels of the shorter side before the square is cut out. Default: 8/7 of `size`.
    mean, std : of red, green and blue, with pixels from 0 to 1: subtracted, then divided by.
    layer : name of an output of the model, or of a tensor inside it. Default: the first output.
    batch : images at a time. Default: what the model says, or 32.
    labels : text file with lines `name label`, or with one whole number per image. Default: the folders
        that the images are in, if there are several.
    dtype : "float32" or "float16".
    restart : drop an unfinished run instead of going on with it.
    callback : called as callback(phase, done, total) after every batch.
    """
    started = perf_counter()
    model, output = Path(model), Path(output)
    callback = callback or (lambda *_: None)
    require_extras()
    checks.one_of("dtype", dtype, DTYPES)
    files.check_readable(model)
    inputs = (model,) if labels is None else (model, Path(labels))
    files.check_writable(output, (".npy",), inputs)
    for path in beside(output):
        files.check_writable(path, (path.suffix,), inputs)
    callback("images", 0, 1)
    folder, names = find(images)
    known = class_folders(names) if labels is None else read_labels(Path(labels), names)
    encoder = Encoder(model, size, mean, std, layer, batch)
    resize = round(encoder.size * 8 / 7) if resize is None else checks.count("resize", resize)
    if resize < encoder.size:
        raise ValueError(f"resize must be at least the size, {encoder.size}, not {resize}")
    weights = model.with_name(f"{model.name}.data")  # where exporters put what is large
    settings = {
        "model": [_digest(path) for path in (model, weights) if path.is_file()],
        "images": _digest_of_images(folder, names),
        "size": encoder.size,
        "resize": resize,
        "mean": encoder.mean.tolist(),
        "std": encoder.std.tolist(),
        "layer": encoder.layer,
        "dtype": dtype,
    }
    with warnings.catch_warnings(), Unfinished(output, settings, encoder.d, restart) as run:
        warnings.filterwarnings("ignore", module="PIL")  # of oddities in files that can be read
        resumed = run.done
        callback("images", resumed, len(names))
        read = partial(look, folder, encoder.size, resize)
        with closing(_ahead(read, names[resumed:], encoder.batch)) as batches:
            for some, looks in batches:
                run.append(*_rows(encoder, some, looks, dtype), done=len(some))
                callback("images", run.done, len(names))
        kept = [name for name in names if name not in run.skipped]
        if not kept:
            run.remove()
            name, reason = next(iter(run.skipped.items()))
            raise ValueError(f"none of the {len(names):,} images can be embedded; {name}: {reason}")
        if known is not None:
            known = known._replace(numbers=known.numbers[[name not in run.skipped for name in names]])
        written = write_beside(output, kept, run.skipped, known)
        run.finish()
    seconds = perf_counter() - started
    return Embedding(
        n=len(kept),
        d=encoder.d,
        dtype=dtype,
        skipped=run.skipped,
        classes=None if known is None else len(np.unique(known.numbers)),
        resumed=resumed,
        seconds=seconds,
        images_per_second=(len(names) - resumed) / seconds,
        files=(output, *written),
    )


def require_extras() -> None:
    try:
        import onnxruntime  # noqa: F401
        import PIL  # noqa: F401
    except ImportError:
        raise ImportError(
            "embedding images needs onnxruntime and pillow: pip install 'clusterfug[embed]'"
        ) from None


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
    options.intra_op_num_threads = _cores()
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


def _ahead(
    read: Callable[[str], Any], names: list[str], batch: int
) -> Generator[tuple[list[str], list[Any]]]:
    """Batches of names and what was read; threads read the next batch while one is being used."""
    pool = ThreadPoolExecutor(min(8, _cores()))
    try:
        following = [pool.submit(read, name) for name in names[:batch]]
        for start in range(0, len(names), batch):
            end = start + batch
            now, following = following, [pool.submit(read, name) for name in names[end : end + batch]]
            yield names[start:end], [future.result() for future in now]
    finally:
        pool.shutdown(cancel_futures=True)


def _rows(
    encoder: Encoder, names: list[str], looks: list[Any], dtype: str
) -> tuple[NDArray[Any], dict[str, str]]:
    """The features of a batch, and which images have none, and why."""
    skipped = {name: look for name, look in zip(names, looks, strict=True) if isinstance(look, str)}
    pixels = [look for look in looks if not isinstance(look, str)]
    if not pixels:
        return np.empty((0, encoder.d), dtype), skipped
    with np.errstate(over="ignore"):  # what becomes infinite is skipped
        rows = encoder(np.stack(pixels)).astype(dtype)
    finite = np.isfinite(rows).all(axis=1)
    seen = [name for name in names if name not in skipped]
    skipped |= {seen[i]: f"its features are not finite in {dtype}" for i in np.flatnonzero(~finite)}
    return rows[finite], skipped


class Unfinished:
    """What has been done for an output so far, in a folder beside it, so that a later run can go on.

    rows.npy holds the rows. progress.json says of how many images they are, which were skipped, and under
    which settings; it is replaced after every batch, and rows that it does not know of are forgotten.
    """

    def __init__(self, output: Path, settings: dict[str, Any], d: int, restart: bool):
        self.done = 0
        self.skipped: dict[str, str] = {}
        self._output, self._settings, self._d, self._restart = output, settings, d, restart
        self._folder = output.with_name(f"{output.name}.partial")
        self._rows, self._progress = self._folder / "rows.npy", self._folder / "progress.json"

    def __enter__(self) -> "Unfinished":
        self._folder.mkdir(exist_ok=True)
        self._rows.touch()
        self._file = self._rows.open("r+b")
        try:
            self._lock()
            if self._restart:
                self._progress.unlink(missing_ok=True)
            self._go_on()
            self._file.truncate(self._mark())
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def append(self, rows: NDArray[Any], skipped: dict[str, str], done: int) -> None:
        """The rows of so many more images, less those that were skipped."""
        self._file.seek(self._mark())
        self._file.write(np.ascontiguousarray(rows).tobytes())
        self._file.flush()
        os.fsync(self._file.fileno())  # before anybody is told of them
        self.done += done
        self.skipped |= skipped
        state = {"settings": self._settings, "done": self.done, "skipped": self.skipped}
        with files.complete(self._progress) as part:
            part.write_text(json.dumps(state), encoding="utf-8")

    def finish(self) -> None:
        """All rows are there: they become the output."""
        self._mark()
        self._file.close()
        self._rows.replace(self._output)
        self.remove()

    def remove(self) -> None:
        self._file.close()
        for path in (self._rows, *self._folder.glob(f"*{self._progress.name}*")):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # unless somebody keeps something else there
            self._folder.rmdir()

    def _lock(self) -> None:
        if os.name == "posix":
            import fcntl

            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(
                    f"another run is writing {self._output}: wait until it has ended"
                ) from None

    def _go_on(self) -> None:
        """Take up what an earlier run has done, if there is any and it had the same settings."""
        try:
            state = json.loads(self._progress.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return
        other = [key for key, value in self._settings.items() if state["settings"].get(key) != value]
        if other:
            raise ValueError(
                f"{self._folder} is an unfinished run with other settings ({', '.join(other)}): "
                "repeat its command to go on, or start over with --restart"
            )
        size = self._file.seek(0, os.SEEK_END)
        self.done, self.skipped = state["done"], state["skipped"]
        if size < self._mark():  # stopped when the rows had just become the output
            self.done, self.skipped = 0, {}

    def _mark(self) -> int:
        """Write the header of a .npy file of the rows so far, always as long; where the next row begins."""
        dtype, rows = np.dtype(self._settings["dtype"]), self.done - len(self.skipped)
        header = {"descr": dtype.str, "fortran_order": False, "shape": (rows, self._d)}
        self._file.seek(0)
        np.lib.format.write_array_header_1_0(self._file, header)
        return self._file.tell() + rows * self._d * dtype.itemsize


def _colours(name: str, values: Sequence[float]) -> NDArray[np.float32]:
    numbers = checks.vector(name, values)
    if len(numbers) != 3 or numbers.min() < 0 or numbers.max() > 1:
        given = ",".join(f"{number:g}" for number in numbers)
        raise ValueError(f"{name} must be three numbers between 0 and 1 (red, green, blue), not {given}")
    return numbers.astype(np.float32)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of_images(folder: Path, names: list[str]) -> str:
    """Of names, sizes and times of change."""
    digest = hashlib.sha256()
    for name in names:
        try:
            found = os.stat(folder / name)
            digest.update(repr((name, found.st_size, found.st_mtime_ns)).encode())
        except OSError:  # it will be skipped
            digest.update(repr(name).encode())
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    """What ONNX Runtime says, without the codes in front."""
    return " ".join(str(error).split(" : ")[-1].split())


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
