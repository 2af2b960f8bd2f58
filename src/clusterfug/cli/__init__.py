"""The command line: a thin shell over the package. Exits 0, or 2 with one line on standard error."""

import errno
import logging
import re
import sys
from typing import Annotated, Any

import typer

import clusterfug
from clusterfug.__main__ import INTERRUPTED
from clusterfug.cli.bound import bound
from clusterfug.cli.cluster import cluster
from clusterfug.cli.convert import convert
from clusterfug.cli.demo import demo
from clusterfug.cli.embed import embed
from clusterfug.cli.evaluate import evaluate
from clusterfug.cli.inspect import inspect
from clusterfug.cli.multicut import multicut
from clusterfug.cli.options import option
from clusterfug.cli.segment import segment
from clusterfug.execution import threads

app = typer.Typer(
    name="clusterfug",
    help="Clustering without choosing the number of clusters: dense multicut on feature vectors.",
    add_completion=False,
    rich_markup_mode="rich",
)
for command in (cluster, multicut, inspect, evaluate, bound, convert, embed, segment, demo):
    app.command()(command)

logging.getLogger("PIL").addHandler(logging.NullHandler())  # what it warns of is raised, too

#: Output files appear when they are complete; Ctrl-C may come after that.
INTERRUPTED_MESSAGE = "clusterfug: interrupted; every output is complete or not written"
#: Errors that a user can cause.
USER_ERRORS = (ValueError, TypeError, OSError, MemoryError, ImportError)
#: Errors of writing. Those of files name them; those of standard output name nothing.
WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF)

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


COMMANDS: Any = typer.main.get_command(app)
for each in (COMMANDS, *COMMANDS.commands.values()):
    for parameter in each.get_params(typer.Context(each)):
        if getattr(parameter, "is_flag", False):
            parameter.metavar = " "  # some versions of typer show flags as options with a value


def main(arguments: list[str] | None = None) -> None:
    """Run a command; every error a user can cause is one line, and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = COMMANDS.main(args=given, prog_name="clusterfug", standalone_mode=False)
    except UsageError as error:
        code = _fail(error.format_message().replace(": Value error, ", ": "))  # type: ignore[attr-defined]
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except Exception as error:
        if threads.interrupt_is_lost():
            code = INTERRUPTED
        elif isinstance(error, USER_ERRORS):
            code = _fail(in_options(described(error), options_of(given), given))
        else:
            raise
    if code == INTERRUPTED:  # some versions of typer return it, others raise
        print(INTERRUPTED_MESSAGE, file=sys.stderr)
    sys.exit(code or 0)


def described(error: Exception) -> str:
    """Return the message of an error; of one of the system what failed on which file."""
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in WRITE_ERRORS:
        return f"cannot write the output: {error.strerror}"
    return str(error) or type(error).__name__


def options_of(arguments: list[str]) -> dict[str, str]:
    """Return the options of the command that is run, by the names of the parameters that they set."""
    name = next((argument for argument in arguments if argument in COMMANDS.commands), None)
    parameters = COMMANDS.commands[name].params if name is not None else []
    found = {parameter.name: parameter.opts[0] for parameter in parameters}
    renamed = {"sample_weight": "weights", "random_state": "seed"}
    found |= {python: found[own] for python, own in renamed.items() if own in found}
    return {python: flag for python, flag in found.items() if flag.startswith("--")}


def in_options(message: str, options: dict[str, str], given: list[str]) -> str:
    """Return a message in which options of the command stand for parameters of functions.

    What the user has written, in quotes or as an argument of the command, stays as it is.
    """
    written = (argument for argument in given if any(name in argument != name for name in options))
    quoted = r"(?<!=)'[^']*'", r'(?<!=)"[^"]*"'
    kept = re.compile("(" + "|".join((*quoted, *map(re.escape, written))) + ")")
    parts = kept.split(message)
    parts[::2] = (_with_flags(part, options) for part in parts[::2])
    return "".join(parts)


def _with_flags(message: str, options: dict[str, str]) -> str:
    """Return a message with options for parameters; a name that touches a path is part of it."""
    for python, flag in options.items():
        name = rf"(?<![\w./\\-]){python}"
        message = re.sub(rf"{name}=True\b", flag, message)
        value = r"(?:'([^']*)'|\"([^\"]*)\"|([\w.+-]+))"
        message = re.sub(rf"{name}={value}", rf"{flag} \1\2\3", message)
        if "_" in python or message.startswith(f"{python} "):
            message = re.sub(rf"{name}(?![\w./\\-])", flag, message)
    return message


def _fail(message: str) -> int:
    print(f"clusterfug: error: {' '.join(message.split())}", file=sys.stderr)
    return 2
