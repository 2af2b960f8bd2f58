"""Problems and maps of one image against the same steps written out naively."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from makers import assert_same_clusters, scene
from reference import interpolation
from scipy import ndimage

from clusterfug import dense_multicut
from clusterfug.segmentation import Rules, segment
from clusterfug.segmentation.image import Image, connected_regions


def test_every_pixel_is_assigned_to_the_most_similar_mean_of_its_class(rng):
    embeddings, semantic, _ = scene(rng, height=6, width=8)
    fine = np.kron(semantic, np.ones((4, 4), dtype=int))
    result = segment(embeddings, fine, [1, 2], metric="inner_product")
    full = interpolation(embeddings, fine.shape)
    number = 0
    expected = np.zeros(fine.shape, dtype=int)
    for c in (1, 2):
        nodes = embeddings[semantic == c]
        labels = dense_multicut(nodes, 0.4, metric="inner_product").labels
        means = np.array([nodes[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
        expected[fine == c] = number + 1 + np.argmax(full[fine == c] @ means.T, axis=1)
        number += len(means)
    assert_same_clusters(result.instance.ravel(), expected.ravel())


def test_repeated_labels_are_those_of_the_nodes(rng):
    embeddings, semantic, _ = scene(rng)
    coarse = segment(embeddings, semantic, [1, 2], upsample="labels")
    fine = segment(embeddings, semantic, [1, 2], upsample="labels", shape=(24, 32))
    np.testing.assert_array_equal(fine.instance, np.kron(coarse.instance, np.ones((2, 2), dtype=int)))


def test_position_is_minus_the_squared_distance(rng):
    embeddings = rng.normal(size=(5, 9, 3))
    semantic = np.ones((5, 9), dtype=int)
    rules = Rules(things=[1], threshold=0.3, position=2.5, metric="inner_product")
    problem = Image(rules, embeddings, semantic).problems[1]
    flat = embeddings.reshape(-1, 3)
    place = np.argwhere(semantic) / 9
    distance = ((place[:, None] - place) ** 2).sum(axis=2)
    costs = flat @ flat.T - 0.3 - 2.5 * distance
    np.fill_diagonal(costs, 0.0)
    labels = rng.integers(4, size=45)
    same = labels[:, None] == labels
    assert problem.inside(labels) == pytest.approx(costs[same].sum() / 2)


def test_position_separates_pixels_far_apart_with_equal_embeddings():
    embeddings = np.zeros((4, 20, 2))
    embeddings[:, :4] = embeddings[:, -4:] = [1, 0]
    semantic = np.where(embeddings[:, :, 0] > 0, 1, 0)
    assert segment(embeddings, semantic, [1]).n_instances == 1
    for shape in (None, (8, 40)):
        result = segment(embeddings, semantic, [1], position=2, shape=shape)
        assert result.n_instances == 2
        assert len(np.unique(result.instance[:, : result.instance.shape[1] // 2])) == 2  # and 0


def test_connected_splits_instances_into_regions():
    embeddings = np.zeros((4, 20, 2))
    embeddings[:, :4] = embeddings[:, -4:] = [1, 0]
    semantic = np.where(embeddings[:, :, 0] > 0, 1, 0)
    assert segment(embeddings, semantic, [1], connected=True).n_instances == 2


@given(st.integers(0, 10**6))
def test_connected_regions_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    instance = rng.integers(0, 4, size=rng.integers(1, 9, size=2))
    found = connected_regions(instance)
    expected = np.zeros_like(instance)
    for k in range(1, 4):
        regions, _ = ndimage.label(instance == k)
        expected[regions > 0] = expected.max() + regions[regions > 0]
    assert_same_clusters(found.ravel(), expected.ravel())
    np.testing.assert_array_equal(found == 0, instance == 0)


def test_small_instances_and_uncertain_pixels_become_void(rng):
    embeddings, semantic, _ = scene(rng)
    embeddings[0, 0] = -embeddings[0, 0]  # a cluster of one pixel
    assert segment(embeddings, semantic, [1, 2]).n_instances == 7
    result = segment(embeddings, semantic, [1, 2], min_size=2)
    assert result.n_instances == 6
    assert result.semantic[0, 0] == -1
    confidence = np.ones(semantic.shape)
    confidence[:, :5] = 0.2
    result = segment(embeddings, semantic, [1, 2], confidence=confidence, min_confidence=0.5)
    assert np.all(result.semantic[:, :5] == -1)
    assert np.all(result.instance[:, :5] == 0)
    assert result.n_instances == 4
    assert np.all(result.semantic[:, -2:] == 3)


def test_confidence_below_one_half_is_void_by_default(rng):
    embeddings, semantic, _ = scene(rng)
    confidence = np.where(np.arange(16) < 5, 0.49, 0.51) * np.ones((12, 1))
    result = segment(embeddings, semantic, [1, 2], confidence=confidence)
    np.testing.assert_array_equal(result.semantic == -1, confidence < 0.5)
    result = segment(embeddings, semantic, [1, 2], confidence=confidence, min_confidence=0)
    np.testing.assert_array_equal(result.semantic, semantic)


def test_confidence_may_leave_its_range_by_rounding(rng):
    embeddings, semantic, _ = scene(rng)
    confidence = np.full(semantic.shape, np.nextafter(np.float32(1), np.float32(2)))
    confidence[0, 0] = -1e-7
    result = segment(embeddings, semantic, [1, 2], confidence=confidence, min_confidence=0)
    np.testing.assert_array_equal(result.semantic, semantic)
    for value in (1.01, -0.01):
        confidence[0, 0] = value
        with pytest.raises(ValueError, match=f"confidence must be between 0 and 1, not {value}: scale it"):
            segment(embeddings, semantic, [1, 2], confidence=confidence)


@pytest.mark.parametrize("metric", ["cosine", "inner_product"])
@pytest.mark.parametrize("options", [{}, {"upsample": "labels"}, {"graph": "grid"}, {"position": 1.0}])
def test_things_without_an_embedding_are_void_and_in_no_problem(rng, metric, options):
    embeddings, semantic, _ = scene(rng)
    embeddings[4:8, :6] = 0
    embeddings[:, -1] = 0  # stuff
    fine = np.kron(semantic, np.ones((2, 2), dtype=int))
    result = segment(embeddings, fine, [1, 2], metric=metric, threshold=0.3, **options)
    is_void = np.zeros(fine.shape, dtype=bool)
    is_void[8:16, :12] = True
    np.testing.assert_array_equal(result.semantic, np.where(is_void, -1, fine))
    np.testing.assert_array_equal(result.instance == 0, is_void | (fine == 3))
    assert result.n_instances == 6
    nodes = np.any(embeddings != 0, axis=2)
    for c in (1, 2):
        assert len(result.clusterings[c].labels) == np.count_nonzero(nodes & (semantic == c))
    assert segment(np.zeros((4, 4, 2)), np.ones((4, 4), dtype=int), [1], metric=metric).n_instances == 0


def test_a_thing_too_thin_for_the_embeddings_is_still_one_instance(rng):
    semantic = np.full((16, 16), 3)
    semantic[0, 0] = 1
    result = segment(rng.normal(size=(4, 4, 3)), semantic, [1])
    assert result.n_instances == 1
    assert result.instance[0, 0] == 1
