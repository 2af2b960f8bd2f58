"""Samples are read from .npz files, and incomplete files are errors."""

import numpy as np
import pytest

from clusterfug.segmentation import Rules
from clusterfug.segmentation.samples import find_samples, read_sample


def test_npz_files_need_embeddings_and_classes_unless_there_is_one_thing_class(tmp_path, rng):
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


def test_all_void_numbers_of_a_truth_become_void(tmp_path, rng):
    file = tmp_path / "a.npz"
    classes = np.array([[5, 5, 255, -1], [5, 5, -2, 9]])
    arrays = {"embeddings": rng.normal(size=(2, 4, 2)), "truth_semantic": classes}
    np.savez(file, truth_instance=classes == 5, **arrays)
    truth = read_sample(file, Rules(things=[5])).truth
    np.testing.assert_array_equal(truth.semantic, [[5, 5, -1, -1], [5, 5, -1, 9]])
    np.savez(file, truth_instance=np.full((2, 4), -3), **arrays)
    with pytest.raises(ValueError, match=r"the truth in a\.npz must be 0, 1, 2, .*: there is a -3"):
        read_sample(file, Rules(things=[5]))
