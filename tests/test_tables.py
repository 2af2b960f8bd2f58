"""Files that are read in parts: tables of Arrow, arrays, folders and lists of them."""

import numpy as np
import pytest
from makers import limit, mixture, separated

from clusterfug import dense_multicut
from clusterfug.execution.sharded import source
from clusterfug.execution.sharded.source import Files, Stretch
from clusterfug.io import tables

pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, the extra [io]")
from pyarrow import feather, parquet  # noqa: E402


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(source, "LEAST", 8)


def vectors(X, kind):
    """A column of vectors, beside one that holds none."""
    if kind == "fixed":
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(X.ravel()), X.shape[1])
    else:
        types = {"list": pyarrow.list_, "large": pyarrow.large_list}
        column = pyarrow.array(list(X), types[kind](pyarrow.from_numpy_dtype(X.dtype)))
    return pyarrow.table({"name": [f"item {at}" for at in range(len(X))], "features": column})


def columns(X):
    return pyarrow.table({f"f{p}": X[:, p] for p in range(X.shape[1])})


def write_arrow(table, path, rows):
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)


KINDS = ("fixed", "list", "large", "columns")
WRITERS = {
    "one.parquet": lambda table, path: parquet.write_table(table, path),
    "groups.parquet": lambda table, path: parquet.write_table(table, path, row_group_size=7),
    "UPPER.PARQUET": lambda table, path: parquet.write_table(table, path, row_group_size=11),
    "one.arrow": lambda table, path: write_arrow(table, path, 10**6),
    "batches.arrow": lambda table, path: write_arrow(table, path, 7),
    "one.feather": lambda table, path: feather.write_feather(table, path),
    "chunks.feather": lambda table, path: feather.write_feather(table, path, chunksize=7),
    "plain.feather": lambda table, path: feather.write_feather(
        table, path, compression="uncompressed", chunksize=7
    ),
}


def made(X, kind):
    return columns(X) if kind == "columns" else vectors(X, kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_any_rows_of_a_table(rng, tmp_path, name, kind, dtype):
    X = (100 * rng.normal(size=(30, 3))).astype(dtype)
    WRITERS[name](made(X, kind), tmp_path / name)
    table = tables.Table(tmp_path / name)
    assert len(table) == 30
    np.testing.assert_array_equal(table.read(), X)
    for start in range(30):
        for stop in {start + 1, start + 7, 14, 30} & set(range(start + 1, 31)):
            found = table.read(start, stop)
            np.testing.assert_array_equal(found, X[start:stop])
            assert found.dtype == dtype


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".feather"])
def test_the_row_of_an_empty_cell_is_that_of_the_file(tmp_path, ending):
    write = WRITERS[
        {".parquet": "groups.parquet", ".arrow": "batches.arrow", ".feather": "chunks.feather"}[ending]
    ]
    path = tmp_path / f"x{ending}"
    write(pyarrow.table({"a": [1.0] * 25 + [None] + [2.0] * 4}), path)
    table = tables.Table(path)
    assert table.read(0, 25).shape == (25, 1)
    assert table.read(26, 30).shape == (4, 1)
    for start, stop in ((0, 30), (23, 30), (25, 26)):
        with pytest.raises(ValueError, match="column 'a' has an empty cell in row 25") as error:
            table.read(start, stop)
        assert str(path) in str(error.value)


def test_vectors_that_differ_in_length(tmp_path):
    path = tmp_path / "x.parquet"
    for lists in ([[1.0, 2.0], [1.0]], [[1.0], [1.0], [1.0, 2.0], []]):
        parquet.write_table(pyarrow.table({"v": lists}), path)
        with pytest.raises(ValueError, match=r"x\.parquet: the vectors in column 'v' differ in length"):
            tables.Table(path).read()
    parquet.write_table(pyarrow.table({"a": [[1, 2], [3, 4]], "features": [[1.0], [2.0]]}), path)
    np.testing.assert_array_equal(tables.Table(path).read(), [[1], [2]])


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".feather"])
@pytest.mark.parametrize("content", ["", "PAR1 no", "ARROW1 no", "cut"])
def test_a_broken_file_is_one_line_that_names_it(rng, tmp_path, ending, content):
    path = tmp_path / f"x{ending}"
    path.write_text(content)
    if content == "cut":
        WRITERS[f"one{ending}"](columns(rng.normal(size=(300, 3))), path)
        path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(ValueError, match=f"is not a readable {ending} file") as error:
        dense_multicut(path, memory_limit=1)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


