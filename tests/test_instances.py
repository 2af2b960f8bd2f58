"""Files: what is written is read back to the same bits, and broken files are named in one line."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from clusterfug.io.classes import read_classes
from clusterfug.io.files import (
    Features,
    check_writable,
    read,
    read_column,
    read_labels,
    write_instance,
    write_labels,
)
from clusterfug.problems.graph import GraphProblem

ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".csv", ".parquet", ".txt")
FINITE = {"allow_nan": False, "allow_infinity": False}


@given(X=arrays(np.float32, (3, 2), elements=st.floats(width=32, **FINITE)))
def test_float32_survives_every_format_bit_by_bit(X, tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    for ending in ENDINGS:
        path = folder / f"x{ending}"
        write_instance(path, Features(X), 0.25)
        back = read(path)
        assert back.array.dtype == np.float32
        assert back.array.tobytes() == X.tobytes()
        assert back.threshold == (0.25 if ending == ".txt" else None)
        assert back.metric == ("inner_product" if ending == ".txt" else "cosine")
        assert [file.name for file in folder.iterdir() if file.name.startswith(".")] == []


@given(X=arrays(np.float64, (2, 3), elements=st.floats(-1e300, 1e300)))
def test_float64_survives_when_asked_for(X, tmp_path_factory):
    folder = tmp_path_factory.mktemp("formats")
    for ending in ENDINGS:
        path = folder / f"x{ending}"
        write_instance(path, Features(X), 0.1)
        assert read(path, np.float64).array.tobytes() == X.tobytes()


def test_graphs_survive_both_formats(tmp_path, rng):
    edges = np.argwhere(np.triu(rng.random((9, 9)) < 0.5, 1))
    graph = GraphProblem(edges, rng.normal(size=len(edges)))
    for ending in (".txt", ".npz", ".NPZ"):
        write_instance(tmp_path / f"g{ending}", graph, 0.0)
        back = read(tmp_path / f"g{ending}")
        np.testing.assert_array_equal(back.edges, graph.edges)
        np.testing.assert_array_equal(back.costs, graph.costs)


def test_the_formats_by_hand(tmp_path):
    path = tmp_path / "instance"  # published files have no particular ending
    path.write_text("FACTORIZED COMPLETE MULTICUT\n0.4\n2 3\n1 2 3\n4 5.5 -6e-1\n\n")
    features = read(path)
    np.testing.assert_array_equal(features.array, np.array([[1, 2, 3], [4, 5.5, -0.6]], dtype=np.float32))
    assert features.threshold == 0.4
    path.write_text("MULTICUT\n0 1 2.5\n2 1 -1\n1 0 1\n")
    graph = read(path)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.costs.tolist() == [3.5, -1.0]


def test_csv_with_and_without_header(tmp_path):
    path = tmp_path / "x.csv"
    for text in ("1,2\n3,4\n", "height,width\n1,2\n3,4\n", "0,1\n1,2\n3,4\n", "\ufeff1,2\r\n3,4\r\n"):
        path.write_text(text)
        np.testing.assert_array_equal(read(path).array, [[1, 2], [3, 4]])


def test_npz_by_name_or_shape(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, features=np.eye(2), other=np.eye(3))
    np.testing.assert_array_equal(read(path).array, np.eye(2))
    np.savez(path, labels=np.arange(3), X=np.eye(3))
    np.testing.assert_array_equal(read(path).array, np.eye(3))
    sparse.save_npz(path, sparse.csr_array([[0, 2.0], [0, 0]]))
    assert read(path).costs.tolist() == [2.0]


def test_npy_is_memory_mapped(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    assert isinstance(read(tmp_path / "x.npy").array, np.memmap)


def test_parquet_columns_and_vectors(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"a": [1, 2], "b": [0.5, 1.5]}), path)
    np.testing.assert_array_equal(read(path).array, [[1, 0.5], [2, 1.5]])
    parquet.write_table(pyarrow.table({"id": ["x", "y"], "v": [[1.0, 2.0], [3.0, 4.0]]}), path)
    np.testing.assert_array_equal(read(path).array, [[1, 2], [3, 4]])
    parquet.write_table(pyarrow.table({"v": [[1.0], [3.0]], "name": ["x", None]}), path)
    np.testing.assert_array_equal(read(path).array, [[1], [3]])
    parquet.write_table(pyarrow.table({"a": [1.0], "__index_level_0__": [7]}), path)
    np.testing.assert_array_equal(read(path).array, [[1]])
    for table, message in (
        ({"v": pyarrow.array([], pyarrow.list_(pyarrow.float32()))}, "holds no numbers"),
        ({"v": [[1.0], [1.0, 2.0]]}, "differ in length"),
        ({"a": [1.0, None]}, "column 'a' has an empty cell in row 1"),
        ({"a": [1.0, 2.0], "name": ["x", "y"]}, "column 'name' holds string, not numbers"),
    ):
        parquet.write_table(pyarrow.table(table), path)
        with pytest.raises(ValueError, match=message):
            read(path)
    path.write_bytes(b"PAR1 no")
    with pytest.raises(ValueError, match="not a readable"):
        read(path)


def test_hdf5_by_name_or_shape(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"

    def write(**datasets):
        with h5py.File(path, "w") as file:
            for name, array in datasets.items():
                file[name.replace("__", "/")] = array

    write(features=np.eye(2), other=np.eye(3))
    np.testing.assert_array_equal(read(path).array, np.eye(2))
    write(labels=np.arange(3), train__deep__X=np.eye(3, dtype=np.float16))
    assert read(path).array.dtype == np.float16
    np.testing.assert_array_equal(read(path).array, np.eye(3))
    for content, held in (
        ({"a": np.eye(2), "b__c": np.eye(2)}, "a, b/c"),
        ({"labels": np.arange(3)}, "labels"),
        ({}, "nothing"),
    ):
        write(**content)
        with pytest.raises(ValueError, match=f"or exactly one 2-D dataset; it holds {held}$"):
            read(path)


def test_hdf5_does_not_follow_links_to_other_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    write_instance(tmp_path / "other.h5", Features(np.eye(2)), 0.0)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["features"] = h5py.ExternalLink("other.h5", "/features")
    with pytest.raises(ValueError, match="it holds nothing"):
        read(tmp_path / "x.h5")


def test_a_missing_extra_is_found_out_first(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'clusterfug\[io\]'"):
        check_writable(tmp_path / "x.h5", (".h5",))


def test_broken_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    path.write_text("not HDF5")
    with pytest.raises(ValueError, match=r"x\.h5 is not an HDF5 file"):
        read(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=np.arange(1e4).reshape(100, 100), compression="gzip")
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2 : -100] = bytes(len(damaged[len(whole) // 2 : -100]))
    for content in (whole[: len(whole) // 2], whole[:100], damaged):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.h5 is broken: ") as caught:
            read(path)
        assert "\n" not in str(caught.value)


HEAD = "FACTORIZED COMPLETE MULTICUT\n0.4\n2 2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FACTORIZED COMPLETE MULTICUT\n", "line 2: expected the number to subtract, found ''"),
        ("FACTORIZED COMPLETE MULTICUT\nx\n2 2\n", "line 2: expected the number to subtract, found 'x'"),
        ("FACTORIZED COMPLETE MULTICUT\n0.4\n2\n", "line 3: expected the two sizes n and d, found '2'"),
        ("FACTORIZED COMPLETE MULTICUT\n0.4\n2 2.5\n", "line 3: expected the two sizes"),
        ("FACTORIZED COMPLETE MULTICUT\n0.4\n0 2\n", "line 3: n and d must be at least 1, not 0 and 2"),
        (HEAD + "1 2\n", "ends after line 4: 1 of the 2 rows that line 3 announces"),
        (HEAD, "ends after line 3: 0 of the 2 rows"),
        (HEAD + "1 2\n3 4\n5 6\n", "line 6: more than the 2 rows that line 3 announces"),
        (HEAD + "1 2\n3\n", "line 5: 1 numbers where 2 are expected"),
        (HEAD + "1 2 3\n3 4 5\n", "line 4: 3 numbers where 2 are expected"),
        (HEAD + "1 2\n3 four\n", "line 5: 'four' is not a number"),
        (HEAD + "1 2\n3 1_0\n", "line 5: '1_0' is not a number"),
        ("MULTICUT\n0 1\n", "line 2: 2 numbers where 3 are expected"),
        ("MULTICUT\n0 1 x\n", "line 2: 'x' is not a number"),
        ("MULTICUT\n0 1 1\n0 1.5 1\n", "edge 2: nodes are whole numbers from 0, not 0 1.5"),
        ("MULTICUT\n0 -1 1\n", "edge 1: nodes are whole numbers"),
        ("MULTICUT\n", "holds no numbers"),
        ("something else", "not a format known here"),
        ("", "not a format known here"),
    ],
)
def test_broken_text_is_named_by_line(tmp_path, text, message):
    assert_fault_is_named(tmp_path / "x.txt", text, message)


def assert_fault_is_named(path, text, message):
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n3\n", "line 2: 1 numbers where 2 are expected"),
        ("a,b\n1,2\n3,x\n", "line 3: 'x' is not a number"),
        ("1,2\n3,\n", "line 2: '' is not a number"),
        ("1,\n3,4\n", "line 1: '' is not a number"),
        ("1,NA\n3,4\n", "line 1: 'NA' is not a number"),
        ("a,b\n", "holds no numbers"),
        ("", "holds no numbers"),
    ],
)
def test_broken_csv_is_named_by_line(tmp_path, text, message):
    assert_fault_is_named(tmp_path / "x.csv", text, message)


def test_broken_numpy_files(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.array([{"a": 1}, None]), allow_pickle=True)
    with pytest.raises(ValueError, match="pickles are never loaded"):
        read(path)
    np.save(path, np.eye(10))
    whole = path.read_bytes()
    huge = whole.replace(b"(10, 10)", b"(10**9,)")
    for content in (
        whole[:300],
        whole[:20],
        whole.replace(b"'shape'", b"'shape("),
        huge,
        b"",
        b"not numpy",
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.npy is (broken|not a \.npy file)") as caught:
            read(path)
        assert "\n" not in str(caught.value)
    path = tmp_path / "x.npz"
    np.savez(path, a=np.eye(2), b=np.eye(2))
    with pytest.raises(ValueError, match="exactly one 2-D array; it holds a, b"):
        read(path)
    for broken in (
        {"format": 3, "shape": [2, 2], "data": [1.0]},
        {"format": "csr", "shape": [2, 2], "data": [1.0]},
    ):
        np.savez(path, **{name: np.asarray(array) for name, array in broken.items()})
        with pytest.raises(ValueError, match=r"x\.npz is broken"):
            read(path)
    np.savez_compressed(path, features=np.arange(10000.0).reshape(100, 100))
    damaged = bytearray(path.read_bytes())
    damaged[200:400] = bytes(200)
    for content in (damaged, b"PK\x03\x04 broken", whole):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.npz is (broken|not a \.npz file)"):
            read(path)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read(tmp_path / "x.npy")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read(tmp_path)


def test_labels_in_every_format(tmp_path):
    labels = np.array([0, 1, 0, 2])
    write_labels(tmp_path / "l.npy", labels)
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), labels)
    write_labels(tmp_path / "l.csv", labels)
    assert (tmp_path / "l.csv").read_text() == "label\n0\n1\n0\n2\n"
    np.testing.assert_array_equal(read_column(tmp_path / "l.csv"), labels)
    write_labels(tmp_path / "l.parquet", labels)
    np.testing.assert_array_equal(read(tmp_path / "l.parquet").array[:, 0], labels)
    np.save(tmp_path / "m.npy", np.eye(2))
    with pytest.raises(ValueError, match="one number per item"):
        read_column(tmp_path / "m.npy")


def test_labels_from_lines_of_text(tmp_path):
    path = tmp_path / "l.txt"
    for lines in ("0\n1\n-1\n", "label\n0\n1\n-1\n", "0\r\n1\r\n-1"):
        path.write_text(lines)
        assert read_labels(path).tolist() == [0, 1, -1]
        assert read_classes(path).tolist() == [0, 1, -1]
    for lines, message in (
        ("0\n0.5\n", "whole numbers: 0.5 is no label"),
        ("0\nnan\n", "whole numbers: nan is no label"),
        ("0\n1e17\n", "1e[+]17 is no label"),
        ("0\ncat\n", "line 2: 'cat' is not a number"),
        ("0\n0 1\n", "line 2: '0 1' is not a number"),
    ):
        path.write_text(lines)
        with pytest.raises(ValueError, match=message):
            read_labels(path)
    np.save(tmp_path / "l.npy", ["cat", "dog"])
    with pytest.raises(ValueError, match="must hold whole numbers, not <U3"):
        read_labels(tmp_path / "l.npy")


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


def test_unwritable_outputs_are_found_out_first(tmp_path):
    with pytest.raises(ValueError, match=r"must end in \.npy, \.csv"):
        check_writable(tmp_path / "x.doc", (".npy", ".csv"))
    with pytest.raises(OSError, match=r"the folder .* does not exist"):
        check_writable(tmp_path / "no" / "x.npy", (".npy",))
    (tmp_path / "x.npy").mkdir()
    with pytest.raises(OSError, match="it is a folder"):
        check_writable(tmp_path / "x.npy", (".npy",))
    with pytest.raises(OSError, match=r"cannot write .*x\.npy"):
        check_writable(type(tmp_path)("/proc/x.npy"), (".npy",))


def test_whole_numbers_survive_as_text(tmp_path):
    X = np.array([[404551839821528, -7]])
    write_instance(tmp_path / "x.csv", Features(X), 0.0)
    np.testing.assert_array_equal(read(tmp_path / "x.csv", np.float64).array, X)


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("disk full")

    (tmp_path / "l.npy").write_bytes(b"before")
    monkeypatch.setattr("clusterfug.io.files.save", fail)
    with pytest.raises(OSError, match="disk full"):
        write_labels(tmp_path / "l.npy", np.arange(3))
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("l.npy", b"before")]
