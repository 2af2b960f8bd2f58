"""Synchronous moves: all items are scored at once, and a share of those with an improving move is moved.

A product in low precision selects one candidate cluster per item; float64 decides what the move gains. Of
the items that gain, those whose hash is below a share move together. In a problem whose `inside` does not
rise the step is undone, the share is halved, and the next step is the best single move: `inside` never
falls. A step does not synchronise with the device; on a GPU a few steps are recorded and then replayed.
"""

from contextlib import suppress

import torch
from torch import Tensor

from clusterfug.execution.torch import operations as ops
from clusterfug.execution.torch.clusters import TensorClusters
from clusterfug.execution.torch.exact_gains import ExactGains
from clusterfug.execution.torch.problem import TensorProblem
from clusterfug.refinement.budget import Budget

_FIRST_SHARE = 0.9  # of the items with an improving move that move in the first step
_MIN_RELATIVE_GAIN = 1e-15  # a smaller share of the objective would be lost in its rounding
_SMALLEST_SCORE = 1e-30  # the rounding of scores near the smallest numbers of float32
_MAX_STEPS = 100_000  # a safety limit
_MAX_IDLE_STEPS = 8  # without improvement although there are improving moves
_UNRECORDED_STEPS, _RECORDED_STEPS = 2, 2  # steps before a recording, and in it


