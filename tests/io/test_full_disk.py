"""A full disk is a one-line error and leaves no incomplete files of labels."""

import subprocess
import sys

import numpy as np
import pytest
from makers import limited_file_size, memory_for, mixture, names_in

from clusterfug.execution.sharded import source
from clusterfug.io.files import Features, write_instance
from clusterfug.io.labels import write_labels


@pytest.mark.parametrize("output", ["l.npy", "l.csv", "l.parquet", "folder"])
def test_a_full_disk_leaves_no_output(monkeypatch, run, rng, tmp_path, output):
    monkeypatch.setattr(source, "MIN_SHARD_ITEMS", 8)
    X, _ = mixture(rng, 400, 4, d=6)
    (tmp_path / "x").mkdir()
    np.save(tmp_path / "x" / "a.npy", X[:300])
    np.save(tmp_path / "x" / "b.npy", X[300:])
    limit = f"{memory_for(130, 6)}B"
    with limited_file_size(400):
        code, out, err = run(
            "cluster", tmp_path / "x", "-t", 0.3, "--memory-limit", limit, "-o", tmp_path / output
        )
    assert (code, out) == (2, "")
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    assert names_in(tmp_path) == ["x"]


def test_labels_are_written_completely_or_not_at_all(tmp_path):
    for n in (10, 400, 1010, 1020, 1030, 3000):
        with limited_file_size(8 * n), pytest.raises(OSError, match=r"l\.npy"):
            write_labels(tmp_path / "l.npy", np.arange(n))
        assert names_in(tmp_path) == []


@pytest.mark.parametrize("checkpoint", [[], ["--checkpoint", "c"]])
def test_the_command_ends_with_one_line_on_a_full_disk(tmp_path, rng, checkpoint):
    """Files for temporary values of shards are limited, too."""
    X, _ = mixture(rng, 6000, 10, d=4, noise=0.3)
    np.save(tmp_path / "x.npy", X.astype(np.float32))
    code = (
        "import resource, sys; from clusterfug.cli import main; import clusterfug.execution.sharded.solve;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000)); main(sys.argv[1:])"
    )
    options = ["-t", "0.4", "-a", "fast", "--memory-limit", "1MB", "-o", "l.npy", *checkpoint]
    process = subprocess.run(
        [sys.executable, "-c", code, "cluster", "x.npy", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 2
    assert process.stderr.count("\n") == 1, process.stderr
    assert set(names_in(tmp_path)) <= {"x.npy", "c"}
    if checkpoint:
        assert not any(name.startswith(".") for name in names_in(tmp_path / "c"))


def test_features_are_written_completely_or_not_at_all(tmp_path, rng):
    for ending in (".npy", ".npz", ".h5", ".csv", ".parquet", ".txt"):
        for size in (10, 1500, 4000, 12_700):
            with (
                limited_file_size(size),
                pytest.raises(OSError, match=rf"^cannot write .*/x{ending}: File too large$"),
            ):
                write_instance(tmp_path / f"x{ending}", Features(rng.random((200, 8))), 0.0)
            assert names_in(tmp_path) == []
