"""Files of Cityscapes are found, read and written in the published layout."""

import numpy as np
import PIL.Image
import pytest
from makers import assert_same_street, street, write_cityscapes

from clusterfug.segmentation import Panoptic
from clusterfug.segmentation.cityscapes import (
    find_cityscapes,
    from_train_ids,
    read_truth,
    write_instance_ids,
)
from clusterfug.segmentation.pictures import read_ids, read_picture, write_picture


def test_cityscapes_files_are_read_back_as_they_were_written(tmp_path, rng):
    maps = street()
    path = tmp_path / "x_instanceIds.png"
    write_instance_ids(path, maps)
    ids = read_ids(path)
    assert set(np.unique(ids)) == {0, 7, 24, 24001, 24002, 26001}
    assert_same_street(read_truth(path), maps)
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


def test_cityscapes_is_found_in_its_published_layout(tmp_path, rng):
    name = write_cityscapes(tmp_path, rng)
    files = find_cityscapes(tmp_path)
    assert list(files) == [name]
    assert read_picture(files[name].image).shape == (12, 18, 3)
    assert_same_street(read_truth(files[name].truth), street())
    with pytest.raises(FileNotFoundError, match="is not laid out as Cityscapes is"):
        find_cityscapes(tmp_path / "gtFine")
