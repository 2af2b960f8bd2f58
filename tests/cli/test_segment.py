"""`clusterfug segment`: what it writes is what it scores, and images that fail are named."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from makers import street, write_cityscapes

from clusterfug.io.files import lock
from clusterfug.segmentation import Rules, segment_many
from clusterfug.segmentation.cityscapes import read_truth
from clusterfug.segmentation.coco import CocoTruth
from clusterfug.segmentation.outputs import LIST, SegmentationWriter
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


def contents(folder):
    """Return the files below a folder, except the list of results."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: files[name].read_bytes() for name in sorted(files) if name != LIST}


def listed(folder):
    """Return the names in the list of results."""
    return json.loads((folder / LIST).read_text())


def ends_after_one(error):
    """Return a `segment_many` that raises an error after the first image."""

    def outcomes(*arguments, **options):
        yield next(iter(segment_many(*arguments, **options)))
        raise error

    return outcomes


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


def test_a_folder_with_an_input_is_never_written_to(folder, tmp_path, run):
    out, outside = tmp_path / "out", tmp_path / "outside"
    command = ("segment", folder, "--things", 26, "--format", "coco", "--overlays")
    assert run(*command, "-o", out)[0] == 0
    (tmp_path / "link").symlink_to(out)
    (tmp_path / "linked").mkdir()
    for path in (out / "overlays").iterdir():
        (tmp_path / "linked" / path.name).symlink_to(path)
    before = contents(out)
    for pictures, place in (
        (out / "overlays", out),
        (out / "panoptic", out),
        (tmp_path / "link" / "overlays", out),
        (out / "overlays", tmp_path / "link"),
        (tmp_path / "linked", out),
    ):
        code, text, errors = run(*command, "--images", pictures, "-o", place, "--overwrite")
        assert (code, text) == (2, "")
        assert f"clusterfug: error: cannot write to {place}: the input {pictures}" in errors
        assert errors.endswith(" is in it; choose another folder\n")
        assert contents(out) == before
    (out / "overlays").rename(outside)
    (out / "overlays").symlink_to(outside)
    for path in outside.iterdir():
        write_picture(path, np.zeros((16, 32, 3), dtype=np.uint8))
    before = contents(outside)
    code, _, errors = run(*command, "--images", outside, "-o", out, "--overwrite")
    assert (code, f"the input {outside / 'first.png'} is in it" in errors) == (2, True)
    assert contents(outside) == before
    (out / "overlays").unlink()
    assert run(*command, "--images", outside, "-o", out, "--overwrite")[0] == 0
    assert contents(outside) == before


def test_a_folder_with_a_link_that_is_an_input_is_never_written_to(folder, tmp_path, run):
    out = tmp_path / "out"
    command = ("segment", folder, "--things", 26, "--format", "coco", "--overwrite", "-o", out)
    assert run(*command)[0] == 0
    (tmp_path / "panoptic").mkdir()
    (out / "panoptic.json").replace(tmp_path / "elsewhere.json")
    (out / "panoptic.json").symlink_to(tmp_path / "elsewhere.json")
    code, _, errors = run(*command, "--truth", out / "panoptic.json")
    assert (code, "is in it; choose another folder" in errors) == (2, True)
    assert (out / "panoptic.json").is_symlink()


def test_samples_are_never_in_the_output_folder(folder, run):
    for source in (folder, folder / "first.npz"):
        code, _, errors = run("segment", source, "--things", 26, "-o", folder, "--overwrite")
        assert code == 2
        assert f"cannot write to {folder}: the input {folder / 'first.npz'} is in it" in errors
    assert list(contents(folder)) == ["first.npz", "second.npz"]
    code, _, errors = run("segment", folder, "--things", 26, "-o", folder / "first.npz")
    assert (code, "first.npz: it is not a folder" in errors) == (2, True)


