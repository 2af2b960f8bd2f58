"""clusterfug embed: a folder of images in, features out."""

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from clusterfug.cli.shared import JsonOption, console, plain_table, progress

if TYPE_CHECKING:
    from clusterfug.embedding import Embedding

_SHOWN = 20  # skipped images that are listed on the screen


class Stored(StrEnum):
    float32 = "float32"
    float16 = "float16"


def embed(
    images: Annotated[
        Path,
        typer.Argument(
            metavar="IMAGES",
            help="Folder of images; folders in it are searched, and are classes if all images are in some.",
            show_default=False,
        ),
    ],
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Encoder, .onnx: a batch of RGB images in, features out.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Write one row per image: .npy.", show_default=False),
    ],
    size: Annotated[
        int | None,
        typer.Option(
            help="Pixels of the square that the encoder sees. Default: what the model says, or 224.",
            show_default=False,
        ),
    ] = None,
    resize: Annotated[
        int | None,
        typer.Option(
            help="Pixels of the shorter side before the square is cut out. Default: 8/7 of --size.",
            show_default=False,
        ),
    ] = None,
    mean: Annotated[
        str, typer.Option(metavar="R,G,B", help="Subtracted from pixels, which are between 0 and 1.")
    ] = "0.485,0.456,0.406",
    std: Annotated[
        str, typer.Option(metavar="R,G,B", help="What pixels are then divided by.")
    ] = "0.229,0.224,0.225",
    layer: Annotated[
        str | None,
        typer.Option(
            help="Name of an output of the model, or of a tensor inside it. Default: the first output.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option(
            help="Images at a time. Default: what the model says, or 32.",
            show_default=False,
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="Text file with lines NAME LABEL, or with one whole number per image. "
            "Default: the folders that the images are in.",
            show_default=False,
        ),
    ] = None,
    dtype: Annotated[Stored, typer.Option(help="Precision of the output.")] = Stored.float32,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start over instead of going on with an unfinished run.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Turn images into features with an ONNX encoder. A run that was stopped goes on when repeated."""
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
        typer.echo(json.dumps(asdict(done) | {"output": str(output)}, default=str))
    else:
        _print(done)


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"{option} must be R,G,B (0.5,0.5,0.5), not {text!r}") from None


def _print(done: "Embedding") -> None:
    table = plain_table()
    table.add_row(
        "images", f"{done.n:,}" + (f", {done.resumed:,} of an earlier run" if done.resumed else "")
    )
    table.add_row("skipped", f"{len(done.skipped):,}")
    table.add_row("features", f"{done.d:,} ({done.dtype})")
    if done.classes is not None:
        table.add_row("classes", f"{done.classes:,}")
    table.add_row("seconds", f"{done.seconds:.2f}")
    table.add_row("images per second", f"{done.images_per_second:,.1f}")
    table.add_row("files", Text("\n".join(_printable(str(path)) for path in done.files)))
    out = console()
    out.print(table)
    for name, reason in list(done.skipped.items())[:_SHOWN]:
        out.print(Text(f"skipped {_printable(name)}: {reason}"))
    if len(done.skipped) > _SHOWN:
        out.print(f"and {len(done.skipped) - _SHOWN:,} more: {done.files[-1]}")


def _printable(name: str) -> str:
    """A file name that is no UTF-8 has characters that cannot be printed."""
    return name.encode("utf-8", "replace").decode()
