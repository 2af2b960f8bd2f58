"""Files of links: pairs of items, and the group of every item."""

import numpy as np
import pytest

from clusterfug.io.labels import write_labels
from clusterfug.io.links import read_groups, read_pairs


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (".csv", "0,3\n2,1\n"),
        (".csv", "# known pairs\nfirst,second\n0,3\n\n2, 1\n"),
        (".tsv", "first\tsecond\n0\t3\n2\t1\n"),
        (".txt", "0 3\n% in between\n2 1"),
        (".txt", "0,3\r\n2,1\r\n"),
        (".TXT", "\ufeffitem item\n0 3\n2.0 1\n"),
    ],
)
def test_pairs_in_text(tmp_path, ending, text):
    path = tmp_path / f"p{ending}"
    path.write_text(text, newline="")
    pairs = read_pairs(path)
    assert pairs.tolist() == [[0, 3], [2, 1]]
    assert pairs.dtype == np.int64


def test_pairs_in_an_array_and_no_pairs(tmp_path):
    np.save(tmp_path / "p.npy", [[0, 3], [2, 1]])
    assert read_pairs(tmp_path / "p.npy").tolist() == [[0, 3], [2, 1]]
    (tmp_path / "p.csv").write_text("first,second\n")
    assert read_pairs(tmp_path / "p.csv").shape == (0, 2)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "p.csv",
            "0,1\n0,1,2\n",
            "line 2: 3 numbers where 2 are expected: a line is a pair 'i j' of items",
        ),
        ("p.csv", "a,b\n0,x\n", "line 2: 'x' is not a number"),
        ("p.csv", "a,b\n0,-1\n", "line 2: -1 is no item: a line is a pair"),
        ("p.txt", "0 0.5\n", "line 1: 0.5 is no item"),
        ("p.txt", "# c\n\n0 nan\n", "line 3: nan is no item"),
        ("p.txt", "0 1e300\n", "line 1: 1e[+]300 is no item"),
        ("p.txt", "0;1\n", "line 1: '0;1' is not a number"),
        ("p.doc", "0 1\n", "unknown ending: a file of pairs of items ends in .csv, .tsv, .txt, .npy"),
        ("p.npy", "0 1\n", "is not a .npy file"),
    ],
)
def test_a_wrong_pair_is_named_by_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_pairs(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "text", "column", "groups"),
    [
        ("g.txt", "a\n\nb c\n-1\na\n", None, ["a", "", "b c", "", "a"]),
        (
            "g.txt",
            "7\n-1\n12345678901234567890\n-2.0\nnan\n",
            None,
            ["7", "", "12345678901234567890", "", ""],
        ),
        ("g.csv", 'a\n""\n\n"b, c"\n', None, ["a", "", "", "b, c"]),
        ("g.tsv", "a\nb, c\n", None, ["a", "b, c"]),
        ("g.csv", "photo\na\n\nb\n", "photo", ["a", "", "b"]),
        ("g.csv", "id,photo\n0,a\n\n1,\n2,-1\n", "photo", ["a", "", ""]),
        ("g.csv", '\ufeffphoto,"x:y"\r\n0, a\r\n', "x:y", ["a"]),
        ("g.tsv", "id\tphoto\n0\ta\n", "photo", ["a"]),
    ],
)
def test_groups_in_text(tmp_path, name, text, column, groups):
    (tmp_path / name).write_text(text, newline="")
    assert read_groups(tmp_path / name, column) == groups


@pytest.mark.parametrize("ending", [".npy", ".npz", ".parquet"])
def test_groups_as_numbers(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    write_labels(tmp_path / f"g{ending}", np.array([3, -1, 3]))
    assert read_groups(tmp_path / f"g{ending}").tolist() == [3, -1, 3]


@pytest.mark.parametrize(
    ("name", "text", "column", "message"),
    [
        ("g.csv", "a\na,b\n", None, "line 2: 2 columns where one is expected.*as in .*g.csv:a$"),
        ("g.csv", "id,photo\n0,a\n", None, "line 1: 2 columns where one is expected.*as in .*g.csv:photo$"),
        ("g.csv", "id,photo\n0,a\n", "foto", "has no column 'foto': its first line is 'id', 'photo'"),
        ("g.csv", "photo,photo\na,b\n", "photo", "has several columns 'photo'"),
        ("g.csv", "", "photo", "has no column 'photo': its first line is no heading"),
        ("g.csv", "id,photo\n0\n", "photo", "line 2: 1 fields where the heading has 2"),
        (
            "g.txt",
            "photo\na\n",
            "photo",
            "has no names of columns: leave out ':photo', or give a file with",
        ),
        ("g.npy", "", "photo", "has no names of columns: leave out ':photo'"),
        ("g.doc", "a\n", None, "unknown ending: a file of groups of items ends in .csv, .tsv, .txt, .npy,"),
        ("g.csv", f"{'x' * 200_000}\n", None, "is broken: field larger"),
    ],
)
def test_wrong_groups_are_named(tmp_path, name, text, column, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_groups(tmp_path / name, column)
