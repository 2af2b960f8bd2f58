"""Synchronous moves: all items are scored at once, a share of those that gain moves at once.

A product nominates one cluster per item, float64 says what the move gains. Of the items that gain, those
whose hash is below a share move together. Where inside of their problem does not rise they are taken
back, the share is halved, and the next step is the best single move. So inside never falls.

A step never waits for the device. On a GPU a few steps are recorded once and then replayed.
"""

from contextlib import suppress

import torch
from torch import Tensor

from clusterfug.execution.torch.clusters import Clusters
from clusterfug.execution.torch.operations import Course, decide, judge, largest, nominate
from clusterfug.execution.torch.problem import TensorProblem
from clusterfug.refinement.budget import Budget

_SHARE = 0.9  # of those who want to move may, at first
_TINY = 1e-15  # a gain of this times the objective would not show in it
_NUMBERS = 1 << 27  # of a block of float64 costs
_IDLE = 8  # times that nothing is gained although somebody wants to move
_FIRST, _MORE = 2, 2  # steps before a recording, and in it


def moves(
    problem: TensorProblem, labels: Tensor, budget: Budget, exact: bool = False, enough: float = 0.0
) -> tuple[Tensor, bool]:
    """Better labels, and whether it is certain that no single move improves them (only if exact).

    Stops when a smaller share than `enough` of the items wants to move.
    """
    walk, idle = Walk(problem, Clusters(problem, labels)), 0
    while not budget.over():
        wants, risen = walk.go()
        idle = 0 if risen else idle + 1
        if wants <= enough * problem.n:
            if not exact:
                return walk.clusters.labels, False
            if not walk.exact:
                walk.begin(exact=True)
            else:
                improved = walk.search()
                if not improved:
                    return walk.clusters.labels, improved is None
        elif idle == _IDLE:  # there is no slot left to be alone in
            labels = walk.clusters.labels
            del walk  # and its memory
            walk = Walk(problem, Clusters(problem, labels))
        elif idle > 2 * _IDLE:
            break
    return walk.clusters.labels, False


class Walk:
    """A series of steps."""

    def __init__(self, problem: TensorProblem, clusters: Clusters) -> None:
        self._problem, self.clusters = problem, clusters
        inside = clusters.inside
        self._course = Course(
            inside=inside,
            share=torch.full_like(inside, _SHARE),
            careful=torch.zeros_like(inside, dtype=torch.bool),
            tiny=_TINY * (inside.abs() + problem.own_total.abs()),
            turn=torch.zeros(1, dtype=torch.int64, device=inside.device),
        )
        self._wants = torch.zeros(1, dtype=torch.int64, device=inside.device)
        self.begin(exact=False)

    def begin(self, exact: bool) -> None:
        """Steps with nominees in low precision, or exact: then nobody is overlooked but who is in doubt."""
        self.exact, self._gone = exact, 0
        self._recorded: torch.cuda.CUDAGraph | None = None

    def go(self) -> tuple[int, bool]:
        """Some steps. How many items wanted to move in the last, and whether inside rose anywhere."""
        before = self.clusters.inside.clone()
        if self._recorded is None and self._gone >= _FIRST and self._can_record():
            self._recorded = self._record()
        if self._recorded is not None:
            self._recorded.replay()
            self._gone += _MORE
        else:
            self.step()
            self._gone += 1
        risen = (self.clusters.inside > before).any()
        wants, rose = torch.cat([self._wants, risen.long().reshape(1)]).tolist()
        return wants, bool(rose) or wants == 0

    def _record(self) -> torch.cuda.CUDAGraph:
        """Some steps, to be replayed: the host then has to launch one thing instead of a hundred.

        Not by `torch.cuda.graph`, which empties the cache of memory first.
        """
        graph, now = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(now)
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for _ in range(_MORE):
                    self.step()
            except BaseException:
                with suppress(RuntimeError):  # so that the device can be used again
                    graph.capture_end()
                raise
            graph.capture_end()
        now.wait_stream(stream)
        return graph

    def _can_record(self) -> bool:
        return self._problem.device.type == "cuda" and self._problem.part is None

    def step(self) -> None:
        """Ask everybody, move some, and keep it where inside rises."""
        problem, clusters = self._problem, self.clusters
        to, gains, _, chosen, _ = self._answers()
        wants = gains > 0
        torch.sum(wants, 0, keepdim=True, out=self._wants)
        best = torch.zeros_like(chosen).scatter(0, largest(gains, problem.starts), True) & wants
        chosen = torch.where(self._course.careful[problem.of], best, chosen)
        clusters.keep(judge(self._course, clusters.move(chosen, to)))

    def _answers(self) -> tuple[Tensor, ...]:
        """What every item would do, and the score of its nominee."""
        problem, clusters, nodes = self._problem, self.clusters, self.clusters.nodes
        columns = nodes.columns(self.exact)
        parts = []
        for some, part in problem.parts():
            labels = clusters.labels[some]
            score, to = nominate(part.rows(self.exact), columns, labels, part.of, part.tiles)
            ask = part.ask._replace(number=problem.ask.number[some]) if problem.part else part.ask
            answer = decide(
                ask,
                clusters.sums,
                clusters.more,
                labels,
                score[:, 0],
                to[:, 0],
                self._course,
            )
            parts.append((*answer, score[:, 0]))
        return parts[0] if len(parts) == 1 else tuple(torch.cat(x) for x in zip(*parts, strict=True))

    def search(self) -> bool | None:
        """If nobody wants to move: ask in float64, of all clusters, whom float32 leaves in doubt.

        The best move of every problem is made. Whether that improved any; None if nobody wants to.
        """
        problem, clusters, nodes = self._problem, self.clusters, self.clusters.nodes
        _, _, least, _, score = self._answers()
        items = torch.nonzero(score > least)[:, 0]
        bounds = nodes.starts.tolist()
        chosen = torch.zeros(problem.n, dtype=torch.bool, device=problem.device)
        target = torch.full((problem.n,), -1, device=problem.device)
        for p in torch.unique(problem.of[items]).tolist():
            columns = slice(bounds[p], bounds[p + 1])
            sums = nodes.features[columns]
            if problem.signs is not None:
                sums = sums * problem.signs
            best = 0.0
            block = max(1, _NUMBERS // max(len(sums), problem.d))
            for some in torch.split(items[problem.of[items] == p], block):
                features, at = problem.pick(some)
                costs = features[at].double() @ sums.T
                costs += (problem.last[p] * problem.a[some])[:, None] * nodes.a[columns]
                costs.scatter_(1, clusters.labels[some, None] - bounds[p], -torch.inf)
                cost, to = costs.max(1)
                gain, i = (cost.clamp(min=0) - least[some]).max(0)
                if float(gain) > best:
                    best = float(gain)
                    chosen[problem.starts[p] : problem.starts[p + 1]] = False
                    chosen[some[i]] = True
                    target[some[i]] = torch.where(cost[i] > 0, to[i] + bounds[p], -1)
        if not bool(chosen.any()):
            return None
        inside = clusters.move(chosen, target)
        good = judge(self._course, inside)
        clusters.keep(good)
        return bool(good.any())
