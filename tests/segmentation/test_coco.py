"""Files in COCO's panoptic format are read back as they were written, and broken ones are errors."""

import json

import numpy as np
import pytest
from makers import assert_same_street, street

from clusterfug.segmentation import Panoptic
from clusterfug.segmentation.coco import CocoTruth, CocoWriter, read_segment_ids


def test_coco_files_are_read_back_as_they_were_written(tmp_path, rng):
    maps = street()
    writer = CocoWriter(tmp_path, [24, 26], {26: "car"})
    writer.write("000000000139", maps, image_id=139, file_name="000000000139.jpg")
    truth = CocoTruth(writer.close())
    assert list(truth.annotations) == ["000000000139"]
    assert truth.image_file("000000000139") == "000000000139.jpg"
    assert (truth.things, truth.stuff) == ((24, 26), (7,))
    assert_same_street(truth.read("000000000139"), maps)


def test_coco_segments_have_the_areas_and_boxes_of_their_pixels(tmp_path, rng):
    maps = street()
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


def test_coco_errors_say_what_is_wrong_with_a_file(tmp_path, rng):
    writer = CocoWriter(tmp_path, [24, 26])
    writer.write("a", street())
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
    broken(lambda c: c["categories"][0].update(id="x"), "is not a panoptic JSON .* id is 'x'")
    broken(lambda c: c["annotations"][0][segments][0].pop("id"), "is not a panoptic JSON .* 'id'")
    broken(lambda c: c["annotations"][0][segments][0].update(category_id=None), "category_id is None")
    broken(lambda c: c["annotations"][0].update(image_id=[]), "is not a panoptic JSON")
    broken(lambda c: c["annotations"][0].update(file_name=3), "is not a panoptic JSON")
    broken(lambda c: c.update(images=3), "is not a panoptic JSON")
    path.write_text(json.dumps(content))
    picture.write_bytes(picture.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"a\.png is broken: "):
        CocoTruth(path).read("a")
    picture.unlink()
    with pytest.raises(FileNotFoundError, match="does not exist"):
        CocoTruth(path).read("a")
    path.write_text("[" * 100_000)
    with pytest.raises(ValueError, match="is not a panoptic JSON"):
        CocoTruth(path)
    path.write_bytes(b'{"categories": \xff' + 2000 * b"a")
    with pytest.raises(ValueError, match="bytes that are no text"):
        CocoTruth(path)
    path.write_text("{")
    with pytest.raises(ValueError, match="is not a panoptic JSON"):
        CocoTruth(path)


def test_coco_has_no_class_zero_and_ids_of_three_bytes(tmp_path):
    one = np.ones((1, 1), dtype=int)
    with pytest.raises(ValueError, match="class 0 has no segment id"):
        CocoWriter(tmp_path, [1]).write("a", Panoptic(0 * one, 0 * one))
    with pytest.raises(ValueError, match="too large for COCO's format: use a smaller offset"):
        CocoWriter(tmp_path, [90], offset=10**6).write("a", Panoptic(90 * one, one))


def test_a_discarded_image_is_not_in_the_json(tmp_path):
    writer = CocoWriter(tmp_path, [26], {26: "car"})
    for name in ("a", "b"):
        writer.write(name, street())
    writer.discard("a")
    assert list(CocoTruth(writer.close()).annotations) == ["b"]
