"""Features in HDF5 files."""

import numpy as np
import pytest

from clusterfug.io.files import Features, read, write_instance


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
