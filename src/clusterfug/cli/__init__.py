"""The command line: a thin shell over the package. Exits 0, or 2 with one line on standard error."""

import sys
from typing import Annotated

import typer

import clusterfug
from clusterfug.cli.bound import bound
from clusterfug.cli.cluster import cluster
from clusterfug.cli.convert import convert
from clusterfug.cli.demo import demo
from clusterfug.cli.embed import embed
from clusterfug.cli.evaluate import evaluate
from clusterfug.cli.inspect import inspect
from clusterfug.cli.options import option
from clusterfug.cli.segment import segment

app = typer.Typer(
    name="clusterfug",
    help="Clustering without choosing the number of clusters: dense multicut on feature vectors.",
    add_completion=False,
    rich_markup_mode="rich",
)
for command in (cluster, inspect, evaluate, bound, convert, embed, segment, demo):
    app.command()(command)

INTERRUPTED = 130
# The class of all errors in how a command is called; where typer keeps it depends on the version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, option("Print the version and exit.", "--version")] = False,
) -> None:
    if version:
        typer.echo(f"clusterfug {clusterfug.__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


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
        code = INTERRUPTED
    if code == INTERRUPTED:  # some versions of typer return it, others raise
        print("clusterfug: interrupted; no output was written", file=sys.stderr)
    sys.exit(code or 0)


def _fail(message: str) -> int:
    print(f"clusterfug: error: {' '.join(message.split())}", file=sys.stderr)
    return 2
