"""Files: what is written is read back to the same bits, and broken files are named in one line."""

import io
import os
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from clusterfug.io.files import (
    Features,
    check_writable,
    complete,
    read,
    read_archive,
    read_features,
    write_instance,
)
from clusterfug.problems.graph import GraphProblem

ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".csv", ".parquet", ".txt")
FINITE = {"allow_nan": False, "allow_infinity": False}


@settings(max_examples=30)
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


@settings(max_examples=30)
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


def test_a_graph_is_not_read_as_features(tmp_path):
    (tmp_path / "g.txt").write_text("MULTICUT\n0 1 1\n")
    with pytest.raises(ValueError, match=r"g\.txt holds a graph, not features"):
        read_features(tmp_path / "g.txt")
    np.save(tmp_path / "x.npy", np.eye(2))
    np.testing.assert_array_equal(read_features(tmp_path / "x.npy").array, np.eye(2))


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
    with pytest.raises(ValueError, match="is broken"):
        read(path)


def test_a_missing_extra_is_found_out_first(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(ImportError, match=r"pip install 'clusterfug\[io\]'"):
        check_writable(tmp_path / "x.h5", (".h5",))


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
def test_broken_csv_is_named_by_line(assert_fault_is_named, text, message):
    assert_fault_is_named("x.csv", text, message)


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


def test_a_graph_whose_nodes_are_numbered_with_gaps_takes_no_memory(tmp_path):
    message = r" has 2 edges and names node {}: nodes are numbered 0, 1, \.\.\."
    path = tmp_path / "g.txt"
    path.write_text("MULTICUT\n0 1 2\n1 300000000 -1\n")
    with pytest.raises(ValueError, match=r"g\.txt" + message.format(300000000)):
        read(path)
    path.write_text("MULTICUT\n0 1 2\n1 1000000 -1\n")
    assert read(path).n == 1_000_001
    for n in (10**12, 2**62):
        matrix = sparse.coo_array(([1.0, 2.0], ([0, 1], [1, 2])), shape=(n, n))
        sparse.save_npz(tmp_path / "g.npz", matrix)
        with pytest.raises(ValueError, match=r"g\.npz" + message.format(n - 1)):
            read(tmp_path / "g.npz")


def test_what_is_no_regular_file_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=r"x\.csv is not a regular file: write it to a file first"):
        read(tmp_path / "x.csv")


def test_other_members_of_an_archive_are_not_read(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, features=np.eye(2), names=np.array([{"a": 1}, None]))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("README.txt", "about these features")
    np.testing.assert_array_equal(read(path).array, np.eye(2))
    assert list(read_archive(path, ("features", "README.txt"))) == ["features"]


def test_names_of_fields_in_an_archive_may_be_unicode(tmp_path):
    path = tmp_path / "x.npz"
    content = io.BytesIO()
    np.lib.format.write_array(content, np.zeros(2, [("\u03b1", "f4")]), version=(3, 0))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("v3.npy", content.getvalue())
    assert read_archive(path)["v3"].dtype.names == ("\u03b1",)


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': x, 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,",
        "{'descr': 5, 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': 2}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}" + " " * 20_000,
    ],
)
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_errors_repeat_nothing_of_a_damaged_header(tmp_path, header, ending):
    path = tmp_path / f"x{ending}"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(16)
    if ending == ".npy":
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("features.npy", content)
    with pytest.raises(
        ValueError, match=rf"x{ending} is broken: damaged, cut short, or not a {ending} file$"
    ):
        read(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["a,b\n1,2\n", "MULTICUT\n0 1 1\n", "FACTORIZED COMPLETE MULTICUT\n0.4\n1 1\n2\n"]
)
def test_utf_16_is_named(tmp_path, encoding, text):
    path = tmp_path / ("x.csv" if text[0] == "a" else "x.txt")
    path.write_bytes((text if encoding == "utf-16" else "\ufeff" + text).encode(encoding))
    with pytest.raises(ValueError, match=r"x\.\w+ is UTF-16 text: save it as UTF-8"):
        read(path)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no file that cannot be read")
@pytest.mark.parametrize("ending", [".npy", ".csv", ".txt", ".npz"])
def test_an_error_of_the_disk_names_the_file(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    path.symlink_to("/proc/self/mem")
    with pytest.raises(OSError, match=rf"x{ending} cannot be read: Input/output error"):
        read(path)


def test_a_file_is_on_the_disk_before_it_appears(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("fsync"))
    replace = Path.replace
    monkeypatch.setattr(Path, "replace", lambda *paths: calls.append("replace") or replace(*paths))
    with complete(tmp_path / "x.txt") as part:
        part.write_text("x")
    assert calls == ["fsync", "replace"]


def test_outputs_may_have_the_longest_names(tmp_path):
    path = tmp_path / ("x" * 251 + ".npy")
    write_instance(path, Features(np.eye(2)), 0.0)
    np.testing.assert_array_equal(read(path).array, np.eye(2))
    assert list(tmp_path.iterdir()) == [path]


def test_an_output_that_is_a_link_is_written_where_it_points(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "x.npy").symlink_to(tmp_path / "disk" / "y.npy")
    for array in (np.eye(2), np.eye(3)):
        check_writable(tmp_path / "x.npy", (".npy",))
        write_instance(tmp_path / "x.npy", Features(array), 0.0)
        assert (tmp_path / "x.npy").is_symlink()
        np.testing.assert_array_equal(np.load(tmp_path / "disk" / "y.npy"), array)
    assert [path.name for path in (tmp_path / "disk").iterdir()] == ["y.npy"]


def test_outputs_that_cannot_be_files_are_named_before_any_work(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"")
    with pytest.raises(NotADirectoryError, match=r"a\.npy is not a folder"):
        check_writable(tmp_path / "a.npy" / "x.npy", (".npy",))
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(ValueError, match=r"pipe\.npy: it is not a regular file"):
        check_writable(tmp_path / "pipe.npy", (".npy",))


def test_arrays_that_are_not_features_are_not_read(tmp_path):
    """Their headers say enough; a small file may announce arrays larger than memory."""
    path = tmp_path / "x.npz"
    np.savez(path, one=np.arange(5000.0), other=np.arange(5000.0))
    content = bytearray(path.read_bytes())
    content[20_000:20_008] = b"\xff" * 8  # the checksum of the first array is wrong now
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"exactly one 2-D array; it holds one, other$"):
        read(path)
    np.savez(path, one=np.arange(5000.0))
    content = bytearray(path.read_bytes())
    content[20_000:20_008] = b"\xff" * 8
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is broken"):
        read_archive(path)


def test_a_link_to_itself_is_named_before_any_work(tmp_path):
    (tmp_path / "x.npy").symlink_to(tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"x\.npy: it is a link to itself"):
        check_writable(tmp_path / "x.npy", (".npy",))
    (tmp_path / "y.npy").symlink_to(tmp_path / "absent" / "y.npy")
    with pytest.raises(FileNotFoundError, match="absent does not exist"):
        check_writable(tmp_path / "y.npy", (".npy",))
