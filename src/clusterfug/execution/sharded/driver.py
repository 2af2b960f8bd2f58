"""From shards to a clustering: solve, pool, move, join. The same steps for every engine.

The driver holds labels (and partners, of many clusters), but no rows and no sums: those are where tasks
run. A task that is lost can be repeated anywhere, since it needs only rows and labels.
"""

from collections.abc import Callable, Iterator
from functools import cached_property, partial, reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from clusterfug.execution import threads
from clusterfug.execution.jit import Progress
from clusterfug.execution.sharded import tasks
from clusterfug.execution.sharded.block_joins import Labels, NodeBlock, join_blocks
from clusterfug.execution.sharded.checkpoint import Checkpoint, DriverState
from clusterfug.execution.sharded.engine import CoroutineScheduler, Engine, TaskCoroutine, tree_reduce
from clusterfug.execution.sharded.moves import Flags, MoveCandidates, ShardScores, decide_moves
from clusterfug.execution.sharded.totals import ClusterTotals, ObjectiveTerms, add_totals
from clusterfug.problems.dense import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import Refined
from clusterfug.result import compact

_TOTALS_PER_TASK = 8  # totals of shards that one task adds
_MAX_ROUNDS = 100_000  # of moves and joins: a safety limit
_ACCEPTED_SHARES = (1.0, 0.5, 0.25, 0.0)  # of the moves of a round, tried in turn until inside grows


class Shard(NamedTuple):
    """Consecutive items: where their rows are, and how they become a problem."""

    start: int
    stop: int
    rows: Any
    recipe: tasks.Recipe


class RunEvaluation(NamedTuple):
    """Totals of the clusters, as tasks, and the objective that follows from them."""

    totals: list[Any]  # each of a block of consecutive clusters
    inside: float
    objective: float  # total cost of the other pairs
    weightless: int  # items of weight 0


class Pool:
    """Clusters of a shard, or of several pools, as the nodes of a contracted problem."""

    nodes: list[Any]  # in blocks, as tasks
    wait_for_labels: Callable[[], Labels]

    def __init__(self, span: tuple[int, int], parts: "list[Pool]") -> None:
        self.span, self.parts = span, parts

    @property
    def name(self) -> str:
        """Name in a checkpoint."""
        return f"{'pool' if self.parts else 'shard'}-{self.span[0]}-{self.span[1]}"

    @property
    def n_nodes(self) -> int:
        """Number of items of a shard, or of nodes of the parts."""
        return sum(part.size for part in self.parts) if self.parts else self.span[1] - self.span[0]

    @cached_property
    def labels(self) -> Labels:
        """Labels of the items of a shard, or of the nodes of the parts."""
        labels = self.wait_for_labels()
        del self.wait_for_labels  # which refers to the task
        return labels

    @cached_property
    def size(self) -> int:
        return int(self.labels.max()) + 1

    def take_nodes(self) -> list[Any]:
        """Return the nodes of the parts, which do not keep them."""
        nodes = [nodes for part in self.parts for nodes in part.nodes]
        for part in self.parts:
            part.nodes = []
        return nodes

    def label_items(self, of_nodes: Labels, out: Labels) -> None:
        """Write the labels of the nodes to their items."""
        labels = of_nodes[self.labels]
        if not self.parts:
            out[slice(*self.span)] = labels
        start = 0
        for part in self.parts:
            part.label_items(labels[start : start + part.size], out)
            start += part.size


