"""Where a solver runs: one function decides between CPU, device, shards and dask from the user's arguments.

Nothing heavy is imported: torch only if a device is asked for.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfug import checks
from clusterfug.execution.torch.device import choose_device, is_given
from clusterfug.problems.protocol import Solvable
from clusterfug.solvers import Solver, names

if TYPE_CHECKING:
    import torch

#: How candidates are found on a GPU.
PRECISIONS = ("fast", "exact")


@dataclass(frozen=True)
class Execution:
    """Where a solver runs, and within which limits.

    kind : "cpu", "torch" (tensors on `device`), "sharded" (parts, one after the other) or "dask".
    """

    kind: str = "cpu"
    device: "torch.device | None" = None
    precision: str = "fast"
    memory_limit: int | None = None  # bytes
    checkpoint: Path | None = None
    client: Any = None

    @property
    def is_sharded(self) -> bool:
        """Whether the items are solved in parts."""
        return self.kind in ("sharded", "dask")


def plan(
    problem: Solvable,
    solver: Solver,
    *,
    device: Any = None,
    precision: str = "fast",
    memory_limit: Any = None,
    checkpoint: Any = None,
    client: Any = None,
    bound: bool = False,
) -> Execution:
    """Return where to solve a problem; combinations that cannot run are errors, before any work.

    A dask array or a client means dask; a device or a tensor on one means tensors; a checkpoint, or a
    memory limit that the problem exceeds, means shards; everything else is solved on the CPU at once.
    """
    checks.one_of("precision", precision, PRECISIONS)
    checks.flag("bound", bound)
    _check_problem(problem, solver)
    limit = None if memory_limit is None else checks.memory("memory_limit", memory_limit)
    folder = None if checkpoint is None else _checked_folder(checkpoint)
    X = getattr(problem, "X", None)
    if client is not None or checks.is_dask(X):
        planned = Execution("dask", None, precision, limit, folder, client)
        if is_given(device):
            raise ValueError("a cluster solves on CPUs: leave out the device, or the client")
    else:
        on_device = "torch" in problem.executions
        if not on_device and is_given(device):
            raise ValueError(f"{problem.noun} is solved on the CPU: leave out the device")
        place = choose_device(device, solver, X) if on_device else None
        if place is not None:
            if folder is not None:
                raise ValueError("checkpoint is for the CPU: leave it out, or use device='cpu'")
            return Execution("torch", place, precision, limit)
        planned = Execution("cpu", None, precision, limit, folder)
        if "sharded" not in problem.executions:
            if folder is not None:
                raise ValueError(f"checkpoint goes with features, not with {problem.noun}: leave it out")
            if problem.kind == "mixed" and _exceeds(problem, solver, limit):
                raise ValueError(f"{problem.noun} is solved at once: leave out memory_limit, or raise it")
        elif folder is not None or _exceeds(problem, solver, limit):
            planned = replace(planned, kind="sharded")
    if planned.is_sharded:
        if not problem.executions & {"sharded", "dask"}:
            raise ValueError(f"{problem.noun} is solved on this machine, at once: leave out dask")
        _check_sharded(problem, solver, planned, bound)
    return planned


def _check_problem(problem: Solvable, solver: Solver) -> None:
    if problem.kind not in solver.problems:
        known = ", ".join(names(problem.kind))
        raise ValueError(f"{problem.noun} is solved by {known}, not by {solver.name}")


def _exceeds(problem: Any, solver: Solver, limit: int | None) -> bool:
    """Whether solving at once would take more memory than the limit, by a solver that can work in
    shards.
    """
    from clusterfug.execution.sharded.source import solve_bytes

    if limit is None or "sharded" not in solver.executions or len(problem.shape) != 2:
        return False
    return solve_bytes(*problem.shape) > limit


def _check_sharded(problem: Solvable, solver: Solver, planned: Execution, bound: bool) -> None:
    """Raise errors for what cannot be solved in parts."""
    if planned.kind not in solver.executions:
        known = " and ".join(names(execution=planned.kind))
        what = "checkpoint goes with" if planned.checkpoint is not None else "shards are solved by"
        raise ValueError(f"{what} {known}, not {solver.name}")
    in_memory = planned.kind == "sharded" and planned.checkpoint is None and not problem.is_stored
    in_memory = in_memory and not isinstance(getattr(problem, "X", None), np.memmap)
    if problem.needs_all_items and not in_memory:
        raise ValueError(
            "a local threshold looks at the neighbours of all items, which shards do not know: give a "
            "number as threshold (what is selected for a sample, say), or alpha"
        )
    if bound:
        raise ValueError("shards have no bound: leave it out")


def _checked_folder(checkpoint: Any) -> Path:
    if not isinstance(checkpoint, str | Path) or not str(checkpoint):
        raise TypeError(f"checkpoint must be the path of a folder, not {checks.shown(checkpoint)}")
    folder = Path(checkpoint)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"checkpoint must be a folder, and {folder} is none")
    if not folder.absolute().parent.is_dir():
        raise FileNotFoundError(f"checkpoint: the folder {folder.parent} does not exist")
    return folder