def move_items(
    problem: TensorProblem, labels: Tensor, budget: Budget, exact: bool = False, min_improvable: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Apply improving single-item moves.

    Stops when at most the share `min_improvable` of the items has an improving move. Returns labels, and
    per problem whether it is certain that they are move-optimal (only with `exact`).
    """
    moves, idle = SynchronousMoves(problem, labels), 0
    none = torch.zeros_like(problem.last, dtype=torch.bool)
    for _ in range(_MAX_STEPS):
        if budget.over():
            break
        improvable, risen = moves.advance()
        idle = 0 if risen else idle + 1
        if improvable <= min_improvable * problem.n:
            if not exact:
                return moves.clusters.labels, none
            if not moves.exact:
                moves.set_precision(exact=True)
            else:
                if moves.has_moved:
                    moves.restart()  # with sums that no update has rounded
                improved, certain = moves.move_undecided()
                if not improved:
                    return moves.clusters.labels, certain
        elif idle == _MAX_IDLE_STEPS:  # there was no free slot for a new singleton
            moves.restart()
        elif idle > 2 * _MAX_IDLE_STEPS:
            break
    return moves.clusters.labels, none


class SynchronousMoves:
    """A series of steps on the clusters of a labelling."""

    def __init__(self, problem: TensorProblem, labels: Tensor) -> None:
        self._problem = problem
        self._begin(labels, exact=False)

    def restart(self) -> None:
        """Continue from the current labels with new sums of clusters and free slots."""
        labels = self.clusters.labels
        del self.clusters, self._recorded  # frees their memory
        self._begin(labels, self.exact)

    def _begin(self, labels: Tensor, exact: bool) -> None:
        problem, self.clusters = self._problem, TensorClusters(self._problem, labels)
        inside = problem.inside(self.clusters.nodes)
        self._state = ops.MoveState(
            inside=inside,
            share=torch.full_like(inside, _FIRST_SHARE),
            single=torch.zeros_like(inside, dtype=torch.bool),
            min_gain=_MIN_RELATIVE_GAIN * (inside.abs() + problem.own_total.abs()),
            step=torch.zeros(1, dtype=torch.int64, device=inside.device),
        )
        self._improvable = torch.zeros(1, dtype=torch.int64, device=inside.device)
        self.has_moved = False
        self.set_precision(exact)

    def set_precision(self, exact: bool) -> None:
        """Select candidates in low precision, or by upper bounds on costs in float32 if exact."""
        self.exact, self._steps = exact, 0
        self._recorded: torch.cuda.CUDAGraph | None = None

    def advance(self) -> tuple[int, bool]:
        """Run one step or the recorded ones.

        Returns the number of items with an improving move before the last step, and whether `inside` rose
        in any problem (or there was nothing to improve).
        """
        before = self._state.inside.clone()
        can_record = self._problem.device.type == "cuda" and self._problem.part_size is None
        if self._recorded is None and self._steps >= _UNRECORDED_STEPS and can_record:
            self._recorded = self._record()
        if self._recorded is not None:
            self._recorded.replay()
        else:
            self.step()
            self._steps += 1
        risen = (self._state.inside > before).any()
        improvable, rose = torch.cat([self._improvable, risen.long().reshape(1)]).tolist()
        self.has_moved |= bool(rose)
        return improvable, bool(rose) or improvable == 0

    def _record(self) -> torch.cuda.CUDAGraph:
        """Record steps as a CUDA graph: one launch instead of about a hundred.

        `torch.cuda.graph` is not used since it empties the memory cache first.
        """
        graph, now = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(now)
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                for _ in range(_RECORDED_STEPS):
                    self.step()
            except BaseException:
                with suppress(RuntimeError):  # so that the device can be used again
                    graph.capture_end()
                raise
            graph.capture_end()
        now.wait_stream(stream)
        return graph

    def step(self) -> None:
        """Score all items, move some, and keep the moves in the problems that they improve."""
        problem, clusters = self._problem, self.clusters
        to, gains, _, chosen, _ = self._scores()
        improvable = gains > 0
        torch.sum(improvable, 0, keepdim=True, out=self._improvable)
        largest = ops.problem_argmax(gains, problem.starts)
        best = torch.zeros_like(chosen).scatter(0, largest, True) & improvable
        chosen = torch.where(self._state.single[problem.problem_of], best, chosen)
        clusters.keep(ops.accept_steps(self._state, clusters.move(chosen, to)))

    def _scores(self) -> tuple[Tensor, ...]:
        """Return the `MoveScores` of every item, and the approximate score of its candidate."""
        problem, clusters = self._problem, self.clusters
        candidates = clusters.nodes.as_candidates(self.exact)
        parts = []
        for some, part in problem.parts():
            labels = clusters.labels[some]
            queries = part.as_queries(self.exact)
            score, to = ops.top_products(queries, candidates, labels, part.problem_of, part.tiles)
            inputs = part.move_inputs
            if problem.part_size is not None:
                inputs = inputs._replace(number=problem.items[some])
            sums = clusters.sums, clusters.extra
            scores = ops.score_moves(inputs, *sums, labels, score[:, 0], to[:, 0], self._state)
            parts.append((*scores, score[:, 0]))
        return tuple(ops.concatenated(values) for values in zip(*parts, strict=True))

    def move_undecided(self) -> tuple[bool, Tensor]:
        """Make the best move per problem of the items whose float32 bound allows a gain, in float64.

        To be called when no known move improves. Returns whether that improved any problem, and per problem
        whether it is certain that there was no improving move.
        """
        problem, clusters = self._problem, self.clusters
        _, _, required, _, score = self._scores()
        items = torch.nonzero(score + _SMALLEST_SCORE > required - 2 * self._ignored())[:, 0]
        chosen = torch.zeros(problem.n, dtype=torch.bool, device=problem.device)
        target = torch.full((problem.n,), -1, device=problem.device)
        certain = torch.ones_like(problem.last, dtype=torch.bool)
        for p in torch.unique(problem.problem_of[items]).tolist():
            exact, best = ExactGains(problem, clusters, p), 0.0
            for some in exact.blocks(items[problem.problem_of[items] == p]):
                gains, to, clear = exact.best(some)
                certain[p] &= clear
                gain, i = gains.max(0)
                if float(gain) > best:
                    best = float(gain)
                    chosen[problem.starts[p] : problem.starts[p + 1]] = False
                    chosen[some[i]] = True
                    target[some[i]] = to[i]
        if not bool(chosen.any()):
            return False, certain
        certain[problem.problem_of[chosen]] = False
        improved = ops.accept_steps(self._state, clusters.move(chosen, target))
        clusters.keep(improved)
        self.has_moved = True
        return bool(improved.any()), certain

    def _ignored(self) -> Tensor:
        """Gains of every item that `score_moves` ignores as rounding errors."""
        problem, clusters = self._problem, self.clusters
        least = self._state.min_gain[problem.problem_of]
        return ops.GAIN_ROUNDING * problem.magnitudes * clusters.extra[clusters.labels, 1] + least
