"""From pixels to problems to instances: against the same steps written out naively."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from clusterfug import dense_multicut
from clusterfug.segmentation import Rules, Sample, grid_graph, segment, segment_many
from clusterfug.segmentation.grid import OFFSETS
from clusterfug.segmentation.image import Image, connected_regions
from clusterfug.segmentation.panoptic import Panoptic, segments
from clusterfug.segmentation.resample import axis, bilinear, interpolate, nearest


def scene(rng, height=12, width=16, d=6, objects=3):
    """Embeddings of objects in vertical stripes: class 1 above, class 2 below, stuff 3 on the right."""
    directions = np.linalg.qr(rng.normal(size=(d, d)))[0]
    embeddings = np.zeros((height, width, d))
    truth = np.zeros((height, width), dtype=int)
    stripe = np.minimum(np.arange(width) // (width // objects), objects - 1)
    semantic = np.where(np.arange(height)[:, None] < height // 2, 1, 2) * np.ones((1, width), dtype=int)
    for c in (1, 2):
        for k in range(objects):
            mask = (semantic == c) & (stripe == k)
            embeddings[mask] = directions[k]
            truth[mask] = (c - 1) * objects + k + 1
    embeddings += 0.05 * rng.normal(size=embeddings.shape)
    semantic[:, -2:] = 3
    truth[:, -2:] = 0
    return embeddings, semantic, truth


def same_partition(one, other):
    pairs = np.unique(np.stack([one.ravel(), other.ravel()]), axis=1)
    return pairs.shape[1] == len(np.unique(one)) == len(np.unique(other))


def naive_interpolation(features, shape):
    """Bilinear, with the centres of pixels at .5 and edges repeated, one number at a time."""
    h, w = features.shape[:2]
    out = np.zeros((*shape, *features.shape[2:]))
    for r in range(shape[0]):
        for c in range(shape[1]):
            y = min(max((r + 0.5) * h / shape[0] - 0.5, 0), h - 1)
            x = min(max((c + 0.5) * w / shape[1] - 0.5, 0), w - 1)
            y0, x0 = int(y), int(x)
            for a, wa in ((y0, 1 - (y - y0)), (min(y0 + 1, h - 1), y - y0)):
                for b, wb in ((x0, 1 - (x - x0)), (min(x0 + 1, w - 1), x - x0)):
                    out[r, c] += wa * wb * features[a, b]
    return out


@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_interpolation_is_bilinear(h, w, height, width, seed):
    features = np.random.default_rng(seed).normal(size=(h, w, 3)).astype(np.float32)
    rows, columns = np.nonzero(np.ones((height, width)))
    out = np.zeros((height * width, 4), dtype=np.float32)
    interpolate(features, axis(h, height), axis(w, width), rows, columns, out)
    expected = naive_interpolation(features, (height, width))
    np.testing.assert_allclose(out[:, :3].reshape(height, width, 3), expected, atol=1e-5)
    np.testing.assert_allclose(bilinear(features[:, :, 0], (height, width)), expected[:, :, 0], atol=1e-5)


def test_maps_grow_by_repetition_and_shrink_to_centres():
    small = np.array([[1, 2], [3, 4]])
    np.testing.assert_array_equal(nearest(small, (4, 6)), np.kron(small, np.ones((2, 3), dtype=int)))
    np.testing.assert_array_equal(nearest(nearest(small, (6, 6)), (2, 2)), small)


@pytest.mark.parametrize("upsample", ["features", "labels"])
@pytest.mark.parametrize("algorithm", ["auto", "gaec"])
def test_objects_are_found_class_by_class_and_stuff_passes_through(rng, upsample, algorithm):
    embeddings, semantic, truth = scene(rng)
    result = segment(embeddings, semantic, [1, 2], upsample=upsample, algorithm=algorithm)
    assert same_partition(result.instance, truth)
    np.testing.assert_array_equal(result.semantic, semantic)
    assert result.n_instances == 6
    for number in range(1, 7):
        assert np.all(result.semantic[result.instance == number] == result.classes[number])
    assert list(result.classes[1:]) == sorted(result.classes[1:])  # numbered from the top
    assert set(result.clusterings) == {1, 2}


def test_every_pixel_goes_to_the_most_similar_mean_of_its_class(rng):
    embeddings, semantic, _ = scene(rng, height=6, width=8)
    fine = np.kron(semantic, np.ones((4, 4), dtype=int))
    result = segment(embeddings, fine, [1, 2], metric="inner_product")
    full = naive_interpolation(embeddings, fine.shape)
    number = 0
    expected = np.zeros(fine.shape, dtype=int)
    for c in (1, 2):
        nodes = embeddings[semantic == c]
        labels = dense_multicut(nodes, 0.4).labels
        means = np.array([nodes[labels == k].mean(axis=0) for k in range(labels.max() + 1)])
        expected[fine == c] = number + 1 + np.argmax(full[fine == c] @ means.T, axis=1)
        number += len(means)
    assert same_partition(result.instance, expected)


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


def test_pixels_far_apart_that_look_alike_are_two_objects_where_position_counts():
    embeddings = np.zeros((4, 20, 2))
    embeddings[:, :4] = embeddings[:, -4:] = [1, 0]
    semantic = np.where(embeddings[:, :, 0] > 0, 1, 0)
    assert segment(embeddings, semantic, [1]).n_instances == 1
    for shape in (None, (8, 40)):
        result = segment(embeddings, semantic, [1], position=2, shape=shape)
        assert result.n_instances == 2
        assert len(np.unique(result.instance[:, : result.instance.shape[1] // 2])) == 2  # and 0


def test_connected_cuts_instances_into_regions():
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
    assert same_partition(found, expected)
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


def test_each_class_has_its_threshold(rng):
    embeddings, semantic, _ = scene(rng)
    result = segment(embeddings, semantic, [1, 2], threshold={1: -1.0, 2: 0.4})
    assert list(result.classes[1:]) == [1, 2, 2, 2]


def test_an_image_without_things_has_no_instances(rng):
    embeddings, semantic, _ = scene(rng)
    result = segment(embeddings, semantic, [9], min_size=5, connected=True)
    assert result.n_instances == 0
    np.testing.assert_array_equal(result.semantic, semantic)


def test_a_thing_too_thin_for_the_embeddings_is_still_one_instance(rng):
    semantic = np.full((16, 16), 3)
    semantic[0, 0] = 1
    result = segment(rng.normal(size=(4, 4, 3)), semantic, [1])
    assert result.n_instances == 1
    assert result.instance[0, 0] == 1


@pytest.mark.large
def test_the_number_of_jobs_does_not_matter(rng):
    embeddings, semantic, _ = scene(rng, 24, 32)
    embeddings += 0.5 * rng.normal(size=embeddings.shape)
    one, two = (segment(embeddings, semantic, [1, 2], n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.instance, two.instance)


def test_grid_edges_have_the_costs_of_the_dense_problem(rng):
    mask = rng.random((9, 21)) < 0.7
    rows = rng.normal(size=(mask.sum(), 4))
    graph = grid_graph(mask, rows, 0.25, np.array([1.0, -1.0, 1.0, 1.0]))
    where = np.argwhere(mask)
    expected = {}
    for i, a in enumerate(where):
        for j, b in enumerate(where):
            if tuple(b - a) in OFFSETS:
                expected[min(i, j), max(i, j)] = (rows[i] * [1, -1, 1, 1]) @ rows[j] - 0.25
    found = {tuple(edge): cost for edge, cost in zip(graph.edges.tolist(), graph.costs, strict=True)}
    assert found.keys() == expected.keys()
    assert all(found[edge] == pytest.approx(cost) for edge, cost in expected.items())


def test_the_grid_has_about_ten_edges_per_pixel_and_finds_simple_objects(rng):
    mask = np.ones((100, 100), dtype=bool)
    assert 8 < len(grid_graph(mask, np.ones((10_000, 1)), 0.5).costs) / 10_000 < 10
    embeddings, semantic, truth = scene(rng)
    result = segment(embeddings, semantic, [1, 2], graph="grid", algorithm="gaec")
    assert same_partition(result.instance, truth)


def test_dense_costs_see_what_a_hidden_object_has_in_common_and_a_grid_does_not():
    embeddings = np.zeros((2, 60, 2))
    embeddings[:, :5] = embeddings[:, -5:] = [1, 0]
    embeddings[:, 5:-5] = [0, 1]
    semantic = np.ones((2, 60), dtype=int)
    assert segment(embeddings, semantic, [1]).n_instances == 2
    grid = segment(embeddings, semantic, [1], graph="grid", algorithm="gaec", upsample="labels")
    assert grid.n_instances == 3


NO_NUMBER = np.full((4, 4, 2), np.nan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings": np.ones((4, 4))}, "embeddings must be an array of height x width x features"),
        ({"embeddings": NO_NUMBER}, "embeddings have a value that is not finite at row 0, column 0"),
        ({"semantic": np.ones((4, 8), int)}, "are not the same picture: their proportions differ"),
        ({"semantic": np.ones((4, 4))}, "semantic must be whole numbers, not float64"),
        ({"semantic": np.ones((4, 4, 1), int)}, "semantic must be a map of height x width"),
        ({"stuff": [2]}, "semantic has the class 3, which is not in things, stuff or void"),
        ({"things": []}, "things names no class"),
        ({"things": [-1]}, "things must be at least 0, not -1"),
        ({"things": [1.5]}, "things must be a whole number"),
        ({"things": [1], "stuff": [1, 3]}, "class 1 is in things and in stuff"),
        ({"threshold": {2: 0.4}}, "threshold has no entry for class 1"),
        ({"threshold": {1: 0.4, 5: 0.4}}, "threshold has an entry for class 5, which is not in things"),
        ({"threshold": {1: "x"}}, r"threshold\[1\] must be a number"),
        ({"min_confidence": 0.5}, "min_confidence needs a confidence map"),
        ({"confidence": np.ones((3, 3))}, "confidence must be 4 x 4 as semantic is"),
        ({"confidence": NO_NUMBER[:, :, 0]}, "confidence has a value that is not finite"),
        ({"min_size": -1}, "min_size must be at least 0"),
        ({"position": -1.0}, "position must be at least 0"),
        ({"connected": 1}, "connected must be True or False"),
        ({"metric": "l2"}, "unknown metric 'l2'"),
        ({"graph": "star"}, "unknown graph 'star'"),
        ({"upsample": "magic"}, "unknown upsample 'magic'"),
        ({"graph": "grid", "algorithm": "dlaec"}, "unknown algorithm 'dlaec'"),
    ],
)
def test_bad_input_is_one_clear_line(change, message):
    semantic = np.array([[1, 1, 1, 3]] * 4)
    arguments = {"embeddings": np.ones((4, 4, 2)), "semantic": semantic, "things": [1]} | change
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message) as caught:
        segment(**arguments)
    assert "\n" not in str(caught.value)


def test_one_bad_image_does_not_stop_the_others(rng):
    embeddings, semantic, truth = scene(rng)
    broken = embeddings.copy()
    broken[3, 4] = np.inf

    def unreadable():
        raise OSError("the disk is gone")

    samples = {
        "a": Sample("a", embeddings, semantic),
        "b": Sample("b", broken, semantic),
        "c": unreadable,
        "d": lambda: Sample("d", embeddings, semantic),
    }
    outcomes = list(segment_many(samples, Rules(things=[1, 2])))
    assert [outcome.name for outcome in outcomes] == ["a", "b", "c", "d"]
    assert "row 3, column 4" in str(outcomes[1].error)
    assert str(outcomes[2].error) == "the disk is gone"
    assert outcomes[2].sample is None
    for t in (0, 3):
        assert same_partition(outcomes[t].segmentation.instance, truth)


def test_an_image_that_the_solver_cannot_take_is_named(rng):
    embeddings, semantic, _ = scene(rng)
    small = np.where(np.arange(12)[:, None] < 2, semantic, 3)
    samples = {"large": Sample("large", embeddings, semantic), "small": Sample("small", embeddings, small)}
    options = {"algorithm": "gaec", "memory_limit": 8 * 40**2}
    large, little = segment_many(samples, Rules(things=[1]), **options)
    assert "more than memory_limit" in str(large.error)
    assert large.segmentation is None
    assert little.segmentation.n_instances == 3


def test_images_may_have_the_same_name(rng):
    embeddings, semantic, _ = scene(rng)
    other = np.ones_like(embeddings)
    samples = [Sample("x", embeddings, semantic), Sample("x", other, semantic)]
    found = [(o.name, o.segmentation.n_instances) for o in segment_many(samples, Rules(things=[1]))]
    assert found == [("x", 3), ("x", 1)]


def test_many_images_are_solved_in_batches_of_limited_memory(rng, monkeypatch):
    embeddings, semantic, truth = scene(rng)
    monkeypatch.setattr("clusterfug.segmentation.pipeline.BATCH_BYTES", 9 * embeddings.nbytes)
    read = []

    def reader(name):
        def read_it():
            read.append(name)
            return Sample(name, embeddings, semantic)

        return read_it

    finished = 0
    for outcome in segment_many(map(reader, range(10)), Rules(things=[1, 2])):
        finished += 1
        assert len(read) - finished < 4
        assert same_partition(outcome.segmentation.instance, truth)
    assert finished == 10


def test_segment_ids_are_class_times_offset_plus_number():
    semantic = np.array([[5, 5, 5, 2], [-1, 5, 2, 2]])
    instance = np.array([[3, 3, 7, 0], [0, 0, 0, 0]])
    found, ids = segments(Panoptic(semantic, instance), [5], offset=10)
    np.testing.assert_array_equal(ids, [[51, 51, 52, 20], [0, 50, 20, 20]])
    assert [(s.id, s.category, s.area, s.box, s.crowd) for s in found] == [
        (51, 5, 2, (0, 0, 2, 1), False),
        (52, 5, 1, (2, 0, 1, 1), False),
        (20, 2, 3, (2, 0, 2, 2), False),
        (50, 5, 1, (1, 1, 1, 1), True),
    ]
    with pytest.raises(ValueError, match="class 5 has 2 instances or more: choose an offset larger than 2"):
        segments(Panoptic(semantic, instance), [5], offset=2)


@pytest.mark.large
def test_a_street_scene_at_full_resolution_stays_below_two_gigabytes():
    code = """
import resource, numpy as np
from clusterfug.segmentation import segment
rng = np.random.default_rng(0)
directions = rng.normal(size=(40, 128)).astype(np.float32)
places = rng.integers(40, size=(8, 16))
embeddings = directions[np.kron(places, np.ones((16, 16), dtype=int))]
embeddings += 0.5 * rng.normal(size=embeddings.shape).astype(np.float32)
semantic = np.full((1024, 2048), 26)
semantic[:, :512] = 24
result = segment(embeddings, semantic, [24, 26], algorithm="fast")
assert result.instance.shape == (1024, 2048) and result.n_instances > 20
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) < 2e9
