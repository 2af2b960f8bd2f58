"""Execution as tensors on a device: problems are packed, and those of a pack are solved simultaneously."""

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clusterfug.core import recorded
from clusterfug.execution.jit import Progress, clock
from clusterfug.execution.plan import Execution
from clusterfug.execution.torch.device import available_bytes, out_of_memory_error
from clusterfug.execution.torch.inputs import TensorInput
from clusterfug.execution.torch.multilevel import refinement_steps
from clusterfug.execution.torch.pack import Pack, make_pack, plan_packs
from clusterfug.execution.torch.problem import TensorProblem
from clusterfug.result import Clustering, Phase, number_by_first_appearance
from clusterfug.solvers import Solver
from clusterfug.solvers.local_search import LocalSearch

_BLOCK_ENTRIES = 1 << 24  # products of items of weight 0 with clusters at a time

Outcome = Clustering | Exception


def execute(
    problem: Any, solver: Solver, execution: Execution, bound: bool, callback: Progress | None
) -> Clustering:
    """Solve one problem, as a pack of one, and compute a lower bound afterwards if requested."""
    [outcomes] = solve_packed([problem], solver, execution, callback)
    found = outcomes[0]
    if isinstance(found, Exception):
        raise found
    if bound:
        from clusterfug.bounds.compute import compute_bound

        seconds = solver.given_seconds
        found = replace(
            found, bound=compute_bound(problem, execution, time_limit=seconds, callback=callback)
        )
    return found


def solve_packed(
    problems: Sequence[Any], solver: Solver, execution: Execution, callback: Progress | None = None
) -> Iterator[dict[int, Outcome]]:
    """Yield results and errors by position: first those of invalid problems, then pack by pack."""
    device = execution.device
    assert device is not None
    search_dtype = _search_dtype(execution)
    begin = clock()
    inputs: dict[int, TensorInput] = {}
    invalid: dict[int, Outcome] = {}
    for t, problem in enumerate(problems):
        try:
            inputs[t] = TensorInput(problem, device, solver)
        except Exception as error:
            invalid[t] = error
    if invalid:
        yield invalid
    limit = available_bytes(device, execution.memory_limit)
    for members, streamed in plan_packs(inputs, limit):
        valid = {t: inputs[t] for t in members}
        found: dict[int, Outcome] = {}
        try:
            with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
                pack, errors = make_pack(valid, device, search_dtype, limit, streamed)
                found |= errors
                valid = {t: given for t, given in valid.items() if t not in errors}
                if errors and valid:
                    pack, _ = make_pack(valid, device, search_dtype, limit, streamed)
                if pack is not None:
                    found |= _solve(pack, valid, solver, callback, begin)
        except torch.cuda.OutOfMemoryError:
            found |= dict.fromkeys(valid, out_of_memory_error(device))
        except Exception as error:
            found |= dict.fromkeys(valid, error.with_traceback(None))  # a traceback keeps tensors alive
        pack = None  # frees its memory
        yield found
        begin = clock()


def _solve(
    pack: Pack,
    inputs: dict[int, TensorInput],
    solver: Solver,
    callback: Progress | None,
    begin: float,
) -> dict[int, Clustering]:
    """Run all steps, cost the labels after each in float64, and return the results."""
    assert isinstance(solver, LocalSearch)  # by the plan
    problem = pack.problem
    budget = solver.budget()
    traces: list[list[Phase]] = [[] for _ in inputs]
    last = begin
    for step in refinement_steps(problem, pack.init, budget, pack.starts):
        clusters, labels = _numbered(problem, step.labels)
        inside, cut = (cost.tolist() for cost in problem.cost_of(labels, clusters))
        counts = clusters.starts.diff().tolist()
        optimal = list(zip(step.move_optimal.tolist(), step.join_optimal.tolist(), strict=True))
        end = clock()
        for p, trace in enumerate(traces):
            objective = pack.units[p] * cut[p]
            trace.append(Phase(step.name, end - last, counts[p], objective, *optimal[p], step.passes))
        last = end
        if callback is not None:
            done, total = budget.spent()
            callback(step.name, min(done, total), max(1, total))
    first = clusters.starts.tolist()
    own_labels = np.split(labels.cpu().numpy(), problem.starts[1:-1].tolist())
    results = {}
    for p, (t, given) in enumerate(inputs.items()):
        own = own_labels[p] - first[p]
        if given.present is not None:
            own = _label_weightless(given, own, clusters.features[first[p] : first[p + 1]])
        results[t] = recorded(solver.name, own, pack.units[p] * inside[p], traces[p], begin)
    return results


def cost_of_labels(problem: Any, labels: NDArray[np.int64], execution: Execution) -> tuple[float, float]:
    """Return inside and objective of labels, which `selection` made."""
    device = execution.device
    assert device is not None
    given = TensorInput(problem, device)
    limit = available_bytes(device, execution.memory_limit)
    [(_, streamed)] = plan_packs({0: given}, limit)
    try:
        pack, errors = make_pack({0: given}, device, _search_dtype(execution), limit, streamed)
        if pack is None:
            raise errors[0]
        clusters, own = _numbered(pack.problem, torch.from_numpy(given.of_present(labels)).to(device))
        inside, cut = pack.problem.cost_of(own, clusters)
        return pack.units[0] * float(inside), pack.units[0] * float(cut)
    except torch.cuda.OutOfMemoryError:
        raise out_of_memory_error(device) from None


def _search_dtype(execution: Execution) -> torch.dtype:
    """Return the type of features in which candidates are found."""
    assert execution.device is not None
    exact = execution.precision == "exact" or execution.device.type == "cpu"
    return torch.float32 if exact else torch.bfloat16


def _numbered(problem: TensorProblem, labels: Tensor) -> tuple[TensorProblem, Tensor]:
    """Return the clusters of labels, and labels numbered by first appearance over all problems.

    Labels of different problems are different.
    """
    none = torch.full((int(labels.max()) + 1,), problem.n, device=labels.device)
    first = none.scatter_reduce(0, labels, problem.items, "amin")
    return problem.contract(first[labels])


def _label_weightless(given: TensorInput, labels: NDArray[np.int64], sums: Tensor) -> NDArray[np.int64]:
    """Return labels of all items: items of weight 0 get the cluster of the most similar mean feature."""
    weights = np.bincount(labels, weights=given.of_present(given.weight))
    means = sums / torch.from_numpy(weights).to(sums.device)[:, None]
    if given.signs is not None:
        means *= torch.tensor(given.signs, device=sums.device)
    present = given.weight > 0
    complete = np.empty(len(present), dtype=np.int64)
    complete[present] = labels
    absent = np.flatnonzero(~present)
    for some in np.array_split(absent, 1 + len(absent) * max(means.shape) // _BLOCK_ENTRIES):
        rows = given.features[torch.from_numpy(some).to(given.features.device)]
        complete[some] = (rows.to(sums.device).double() @ means.T).argmax(1).cpu().numpy()
    return number_by_first_appearance(complete)
