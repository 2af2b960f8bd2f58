"""clusterfug segment: embeddings and classes of pixels in, objects out."""

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clusterfug.cli import options
from clusterfug.cli.options import Metric, Precision, argument, option, shown
from clusterfug.cli.terminal import console, facts, figures, print_json, progress
from clusterfug.execution import threads
from clusterfug.execution.jit import clock

if TYPE_CHECKING:
    from clusterfug.segmentation import PanopticQuality, Rules
    from clusterfug.segmentation.outputs import SegmentationWriter
    from clusterfug.segmentation.pipeline import Outcome
    from clusterfug.solvers import Solver

Format = StrEnum("Format", ["npy", "coco", "cityscapes"])
PixelGraph = StrEnum("PixelGraph", ["complete", "grid"])
Upsample = StrEnum("Upsample", ["features", "labels"])
IDS = "ID,ID,..."

Source = Annotated[
    Path,
    argument(
        "INPUT",
        "A .npz file or a folder of them, one per image: embeddings (h, w, d); semantic (h', w'), the "
        "class of each pixel (may be left out if there is one thing class); and, if they are at hand, "
        "confidence, image, truth_instance, truth_semantic.",
    ),
]
ResultFolder = Annotated[
    Path | None, option("Folder for the results, which is new or empty.", "--output", "-o")
]
Overwrite = Annotated[bool, option("Replace the results of an earlier run in the folder.", "--overwrite")]
Things = Annotated[
    str | None,
    option("Classes that have instances. Default: those of the data set that --truth names.", metavar=IDS),
]
Stuff = Annotated[
    str | None,
    option(
        "The other classes. Default: those of the data set of --truth, or whatever is there.",
        metavar=IDS,
    ),
]
Void = Annotated[str, shown("Classes that mean no class.", metavar=IDS)]
PixelThreshold = Annotated[
    str,
    shown(
        "Similarity at which two pixels neither attract nor repel; 0.4,26=0.6 has another one for "
        "class 26.",
        *("--threshold", "-t"),
        metavar="T | T,ID=T,...",
    ),
]
MinConfidence = Annotated[
    float | None,
    option("Pixels whose class is less certain become void. Default: 0.5 for files with confidence."),
]
MinSize = Annotated[int, shown("Instances of fewer pixels become void.")]
Position = Annotated[
    float,
    shown("Similarity falls by this times the squared distance (the longer side of the image is 1)."),
]
Connected = Annotated[bool, option("Cut every instance into its connected regions.", "--connected")]
EmbeddingMetric = Annotated[Metric, shown("cosine scales embeddings to length 1.")]
UpsampleMode = Annotated[
    Upsample,
    shown("To image resolution: by interpolated features, or by repeating labels."),
]
GraphName = Annotated[PixelGraph, shown("grid: the sparse baseline, ten edges per pixel.")]
PixelAlgorithm = Annotated[
    str,
    shown("As for cluster. With --graph grid: as for a graph.", "--algorithm", "-a"),
]
SecondsPerProblem = Annotated[float | None, option("Seconds per problem, for auto, fast and best.")]
Jobs = Annotated[int | None, option("Problems solved at a time. Default: cores.", "--jobs", "-j")]
Truth = Annotated[
    Path | None,
    option(
        "To compare with: the folder of Cityscapes (leftImg8bit/, gtFine/), or a panoptic JSON of COCO "
        "with its PNGs beside it. Default: the truth in the .npz files."
    ),
]
Pictures = Annotated[Path | None, option("Folder of pictures named as the .npz files are.")]
TrainIds = Annotated[bool, option("Classes are Cityscapes' train ids 0..18.", "--train-ids")]
FormatName = Annotated[
    Format,
    shown("npy: classes and instances; coco: panoptic PNG and JSON; cityscapes: PNG.", "--format"),
]
Offset = Annotated[int, shown("COCO: a segment's id is class * offset + k.")]
Overlays = Annotated[bool, option("Also draw image, prediction, truth and errors.", "--overlays")]