class Driver:
    """Runs the phases of a sharded solve; a task gets at most `max_items` items or nodes, as a rule."""

    def __init__(
        self,
        shards: list[Shard],
        engine: Engine,
        checkpoint: Checkpoint,
        budget: Budget,
        max_items: int,
        algorithm: str = "auto",
        rng: np.random.Generator | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.shards, self.engine, self.checkpoint, self.budget = shards, engine, checkpoint, budget
        self.n, self.max_items, self.algorithm = shards[-1].stop, max_items, algorithm
        self.rng = rng or np.random.default_rng(0)
        self.progress = progress or (lambda *_: None)
        self._scheduler = CoroutineScheduler(engine)

    def phases(self, init: Labels | None) -> Iterator[tuple[str, Refined, RunEvaluation]]:
        """Yield the phases: "shards", unless there are labels to start from, and "refinement"."""
        if len(self.shards) == 1 or (init is not None and self.n <= self.max_items):
            yield self._solve_at_once(init)
            return
        state = self.checkpoint.load_state(self.n)
        if state is None:
            labels = self._solve_pools() if init is None else init
            state = DriverState(labels, np.ones(int(labels.max()) + 1, dtype=np.bool_))
            self.checkpoint.save_state(state)
        evaluation = self._evaluate(state.labels)
        if init is None:
            yield "shards", Refined(state.labels, False, False), evaluation
        if self.n <= self.max_items:
            yield self._solve_at_once(state.labels)
        else:
            yield self._refine(state, evaluation)

    def _solve_at_once(self, labels: Labels | None) -> tuple[str, Refined, RunEvaluation]:
        """Solve all items in one task, from labels if there are any, as without shards."""
        parts = (self.engine.submit(tasks.shard_problem, shard.rows, shard.recipe) for shard in self.shards)
        settings = self.algorithm, labels, self.budget.left(), self.rng
        refined = self.engine.value(self.engine.submit_alone(tasks.solve_at_once, *settings, *parts))
        return "refinement", refined, self._evaluate(refined.labels)

    # Shards and pools.

    def _solve_pools(self) -> Labels:
        """Solve the shards, and pools of contracted shards, until one pool is left; return its labels."""

        def leaves() -> Iterator[Pool]:
            for start, stop, *shard in self.shards:
                yield self._pool(self.engine.submit, Pool((start, stop), []), tasks.solve_shard, *shard)

        def join(parts: list[Pool], submit: Any = self.engine.submit) -> Pool:
            pool = Pool((parts[0].span[0], parts[-1].span[1]), parts)
            if pool.n_nodes > 2 * self.max_items:
                return self._pool_in_blocks(pool)
            return self._pool(submit, pool, tasks.solve_pool, *pool.take_nodes())

        join_last = partial(join, submit=self.engine.submit_alone)
        prefetch = self.engine.prefetch
        root = tree_reduce(
            prefetch(leaves()), join, lambda part: part.size, self.max_items, join_last, prefetch
        )
        labels = np.empty(self.n, dtype=np.int64)
        root.label_items(np.arange(root.size), labels)
        return compact(labels)

    def _pool(self, submit: Any, pool: Pool, function: Any, *arguments: Any) -> Pool:
        """Start the one task that solves a pool."""
        known = self.checkpoint.load_labels(pool.name, pool.n_nodes)
        task, nodes = self.engine.split_pair(submit(function, known, *arguments))

        def wait_for_labels() -> Labels:
            labels: Labels = self.engine.value(task)
            self.checkpoint.save_labels(pool.name, labels)
            if not pool.parts:
                self.progress("shards", pool.span[1], self.n)
            return labels

        pool.nodes, pool.wait_for_labels = [nodes], wait_for_labels
        return pool

    def _pool_in_blocks(self, pool: Pool) -> Pool:
        """Start the tasks that solve a pool of more nodes than one task may have."""
        blocks = []
        for origin, part in enumerate(pool.parts):
            slices = threads.slices(part.size, self.max_items)
            nodes, part.nodes = part.nodes, []
            if len(nodes) < len(slices):  # one task solved it, and it is large
                nodes = [self.engine.submit(DenseProblem.subset, nodes[0], some) for some in slices]
            blocks += [
                NodeBlock(block, some.stop - some.start, origin)
                for block, some in zip(nodes, slices, strict=True)
            ]

        def solve() -> TaskCoroutine:
            labels = self.checkpoint.load_labels(pool.name, pool.n_nodes)
            if labels is None:
                labels = yield from join_blocks(self.engine, blocks, self.max_items)
                self.checkpoint.save_labels(pool.name, labels)
            ends = np.cumsum([0, *(block.size for block in blocks)]).tolist()
            shards = [
                Shard(*span, block.problem, tasks.Recipe())
                for block, span in zip(blocks, pairwise(ends), strict=True)
            ]
            pool.nodes = self._contracted(self._totals(shards, labels))
            return labels

        pool.wait_for_labels = self._scheduler.start(solve())
        return pool

    # Moves and joins.

    def _refine(self, state: DriverState, evaluation: RunEvaluation) -> tuple[str, Refined, RunEvaluation]:
        """Alternate moves and joins until neither improves the clustering."""
        if evaluation.objective > 0:
            state = DriverState(np.zeros_like(state.labels), np.ones(1, dtype=np.bool_), state.n_rounds)
            evaluation = self._evaluate(state.labels)
        verified = False
        while not self.budget.over() and state.n_rounds < _MAX_ROUNDS:
            if state.changed.any():
                state, evaluation = self._move_items(state, evaluation)
            else:
                joined, join_optimal = self._join_clusters(evaluation.totals, len(state.changed))
                if int(joined.max()) + 1 < len(joined):
                    after = self._evaluate(joined[state.labels])
                    if not after.objective < evaluation.objective:  # gains are rounding errors
                        break
                    changed, evaluation = np.bincount(joined) > 1, after
                    state = DriverState(
                        joined[state.labels], changed, state.n_rounds + 1, close=state.close
                    )
                elif state.close and not verified:  # those may be gone by now
                    verified = True
                    state = DriverState(state.labels, ~state.changed, state.n_rounds + 1, exact=True)
                else:
                    refined = Refined(state.labels, not state.close, join_optimal)
                    return "refinement", refined, evaluation
            self.checkpoint.save_state(state)
        return "refinement", Refined(state.labels, False, False), evaluation

    def _join_clusters(self, totals: list[Any], k: int) -> tuple[Labels, bool]:
        """Return labels of the k clusters by which those that gain from it are joined.

        Also return whether it is certain that no further join improves them.
        """
        if len(totals) == 1:
            return self.engine.value(self.engine.submit_alone(tasks.join_clusters, totals[0]))
        blocks = [
            NodeBlock(nodes, part.stop - part.start)
            for nodes, part in zip(self._contracted(totals), threads.slices(k, self.max_items), strict=True)
        ]
        return self._scheduler.start(join_blocks(self.engine, blocks, self.max_items))(), True

    def _move_items(
        self, state: DriverState, evaluation: RunEvaluation
    ) -> tuple[DriverState, RunEvaluation]:
        """Run one round of moves: every shard returns candidates, and one task decides on all of them.

        If there are too many candidates for one task, they are decided on in groups, independently of each
        other. If the items in changed clusters are few, they move until none of them gains.
        """
        k = len(state.changed)
        few = bool(np.count_nonzero(state.changed[state.labels]) <= self.max_items)
        groups: list[tuple[Labels, Any]] = []
        items: list[Labels] = []
        candidates: list[Any] = []
        until_optimal = few

        def submit_group() -> None:
            submit = self.engine.submit_alone if until_optimal else self.engine.submit
            parts = self._totals_near(evaluation.totals, candidates)
            task = submit(decide_moves, k, until_optimal, parts, list(candidates))
            groups.append((np.concatenate(items), task))
            items.clear()
            candidates.clear()

        submitted = (
            (found, self.engine.submit(MoveCandidates.summary, found))
            for found in self._move_candidates(state, evaluation.totals, few)
        )
        for shard, (found, task) in zip(self.shards, self.engine.prefetch(submitted), strict=True):
            found_items, is_close = self.engine.value(task)
            state = state._replace(close=state.close or is_close)
            self.progress("moves", shard.stop, self.n)
            if candidates and sum(map(len, items)) + len(found_items) > self.max_items:
                until_optimal = False
                submit_group()
            if len(found_items):
                items.append(found_items + shard.start)
                candidates.append(found)
        if candidates:
            submit_group()
        proposed, unsettled, n_labels = state.labels.copy(), np.zeros(k, dtype=np.bool_), k
        for group, task in groups:
            labels, still_unsettled, is_close = self.engine.value(task)
            state = state._replace(close=state.close or is_close)
            proposed[group] = np.where(labels < k, labels, labels - k + n_labels)  # singletons are new
            n_labels = max(n_labels, int(proposed[group].max(initial=0)) + 1)
            unsettled[still_unsettled] = True
        if state.exact and np.array_equal(proposed, state.labels):
            unsettled[:] = False  # gains are rounding errors
        return self._accept(state, evaluation, proposed, unsettled, [group for group, _ in groups])

    def _move_candidates(
        self, state: DriverState, totals: list[Any], all_in_changed: bool
    ) -> Iterator[Any]:
        """Yield a task for every shard: its candidates for moves."""
        blocks = threads.slices(len(state.changed), self.max_items)
        changed = [self.engine.submit(np.asarray, state.changed[block]) for block in blocks]
        *others, last = zip(totals, changed, strict=True)
        for shard in self.shards:
            labels = self._shard_labels(shard, state.labels)
            scores = ShardScores(labels, state.changed[labels])
            problem = shard.rows, shard.recipe, state.exact
            for block in others:
                scores = self.engine.submit(tasks.score_shard, *problem, scores, *block)
            yield self.engine.submit(tasks.shard_candidates, *problem, all_in_changed, scores, *last)

    def _totals_near(self, totals: list[Any], candidates: list[Any]) -> list[Any]:
        """Return the totals of the clusters that candidates are in or may move to."""
        if len(totals) == 1:
            return totals
        submitted = [self.engine.submit(MoveCandidates.clusters, found) for found in candidates]
        ids = np.unique(np.concatenate([self.engine.value(task) for task in submitted]))
        return [
            self.engine.submit(ClusterTotals.select, block, ids[in_block])
            for block, in_block in ((totals[at], ids // self.max_items == at) for at in range(len(totals)))
            if in_block.any()
        ]

    def _accept(
        self,
        state: DriverState,
        evaluation: RunEvaluation,
        proposed: Labels,
        unsettled: Flags,
        groups: list[Labels],
    ) -> tuple[DriverState, RunEvaluation]:
        """Apply all proposed moves, or a random part of them, such that inside grows."""
        moves = state.labels != proposed
        if not moves.any():  # unsettled items need exact scores
            exact = bool(unsettled.any())
            return state._replace(changed=unsettled, n_rounds=state.n_rounds + 1, exact=exact), evaluation
        changed = np.zeros(max(len(state.changed), int(proposed.max()) + 1), dtype=np.bool_)
        uniform = np.random.default_rng(state.n_rounds).random(self.n)
        for share in _ACCEPTED_SHARES:
            accepted = moves & (uniform < share)
            if not share:  # the moves of one group alone are an improvement
                first = next(group for group in groups if moves[group].any())
                accepted[first] = moves[first]
            labels = np.where(accepted, proposed, state.labels)
            present = np.zeros(len(changed), dtype=np.bool_)
            present[labels] = True
            labels = (np.cumsum(present) - 1)[labels]
            after = self._evaluate(labels)
            if after.objective < evaluation.objective or not share or len(groups) == 1:
                break
        changed[: len(unsettled)] = unsettled
        changed[state.labels[moves]] = changed[proposed[accepted]] = True
        return DriverState(labels, changed[present], state.n_rounds + 1, close=state.close), after

    # Totals.

    def _evaluate(self, labels: Labels) -> RunEvaluation:
        """Return the totals and the objective of labels 0..K-1."""
        totals = self._totals(self.shards, labels)
        submitted = [self.engine.submit(ClusterTotals.terms, block) for block in totals]
        terms = reduce(ObjectiveTerms.add, (self.engine.value(task) for task in submitted))
        return RunEvaluation(totals, terms.inside, terms.across, terms.weightless)

    def _totals(self, shards: list[Shard], labels: Labels) -> list[Any]:
        """Return the totals of the clusters 0..K-1 of the labels, in blocks."""
        blocks = threads.slices(int(labels.max()) + 1, self.max_items)

        def of_shards() -> Iterator[list[Any]]:
            for shard in shards:
                of_shard = self._shard_labels(shard, labels)
                totals = self.engine.submit(tasks.total_shard, shard.rows, shard.recipe, of_shard)
                if len(blocks) == 1:
                    yield [totals]
                else:
                    yield [
                        self.engine.submit(ClusterTotals.block, totals, part.start, part.stop)
                        for part in blocks
                    ]

        def added(group: list[list[Any]]) -> list[Any]:
            return [self.engine.submit(add_totals, *parts) for parts in zip(*group, strict=True)]

        return tree_reduce(of_shards(), added, limit=_TOTALS_PER_TASK)

    def _contracted(self, totals: list[Any]) -> list[Any]:
        return [self.engine.submit(ClusterTotals.contracted, block) for block in totals]

    def _shard_labels(self, shard: Shard, labels: Labels) -> tasks.ShardLabels:
        """Return the labels of a shard in a small integer type, since they are sent to the task."""
        return labels[shard.start : shard.stop].astype(np.int32 if self.n < 2**31 else np.int64)

    def label_weightless(self, labels: Labels, evaluation: RunEvaluation) -> Labels:
        """Return labels by which items of weight 0 are in the cluster of most similar mean."""

        def labelled() -> Iterator[Any]:
            for shard in self.shards:
                result: Any = self._shard_labels(shard, labels), None
                for block in evaluation.totals:
                    result = self.engine.submit(
                        tasks.label_weightless, shard.rows, shard.recipe, result, block
                    )
                yield result

        parts = [self.engine.value(part)[0] for part in self.engine.prefetch(labelled())]
        return np.concatenate(parts).astype(np.int64)