def test_the_truth_is_never_overwritten(folder, tmp_path, rng, run):
    run("segment", folder, "--things", 26, "--format", "coco", "-o", tmp_path / "data")
    before = (tmp_path / "data" / "panoptic.json").read_bytes()
    for form in ("coco", "npy"):
        code, _, errors = run(
            *("segment", folder, "--truth", tmp_path / "data" / "panoptic.json"),
            *("--format", form, "-o", tmp_path / "data", "--overwrite"),
        )
        assert code == 2
        assert f"the input {tmp_path / 'data' / 'panoptic'}" in errors
        assert "is in it; choose another folder" in errors
    assert (tmp_path / "data" / "panoptic.json").read_bytes() == before
    name = write_cityscapes(tmp_path / "city", rng)
    place = tmp_path / "city" / "gtFine" / "val" / "aachen"
    arguments = ("segment", folder / "first.npz", "--truth", tmp_path / "city", "-o", place, "--overwrite")
    (folder / "first.npz").rename(folder / f"{name}.npz")
    assert (
        "is in it; choose another folder" in run(*arguments[:1], folder / f"{name}.npz", *arguments[2:])[2]
    )
    assert len(list(place.iterdir())) == 1


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
        tmp_path / "out",
        "--json",
    )
    assert code == 2
    found = json.loads(out)
    assert (found["images"], found["quality"]) == (0, None)
    assert not (tmp_path / "out").exists()


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


def test_a_picture_without_pixels_is_an_error(folder, run):
    arrays = dict(np.load(folder / "first.npz"))
    np.savez(folder / "first.npz", **(arrays | {"image": np.zeros((0, 0, 3), dtype=np.uint8)}))
    code, _, errors = run("segment", folder, "--things", 26)
    assert code == 2
    assert "'image' must be height x width x 3 bytes, not uint8 (0, 0, 3)" in errors


def test_a_failed_image_leaves_no_old_result(folder, tmp_path, run):
    out = tmp_path / "out"
    for form, written in (("npy", "*.npy"), ("coco", "panoptic/*.png"), ("cityscapes", "*Ids.png")):
        command = ("segment", folder, "--things", 26, "--format", form, "-o", out, "--overwrite")
        run(*command, "--overlays")
        assert len(list(out.glob(written))) == 2
        good = (folder / "first.npz").read_bytes()
        np.savez(folder / "first.npz", embeddings=np.full((8, 16, 5), np.nan))
        run(*command, "--overlays")
        assert [path.name[:6] for path in out.glob(written)] == ["second"]
        assert {path.name for path in (out / "overlays").iterdir()} == {"second.png"}
        (folder / "first.npz").write_bytes(good)


def test_results_go_to_a_new_or_empty_folder_unless_they_replace_those_of_an_earlier_run(
    folder, tmp_path, run
):
    out = tmp_path / "out"
    out.mkdir()
    command = ("segment", folder, "--things", 26, "-o", out)
    assert run(*command, "--format", "coco", "--overlays")[0] == 0
    before = contents(out)
    assert len(before) == 5
    code, text, errors = run(*command)
    assert (code, text) == (2, "")
    assert "out: it is not empty; choose another folder, or say --overwrite to replace" in errors
    assert len(errors.splitlines()) == 1
    assert contents(out) == before
    (folder / "second.npz").rename(folder / "third.npz")
    assert run(*command, "--overwrite")[0] == 0
    assert list(contents(out)) == ["first.npy", "third.npy"]
    assert {path.name for path in out.iterdir()} == {LIST, "first.npy", "third.npy"}
    assert listed(out) == ["first.npy", "third.npy"]


def test_files_that_are_no_results_are_never_overwritten(folder, tmp_path, run):
    out = tmp_path / "out"
    command = ("segment", folder, "--things", 26, "--overlays", "-o", out, "--overwrite")
    assert run(*command)[0] == 0
    (out / "panoptic").mkdir()
    for name in (
        *("notes.txt", "overlays/notes.txt", "first.npz", "features.npy", "panoptic.json"),
        *("first_instanceIds.png", "overlays/x.png", "panoptic/first.png"),
    ):
        (out / name).write_bytes((out / "first.npy").read_bytes())  # not written by a run under this name
        before = contents(out)
        code, _, errors = run(*command)
        assert code == 2
        assert f"{out / name} is no result; choose another folder" in errors
        assert contents(out) == before
        (out / name).unlink()
    (out / ".hidden").touch()
    assert run(*command)[0] == 0
    assert (out / ".hidden").exists()


def test_results_are_those_that_the_list_names(folder, tmp_path, run):
    out = tmp_path / "out"
    command = ("segment", folder, "--things", 26, "-o", out, "--overwrite")
    assert run(*command)[0] == 0
    assert listed(out) == ["first.npy", "second.npy"]
    (out / LIST).unlink()
    before = contents(out)
    code, _, errors = run(*command)
    assert code == 2
    assert f"cannot overwrite {out}: {out}" in errors
    assert "no result; choose another folder" in errors
    assert contents(out) == before