def segment(
    source: Source,
    output: ResultFolder = None,
    overwrite: Overwrite = False,
    things: Things = None,
    stuff: Stuff = None,
    void: Void = "255",
    threshold: PixelThreshold = "0.4",
    min_confidence: MinConfidence = None,
    min_size: MinSize = 0,
    position: Position = 0.0,
    connected: Connected = False,
    metric: EmbeddingMetric = Metric.cosine,
    upsample: UpsampleMode = Upsample.features,
    graph: GraphName = PixelGraph.complete,
    algorithm: PixelAlgorithm = "auto",
    refine: options.Refine = False,
    time_limit: SecondsPerProblem = None,
    seed: options.Seed = 0,
    jobs: Jobs = None,
    device: options.Device = "cpu",
    precision: options.CandidatePrecision = Precision.fast,
    truth: Truth = None,
    images: Pictures = None,
    train_ids: TrainIds = False,
    form: FormatName = Format.npy,
    offset: Offset = 1000,
    overlays: Overlays = False,
    as_json: options.Json = False,
) -> None:
    """Partition the pixels of images into objects; say how good that is where the truth is known."""
    from clusterfug import checks
    from clusterfug.segmentation import Rules, segment_many
    from clusterfug.segmentation.outputs import SegmentationWriter
    from clusterfug.segmentation.quality import quality_of_counts
    from clusterfug.segmentation.samples import GroundTruth, find_inputs, find_samples

    checks.count("--offset", offset)
    solver, place = _solver(graph, device, jobs, algorithm, seed, refine=refine, time_limit=time_limit)
    if output is None:
        to_files = {"--overlays": overlays, "--overwrite": overwrite}
        options.no_options(to_files, "needs a folder to write to: -o FOLDER")
    truths = None if truth is None else GroundTruth(truth)
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
    results = (
        nullcontext()
        if output is None
        else SegmentationWriter(
            *(output, form.value, rules, offset, overlays, truths, overwrite),
            inputs=find_inputs(source, images, truths),
        )
    )
    with results as writer:
        tally = Tally(rules, writer)
        start = clock()
        outcomes = segment_many(
            readers, rules, n_jobs=jobs, algorithm=solver, device=place, precision=precision.value
        )
        tally.add_all(outcomes, len(readers))
        seconds = clock() - start
    scores = quality_of_counts(tally.counts, *tally.compared) if tally.scored else None
    if as_json:
        thresholds = {str(c): value for c, value in rules.thresholds.items()}
        about = {"images": tally.done, "scored": tally.scored, "failed": tally.failed}
        about |= {"instances": tally.instances, "threshold": thresholds, "algorithm": algorithm}
        about |= {"device": place, "seconds": seconds, "quality": scores and scores.as_dict()}
        print_json(about | {"output": output})
    elif tally.done:
        _print(tally, seconds, output)
        if scores is not None:
            _print_quality(scores, {} if truths is None else truths.names)
            if tally.scored < tally.done:
                console().print(f"\nof {tally.scored} of {tally.done} images: the others have no truth")
    tally.report_failures(len(readers))


def _solver(
    graph: PixelGraph, device: str, jobs: int | None, algorithm: str, seed: int, **settings: Any
) -> tuple["Solver", str]:
    """Return the solver and the device, or raise an error for options that contradict each other."""
    from clusterfug import checks
    from clusterfug.execution.torch.device import choose_device, is_given
    from clusterfug.solvers import make_solver, names

    is_grid = graph == PixelGraph.grid
    checks.one_of(f"algorithm for --graph {graph}", algorithm, names("graph" if is_grid else "features"))
    checks.count("--seed", seed, 0)
    solver = make_solver(algorithm, random_state=seed, **settings)
    if jobs is not None:
        checks.count("--jobs", jobs)
        if is_given(device):
            raise ValueError("--jobs is for the CPU: leave it out with --device")
    if is_grid and is_given(device):
        raise ValueError("a graph is solved on the CPU: leave out --device with --graph grid")
    return solver, "cpu" if is_grid else str(choose_device(device, solver) or "cpu")


