"""`clusterfug segment`: what it writes is what it scores, and images that fail are named."""

import json
import sys

import numpy as np
import pytest
from makers import street, write_cityscapes

from clusterfug.segmentation.cityscapes import read_truth
from clusterfug.segmentation.coco import CocoTruth
from clusterfug.segmentation.pictures import read_picture, write_picture


@pytest.fixture
def folder(tmp_path, rng):
    """Two images as .npz files: three objects each, with a truth that the embeddings show."""
    directions = np.eye(5)
    for name in ("first", "second"):
        truth = np.kron(rng.permutation([1, 2, 3, 0])[None], np.ones((16, 8), dtype=int))
        embeddings = directions[truth[::2, ::2]] + 0.02 * rng.normal(size=(8, 16, 5))
        np.savez(
            tmp_path / f"{name}.npz",
            embeddings=embeddings.astype(np.float16),
            semantic=np.where(truth > 0, 26, 7),
            image=rng.integers(256, size=(16, 32, 3), dtype=np.uint8),
            truth_semantic=np.where(truth > 0, 26, 7),
            truth_instance=truth,
        )
    return tmp_path


def test_cityscapes_end_to_end(tmp_path, rng, run):
    name = write_cityscapes(tmp_path / "data", rng)
    maps = street()
    embeddings = np.eye(4)[maps.instance] * (maps.instance > 0)[..., None]
    train = {7: 0, 24: 11, 26: 13, -1: 255}
    semantic = np.vectorize(train.get)(maps.semantic)
    semantic[9:, :3] = 0
    (tmp_path / "in").mkdir()
    np.savez(tmp_path / "in" / f"{name}.npz", embeddings=embeddings, semantic=semantic.astype(np.uint8))
    arguments = (
        "segment",
        tmp_path / "in",
        "--truth",
        tmp_path / "data",
        "--train-ids",
        "-o",
        tmp_path / "out",
    )
    code, out, _ = run(*arguments, "--format", "cityscapes", "--overlays", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["quality"]["things"]["pq"] == 1.0
    assert found["quality"]["classes"]["24"]["tp"] == 2
    predicted = read_truth(tmp_path / "out" / f"{name}_instanceIds.png")
    np.testing.assert_array_equal(predicted.instance > 0, maps.instance > 0)
    assert (tmp_path / "out" / "overlays" / f"{name}.png").exists()


def test_pictures_of_the_same_name_are_an_error(folder, tmp_path, run):
    for name in ("x/first.png", "y/first.png"):
        path = tmp_path / "pictures" / name
        path.parent.mkdir(parents=True)
        write_picture(path, np.zeros((16, 32, 3), dtype=np.uint8))
    code, _, errors = run("segment", folder, "--things", 26, "--images", tmp_path / "pictures")
    assert code == 2
    assert "are pictures of the same name" in errors


def test_the_truth_is_never_overwritten(folder, tmp_path, run):
    run("segment", folder, "--things", 26, "--format", "coco", "-o", tmp_path / "data")
    before = (tmp_path / "data" / "panoptic.json").read_bytes()
    code, _, errors = run(
        *("segment", folder, "--truth", tmp_path / "data" / "panoptic.json"),
        *("--format", "coco", "-o", tmp_path / "data"),
    )
    assert code == 2
    assert "the truth is there; choose another folder" in errors
    assert (tmp_path / "data" / "panoptic.json").read_bytes() == before


def test_an_image_that_cannot_be_written_is_not_scored(folder, tmp_path, run):
    code, out, _ = run(
        "segment",
        folder,
        "--things",
        "26,7",
        "--format",
        "coco",
        "--offset",
        2,
        "-o",
        tmp_path,
        "--json",
    )
    assert code == 2
    found = json.loads(out)
    assert (found["images"], found["quality"]) == (0, None)
    assert not (tmp_path / "panoptic.json").exists()


def test_the_number_of_images_without_a_truth_is_printed(folder, tmp_path, run):
    run("segment", folder, "--things", 26, "--format", "coco", "-o", tmp_path / "data")
    truth = tmp_path / "data" / "panoptic.json"
    content = json.loads(truth.read_text())
    content["annotations"].pop()
    truth.write_text(json.dumps(content))
    code, out, _ = run("segment", folder, "--truth", truth)
    assert code == 0
    assert "of 1 of 2 images: the others have no truth" in out
    (folder / "first.npz").rename(folder / "one.npz")
    code, _, errors = run("segment", folder, "--truth", truth)
    assert code == 2
    assert "none of the 2 images is in the truth: one.npz must be named like first" in errors


def test_a_truth_or_picture_of_other_proportions_is_an_error(folder, run):
    arrays = dict(np.load(folder / "first.npz"))
    del arrays["image"]
    wrong = np.ones((32, 16), dtype=int)
    np.savez(folder / "first.npz", **(arrays | {"truth_semantic": wrong, "truth_instance": wrong}))
    code, _, errors = run("segment", folder, "--things", 26)
    assert code == 2
    assert "embeddings (8 x 16) and the image (32 x 16) are not the same picture" in errors


def test_a_failed_image_leaves_no_old_result(folder, tmp_path, run):
    out = tmp_path / "out"
    for form, written in (("npy", "*.npy"), ("coco", "panoptic/*.png"), ("cityscapes", "*Ids.png")):
        run("segment", folder, "--things", 26, "--format", form, "-o", out, "--overlays")
        assert len(list(out.glob(written))) == 2
        good = (folder / "first.npz").read_bytes()
        np.savez(folder / "first.npz", embeddings=np.full((8, 16, 5), np.nan))
        run("segment", folder, "--things", 26, "--format", form, "-o", out, "--overlays")
        assert [path.name[:6] for path in out.glob(written)] == ["second"]
        assert {path.name for path in (out / "overlays").iterdir()} == {"second.png"}
        (folder / "first.npz").write_bytes(good)
    run("segment", folder, "--things", 1, "--stuff", 2, "--format", "coco", "-o", out)
    assert not (out / "panoptic.json").exists()


def test_classes_that_are_no_train_ids_or_not_evaluated_are_errors(tmp_path, rng, run):
    name = write_cityscapes(tmp_path / "data", rng)
    np.savez(tmp_path / f"{name}.npz", embeddings=np.ones((12, 18, 2)), semantic=np.full((12, 18), 23))
    arguments = ("segment", tmp_path / f"{name}.npz", "--truth", tmp_path / "data")
    assert "class 23, which is no train id" in run(*arguments, "--train-ids")[2]
    np.savez(tmp_path / f"{name}.npz", embeddings=np.ones((12, 18, 2)), semantic=np.full((12, 18), 5))
    assert "say --train-ids if classes are 0 to 18, or name it in --void" in run(*arguments)[2]
    assert run(*arguments, "--void", "5,255")[0] == 0


@pytest.mark.parametrize("form", ["npy", "coco", "cityscapes"])
def test_the_command_writes_what_it_scores(folder, tmp_path, run, form):
    out = tmp_path / "out"
    code, text, errors = run(
        "segment", folder, "--things", 26, "--stuff", 7, "--format", form, "-o", out, "--overlays"
    )
    assert (code, errors) == (0, "")
    assert "instances  6" in text
    assert "class 26  100.0  100.0  100.0" in " ".join(text.split("\n")).replace("   ", "  ")
    for name in ("first", "second"):
        truth = np.load(folder / f"{name}.npz")
        assert read_picture(out / "overlays" / f"{name}.png").shape[0] > 18
        if form == "npy":
            semantic, instance = np.load(out / f"{name}.npy")
            np.testing.assert_array_equal(semantic, truth["truth_semantic"])
            np.testing.assert_array_equal(instance > 0, truth["truth_instance"] > 0)
        elif form == "coco":
            maps = CocoTruth(out / "panoptic.json").read(name)
            np.testing.assert_array_equal(maps.semantic, truth["truth_semantic"])
        else:
            maps = read_truth(out / f"{name}_instanceIds.png")
            np.testing.assert_array_equal(maps.semantic, truth["truth_semantic"])
            assert len(np.unique(maps.instance)) == 4


def test_coco_truth_scores_and_names_the_output(folder, tmp_path, run):
    first = tmp_path / "first"
    run("segment", folder, "--things", 26, "--format", "coco", "-o", first)
    code, out, _ = run(
        *("segment", folder, "--truth", first / "panoptic.json", "-o", tmp_path / "second"),
        *("--format", "coco", "--json"),
    )
    assert code == 0
    assert json.loads(out)["quality"]["all"]["pq"] == 1.0
    one, other = (json.loads((tmp_path / f / "panoptic.json").read_text()) for f in ("first", "second"))
    assert one["annotations"] == other["annotations"]
    assert one["categories"] == other["categories"]


def test_thresholds_per_class(folder, run):
    for text in ("26=0.4,7=-2", "0.4,7=-2", "-2,26=0.4"):
        code, out, _ = run("segment", folder, "--things", "26,7", f"--threshold={text}", "--json")
        assert code == 0
        assert json.loads(out)["instances"] == 8
        assert json.loads(out)["threshold"] == {"7": -2.0, "26": 0.4}
    code, _, errors = run("segment", folder, "--things", 26, "-t", "26=0.4,26=0.5")
    assert code == 2
    assert "two things about the same class" in errors


def test_bad_images_are_named_and_the_others_are_finished(folder, tmp_path, run):
    arrays = dict(np.load(folder / "first.npz"))
    broken = {
        "sizes": arrays | {"semantic": np.ones((10, 40), dtype=int)},
        "numbers": arrays | {"embeddings": np.full((8, 16, 5), np.nan)},
        "classes": arrays | {"semantic": np.full((16, 32), 99)},
        "truth": arrays
        | {"truth_semantic": np.ones((3, 3), dtype=int), "truth_instance": np.ones((3, 3), int)},
        "empty": arrays | {"semantic": np.full((16, 32), 7)},
    }
    for name, content in broken.items():
        np.savez(folder / f"{name}.npz", **content)
    (folder / "cut.npz").write_bytes((folder / "first.npz").read_bytes()[:500])
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    write_picture(pictures / "second.png", arrays["image"])
    file = pictures / "second.png"
    file.write_bytes(file.read_bytes()[:100])
    out = tmp_path / "out"
    code, text, errors = run(
        *("segment", folder, "--things", 26, "--stuff", 7, "-o", out, "--images", pictures, "--json"),
    )
    assert code == 2
    found = json.loads(text)
    assert found["images"] == 2  # first, and the one without things
    assert {path.stem for path in out.glob("*.npy")} == {"first", "empty"}
    lines = {line.split(": ")[2]: line for line in errors.splitlines()[:-1]}
    assert lines.keys() == {"sizes", "numbers", "classes", "truth", "cut", "second"} == set(found["failed"])
    for name, message in {
        "sizes": "are not the same picture",
        "numbers": "not finite at row 0, column 0",
        "classes": "the class 99, which is not in things, stuff or void",
        "truth": "differ in size",
        "cut": "is not a .npz file",
        "second": "second.png is broken picture",
    }.items():
        assert message in lines[name]
    assert errors.splitlines()[-1] == "clusterfug: 6 of 8 images failed; the other 2 are finished"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the classes that have instances: --things 1"),
        (("--things", "a"), "--things must be whole numbers with commas"),
        (("--things", "26", "-t", "x"), "--threshold must be a number, or T,ID=T"),
        (("--things", "26", "-t", "5=0.4"), "--threshold has none for class 26"),
        (("--things", "26", "-a", "magic"), "unknown algorithm"),
        (("--things", "26", "--graph", "grid", "-a", "dlaec"), "unknown algorithm for --graph grid"),
        (("--things", "26", "--overlays"), "--overlays needs a folder"),
        (("--truth", "nowhere"), "must be a folder with Cityscapes' gtFine/, or a panoptic JSON"),
        (("--things", "26", "--images", "nowhere"), "is not a folder of pictures"),
        (("--things", "26", "-j", "0"), "--jobs must be at least 1"),
        (("--things", "26", "--offset", "0"), "--offset must be at least 1"),
        (("--things", "26", "-a", "gaec", "--time-limit", "3"), "--time-limit goes with refinement"),
    ],
)
def test_bad_calls_are_one_line(folder, run, arguments, message):
    code, out, errors = run("segment", folder, *arguments)
    assert (code, out) == (2, "")
    assert message in errors
    assert len(errors.splitlines()) == 1


def test_a_missing_extra_is_named(folder, tmp_path, run, monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    code, _, errors = run("segment", folder, "--things", 26, "-o", tmp_path / "o", "--overlays")
    assert code == 2
    assert "pip install 'clusterfug[segmentation]'" in errors
