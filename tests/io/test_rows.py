"""Rows of numbers after a heading, and fields of tables."""

import numpy as np
import pytest

from clusterfug.io.rows import Rows, read_fields


@pytest.mark.parametrize(
    "text", ["0 1\n2 3\n", "a b\n0 1\n2 3\n", "# c\n\nx,y\n0, 1\n2,3\n", "0\t1\r\n2\t3"]
)
def test_rows_after_a_heading(tmp_path, text):
    path = tmp_path / "t.txt"
    path.write_text(text, newline="")
    rows = Rows(path, "#%").after_heading()
    np.testing.assert_array_equal(rows.table(2), [[0, 1], [2, 3]])
    assert rows.line(1) == len(text.splitlines())


@pytest.mark.parametrize("text", ["", "a b\n", "# nothing\n"])
def test_no_rows(tmp_path, text):
    (tmp_path / "t.txt").write_text(text)
    assert Rows(tmp_path / "t.txt", "#%").after_heading().table(2).shape == (0, 2)


@pytest.mark.parametrize(
    ("ending", "text", "fields"),
    [
        (".csv", 'a, b\n"c, d",\n\n', [["a", "b"], ["c, d", ""], []]),
        (".tsv", "a\tb, c\n", [["a", "b, c"]]),
        (".txt", "a, b\n\n c\n", [["a, b"], [""], ["c"]]),
        (".CSV", "a,b\n", [["a", "b"]]),
    ],
)
def test_fields_of_a_table(tmp_path, ending, text, fields):
    path = tmp_path / f"t{ending}"
    path.write_text(text)
    assert read_fields(path) == fields
