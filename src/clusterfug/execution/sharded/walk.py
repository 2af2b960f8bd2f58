"""From shards to a clustering: solve, pool, move, join. The walk is the same wherever tasks run.

The walk itself holds labels (and who attracts whom, of many clusters), no rows and no sums: those are where
tasks run. A task that is lost can be run again anywhere, since rows and labels are all it needs.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.execution import threads
from clusterfug.execution.jit import Progress
from clusterfug.execution.sharded import tasks
from clusterfug.execution.sharded.checkpoint import Checkpoint, Place
from clusterfug.execution.sharded.engine import Engine, Errands, Steps, tree
from clusterfug.execution.sharded.gather import Nodes, gather
from clusterfug.execution.sharded.rounds import Scores, decide
from clusterfug.execution.sharded.totals import Totals, add, add_worths
from clusterfug.problems.dense import DenseProblem
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import Refined
from clusterfug.result import compact

_TOGETHER = 8  # sums of shards are added at a time
_SHARES = (1.0, 0.5, 0.25, 0.0)  # of the moves of a round, tried one after the other until inside rises

Labels = NDArray[np.int64]


class Shard(NamedTuple):
    """A stretch of items: where their rows are, and how they become a problem."""

    start: int
    stop: int
    rows: Any
    recipe: tasks.Recipe


class Known(NamedTuple):
    """Sums of the clusters (where tasks run), what they keep inside, and what all pairs cost."""

    totals: list[Any]  # a block of consecutive clusters each
    inside: float
    all_pairs: float
    weightless: int  # items of weight 0


class Pool:
    """Clusters of a shard, or of other pools, as the nodes of a problem; and how they came about."""

    nodes: list[Any]  # in blocks, where tasks run
    collect: Callable[[], Labels]  # waits for the labels

    def __init__(self, span: tuple[int, int], parts: "list[Pool]") -> None:
        self.span, self.parts = span, parts

    @property
    def name(self) -> str:
        """What a checkpoint calls it."""
        return f"{'pool' if self.parts else 'shard'}-{self.span[0]}-{self.span[1]}"

    @cached_property
    def labels(self) -> Labels:
        """Of the items of a shard, or of the nodes of other pools."""
        labels = self.collect()
        del self.collect  # and with it where they were
        return labels

    @cached_property
    def size(self) -> int:
        return int(self.labels.max()) + 1

    def take_nodes(self) -> list[Any]:
        """The nodes of the parts, which nobody else needs."""
        nodes = [nodes for part in self.parts for nodes in part.nodes]
        for part in self.parts:
            part.nodes = []
        return nodes

    def spread(self, of_nodes: Labels, out: Labels) -> None:
        """Give labels of the nodes to the items."""
        labels = of_nodes[self.labels]
        if not self.parts:
            out[slice(*self.span)] = labels
        start = 0
        for part in self.parts:
            part.spread(labels[start : start + part.size], out)
            start += part.size


class Walk:
    """Shards on their way; no task gets more than `most` items or nodes, if that can be."""

    def __init__(
        self,
        shards: list[Shard],
        engine: Engine,
        checkpoint: Checkpoint,
        budget: Budget,
        most: int,
        algorithm: str = "auto",
        rng: np.random.Generator | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.shards, self.engine, self.checkpoint, self.budget = shards, engine, checkpoint, budget
        self.n, self.most, self.algorithm = shards[-1].stop, most, algorithm
        self.rng = rng or np.random.default_rng(0)
        self.progress = progress or (lambda *_: None)
        self._errands = Errands(engine)

    def steps(self, init: Labels | None) -> Iterator[tuple[str, Refined, Known]]:
        """The phases: shards (or labels to start from), and what is made of their labels."""
        if len(self.shards) == 1 or (init is not None and self.n <= self.most):
            yield self._finished(init)
            return
        place = self.checkpoint.place()
        if place is None:
            labels = self._pooled() if init is None else init
            place = Place(labels, np.ones(int(labels.max()) + 1, dtype=np.bool_))
            self.checkpoint.keep(place)
        known = self._know(place.labels)
        if init is None:
            yield "shards", Refined(place.labels, False, False), known
        yield self._finished(place.labels) if self.n <= self.most else self._refined(place, known)

    def _finished(self, labels: Labels | None) -> tuple[str, Refined, Known]:
        """What fits in one task is finished there, as it would be without shards."""
        parts = (self.engine.submit(tasks.problem_of, shard.rows, shard.recipe) for shard in self.shards)
        told = self.algorithm, labels, self.budget.left(), self.rng
        refined = self.engine.value(self.engine.submit_alone(tasks.finish, *told, *parts))
        return "refinement", refined, self._know(refined.labels)

    def _refined(self, place: Place, known: Known) -> tuple[str, Refined, Known]:
        """Moves and joins until neither improves."""
        if known.all_pairs > known.inside:
            place = Place(np.zeros_like(place.labels), np.ones(1, dtype=np.bool_), place.turn)
            known = self._know(place.labels)
        while not self.budget.over():
            if place.changed.any():
                place, known = self._round(place, known)
            else:
                joined = self._joined(known.totals, len(place.changed))
                if int(joined.max()) + 1 == len(joined):
                    return "refinement", Refined(place.labels, True, True), known
                place = Place(joined[place.labels], np.bincount(joined) > 1, place.turn + 1)
                known = self._know(place.labels)
            self.checkpoint.keep(place)
        return "refinement", Refined(place.labels, False, False), known

    def _joined(self, totals: list[Any], k: int) -> Labels:
        """Labels of the clusters: which of them are better off together."""
        if len(totals) == 1:
            labels: Labels = self.engine.value(self.engine.submit_alone(tasks.join_clusters, totals[0]))
            return labels
        nodes = [
            Nodes(self.engine.submit(tasks.clusters, block), part.stop - part.start)
            for block, part in zip(totals, threads.slices(k, self.most), strict=True)
        ]
        joined: Labels = self._errands.start(gather(self.engine, nodes, self.most))()
        return joined

    def _pooled(self) -> Labels:
        """Labels from solving the shards, and what is left of some of them, until one pool is left."""

        def leaves() -> Iterator[Pool]:
            for start, stop, *shard in self.shards:
                yield self._pool(self.engine.submit, Pool((start, stop), []), tasks.solve, *shard)

        def join(parts: list[Pool], submit: Any = self.engine.submit) -> Pool:
            pool = Pool((parts[0].span[0], parts[-1].span[1]), parts)
            if sum(part.size for part in parts) > 2 * self.most:
                return self._pool_in_blocks(pool)
            return self._pool(submit, pool, tasks.join, *pool.take_nodes())

        def join_last(parts: list[Pool]) -> Pool:
            return join(parts, self.engine.submit_alone)

        ahead = self.engine.ahead
        root = tree(ahead(leaves()), join, lambda part: part.size, self.most, join_last, ahead)
        labels = np.empty(self.n, dtype=np.int64)
        root.spread(np.arange(root.size), labels)
        return compact(labels)

    def _pool(self, submit: Any, pool: Pool, function: Any, *arguments: Any) -> Pool:
        """A pool that one task makes."""
        known = self.checkpoint.labels(pool.name)
        labels, nodes = self.engine.parts(submit(function, known, *arguments))

        def collect() -> Labels:
            found: Labels = self.engine.value(labels)
            self.checkpoint.keep_labels(pool.name, found)
            if not pool.parts:
                self.progress("shards", pool.span[1], self.n)
            return found

        pool.nodes, pool.collect = [nodes], collect
        return pool

    def _pool_in_blocks(self, pool: Pool) -> Pool:
        """A pool of more nodes than one task may have."""
        for part in pool.parts:
            stretches = list(threads.slices(part.size, self.most))
            if len(part.nodes) < len(stretches):  # one task made it, and it is large
                (nodes,) = part.nodes
                part.nodes = [self.engine.submit(DenseProblem.subset, nodes, some) for some in stretches]
        sizes = [
            (some.stop - some.start, kin)
            for kin, part in enumerate(pool.parts)
            for some in threads.slices(part.size, self.most)
        ]
        nodes = [Nodes(taken, *of) for taken, of in zip(pool.take_nodes(), sizes, strict=True)]

        def steps() -> Steps:
            labels = self.checkpoint.labels(pool.name)
            if labels is None:
                labels = yield from gather(self.engine, nodes, self.most)
                self.checkpoint.keep_labels(pool.name, labels)
            ends = np.cumsum([0, *(block.size for block in nodes)]).tolist()
            shards = [
                Shard(*span, block.problem, tasks.Recipe(0))
                for block, span in zip(nodes, pairwise(ends), strict=True)
            ]
            totals = self._sums(shards, labels)
            pool.nodes = [self.engine.submit(tasks.clusters, block) for block in totals]
            return labels

        pool.collect = self._errands.start(steps())
        return pool

    def _know(self, labels: Labels) -> Known:
        """Sum up the clusters of labels 0..K-1."""
        totals = self._sums(self.shards, labels)
        worths = [self.engine.submit(tasks.worth, block) for block in totals]
        worth = add_worths([self.engine.value(one) for one in worths])
        return Known(totals, worth.inside, worth.all_pairs, worth.weightless)

    def _sums(self, shards: list[Shard], labels: Labels) -> list[Any]:
        """Sums of the clusters of labels 0..K-1, in blocks."""
        stretches = list(threads.slices(int(labels.max()) + 1, self.most))

        def in_blocks() -> Iterator[list[Any]]:
            for shard in shards:
                totals = self.engine.submit(tasks.total, shard.rows, shard.recipe, self._few(shard, labels))
                if len(stretches) == 1:
                    yield [totals]
                else:
                    yield [
                        self.engine.submit(Totals.stretch, totals, part.start, part.stop)
                        for part in stretches
                    ]

        def added(group: list[list[Any]]) -> list[Any]:
            return [self.engine.submit(add, *parts) for parts in zip(*group, strict=True)]

        result: list[Any] = tree(in_blocks(), added, limit=_TOGETHER)
        return result

    def _few(self, shard: Shard, labels: Labels) -> tasks.Few:
        """Labels of a shard in few bytes, since they travel."""
        return labels[shard.start : shard.stop].astype(np.int32 if self.n < 2**31 else np.int64)

    def label_weightless(self, labels: Labels, known: Known) -> Labels:
        """Labels with the items of weight 0 in the cluster of most similar mean feature."""

        def labelled() -> Iterator[Any]:
            for shard in self.shards:
                result: Any = self._few(shard, labels), None
                for block in known.totals:
                    result = self.engine.submit(
                        tasks.label_weightless, shard.rows, shard.recipe, result, block
                    )
                yield result

        parts = [self.engine.value(part)[0] for part in self.engine.ahead(labelled())]
        return np.concatenate(parts).astype(np.int64)

    def _wanting(self, place: Place, totals: list[Any], stirred_too: bool) -> Iterator[Any]:
        """Who wants to move, for every shard."""
        stretches = threads.slices(len(place.changed), self.most)
        changed = [self.engine.submit(tasks.same, place.changed[part]) for part in stretches]
        *scenes, last = zip(totals, changed, strict=True)
        for shard in self.shards:
            labels = self._few(shard, place.labels)
            scores = Scores(labels, place.changed[labels])
            told = shard.rows, shard.recipe, place.exact
            for scene in scenes:
                scores = self.engine.submit(tasks.score, *told, scores, *scene)
            yield self.engine.submit(tasks.want, *told, stirred_too, scores, *last)

    def _round(self, place: Place, known: Known) -> tuple[Place, Known]:
        """One round of moves: all shards say who wants to move, and those decide together.

        If they are too many for one task, they decide in groups that do not know of each other. If those
        in clusters that are not settled are few, they go on until none of them wants to move.
        """
        k = len(place.changed)
        few = bool(np.count_nonzero(place.changed[place.labels]) <= self.most)
        groups: list[tuple[Labels, Any]] = []
        items: list[Labels] = []
        wanting: list[Any] = []
        to_the_end = few

        def decided() -> None:
            submit = self.engine.submit_alone if to_the_end else self.engine.submit
            parts = self._of(known.totals, wanting)
            groups.append((np.concatenate(items), submit(decide, k, to_the_end, parts, list(wanting))))
            items.clear()
            wanting.clear()

        submitted = (
            (found, self.engine.submit(tasks.who, found))
            for found in self._wanting(place, known.totals, few)
        )
        for shard, (found, asked) in zip(self.shards, self.engine.ahead(submitted), strict=True):
            who = self.engine.value(asked)
            self.progress("moves", shard.stop, self.n)
            if wanting and sum(map(len, items)) + len(who) > self.most:
                to_the_end = False
                decided()
            if len(who):
                items.append(who + shard.start)
                wanting.append(found)
        if wanting:
            decided()
        proposed, unsettled, new = place.labels.copy(), np.zeros(k, dtype=np.bool_), k
        for who, submitted_group in groups:
            labels, still = self.engine.value(submitted_group)
            proposed[who] = np.where(labels < k, labels, labels - k + new)  # alone, each group by itself
            new = max(new, int(proposed[who].max(initial=0)) + 1)
            unsettled[still] = True
        if place.exact and np.array_equal(proposed, place.labels):
            unsettled[:] = False  # nobody gains by more than rounding
        return self._accepted(place, known, proposed, unsettled, [who for who, _ in groups])

    def _of(self, totals: list[Any], wanting: list[Any]) -> list[Any]:
        """Sums of the clusters where items are or might go."""
        if len(totals) == 1:
            return totals
        asked = [self.engine.submit(tasks.where, found) for found in wanting]
        ids = np.unique(np.concatenate([self.engine.value(one) for one in asked]))
        return [
            self.engine.submit(Totals.of, block, ids[here])
            for block, here in ((totals[at], ids // self.most == at) for at in range(len(totals)))
            if here.any()
        ]

    def _accepted(
        self,
        place: Place,
        known: Known,
        proposed: Labels,
        unsettled: NDArray[np.bool_],
        groups: list[Labels],
    ) -> tuple[Place, Known]:
        """All moves together, or as many of them as it takes for inside to rise."""
        wanted = place.labels != proposed
        if not wanted.any():  # whoever is not sure yet needs exact scores
            return Place(place.labels, unsettled, place.turn + 1, bool(unsettled.any())), known
        changed = np.zeros(max(len(place.changed), int(proposed.max()) + 1), dtype=np.bool_)
        chance = np.random.default_rng(place.turn).random(self.n)
        for share in _SHARES:
            moving = wanted & (chance < share)
            if not share:  # those of one group alone are a gain, since nothing else moves
                first = next(who for who in groups if wanted[who].any())
                moving[first] = wanted[first]
            present = np.zeros(len(changed), dtype=np.bool_)
            labels = np.where(moving, proposed, place.labels)
            present[labels] = True
            labels = (np.cumsum(present) - 1)[labels]
            after = self._know(labels)
            if after.inside > known.inside or not share or len(groups) == 1:
                break
        changed[: len(unsettled)] = unsettled
        changed[place.labels[wanted]] = changed[proposed[moving]] = True
        return Place(labels, changed[present], place.turn + 1), after
