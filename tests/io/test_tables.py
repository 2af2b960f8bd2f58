"""Tables in Parquet, Arrow and Feather files: any rows of them, and errors that name the file."""

from types import SimpleNamespace

import numpy as np
import pytest
from makers import table_of, write_table

from clusterfug import dense_multicut
from clusterfug.io import tables

pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, the extra [io]")
pytest.importorskip("pyarrow.feather")

ENDINGS = (".parquet", ".arrow", ".feather")
#: How to write a file of each name.
OPTIONS = {
    "one.parquet": {},
    "groups.parquet": {"rows": 7},
    "UPPER.PARQUET": {"rows": 11},
    "one.arrow": {},
    "batches.arrow": {"rows": 7},
    "one.feather": {},
    "chunks.feather": {"rows": 7},
    "plain.feather": {"rows": 7, "compression": "uncompressed"},
}


@pytest.mark.parametrize("kind", ["fixed", "list", "large", "columns"])
@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_any_rows_of_a_table_are_read(rng, tmp_path, name, kind, dtype):
    X = (100 * rng.normal(size=(30, 3))).astype(dtype)
    write_table(table_of(X, kind), tmp_path / name, **OPTIONS[name])
    table = tables.Table(tmp_path / name)
    assert len(table) == 30
    np.testing.assert_array_equal(table.read(), X)
    for start in range(30):
        for stop in {start + 1, start + 7, 14, 30} & set(range(start + 1, 31)):
            found = table.read(start, stop)
            np.testing.assert_array_equal(found, X[start:stop])
            assert found.dtype == dtype


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_row_of_an_empty_cell_is_that_of_the_file(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    write_table(pyarrow.table({"a": [1.0] * 25 + [None] + [2.0] * 4}), path, rows=7)
    table = tables.Table(path)
    assert table.read(0, 25).shape == (25, 1)
    assert table.read(26, 30).shape == (4, 1)
    for start, stop in ((0, 30), (23, 30), (25, 26)):
        with pytest.raises(ValueError, match="column 'a' has an empty cell in row 25") as error:
            table.read(start, stop)
        assert str(path) in str(error.value)


def test_vectors_of_different_lengths_are_an_error(tmp_path):
    path = tmp_path / "x.parquet"
    for lists in ([[1.0, 2.0], [1.0]], [[1.0], [1.0], [1.0, 2.0], []]):
        write_table(pyarrow.table({"v": lists}), path)
        with pytest.raises(ValueError, match=r"x\.parquet: the vectors in column 'v' differ in length"):
            tables.Table(path).read()


def test_a_column_named_features_is_preferred(tmp_path):
    path = tmp_path / "x.parquet"
    write_table(pyarrow.table({"a": [[1, 2], [3, 4]], "features": [[1.0], [2.0]]}), path)
    np.testing.assert_array_equal(tables.Table(path).read(), [[1], [2]])


def test_an_arrow_file_whose_buffers_are_elsewhere_is_not_read_beyond_its_end(rng, tmp_path):
    """Without a check of the batches, reading such a file ends the process."""
    path = tmp_path / "x.feather"
    table = table_of(rng.normal(size=(6, 3)).astype(np.float32), "columns")
    pyarrow.feather.write_feather(table, path, compression="uncompressed")
    whole = path.read_bytes()
    messages = []
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + b"\x01" * 7 + whole[at:])
        try:
            assert tables.Table(path).read().shape == (6, 3)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > len(whole) / 6  # the others are read as other numbers
    assert all(text.startswith(f"{path} is broken: ") and "\n" not in text for text in messages)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("content", ["", "PAR1 no", "ARROW1 no", "cut"])
def test_a_broken_file_is_named_in_one_line(rng, tmp_path, ending, content):
    path = tmp_path / f"x{ending}"
    path.write_text(content)
    if content == "cut":
        write_table(table_of(rng.normal(size=(300, 3)), "columns"), path)
        path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match="is broken") as error:
        dense_multicut(path, 0.4, memory_limit=1)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ending", ENDINGS)
def test_columns_of_the_same_name_are_named(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    write_table(pyarrow.Table.from_arrays([pyarrow.array([1.0])] * 3, ["a", "b", "a"]), path)
    with pytest.raises(ValueError, match=r"x\.\w+ has several columns named 'a': rename or remove"):
        tables.Table(path)


@pytest.mark.parametrize("ending", [".arrow", ".feather"])
def test_damaged_names_of_columns_are_named(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    write_table(pyarrow.table({"column": [1.0, 2.0]}), path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace(b"column", b"\xfe\xff\xfe\xff\xfe\xff"))
    with pytest.raises(ValueError, match=r"x\.\w+ is broken: damaged, cut short, or not a \.\w+ file"):
        tables.Table(path)


def test_damaged_groups_of_rows_are_named(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    write_table(pyarrow.table({"a": [1.0, 2.0]}), path)
    table = tables.Table(path)
    monkeypatch.setattr(tables.Table, "_batches", lambda *_: iter(()))
    with pytest.raises(ValueError, match=r"x\.parquet is broken: damaged, cut short"):
        table.read()
    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "num_row_groups", 1)
    group = SimpleNamespace(num_rows=-3)
    metadata = SimpleNamespace(row_group=lambda _: group)
    monkeypatch.setattr(pyarrow.parquet.ParquetFile, "metadata", metadata)
    with pytest.raises(ValueError, match=r"x\.parquet is broken: damaged, cut short"):
        tables.Table(path)
