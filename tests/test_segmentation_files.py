"""Segmentations in files: COCO, Cityscapes, .npz folders, overlays, and the command line over them."""

import json

import numpy as np
import PIL.Image
import pytest

from clusterfug.segmentation import Panoptic, Rules, panoptic_quality
from clusterfug.segmentation.cityscapes import find, from_train_ids, read_truth, write_instance_ids
from clusterfug.segmentation.coco import CocoTruth, CocoWriter, read_segment_ids
from clusterfug.segmentation.overlay import EDGE, MISSED, RIGHT, WRONG, overlay
from clusterfug.segmentation.pictures import read_ids, read_picture, write_picture
from clusterfug.segmentation.samples import find_samples, read_sample


def street(rng, height=12, width=18):
    """A map with people (24), cars (26), road (7), void, and a crowd of people."""
    semantic = np.full((height, width), 7)
    instance = np.zeros((height, width), dtype=int)
    semantic[:4, :6], instance[:4, :6] = 24, 1
    semantic[:4, 6:9], instance[:4, 6:9] = 24, 2
    semantic[5:9, 2:12], instance[5:9, 2:12] = 26, 3
    semantic[9:, :3] = 24  # nobody in particular
    semantic[:, -2:] = -1
    return Panoptic(semantic, instance)


def same(one, other):
    np.testing.assert_array_equal(one.semantic, other.semantic)
    assert panoptic_quality([one], [other], [24, 26], [7]).all.pq == 1.0
    np.testing.assert_array_equal(one.instance > 0, other.instance > 0)


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


def test_coco_files_read_back_as_what_was_written(tmp_path, rng):
    maps = street(rng)
    writer = CocoWriter(tmp_path, [24, 26], {26: "car"})
    writer.write("000000000139", maps, image_id=139, file_name="000000000139.jpg")
    truth = CocoTruth(writer.close())
    assert list(truth.annotations) == ["000000000139"]
    assert truth.image_file("000000000139") == "000000000139.jpg"
    assert (truth.things, truth.stuff) == ((24, 26), (7,))
    same(truth.read("000000000139"), maps)


def test_coco_segments_have_the_areas_and_boxes_of_their_pixels(tmp_path, rng):
    maps = street(rng)
    writer = CocoWriter(tmp_path, [24, 26], {26: "car"})
    writer.write("a", maps)
    content = json.loads(writer.close().read_text())
    assert {"images", "annotations", "categories"} <= content.keys()
    categories = {c["id"]: c for c in content["categories"]}
    assert categories[26]["name"] == "car"
    assert [categories[c]["isthing"] for c in (7, 24, 26)] == [0, 1, 1]
    (annotation,) = content["annotations"]
    assert content["images"][0] == {"id": "a", "file_name": "a", "height": 12, "width": 18}
    ids = read_segment_ids(tmp_path / "panoptic" / annotation["file_name"])
    infos = {info["id"]: info for info in annotation["segments_info"]}
    assert set(np.unique(ids)) == {0, *infos}
    np.testing.assert_array_equal(ids == 0, maps.semantic == -1)
    for number, info in infos.items():
        rows, columns = np.nonzero(ids == number)
        left, top, width, height = info["bbox"]
        assert info["area"] == len(rows)
        assert (left, top) == (columns.min(), rows.min())
        assert (left + width, top + height) == (columns.max() + 1, rows.max() + 1)
        assert np.all(maps.semantic[ids == number] == info["category_id"])
    assert [info["iscrowd"] for info in infos.values()].count(1) == 1
    assert {24001, 24002, 26001, 7000, 24000} == set(infos)


def test_coco_says_what_is_wrong_with_a_file(tmp_path, rng):
    writer = CocoWriter(tmp_path, [24, 26])
    writer.write("a", street(rng))
    path = writer.close()
    content = json.loads(path.read_text())
    picture = tmp_path / "panoptic" / "a.png"

    def broken(change, message):
        other = json.loads(json.dumps(content))
        change(other)
        path.write_text(json.dumps(other))
        with pytest.raises((ValueError, OSError), match=message):
            CocoTruth(path).read("a")

    segments = "segments_info"
    broken(lambda c: c["annotations"][0][segments].pop(), "shows a segment .* does not describe")
    broken(lambda c: c["annotations"][0][segments][0].update(id=5), "does not show segment 5 of a")
    broken(lambda c: c["annotations"][0][segments][0].update(category_id=99), "unknown category 99")
    broken(lambda c: c.pop("categories"), "is not a panoptic JSON as COCO has it")
    path.write_text(json.dumps(content))
    picture.write_bytes(picture.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"a\.png is not a readable picture"):
        CocoTruth(path).read("a")
    picture.unlink()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        CocoTruth(path).read("a")
    path.write_text("{")
    with pytest.raises(ValueError, match="is not a panoptic JSON"):
        CocoTruth(path)


