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
