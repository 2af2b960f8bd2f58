"""The road on a device: problems are packed, each pack is solved at once, every problem gets its result."""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clusterfug.gpu.device import memory, out_of_memory
from clusterfug.gpu.inputs import Item
from clusterfug.gpu.multilevel import Step, steps
from clusterfug.gpu.pack import Pack, check_memory, make, plan
from clusterfug.gpu.problem import TensorProblem
from clusterfug.kernels import Progress
from clusterfug.options import Task
from clusterfug.result import MERGE, Clustering, Phase, number_by_first_appearance

_TILE = 1 << 24  # products of items of weight 0 and clusters at a time

Outcome = Clustering | Exception


def solve_one(X: Any, task: Task, device: torch.device, callback: Progress | None = None) -> Clustering:
    """The clustering of one problem, which is a pack of one."""
    [found] = [found for pack in solve_packed([X], task, device, callback) for found in pack.values()]
    if isinstance(found, Exception):
        raise found
    return found


def solve_packed(
    problems: Sequence[Any], task: Task, device: torch.device, callback: Progress | None = None
) -> Iterator[dict[int, Outcome]]:
    """What became of the problems, by position: first of those that are wrong, then pack by pack."""
    begin = time.perf_counter()
    items: dict[int, Item] = {}
    wrong: dict[int, Outcome] = {}
    for t, X in enumerate(problems):
        try:
            items[t] = Item(X, task, device)
        except Exception as error:
            wrong[t] = error
    if wrong:
        yield wrong
    positions = list(items)
    limit = memory(device, task.memory_limit)
    for together, streamed in plan(list(items.values()), limit):
        pack = {positions[t]: items[positions[t]] for t in together}
        try:
            with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
                if streamed:
                    check_memory(*pack.values(), limit=limit, device=device)
                found = _solve(pack, task, device, limit, streamed, callback, begin)
        except torch.cuda.OutOfMemoryError:
            found = dict.fromkeys(pack, out_of_memory(device))
        except Exception as error:
            found = dict.fromkeys(pack, error.with_traceback(None))  # which would keep tensors alive
        yield found
        begin = time.perf_counter()


def _solve(
    pack: dict[int, Item],
    task: Task,
    device: torch.device,
    limit: float,
    streamed: bool,
    callback: Progress | None,
    begin: float,
) -> dict[int, Outcome]:
    """Solve the problems of a pack at once, but for those with numbers that are wrong."""
    exact = task.precision == "exact" or device.type == "cpu"
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
    found |= zip(pack, _run(made, list(pack.values()), task, callback, begin), strict=True)
    return found


class _Passed(NamedTuple):
    """A step and where it arrived, per problem."""

    step: Step
    end: float
    inside: list[float]
    counts: list[float]


def _run(
    pack: Pack, items: list[Item], task: Task, callback: Progress | None, begin: float
) -> list[Clustering]:
    """Take the steps, cost the labels after each in float64, and say how they came about."""
    problem = pack.problem
    budget = task.refinement.budget()
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
        results.append(
            Clustering(
                labels=own,
                objective=trace[-1].objective,
                inside=unit * inside[p],
                merges=np.empty(0, dtype=MERGE),
                algorithm=task.algorithm,
                n_iter=0,
                seconds=time.perf_counter() - begin,
                trace=tuple(trace),
            )
        )
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