def test_coco_has_no_class_zero_and_no_endless_ids(tmp_path):
    one = np.ones((1, 1), dtype=int)
    with pytest.raises(ValueError, match="class 0 has no segment id"):
        CocoWriter(tmp_path, [1]).write("a", Panoptic(0 * one, 0 * one))
    with pytest.raises(ValueError, match="too large for COCO's format: use a smaller offset"):
        CocoWriter(tmp_path, [90], offset=10**6).write("a", Panoptic(90 * one, one))


def test_cityscapes_files_read_back_as_what_was_written(tmp_path, rng):
    maps = street(rng)
    path = tmp_path / "x_instanceIds.png"
    write_instance_ids(path, maps)
    ids = read_ids(path)
    assert set(np.unique(ids)) == {0, 7, 24, 24001, 24002, 26001}
    same(read_truth(path), maps)
    with PIL.Image.open(path) as picture:
        assert picture.mode.startswith("I")  # 16 bits


def test_cityscapes_classes_that_are_not_evaluated_are_void(tmp_path):
    path = tmp_path / "x.png"
    write_picture(path, np.array([[29001, 5, 26, 26000]], dtype=np.uint16))
    truth = read_truth(path)
    np.testing.assert_array_equal(truth.semantic, [[-1, -1, 26, 26]])
    np.testing.assert_array_equal(truth.instance, [[0, 0, 0, 1]])
    write_picture(path, np.array([[35]], dtype=np.uint16))
    with pytest.raises(ValueError, match="has the class 35, which Cityscapes does not have"):
        read_truth(path)


def test_cityscapes_has_no_class_zero(tmp_path):
    zero = np.zeros((1, 1), dtype=int)
    with pytest.raises(ValueError, match="class 0 is void in Cityscapes' format"):
        write_instance_ids(tmp_path / "x.png", Panoptic(zero, zero + 1))


def test_train_ids_become_ids():
    np.testing.assert_array_equal(from_train_ids(np.array([[0, 13, 18, 255, -1]])), [[7, 26, 33, -1, -1]])


def city(root, rng, name="aachen_000000_000019"):
    for kind, ending in (("leftImg8bit", "leftImg8bit.png"), ("gtFine", "gtFine_instanceIds.png")):
        path = root / kind / "val" / "aachen" / f"{name}_{ending}"
        path.parent.mkdir(parents=True)
        if kind == "gtFine":
            write_instance_ids(path, street(rng))
        else:
            write_picture(path, rng.integers(256, size=(12, 18, 3), dtype=np.uint8))
    return name


def test_cityscapes_is_found_in_its_published_layout(tmp_path, rng):
    name = city(tmp_path, rng)
    files = find(tmp_path)
    assert list(files) == [name]
    assert read_picture(files[name].image).shape == (12, 18, 3)
    same(read_truth(files[name].truth), street(rng))
    with pytest.raises(FileNotFoundError, match="is not laid out as Cityscapes is"):
        find(tmp_path / "gtFine")


def test_cityscapes_end_to_end(tmp_path, rng, run):
    name = city(tmp_path / "data", rng)
    maps = street(rng)
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


