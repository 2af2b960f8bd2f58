"""Panoptic quality against its definition written out, and against torchmetrics."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import panoptic_counts

from clusterfug.segmentation import panoptic_quality
from clusterfug.segmentation.panoptic import Panoptic

THINGS, STUFF = (1, 4), (2, 7)


def maps(rng, shape, classes, instances=4):
    """Blocky random maps: segments of some size, so that many match."""
    small = tuple(-(-side // 3) for side in shape)
    semantic = np.kron(rng.choice(classes, size=small), np.ones((3, 3), dtype=int))[: shape[0], : shape[1]]
    instance = np.kron(rng.integers(instances, size=small), np.ones((3, 3), dtype=int))[
        : shape[0], : shape[1]
    ]
    return semantic, instance


def disturbed(rng, semantic, instance, classes):
    """Another map that agrees in most pixels."""
    other = maps(rng, semantic.shape, classes)
    where = rng.random(semantic.shape) < 0.2
    return np.where(where, other[0], semantic), np.where(where, other[1], instance)


@given(st.integers(0, 10**6))
def test_counts_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    truths, predictions = [], []
    for _ in range(2):
        shape = tuple(rng.integers(1, 14, size=2))
        truths.append(maps(rng, shape, [-1, 1, 2, 3, 4, 7]))
        predictions.append(disturbed(rng, *truths[-1], [-1, 1, 2, 3, 4, 7]))
    found = panoptic_quality(predictions, truths, THINGS, STUFF)
    for c, (iou, tp, fp, fn) in panoptic_counts(predictions, truths, THINGS, STUFF).items():
        row = found.classes[c]
        assert (row.tp, row.fp, row.fn) == (tp, fp, fn)
        if tp + fp + fn:
            assert row.pq == pytest.approx(iou / (tp + fp / 2 + fn / 2))
            assert row.pq == pytest.approx(row.sq * row.rq)
        else:
            assert np.isnan(row.pq)


@pytest.mark.parametrize("void", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_equals_torchmetrics(seed, void):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    detection = pytest.importorskip("torchmetrics.detection", reason="torchmetrics is not installed")
    rng = np.random.default_rng(seed)
    known = [1, 2, 4, 7]
    truths, predictions = [], []
    for _ in range(3):
        truths.append(maps(rng, (30, 24), known, instances=6))
        predictions.append(disturbed(rng, *truths[-1], known))
    if void:
        truths = [(np.where(rng.random(s.shape) < 0.2, -1, s), i) for s, i in truths]
    metric = detection.PanopticQuality(
        things=set(THINGS), stuffs=set(STUFF), return_sq_and_rq=True, return_per_class=True
    )
    for (ps, pi), (ts, ti) in zip(predictions, truths, strict=True):
        # There 99 is an unknown class, which is void in a truth; here instance 0 of a thing is a crowd.
        target = np.stack([np.where(ts < 0, 99, ts), ti + 1], axis=2)[None]
        metric.update(torch.tensor(np.stack([ps, pi + 1], axis=2)[None]), torch.tensor(target))
    theirs = metric.compute().numpy()
    shifted = [[(s, i + 1) for s, i in maps] for maps in (predictions, truths)]
    ours = panoptic_quality(*shifted, THINGS, STUFF)
    for c, row in zip((*THINGS, *STUFF), theirs, strict=True):
        np.testing.assert_allclose(ours.classes[c][:3], row, rtol=1e-6)
    assert ours.all.pq == pytest.approx(theirs[:, 0].mean())


def test_a_perfect_prediction_scores_one_and_an_empty_one_zero():
    semantic = np.array([[1, 1, 1, 2]])
    instance = np.array([[1, 1, 2, 0]])
    perfect = panoptic_quality([(semantic, instance)], [Panoptic(semantic, instance)], [1], [2])
    assert perfect.things == (1.0, 1.0, 1.0, 2, 0, 0)
    assert perfect.all.pq == 1.0
    nothing = np.full_like(semantic, -1)
    empty = panoptic_quality([(nothing, nothing)], [(semantic, instance)], [1], [2])
    assert empty.things == (0.0, 0.0, 0.0, 0, 0, 2)


def test_the_size_of_numbers_does_not_matter():
    large = np.array([0, 5, 2**62, 2**63 - 1])
    truth = (np.array([[1, 1, 2, 3, 2]]), np.array([[0, 1, 2, 3, 1]]))
    prediction = (np.array([[1, 1, 2, 3, 1]]), np.array([[1, 1, 2, 3, 1]]))
    expected = panoptic_quality([prediction], [truth], [1, 2, 3])
    found = panoptic_quality(
        [(prediction[0] * 10**6, prediction[1])],
        [(truth[0] * 10**6, large[truth[1]])],
        [10**6, 2 * 10**6, 3 * 10**6],
    )
    assert list(found.classes.values()) == list(expected.classes.values())


def test_images_are_pooled_not_averaged():
    one = (np.ones((1, 4), dtype=int), np.array([[1, 2, 3, 4]]))
    other = (np.ones((1, 1), dtype=int), np.array([[1]]))
    nothing = (np.zeros((1, 1), dtype=int), np.array([[0]]))
    found = panoptic_quality([one, nothing], [one, other], [1])
    assert found.things.pq == pytest.approx(4 / 4.5)


def test_a_prediction_in_the_background_is_wrong_but_one_in_void_or_in_a_crowd_is_excused():
    predicted = (np.array([[1, 1, 0, 0]]), np.array([[1, 1, 0, 0]]))
    background = (np.array([[5, 5, 5, 5]]), np.zeros((1, 4), dtype=int))
    void = (np.array([[-1, -1, 5, 5]]), np.zeros((1, 4), dtype=int))
    crowd = (np.array([[1, 1, 5, 5]]), np.zeros((1, 4), dtype=int))
    for truth, wrong in ((background, 1), (void, 0), (crowd, 0)):
        assert panoptic_quality([predicted], [truth], [1]).things[3:] == (0, wrong, 0)


def test_sizes_must_agree():
    one, other = np.zeros((2, 3), dtype=int), np.zeros((3, 2), dtype=int)
    with pytest.raises(ValueError, match="prediction and truth differ in size: 2 x 3 and 3 x 2"):
        panoptic_quality([(one, one)], [(other, other)], [1])
    with pytest.raises(ValueError, match="classes and instances of truth 0 differ in size"):
        panoptic_quality([(one, one)], [(one, other)], [1])
    with pytest.raises(TypeError, match="the classes of prediction 0 must be whole numbers, not float64"):
        panoptic_quality([(one * 1.0, one)], [(one, one)], [1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], [], [-1]), "things must be at least 0, not -1"),
        (([], [], [1], [1]), "class 1 is in things and in stuff"),
        (([], [(np.ones((1, 1), int),) * 2], [1]), "predictions and truths must be as many"),
        (((np.ones((3, 1), int),) * 2, (np.ones((3, 1), int),) * 2, [1]), "must be a pair of maps"),
    ],
)
def test_bad_calls_are_one_line(arguments, message):
    with pytest.raises(ValueError, match=message):
        panoptic_quality(*arguments)


def test_json_has_no_nan():
    one = np.ones((1, 1), dtype=int)
    found = panoptic_quality([(one, one)], [(one, one)], [1, 3]).as_dict()
    assert found["classes"]["3"]["pq"] is None
    assert found["things"]["pq"] == 1.0