# Files


def split(X, folder, endings, kind="fixed"):
    """Rows in files of different sizes."""
    folder.mkdir(exist_ok=True)
    ends = np.linspace(0, len(X), len(endings) + 1).astype(int) - np.arange(len(endings) + 1) % 2
    ends[-1], paths = len(X), []
    for at, ending in enumerate(endings):
        path, part = folder / f"part-{at:02}{ending}", X[max(0, ends[at]) : ends[at + 1]]
        if ending == ".npy":
            np.save(path, part)
        else:
            WRITERS[f"one{ending}"](made(part, kind), path)
        paths.append(path)
    return paths


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "endings", [[".npy"], [".parquet"] * 3, [".arrow"] * 2, [".feather", ".npy", ".parquet"]]
)
def test_files_are_clustered_like_the_array(rng, tmp_path, kind, endings):
    X, _ = mixture(rng, 50, 4, d=6, noise=1.0)
    X = X.astype(np.float32)
    paths = split(X, tmp_path / "x", endings, kind)
    (tmp_path / "x" / "about.txt").write_text("no features")
    expected = dense_multicut(X, 0.3, memory_limit=limit(13, 6))
    assert expected.trace[0].name == "shards"
    for where in (tmp_path / "x", str(tmp_path / "x"), paths, tuple(map(str, paths))):
        found = dense_multicut(where, 0.3, memory_limit=limit(13, 6))
        np.testing.assert_array_equal(found.labels, expected.labels)
        assert found.objective == pytest.approx(expected.objective)
        assert [phase.name for phase in found.trace] == [phase.name for phase in expected.trace]


@pytest.mark.parametrize(
    "costs",
    [
        {"alpha": 0.5},
        {"alpha": np.linspace(0.4, 0.7, 50)},
        {"alpha": 0.2, "prefer": "large"},
        {"sample_weight": np.arange(50) % 3},
        {"threshold": -0.1},
        {"init": np.arange(50) % 5},
        {"algorithm": "fast"},
    ],
    ids=str,
)
def test_files_have_costs_of_all_kinds(rng, tmp_path, costs):
    X, _ = separated(rng, 50, 4, d=6)
    split(X, tmp_path / "x", [".npy", ".parquet"])
    expected = dense_multicut(X, memory_limit=limit(13, 6), **costs)
    found = dense_multicut(tmp_path / "x", memory_limit=limit(13, 6), **costs)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert found.inside == pytest.approx(expected.inside)


def test_a_shard_of_files_may_have_no_weight(rng, tmp_path):
    X, _ = separated(rng, 50, 4, d=6)
    split(X, tmp_path / "x", [".npy", ".parquet"])
    weight = (np.arange(50) >= 20) * 1.0
    expected = dense_multicut(X, sample_weight=weight, memory_limit=limit(10, 6))
    found = dense_multicut(tmp_path / "x", sample_weight=weight, memory_limit=limit(10, 6))
    np.testing.assert_array_equal(found.labels, expected.labels)


def test_files_that_fit_are_read_at_once(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6, noise=1.0)
    split(X, tmp_path / "x", [".npy", ".parquet"])
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
        dense_multicut(tmp_path / "x", "local", memory_limit=limit(10, 6))


