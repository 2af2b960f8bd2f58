"""Features in files that are read in parts: arrays, tables, folders and lists of them."""

import numpy as np
import pytest
from makers import memory_for, mixture, separated, table_of, write_in_parts, write_table

from clusterfug import dense_multicut
from clusterfug.execution.sharded import source
from clusterfug.execution.sharded.source import FeatureFiles, FileRows

pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, the extra [io]")
from pyarrow import parquet  # noqa: E402


def test_the_memory_limit_gives_the_number_of_items():
    assert source.max_items(16, None) == source.MAX_SHARD_ITEMS
    assert source.max_items(16, memory_for(100, 16)) == 100
    assert source.max_items(16, memory_for(100, 16) - 1) == 99
    assert source.max_items(16, 1) == 8
    assert source.max_items(16, memory_for(10**8, 16)) == source.MAX_SHARD_ITEMS


# The same results as with an array


@pytest.mark.parametrize(
    ("kind", "endings"),
    [
        ("fixed", [".npy"]),
        ("fixed", [".parquet"] * 3),
        ("list", [".arrow"] * 2),
        ("large", [".feather", ".npy", ".parquet"]),
        ("columns", [".feather", ".npy", ".parquet"]),
    ],
)
def test_files_are_clustered_like_the_array(rng, tmp_path, kind, endings):
    X, _ = mixture(rng, 50, 4, d=6, noise=1.0)
    X = X.astype(np.float32)
    paths = write_in_parts(X, tmp_path / "x", endings, kind)
    (tmp_path / "x" / "about.txt").write_text("no features")
    expected = dense_multicut(X, 0.3, memory_limit=memory_for(13, 6))
    assert expected.trace[0].name == "shards"
    for where in (tmp_path / "x", str(tmp_path / "x"), paths, tuple(map(str, paths))):
        found = dense_multicut(where, 0.3, memory_limit=memory_for(13, 6))
        np.testing.assert_array_equal(found.labels, expected.labels)
        assert found.objective == pytest.approx(expected.objective)
        assert [phase.name for phase in found.trace] == [phase.name for phase in expected.trace]


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0.5},
        {"alpha": np.linspace(0.4, 0.7, 50)},
        {"alpha": 0.2, "prefer": "large"},
        {"threshold": 0.4, "sample_weight": np.arange(50) % 3},
        {"threshold": 0.4, "sample_weight": (np.arange(50) >= 20) * 1.0},  # none in the first shard
        {"threshold": -0.1},
        {"threshold": 0.4, "init": np.arange(50) % 5},
        {"threshold": 0.4, "algorithm": "fast", "metric": "inner_product"},
        {"threshold": 0.2, "center": True},
    ],
    ids=str,
)
def test_files_are_clustered_with_options_of_all_kinds(rng, tmp_path, options):
    X, _ = separated(rng, 50, 4, d=6)
    write_in_parts(X, tmp_path / "x", [".npy", ".parquet"])
    expected = dense_multicut(X, memory_limit=memory_for(13, 6), **options)
    found = dense_multicut(tmp_path / "x", memory_limit=memory_for(13, 6), **options)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert found.inside == pytest.approx(expected.inside)


def test_files_within_the_memory_limit_are_read_at_once(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6, noise=1.0)
    write_in_parts(X, tmp_path / "x", [".npy", ".parquet"])
    expected = dense_multicut(X, 0.3)
    for options in ({}, {"memory_limit": "1GB"}):
        found = dense_multicut(tmp_path / "x", 0.3, **options)
        assert found.trace[0].name == "multilevel"
        np.testing.assert_array_equal(found.labels, expected.labels)
    found = dense_multicut(tmp_path / "x", 0.3, algorithm="best", max_iter=1, memory_limit=1)
    assert found.algorithm == "best"
    local = dense_multicut(tmp_path / "x", "local")
    np.testing.assert_array_equal(local.labels, dense_multicut(X, "local").labels)
    with pytest.raises(ValueError, match="a local threshold looks at the neighbours of all items"):
        dense_multicut(tmp_path / "x", "local", memory_limit=memory_for(10, 6))


