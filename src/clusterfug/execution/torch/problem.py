"""TensorProblem: dense multicut problems packed side by side as tensors on one device.

Items of a problem are contiguous, and pairs of different problems have no cost, so that the modules that
solve a pack do not depend on the number of problems in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from clusterfug.execution import threads
from clusterfug.execution.torch import operations as ops

_BLOCK_ENTRIES = 1 << 26  # of absolute features at a time
#: Squares of rows are small if their sum is at most this many times the sum of the terms of some pairs.
_MAX_SQUARES = 16


@dataclass(eq=False)
class TensorProblem:
    """cost(i, j) = sum_d signs_d f_id f_jd + last_p a_i a_j for items i, j of the same problem p.

    Features and a are those of the items times their weights. A contraction of a problem is a problem.
    Features may stay on the host while all else is on the GPU: then `parts` copies them in parts.
    """

    features: Tensor  # (n, d) float32 or float64
    extra: Tensor  # (n, 3) float64: a, magnitudes, and the number of items that each contracts
    starts: Tensor  # (problems + 1,) int64
    last: Tensor  # (problems,) float64
    signs: Tensor | None  # (d,) float64, or None if all are +1
    search_dtype: torch.dtype  # in which candidates are found
    part_size: int | None = None  # items on the device at a time; None for all

    @property
    def a(self) -> Tensor:
        return self.extra[:, 0]

    @property
    def magnitudes(self) -> Tensor:
        """Numbers u with |cost(i, j)| <= u_i u_j; of clusters the sums."""
        return self.extra[:, 1]

    @property
    def n(self) -> int:
        return len(self.features)

    @property
    def d(self) -> int:
        return self.features.shape[1]

    @property
    def problems(self) -> int:
        return len(self.last)

    @property
    def device(self) -> torch.device:
        return self.extra.device

    def parts(self) -> Iterator[tuple[slice, "TensorProblem"]]:
        """Yield ranges of items as problems on the device; together they are all items."""
        if self.part_size is None:
            yield slice(0, self.n), self
            return
        for some in threads.slices(self.n, self.part_size):
            features, extra = self.features[some], self.extra[some]
            if self.device.type != "cpu":
                # An asynchronous copy: torch reuses the pinned memory only when it has ended.
                features = features.pin_memory().to(self.device, non_blocking=True)
            starts = torch.tensor([0, len(features)], device=self.device)
            yield some, replace(self, features=features, extra=extra, starts=starts, part_size=None)

    def repeat(self, times: int) -> "TensorProblem":
        """Return a pack with `times` copies of every problem, one after the other."""
        sizes = self.starts.diff().repeat_interleave(times)
        starts = torch.zeros(len(sizes) + 1, dtype=torch.int64, device=self.device)
        starts[1:] = sizes.cumsum(0)
        first = self.starts[:-1].repeat_interleave(times) - starts[:-1]
        items = torch.repeat_interleave(first, sizes) + torch.arange(times * self.n, device=self.device)
        features, extra = self.features[items], self.extra[items]
        last = self.last.repeat_interleave(times)
        return replace(self, features=features, extra=extra, starts=starts, last=last)

    def sum_groups(self, labels: Tensor, count: int) -> Tensor:
        """Return float64 sums of the features of the groups 0..count-1."""
        groups = torch.arange(count + 1, device=self.device)
        total = torch.zeros(count, self.d, dtype=torch.float64, device=self.device)
        for some, part in self.parts():
            ordered, order = torch.sort(labels[some], stable=True)
            total += ops.group_sums(part.features, order, torch.searchsorted(ordered, groups), len(order))
        return total

    @cached_property
    def items(self) -> Tensor:
        """Numbers of all items."""
        return torch.arange(self.n, device=self.device)

    @cached_property
    def problem_of(self) -> Tensor:
        """The problem of every item."""
        if self.problems == 1:
            return torch.zeros(self.n, dtype=torch.int64, device=self.device)
        each = torch.arange(self.problems, device=self.device)
        return torch.repeat_interleave(each, self.starts.diff(), output_size=self.n)

    @cached_property
    def tiles(self) -> ops.Tiles:
        """All items in tiles: small ones if there are few items, so that there is work for a whole GPU."""
        size = 128 if self.n >= 1 << 15 else 64
        if self.problems == 1:
            return ops.Tiles(torch.arange(0, self.n, size, device=self.device), size)
        each = (self.starts.diff() + size - 1) // size
        first = torch.repeat_interleave(self.starts[:-1], each)
        before = torch.repeat_interleave(each.cumsum(0) - each, each)
        return ops.Tiles(first + size * (torch.arange(len(first), device=self.device) - before), size)

    @cached_property
    def lasts(self) -> Tensor:
        """`last` of every item's problem."""
        return self.last.expand(self.n) if self.problems == 1 else self.last[self.problem_of]

    @cached_property
    def own_costs(self) -> Tensor:
        """Cost of every item to itself."""
        squares = ops.concatenated([part._squares(self.signs) for _, part in self.parts()])
        return torch.addcmul(squares, self.lasts * self.a, self.a)

    def _squares(self, signs: Tensor | None) -> Tensor:
        return ops.pair_products(self.features, self.items, self.features, self.items, signs)

    @cached_property
    def own_total(self) -> Tensor:
        """Sum of the own costs, per problem."""
        return ops.problem_sums(self.own_costs, self.starts)

    @cached_property
    def lengths(self) -> Tensor:
        """Euclidean lengths of the rows (with a) in float32, rounded up.

        The product of two lengths exceeds every partial sum of the product of the two rows.
        """
        squares = torch.addcmul(self._squares(None), self.lasts.abs() * self.a, self.a)
        return squares.sqrt().float() * (1 + 1e-6)

    def as_queries(self, exact: bool) -> ops.ProductRows:
        """Return the items as queries, in float32 if exact. The candidates carry the signs."""
        extra = self._extra_exact if exact else self._extra_fast
        return ops.ProductRows(self._features(exact), extra, self.starts)

    @cached_property
    def _extra_fast(self) -> Tensor:
        a = (self.lasts * self.a).float()
        return torch.stack([a, torch.zeros_like(a), torch.zeros_like(a)], 1)

    @cached_property
    def _extra_exact(self) -> Tensor:
        return torch.stack([self._extra_fast[:, 0], self.lengths, self._extra_fast[:, 1]], 1)

    def as_candidates(self, exact: bool) -> ops.ProductRows:
        """Return the items as candidates of queries. If exact, products are upper bounds on costs."""
        features = self._features(exact)
        if self.signs is not None:
            features = features * self.signs.to(features.dtype)
        if not exact:  # only the first extra column of queries is not 0
            return ops.ProductRows(features, self.extra.float(), self.starts)
        slack = self.lengths * ((self.d + 64) * torch.finfo(torch.float32).eps)
        return ops.ProductRows(features, torch.stack([self.a.float(), slack, slack], 1), self.starts)

    def _features(self, exact: bool) -> Tensor:
        return self.features.float() if exact else self._narrow_features

    @cached_property
    def _narrow_features(self) -> Tensor:
        return self.features.to(self.search_dtype)

    def clear_cache(self) -> None:
        """Discard what was computed from the features, after they have changed."""
        for name in ("own_costs", "own_total", "lengths", "_narrow_features"):
            self.__dict__.pop(name, None)

    @cached_property
    def move_inputs(self) -> ops.MoveInputs:
        return ops.MoveInputs(
            self.features, self.signs, self.lasts * self.a, self.own_costs, self.magnitudes.contiguous(),
            self.problem_of, self.items - self.starts[self.problem_of],
        )  # fmt: skip

    def costs(self, i: Tensor, others: "TensorProblem", j: Tensor) -> Tensor:
        """Return float64 costs between items i and items j of another problem; 0 where j is -1."""
        products = ops.pair_products(self.features, i, others.features, j, self.signs)
        return torch.where(j >= 0, products + self.lasts[i] * self.a[i] * others.a[j], 0.0)

    def contract(self, keys: Tensor) -> tuple["TensorProblem", Tensor]:
        """Return the problem whose items are the clusters of these keys, and labels 0..K-1 of the items.

        Keys are any numbers >= 0; clusters are ordered by problem, then by key.
        """
        if self.problems > 1:
            keys = self.problem_of * (keys.max() + 1) + keys
        ordered, order = torch.sort(keys, stable=True)
        first = torch.ones(self.n, dtype=torch.bool, device=self.device)
        first[1:] = ordered[1:] != ordered[:-1]
        groups = torch.nonzero(first)[:, 0]
        labels = torch.empty_like(keys)
        labels[order] = first.cumsum(0) - 1
        begins = torch.cat([groups, groups.new_full((1,), self.n)])
        largest = int(begins.diff().max())
        extra = ops.group_sums(self.extra, order, begins, largest)
        if self.part_size is None:
            features = ops.group_sums(self.features, order, begins, largest)
        else:
            features = self.sum_groups(labels, len(groups))
        if self.problems == 1:
            starts = torch.arange(0, len(groups) + 1, len(groups), device=self.device)
        else:
            each = torch.arange(self.problems + 1, device=self.device)
            starts = torch.searchsorted(self.problem_of[order[groups]], each)
        return replace(self, features=features, extra=extra, starts=starts, part_size=None), labels

    def inside(self, clusters: "TensorProblem") -> Tensor:
        """Return the total cost inside clusters (a contraction of this problem), per problem.

        It is a difference of costs of items and clusters to themselves: fast, but if some rows are much
        longer than others the rounding of their squares remains. `exact_inside` does not contain any.
        """
        return (clusters.own_total - self.own_total) / 2

    @cached_property
    def has_small_squares(self) -> bool:
        """Whether the squares of the rows are no larger than the terms of all pairs, in each problem."""
        return self._has_small_squares(ops.problem_sums(self.a.contiguous(), self.starts).square(), 1)

    def _has_small_squares(self, squares: Tensor, clusters: Tensor | int) -> bool:
        """Whether the squares of the rows are no larger than the terms of pairs inside some clusters.

        Then a difference of squares is about as exact as a sum over the pairs. Their terms are at least
        those of a: `squares` has the sums of the squares of a of the clusters, per problem.
        """
        values = self.magnitudes.square(), self.a.square()
        rows, own = (ops.problem_sums(each, self.starts) for each in values)
        pairs = self.last.abs() * (squares - own) / 2
        return bool(((rows <= _MAX_SQUARES * pairs) | (self.starts.diff() == clusters)).all())

    def exact_inside(self, labels: Tensor, clusters: "TensorProblem | None" = None) -> Tensor:
        """Return the total cost inside clusters given by labels, per problem, to the rounding of pairs.

        `clusters` is the contraction, if it is at hand. If the squares of rows are small, the cost is a
        difference of squares; otherwise it is added up from costs of pairs only.
        """
        clusters = self.contract(labels)[0] if clusters is None else clusters
        squares = ops.problem_sums(clusters.a.square(), clusters.starts)
        if self._has_small_squares(squares, clusters.starts.diff()):
            alone = self.starts.diff() == clusters.starts.diff()
            return torch.where(alone, 0.0, self.inside(clusters))
        del clusters  # frees its memory
        if self.part_size is None:
            return self._joined_in_pairs(labels)[0]
        total = torch.zeros_like(self.last)
        together: TensorProblem | None = None  # the clusters of the parts so far, one after the other
        their_labels = labels[:0]
        for some, part in self.parts():
            inside, joined, own = part._joined_in_pairs(labels[some])
            total += inside
            if together is not None:
                own = torch.cat([their_labels, own])
                inside, joined, own = together.followed_by(joined)._joined_in_pairs(own)
                total += inside
            together, their_labels = joined, own
        return total

    def cost_of(self, labels: Tensor, clusters: "TensorProblem") -> tuple[Tensor, Tensor]:
        """Return the total costs inside and between clusters: labels 0..K-1, and the contraction."""
        one = torch.zeros_like(clusters.problem_of)
        return self.exact_inside(labels, clusters), clusters.exact_inside(one)

    def _joined_in_pairs(self, labels: Tensor) -> tuple[Tensor, "TensorProblem", Tensor]:
        """Join the items of every cluster in pairs, then those pairs in pairs, and so on.

        Returns the total cost of the joins per problem, the clusters, and the labels of the clusters.
        """
        total, nodes = torch.zeros_like(self.last), self
        while True:
            keys = labels if self.problems == 1 else nodes.problem_of * (labels.max() + 1) + labels
            ordered, order = torch.sort(keys, stable=True)
            number = nodes.items - torch.searchsorted(ordered, ordered)  # of a node in its cluster
            second = torch.nonzero(number % 2)[:, 0]
            if not len(second):
                return total, nodes, labels
            i, j = order[second - 1], order[second]
            costs = torch.zeros(nodes.n, dtype=torch.float64, device=self.device)
            costs[j] = nodes.costs(i, nodes, j)
            total += ops.problem_sums(costs, nodes.starts)
            pairs = torch.arange(nodes.n, device=self.device)
            pairs[j] = i
            contracted, node_of = nodes.contract(pairs)
            kept = torch.empty(contracted.n, dtype=labels.dtype, device=self.device)
            kept[node_of] = labels
            nodes, labels = contracted, kept

    def followed_by(self, other: "TensorProblem") -> "TensorProblem":
        """Return the one problem of the items of this one and those of another with the same costs."""
        features, extra = torch.cat([self.features, other.features]), torch.cat([self.extra, other.extra])
        starts = torch.tensor([0, len(features)], device=self.device)
        return replace(self, features=features, extra=extra, starts=starts)

    def term_sums(self, labels: Tensor, count: int) -> Tensor:
        """Return sums of the absolute features, and (the last column) of the absolute a, of groups."""
        total = torch.zeros(count, self.d + 1, dtype=torch.float64, device=self.device)
        groups = torch.arange(count + 1, device=self.device)
        for some, part in self.parts():
            for block in threads.slices(part.n, max(1, _BLOCK_ENTRIES // self.d)):
                ordered, order = torch.sort(labels[some][block], stable=True)
                bounds = torch.searchsorted(ordered, groups)
                terms = torch.cat([part.features[block].double(), part.a[block, None]], 1).abs()
                total += ops.group_sums(terms, order, bounds, len(order))
        return total
