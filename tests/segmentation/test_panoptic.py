"""Ids, areas and boxes of the segments of a panoptic map."""

import numpy as np
import pytest

from clusterfug.segmentation.panoptic import Panoptic, list_segments


def test_segment_ids_are_class_times_offset_plus_number():
    semantic = np.array([[5, 5, 5, 2], [-1, 5, 2, 2]])
    instance = np.array([[3, 3, 7, 0], [0, 0, 0, 0]])
    found, ids = list_segments(Panoptic(semantic, instance), [5], offset=10)
    np.testing.assert_array_equal(ids, [[51, 51, 52, 20], [0, 50, 20, 20]])
    assert [(s.id, s.category, s.area, s.box, s.crowd) for s in found] == [
        (51, 5, 2, (0, 0, 2, 1), False),
        (52, 5, 1, (2, 0, 1, 1), False),
        (20, 2, 3, (2, 0, 2, 2), False),
        (50, 5, 1, (1, 1, 1, 1), True),
    ]
    with pytest.raises(ValueError, match="class 5 has 2 instances or more: choose an offset larger than 2"):
        list_segments(Panoptic(semantic, instance), [5], offset=2)