@pytest.mark.parametrize(
    "content",
    [
        *(
            "",
            '["first.npy"',
            "{}",
            "[1]",
            '["../first.npz"]',
            '["first.npz"]',
            '["notes.txt"]',
            "[" * 10**5,
        ),
        *('["x/first.npy"]', '["overlays/../x.png"]', '["/x.npy"]', '[".."]', "\udcff"),
    ],
)
def test_a_damaged_list_is_named(folder, tmp_path, run, content):
    out = tmp_path / "out"
    command = ("segment", folder, "--things", 26, "-o", out, "--overwrite")
    assert run(*command)[0] == 0
    (out / LIST).write_text(content, errors="surrogateescape")
    before = contents(tmp_path)
    code, text, errors = run(*command)
    assert (code, text) == (2, "")
    message = f"cannot write to {out}: its list {out / LIST} is damaged; choose another folder"
    assert errors == f"clusterfug: error: {message}\n"
    assert contents(tmp_path) == before


def test_a_list_that_is_a_folder_is_damaged(folder, tmp_path, run):
    (tmp_path / "out" / LIST).mkdir(parents=True)
    code, _, errors = run("segment", folder, "--things", 26, "-o", tmp_path / "out")
    assert (code, f"{LIST} is damaged" in errors) == (2, True)


def test_the_list_names_every_result_at_any_time(folder, tmp_path, run, monkeypatch):
    out, seen = tmp_path / "out", []
    command = ("segment", folder, "--things", 26, "--overlays", "-o", out, "--overwrite")
    assert run(*command, "--format", "coco")[0] == 0
    old = set(listed(out))

    def checked(call):
        def check(path, *arguments, **options):
            result = call(path, *arguments, **options)
            seen.append({name for name in contents(out) if not name.startswith(".segment.")})
            assert seen[-1] <= set(listed(out))
            return result

        return check

    for name in ("replace", "unlink"):
        monkeypatch.setattr(Path, name, checked(getattr(Path, name)))
    assert run(*command)[0] == 0
    assert any(old - names and names - old for names in seen)
    assert set(listed(out)) == {"first.npy", "second.npy", "overlays/first.png", "overlays/second.png"}


def test_hidden_files_are_never_replaced(folder, tmp_path, run):
    out = tmp_path / "out"
    out.mkdir()
    (folder / "first.npz").rename(folder / ".first.npz")
    (out / ".first.npy").write_bytes(b"not a result")
    command = ("segment", folder, "--things", 26, "-o", out)
    code, _, errors = run(*command)
    assert (code, f"{out / '.first.npy'} is no result" in errors) == (2, True)
    assert contents(out) == {".first.npy": b"not a result"}
    (out / ".first.npy").unlink()
    assert run(*command)[0] == 0
    (out / "second.npy").unlink()
    code, _, errors = run(*command)
    assert (code, "it is not empty" in errors) == (2, True)
    assert run(*command, "--overwrite")[0] == 0
    assert listed(out) == [".first.npy", "second.npy"]


@pytest.mark.parametrize("form", ["npy", "coco", "cityscapes"])
def test_an_error_in_the_middle_of_a_run_changes_nothing(folder, tmp_path, run, monkeypatch, form):
    out = tmp_path / "out"
    command = ("segment", folder, "--things", 26, "--format", form, "-o", out, "--overlays")
    with monkeypatch.context() as patch:
        patch.setattr("clusterfug.segmentation.segment_many", ends_after_one(MemoryError("memory is full")))
        code, _, errors = run(*command)
        assert (code, errors) == (2, "clusterfug: error: memory is full\n")
        assert not out.exists()
    assert run(*command)[0] == 0
    before = contents(out)
    monkeypatch.setattr("clusterfug.segmentation.segment_many", ends_after_one(MemoryError()))
    assert run(*command, "--overwrite", "--min-size", 500)[0] == 2
    assert contents(out) == before
    assert [path.name for path in out.iterdir() if path.name.startswith(".")] == [LIST]


def test_folders_of_killed_runs_are_removed_by_the_next_run_that_ends(folder, tmp_path, run, monkeypatch):
    out = tmp_path / "out"
    (out / ".segment.killed" / "panoptic").mkdir(parents=True)
    (out / ".segment.running").mkdir()
    command = ("segment", folder, "--things", 26, "--format", "coco", "-o", out)
    with monkeypatch.context() as patch, (out / ".segment.running" / "lock").open("w") as held:
        lock(held, "")
        patch.setattr("clusterfug.segmentation.segment_many", ends_after_one(MemoryError()))
        assert run(*command)[0] == 2
        assert {path.name for path in out.iterdir()} == {".segment.killed", ".segment.running"}
        patch.undo()
        assert run(*command)[0] == 0
    assert {path.name for path in out.iterdir()} == {".segment.running", LIST, "panoptic", "panoptic.json"}


