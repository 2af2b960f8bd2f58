"""Multilevel refinement of tensor problems: contract in rounds, move, join, until neither improves."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from clusterfug.execution.torch.memory import resident_bytes
from clusterfug.execution.torch.moves import moves
from clusterfug.execution.torch.neighbours import neighbours
from clusterfug.execution.torch.problem import TensorProblem
from clusterfug.execution.torch.rounds import rounds
from clusterfug.refinement.budget import Budget

_ENOUGH = 0.001  # if a smaller share of the items wants to move, joins are due first
_ENOUGH_NODES = 0.01  # and of the nodes of a level: the level below goes on
_MANY = 20_000  # items; of fewer a step takes no longer than one of the nodes of a level


class Step(NamedTuple):
    """Labels after a step, what is certain about them, and the all-pairs passes so far."""

    name: str
    labels: Tensor
    move_optimal: bool
    join_optimal: bool
    passes: float


def steps(problem: TensorProblem, init: Tensor | None, budget: Budget, starts: int = 1) -> Iterator[Step]:
    """From labels, or from singletons, to labels that no single move and no single join improves.

    With several starts copies of the problems are solved side by side, and the best is taken of each.
    """
    copies = problem.repeat(starts) if starts > 1 else problem
    road = Road(copies, budget, starts)
    if init is None:
        init = road.begin(copies)
        yield Step("multilevel", best_copies(problem, copies, init, starts), False, False, road.passes)
    labels, move_optimal, join_optimal = road.refine(copies, or_all_together(copies, init))
    labels = best_copies(problem, copies, labels, starts)
    yield Step("refinement", labels, move_optimal, join_optimal, road.passes)


def best_copies(problem: TensorProblem, copies: TensorProblem, labels: Tensor, starts: int) -> Tensor:
    """The labels of the best copy of every problem."""
    if starts == 1:
        return labels
    inside = copies.inside(copies.contract(labels)[0])
    best = inside.reshape(-1, starts).argmax(1) + starts * torch.arange(
        problem.problems, device=labels.device
    )
    return labels[copies.starts[best][problem.of] + problem.ask.number]


class Road:
    """The way through the levels, and the count of the pairs that were scored on it."""

    def __init__(self, problem: TensorProblem, budget: Budget, starts: int) -> None:
        self._budget, self._starts = budget, starts
        self._moves_nodes = problem.n >= _MANY
        self._all = pairs_of(problem)
        self._scored = torch.zeros_like(self._all)

    @property
    def passes(self) -> float:
        """Scored pairs of items or nodes, in all pairs of items."""
        return float(self._scored / self._all)

    def begin(self, problem: TensorProblem) -> Tensor:
        """Labels from singletons. Features that do not fit on the device are contracted part by part."""
        if problem.part is None:
            return self.multilevel(problem)
        labels, count = torch.empty(problem.n, dtype=torch.int64, device=problem.device), 0
        for some, part in problem.parts():
            contracted, own = part.contract(self.multilevel(part))
            labels[some] = own + count
            count += contracted.n
        if count > 2 * problem.part:
            need = resident_bytes(count, problem.d, 8) / 2**30
            raise MemoryError(
                f"{count} clusters of {problem.d} features need {need:.3g} GiB on "
                f"{problem.device}: raise memory_limit, lower the threshold, or use device='cpu'"
            )
        contracted, labels = problem.contract(labels)
        return self.multilevel(contracted)[labels]

    def multilevel(self, problem: TensorProblem) -> Tensor:
        """Labels from singletons: rounds of contraction, level by level, and moves of the nodes of each."""
        self._scored += pairs_of(problem)
        contracted, labels = rounds(problem, *neighbours(problem), self._starts)
        if contracted.n == problem.n or self._budget.over():
            return labels
        above = self.multilevel(contracted)
        if self._moves_nodes:
            above, _ = moves(contracted, above, self._budget, enough=_ENOUGH_NODES)
        return above[labels]

    def refine(self, problem: TensorProblem, labels: Tensor) -> tuple[Tensor, bool, bool]:
        """Moves and joins from given labels until neither improves; and whether that is certain of each."""
        exact, enough = False, _ENOUGH
        while True:
            labels, settled = moves(problem, labels, self._budget, exact, enough)
            contracted, labels = problem.contract(labels)
            joined, final = self.multilevel(contracted), False
            if exact:
                joined, final = moves(contracted, joined, self._budget, exact=True)
            together, joined = contracted.contract(joined)
            labels = joined[labels]
            apart = together.n == contracted.n
            del contracted, together  # and their memory
            if self._budget.over():
                return labels, False, False
            if apart:
                if exact:
                    return labels, settled, final
                exact, enough = True, 0.0


def or_all_together(problem: TensorProblem, labels: Tensor) -> Tensor:
    """The labels, or all items of a problem in one cluster, or all alone, if that is better."""
    clusters, labels = problem.contract(labels)
    whole, _ = clusters.contract(torch.zeros_like(clusters.of))
    inside, together = problem.inside(clusters), problem.inside(whole)
    labels = torch.where((together > inside)[problem.of], clusters.starts[problem.of], labels)
    alone = (inside < 0) & (together < 0)
    return torch.where(alone[problem.of], clusters.n + problem.everyone, labels)


def pairs_of(problem: TensorProblem) -> Tensor:
    """Pairs of items of the same problem, ordered."""
    return problem.starts.diff().double().square().sum()
