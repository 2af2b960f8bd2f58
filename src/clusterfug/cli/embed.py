"""clusterfug embed: a folder of images in, features out."""

import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from clusterfug.cli import options
from clusterfug.cli.options import argument, option, shown
from clusterfug.cli.terminal import console, facts, print_json, progress

if TYPE_CHECKING:
    from clusterfug.embedding import Embedding

SHOWN_SKIPPED = 20  # skipped images that are listed on the screen
StoredType = StrEnum("StoredType", ["float32", "float16"])


def embed(
    images: Annotated[
        Path,
        argument(
            "IMAGES",
            "Folder of images; folders in it are searched, and are classes if all images are in some.",
        ),
    ],
    model: Annotated[Path, argument("MODEL", "Encoder, .onnx: a batch of RGB images in, features out.")],
    output: Annotated[Path, option("Write one row per image: .npy.", "--output", "-o")],
    size: Annotated[
        int | None,
        option("Pixels of the square that the encoder sees. Default: what the model says, or 224."),
    ] = None,
    resize: Annotated[
        int | None,
        option("Pixels of the shorter side before the square is cut out. Default: 8/7 of --size."),
    ] = None,
    mean: Annotated[
        str,
        shown("Subtracted from pixels, which are between 0 and 1.", metavar="R,G,B"),
    ] = "0.485,0.456,0.406",
    std: Annotated[str, shown("What pixels are then divided by.", metavar="R,G,B")] = "0.229,0.224,0.225",
    layer: Annotated[
        str | None,
        option("Name of an output of the model, or of a tensor inside it. Default: the first output."),
    ] = None,
    batch: Annotated[int | None, option("Images at a time. Default: what the model says, or 32.")] = None,
    labels: Annotated[
        Path | None,
        option(
            "Text file with lines NAME LABEL, or with one whole number per image. Default: the folders "
            "that the images are in."
        ),
    ] = None,
    dtype: Annotated[StoredType, shown("Type of the output's numbers.")] = StoredType.float32,
    restart: Annotated[
        bool, option("Start over instead of continuing an unfinished run.", "--restart")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Turn images into features with an ONNX encoder. A run that was stopped continues when repeated."""
    from clusterfug import embedding

    try:
        with progress() as callback:
            done = embedding.embed(
                images,
                model,
                output,
                size=size,
                resize=resize,
                mean=_numbers("--mean", mean),
                std=_numbers("--std", std),
                layer=layer,
                batch=batch,
                labels=labels,
                dtype=dtype.value,
                restart=restart,
                callback=callback,
            )
    except KeyboardInterrupt:
        print("clusterfug: interrupted; repeat the command to go on", file=sys.stderr)
        raise SystemExit(130) from None
    if as_json:
        print_json(asdict(done) | {"output": output})
    else:
        _print(done)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be R,G,B (0.5,0.5,0.5), not {text!r}") from None


def _print(done: "Embedding") -> None:
    rows = {
        "images": f"{done.n:,}" + (f", {done.resumed:,} of an earlier run" if done.resumed else ""),
        "skipped": f"{len(done.skipped):,}",
        "features": f"{done.d:,} ({done.dtype})",
        "classes": None if done.classes is None else f"{done.classes:,}",
        "seconds": f"{done.seconds:.2f}",
        "images per second": f"{done.images_per_second:,.1f}",
        "files": "\n".join(_printable(str(path)) for path in done.files),
    }
    out = console()
    out.print(facts(rows))
    for name, reason in list(done.skipped.items())[:SHOWN_SKIPPED]:
        out.print(Text(f"skipped {_printable(name)}: {reason}"))
    if len(done.skipped) > SHOWN_SKIPPED:
        out.print(f"and {len(done.skipped) - SHOWN_SKIPPED:,} more: {done.files[-1]}")


def _printable(name: str) -> str:
    """Return a file name without the characters that cannot be printed, if it is no UTF-8."""
    return name.encode("utf-8", "replace").decode()
