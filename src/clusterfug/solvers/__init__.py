"""The registry of solvers: one frozen dataclass per algorithm, which owns its options.

Validation, docstrings, command-line help and the table in the documentation are made from it.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from clusterfug import checks
from clusterfug.solvers.base import Context, Solver, option
from clusterfug.solvers.contraction import Dapplaec, Dgaec, DgaecInc, Dlaec, Gaec
from clusterfug.solvers.exact import Exact
from clusterfug.solvers.local_search import AutoSearch, BestSearch, FastSearch

__all__ = [
    "SOLVERS",
    "AutoSearch",
    "BestSearch",
    "Context",
    "Dapplaec",
    "Dgaec",
    "DgaecInc",
    "Dlaec",
    "Exact",
    "FastSearch",
    "Gaec",
    "Solver",
    "documented",
    "make_solver",
    "names",
    "option",
    "option_names",
    "register",
]

F = TypeVar("F", bound=Callable[..., Any])
#: Solvers by the name that `algorithm=` takes.
SOLVERS: dict[str, type[Solver]] = {}


def register(solver: type[Solver]) -> type[Solver]:
    """Make a solver available as ``algorithm="its name"``; usable as a decorator."""
    SOLVERS[solver.name] = solver
    return solver


for _solver in (AutoSearch, FastSearch, BestSearch, Exact, Gaec, Dgaec, DgaecInc, Dlaec, Dapplaec):
    register(_solver)


def names(problem: str | None = None, execution: str | None = None) -> tuple[str, ...]:
    """Return the names of all solvers, or of those for a kind of problem or a place of execution."""
    return tuple(
        name
        for name, solver in SOLVERS.items()
        if (problem is None or problem in solver.problems)
        and (execution is None or execution in solver.executions)
    )


def option_names() -> list[str]:
    """Return the names of the options of all solvers, each once."""
    return list(dict.fromkeys(name for solver in SOLVERS.values() for name in solver.options()))


def documented(function: F) -> F:
    """Fill in the placeholders {algorithms} and {options} of a docstring from the registry; a decorator."""
    choices = "".join(f'\n        - "{name}": {solver.summary}.' for name, solver in SOLVERS.items())
    having: dict[str, list[str]] = {}
    for name, solver in SOLVERS.items():
        for each in solver.options():
            having.setdefault(each, []).append(name)
    options = "".join(
        f"\n        - {each} ({', '.join(solvers)}): {SOLVERS[solvers[0]].options()[each]}."
        for each, solvers in having.items()
    )
    if function.__doc__ is not None:  # python -OO has no docstrings
        filled = function.__doc__.replace("{algorithms}", choices.lstrip())
        function.__doc__ = filled.replace("{options}", options.lstrip())
    return function


def make_solver(algorithm: Any, /, **options: Any) -> Solver:
    """Return the solver of a name with its options, or a solver as it is.

    Options that are None or False count as not given. `random_state` may be given to every solver, since
    it is how a caller asks for repeatable results; others that the solver does not have are errors.
    """
    if isinstance(algorithm, Solver):
        for name, value in options.items():
            # 0 is the default of the estimator and of the command line.
            if value is not None and value is not False and not (name == "random_state" and value == 0):
                raise ValueError(f"the solver brings its options: give {name} when making it")
        return algorithm
    solver = SOLVERS[checks.one_of("algorithm", algorithm, tuple(SOLVERS))]
    known, taken = option_names(), {}
    for name, value in options.items():
        if name not in known:
            raise TypeError(f"{name} is no option of any algorithm: they are {', '.join(sorted(known))}")
        if name in solver.options():
            if value is not None or name == "random_state":
                taken[name] = value
        elif name == "random_state":
            checks.generator(name, value)
        elif value is not None and value is not False:
            having = ", ".join(each for each in SOLVERS if name in SOLVERS[each].options())
            raise ValueError(f"{name} goes with {having}, not with {algorithm}: leave it out")
    return solver(**taken)
