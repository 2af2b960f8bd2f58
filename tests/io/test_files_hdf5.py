"""Features in HDF5 files."""

import os
import subprocess
import sys
from threading import Event

import numpy as np
import pytest

from clusterfug.execution.threads import single_threaded
from clusterfug.io import hdf5
from clusterfug.io.files import Features, read, write_instance


@pytest.fixture(autouse=True)
def children(monkeypatch):
    """The processes that read; all have ended after a test."""
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    yield started
    assert all(child.returncode is not None and child.stdout.closed for child in started)


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


def test_only_numbers_in_the_file_itself_are_read(tmp_path):
    """A virtual dataset may refer to itself, and external storage may be any file."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    for source in (".", "missing.h5"):
        layout = h5py.VirtualLayout(shape=(4, 4), dtype="f4")
        layout[:] = h5py.VirtualSource(source, "features", shape=(4, 4))
        with h5py.File(path, "w") as file:
            file.create_virtual_dataset("features", layout)
        with pytest.raises(
            ValueError, match=r"x\.h5: 'features' takes its numbers from other files: write"
        ):
            read(path)
    (tmp_path / "secret").write_bytes(bytes(64))
    with h5py.File(path, "w") as file:
        file.create_dataset("X", shape=(4, 4), dtype="f4", external=[(tmp_path / "secret", 0, 64)])
    with pytest.raises(ValueError, match=r"x\.h5: 'X' takes its numbers from other files"):
        read(path)


@pytest.mark.parametrize("chunks", [None, (20, 50)])
def test_numbers_that_were_never_written_take_no_memory(tmp_path, chunks):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("features", shape=(50, 100), dtype="f4", chunks=chunks)
    with pytest.raises(ValueError, match=r"x\.h5: parts of 'features' were never written"):
        read(path)
    with h5py.File(path, "r+") as file:
        file["features"][:20] = 1
    if chunks is not None:
        with pytest.raises(ValueError, match="parts of 'features' were never written"):
            read(path)
    with h5py.File(path, "r+") as file:
        file["features"][20:] = 1
    np.testing.assert_array_equal(read(path).array, np.ones((50, 100)))


def test_a_small_dataset_beside_its_description_is_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((2, 2))
        dataset = h5py.h5d.create(file.id, b"features", h5py.h5t.NATIVE_DOUBLE, space, compact)
        dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, np.eye(2))
    np.testing.assert_array_equal(read(tmp_path / "x.h5").array, np.eye(2))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u1", "?", ">f8"])
def test_a_large_file_is_read_in_boxes(tmp_path, rng, dtype):
    h5py = pytest.importorskip("h5py")
    columns = 1000
    rows = 20 * 2**20 // (columns * np.dtype(dtype).itemsize) + 1
    X = np.resize(rng.integers(0, 200, 99_991), (rows, columns)).astype(dtype)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(700, 300), compression=1, shuffle=True, fletcher32=True)
        boxes = list(hdf5._boxes(list(X.shape), hdf5._steps(file["X"])))
    assert len(boxes) > 1
    result = read(tmp_path / "x.h5").array
    assert result.dtype == X.dtype
    np.testing.assert_array_equal(result, X)


@pytest.mark.parametrize("chunks", [None, (7, 3), (7, 20), (100, 1), (100, 20)])
@pytest.mark.parametrize("shape", [(100, 20), (0, 20), (100, 0)])
def test_boxes_cover_a_dataset_once_and_consist_of_chunks(monkeypatch, chunks, shape):
    h5py = pytest.importorskip("h5py")
    monkeypatch.setattr(hdf5, "BOX_BYTES", 1000)
    counts = np.zeros(shape, dtype=int)
    with h5py.File.in_memory() as file:
        dataset = file.create_dataset("X", shape, "f4", chunks=chunks, maxshape=chunks and (None, None))
        steps = hdf5._steps(dataset)
    for box in hdf5._boxes(list(shape), steps):
        counts[box] += 1
    assert (counts == 1).all()
    sides = chunks or (1, 1)
    assert all(
        step % side == 0 or step >= n for step, side, n in zip(steps, sides, shape, strict=True) if n
    )
    assert 4 * np.prod(steps) <= max(1000, 4 * np.prod(sides))


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("options", [{}, {"fletcher32": True}, {"compression": "gzip", "shuffle": True}])
@pytest.mark.parametrize("maxshape", [None, (None, 10), (None, None)])
def test_all_layouts_of_chunks_are_read(tmp_path, rng, libver, options, maxshape):
    h5py = pytest.importorskip("h5py")
    X = rng.normal(size=(25, 10))
    with h5py.File(tmp_path / "x.h5", "w", libver=libver) as file:
        file.create_dataset("features", data=X, chunks=(10, 4), maxshape=maxshape, **options)
    np.testing.assert_array_equal(read(tmp_path / "x.h5").array, X)


def test_chunks_are_checked_without_an_iterator_too(rng):
    h5py = pytest.importorskip("h5py")
    with h5py.File.in_memory() as file:
        dataset = file.create_dataset("features", data=rng.normal(size=(25, 10)), chunks=(10, 4))

        class Older:  # HDF5 1.10 cannot iterate over chunks
            get_num_chunks, get_chunk_info = dataset.id.get_num_chunks, dataset.id.get_chunk_info
            get_create_plist, get_type = dataset.id.get_create_plist, dataset.id.get_type

        class Dataset:
            id, ndim, shape, chunks, file = Older, 2, dataset.shape, dataset.chunks, dataset.file

        assert hdf5._number_of_chunks(Dataset) == hdf5._number_of_chunks(dataset) == 9


def test_no_rows_and_no_dimensions(tmp_path):
    h5py = pytest.importorskip("h5py")
    for array in (
        np.empty((0, 3), dtype="f4"),
        np.empty((3, 0)),
        np.array(2.5),
        np.ones(3),
        np.ones((2, 3, 4)),
    ):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["features"] = array
        result = read(tmp_path / "x.h5").array
        assert result.dtype == array.dtype
        np.testing.assert_array_equal(result, array)


def test_only_numbers_are_read(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    for content, held in (
        (np.array([["a", "b"]], dtype=object), r"\|O"),
        (np.array([[b"a", b"bc"]]), r"\|S2"),
        (np.ones((2, 2), dtype=complex), "<c16"),
        (h5py.Empty("f4"), "nothing"),
    ):
        with h5py.File(path, "w") as file:
            file["features"] = content
        with pytest.raises(ValueError, match=rf"x\.h5: 'features' holds {held}, not numbers$"):
            read(path)


def save_damaged(path, place, value, **options):
    """Write features, and a value, or a function of the content, to a place in the last node."""
    import h5py

    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=np.arange(1, 481, dtype="f4").reshape(60, 8), **options)
    content = bytearray(path.read_bytes())
    node = content.rfind(b"TREE")
    value = value(content, node) if callable(value) else value
    content[node + place : node + place + len(value)] = value
    path.write_bytes(content)


#: Entries of a node begin after 24 bytes; one of a chunk is size (4), mask (4), offsets (24), address (8).
SIBLING, SECOND = 16, 24 + 40


@pytest.mark.parametrize(
    ("place", "value", "options"),
    [
        (SECOND, bytes(4), {"fletcher32": True}),  # of no size: a segmentation fault
        (SECOND, b"\4\0\0\0", {}),  # too small: rows of other memory
        (SECOND + 4, b"\1", {"compression": "gzip"}),  # not decompressed
        (SECOND + 8, bytes(8), {"fletcher32": True}),  # the place of the first chunk
        (SECOND + 8, b"\x0b", {"fletcher32": True}),  # between chunks
        (SECOND + 15, b"\1", {"fletcher32": True}),  # outside
        (SECOND + 32, lambda content, node: content[node + 56 : node + 64], {}),  # the numbers of the first
        (SECOND + 24, b"\4", {}),  # listed, but never found: rows of zeros
        (SECOND + 35, b"\1", {}),  # after the end of the file
    ],
)
def test_damaged_chunks(tmp_path, place, value, options):
    pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    save_damaged(path, place, value, chunks=(10, 8), **options)
    with pytest.raises(ValueError, match=r"x\.h5 is broken: damaged, cut short, or not a \.h5 file$"):
        read(path)


def test_a_list_that_never_ends(tmp_path, monkeypatch):
    """The HDF5 library follows a node that is its own sibling, without a pause for Python."""
    pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    save_damaged(path, SIBLING, lambda content, node: node.to_bytes(8, "little"))
    stop = Event()
    stop.set()
    with pytest.raises(KeyboardInterrupt), single_threaded(stop):
        read(path)
    monkeypatch.setattr(hdf5, "PATIENCE", 2)
    with pytest.raises(ValueError, match=r"x\.h5 is broken, or on a very slow disk"):
        read(path)


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        ("import os; os.abort()", ValueError, "is broken: "),
        ("", ValueError, "is broken: "),
        ('print(\'{"shape": [2, 2], "steps": [1, 2], "dtype": "<f4"}\')', ValueError, "is broken: "),
        ("print('no JSON')", ValueError, "is broken: "),
        ("from clusterfug.io import hdf5; hdf5._check_stored = 0; hdf5.main()", ValueError, "is broken: "),
        (
            "from clusterfug.io import hdf5; hdf5._steps = lambda dataset: bytearray(2**62); hdf5.main()",
            MemoryError,
            "needs more memory than there is",
        ),
        (
            "from clusterfug.io import hdf5; hdf5._steps = lambda dataset: open('/'); hdf5.main()",
            OSError,
            "cannot be read: Is a directory",
        ),
    ],
)
def test_a_child_that_fails(tmp_path, monkeypatch, program, error, message):
    pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    write_instance(path, Features(np.eye(2)), 0.0)
    other = tmp_path / "other"
    other.write_text(f'#!/bin/sh\nshift 3\nexec "{sys.executable}" -c "$PROGRAM" "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PROGRAM", program)
    monkeypatch.setattr(sys, "executable", os.fspath(other))
    with pytest.raises(error, match=rf"^{path} {message}"):
        read(path)


def test_reading_needs_no_installation_and_no_current_folder(tmp_path, monkeypatch):
    """The child finds the package where this process has, and runs nothing from the current folder."""
    pytest.importorskip("h5py")
    write_instance(tmp_path / "x.h5", Features(np.eye(2)), 0.0)
    (tmp_path / "json.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    np.testing.assert_array_equal(read(tmp_path / "x.h5").array, np.eye(2))
