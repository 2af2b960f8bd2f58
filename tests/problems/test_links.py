"""Links: must-links, cannot-links and exclusive groups, against naive references and as users give them."""

import re
import subprocess
import sys
from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterfug.problems.apart import Apart
from clusterfug.problems.links import Links, make_links

MESSAGE = re.compile(
    r"items (\d+) and (\d+) (cannot be together|are both in group (-?\d+) of exclusive), but "
    r"(they|[\d.-]+) (must|must be together): remove one of these links, or give link_weight"
)


@st.composite
def arguments(draw, most=10):
    """Number of items, pairs that must and cannot be together, and a group (or -1) of each item."""
    n = draw(st.integers(1, most))
    item = st.integers(0, n - 1)
    pairs = st.lists(st.tuples(item, item), max_size=n)
    cannot = draw(st.lists(st.tuples(item, item).filter(lambda pair: pair[0] != pair[1]), max_size=3))
    return n, draw(pairs), cannot, draw(st.lists(st.integers(-2, 5), min_size=n, max_size=n))


def joined(n, must):
    """Return the lowest item that each item is joined to: relabel until nothing changes."""
    labels = list(range(n))
    for _ in range(n):
        for i, j in must:
            labels[i] = labels[j] = min(labels[i], labels[j])
    return labels


def distance(n, must, i, j):
    """Return the number of must-links on a shortest path: grow the set of the items that are reached."""
    reached = {i}
    for steps in range(n):
        if j in reached:
            return steps
        reached |= {b for pair in must for a, b in (pair, pair[::-1]) if a in reached}
    raise AssertionError("there is no path")


def in_order(pairs):
    """Return distinct pairs, lower item first, sorted."""
    return sorted({(min(pair), max(pair)) for pair in pairs})


def pairs_of_groups(groups):
    """Return all pairs of items with the same group, which is not negative."""
    return [(i, j) for i, j in combinations(range(len(groups)), 2) if groups[i] == groups[j] >= 0]


def by_appearance(labels):
    seen = list(dict.fromkeys(labels))
    return [seen.index(label) for label in labels]


def as_lists(pairs):
    return [list(pair) for pair in pairs]


@given(given=arguments(), labels=st.lists(st.integers(-3, 3), min_size=10, max_size=10))
def test_soft_links_are_those_of_the_definition(given, labels):
    n, must, cannot, exclusive = given
    links = make_links(n, must, cannot, exclusive, link_weight=2)
    must, cannot = in_order((i, j) for i, j in must if i != j), in_order(cannot)
    apart = pairs_of_groups(exclusive)
    assert (links.n, links.weight, links.is_hard) == (n, 2.0, False)
    assert links.must.tolist() == as_lists(must)
    assert links.cannot.tolist() == as_lists(cannot)
    cannot = [pair for pair in cannot if pair not in apart]  # those of a group count once
    assert links.groups.tolist() == list(range(n))
    assert Apart.of_links(links).all_pairs().tolist() == as_lists(sorted([*cannot, *apart]))
    shared = [group for group in exclusive if group >= 0 and exclusive.count(group) > 1]
    assert links.names == tuple(dict.fromkeys(shared))
    names = [links.names[group] if group >= 0 else -1 for group in links.exclusive]
    assert names == [group if group in shared else -1 for group in exclusive]
    for pairs in (links.must, links.cannot, Apart.of_links(links).all_pairs()):
        assert pairs.shape == (len(pairs), 2)
        assert pairs.dtype == np.int64
    labels = labels[:n]
    assert links.broken(labels) == (
        sum(labels[i] != labels[j] for i, j in must)
        + sum(labels[i] == labels[j] for i, j in cannot)
        + sum(labels[i] == labels[j] for i, j in apart)
    )


@given(arguments())
def test_hard_links_are_checked_for_contradictions(given):
    n, must, cannot, exclusive = given
    labels = joined(n, must)
    for told in (cannot, []):
        wrong = [pair for pair in in_order(told) if labels[pair[0]] == labels[pair[1]]]
        if not wrong:
            wrong = [(i, j) for i, j in pairs_of_groups(exclusive) if labels[i] == labels[j]]
        if not wrong:
            links = make_links(n, must, told, exclusive)
            assert links.is_hard
            assert links.groups.tolist() == by_appearance(labels)
            assert links.broken(links.groups) == 0
            continue
        with pytest.raises(ValueError, match="together") as error:
            make_links(n, must, told, exclusive)
        i, j, said, group, chain, verb = MESSAGE.fullmatch(str(error.value)).groups()
        i, j = int(i), int(j)
        assert (i, j) == wrong[0]
        if wrong[0] in in_order(told):
            assert (said, verb) == ("cannot be together", "must")
        else:
            assert (int(group), verb) == (exclusive[i], "must be together")
        check_chain(chain, n, in_order(must), i, j)


