"""An interrupted run is resumed, and ends with the same bytes."""

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