@dataclass
class Tally:
    """Counts over the images that are segmented so far, which it compares with the truth and writes."""

    rules: "Rules"
    writer: "SegmentationWriter | None"
    done: int = 0
    instances: int = 0
    scored: int = 0
    counts: Any = 0  # true and false positives, by class
    failed: dict[str, str] = field(default_factory=dict)  # reasons by name

    @property
    def compared(self) -> tuple[Any, Any]:
        """Thing and stuff classes that are compared with the truth."""
        return self.rules.things, self.rules.stuff or ()

    def add_all(self, outcomes: Iterable["Outcome"], total: int) -> None:
        """Add images as they are finished. After Ctrl-C the finished ones are kept."""
        try:
            with progress("images") as callback:
                for outcome in outcomes:
                    threads.check_stop()
                    try:
                        self._add(outcome)
                    except BaseException as error:
                        if self.writer is not None:
                            self.writer.discard(outcome.name)
                        if not isinstance(error, Exception):
                            raise
                        self.failed[outcome.name] = _one_line(str(error)) or type(error).__name__
                    if callback is not None:
                        callback("images", self.done + len(self.failed), total)
        except KeyboardInterrupt:
            kept = "nothing was written"
            if self.writer is not None and self.done:
                self.writer.close()
                kept = f"{self.done} images are finished in {self.writer.folder}"
            typer.echo(f"clusterfug: interrupted; {kept}", err=True)
            raise SystemExit(130) from None
        if self.writer is not None:
            self.writer.close()

    def _add(self, outcome: "Outcome") -> None:
        from clusterfug.segmentation.quality import count_matches, match_segments

        _, sample, result, error = outcome
        if error is not None or sample is None or result is None:
            raise error or ValueError("it could not be read")
        found = None
        if sample.truth is not None:
            found = count_matches(match_segments(result.maps, sample.truth, *self.compared))
        if self.writer is not None:
            self.writer.write(sample, result.maps)
        if found is not None:
            self.counts, self.scored = self.counts + found, self.scored + 1
        self.instances += result.n_instances
        self.done += 1

    def report_failures(self, total: int) -> None:
        """Print one line for each image that failed, and exit with code 2 if there is any."""
        for name, message in self.failed.items():
            typer.echo(f"clusterfug: error: {_one_line(name)}: {message}", err=True)
        if self.failed:
            kept = f"; the other {self.done} are finished" if self.done else ""
            typer.echo(f"clusterfug: {len(self.failed)} of {total} images failed{kept}", err=True)
            raise typer.Exit(2)


def _print(tally: Tally, seconds: float, output: Path | None) -> None:
    rows = {"images": f"{tally.done:,}", "instances": f"{tally.instances:,}", "seconds": f"{seconds:.2f}"}
    console().print(facts(rows | {"results": str(output or "not written; -o FOLDER writes them")}))


def _print_quality(found: "PanopticQuality", names: dict[int, str]) -> None:
    table = figures("class", "PQ", "SQ", "RQ", "TP", "FP", "FN")
    table.columns[0].justify = "left"
    rows = [(names.get(c, f"class {c}"), row) for c, row in found.classes.items()]
    if len(rows) > 1:
        rows += [("things", found.things), ("stuff", found.stuff), ("all", found.all)]
    for name, row in rows:
        if row.tp + row.fp + row.fn:
            shares = (f"{100 * value:.1f}" for value in (row.pq, row.sq, row.rq))
            table.add_row(name, *shares, *(f"{value:,}" for value in (row.tp, row.fp, row.fn)))
    console().print()
    console().print(table)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _ids(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"{option} must be whole numbers with commas (1,2,5), not {text!r}") from None


def _thresholds(text: str, things: Iterable[int]) -> dict[int, float]:
    """Return one threshold per thing class; the part without an ID is for those that are not named."""
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