def test_stretches_know_their_files(rng, tmp_path):
    X = rng.normal(size=(4000, 2))
    a, b, c = paths = [tmp_path / name for name in ("a.npy", "b.npy", "c.npy")]
    for path, part in zip(paths, (slice(0, 1500), slice(1500, 1501), slice(1501, 4000)), strict=True):
        np.save(path, X[part])
    files = Files(tmp_path)
    assert (files.n, files.d, files.shape, files.paths) == (4000, 2, (4000, 2), paths)
    for (start, stop), pieces in (
        ((0, 1000), [(a, 0, 1000)]),
        ((100, 1500), [(a, 100, 1500)]),
        ((1400, 1501), [(a, 1400, 1500), (b, 0, 1)]),
        ((1400, 3000), [(a, 1400, 1500), (b, 0, 1), (c, 0, 1499)]),
        ((1501, 4000), [(c, 0, 2499)]),
    ):
        stretch = files.stretch(start, stop)
        assert stretch == Stretch(tuple(pieces), 2)
        np.testing.assert_array_equal(stretch.read(), X[start:stop])
    np.testing.assert_array_equal(files.read(), X)


def test_a_folder_is_read_by_names_and_a_list_as_it_is(tmp_path):
    for name, value in (("b.npy", 2.0), ("a.npy", 1.0), ("c.npy", 3.0)):
        np.save(tmp_path / name, np.full((2, 1), value))
    assert Files(tmp_path).read()[:, 0].tolist() == [1, 1, 2, 2, 3, 3]
    listed = Files([tmp_path / "c.npy", str(tmp_path / "a.npy")])
    assert listed.read()[:, 0].tolist() == [3, 3, 1, 1]


def test_paths_of_processes_elsewhere(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.eye(3))
    monkeypatch.chdir(tmp_path)
    files = Files(["a.npy"])
    there = files.absolute()
    assert there.paths == [tmp_path / "a.npy"]
    assert there.identity == files.identity


def test_labels_for_every_file(tmp_path):
    for name, rows in (("a.npy", 2), ("b.parquet", 3), ("c.arrow", 1)):
        if name == "a.npy":
            np.save(tmp_path / name, np.ones((rows, 2)))
        else:
            WRITERS[f"one.{name[2:]}"](columns(np.ones((rows, 2))), tmp_path / name)
    Files(tmp_path).write_labels(tmp_path / "labels", np.arange(6))
    found = {
        path.name: parquet.read_table(path)["label"].to_pylist() for path in (tmp_path / "labels").iterdir()
    }
    assert found == {"a.npy.parquet": [0, 1], "b.parquet": [2, 3, 4], "c.arrow.parquet": [5]}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "b.parquet", "c.arrow", "labels"]


def test_labels_of_two_files_do_not_meet(tmp_path):
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    parquet.write_table(columns(np.ones((3, 2))), tmp_path / "a.npy.parquet")
    with pytest.raises(ValueError, match=r"both be in a\.npy\.parquet: rename one of them"):
        Files(tmp_path).write_labels(tmp_path / "labels", np.arange(5))
    assert not (tmp_path / "labels").exists()


