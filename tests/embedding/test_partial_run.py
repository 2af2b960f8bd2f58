"""An interrupted run is resumed, and ends with the same bytes."""

import json
import os
import signal
import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pytest
from makers import CONVOLUTION_WEIGHTS, interrupt_at
from reference import convolution_features

from clusterfug.embedding import embed
from clusterfug.io.images import read_image


def test_an_interrupted_run_is_resumed_to_the_same_bytes(folder, model, tmp_path):
    (folder / "2.png").write_bytes(b"broken")
    options = {"size": 16, "batch": 3}
    embed(folder, model, tmp_path / "whole.npy", **options)
    for count in (0, 3, 6, 9, 10):
        output = tmp_path / f"{count}.npy"
        with pytest.raises(KeyboardInterrupt):
            embed(folder, model, output, callback=interrupt_at(count), **options)
        assert not output.exists()
        done = embed(folder, model, output, **options)
        assert done.resumed == count
        assert list(done.skipped) == ["2.png"]
        assert output.read_bytes() == (tmp_path / "whole.npy").read_bytes()
        for ending in (".files.txt", ".skipped.txt"):
            other = tmp_path / f"whole{ending}"
            assert output.with_suffix(ending).read_bytes() == other.read_bytes()
        assert not (tmp_path / f"{count}.npy.partial").exists()


def test_a_resumed_run_reads_only_the_remaining_images(folder, model, tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, tmp_path / "x.npy", size=16, batch=4, callback=interrupt_at(8))
    read = []
    monkeypatch.setattr(
        "clusterfug.io.images.read_image",
        lambda path, *sizes: read.append(path.name) or read_image(path, *sizes),
    )
    embed(folder, model, tmp_path / "x.npy", size=16, batch=4)
    assert sorted(read) == ["8.png", "9.png"]


@pytest.mark.parametrize("moment", ["between batches", "while progress is written"])
def test_a_killed_process_is_resumed(folder, model, tmp_path, moment):
    code = f"""
import os, signal
from pathlib import Path
from clusterfug.embedding import embed

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def callback(phase, done, total):
    if done == 4 and {moment == "while progress is written"}:
        Path.replace = die
    if done == 6:
        die()

embed({str(folder)!r}, {str(model)!r}, {str(tmp_path / "x.npy")!r}, size=16, batch=2, callback=callback)
"""
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "x.npy").exists()
    done = embed(folder, model, tmp_path / "x.npy", size=16, batch=2)
    assert done.resumed == (6 if moment == "between batches" else 4)
    embed(folder, model, tmp_path / "y.npy", size=16, batch=2)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "y.npy").read_bytes()
    assert not (tmp_path / "x.npy.partial").exists()


