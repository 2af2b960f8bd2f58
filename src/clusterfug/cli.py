"""The command line: a thin shell over the package. Exits 0, or 2 with one line on standard error."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

import clusterfug

app = typer.Typer(
    name="clusterfug",
    help="Clustering without choosing the number of clusters: dense multicut on feature vectors.",
    no_args_is_help=False,
    add_completion=False,
    rich_markup_mode="rich",
)

UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class Metric(StrEnum):
    cosine = "cosine"
    inner_product = "inner_product"


class Prefer(StrEnum):
    small = "small"
    large = "large"


class Precision(StrEnum):
    float16 = "float16"
    float32 = "float32"
    float64 = "float64"


FeaturesArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FEATURES",
        help="One row per item: .npy, .npz, .csv, .parquet, or a text file that starts with "
        "FACTORIZED COMPLETE MULTICUT.",
        show_default=False,
    ),
]
ThresholdOption = Annotated[
    float | None,
    typer.Option(
        "--threshold",
        "-t",
        help="Similarity at which a pair neither attracts nor repels: larger gives more clusters. "
        "[default: 0.4, or what a text file says]",
        show_default=False,
    ),
]
MetricOption = Annotated[
    Metric | None,
    typer.Option(
        help="cosine scales rows to length 1, inner_product uses them as they are. "
        "[default: cosine; inner_product for a text file, which is a finished problem]",
        show_default=False,
    ),
]
CenterOption = Annotated[bool, typer.Option("--center", help="Subtract the mean feature first.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"clusterfug {clusterfug.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def cluster(
    features: Annotated[
        Path,
        typer.Argument(
            metavar="FEATURES",
            help="One row per item: .npy, .npz, .csv, .parquet, or a text file that starts with "
            "FACTORIZED COMPLETE MULTICUT. Or an explicit graph: a text file that starts with "
            "MULTICUT, or .npz as scipy saves a sparse matrix.",
            show_default=False,
        ),
    ],
    threshold: ThresholdOption = None,
    alpha: Annotated[
        str | None,
        typer.Option(
            help="Instead of a threshold: cost = <f_i, f_j> - alpha_i alpha_j. One number, or a "
            ".npy or .csv file with one per item.",
            show_default=False,
        ),
    ] = None,
    prefer: Annotated[Prefer, typer.Option(help="Sign of the alpha term: large adds it.")] = Prefer.small,
    weights: Annotated[
        Path | None,
        typer.Option(
            help="A .npy or .csv file with one weight per item (counts as that many items).",
            show_default=False,
        ),
    ] = None,
    metric: MetricOption = None,
    center: CenterOption = False,
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="auto, gaec, dgaec or dgaec-inc.")
    ] = "auto",
    k: Annotated[
        int | None,
        typer.Option(
            "-k", help="Neighbours kept per node (dgaec, dgaec-inc): speed, not answer.", show_default=False
        ),
    ] = None,
    memory_limit: Annotated[
        float, typer.Option(help="GiB that gaec may use for its n x n costs.")
    ] = 4.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write one label per item: .npy, .csv or .parquet.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Cluster items by their features (or the nodes of a graph) and write their labels."""
    from clusterfug import checks
    from clusterfug.graph import GraphProblem
    from clusterfug.instances import files
    from clusterfug.problem import DenseProblem
    from clusterfug.solve import ALGORITHMS, dense_multicut, multicut

    if alpha is not None and threshold is not None:
        raise ValueError("give --threshold or --alpha, not both")
    checks.one_of("algorithm", algorithm, ("auto", *ALGORITHMS))
    if k is not None:
        checks.count("k", k)
    if output is not None:
        files.check_writable(output, files.LABEL_ENDINGS)
    instance = files.read(features)
    report: dict[str, Any] = {"input": str(features)}
    if isinstance(instance, GraphProblem):
        given = {"--threshold": threshold, "--alpha": alpha, "--weights": weights, "--metric": metric}
        given |= {"-k": k, "--center": center or None}
        for option, value in given.items():
            if value is not None:
                raise ValueError(f"{option} goes with features, but {features} holds a graph")
        if algorithm not in ("auto", "gaec"):
            raise ValueError(f"a graph is clustered by gaec, not {algorithm}")
        with _progress() as callback:
            result = multicut(instance, algorithm=algorithm, callback=callback)
        report |= {"n": instance.n, "d": None, "edges": len(instance.costs), "threshold": None}
    else:
        array = checks.features(instance.array)
        weight = None if weights is None else files.read_column(weights)
        finished = instance.threshold is not None
        metric = metric or (Metric.inner_product if finished else Metric.cosine)
        strength = None if alpha is None else _number_or_file(alpha)
        if threshold is None:
            threshold = 0.4 if instance.threshold is None else instance.threshold
        problem = DenseProblem(
            _prepared(array, metric, center, weight),
            threshold,
            alpha=strength,
            prefer=prefer,
            sample_weight=weight,
        )
        with _progress() as callback:
            result = dense_multicut(
                problem,
                algorithm=algorithm,
                k=k,
                memory_limit=int(checks.number("memory-limit", memory_limit, 0) * 2**30),
                callback=callback,
            )
        report |= {"n": problem.n, "d": problem.d, "threshold": problem.threshold}
        if alpha is not None:
            report |= {"alpha": alpha, "prefer": prefer.value}
        report |= {"metric": metric.value, "center": center}
    if output is not None:
        files.write_labels(output, result.labels)
    report |= {
        "algorithm": result.algorithm,
        "n_clusters": result.n_clusters,
        "objective": result.objective,
        "inside": result.inside,
        "seconds": result.seconds,
        "output": None if output is None else str(output),
    }
    if as_json:
        typer.echo(json.dumps(report))
        return
    sizes = np.sort(np.bincount(result.labels))[::-1]
    table = _plain_table()
    table.add_row("items", f"{report['n']:,}")
    table.add_row("clusters", f"{result.n_clusters:,}")
    table.add_row("largest", ", ".join(f"{size:,}" for size in sizes[:5]))
    table.add_row("alone", f"{int(np.count_nonzero(sizes == 1)):,}")
    table.add_row("objective", f"{result.objective:,.2f}")
    table.add_row("inside", f"{result.inside:,.2f}")
    table.add_row("algorithm", result.algorithm)
    table.add_row("seconds", f"{result.seconds:.2f}")
    table.add_row("labels", str(output) if output else "not written; -o labels.npy writes them")
    _console().print(table)