def test_npz_files_need_embeddings_and_only_sometimes_classes(tmp_path, rng):
    file = tmp_path / "a.npz"
    np.savez(file, embeddings=rng.normal(size=(3, 4, 2)), truth_instance=np.eye(6, 8, dtype=int))
    sample = read_sample(file, Rules(things=[5]))
    assert np.all(sample.semantic == 5)
    np.testing.assert_array_equal(np.unique(sample.truth.semantic), [5, 6])
    with pytest.raises(ValueError, match="must hold an array 'semantic': there are 2 thing classes"):
        read_sample(file, Rules(things=[5, 6]))
    np.savez(file, features=np.zeros((2, 2)))
    with pytest.raises(ValueError, match="must hold an array 'embeddings'"):
        read_sample(file, Rules(things=[5]))
    file.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"a\.npz is not a \.npz file"):
        read_sample(file, Rules(things=[5]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"has no \.npz files"):
        find_samples(tmp_path / "empty", Rules(things=[5]))


def test_void_in_a_truth_is_void_whatever_number_it_has(tmp_path, rng):
    file = tmp_path / "a.npz"
    classes = np.array([[5, 5, 255, -1], [5, 5, -2, 9]])
    arrays = {"embeddings": rng.normal(size=(2, 4, 2)), "truth_semantic": classes}
    np.savez(file, truth_instance=classes == 5, **arrays)
    truth = read_sample(file, Rules(things=[5])).truth
    np.testing.assert_array_equal(truth.semantic, [[5, 5, -1, -1], [5, 5, -1, 9]])
    np.savez(file, truth_instance=np.full((2, 4), -3), **arrays)
    with pytest.raises(ValueError, match=r"the truth in a\.npz must be 0, 1, 2, .*: there is a -3"):
        read_sample(file, Rules(things=[5]))


def test_pictures_of_the_same_name_are_an_error(folder, tmp_path, run):
    for name in ("x/first.png", "y/first.png"):
        path = tmp_path / "pictures" / name
        path.parent.mkdir(parents=True)
        write_picture(path, np.zeros((16, 32, 3), dtype=np.uint8))
    code, _, errors = run("segment", folder, "--things", 26, "--images", tmp_path / "pictures")
    assert code == 2
    assert "are pictures of the same name" in errors


def test_a_picture_is_decoded_only_if_its_format_is_known(tmp_path):
    path = tmp_path / "x.png"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 4 4\n")
    with pytest.raises(ValueError, match=r"x\.png is not a readable picture"):
        read_picture(path)


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


def test_images_without_a_truth_are_said_to_be_without(folder, tmp_path, run):
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
    name = city(tmp_path / "data", rng)
    np.savez(tmp_path / f"{name}.npz", embeddings=np.ones((12, 18, 2)), semantic=np.full((12, 18), 23))
    arguments = ("segment", tmp_path / f"{name}.npz", "--truth", tmp_path / "data")
    assert "class 23, which is no train id" in run(*arguments, "--train-ids")[2]
    np.savez(tmp_path / f"{name}.npz", embeddings=np.ones((12, 18, 2)), semantic=np.full((12, 18), 5))
    assert "say --train-ids if classes are 0 to 18, or name it in --void" in run(*arguments)[2]
    assert run(*arguments, "--void", "5,255")[0] == 0


def test_overlay_shows_what_is_right_wrong_and_missed():
    truth = Panoptic(np.full((10, 60), 1), np.repeat([1, 2, 0], 20)[None].repeat(10, axis=0))
    truth.semantic[:, 40:] = 0
    predicted = np.zeros((10, 60), dtype=int)
    predicted[:, :18] = 1
    predicted[:, 45:55] = 2
    prediction = Panoptic(np.where(predicted > 0, 1, 0), predicted)
    image = np.zeros((10, 60, 3), dtype=np.uint8)
    sheet = overlay(image, prediction, truth, (1,))
    zoom = 7
    assert sheet.shape == (18 + 10 * zoom, 4 * 60 * zoom + 3 * 4, 3)
    errors = sheet[18:, 3 * (60 * zoom + 4) :][zoom // 2 :: zoom, zoom // 2 :: zoom]
    for column, paint in ((5, RIGHT), (19, EDGE), (30, MISSED), (50, WRONG)):
        np.testing.assert_allclose(errors[5, column], 0.65 * np.array(paint), atol=1)
    assert errors[5, 42].max() == 0  # nothing there
    assert overlay(None, prediction, None, (1,)).shape[1] == 60 * zoom


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


def test_bad_images_are_named_and_the_others_finish(folder, tmp_path, run):
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
        "second": "second.png is not a readable picture",
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
        (("--things", "26", "-a", "gaec", "--time-limit", "3"), "time_limit goes with refinement"),
    ],
)
def test_bad_calls_are_one_line(folder, run, arguments, message):
    code, out, errors = run("segment", folder, *arguments)
    assert (code, out) == (2, "")
    assert message in errors
    assert len(errors.splitlines()) == 1


def test_a_missing_extra_is_named(folder, tmp_path, run, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    monkeypatch.setitem(__import__("sys").modules, "PIL.Image", None)
    code, _, errors = run("segment", folder, "--things", 26, "-o", tmp_path / "o", "--overlays")
    assert code == 2
    assert "pip install 'clusterfug[segmentation]'" in errors
