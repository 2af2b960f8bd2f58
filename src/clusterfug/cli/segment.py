"""clusterfug segment: embeddings and classes of pixels in, objects out."""

import json
import time
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from clusterfug.cli.shared import (
    DeviceOption,
    JsonOption,
    Metric,
    Precision,
    PrecisionOption,
    console,
    plain_table,
    progress,
)

if TYPE_CHECKING:
    from clusterfug.segmentation import PanopticQuality


class Format(StrEnum):
    npy = "npy"
    coco = "coco"
    cityscapes = "cityscapes"


class Graph(StrEnum):
    complete = "complete"
    grid = "grid"


class Upsample(StrEnum):
    features = "features"
    labels = "labels"


def segment(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="INPUT",
            help="A .npz file or a folder of them, one per image: embeddings (h, w, d); semantic (h', w'), "
            "the class of each pixel (may be left out if there is one thing class); and, if they are at "
            "hand, confidence, image, truth_instance, truth_semantic.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the results.", show_default=False),
    ] = None,
    things: Annotated[
        str | None,
        typer.Option(
            metavar="ID,ID,...",
            help="Classes that have instances. Default: those of the data set that --truth names.",
            show_default=False,
        ),
    ] = None,
    stuff: Annotated[
        str | None,
        typer.Option(
            metavar="ID,ID,...",
            help="The other classes. Default: those of the data set of --truth, or whatever is there.",
            show_default=False,
        ),
    ] = None,
    void: Annotated[str, typer.Option(metavar="ID,ID,...", help="Classes that mean no class.")] = "255",
    threshold: Annotated[
        str,
        typer.Option(
            "--threshold",
            "-t",
            metavar="T | T,ID=T,...",
            help="Similarity at which two pixels neither attract nor repel; 0.4,26=0.6 has another one for "
            "class 26.",
        ),
    ] = "0.4",
    min_confidence: Annotated[
        float, typer.Option(help="Pixels whose class is less certain become void.")
    ] = 0.0,
    min_size: Annotated[int, typer.Option(help="Instances of fewer pixels become void.")] = 0,
    position: Annotated[
        float,
        typer.Option(
            help="Similarity falls by this times the squared distance (the longer side of the image is 1)."
        ),
    ] = 0.0,
    connected: Annotated[
        bool, typer.Option("--connected", help="Cut every instance into its connected regions.")
    ] = False,
    metric: Annotated[Metric, typer.Option(help="cosine scales embeddings to length 1.")] = Metric.cosine,
    upsample: Annotated[
        Upsample,
        typer.Option(help="To image resolution: by interpolated features, or by repeating labels."),
    ] = Upsample.features,
    graph: Annotated[
        Graph, typer.Option(help="grid: the sparse baseline, ten edges per pixel.")
    ] = Graph.complete,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="As for cluster. With --graph grid: as for a graph.")
    ] = "auto",
    refine: Annotated[
        bool, typer.Option("--refine", help="Refine what an algorithm of the paper found.")
    ] = False,
    time_limit: Annotated[
        float | None, typer.Option(help="Seconds per problem, for auto, fast and best.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the search of best and the shaking of auto.")] = 0,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", help="Problems solved at a time. Default: cores.", show_default=False),
    ] = None,
    device: DeviceOption = "cpu",
    precision: PrecisionOption = Precision.fast,
    truth: Annotated[
        Path | None,
        typer.Option(
            help="To compare with: the folder of Cityscapes (leftImg8bit/, gtFine/), or a panoptic JSON of "
            "COCO with its PNGs beside it. Default: the truth in the .npz files.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of pictures named as the .npz files are.", show_default=False),
    ] = None,
    train_ids: Annotated[
        bool, typer.Option("--train-ids", help="Classes are Cityscapes' train ids 0..18.")
    ] = False,
    form: Annotated[
        Format,
        typer.Option(
            "--format", help="npy: classes and instances; coco: panoptic PNG and JSON; cityscapes: PNG."
        ),
    ] = Format.npy,
    offset: Annotated[int, typer.Option(help="COCO: a segment's id is class * offset + k.")] = 1000,
    overlays: Annotated[
        bool, typer.Option("--overlays", help="Also draw image, prediction, truth and errors.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Partition the pixels of images into objects; say how good that is where the truth is known."""
    from clusterfug import checks
    from clusterfug.execution.torch.device import choose_device, is_given
    from clusterfug.segmentation import Rules, segment_many
    from clusterfug.segmentation.outputs import Output
    from clusterfug.segmentation.quality import count, match, quality
    from clusterfug.segmentation.samples import Truths, find_samples
    from clusterfug.solvers import make_solver, names

    known = names("graph" if graph == Graph.grid else "features")
    checks.one_of(f"algorithm for --graph {graph.value}", algorithm, known)
    checks.count("--seed", seed, 0)
    solver = make_solver(algorithm, refine=refine, time_limit=time_limit, random_state=seed)
    if jobs is not None:
        checks.count("--jobs", jobs)
        if is_given(device):
            raise ValueError("--jobs is for the CPU: leave it out with --device")
    if graph == Graph.grid and is_given(device):
        raise ValueError("a graph is solved on the CPU: leave out --device with --graph grid")
    place = "cpu" if graph == Graph.grid else str(choose_device(device, solver) or "cpu")
    checks.count("--offset", offset)
    if overlays and output is None:
        raise ValueError("--overlays needs a folder to write to: -o FOLDER")
    truths = None if truth is None else Truths(truth)
    if things is None and truths is None:
        raise ValueError("name the classes that have instances: --things 1")
    classes = truths.things if things is None and truths else _ids("--things", things or "")
    rules = Rules(
        things=classes,
        stuff=(truths.stuff if truths else None) if stuff is None else _ids("--stuff", stuff),
        void=_ids("--void", void),
        threshold=_thresholds(threshold, classes),
        min_confidence=min_confidence,
        min_size=min_size,
        position=position,
        connected=connected,
        metric=metric.value,
        upsample=upsample.value,
        graph=graph.value,
    )
    readers = find_samples(source, rules, pictures=images, truth=truths, train_ids=train_ids)
    compared = rules.things, rules.stuff or ()
    writer = None if output is None else Output(output, form.value, rules, offset, overlays, truths)
    failed: dict[str, str] = {}
    counts: Any = 0
    done = instances = scored = 0
    start = time.perf_counter()
    try:
        with progress("images") as callback:
            for name, sample, result, error in segment_many(
                readers,
                rules,
                n_jobs=jobs,
                algorithm=solver,
                device=place,
                precision=precision,
            ):
                try:
                    if error is not None or sample is None or result is None:
                        raise error or ValueError("it could not be read")
                    found = None
                    if sample.truth is not None:
                        found = count(match(result.maps, sample.truth, *compared))
                    if writer is not None:
                        writer.write(sample, result.maps)
                except Exception as wrong:
                    failed[name] = " ".join(str(wrong).split()) or type(wrong).__name__
                    if writer is not None:
                        writer.discard(name)
                    continue
                finally:
                    if callback is not None:
                        callback("images", done + len(failed), len(readers))
                if found is not None:
                    counts, scored = counts + found, scored + 1
                done += 1
                instances += result.n_instances
    except KeyboardInterrupt:
        if writer is not None:
            writer.close()
        kept = "nothing was written" if writer is None else f"{done} images are finished in {output}"
        typer.echo(f"clusterfug: interrupted; {kept}", err=True)
        raise SystemExit(130) from None
    seconds = time.perf_counter() - start
    if writer is not None:
        writer.close()
    scores = quality(counts, *compared) if scored else None
    if as_json:
        about = {
            "images": done,
            "scored": scored,
            "failed": failed,
            "instances": instances,
            "threshold": {str(c): value for c, value in rules.thresholds.items()},
            "algorithm": algorithm,
            "device": place,
            "seconds": seconds,
            "quality": None if scores is None else scores.as_dict(),
            "output": None if output is None else str(output),
        }
        typer.echo(json.dumps(about))
    elif done:
        _print(done, instances, seconds, output)
        if scores is not None:
            _print_quality(scores, {} if truths is None else truths.names)
            if scored < done:
                console().print(f"\nof {scored} of {done} images: the others have no truth")
    for name, message in failed.items():
        typer.echo(f"clusterfug: error: {name}: {message}", err=True)
    if failed:
        kept = f"; the other {done} are finished" if done else ""
        typer.echo(f"clusterfug: {len(failed)} of {len(readers)} images failed{kept}", err=True)
        raise typer.Exit(2)


def _print(
    done: int,
    instances: int,
    seconds: float,
    output: Path | None,
) -> None:
    table = plain_table()
    table.add_row("images", f"{done:,}")
    table.add_row("instances", f"{instances:,}")
    table.add_row("seconds", f"{seconds:.2f}")
    table.add_row("results", Text(str(output)) if output else "not written; -o FOLDER writes them")
    console().print(table)


def _print_quality(found: "PanopticQuality", names: dict[int, str]) -> None:
    scores = Table(box=None, pad_edge=False)
    scores.add_column("class")
    for heading in ("PQ", "SQ", "RQ", "TP", "FP", "FN"):
        scores.add_column(heading, justify="right")
    rows = {names.get(c, f"class {c}"): row for c, row in found.classes.items()}
    means = {"things": found.things, "stuff": found.stuff, "all": found.all}
    for name, row in (rows if len(rows) == 1 else rows | means).items():
        if row.tp + row.fp + row.fn:
            shares = (f"{100 * value:.1f}" for value in (row.pq, row.sq, row.rq))
            scores.add_row(name, *shares, *(f"{value:,}" for value in (row.tp, row.fp, row.fn)))
    console().print()
    console().print(scores)


def _ids(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"{option} must be whole numbers with commas (1,2,5), not {text!r}") from None


def _thresholds(text: str, things: Iterable[int]) -> dict[int, float]:
    """One per thing class: the part without an ID is for those that are not named."""
    try:
        parts = [part.split("=") for part in text.split(",")]
        default = [float(part[0]) for part in parts if len(part) == 1]
        own = [(int(c), float(value)) for c, value in (part for part in parts if len(part) > 1)]
    except ValueError:
        raise ValueError(f"--threshold must be a number, or T,ID=T,ID=T,... not {text!r}") from None
    if len(default) > 1 or len(dict(own)) < len(own):
        raise ValueError(f"--threshold says two things about the same class: {text}")
    missing = sorted(set(things) - set(dict(own)))
    if missing and not default:
        raise ValueError(
            f"--threshold has none for class {missing[0]}: begin with one for all others, 0.4,..."
        )
    return dict.fromkeys(missing, *default) | dict(own)
