"""Label files: one label per item in several formats, with the settings that were solved."""

from dataclasses import replace

import numpy as np
import pytest

from clusterfug import dense_multicut
from clusterfug.costs.models import Threshold
from clusterfug.io import tables
from clusterfug.io.classes import read_classes
from clusterfug.io.files import read
from clusterfug.io.labels import (
    LABEL_ENDINGS,
    LabelFile,
    check_labels_writable,
    read_column,
    read_labels,
    write_labels,
)
from clusterfug.io.settings import settings_of

pytest.importorskip("pyarrow")


def test_labels_in_every_format(tmp_path):
    labels = np.array([0, 1, 0, 2])
    for ending in LABEL_ENDINGS:
        path = tmp_path / f"l{ending}"
        write_labels(path, labels)
        np.testing.assert_array_equal(read_labels(path), labels)
        assert LabelFile(path, labels).settings() is None
    np.testing.assert_array_equal(np.load(tmp_path / "l.npy"), labels)
    np.testing.assert_array_equal(np.load(tmp_path / "l.npz")["labels"], labels)
    assert (tmp_path / "l.csv").read_text() == "label\n0\n1\n0\n2\n"
    np.testing.assert_array_equal(read_column(tmp_path / "l.csv"), labels)
    np.testing.assert_array_equal(read(tmp_path / "l.parquet").array[:, 0], labels)
    np.save(tmp_path / "m.npy", np.eye(2))
    with pytest.raises(ValueError, match="one number per item"):
        read_column(tmp_path / "m.npy")


def test_labels_of_an_archive_are_found_by_name_or_alone(tmp_path):
    path = tmp_path / "l.npz"
    np.savez(path, labels=np.arange(3), other=np.eye(2))
    assert read_labels(path).tolist() == [0, 1, 2]
    np.savez(path, y=np.arange(2))
    assert read_labels(path).tolist() == [0, 1]
    for arrays in ({"y": np.arange(2), "z": np.arange(2)}, {}):
        np.savez(path, **arrays)
        with pytest.raises(ValueError, match="an array named 'labels' or exactly one array"):
            read_labels(path)


@pytest.mark.parametrize("ending", LABEL_ENDINGS)
def test_settings_are_read_back_and_belong_to_their_labels(tmp_path, ending):
    result = dense_multicut(np.eye(4), 0.3, center=True)
    path = tmp_path / f"l{ending}"
    settings = settings_of(replace(result, weighted=True))
    write_labels(path, result.labels, settings)
    found = LabelFile(path, read_labels(path)).settings()
    assert found == settings
    assert (found.costs(), found.metric, found.center, found.weighted) == (
        Threshold(0.3),
        "cosine",
        True,
        True,
    )
    assert (found.objective, found.algorithm) == (result.objective, "auto")
    with pytest.raises(
        ValueError, match="belong to other labels: give --threshold or --alpha, --metric and --center"
    ):
        LabelFile(path, result.labels + 1).settings()


def test_settings_of_another_type_in_an_archive_or_a_table(tmp_path):
    labels = np.arange(3)
    np.savez(tmp_path / "l.npz", labels=labels, clusterfug=np.eye(2))
    tables.write(tmp_path / "l.parquet", "label", labels, {"clusterfug": "\x00"})
    (tmp_path / "l.npy.json").write_bytes(b"\xff\xfe")
    for name in ("l.npz", "l.parquet", "l.npy"):
        with pytest.raises(ValueError, match="cannot be used \\(they are not what clusterfug writes\\)"):
            LabelFile(tmp_path / name, labels).settings()


def test_a_text_file_of_labels_has_no_settings(tmp_path):
    (tmp_path / "l.txt.json").write_text("of another program")
    assert LabelFile(tmp_path / "l.txt", np.arange(3)).settings() is None


def test_labels_are_not_writable_where_their_settings_are_not(tmp_path):
    (tmp_path / "l.npy.json").mkdir()
    with pytest.raises(IsADirectoryError, match=r"cannot write .*l\.npy\.json: it is a folder"):
        check_labels_writable(tmp_path / "l.npy")
    check_labels_writable(tmp_path / "l.npz")


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


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError("disk full")

    (tmp_path / "l.npy").write_bytes(b"before")
    monkeypatch.setattr("clusterfug.io.files.save", fail)
    with pytest.raises(OSError, match="disk full"):
        write_labels(tmp_path / "l.npy", np.arange(3))
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("l.npy", b"before")]


def test_labels_beside_other_members_of_an_archive(tmp_path):
    np.savez(tmp_path / "l.npz", labels=np.arange(3), names=np.array([{"a": 1}]))
    assert read_labels(tmp_path / "l.npz").tolist() == [0, 1, 2]
