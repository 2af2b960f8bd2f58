"""Options of the commands, each declared once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from clusterfug.solvers import SOLVERS, names

Metric = StrEnum("Metric", ["cosine", "inner_product"])
AnnIndex = StrEnum("AnnIndex", ["hnsw", "ivf"])
Precision = StrEnum("Precision", ["fast", "exact"])
Prefer = StrEnum("Prefer", ["small", "large"])


def option(help: str, *flags: str, **settings: Any) -> Any:
    """Return an option whose default is None or False; the help says what that means."""
    return typer.Option(*flags, help=help, show_default=False, **settings)


def shown(help: str, *flags: str, **settings: Any) -> Any:
    """Return an option whose default is shown."""
    return typer.Option(*flags, help=help, **settings)


def argument(name: str, help: str) -> Any:
    return typer.Argument(metavar=name, help=help, show_default=False)


def no_options(given: dict[str, Any], reason: str) -> None:
    """Raise an error for the first option that is given although it does not go with something."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise ValueError(f"{name} {reason}")


FEATURES = (
    "One row per item: .npy, .npz, .h5, .csv, .parquet, or a text file that starts with "
    "FACTORIZED COMPLETE MULTICUT."
)
GRAPH = (
    "Or an explicit graph: a text file that starts with MULTICUT, or .npz as scipy saves a sparse matrix."
)
COLUMN = ".npy, .npz, .csv, .parquet or .txt"
_AS_LABELS = "for evaluate and bound, as for the labels"
_FOLDER = "A folder of .npy, .parquet, .arrow or .feather files."
_ALGORITHMS = escape("\n\n".join(f"{name}: {solver.summary}." for name, solver in SOLVERS.items()))

FeaturesFolderOrGraph = Annotated[Path, argument("FEATURES", f"{FEATURES} {_FOLDER} {GRAPH}")]

# Costs.
Threshold = Annotated[
    str | None,
    option(
        "Similarity at which a pair neither attracts nor repels: larger gives more clusters. local is one "
        "for each item, from its neighbours; auto selects how strict, too; neighbours is the modularity of "
        f"a graph of nearest neighbours. Default: auto, or what a text file says; {_AS_LABELS}.",
        *("--threshold", "-t"),
        metavar="NUMBER | local | auto | neighbours",
    ),
]
Strictness = Annotated[
    float | None,
    option(
        "Of a local threshold: the share of the similarity to its neighbours at which an item is neutral. "
        "Larger gives more clusters. Default: 0.6."
    ),
]
Neighbors = Annotated[
    int | None,
    option("Nearest items that a local threshold looks at. Default: 100, or two thirds of the items."),
]
NClusters = Annotated[
    str | None,
    option(
        "Target number of clusters: a local threshold is made as strict as it takes.",
        metavar="N | LOW:HIGH",
    ),
]
Alpha = Annotated[
    str | None,
    option(
        "Instead of a threshold: cost = <f_i, f_j> - alpha_i alpha_j. One number, or a file with one per "
        f"item: {COLUMN}."
    ),
]
PreferSign = Annotated[
    Prefer | None, option(f"Sign of the alpha term: large adds it. Default: small; {_AS_LABELS}.")
]
Weights = Annotated[Path | None, option(f"One weight per item (counts as that many items): {COLUMN}.")]
MetricName = Annotated[
    Metric | None,
    option(
        "cosine scales rows to length 1, inner_product uses them as they are. Default: cosine, or "
        f"inner_product for a text file, which is a finished problem; {_AS_LABELS}."
    ),
]
Center = Annotated[
    bool | None,
    option(
        f"Subtract the mean feature first. Default: no; {_AS_LABELS}.",
        "--center/--no-center",
    ),
]

