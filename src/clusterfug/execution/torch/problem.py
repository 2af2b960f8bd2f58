"""TensorProblem: dense multicut problems packed side by side as tensors on one device.

One problem is a pack of one. Items of a problem are contiguous, and pairs of different problems do not
exist: nothing after this file has to know how many there are.
"""

from collections.abc import Iterator
from functools import cached_property

import torch
from torch import Tensor

from clusterfug.execution.torch.operations import Ask, Rows, Tiles, dots, sums, totals


class TensorProblem:
    """cost(i, j) = sum_d signs_d f_id f_jd + last_p a_i a_j for items i, j of the same problem p.

    Features and a are those of the items times their weights. A contraction of a problem is a problem.
    Features may stay on the host while all else is on the GPU: then they come in parts.
    """

    def __init__(
        self,
        features: Tensor,
        a: Tensor,
        magnitudes: Tensor,
        starts: Tensor,
        last: Tensor,
        signs: Tensor | None,
        narrow: torch.dtype,
        part: int | None = None,
        more: Tensor | None = None,
    ) -> None:
        self.features = features  # (n, d) float32 or float64
        self.a = a  # (n,) float64
        self.magnitudes = magnitudes  # (n,) float64, u with |cost(i, j)| <= u_i u_j; of clusters the sums
        self.starts = starts  # (problems + 1,) int64
        self.last = last  # (problems,) float64
        self.signs = signs  # (d,) float64, or None if all are +1
        self.narrow = narrow  # what candidates are found in
        self.part = part  # items on the device at a time; None for all
        if more is None:
            more = torch.stack([a, magnitudes, torch.ones_like(a)], 1)
        self.more = more  # (n, 3) a, magnitudes and ones side by side
        self.members = more  # of a contraction, the sums of the same over the items of each node

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
        return self.a.device

    def parts(self) -> Iterator[tuple[slice, "TensorProblem"]]:
        """All items on the device, some at a time."""
        if self.part is None:
            yield slice(0, self.n), self
            return
        waiting: list[Tensor] = []
        for start in range(0, self.n, self.part):
            some = slice(start, min(start + self.part, self.n))
            yield some, self._some(self._brought(some, waiting), some)

    def _brought(self, some: slice, waiting: list[Tensor]) -> Tensor:
        """Features on the device. The host goes on while they travel, from memory that has to wait."""
        if self.device.type == "cpu":
            return self.features[some]
        pinned = torch.empty(self.features[some].shape, dtype=self.features.dtype, pin_memory=True)
        pinned.copy_(self.features[some])
        waiting.append(pinned)
        del waiting[:-2]
        return pinned.to(self.device, non_blocking=True)

    def repeat(self, times: int) -> "TensorProblem":
        """Every problem so many times, one after the other."""
        sizes = self.starts.diff().repeat_interleave(times)
        starts = torch.zeros(len(sizes) + 1, dtype=torch.int64, device=self.device)
        starts[1:] = sizes.cumsum(0)
        first = self.starts[:-1].repeat_interleave(times) - starts[:-1]
        items = torch.repeat_interleave(first, sizes) + torch.arange(times * self.n, device=self.device)
        return TensorProblem(
            self.features[items], self.a[items], self.magnitudes[items], starts,
            self.last.repeat_interleave(times), self.signs, self.narrow,
        )  # fmt: skip

    def sum_groups(self, labels: Tensor, count: int) -> Tensor:
        """float64 sums of the features of the groups 0..count-1."""
        groups = torch.arange(count + 1, device=self.device)
        total = None
        for some, part in self.parts():
            ordered, order = torch.sort(labels[some], stable=True)
            found = sums(part.features, order, torch.searchsorted(ordered, groups), len(order))
            total = found if total is None else total + found
        assert total is not None
        return total

    def pick(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Features on the device that hold these items, and where they are in them."""
        if self.part is None:
            return self.features, items
        return self.features[items.cpu()].to(self.device), torch.arange(len(items), device=self.device)

    def _some(self, features: Tensor, some: slice) -> "TensorProblem":
        starts = torch.tensor([0, len(features)], device=self.device)
        return TensorProblem(
            features, self.a[some], self.magnitudes[some], starts, self.last, self.signs, self.narrow
        )

    @cached_property
    def everyone(self) -> Tensor:
        return torch.arange(self.n, device=self.device)

    @cached_property
    def of(self) -> Tensor:
        """The problem of every item."""
        if self.problems == 1:
            return torch.zeros(self.n, dtype=torch.int64, device=self.device)
        each = torch.arange(self.problems, device=self.device)
        return torch.repeat_interleave(each, self.starts.diff(), output_size=self.n)

    @cached_property
    def tiles(self) -> Tiles:
        """All items in tiles: small ones if there are few items, to keep a GPU busy."""
        size = 128 if self.n >= 1 << 15 else 64
        if self.problems == 1:
            return Tiles(torch.arange(0, self.n, size, device=self.device), size)
        each = (self.starts.diff() + size - 1) // size
        first = torch.repeat_interleave(self.starts[:-1], each)
        before = torch.repeat_interleave(each.cumsum(0) - each, each)
        return Tiles(first + size * (torch.arange(len(first), device=self.device) - before), size)

    @cached_property
    def lasts(self) -> Tensor:
        """last of every item."""
        return self.last.expand(self.n) if self.problems == 1 else self.last[self.of]

    @cached_property
    def own(self) -> Tensor:
        """What every item costs to itself."""
        squares = [part._squares(self.signs) for _, part in self.parts()]
        together = squares[0] if len(squares) == 1 else torch.cat(squares)
        return torch.addcmul(together, self.lasts * self.a, self.a)

    def _squares(self, signs: Tensor | None) -> Tensor:
        return dots(self.features, self.everyone, self.features, self.everyone, signs)

    @cached_property
    def own_total(self) -> Tensor:
        """The same, summed per problem."""
        return totals(self.own, self.starts)

    @cached_property
    def lengths(self) -> Tensor:
        """In float32, rounded up: of two, their product is more than any part of a product of the rows."""
        squares = torch.addcmul(self._squares(None), self.lasts.abs() * self.a, self.a)
        return squares.sqrt().float() * (1 + 1e-6)

    def rows(self, exact: bool) -> Rows:
        """The items as queries, in float32 if exact: the signs are with the columns that they meet."""
        return Rows(self._in(exact), self._more_exact if exact else self._more, self.starts)

    @cached_property
    def _more(self) -> Tensor:
        a = (self.lasts * self.a).float()
        return torch.stack([a, torch.zeros_like(a), torch.zeros_like(a)], 1)

    @cached_property
    def _more_exact(self) -> Tensor:
        return torch.stack([self._more[:, 0], self.lengths, self._more[:, 1]], 1)

    def columns(self, exact: bool) -> Rows:
        """The items as columns that queries meet. If exact, products are upper bounds."""
        features = self._in(exact)
        if self.signs is not None:
            features = features * self.signs.to(features.dtype)
        if not exact:  # the other columns of the queries are 0
            return Rows(features, self.more.float(), self.starts)
        slack = self.lengths * ((self.d + 64) * torch.finfo(torch.float32).eps)
        return Rows(features, torch.stack([self.a.float(), slack, slack], 1), self.starts)

    def _in(self, exact: bool) -> Tensor:
        return self.features.float() if exact else self._narrowed

    @cached_property
    def _narrowed(self) -> Tensor:
        return self.features.to(self.narrow)

    def forget(self) -> None:
        """The features have changed: what was computed from them does not hold any more."""
        for name in ("own", "own_total", "lengths", "_narrowed"):
            self.__dict__.pop(name, None)

    @cached_property
    def ask(self) -> Ask:
        """The items as `decide` asks them."""
        return Ask(
            self.features, self.signs, self.lasts * self.a, self.own, self.magnitudes, self.of,
            self.everyone - self.starts[self.of],
        )  # fmt: skip

    def costs(self, i: Tensor, others: "TensorProblem", j: Tensor) -> Tensor:
        """float64 costs of pairs of an item i of this problem and an item j of another; 0 if j is -1."""
        products = dots(self.features, i, others.features, j, self.signs)
        return torch.where(j >= 0, products + self.lasts[i] * self.a[i] * others.a[j], 0.0)

    def contract(self, keys: Tensor) -> tuple["TensorProblem", Tensor]:
        """The problem whose items are the clusters of these keys, and the labels 0..K-1 of the items.

        Keys are any numbers >= 0; clusters are ordered by problem, then by key.
        """
        if self.problems > 1:
            keys = self.of * (keys.max() + 1) + keys
        ordered, order = torch.sort(keys, stable=True)
        first = torch.ones(self.n, dtype=torch.bool, device=self.device)
        first[1:] = ordered[1:] != ordered[:-1]
        groups = torch.nonzero(first)[:, 0]
        labels = torch.empty_like(keys)
        labels[order] = first.cumsum(0) - 1
        begins = torch.cat([groups, groups.new_full((1,), self.n)])
        most = int((begins[1:] - begins[:-1]).max())
        more = sums(self.more, order, begins, most)
        if self.part is None:
            features = sums(self.features, order, begins, most)
        else:
            features = self.sum_groups(labels, len(groups))
        if self.problems == 1:
            starts = torch.arange(0, len(groups) + 1, len(groups), device=self.device)
        else:
            each = torch.arange(self.problems + 1, device=self.device)
            starts = torch.searchsorted(self.of[order[groups]], each)
        a, magnitudes, _ = more.T.contiguous()
        contracted = TensorProblem(features, a, magnitudes, starts, self.last, self.signs, self.narrow)
        contracted.members = more
        return contracted, labels

    def inside(self, clusters: "TensorProblem") -> Tensor:
        """What clusters keep inside, per problem."""
        return (clusters.own_total - self.own_total) / 2
