"""Known classes: numbers or names, in text and CSV files."""

import pytest

from clusterfug.io.classes import numbered, read_classes


@pytest.mark.parametrize(
    ("ending", "text", "classes"),
    [
        (".txt", "dog\ncat\ndog\n\n", [1, 0, 1]),
        (".txt", "label\ndog\n-1\ncat\n", [1, -1, 0]),
        (".txt", "New York\nRome, Italy\n", [0, 1]),
        (".txt", "class\n3\n1\n", [3, 1]),
        (".txt", "3\ncat\n", [0, 1]),
        (".csv", "label\ndog\ncat\n", [1, 0]),
        (".csv", "\ufefflabel\r\n7\r\n-1\r\n", [7, -1]),
        (".csv", 'id,label\n0,"Rome, Italy"\n1,Bonn\n', [1, 0]),
        (".csv", ",label,score\n0,5,.1\n1,4,.2\n", [5, 4]),
        (".csv", "5\n4\n", [5, 4]),
    ],
)
def test_classes_are_numbers_or_names(tmp_path, ending, text, classes):
    path = tmp_path / f"t{ending}"
    path.write_text(text, newline="")
    assert read_classes(path).tolist() == classes


@pytest.mark.parametrize(
    ("ending", "text", "message"),
    [
        (".txt", "", "holds no labels"),
        (".csv", "label\n", "holds no labels"),
        (".txt", "cat\n\ndog\n", "line 2: the label is missing; -1 means no class"),
        (".csv", "id,label\n0,cat\n1\n", "line 3: the label is missing"),
        (".csv", "id,name\n0,cat\n", "must have one column, or one called 'label'"),
        (".csv", "label\n0.5\n", "0.5 is no label"),
        (".csv", f"label\n{'x' * 200_000}\n", "is broken: field larger"),
    ],
)
def test_missing_classes_are_named_by_line(tmp_path, ending, text, message):
    path = tmp_path / f"t{ending}"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_classes(path)
    assert "\n" not in str(caught.value)


def test_names_are_numbered_in_alphabetical_order():
    numbers, names = numbered(["dog", "cat", "dog"])
    assert (numbers.tolist(), names) == ([1, 0, 1], ("cat", "dog"))
