"""Links on the command line: from options to a problem with links, and what is printed about them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterfug.cli.options import no_options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from clusterfug.problems.links import Links
    from clusterfug.solvers import Solver

#: A file, and the name of a column in it.
_FILE_AND_COLUMN = re.compile(r"(.+?\.[a-z]+):(.*)", re.IGNORECASE)


@dataclass(frozen=True)
class LinkOptions:
    """The options that say what is known about pairs of items; None where they are not given."""

    must_link: Path | None = None
    cannot_link: Path | None = None
    exclusive: str | None = None
    link_weight: float | None = None

    def __post_init__(self) -> None:
        if self.link_weight is not None and not self.are_given:
            raise ValueError(
                "--link-weight weighs links: give --must-link, --cannot-link or --exclusive, too"
            )

    @property
    def files(self) -> dict[str, Any]:
        """The options that name files of links."""
        names = ("--must-link", "--cannot-link", "--exclusive")
        return dict(zip(names, (self.must_link, self.cannot_link, self.exclusive), strict=True))

    @property
    def are_given(self) -> bool:
        return any(value is not None for value in self.files.values())

    @property
    def are_soft(self) -> bool:
        """Whether links are given, and may be broken."""
        return self.link_weight is not None

    @property
    def inputs(self) -> list[Path]:
        """Files that the options name."""
        groups = None if self.exclusive is None else _file_and_column(self.exclusive)[0]
        return [path for path in (self.must_link, self.cannot_link, groups) if path is not None]

    def check_none_given(self, reason: str) -> None:
        """Raise an error if any of the options is given."""
        no_options(self.files | {"--link-weight": self.link_weight}, reason)

    def check_solver(self, solver: "Solver") -> None:
        """Raise an error if links are given to a solver that does not know them."""
        from clusterfug.solvers import names

        if "mixed" not in solver.problems:
            self.check_none_given(f"goes with {', '.join(names('mixed'))}, not with {solver.name}")

    def linked(self, problem: Any, path: Path) -> Any:
        """Return a problem of the items in a file with the links, if there are any."""
        from clusterfug.io.links import read_groups, read_pairs
        from clusterfug.problems.arguments import with_links
        from clusterfug.problems.protocol import Problem

        if not self.are_given:
            return problem
        is_graph = isinstance(problem, Problem)
        groups = None
        item = "node" if is_graph else "item"
        if self.exclusive is not None:
            groups = read_groups(*_file_and_column(self.exclusive))
            n = problem.n if is_graph else problem.shape[0]
            if len(groups) != n:
                raise ValueError(
                    f"{self.exclusive} has {len(groups):,} groups, but {path} has {n:,} {item}s: give one "
                    f"per {item}; if there is a heading, name the column, as in photos.csv:photo"
                )
        return with_links(
            problem,
            must_link=None if self.must_link is None else read_pairs(self.must_link),
            cannot_link=None if self.cannot_link is None else read_pairs(self.cannot_link),
            exclusive=groups,
            link_weight=self.link_weight,
            item=item,
        )


def _file_and_column(text: str) -> tuple[Path, str | None]:
    """Return FILE, or FILE and COLUMN of FILE:COLUMN; a file of that name is meant if there is one."""
    found = None if Path(text).exists() else _FILE_AND_COLUMN.fullmatch(text)
    return (Path(text), None) if found is None else (Path(found[1]), found[2])


def describe_links(links: "Links | None", labels: "NDArray[Any] | None" = None) -> dict[str, Any] | None:
    """Return numbers of links, and of those that labels break, as JSON values."""
    if links is None:
        return None
    numbers = {"must": len(links.must), "cannot": len(links.cannot), "exclusive_groups": len(links.names)}
    broken = None if labels is None else links.broken(labels)
    return numbers | {"weight": links.weight, "broken": broken}


def links_row(about: dict[str, Any] | None) -> str | None:
    """Return the row of a table that says what `describe_links` does."""
    if about is None:
        return None
    plural = "" if about["exclusive_groups"] == 1 else "s"
    kinds = {"must": "must", "cannot": "cannot", "exclusive_groups": f"exclusive group{plural}"}
    given = ", ".join(f"{about[key]:,} {kind}" for key, kind in kinds.items() if about[key]) or "none"
    if about["broken"] is None:
        return given
    return f"{given}; {format(about['broken'], ',') if about['broken'] else 'none'} broken"