def test_a_run_interrupted_after_its_last_step_starts_over(folder, model, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            "clusterfug.embedding.partial_run.PartialRun.remove", Mock(side_effect=KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            embed(folder, model, tmp_path / "x.npy", size=16)
    before = (tmp_path / "x.npy").read_bytes()
    assert embed(folder, model, tmp_path / "x.npy", size=16).resumed == 0
    assert (tmp_path / "x.npy").read_bytes() == before
    assert not (tmp_path / "x.npy.partial").exists()


def test_a_run_that_starts_over_may_be_interrupted_again(folder, model, tmp_path, monkeypatch):
    whole = embed(folder, model, tmp_path / "whole.npy", size=16).files[0].read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(
            "clusterfug.embedding.partial_run.PartialRun.remove", Mock(side_effect=KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            embed(folder, model, tmp_path / "x.npy", size=16)
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, tmp_path / "x.npy", size=16, batch=2, callback=interrupt_at(0))
    assert embed(folder, model, tmp_path / "x.npy", size=16).files[0].read_bytes() == whole


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(bytes(data))


def edit(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("rows.npy", lambda path: flip(path, -20)),
        ("rows.npy", lambda path: path.write_bytes(path.read_bytes()[:150])),
        ("rows.npy", lambda path: path.write_bytes(path.read_bytes()[:1])),
        ("progress.json", lambda path: flip(path, 20)),
        ("progress.json", lambda path: path.write_bytes(path.read_bytes()[:-9])),
        ("progress.json", lambda path: path.write_text("[]")),
        ("progress.json", lambda path: path.write_text("[" * 100_000)),
        ("progress.json", lambda path: path.write_bytes(b"\xff")),
        ("progress.json", lambda path: edit(path, settings=3)),
        ("progress.json", lambda path: edit(path, done=7)),
        ("progress.json", lambda path: edit(path, done=10**30)),
        ("progress.json", lambda path: edit(path, done=-1)),
        ("progress.json", lambda path: edit(path, done="8")),
        ("progress.json", lambda path: edit(path, skipped=[])),
        ("progress.json", lambda path: edit(path, skipped={"1.png": "x"})),
    ],
)
def test_a_damaged_run_is_refused(folder, model, tmp_path, name, damage):
    output = tmp_path / "x.npy"
    embed(folder, model, tmp_path / "whole.npy", size=16, batch=4)
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, output, size=16, batch=4, callback=interrupt_at(8))
    damage(tmp_path / "x.npy.partial" / name)
    with pytest.raises(ValueError, match=r"is damaged: start over with --restart|other settings") as error:
        embed(folder, model, output, size=16)
    assert "\n" not in str(error.value)
    embed(folder, model, output, size=16, restart=True)
    assert output.read_bytes() == (tmp_path / "whole.npy").read_bytes()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"size": 17, "resize": 18}, "size"),
        ({"resize": 19}, "resize"),
        ({"mean": (0.5, 0.5, 0.5)}, "mean"),
        ({"std": (0.5, 0.5, 0.5)}, "std"),
        ({"layer": "map"}, "layer"),
        ({"dtype": "float16"}, "dtype"),
    ],
)
def test_other_settings_are_refused(folder, model, tmp_path, change, name):
    output = tmp_path / "x.npy"
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, output, size=16, batch=4, callback=interrupt_at(8))
    with pytest.raises(ValueError, match=rf"unfinished run with other settings \({name}\): .* --restart"):
        embed(folder, model, output, **({"size": 16} | change))
    embed(folder, model, tmp_path / "y.npy", **({"size": 16} | change))
    done = embed(folder, model, output, restart=True, **({"size": 16} | change))
    assert done.resumed == 0
    assert output.read_bytes() == (tmp_path / "y.npy").read_bytes()


def test_the_batch_may_change_on_resuming(folder, model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, tmp_path / "x.npy", size=16, batch=4, callback=interrupt_at(4))
    assert embed(folder, model, tmp_path / "x.npy", size=16, batch=1).resumed == 4
    np.testing.assert_allclose(
        np.load(tmp_path / "x.npy"), convolution_features(folder, CONVOLUTION_WEIGHTS, 16, 18), rtol=1e-5
    )


def test_two_runs_do_not_write_one_output(folder, model, tmp_path):
    def again(phase, done, total):
        if done == 4:
            with pytest.raises(ValueError, match="another run is writing"):
                embed(folder, model, tmp_path / "x.npy", size=16)

    embed(folder, model, tmp_path / "x.npy", size=16, batch=4, callback=again)
    np.testing.assert_allclose(
        np.load(tmp_path / "x.npy"), convolution_features(folder, CONVOLUTION_WEIGHTS, 16, 18), rtol=1e-5
    )


@pytest.mark.parametrize("name", ["rows.npy", "progress.json"])
def test_a_pipe_is_no_unfinished_run(folder, model, tmp_path, name):
    (tmp_path / "x.npy.partial").mkdir()
    os.mkfifo(tmp_path / "x.npy.partial" / name)
    with pytest.raises(ValueError, match=rf"{name} is (damaged: start over|not a regular file)"):
        embed(folder, model, tmp_path / "x.npy", size=16)


def test_the_last_header_is_on_the_disk_before_the_output_appears(folder, model, tmp_path, monkeypatch):
    sizes, fsync = [], os.fsync

    def kept(handle):
        fsync(handle)
        if os.path.samestat(os.fstat(handle), os.stat(tmp_path / "x.npy.partial" / "rows.npy")):
            sizes.append(np.load(tmp_path / "x.npy.partial" / "rows.npy").shape)

    monkeypatch.setattr(os, "fsync", kept)
    embed(folder, model, tmp_path / "x.npy", size=16, batch=5)
    assert sizes[-1] == (10, 5)