@app.command()
def inspect(
    features: FeaturesArgument,
    metric: MetricOption = None,
    center: CenterOption = False,
    seed: Annotated[int, typer.Option(help="Seed of the sample of pairs.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Say what one needs to know before choosing a threshold."""
    from clusterfug import checks, inspection

    instance = _features(features)
    finished = instance.threshold is not None
    metric = metric or (Metric.inner_product if finished else Metric.cosine)
    checks.count("seed", seed, 0)
    found = inspection.inspect(instance.array, metric, center, seed)
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    table = _plain_table()
    table.add_row("items", f"{found.n:,}")
    table.add_row("features", f"{found.d:,} ({found.dtype})")
    table.add_row(
        "norms", f"{found.norm_min:.4g} to {found.norm_max:.4g}, mean {found.norm_mean:.4g}"
    )
    table.add_row("zero rows", f"{found.zero_rows:,}")
    table.add_row("duplicates", f"{found.duplicates:,}")
    table.add_row("mean cosine", f"{found.mean_cosine:.3f}")
    console = _console()
    console.print(table)
    if found.pairs:
        how = "centred " if center else ""
        what = "cosines" if metric == Metric.cosine else "inner products"
        console.print(f"\n{how}{what} of {found.pairs:,} pairs")
        quantiles = Table(box=None, pad_edge=False)
        for q in found.quantiles:
            quantiles.add_column({0.0: "min", 0.5: "median", 1.0: "max"}.get(q, f"{q:.1%}"), justify="right")
        quantiles.add_row(*(f"{value:.3g}" for value in found.quantiles.values()))
        console.print(quantiles)
        console.print("\nshare of pairs that attract, by threshold")
        attracting = Table(box=None, pad_edge=False)
        for t in found.attracting:
            attracting.add_column(f"{t:g}", justify="right")
        attracting.add_row(*(f"{share:.2%}" for share in found.attracting.values()))
        console.print(attracting)
    for line in found.advice:
        console.print(f"\n[bold]note[/bold] {line}")


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Features or a graph.", show_default=False)],
    target: Annotated[
        Path,
        typer.Argument(
            metavar="OUTPUT",
            help="Features: .npy, .npz, .csv, .parquet or .txt. A graph: .txt or .npz.",
            show_default=False,
        ),
    ],
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold", "-t", help="The number that a .txt file subtracts. [default: 0.4]", show_default=False
        ),
    ] = None,
    dtype: Annotated[
        Precision | None,
        typer.Option(
            help="Precision of the output. [default: that of the input; float32 for text]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Convert features or a graph from one file format to another."""
    from clusterfug import checks
    from clusterfug.graph import GraphProblem
    from clusterfug.instances import files

    files.check_readable(source)
    files.check_writable(target, files.FEATURE_ENDINGS)
    instance = files.read(source, np.float64 if dtype == Precision.float64 else np.float32)
    if isinstance(instance, GraphProblem):
        files.check_writable(target, files.GRAPH_ENDINGS)
        if threshold is not None or dtype is not None:
            raise ValueError(f"--threshold and --dtype go with features; {source} holds a graph")
        what = f"{instance.n:,} nodes, {len(instance.costs):,} edges"
    else:
        if threshold is not None and target.suffix.lower() != ".txt":
            raise ValueError("--threshold goes with a .txt output: other formats hold features only")
        array = instance.array
        checks.features(array)
        if dtype is not None:
            array = array.astype(dtype.value)
            checks.features(array)
        instance = instance._replace(array=array)
        what = f"{array.shape[0]:,} x {array.shape[1]:,} {array.dtype}"
        if threshold is None:
            threshold = instance.threshold
    threshold = checks.number("threshold", 0.4 if threshold is None else threshold)
    files.write_instance(target, instance, threshold)
    typer.echo(f"{target}: {what}")


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for labels and picture.")
    ] = Path("clusterfug-demo"),
    threshold: Annotated[float, typer.Option("--threshold", "-t")] = 0.4,
) -> None:
    """Cluster scikit-learn's 1,797 handwritten digits; write labels and a picture of the clusters."""
    from clusterfug.demo import run_demo

    console = Console(stderr=True)
    if console.is_terminal:
        console.print("clustering 1,797 digits; the first run compiles kernels (about 20 s)")
    done = run_demo(output, threshold)
    table = Table(box=None, pad_edge=False)
    for heading in ("items", "clusters", "objective", "AMI", "seconds"):
        table.add_column(heading, justify="right")
    result = done.result
    table.add_row(
        f"{len(result.labels):,}",
        str(result.n_clusters),
        f"{result.objective:,.2f}",
        f"{done.ami:.3f}",
        f"{result.seconds:.2f}",
    )
    _console().print(table)
    for path in done.files:
        typer.echo(f"wrote {path}")


def main(arguments: list[str] | None = None) -> None:
    """Run a command; every error a user can cause is one line, and exit code 2."""
    command = typer.main.get_command(app)
    try:
        code = command.main(args=arguments, prog_name="clusterfug", standalone_mode=False)
    except UsageError as error:
        code = _fail(error.format_message())  # type: ignore[attr-defined]
    except (ValueError, TypeError, OSError, MemoryError, ImportError) as error:
        code = _fail(str(error) or type(error).__name__)
    except (KeyboardInterrupt, typer.Abort):
        print("clusterfug: interrupted; nothing was written", file=sys.stderr)
        code = 130
    sys.exit(code or 0)


def _fail(message: str) -> int:
    print(f"clusterfug: error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _features(path: Path) -> Any:
    from clusterfug.graph import GraphProblem
    from clusterfug.instances import files

    instance = files.read(path)
    if isinstance(instance, GraphProblem):
        raise ValueError(f"{path} holds a graph, not features")
    return instance


def _prepared(array: Any, metric: str, center: bool, weight: Any) -> Any:
    from clusterfug import checks
    from clusterfug.preprocess import mean_feature, prepare

    if weight is not None:
        weight = checks.per_item("weights", weight, len(array))
    return prepare(array, metric, mean_feature(array, weight) if center else None)


def _number_or_file(text: str) -> Any:
    from clusterfug.instances import files

    try:
        return float(text)
    except ValueError:
        return files.read_column(Path(text))


def _console() -> Console:
    """Standard output; wide enough for every table when it is not a terminal."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def _plain_table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    return table


@contextmanager
def _progress() -> Iterator[Any]:
    """A callback that draws a progress bar on a terminal, or None where there is none."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description:12}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("neighbours", total=1.0)

        def callback(phase: str, done: int, total: int) -> None:
            bar.update(task, description=phase, completed=done / total)

        yield callback


if __name__ == "__main__":
    main()
