"""Links: pairs of items that must or cannot be together, and groups of items that are all apart.

`make_links` is the one place where a user's arguments become links; hard ones do not contradict each other.
"""

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.result import number_by_first_appearance

_MAX_CHAIN = 8  # items of a chain of must-links that an error names
_SHOWN_END = 3  # items at each end of a longer one
_REAL = (int, float, np.integer, np.floating)


@dataclass(frozen=True, eq=False, repr=False)
class Links:
    """What is known about pairs of items.

    Attributes
    ----------
    n : int
        Number of items.
    must, cannot : int64 arrays of shape (m, 2) and (c, 2)
        Pairs that belong together, and pairs that do not: each pair once, lower item first, sorted
        lexicographically.
    exclusive : int64 array of shape (n,)
        Group of each item, 0..G-1, numbered by first appearance; -1 for none. The items of a group, which
        has two or more, are all in different clusters.
    weight : float or None
        What it costs to break a link. None if no link may be broken (hard links).
    names : tuple
        The user's ids of the exclusive groups 0..G-1, for messages.
    """

    n: int
    must: NDArray[np.int64]
    cannot: NDArray[np.int64]
    exclusive: NDArray[np.int64]
    weight: float | None = None
    names: tuple[Hashable, ...] = ()

    def __repr__(self) -> str:
        strength = "hard" if self.is_hard else f"weight={self.weight:g}"
        kinds = f"must={len(self.must)}, cannot={len(self.cannot)}, groups={len(self.names)}"
        return f"Links(n={self.n}, {kinds}, {strength})"

    @property
    def is_hard(self) -> bool:
        """Whether no link may be broken."""
        return self.weight is None

    @cached_property
    def groups(self) -> NDArray[np.int64]:
        """Labels 0..K-1, by first appearance: items share one if hard must-links join them."""
        if not self.is_hard or not len(self.must):
            return np.arange(self.n)
        from scipy.sparse.csgraph import connected_components

        graph = _adjacency(self.must, self.n)
        return number_by_first_appearance(connected_components(graph, directed=False)[1])

    def broken(self, labels: Any) -> int:
        """Number of links that a clustering breaks.

        They are the must pairs that it separates, the cannot pairs that it keeps together, and the pairs of
        the same exclusive group that it keeps together. A pair that is named twice counts once.
        """
        labels = checks.labels(labels, self.n)
        separated = labels[self.must[:, 0]] != labels[self.must[:, 1]]
        together = labels[self.cannot[:, 0]] == labels[self.cannot[:, 1]]
        first, second = self.exclusive[self.cannot.T]
        together &= (first < 0) | (first != second)
        _, repeats = _by_group_and_label(self.exclusive, labels)
        sizes = np.diff(np.flatnonzero(np.concatenate([[True], ~repeats, [True]])))
        return int(np.count_nonzero(separated) + np.count_nonzero(together) + _n_pairs(sizes))


def make_links(
    n: int,
    must_link: Any = None,
    cannot_link: Any = None,
    exclusive: Any = None,
    link_weight: Any = None,
    item: str = "item",
) -> Links | None:
    """Return the links that a user's arguments describe, or None if there are none.

    Parameters
    ----------
    n : int
        Number of items.
    must_link, cannot_link : integer array-likes of shape (m, 2), optional
        Pairs of items 0..n-1 that belong together, and pairs that do not.
    exclusive : array-like of length n, optional
        Group of each item: an integer (-1: none) or a string ("", None or NaN: none). Items of the same
        group are all in different clusters.
    link_weight : float, optional
        What it costs to break a link. By default no link may be broken; it is an error if links contradict
        each other then.
    item : str
        What errors call an item.
    """
    if must_link is None and cannot_link is None and exclusive is None:
        if link_weight is not None:
            raise ValueError("link_weight weighs links: give must_link, cannot_link or exclusive, too")
        return None
    must = _pairs("must_link", must_link, n, item)
    cannot = _pairs("cannot_link", cannot_link, n, item)
    alone = np.flatnonzero(cannot[:, 0] == cannot[:, 1])
    if len(alone):
        raise ValueError(f"cannot_link pairs {item} {cannot[alone[0], 0]} with itself: remove such pairs")
    must = must[must[:, 0] != must[:, 1]]  # an item is together with itself
    groups, names = _exclusive_groups(exclusive, n)
    weight = None if link_weight is None else checks.number("link_weight", link_weight, 0.0)
    if weight == 0:
        raise ValueError("link_weight must be above 0, not 0: without it, no link may be broken")
    links = Links(n, must, cannot, groups, weight, names)
    if links.is_hard:
        _check_contradictions(links, item)
    return links


