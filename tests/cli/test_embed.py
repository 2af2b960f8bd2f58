"""`clusterfug embed`: what it prints and writes, and one line for every error."""

import json
import os
import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
from makers import CONVOLUTION, CONVOLUTION_WEIGHTS, interrupt_at, save_encoder, save_images, save_onnx
from PIL import Image

from clusterfug.cli import main
from clusterfug.embedding import embed


@pytest.fixture
def model(tmp_path):
    return save_encoder(tmp_path / "encoder.onnx")


@pytest.fixture
def folder(tmp_path, rng):
    return save_images(tmp_path / "images", rng)


@pytest.fixture
def run(capfd):
    """Run a command; returns exit code, standard output and standard error, also those of C++ libraries."""

    def run(*arguments):
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return stop.value.code or 0, out, err

    return run


def lines(path):
    return path.read_text().splitlines()


def test_broken_images_are_skipped_and_listed(run, folder, model, tmp_path):
    whole = (folder / "4.png").read_bytes()
    (folder / "1.png").write_bytes(b"not an image")
    (folder / "4.png").write_bytes(whole[: len(whole) // 2])
    (folder / "6.png").unlink()
    (folder / "6.png").symlink_to("nowhere")
    Image.fromarray(np.ones((9, 9), np.float32)).save(folder / "8.tif")
    (folder / "9.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n")
    code, out, err = run("embed", folder, model, "-o", tmp_path / "x.npy", "--batch", 3, "--size", 16)
    assert (code, err) == (0, "")
    skipped = dict(line.split("\t") for line in lines(tmp_path / "x.skipped.txt"))
    assert list(skipped) == ["1.png", "4.png", "6.png", "8.tif", "9.png"]
    assert skipped["1.png"] == skipped["9.png"] == "not an image of a known format"
    assert skipped["6.png"] == "No such file or directory"
    assert skipped["8.tif"] == "its pixels have 32 bits: save it with 8 or 16"
    for name, reason in skipped.items():
        assert f"skipped {name}: {reason}" in out
    kept = [f"{i}.png" for i in (0, 2, 3, 5, 7, 8)]
    assert lines(tmp_path / "x.files.txt") == kept
    alone = embed([folder / name for name in kept], model, tmp_path / "y.npy", size=16, batch=3)
    assert alone.skipped == {}
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), np.load(tmp_path / "y.npy"), rtol=1e-5)
    assert not (tmp_path / "y.skipped.txt").exists()


def test_only_the_first_skipped_images_are_printed_and_a_file_lists_all(run, tmp_path, model):
    (tmp_path / "many").mkdir()
    for i in range(30):
        (tmp_path / f"many/{i:02}[red].jpg").write_bytes(b"")
    Image.new("RGB", (9, 9)).save(tmp_path / "many/good.gif")
    code, out, err = run("embed", tmp_path / "many", model, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")
    assert "skipped 19[red].jpg" in out
    assert "20[red].jpg" not in out
    assert f"and 10 more: {tmp_path / 'x.skipped.txt'}" in out
    assert len(lines(tmp_path / "x.skipped.txt")) == 30


def test_skipped_images_have_no_labels(run, folder, model, tmp_path):
    (folder / "2.png").write_bytes(b"")
    (tmp_path / "val.txt").write_text("".join(f"{i}.png {10 - i}\n" for i in range(10)))
    code, out, _ = run(
        "embed", folder, model, "-o", tmp_path / "x.npy", "--labels", tmp_path / "val.txt", "--json"
    )
    report = json.loads(out)
    assert (code, report["n"], report["d"], report["classes"]) == (0, 9, 5, 9)
    assert list(report["skipped"]) == ["2.png"]
    assert report["output"] == report["files"][0] == str(tmp_path / "x.npy")
    assert np.load(tmp_path / "x.labels.npy").tolist() == [10, 9, 7, 6, 5, 4, 3, 2, 1]
    assert not (tmp_path / "x.classes.txt").exists()


def test_names_may_be_no_utf8(run, tmp_path, model):
    (tmp_path / "odd").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "good.png")
    os.rename(tmp_path / "good.png", os.fsencode(tmp_path / "odd") + b"/\xff.png")
    (tmp_path / "odd" / os.fsdecode(b"\xfe.png")).write_bytes(b"")
    code, out, err = run("embed", tmp_path / "odd", model, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")
    assert "skipped ?.png" in out
    assert (tmp_path / "x.files.txt").read_bytes() == b"\xff.png\n"


def test_other_images_and_another_model_are_refused(run, folder, model, tmp_path):
    output = tmp_path / "x.npy"
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, output, size=16, batch=4, callback=interrupt_at(4))
    kept = (folder / "7.png").stat()
    os.utime(folder / "7.png", ns=(0, 0))
    code, out, err = run("embed", folder, model, "-o", output, "--size", 16)
    assert (code, out) == (2, "")
    assert err == (
        f"clusterfug: error: {output}.partial is an unfinished run with other settings (images): "
        "repeat its command to go on, or start over with --restart\n"
    )
    os.utime(folder / "7.png", ns=(kept.st_atime_ns, kept.st_mtime_ns))
    save_onnx(
        model,
        CONVOLUTION,
        {"images": ["n", 3, "h", "w"]},
        {"features": ["n", 5]},
        weights=CONVOLUTION_WEIGHTS + 1,
    )
    code, _, err = run("embed", folder, model, "-o", output, "--size", 16)
    assert (code, "unfinished run with other settings (model):" in err) == (2, True)
    code, _, err = run("embed", folder, model, "-o", output, "--size", 16, "--restart")
    assert (code, err) == (0, "")