def broken(folder, what):
    """A folder of three files, the second of them not as it should be; which one the error is about."""
    rng = np.random.default_rng(0)
    paths = split(rng.normal(size=(30, 4)), folder, [".npy", ".parquet", ".npy"])
    second = paths[1]
    if what == "columns":
        parquet.write_table(vectors(rng.normal(size=(9, 5)), "fixed"), second)
    elif what == "text":
        parquet.write_table(pyarrow.table({"name": ["x", "y"]}), second)
    elif what == "empty":
        parquet.write_table(columns(np.empty((0, 4))), second)
    elif what == "cut":
        second.write_bytes(second.read_bytes()[:-20])
    elif what == "missing":
        second.unlink()
    elif what == "folder":
        second.unlink()
        second.mkdir()
    elif what in ("nan", "inf", "huge"):
        X = rng.normal(size=(9, 4))
        X[5, 2] = {"nan": np.nan, "inf": np.inf, "huge": 1e200}[what]
        parquet.write_table(vectors(X, "fixed"), second)
    elif what == "one row":
        second.unlink()
        second = paths[1] = second.with_suffix(".npy")
        np.save(second, np.ones(4))
    elif what == "no rows":
        second.unlink()
        second = paths[1] = second.with_suffix(".npy")
        np.save(second, np.empty((0, 4)))
    elif what == "pickle":
        second.unlink()
        second = paths[1] = second.with_suffix(".npy")
        np.save(second, np.array([{}, []], dtype=object), allow_pickle=True)
    elif what == "complex":
        second.unlink()
        second = paths[1] = second.with_suffix(".npy")
        np.save(second, np.ones((9, 4)) * 1j)
    elif what == "csv":
        second = paths[1] = second.with_suffix(".csv")
        second.write_text("1,2,3,4\n")
    return paths, second


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("columns", "has 5 columns, but"),
        ("text", "column 'name' holds string, not numbers"),
        ("empty", "holds no numbers"),
        ("cut", "is not a readable .parquet file"),
        ("missing", "does not exist"),
        ("folder", "is a folder, not a file"),
        ("nan", "is not finite: nan in row"),
        ("inf", "is not finite: inf in row"),
        ("huge", "is too large to square"),
        ("one row", "must be 2-D"),
        ("no rows", "has no rows"),
        ("pickle", "pickles are never loaded"),
        ("complex", "must hold real numbers"),
        ("csv", "cannot be read in parts"),
    ],
)
def test_a_file_among_others_that_is_wrong_is_named(tmp_path, what, message):
    paths, second = broken(tmp_path / "x", what)
    at_once = what not in ("nan", "inf", "huge", "complex")  # those are of one array then
    for memory_limit in (limit(8, 4), None) if at_once else (limit(8, 4),):
        with pytest.raises((ValueError, TypeError, OSError), match=message) as error:
            dense_multicut(paths, 0.3, memory_limit=memory_limit)
        assert second.name in str(error.value)
        assert "\n" not in str(error.value)


def test_the_row_that_is_not_finite_is_that_of_the_file(tmp_path):
    X = np.ones((30, 4))
    X[21, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match="in row 21, column 1"):
        dense_multicut(tmp_path / "x.npy", 0.3, memory_limit=limit(8, 4))


def test_vectors_longer_than_the_first_are_named(tmp_path):
    path = tmp_path / "x.parquet"
    lists = [[1.0, 2.0]] * 8 + [[1.0, 2.0, 3.0]] * 8
    parquet.write_table(pyarrow.table({"v": lists}), path, row_group_size=8)
    with pytest.raises(ValueError, match=r"x\.parquet"):
        dense_multicut(path, 0.3, memory_limit=limit(8, 2))


def test_a_file_that_goes_away_is_named(rng, tmp_path):
    X, _ = mixture(rng, 40, 4, d=6)
    paths = split(X, tmp_path / "x", [".npy", ".parquet"])

    def callback(phase, *_):
        if phase == "moves":
            paths[1].unlink(missing_ok=True)

    with pytest.raises(FileNotFoundError, match=r"part-01\.parquet does not exist") as error:
        dense_multicut(tmp_path / "x", 0.3, memory_limit=limit(9, 6), callback=callback)
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
def test_what_is_no_file_of_features(tmp_path, monkeypatch, where, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.csv").write_text("1,2\n")
    with pytest.raises((ValueError, OSError), match=message) as error:
        dense_multicut(where, 0.3)
    assert "\n" not in str(error.value)


def test_a_bound_of_files_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(20))
    with pytest.raises(ValueError, match="shards have no bound: leave it out"):
        dense_multicut(tmp_path / "x.npy", 0.3, memory_limit=1, bound=True)


def test_hidden_files_are_not_features(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    (tmp_path / ".x.npy.abc.npy").touch()
    assert Files(tmp_path).paths == [tmp_path / "x.npy"]
