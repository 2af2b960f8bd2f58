"""From shards to a clustering: solve, pool, move, join. The walk is the same wherever tasks run.

The walk itself holds one label per item, no rows and no sums: those are where tasks run. A task that is
lost can be run again anywhere, since rows and labels are all it needs.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.kernels import Progress
from clusterfug.refinement.budget import Budget
from clusterfug.refinement.multilevel import Refined
from clusterfug.result import compact
from clusterfug.shards import tasks
from clusterfug.shards.checkpoint import Checkpoint, Place
from clusterfug.shards.engine import Engine, tree
from clusterfug.shards.totals import add

_RECENT = 64  # pools whose labels are asked for while others are still being made
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

    totals: Any
    inside: float
    all_pairs: float
    weightless: int  # items of weight 0


class Pool:
    """Clusters of some shards as the nodes of a problem, and how they came about."""

    labels: Labels  # of the items of a shard, or of the nodes of other pools

    def __init__(self, name: str, parts: "list[Pool] | Shard", labels: Any, nodes: Any) -> None:
        self.name, self.parts = name, parts
        self.submitted, self.nodes = labels, nodes  # where tasks run
        # How many nodes there are, of a shard when it is known; about, of a pool.
        self.size: int = 0 if isinstance(parts, Shard) else max(part.size for part in parts)

    def spread(self, of_nodes: Labels, out: Labels) -> None:
        """Give labels of the nodes to the items."""
        labels = of_nodes[self.labels]
        if isinstance(self.parts, Shard):
            out[self.parts.start : self.parts.stop] = labels
            return
        start = 0
        for part in self.parts:
            stop = start + int(part.labels.max()) + 1
            part.spread(labels[start:stop], out)
            start = stop


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
                joined = self.engine.value(self.engine.submit_alone(tasks.join_clusters, known.totals))
                if int(joined.max()) + 1 == len(joined):
                    return "refinement", Refined(place.labels, True, True), known
                place = Place(joined[place.labels], np.bincount(joined) > 1, place.turn + 1)
                known = self._know(place.labels)
            self.checkpoint.keep(place)
        return "refinement", Refined(place.labels, False, False), known

    def _pooled(self) -> Labels:
        """Labels from solving the shards, and what is left of some of them, until one pool is left."""
        pools: list[Pool] = []
        joins = 0

        def pool(submit: Any, name: str, parts: Any, function: Any, *arguments: Any) -> Pool:
            solved = submit(function, self.checkpoint.labels(name), *arguments)
            labels, nodes = (self.engine.submit(itemgetter(at), solved) for at in (0, 1))
            pools.append(Pool(name, parts, labels, nodes))
            return pools[-1]

        def leaves() -> Iterator[Pool]:
            for shard in self.shards:
                name = f"shard-{shard.start}-{shard.stop}"
                yield pool(self.engine.submit, name, shard, tasks.solve, shard.rows, shard.recipe)

        def solved() -> Iterator[Pool]:
            for shard, leaf in zip(self.shards, self.engine.ahead(leaves()), strict=True):
                self._collect(leaf)
                leaf.size = int(leaf.labels.max()) + 1
                self.progress("shards", shard.stop, self.n)
                yield leaf

        def join(parts: list[Pool], submit: Any = self.engine.submit) -> Pool:
            nonlocal joins
            joins += 1
            result = pool(submit, f"pool-{joins}", parts, tasks.join, *(part.nodes for part in parts))
            for part in parts:
                part.nodes = None  # nobody else needs them
            for waiting in pools[-_RECENT:]:
                if waiting.submitted is not None and self.engine.done(waiting.submitted):
                    self._collect(waiting)
            return result

        def join_last(parts: list[Pool]) -> Pool:
            return join(parts, self.engine.submit_alone)

        root = tree(solved(), join, lambda part: part.size, self.most, join_last)
        for waiting in pools:
            self._collect(waiting)
        labels = np.empty(self.n, dtype=np.int64)
        root.spread(np.arange(int(root.labels.max()) + 1), labels)
        return compact(labels)

    def _collect(self, pool: Pool) -> None:
        """Labels of a pool come here, once."""
        if pool.submitted is not None:
            pool.labels = self.engine.value(pool.submitted)
            pool.submitted = None
            self.checkpoint.keep_labels(pool.name, pool.labels)

    def _know(self, labels: Labels) -> Known:
        """Sum up the clusters of labels 0..K-1."""
        parts = self.each(tasks.total, labels)
        totals = tree(parts, lambda group: self.engine.submit(add, *group), limit=_TOGETHER)
        return Known(totals, *self.engine.value(self.engine.submit(tasks.value, totals)))

    def each(self, function: Any, labels: Labels, *arguments: Any) -> Iterator[Any]:
        """Submit something for every shard with its labels, in few bytes since they travel."""
        for start, stop, rows, recipe in self.shards:
            few = labels[start:stop].astype(np.int32 if self.n < 2**31 else np.int64)
            yield self.engine.submit(function, rows, recipe, few, *arguments)

    def _round(self, place: Place, known: Known) -> tuple[Place, Known]:
        """One round of moves: all shards say who wants to move, and those decide together.

        If they are too many for one task, they decide in groups that do not know of each other. If those
        in clusters that are not settled are few, they go on until none of them wants to move.
        """
        k = len(place.changed)
        few = bool(np.count_nonzero(place.changed[place.labels]) <= self.most)
        scene = self.engine.submit(tasks.scene, known.totals, place.changed)
        groups: list[tuple[Labels, Any]] = []
        items: list[Labels] = []
        wanting: list[Any] = []
        to_the_end = few

        def decide() -> None:
            submit = self.engine.submit_alone if to_the_end else self.engine.submit
            groups.append((np.concatenate(items), submit(tasks.decide, scene, to_the_end, *wanting)))
            items.clear()
            wanting.clear()

        submitted = (
            (found, self.engine.submit(tasks.who, found))
            for found in self.each(tasks.want, place.labels, scene, few)
        )
        for shard, (found, asked) in zip(self.shards, self.engine.ahead(submitted), strict=True):
            who = self.engine.value(asked)
            self.progress("moves", shard.stop, self.n)
            if wanting and sum(map(len, items)) + len(who) > self.most:
                to_the_end = False
                decide()
            if len(who):
                items.append(who + shard.start)
                wanting.append(found)
        if wanting:
            decide()
        proposed, unsettled, new = place.labels.copy(), np.zeros(k, dtype=np.bool_), k
        for who, decided in groups:
            labels, still = self.engine.value(decided)
            proposed[who] = np.where(labels < k, labels, labels - k + new)  # alone, each group by itself
            new = max(new, int(proposed[who].max(initial=0)) + 1)
            unsettled[still] = True
        return self._accepted(place, known, proposed, unsettled, [who for who, _ in groups])

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
        if not wanted.any():
            return Place(place.labels, unsettled, place.turn + 1), known
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