# Rows and labels of several files


def test_rows_are_those_of_the_files_in_sequence(rng, tmp_path):
    X = rng.normal(size=(400, 2))
    a, b, c = paths = [tmp_path / name for name in ("a.npy", "b.npy", "c.npy")]
    for path, part in zip(paths, (slice(0, 150), slice(150, 151), slice(151, 400)), strict=True):
        np.save(path, X[part])
    files = FeatureFiles(tmp_path)
    assert (files.n, files.d, files.shape, files.paths) == (400, 2, (400, 2), paths)
    for (start, stop), pieces in (
        ((0, 100), [(a, 0, 100)]),
        ((10, 150), [(a, 10, 150)]),
        ((140, 151), [(a, 140, 150), (b, 0, 1)]),
        ((140, 300), [(a, 140, 150), (b, 0, 1), (c, 0, 149)]),
        ((151, 400), [(c, 0, 249)]),
    ):
        rows = files[start:stop]
        assert rows == FileRows(tuple(pieces), 2)
        np.testing.assert_array_equal(rows.read(), X[start:stop])
    np.testing.assert_array_equal(files.read(), X)


def test_a_folder_is_read_by_name_and_a_list_in_its_order(tmp_path):
    for name, value in (("b.npy", 2.0), ("a.npy", 1.0), ("c.npy", 3.0)):
        np.save(tmp_path / name, np.full((2, 1), value))
    (tmp_path / ".x.npy.abc.npy").touch()  # hidden files are ignored
    assert FeatureFiles(tmp_path).read()[:, 0].tolist() == [1, 1, 2, 2, 3, 3]
    listed = FeatureFiles([tmp_path / "c.npy", str(tmp_path / "a.npy")])
    assert listed.read()[:, 0].tolist() == [3, 3, 1, 1]


def test_absolute_paths_are_the_same_files(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.eye(3))
    monkeypatch.chdir(tmp_path)
    files = FeatureFiles(["a.npy"])
    absolute = files.absolute()
    assert absolute.paths == [tmp_path / "a.npy"]
    assert absolute.identity == files.identity


