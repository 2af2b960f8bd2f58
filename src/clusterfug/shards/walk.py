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
        polish: bool = True,
        progress: Progress | None = None,
    ) -> None:
        self.shards, self.engine, self.checkpoint, self.budget = shards, engine, checkpoint, budget
        self.n, self.most = shards[-1].stop, most
        self.polish = polish and self.n <= most
        self.progress = progress or (lambda *_: None)

    def steps(self, init: Labels | None) -> Iterator[tuple[str, Refined, Known]]:
        """The phases: shards (or labels to start from), moves and joins until neither improves, polish."""
        place = self.checkpoint.place()
        if place is None:
            labels = self._pooled() if init is None else init
            place = Place(labels, _all(labels))
        known = self._know(place.labels)
        if init is None:
            yield "shards", Refined(place.labels, False, False), known
        if known.all_pairs > known.inside:
            place = Place(np.zeros_like(place.labels), np.ones(1, dtype=np.bool_), place.turn)
            known = self._know(place.labels)
        while True:
            self.checkpoint.keep(place)
            phase = "kernighan-lin" if place.polished else "refinement"
            if self.budget.over():
                yield phase, Refined(place.labels, False, False), known
                return
            if place.changed.any():
                place, known = self._round(place, known)
                continue
            joined = self.engine.value(self.engine.submit_alone(tasks.join_clusters, known.totals))
            if int(joined.max()) + 1 < len(joined):
                place = place._replace(labels=joined[place.labels], changed=np.bincount(joined) > 1)
                known = self._know(place.labels)
                continue
            yield phase, Refined(place.labels, True, True), known
            if place.polished or not self.polish:
                return
            place = self._polished(place)
            known = self._know(place.labels)

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
            submit = self.engine.submit_alone if len(self.shards) == 1 else self.engine.submit
            for shard in self.shards:
                name = f"shard-{shard.start}-{shard.stop}"
                yield pool(submit, name, shard, tasks.solve, shard.rows, shard.recipe)

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
            for waiting in pools:
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
        totals = tree(self.each(tasks.total, labels), lambda group: self.engine.submit(add, *group))
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

        def decide() -> None:
            submit = self.engine.submit_alone if few else self.engine.submit
            groups.append((np.concatenate(items), submit(tasks.decide, scene, few, *wanting)))
            items.clear()
            wanting.clear()

        submitted = self.each(tasks.want, place.labels, scene, few)
        for shard, found in zip(self.shards, self.engine.ahead(submitted), strict=True):
            who = self.engine.value(self.engine.submit(tasks.who, found))
            self.progress("moves", shard.stop, self.n)
            if wanting and not few and sum(map(len, items)) + len(who) > self.most:
                decide()
            items.append(who + shard.start)
            wanting.append(found)
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
            return place._replace(changed=unsettled, turn=place.turn + 1), known
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
        return place._replace(labels=labels, changed=changed[present], turn=place.turn + 1), after

    def _polished(self, place: Place) -> Place:
        """All items in one task: Kernighan-Lin and a little shaking."""
        shards = (self.engine.submit(tasks.problem_of, shard.rows, shard.recipe) for shard in self.shards)
        labels = compact(self.engine.value(self.engine.submit_alone(tasks.polished, place.labels, *shards)))
        changed = _all(labels) & (not np.array_equal(labels, place.labels))
        return Place(labels, changed, place.turn + 1, True)


def _all(labels: Labels) -> NDArray[np.bool_]:
    return np.ones(int(labels.max()) + 1, dtype=np.bool_)
