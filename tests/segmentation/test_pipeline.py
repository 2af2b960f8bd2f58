"""`segment` finds the objects of an image, and `segment_many` those of many images."""

import subprocess
import sys

import numpy as np
import pytest
from makers import assert_same_clusters, scene

from clusterfug.segmentation import Rules, Sample, segment, segment_many

NOT_FINITE = np.full((4, 4, 2), np.nan)


@pytest.mark.parametrize("upsample", ["features", "labels"])
@pytest.mark.parametrize("algorithm", ["auto", "gaec"])
def test_objects_are_found_class_by_class_and_stuff_is_unchanged(rng, upsample, algorithm):
    embeddings, semantic, truth = scene(rng)
    result = segment(embeddings, semantic, [1, 2], upsample=upsample, algorithm=algorithm)
    assert_same_clusters(result.instance.ravel(), truth.ravel())
    np.testing.assert_array_equal(result.semantic, semantic)
    assert result.n_instances == 6
    for number in range(1, 7):
        assert np.all(result.semantic[result.instance == number] == result.classes[number])
    assert list(result.classes[1:]) == sorted(result.classes[1:])  # numbered from the top
    assert set(result.clusterings) == {1, 2}


def test_each_class_has_its_threshold(rng):
    embeddings, semantic, _ = scene(rng)
    result = segment(embeddings, semantic, [1, 2], threshold={1: -1.0, 2: 0.4})
    assert list(result.classes[1:]) == [1, 2, 2, 2]


def test_an_image_without_things_has_no_instances(rng):
    embeddings, semantic, _ = scene(rng)
    result = segment(embeddings, semantic, [9], min_size=5, connected=True)
    assert result.n_instances == 0
    np.testing.assert_array_equal(result.semantic, semantic)


def test_the_number_of_jobs_does_not_matter(rng):
    embeddings, semantic, _ = scene(rng, 24, 32)
    embeddings += 0.5 * rng.normal(size=embeddings.shape)
    one, two = (segment(embeddings, semantic, [1, 2], n_jobs=jobs) for jobs in (1, 2))
    np.testing.assert_array_equal(one.instance, two.instance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"embeddings": np.ones((4, 4))}, "embeddings must be an array of height x width x features"),
        ({"embeddings": NOT_FINITE}, "embeddings have a value that is not finite at row 0, column 0"),
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
        ({"confidence": NOT_FINITE[:, :, 0]}, "confidence has a value that is not finite"),
        ({"confidence": np.full((4, 4), 255)}, "confidence must be between 0 and 1, not 255"),
        ({"confidence": np.full((4, 4), -0.5)}, "confidence must be between 0 and 1, not -0.5"),
        ({"min_confidence": 1.5}, "min_confidence must be between 0 and 1, not 1.5"),
        ({"min_confidence": -1}, "min_confidence must be at least 0"),
        ({"min_size": -1}, "min_size must be at least 0"),
        ({"position": -1.0}, "position must be at least 0"),
        ({"connected": 1}, "connected must be True or False"),
        ({"metric": "l2"}, "unknown metric 'l2'"),
        ({"graph": "star"}, "unknown graph 'star'"),
        ({"upsample": "magic"}, "unknown upsample 'magic'"),
        ({"graph": "grid", "algorithm": "dlaec"}, "a graph problem is solved by auto, .*, not by dlaec"),
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
        assert_same_clusters(outcomes[t].segmentation.instance.ravel(), truth.ravel())


def test_an_image_that_exceeds_the_memory_limit_is_named(rng):
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
        assert_same_clusters(outcome.segmentation.instance.ravel(), truth.ravel())
    assert finished == 10


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