def test_ctrl_c_prints_how_to_resume(run, folder, model, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(
            "clusterfug.embedding.partial_run.PartialRun.append", Mock(side_effect=KeyboardInterrupt)
        )
        stopped = run("embed", folder, model, "-o", tmp_path / "x.npy")
    assert stopped == (130, "", "clusterfug: interrupted; repeat the command to go on\n")
    code, _, err = run("embed", folder, model, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")


def test_the_table_has_rows_for_images_features_and_time(run, folder, model, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        embed(folder, model, tmp_path / "x.npy", batch=4, callback=interrupt_at(4))
    code, out, err = run("embed", folder, model, "-o", tmp_path / "x.npy")
    assert (code, err) == (0, "")
    table = dict(line.split("  ", 1) for line in out.splitlines() if line[0] != " ")
    assert list(table) == ["images", "skipped", "features", "seconds", "images per second", "files"]
    assert table["images"].strip() == "10, 4 of an earlier run"
    assert table["features"].strip() == "5 (float32)"


@pytest.fixture
def models(tmp_path, model):
    """Models that are not encoders of images, beside one that is."""
    free = ["n", 3, "h", "w"]
    pool = [("GlobalAveragePool", ["images"], ["features"])]
    out = {"features": None}
    save_onnx(tmp_path / "grey.onnx", pool, {"images": ["n", 1, "h", "w"]}, out)
    save_onnx(tmp_path / "wide.onnx", pool, {"images": ["n", 3, 256, 128]}, out)
    save_onnx(tmp_path / "small.onnx", pool, {"images": [2, 3, 8, 8]}, out)
    save_onnx(tmp_path / "flat.onnx", [("Relu", ["images"], ["features"])], {"images": ["n", 9]}, out)
    save_onnx(
        tmp_path / "two.onnx",
        [("Add", ["images", "more"], ["features"])],
        {"images": free, "more": free},
        out,
    )
    save_onnx(tmp_path / "one.onnx", [("Size", ["images"], ["n"]), *pool], {"images": free}, out)
    (tmp_path / "bad.onnx").write_text("not a model")
    for name in ("new", "silent"):
        changed = onnx.load(model)
        if name == "new":
            changed.ir_version = 99
        else:
            changed.graph.ClearField("output")
        onnx.save(changed, tmp_path / f"{name}.onnx")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none", "encoder.onnx"], "none does not exist"),
        (["bad.onnx", "encoder.onnx"], "bad.onnx is a file, not a folder of images"),
        (["empty", "encoder.onnx"], "empty has no images: their names must end in .jpg, .jpeg"),
        (["broken", "encoder.onnx"], "none of the 2 images can be embedded; 1.jpg: not an image"),
        (["images", "none.onnx"], "none.onnx does not exist"),
        (["images", "bad.onnx"], "bad.onnx is not an ONNX model that can be run: Protobuf parsing failed."),
        (["images", "new.onnx"], "new.onnx is not an ONNX model that can be run: Unsupported model IR"),
        (["images", "silent.onnx"], "silent.onnx has no outputs: name a tensor inside it with --layer"),
        (["images", "silent.onnx", "--layer", "x"], "silent.onnx has no layer 'x': its outputs are none;"),
        (["images", "images"], "images is a folder, not a file"),
        (["images", "grey.onnx"], "grey.onnx takes images of 1 channels: it must take 3 (RGB)"),
        (["images", "wide.onnx"], "wide.onnx takes images of 256 x 128: they must be square"),
        (["images", "flat.onnx"], "flat.onnx takes tensor(float) of shape ['n', 9]: it must take floats"),
        (["images", "two.onnx"], "two.onnx needs 2 inputs (images, more)"),
        (["images", "small.onnx", "--size", "9"], "small.onnx has size 8, not 9: leave --size out"),
        (["images", "small.onnx", "--batch", "3"], "small.onnx has batch 2, not 3: leave --batch out"),
        (["images", "encoder.onnx", "--size", "2"], "encoder.onnx fails on 2 images of 2 x 2:"),
        (["images", "encoder.onnx", "--size", "0"], "size must be at least 1, not 0"),
        (["images", "encoder.onnx", "--size", "big"], "Invalid value for '--size'"),
        (["images", "encoder.onnx", "--resize", "200"], "resize must be at least the size, 224, not 200"),
        (
            ["images", "encoder.onnx", "--resize", "10000000"],
            "--resize must be at most 16384, not 10000000",
        ),
        (["images", "encoder.onnx", "--size", "10000000"], "--size must be at most 16384, not 10000000"),
        (["images", "encoder.onnx", "--batch", "0"], "batch must be at least 1, not 0"),
        (["images", "encoder.onnx", "--mean", "0.5"], "mean must be three numbers between 0 and 1"),
        (["images", "encoder.onnx", "--mean", "a,b,c"], "--mean must be R,G,B (0.5,0.5,0.5), not 'a,b,c'"),
        (["images", "encoder.onnx", "--mean", "123.7,116.3,103.5"], "between 0 and 1 (red, green, blue)"),
        (["images", "encoder.onnx", "--mean", "nan,0,0"], "mean must be a finite number"),
        (["images", "encoder.onnx", "--std", "0,1,1"], "std must be above 0"),
        (["images", "encoder.onnx", "--dtype", "int8"], "Invalid value for '--dtype'"),
        (["images", "encoder.onnx", "--layer", "nope"], "no layer 'nope': its outputs are features, map;"),
        (["images", "encoder.onnx", "--layer", ""], "encoder.onnx has no layer ''"),
        (["images", "encoder.onnx", "--layer", "weights"], "'weights' is float32 of shape (5, 3, 3, 3)"),
        (["images", "one.onnx", "--layer", "n"], "'n' is int64 of shape () for 2 images"),
        (["images", "encoder.onnx", "--labels", "none.txt"], "none.txt does not exist"),
        (["images", "encoder.onnx", "--labels", "labels.txt"], "labels.txt has no label for 1.png"),
        (["images", "encoder.onnx", "--labels", "x.classes.txt"], "cannot write x.classes.txt: it is an"),
        (["images", "encoder.onnx", "-o", "x.csv"], "cannot write x.csv: its name must end in .npy"),
        (["images", "encoder.onnx", "-o", "no/x.npy"], "the folder no does not exist"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    run, folder, models, tmp_path, monkeypatch, arguments, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/1.jpg").write_bytes(b"broken")
    (tmp_path / "broken/2.jpg").touch()
    (tmp_path / "labels.txt").write_text("0.png 1\n")
    (tmp_path / "x.classes.txt").write_text("0.png 1\n")
    before = sorted(tmp_path.rglob("*"))
    if "-o" not in arguments:
        arguments = [*arguments, "-o", "x.npy"]
    code, out, err = run("embed", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("package", ["onnxruntime", "PIL"])
def test_a_missing_extra_is_named(run, folder, model, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    code, _, err = run("embed", folder, model, "-o", tmp_path / "x.npy")
    assert (code, err) == (
        2,
        "clusterfug: error: embedding images needs onnxruntime and pillow: "
        "pip install 'clusterfug[embed]'\n",
    )


def test_importing_the_command_is_light():
    code = "import sys, clusterfug.cli; print([n for n in ('onnxruntime', 'PIL') if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert result.stdout == "[]\n"