def check_chain(chain, n, must, i, j):
    """Assert that a chain, as an error names it, is a shortest path of must-links from item i to item j."""
    length = distance(n, must, i, j)
    if chain == "they":
        assert length == 1
        assert (i, j) in must
        return
    items = chain.split("-")
    assert (items[0], items[-1]) == (str(i), str(j))
    for a, b in pairwise(items):
        if "..." not in (a, b):
            assert tuple(sorted((int(a), int(b)))) in must
    if "..." in items:
        assert items.index("...") == 3
        assert len(items) == 7
        assert length >= 8
    else:
        assert len(items) == length + 1 <= 8


@given(n=st.integers(2, 12), seed=st.integers(0, 2**32 - 1))
def test_the_chain_is_a_path_of_must_links(n, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    must = np.stack([order[:-1], order[1:]], axis=1)  # one path, so that chains are long
    i, j = sorted(order[[0, -1]].tolist())
    links = must.tolist() + [rng.permutation(pair).tolist() for pair in must]
    with pytest.raises(ValueError, match="cannot be together") as error:
        make_links(n, links, [[j, i]])
    check_chain(MESSAGE.fullmatch(str(error.value))[5], n, in_order(must.tolist()), i, j)


@pytest.mark.parametrize(
    ("must", "cannot", "exclusive", "message"),
    [
        ([[8, 3], [17, 8], [0, 1]], [[17, 3]], None, "items 3 and 17 cannot be together, but 3-8-17 must:"),
        ([[3, 17]], [[17, 3]], None, "items 3 and 17 cannot be together, but they must:"),
        (
            [[3, 8], [8, 17]],
            None,
            ["IMG_7.jpg" if i in (3, 17) else None for i in range(20)],
            "items 3 and 17 are both in group 'IMG_7.jpg' of exclusive, but 3-8-17 must be together:",
        ),
        (
            [[3, 8]],
            [],
            np.arange(20) % 5,
            "items 3 and 8 are both in group 3 of exclusive, but they must be together:",
        ),
        # Of several contradictions, the lowest cannot pair, and a shortest chain.
        (
            [[4, 5], [0, 2], [2, 1]],
            [[4, 5], [1, 0]],
            [7] * 20,
            "items 0 and 1 cannot be together, but 0-2-1",
        ),
        ([[0, 1], [1, 2], [2, 3], [3, 4], [1, 4]], [[0, 4]], None, "but 0-1-4 must:"),
        ([[i, i + 1] for i in range(7)], [[0, 7]], None, "but 0-1-2-3-4-5-6-7 must:"),
        ([[i, i + 1] for i in range(8)], [[0, 8]], None, "but 0-1-2-...-6-7-8 must:"),
        ([[i, i + 1] for i in range(19)], [[19, 0]], None, "but 0-1-2-...-17-18-19 must:"),
    ],
)
def test_a_contradiction_is_named_with_its_must_links(must, cannot, exclusive, message):
    with pytest.raises(ValueError, match="remove one of these links, or give link_weight") as error:
        make_links(20, must, cannot, exclusive)
    assert message in str(error.value)
    assert not make_links(20, must, cannot, exclusive, link_weight=1.0).is_hard


def test_errors_call_items_by_their_name():
    with pytest.raises(ValueError, match=r"^nodes 0 and 1 cannot be together, but they must"):
        make_links(3, [[0, 1]], [[0, 1]], item="node")
    with pytest.raises(ValueError, match=r"^must_link names node 3, but there are 3 nodes"):
        make_links(3, [[0, 3]], item="node")


def test_without_links_there_is_nothing():
    assert make_links(5) is None
    with pytest.raises(ValueError, match="link_weight weighs links: give must_link"):
        make_links(5, link_weight=1.0)


@pytest.mark.parametrize("none", [[], (), np.empty((0, 2)), np.empty((0, 2), dtype=object)])
def test_an_empty_list_of_pairs_links_nothing(none):
    links = make_links(3, none, none)
    assert isinstance(links, Links)
    assert links.must.shape == links.cannot.shape == (0, 2)
    assert links.exclusive.tolist() == [-1] * 3
    assert links.groups.tolist() == [0, 1, 2]
    assert (links.broken([0, 0, 0]), links.names) == (0, ())


@pytest.mark.parametrize("kind", [list, np.array, np.float32, np.uint8, np.asfortranarray])
def test_pairs_may_be_given_in_any_integer_type_and_as_whole_floats(kind):
    links = make_links(6, kind([[5, 2], [2, 5], [4, 4], [0, 1]]), kind([[4, 3]]))
    assert links.must.tolist() == [[0, 1], [2, 5]]
    assert links.cannot.tolist() == [[3, 4]]
    assert links.groups.tolist() == [0, 0, 1, 2, 3, 1]


@pytest.mark.parametrize("name", ["must_link", "cannot_link"])
@pytest.mark.parametrize(
    ("pairs", "error", "message"),
    [
        ([[0, 7]], ValueError, "names item 7, but there are 5 items, numbered from 0"),
        ([[0, 5]], ValueError, "names item 5, but there are 5 items"),
        ([[0, 1], [-1, 2]], ValueError, "names item -1, but"),
        (np.array([[0, 2**63]], dtype=np.uint64), ValueError, "names item 9223372036854775808, but"),
        ([[7, 7]], ValueError, "names item 7, but"),
        ([0, 1], ValueError, r"one pair of items per row, shape \(m, 2\), not \(2,\)"),
        ([[0, 1, 2]], ValueError, r"shape \(m, 2\), not \(1, 3\)"),
        (np.empty((0, 3), dtype=int), ValueError, r"shape \(m, 2\), not \(0, 3\)"),
        ([[[0, 1]]], ValueError, r"shape \(m, 2\), not \(1, 1, 2\)"),
        ([[0, 1], [2]], ValueError, "rows of different lengths"),
        ([[0, 1], [1, 2.5]], ValueError, "has 2.5 in row 1, which is not an exact whole number"),
        ([[0, np.nan]], ValueError, "has nan in row 0, which is not an exact whole number"),
        ([[0, np.inf]], ValueError, "has inf in row 0"),
        ([[0, 1e300]], ValueError, r"has 1e\+300 in row 0"),
        ([["0", "1"]], TypeError, "must be integers, not <U1"),
        ([[0, None]], TypeError, "must be integers, not object"),
        ([[True, False]], TypeError, "must be integers, not bool"),
        ([[0, 1j]], TypeError, "must be integers, not complex128"),
        (np.ma.masked_equal([[0, 1]], 1), TypeError, "is a masked array"),
    ],
)
def test_wrong_pairs_are_an_error_of_one_line(name, pairs, error, message):
    with pytest.raises(error, match=f"^{name} .*{message}") as raised:
        make_links(5, **{name: pairs})
    assert "\n" not in str(raised.value)


def test_floats_that_may_have_been_rounded_name_no_items():
    """Of 2**24 + 1 float32 makes 2**24."""
    with pytest.raises(ValueError, match="not an exact whole number"):
        make_links(2**24 + 2, np.array([[0, 2**24 + 1]], dtype=np.float32))
    pairs = np.array([[0, 2**24 + 1]], dtype=np.float64)
    assert make_links(2**24 + 2, pairs, link_weight=1).must.tolist() == [[0, 2**24 + 1]]


def test_an_item_is_always_together_with_itself():
    assert not len(make_links(5, [[3, 3]]).must)
    for weight in (None, 1.0):
        with pytest.raises(ValueError, match="cannot_link pairs item 3 with itself: remove such pairs"):
            make_links(5, cannot_link=[[0, 1], [3, 3]], link_weight=weight)


@pytest.mark.parametrize(
    ("ids", "groups", "names"),
    [
        ([7, -1, 3, 7, 3, -5], [0, -1, 1, 0, 1, -1], (7, 3)),
        ([9, 3, 7, 7, 3, 8], [-1, 0, 1, 1, 0, -1], (3, 7)),  # groups of one item say nothing
        (np.array([2**63, 0, 2**63, 0, 1, 1], dtype=np.uint64), [0, 1, 0, 1, 2, 2], (2**63, 0, 1)),
        (np.array([7, np.nan, 7, np.nan, -0.0, 0], dtype=np.float32), [0, -1, 0, -1, 1, 1], (7, 0)),
        ([7.0, np.nan, 7, -1.0, float("nan"), None], [0, -1, 0, -1, -1, -1], (7,)),
        (["b", "", "a", "b", "a", ""], [0, -1, 1, 0, 1, -1], ("b", "a")),
        (["nan", np.nan, "nan", float("nan"), None, None], [0, -1, 0, -1, -1, -1], ("nan",)),
        (["1", 1, 1, "1", 2, -1], [0, 1, 1, 0, -1, -1], ("1", 1)),
        (("0", "-1", 0, "-1", 0, "0"), [0, 1, 2, 1, 2, 0], ("0", "-1", 0)),
        (np.array(["b", "", "a", "b", "a", ""]), [0, -1, 1, 0, 1, -1], ("b", "a")),
        (np.array([b"b", b"", b"b", b"", b"", b""]), [0, -1, 0, -1, -1, -1], (b"b",)),
        (
            np.array(["b", "", "a", "b", "a", ""], dtype=np.dtypes.StringDType()),
            [0, -1, 1, 0, 1, -1],
            ("b", "a"),
        ),
        (
            [np.int64(3), np.float32(3), np.str_("x"), np.str_("x"), np.int8(-1), np.int8(-1)],
            [0, 0, 1, 1, -1, -1],
            (3, "x"),
        ),
        # As floats they would be one group.
        ([2**53, 2**53 + 1, 2**53, 2**53 + 1, np.nan, -(2**70)], [0, 1, 0, 1, -1, -1], (2**53, 2**53 + 1)),
        (np.array([np.datetime64("NaT")] * 2 + [None] * 4, dtype=object), [-1] * 6, ()),
    ],
)
def test_exclusive_groups_have_ids_of_any_kind(ids, groups, names):
    links = make_links(6, exclusive=ids)
    assert links.exclusive.tolist() == groups
    assert links.exclusive.dtype == np.int64
    assert links.names == names
    assert list(map(type, links.names)) == list(map(type, names))
    assert Apart.of_links(links).all_pairs().tolist() == as_lists(pairs_of_groups(groups))


def test_missing_values_of_pandas_are_in_no_group(monkeypatch):
    """In a column of nullable integers or strings they are `pandas.NA`, which is neither true nor false."""

    class Missing:
        def __eq__(self, other):
            return self

        def __bool__(self):
            raise TypeError("boolean value of NA is ambiguous")

        __hash__ = object.__hash__

    missing = Missing()
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(NA=missing))
    links = make_links(5, exclusive=np.array(["a", missing, "a", missing, None], dtype=object))
    assert links.exclusive.tolist() == [0, -1, 0, -1, -1]


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([0, 1], ValueError, r"must have one group per item, shape \(4,\), not \(2,\)"),
        (np.zeros((4, 1), dtype=int), ValueError, r"shape \(4,\), not \(4, 1\)"),
        ([[0], [1], [0], [1]], ValueError, r"shape \(4,\), not \(4, 1\)"),
        ([], ValueError, r"shape \(4,\), not \(0,\)"),
        ("IMG_7.jpg", ValueError, r"shape \(4,\), not \(\)"),
        ([[0], [1, 2], [0], [1]], ValueError, "rows of different lengths"),
        (np.array([True, False, True, True]), TypeError, "not bool: a mask does not name groups"),
        ([True, None, True, True], TypeError, "not bool: a mask does not name groups"),
        ([0, 0.5, 1, 0.5], ValueError, "has 0.5 at item 1, which is not an exact whole number"),
        (np.array([0, -1.5, 1, 1]), ValueError, "has -1.5 at item 1"),
        ([0, 0, "a", -1.5], ValueError, "has -1.5 at item 3"),
        (np.array([0, np.inf, 1, 1]), ValueError, "has inf at item 1"),
        ([0, None, np.inf, 1], ValueError, "has inf at item 2"),
        (
            np.array([0, 2.0**53, np.nan, 1]),
            ValueError,
            r"has 9007199254740992.0 at item 1, .*: give integers",
        ),
        (np.arange(4) * 1j, TypeError, "must be integers or strings, not complex128"),
        (np.zeros(4, dtype="datetime64[ns]"), TypeError, "must be integers or strings, not datetime64"),
        (np.array([{}, {}, {}, {}]), TypeError, "must be integers or strings, not lists or arrays"),
        (np.ma.masked_equal([0, 1, 0, 1], 1), TypeError, "is a masked array"),
    ],
)
def test_wrong_groups_are_an_error_of_one_line(ids, error, message):
    with pytest.raises(error, match=f"^exclusive .*{message}") as raised:
        make_links(4, exclusive=ids)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        (0, ValueError, "link_weight must be above 0, not 0"),
        (-1.0, ValueError, "link_weight must be at least 0, not -1"),
        (np.nan, ValueError, "link_weight must be a finite number"),
        (np.inf, ValueError, "link_weight must be a finite number"),
        ("1", TypeError, "link_weight must be a number"),
        (True, TypeError, "link_weight must be a number"),
    ],
)
def test_a_weight_is_a_number_above_0(weight, error, message):
    with pytest.raises(error, match=message):
        make_links(3, [[0, 1]], link_weight=weight)


def test_broken_needs_a_label_of_every_item():
    with pytest.raises(ValueError, match="one entry per item"):
        make_links(3, [[0, 1]]).broken([0, 1])


def test_links_of_tensors():
    torch = pytest.importorskip("torch", reason="tensors need torch, the extra [gpu]")
    links = make_links(4, torch.tensor([[1, 0]]), exclusive=torch.tensor([5, -1, -1, 5]))
    assert links.must.tolist() == [[0, 1]]
    assert (links.exclusive.tolist(), links.names) == ([0, -1, -1, 0], (5,))


def test_the_module_is_light():
    code = "import sys, clusterfug.problems.links; print('scipy' in sys.modules, 'numba' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert result.stdout == "False False\n"