def _pairs(name: str, values: Any, n: int, item: str) -> NDArray[np.int64]:
    """Return pairs of items as an int64 array of shape (m, 2): lower item first, sorted, distinct."""
    values = [] if values is None else checks.on_host(values)
    pairs = np.asarray(checks.as_array(name, checks.unmasked(name, values)))
    if pairs.shape in [(0,), (0, 2)]:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be integers, not {pairs.dtype}: convert it first")
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ValueError(f"{name} must have one pair of {item}s per row, shape (m, 2), not {pairs.shape}")
    if pairs.dtype.kind == "f":
        inexact = np.argwhere(~_is_exact(pairs))
        if len(inexact):
            row, column = inexact[0]
            raise ValueError(
                f"{name} has {pairs[row, column]} in row {row}, which is not an exact whole number: "
                "give integers"
            )
    outside = np.argwhere((pairs < 0) | (pairs >= n))
    if len(outside):
        named = int(pairs[tuple(outside[0])])
        raise ValueError(f"{name} names {item} {named}, but there are {n} {item}s, numbered from 0")
    pairs = pairs.astype(np.int64, copy=False)
    keys = np.unique(pairs.min(axis=1) * n + pairs.max(axis=1))
    return np.stack([keys // n, keys % n], axis=1)


def _exclusive_groups(values: Any, n: int) -> tuple[NDArray[np.int64], tuple[Hashable, ...]]:
    """Return the exclusive group of each item, -1 for none, and the user's ids of the groups.

    Groups of a single item have no effect and are left out.
    """
    if values is None:
        return np.full(n, -1), ()
    array = np.asarray(checks.as_array("exclusive", checks.unmasked("exclusive", checks.on_host(values))))
    if isinstance(values, list | tuple):  # of which numpy makes one type: a text of NaN, 1.0 of 1
        array = np.array(values, dtype=object)
    if array.dtype.kind not in "biufUSTO":
        raise TypeError(f"exclusive must be integers or strings, not {array.dtype}: convert it first")
    if array.shape != (n,):
        raise ValueError(f"exclusive must have one group per item, shape ({n},), not {array.shape}")
    if array.dtype.kind == "f":
        inexact = np.flatnonzero(~(_is_exact(array) | np.isnan(array)))
        if len(inexact):
            _bad_group(array[inexact[0]], int(inexact[0]))
        array = np.where(np.isnan(array), -1, array).astype(np.int64)
    numbers_of: dict[Hashable, int] = {}
    try:
        numbered = (numbers_of.setdefault(id_, len(numbers_of)) for id_ in array.tolist())
        groups = np.fromiter(numbered, np.int64, n)
    except TypeError:  # it has no hash
        raise TypeError("exclusive must be integers or strings, not lists or arrays") from None
    sizes = np.bincount(groups)
    kept = np.zeros(len(sizes), dtype=bool)
    for id_, group in numbers_of.items():
        if isinstance(id_, bool | np.bool_):
            raise TypeError("exclusive must be integers or strings, not bool: a mask does not name groups")
        if isinstance(id_, float | np.floating) and not (np.isnan(id_) or _is_exact(np.float64(id_))):
            _bad_group(id_, int(np.argmax(groups == group)))
        kept[group] = sizes[group] > 1 and _names_group(id_)
    names = tuple(_plain(id_) for id_, group in numbers_of.items() if kept[group])
    return np.where(kept, np.cumsum(kept) - 1, -1)[groups], names


def _bad_group(value: Any, at: int) -> NoReturn:
    raise ValueError(
        f"exclusive has {value} at item {at}, which is not an exact whole number: give integers or strings"
    )


def _names_group(id_: Any) -> bool:
    """Whether it is the id of a group: neither None, NaN, an empty text nor a negative number."""
    if isinstance(id_, str | bytes):
        return len(id_) > 0
    pandas = sys.modules.get("pandas")
    if id_ is None or (pandas is not None and id_ is pandas.NA):
        return False
    if isinstance(id_, _REAL):
        return bool(id_ >= 0)  # False for NaN
    return bool(id_ == id_)  # False for the missing dates of pandas


def _plain(id_: Any) -> Hashable:
    """Return the id of a group as a plain Python value, whole floats as integers."""
    if isinstance(id_, _REAL):
        return int(id_)
    return id_.item() if isinstance(id_, np.generic) else id_


def _is_exact(values: Any) -> Any:
    """Whether floats are whole numbers, and so small that their type represents all smaller ones."""
    return (values == np.round(values)) & (np.abs(values) < 2.0 ** (np.finfo(values.dtype).nmant + 1))


def _n_pairs(sizes: NDArray[Any]) -> int:
    """Number of pairs within groups of these sizes."""
    return int((sizes * (sizes - 1) // 2).sum())


def _by_group_and_label(
    exclusive: NDArray[np.int64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the items of exclusive groups, sorted by group, label and item; and where both repeat.

    The second array has one entry less: whether an item has the group and the label of the one before it.
    """
    items = np.flatnonzero(exclusive >= 0)
    items = items[np.lexsort((labels[items], exclusive[items]))]
    return items, (np.diff(exclusive[items]) == 0) & (np.diff(labels[items]) == 0)


def _check_contradictions(links: Links, item: str) -> None:
    """Raise an error that names the lowest cannot pair, or else exclusive pair, that must be together."""
    groups = links.groups
    together = np.flatnonzero(groups[links.cannot[:, 0]] == groups[links.cannot[:, 1]])
    items, repeats = _by_group_and_label(links.exclusive, groups)
    before, after = items[:-1][repeats], items[1:][repeats]
    if len(together):
        i, j = links.cannot[together[0]].tolist()
        said, verb = "cannot be together", "must"
    elif len(before):
        at = np.argmin(before)
        i, j = int(before[at]), int(after[at])
        name = checks.shown(links.names[links.exclusive[i]])
        said, verb = f"are both in group {name} of exclusive", "must be together"
    else:
        return
    chain = _shortest_chain(links, i, j)
    subject = "they" if len(chain) == 2 else _joined(chain)
    raise ValueError(
        f"{item}s {i} and {j} {said}, but {subject} {verb}: remove one of these links, or give link_weight"
    )


def _shortest_chain(links: Links, i: int, j: int) -> list[int]:
    """Return the items on a shortest path of must-links from item i to item j."""
    from scipy.sparse.csgraph import breadth_first_order

    items = np.flatnonzero(links.groups == links.groups[i])
    inside = links.must[links.groups[links.must[:, 0]] == links.groups[i]]
    graph = _adjacency(np.searchsorted(items, inside), len(items))
    start, at = np.searchsorted(items, [i, j]).tolist()
    _, previous = breadth_first_order(graph, start, directed=False)
    chain = [at]
    while chain[-1] != start:
        chain.append(int(previous[chain[-1]]))
    return items[chain[::-1]].tolist()


def _joined(chain: list[int]) -> str:
    """Return a chain of items as an error names it."""
    names = [str(item) for item in chain]
    if len(names) > _MAX_CHAIN:
        names[_SHOWN_END:-_SHOWN_END] = ["..."]
    return "-".join(names)


def _adjacency(pairs: NDArray[np.int64], n: int) -> Any:
    """Return the sparse adjacency matrix of pairs of n items, each pair once."""
    from scipy.sparse import coo_array

    return coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(n, n)).tocsr()