def test_labels_are_written_for_every_file(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    for name, rows in (("b.parquet", 3), ("c.arrow", 1)):
        write_table(table_of(np.ones((rows, 2)), "columns"), tmp_path / name)
    FeatureFiles(tmp_path).write_labels(tmp_path / "labels", np.arange(6))
    found = {
        path.name: parquet.read_table(path)["label"].to_pylist() for path in (tmp_path / "labels").iterdir()
    }
    assert found == {"a.npy.parquet": [0, 1], "b.parquet": [2, 3, 4], "c.arrow.parquet": [5]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "b.parquet", "c.arrow", "labels"]


def test_equal_names_of_label_files_are_an_error(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    write_table(table_of(np.ones((3, 2)), "columns"), tmp_path / "a.npy.parquet")
    with pytest.raises(ValueError, match=r"both be in a\.npy\.parquet: rename one of them"):
        FeatureFiles(tmp_path).write_labels(tmp_path / "labels", np.arange(5))
    assert not (tmp_path / "labels").exists()


# Errors


def break_second_file(paths, how):
    """Replace the second of three files by one that is wrong; returns its path."""
    rng = np.random.default_rng(0)
    path = paths[1]
    tables = {
        "columns": lambda: table_of(rng.normal(size=(9, 5)), "fixed"),
        "text": lambda: pyarrow.table({"name": ["x", "y"]}),
        "empty": lambda: table_of(np.empty((0, 4)), "columns"),
    }
    numbers = {"nan": np.nan, "inf": np.inf, "huge": 1e200}
    arrays = {
        "one row": np.ones(4),
        "no rows": np.empty((0, 4)),
        "pickle": np.array([{}, []], dtype=object),
        "complex": np.ones((9, 4)) * 1j,
    }
    if how in tables:
        write_table(tables[how](), path)
    elif how in numbers:
        X = rng.normal(size=(9, 4))
        X[5, 2] = numbers[how]
        write_table(table_of(X, "fixed"), path)
    elif how == "cut":
        path.write_bytes(path.read_bytes()[:-20])
    elif how == "csv":
        paths[1] = path.with_suffix(".csv")
        paths[1].write_text("1,2,3,4\n")
    else:
        path.unlink()
        if how == "folder":
            path.mkdir()
        elif how in arrays:
            paths[1] = path.with_suffix(".npy")
            np.save(paths[1], arrays[how], allow_pickle=True)
    return paths[1]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("columns", "has 5 columns, but"),
        ("text", "column 'name' holds string, not numbers"),
        ("empty", "holds no numbers"),
        ("cut", "is broken"),
        ("missing", "does not exist"),
        ("folder", "is a folder, not a file"),
        ("nan", "is not finite: NaN in row"),
        ("inf", "is not finite: inf in row"),
        ("huge", "is too large to square"),
        ("one row", "must be 2-D"),
        ("no rows", "has no rows"),
        ("pickle", "pickles are never loaded"),
        ("complex", "must hold real numbers"),
        ("csv", "cannot be read in parts"),
    ],
)
def test_a_wrong_file_among_others_is_named(tmp_path, how, message):
    X = np.random.default_rng(0).normal(size=(30, 4))
    paths = write_in_parts(X, tmp_path / "x", [".npy", ".parquet", ".npy"])
    path = break_second_file(paths, how)
    for memory_limit in (memory_for(8, 4), None):
        with pytest.raises((ValueError, TypeError, OSError), match=message) as error:
            dense_multicut(paths, 0.3, memory_limit=memory_limit)
        assert path.name in str(error.value)
        assert "\n" not in str(error.value)


def test_the_row_that_is_not_finite_is_that_of_the_file(tmp_path):
    X = np.ones((30, 4))
    X[21, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match="in row 21, column 1"):
        dense_multicut(tmp_path / "x.npy", 0.3, memory_limit=memory_for(8, 4))


def test_a_file_with_longer_vectors_later_is_named(tmp_path):
    path = tmp_path / "x.parquet"
    lists = [[1.0, 2.0]] * 8 + [[1.0, 2.0, 3.0]] * 8
    write_table(pyarrow.table({"v": lists}), path, rows=8)
    with pytest.raises(ValueError, match=r"x\.parquet"):
        dense_multicut(path, 0.3, memory_limit=memory_for(8, 2))


def test_a_file_that_is_removed_during_the_run_is_named(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6)
    paths = write_in_parts(X, tmp_path / "x", [".npy", ".parquet"])

    def remove(phase, *_):
        if phase == "moves":
            paths[1].unlink(missing_ok=True)

    with pytest.raises(FileNotFoundError, match=r"part-01\.parquet does not exist") as error:
        dense_multicut(tmp_path / "x", 0.3, memory_limit=memory_for(9, 6), callback=remove)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nothing.npy", "nothing.npy does not exist"),
        ("empty", "empty is a folder without any .npy, .parquet, .arrow, .feather file"),
        ("x.csv", r"x.csv cannot be read in parts: use .npy, .parquet, .arrow, .feather"),
        (["empty"], "empty is a folder, not a file"),
    ],
)
def test_a_path_without_features_is_named(tmp_path, monkeypatch, where, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.csv").write_text("1,2\n")
    with pytest.raises((ValueError, OSError), match=message) as error:
        dense_multicut(where, 0.3)
    assert "\n" not in str(error.value)


def test_a_bound_of_shards_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(20))
    with pytest.raises(ValueError, match="shards have no bound: leave it out"):
        dense_multicut(tmp_path / "x.npy", 0.3, memory_limit=1, bound=True)
