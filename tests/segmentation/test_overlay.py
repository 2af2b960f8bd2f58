"""Overlays show matches and errors in their colours."""

import numpy as np

from clusterfug.segmentation.overlay import EDGE, MISSED, RIGHT, WRONG, overlay
from clusterfug.segmentation.panoptic import Panoptic


def test_overlay_shows_right_wrong_and_missed_segments():
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
    assert errors[5, 42].max() == 0  # background
    assert overlay(None, prediction, None, (1,)).shape[1] == 60 * zoom


def test_the_size_of_instance_numbers_does_not_matter():
    truth = Panoptic(np.ones((4, 30), dtype=int), np.repeat([1, 2, 3], 10)[None].repeat(4, axis=0))
    large = truth._replace(instance=np.array([0, 7, 2**62, 2**63 - 1])[truth.instance])
    sheet = overlay(None, truth, large, (1,))
    np.testing.assert_array_equal(sheet, overlay(None, truth, truth, (1,)))