def test_a_writer_makes_no_folder_before_it_is_entered(tmp_path):
    SegmentationWriter(tmp_path / "out", "coco", Rules(things=[1]))
    assert not (tmp_path / "out").exists()


def test_finished_images_are_kept_after_an_interrupt(folder, tmp_path, run, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr("clusterfug.segmentation.segment_many", ends_after_one(KeyboardInterrupt()))
    code, _, errors = run("segment", folder, "--things", 26, "--format", "coco", "-o", out)
    assert (code, errors) == (130, f"clusterfug: interrupted; 1 images are finished in {out}\n")
    assert list(contents(out)) == ["panoptic.json", "panoptic/first.png"]
    assert list(CocoTruth(out / "panoptic.json").annotations) == ["first"]


@pytest.mark.parametrize("form", ["npy", "coco"])
def test_an_interrupt_between_the_files_of_an_image_leaves_none(folder, tmp_path, run, monkeypatch, form):
    def interrupt(path, array):
        write_picture(path, array)
        if path.parts[-2:] == ("overlays", "second.png"):
            raise KeyboardInterrupt

    monkeypatch.setattr("clusterfug.segmentation.outputs.write_picture", interrupt)
    out = tmp_path / "out"
    code, _, _ = run("segment", folder, "--things", 26, "--format", form, "-o", out, "--overlays")
    assert code == 130
    names = {Path(name).stem for name in contents(out)}
    assert names == ({"first", "panoptic"} if form == "coco" else {"first"})


def test_results_of_a_run_that_ended_meanwhile_are_not_overwritten(tmp_path):
    out, maps = tmp_path / "out", street()
    with SegmentationWriter(out, "npy", Rules(things=(26,))) as late:
        with SegmentationWriter(out, "npy", Rules(things=(26,))) as early:
            early.write(SimpleNamespace(name="a"), maps)
            early.close()
        before = contents(out)
        late.write(SimpleNamespace(name="a"), maps)
        with pytest.raises(FileExistsError, match="it is not empty"):
            late.close()
    assert "a.npy" in before
    assert contents(out) == {"a.npy": before["a.npy"]}


def test_the_json_describes_the_images_that_are_there(folder, tmp_path, run, monkeypatch):
    def fail(path, array):
        if path.parts[-2:] == ("overlays", "second.png"):
            raise OSError("the disk is full")
        write_picture(path, array)

    monkeypatch.setattr("clusterfug.segmentation.outputs.write_picture", fail)
    out = tmp_path / "out"
    code, _, errors = run("segment", folder, "--things", 26, "--format", "coco", "-o", out, "--overlays")
    assert code == 2
    assert "second: the disk is full" in errors
    assert list(contents(out)) == ["overlays/first.png", "panoptic.json", "panoptic/first.png"]
    assert list(CocoTruth(out / "panoptic.json").annotations) == ["first"]


def test_samples_of_the_same_name_are_an_error(folder, tmp_path, run):
    first = folder / "first.npz"
    (folder / "first_leftImg8bit.npz").write_bytes(first.read_bytes())
    code, out, errors = run("segment", folder, "--things", 26, "-o", tmp_path / "out")
    assert (code, out) == (2, "")
    assert f"{first} and {folder / 'first_leftImg8bit.npz'} are samples of the same name" in errors
    assert not (tmp_path / "out").exists()


def test_a_foreground_probability_is_all_that_one_thing_class_needs(folder, run):
    for file in folder.glob("*.npz"):
        arrays = dict(np.load(file))
        foreground = np.where(arrays["truth_instance"] > 0, 0.9, 0.1)
        kept = {name: arrays[name] for name in ("embeddings", "image", "truth_instance")}
        np.savez(file, semantic=np.full((16, 32), 26), confidence=foreground, **kept)
    command = ("segment", folder, "--things", 26, "--json")
    default, low, all_pixels = (
        json.loads(run(*command, *option)[1])
        for option in ((), ("--min-confidence", 0.05), ("--min-confidence", 0))
    )
    assert default["quality"]["things"]["pq"] == 1.0
    assert (default["instances"], low["instances"], all_pixels["instances"]) == (6, 8, 8)
    for step in (1, 2):  # at the resolution of the image, and at that of the embeddings
        for file in folder.glob("*.npz"):
            arrays = {name: array for name, array in np.load(file).items() if name != "semantic"}
            np.savez(file, **(arrays | {"confidence": arrays["confidence"][::step, ::step]}))
        assert json.loads(run(*command)[1])["quality"]["things"]["pq"] == 1.0
    np.savez(file, **(arrays | {"confidence": (255 * arrays["confidence"]).astype(np.uint8)}))
    errors = run(*command)[2]
    assert "confidence must be between 0 and 1, not 229: scale it (bytes: divide them by 255)" in errors


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


def classes_named(folder, tmp_path, run, names):
    """Write a COCO truth with categories of these names; return the rows of the table of qualities."""
    classes = range(26, 26 + len(names))
    for file in folder.glob("*.npz"):
        arrays = dict(np.load(file))
        instance = arrays["truth_instance"]
        semantic = np.where(instance > 0, 26 + (instance - 1) % len(names), 7)
        np.savez(file, **(arrays | {"semantic": semantic, "truth_semantic": semantic}))
    things = ",".join(map(str, classes))
    run("segment", folder, "--things", things, "--format", "coco", "-o", tmp_path / "data")
    path = tmp_path / "data" / "panoptic.json"
    content = json.loads(path.read_text())
    content["categories"] = [
        {"id": 7, "name": "road", "isthing": 0},
        *({"id": c, "name": name, "isthing": 1} for c, name in zip(classes, names, strict=True)),
    ]
    path.write_text(json.dumps(content))
    code, text, errors = run("segment", folder, "--truth", path)
    assert (code, errors) == (0, "")
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("class "))
    rows = [line.rsplit(maxsplit=6) for line in lines[start + 1 :]]
    return [(row[0], int(row[4])) for row in rows]