# Links.
_PAIRS = "one pair of item numbers per line, counted from 0: .csv, .tsv, .txt or .npy"
MustLink = Annotated[
    Path | None, option(f"Items that belong together: {_PAIRS}. No link is broken, without --link-weight.")
]
CannotLink = Annotated[Path | None, option(f"Items that do not belong together: {_PAIRS}.")]
Exclusive = Annotated[
    str | None,
    option(
        "A group per item, for example its photo: no two items of a group are together. One name or number "
        "per line, empty or -1 for none: .csv, .tsv or .txt; the column of a .csv file with a heading, as "
        "in photos.csv:photo; or numbers: .npy, .npz or .parquet.",
        metavar="FILE[:COLUMN]",
    ),
]
LinkWeight = Annotated[
    float | None, option("What it costs to break a link. Default: no link may be broken.", metavar="NUMBER")
]

# The search, and where it runs.
Algorithm = Annotated[
    str,
    shown(f"{_ALGORITHMS}\n\nFor a graph: {', '.join(names('graph'))}.", "--algorithm", "-a"),
]
GraphAlgorithm = Annotated[
    str,
    shown(
        escape("\n\n".join(f"{name}: {SOLVERS[name].summary}." for name in names("graph"))),
        *("--algorithm", "-a"),
    ),
]
Refine = Annotated[bool, option("Refine what a contraction found by moves and joins.", "--refine")]
Init = Annotated[
    Path | None, option(f"Labels to start from, one per item: {COLUMN}. Their settings are not used.")
]
TimeLimit = Annotated[
    float | None,
    option("Seconds after which refinement stops with the best so far. Default: 60 for best and exact."),
]
MaxIter = Annotated[
    int | None, option("Iterations of best: a budget that does not depend on the machine's speed.")
]
Seed = Annotated[int, shown("Seed of the search of best and the second start of auto.")]
KeptNeighbors = Annotated[
    int | None, option("Neighbours kept per node by contractions. Default: 1 for dgaec, else 5.", "-k")
]
Ann = Annotated[AnnIndex | None, option("Index of the approximate search of dapplaec. Default: hnsw.")]
Device = Annotated[
    str,
    shown(
        f"Where to run: cuda is a GPU (needs torch; {' and '.join(names(execution='torch'))} run there); "
        "auto is one if it is there and the algorithm runs there, else the CPU.",
        metavar="cpu | cuda | cuda:N | auto",
    ),
]
CandidatePrecision = Annotated[
    Precision,
    shown("On a GPU, how candidates are found: in bfloat16 or in float32. The CPU is always exact."),
]
MemoryLimit = Annotated[
    str | None,
    option(
        "What gaec may use for its n x n costs (default: 4GiB), what auto and fast may use for a part "
        "(items that need more are read and solved shard by shard), or what may be used on a GPU "
        "(default: 90 % of what is free). A number without a unit is GiB.",
        metavar="600MB | 2GiB",
    ),
]
Checkpoint = Annotated[
    Path | None,
    option(
        "Solve shard by shard and keep finished work there: the same command continues from it after it "
        "was stopped.",
        metavar="FOLDER",
    ),
]
Scheduler = Annotated[
    str | None,
    option(
        "Run on a dask cluster, whose workers can read FEATURES (needs dask).", metavar="tcp://HOST:PORT"
    ),
]
Bound = Annotated[
    bool, option("Compute a lower bound, too: how far from optimal the result is at most.", "--bound")
]

# Output.
Thresholds = Annotated[
    str | None,
    option(
        "Instead of one threshold: a table of clusterings at several, such as 0.2:0.8:7, to choose one.",
        metavar="FIRST:LAST:COUNT",
    ),
]
Plot = Annotated[
    Path | None,
    option("With --thresholds, or where the strictness is selected: draw what was tried, .png."),
]
LabelsOutput = Annotated[
    Path | None,
    option(
        "Write one label per item, and the settings that they were solved with: .npy, .npz, .csv or "
        ".parquet; for a folder of features also a new folder, with a .parquet file for each of its files.",
        *("--output", "-o"),
    ),
]
Json = Annotated[bool, option("Print one JSON object instead of a table.", "--json")]


def in_bytes(text: str | None) -> int | None:
    """Return what --memory-limit says, in bytes; a number alone is GiB."""
    from clusterfug import checks

    if text is None:
        return None
    try:
        gib = float(text)
    except ValueError:
        return checks.memory("--memory-limit", text)
    return int(checks.number("--memory-limit", gib, 1e-9) * 2**30)
