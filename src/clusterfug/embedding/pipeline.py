"""`embed`: from a folder of images to a .npy file of features, which `clusterfug cluster` reads.

A few threads decode images, the encoder embeds them in batches, and finished rows are stored in a folder
beside the output, so that an interrupted run can be resumed. The output appears when it is complete.
"""

import hashlib
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.embedding.encoder import Encoder, require_onnxruntime
from clusterfug.embedding.partial_run import PartialRun
from clusterfug.execution.threads import cores
from clusterfug.io import files
from clusterfug.io.images import (
    MAX_SIDE,
    beside,
    class_folders,
    find_images,
    labels_of_images,
    pixels_or_reason,
    write_beside,
)

#: Mean and deviation of ImageNet, for pixels from 0 to 1: most encoders of images were trained with them.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class Embedding:
    """Summary of a run."""

    n: int  # rows of the output: images that were embedded
    d: int
    dtype: str
    skipped: dict[str, str]  # images without a row, with the reason
    classes: int | None  # number of distinct labels; None if there are no labels
    resumed: int  # images that an earlier, interrupted run had processed
    seconds: float
    images_per_second: float
    files: tuple[Path, ...]  # the output, and the files written beside it


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
    """Write one feature vector per image; the names of the images and their labels go beside them.

    Parameters
    ----------
    images : a folder, searched recursively, or a list of files.
    model : .onnx file with one input, a batch of RGB images.
    output : .npy file to write. The files beside it have the same name with other endings.
    size : side of the square that the encoder sees, in pixels. Default: that of the model, or 224.
    resize : length of the shorter side before the square is cut out, up to 16,384. Default: 8/7 `size`.
    mean, std : per channel (red, green, blue), for pixels from 0 to 1: subtracted, then divided by.
    layer : name of an output of the model, or of a tensor inside it. Default: the first output.
    batch : images per batch. Default: that of the model, or 32.
    labels : text file with lines `name label`, or with one whole number per image. Default: the folders
        of the images, if there are several.
    dtype : "float32" or "float16".
    restart : discard an unfinished run instead of resuming it.
    callback : called as ``callback("images", done, total)`` after every batch.
    """
    started = perf_counter()
    model, output = Path(model), Path(output)
    callback = callback or (lambda *_: None)
    require_extras()
    checks.one_of("dtype", dtype, DTYPES)
    if resize is not None and checks.count("resize", resize) > MAX_SIDE:
        raise ValueError(f"resize must be at most {MAX_SIDE}, not {checks.shown(resize)}")
    files.check_readable(model)
    inputs = (model,) if labels is None else (model, Path(labels))
    files.check_writable(output, (".npy",), inputs)
    for path in beside(output):
        files.check_writable(path, (path.suffix,), inputs)
    callback("images", 0, 1)
    folder, names = find_images(images)
    known = class_folders(names) if labels is None else labels_of_images(Path(labels), names)
    encoder = Encoder(model, size, mean, std, layer, batch)
    resize = min(round(encoder.size * 8 / 7), MAX_SIDE) if resize is None else resize
    if resize < encoder.size:
        raise ValueError(f"resize must be at least the size, {encoder.size}, not {resize}")
    weights = model.with_name(f"{model.name}.data")  # exporters store large weights there
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
    with warnings.catch_warnings(), closing(PartialRun(output, settings, encoder.d, restart)) as run:
        warnings.filterwarnings("ignore", module="PIL")  # about minor defects of readable files
        resumed = run.done
        callback("images", resumed, len(names))
        read = partial(pixels_or_reason, folder, encoder.size, resize)
        with closing(_prefetched(read, names[resumed:], encoder.batch)) as batches:
            for images_or_reasons in batches:
                run.append(*_features(encoder, images_or_reasons, dtype))
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
        require_onnxruntime()
        import PIL  # noqa: F401
    except ImportError:
        raise ImportError(
            "embedding images needs onnxruntime and pillow: pip install 'clusterfug[embed]'"
        ) from None


def _prefetched(read: Callable[[str], Any], names: list[str], batch: int) -> Generator[dict[str, Any]]:
    """Yield what `read` returns for the names of each batch, by name; threads read one batch ahead."""
    pool = ThreadPoolExecutor(min(8, cores()))
    try:
        following = [pool.submit(read, name) for name in names[:batch]]
        for start in range(0, len(names), batch):
            end = start + batch
            now, following = following, [pool.submit(read, name) for name in names[end : end + batch]]
            yield {name: future.result() for name, future in zip(names[start:end], now, strict=True)}
    finally:
        pool.shutdown(cancel_futures=True)


def _features(encoder: Encoder, batch: dict[str, Any], dtype: str) -> tuple[NDArray[Any], dict[str, str]]:
    """Return the rows of a batch of pixels or reasons, and the images without a row, with the reason."""
    skipped = {name: reason for name, reason in batch.items() if isinstance(reason, str)}
    images = {name: pixels for name, pixels in batch.items() if name not in skipped}
    if not images:
        return np.empty((0, encoder.d), dtype), skipped
    with np.errstate(over="ignore"):  # overflow is found below
        rows = encoder(np.stack(list(images.values()))).astype(dtype)
    finite = np.isfinite(rows).all(axis=1)
    reason = f"its features are not finite in {dtype}"
    skipped |= {name: reason for name, is_finite in zip(images, finite, strict=True) if not is_finite}
    return rows[finite], skipped


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of_images(folder: Path, names: list[str]) -> str:
    """Return a digest of names, sizes and times of modification."""
    digest = hashlib.sha256()
    for name in names:
        try:
            found = os.stat(folder / name)
            digest.update(repr((name, found.st_size, found.st_mtime_ns)).encode())
        except OSError:  # the image will be skipped
            digest.update(repr(name).encode())
    return digest.hexdigest()