def test_every_class_has_a_row_whatever_its_name(folder, tmp_path, run):
    rows = classes_named(folder, tmp_path, run, ["all", "lamp", "lamp"])
    means = [("things", 6), ("stuff", 2), ("all", 8)]
    assert sorted(rows[:4]) == [("all", 2), ("lamp", 2), ("lamp", 2), ("road", 2)]
    assert rows[4:] == means


def test_names_of_classes_are_no_markup(folder, tmp_path, run):
    rows = classes_named(folder, tmp_path, run, ["lamp [/post]", "lamp [post]", "[/]"])
    assert {name for name, _ in rows} == {
        *("lamp [/post]", "lamp [post]", "[/]"),
        *("road", "things", "stuff", "all"),
    }


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
        "second": "second.png is broken: ",
    }.items():
        assert message in lines[name]
    assert errors.splitlines()[-1] == "clusterfug: 6 of 8 images failed; the other 2 are finished"


def test_an_image_whose_name_has_a_line_break_is_named_in_one_line(folder, tmp_path, run):
    (folder / "first.npz").rename(folder / "fi\nrst.npz")
    out = tmp_path / "out"
    command = ("segment", folder, "--things", 26, "-o", out)
    assert run(*command)[0] == 0
    assert run(*command, "--overwrite")[0] == 0
    assert list(contents(out)) == ["fi\nrst.npy", "second.npy"]
    np.savez(folder / "fi\nrst.npz", embeddings=np.full((8, 16, 5), np.nan))
    code, _, errors = run(*command, "--overwrite")
    assert code == 2
    first, last = errors.splitlines()
    assert first.startswith("clusterfug: error: fi rst: ")
    assert last == "clusterfug: 1 of 2 images failed; the other 1 are finished"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name the classes that have instances: --things 1"),
        (("--things", "9" * 20), f"--things must be at most 2147483647, not {'9' * 20}"),
        (("--things", "a"), "--things must be whole numbers with commas"),
        (("--things", "26", "-t", "x"), "--threshold must be a number, or T,ID=T"),
        (("--things", "26", "-t", "5=0.4"), "--threshold has none for class 26"),
        (("--things", "26", "-a", "magic"), "unknown algorithm"),
        (("--things", "26", "--graph", "grid", "-a", "dlaec"), "unknown algorithm for --graph grid"),
        (("--things", "26", "--overlays"), "--overlays needs a folder to write to: -o FOLDER"),
        (("--things", "26", "--overwrite"), "--overwrite needs a folder to write to: -o FOLDER"),
        (("--things", "26", "--min-confidence", "5"), "--min-confidence must be between 0 and 1, not 5"),
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
