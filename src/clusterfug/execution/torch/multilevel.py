"""Multilevel refinement of tensor problems: contract in rounds, move, join, until neither improves.

`solve.py` records the steps of `refinement_steps`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from clusterfug.execution.torch.memory import resident_bytes
from clusterfug.execution.torch.moves import move_items
from clusterfug.execution.torch.problem import TensorProblem
from clusterfug.execution.torch.rounds import contract_in_rounds, neighbour_pairs
from clusterfug.refinement.budget import Budget

_MAX_ROUNDS = 1000  # of moves and joins: a safety limit
_MIN_IMPROVABLE_ITEMS = 0.001  # share of items with improving moves below which joins come first
_MIN_IMPROVABLE_NODES = 0.01  # the same for nodes of a level: the level below continues
_MIN_ITEMS_FOR_NODE_MOVES = 20_000  # with fewer, moving items is as fast as moving nodes


class RefinementStep(NamedTuple):
    """Labels after a step, what is certain about those of each problem, and the all-pairs passes so far."""

    name: str
    labels: Tensor
    move_optimal: Tensor  # (problems,) bool
    join_optimal: Tensor  # (problems,) bool
    passes: float


def refinement_steps(
    problem: TensorProblem, init: Tensor | None, budget: Budget, starts: int = 1
) -> Iterator[RefinementStep]:
    """Yield better and better labels, from `init` or singletons, until no move and no join improves.

    With several starts copies of the problems are solved side by side, and the best copy of each counts.
    """
    copies = problem.repeat(starts) if starts > 1 else problem
    refinement = MultilevelRefinement(copies, budget, starts)
    if init is None:
        init = refinement.initial_labels()
        labels = labels_of_copies(problem, copies, init, best_copies(copies, init, starts))
        none = torch.zeros_like(problem.last, dtype=torch.bool)
        yield RefinementStep("multilevel", labels, none, none, refinement.passes)
    first = best_of_trivial(copies, init)
    labels, move_optimal, join_optimal = refinement.refine(first)
    if not copies.has_small_squares:  # otherwise every step has improved inside
        worse = copies.exact_inside(labels) < copies.exact_inside(first)  # by rounding errors
        labels = select_labels(copies, worse, first, labels)
        move_optimal, join_optimal = move_optimal & ~worse, join_optimal & ~worse
    best = best_copies(copies, labels, starts)
    labels = labels_of_copies(problem, copies, labels, best)
    yield RefinementStep("refinement", labels, move_optimal[best], join_optimal[best], refinement.passes)


def best_copies(copies: TensorProblem, labels: Tensor, starts: int) -> Tensor:
    """Return the number of the best copy of every problem."""
    first = torch.arange(0, copies.problems, starts, device=labels.device)
    if starts == 1:
        return first
    return copies.exact_inside(labels).reshape(-1, starts).argmax(1) + first


def labels_of_copies(
    problem: TensorProblem, copies: TensorProblem, labels: Tensor, chosen: Tensor
) -> Tensor:
    """Return the labels of a chosen copy of every problem."""
    if copies is problem:
        return labels
    return labels[copies.starts[chosen][problem.problem_of] + problem.move_inputs.number]


def select_labels(problem: TensorProblem, chosen: Tensor, labels: Tensor, others: Tensor) -> Tensor:
    """Return the labels of the chosen problems, and other labels of the rest, in different numbers."""
    return torch.where(chosen[problem.problem_of], labels, others + 2 * problem.n)


class MultilevelRefinement:
    """Contraction and refinement within a budget, with a count of the scored pairs."""

    def __init__(self, problem: TensorProblem, budget: Budget, starts: int) -> None:
        self._problem, self._budget, self._starts = problem, budget, starts
        self._moves_nodes = problem.n >= _MIN_ITEMS_FOR_NODE_MOVES
        self._all = ordered_pairs(problem)
        self._scored = torch.zeros_like(self._all)

    @property
    def passes(self) -> float:
        """Scored pairs of items or nodes, as a multiple of all pairs of items."""
        return float(self._scored / self._all)

    def initial_labels(self) -> Tensor:
        """Return labels from singletons. Features that do not fit on the device are contracted in parts."""
        problem = self._problem
        if problem.part_size is None:
            return self.multilevel(problem)
        labels, count = torch.empty(problem.n, dtype=torch.int64, device=problem.device), 0
        for some, part in problem.parts():
            contracted, own = part.contract(self.multilevel(part))
            labels[some] = own + count
            count += contracted.n
        if count > 2 * problem.part_size:
            need = resident_bytes(count, problem.d, 8) / 2**30
            raise MemoryError(
                f"{count} clusters of {problem.d} features need {need:.3g} GiB on "
                f"{problem.device}: raise memory_limit, lower the threshold, or use device='cpu'"
            )
        contracted, labels = problem.contract(labels)
        return self.multilevel(contracted)[labels]

    def multilevel(self, problem: TensorProblem) -> Tensor:
        """Return labels from singletons: contract level by level, and move the nodes of each level."""
        self._scored += ordered_pairs(problem)
        contracted, labels = contract_in_rounds(problem, *neighbour_pairs(problem), self._starts)
        if contracted.n == problem.n or self._budget.over():
            return labels
        above = self.multilevel(contracted)
        if self._moves_nodes:
            above, _ = move_items(contracted, above, self._budget, min_improvable=_MIN_IMPROVABLE_NODES)
        return above[labels]

    def refine(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Apply moves and joins until neither improves.

        Returns labels, and per problem whether they are certain to be move-optimal and join-optimal. They
        are not if moves and joins undo each other, because their gains are rounding errors.
        """
        exact, none = False, torch.zeros_like(self._problem.last, dtype=torch.bool)
        for _ in range(_MAX_ROUNDS):
            before = labels
            min_improvable = 0.0 if exact else _MIN_IMPROVABLE_ITEMS
            labels, move_optimal = move_items(self._problem, labels, self._budget, exact, min_improvable)
            contracted, labels = self._problem.contract(labels)
            joined, join_optimal = self.multilevel(contracted), none
            if exact:
                joined, join_optimal = move_items(contracted, joined, self._budget, exact=True)
            together, joined = contracted.contract(joined)
            labels = joined[labels]
            unchanged = together.starts.diff() == contracted.starts.diff()
            del contracted, together  # frees their memory
            if self._budget.over():
                return labels, none, none
            if bool(unchanged.all()):
                if exact:
                    return labels, move_optimal, join_optimal
                exact = True
            elif exact:
                risen = self._problem.exact_inside(labels) > self._problem.exact_inside(before)
                if not bool(risen.any()):
                    move_optimal, join_optimal = move_optimal & unchanged, join_optimal & unchanged
                    labels = select_labels(self._problem, move_optimal, labels, before)
                    return labels, move_optimal, join_optimal & move_optimal
        return labels, none, none


def best_of_trivial(problem: TensorProblem, labels: Tensor) -> Tensor:
    """Return per problem the labels, or one cluster, or singletons if one of these is better."""
    clusters, labels = problem.contract(labels)
    whole, _ = clusters.contract(torch.zeros_like(clusters.problem_of))
    inside = problem.exact_inside(labels, clusters)
    together = problem.exact_inside(torch.zeros_like(labels), whole)
    of = problem.problem_of
    labels = torch.where((together > inside)[of], clusters.starts[of], labels)
    alone = (inside < 0) & (together < 0)
    return torch.where(alone[of], clusters.n + problem.items, labels)


def ordered_pairs(problem: TensorProblem) -> Tensor:
    """Return the number of ordered pairs of items of the same problem."""
    return problem.starts.diff().double().square().sum()
