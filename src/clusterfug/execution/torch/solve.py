"""Execution as tensors on a device: problems are packed, and all problems of a pack are solved at once."""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clusterfug.core import recorded
from clusterfug.execution.jit import Progress
from clusterfug.execution.plan import Execution
from clusterfug.execution.torch.device import memory, out_of_memory
from clusterfug.execution.torch.inputs import Item
from clusterfug.execution.torch.multilevel import Step, steps
from clusterfug.execution.torch.pack import Pack, check_memory, make, plan
from clusterfug.execution.torch.problem import TensorProblem
from clusterfug.result import Clustering, Phase, number_by_first_appearance
from clusterfug.solvers import Solver
from clusterfug.solvers.local_search import LocalSearch

_TILE = 1 << 24  # products of items of weight 0 and clusters at a time

Outcome = Clustering | Exception


def execute(
    problem: Any, solver: Solver, execution: Execution, bound: bool, callback: Progress | None
) -> Clustering:
    """Solve one problem, which is a pack of one; a lower bound is computed afterwards."""
    [found] = [
        found for pack in solve_packed([problem], solver, execution, callback) for found in pack.values()
    ]
    if isinstance(found, Exception):
        raise found
    if not bound:
        return found
    from clusterfug.bounds.compute import compute_bound

    return replace(
        found, bound=compute_bound(problem, execution, time_limit=solver.given_seconds, callback=callback)
    )


def solve_packed(
    problems: Sequence[Any], solver: Solver, execution: Execution, callback: Progress | None = None
) -> Iterator[dict[int, Outcome]]:
    """Yield results and errors by position: first those of invalid problems, then pack by pack."""
    device = execution.device
    assert device is not None
    begin = time.perf_counter()
    items: dict[int, Item] = {}
    wrong: dict[int, Outcome] = {}
    for t, problem in enumerate(problems):
        try:
            items[t] = Item(problem, device, solver)
        except Exception as error:
            wrong[t] = error
    if wrong:
        yield wrong
    positions = list(items)
    limit = memory(device, execution.memory_limit)
    for together, streamed in plan(list(items.values()), limit):
        pack = {positions[t]: items[positions[t]] for t in together}
        try:
            with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
                if streamed:
                    check_memory(*pack.values(), limit=limit, device=device)
                found = _solve(pack, solver, execution, limit, streamed, callback, begin)
        except torch.cuda.OutOfMemoryError:
            found = dict.fromkeys(pack, out_of_memory(device))
        except Exception as error:
            found = dict.fromkeys(pack, error.with_traceback(None))  # which would keep tensors alive
        yield found
        begin = time.perf_counter()


def _solve(
    pack: dict[int, Item],
    solver: Solver,
    execution: Execution,
    limit: float,
    streamed: bool,
    callback: Progress | None,
    begin: float,
) -> dict[int, Outcome]:
    """Solve the valid problems of a pack at once."""
    device = execution.device
    assert device is not None
    exact = execution.precision == "exact" or device.type == "cpu"
    narrow = torch.float32 if exact else torch.bfloat16
    found: dict[int, Outcome] = {}
    made, errors = make(list(pack.values()), device, narrow, limit, streamed)
    if errors:
        names = list(pack)
        found = {names[t]: error for t, error in errors.items()}
        pack = {t: item for t, item in pack.items() if t not in found}
        if not pack:
            return found
        made, _ = make(list(pack.values()), device, narrow, limit, streamed)
    assert made is not None
    found |= zip(pack, _run(made, list(pack.values()), solver, callback, begin), strict=True)
    return found


class _Passed(NamedTuple):
    """A step and where it arrived, per problem."""

    step: Step
    end: float
    inside: list[float]
    counts: list[float]


def _run(
    pack: Pack, items: list[Item], solver: Solver, callback: Progress | None, begin: float
) -> list[Clustering]:
    """Take the steps, cost the labels after each in float64, and say how they came about."""
    assert isinstance(solver, LocalSearch)  # by the plan
    problem = pack.problem
    budget = solver.budget()
    passed: list[_Passed] = []
    all_pairs: list[float] = []
    for step in steps(problem, pack.init, budget, pack.starts):
        clusters, labels = _numbered(problem, step.labels)
        if not all_pairs:
            whole, _ = clusters.contract(torch.zeros_like(clusters.of))
            all_pairs = problem.inside(whole).tolist()
        inside, counts = torch.stack([problem.inside(clusters), clusters.starts.diff().double()]).tolist()
        passed.append(_Passed(step, time.perf_counter(), inside, counts))
        if callback is not None:
            done, total = budget.spent()
            callback(step.name, min(done, total), max(1, total))
    begins = np.append(0, np.cumsum(pack.sizes))
    first = clusters.starts.tolist()
    numbers = labels.cpu().numpy()
    results = []
    for p, item in enumerate(items):
        own = numbers[begins[p] : begins[p + 1]] - first[p]
        if item.present is not None:
            own = _label_absent(item, own, clusters.features[first[p] : first[p + 1]])
        unit, last = pack.units[p], begin
        trace = []
        for step, end, inside, counts in passed:
            cost = unit * (all_pairs[p] - inside[p])
            phase = Phase(step.name, end - last, int(counts[p]), cost, *step[2:])
            trace.append(phase)
            last = end
        results.append(recorded(solver.name, own, unit * inside[p], trace, begin))
    return results


def _numbered(problem: TensorProblem, labels: Tensor) -> tuple[TensorProblem, Tensor]:
    """The clusters of labels, and labels numbered by first appearance from problem to problem.

    No two problems have a label in common.
    """
    items = torch.arange(problem.n, device=labels.device)
    none = torch.full((int(labels.max()) + 1,), problem.n, device=labels.device)
    first = none.scatter_reduce(0, labels, items, "amin")
    return problem.contract(first[labels])


def _label_absent(item: Item, labels: NDArray[np.int64], sums: Tensor) -> NDArray[np.int64]:
    """Labels of all items: those of weight 0 go to the cluster of the most similar mean feature."""
    weights = np.bincount(labels, weights=item.of_present(item.weight))
    means = sums / torch.from_numpy(weights).to(sums.device)[:, None]
    if item.signs is not None:
        means *= torch.tensor(item.signs, device=sums.device)
    present = item.weight > 0
    every = np.empty(len(present), dtype=np.int64)
    every[present] = labels
    absent = np.flatnonzero(~present)
    for some in np.array_split(absent, 1 + len(absent) * max(means.shape) // _TILE):
        rows = item.features[torch.from_numpy(some).to(item.features.device)]
        every[some] = (rows.to(sums.device).double() @ means.T).argmax(1).cpu().numpy()
    return number_by_first_appearance(every)
