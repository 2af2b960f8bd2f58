"""Images to features through an ONNX encoder: `embed` writes what `clusterfug cluster` reads.

A few threads decode images, the encoder embeds them in batches, and the rows are kept in a folder beside
the output, so that a run that was stopped can go on. The output appears when all of it is there.
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
from clusterfug.embedding.encoder import Encoder
from clusterfug.embedding.unfinished import Unfinished
from clusterfug.execution.threads import cores
from clusterfug.io import files
from clusterfug.io.images import beside, class_folders, find, labels_of_images, look, write_beside

#: Of ImageNet, with pixels from 0 to 1: what most encoders of images were trained with.
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
DTYPES = ("float32", "float16")


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
    known = class_folders(names) if labels is None else labels_of_images(Path(labels), names)
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


def _ahead(
    read: Callable[[str], Any], names: list[str], batch: int
) -> Generator[tuple[list[str], list[Any]]]:
    """Batches of names and what was read; threads read the next batch while one is being used."""
    pool = ThreadPoolExecutor(min(8, cores()))
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
