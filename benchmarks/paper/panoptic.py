"""What Tables 3 to 6 share: panoptic quality of a way to partition the nuclei, overall and per kind."""

from common import KINDS, kind

from clusterfug.segmentation import Rules, panoptic_quality, segment_many

#: The foreground as the network says, embeddings as they are, node labels repeated 2 x 2.
PLAIN = {"min_confidence": 0.5, "metric": "inner_product", "upsample": "labels"}
#: What else the whole road can do for nuclei; found by trying, the same for all images.
PIPELINE = {"upsample": "features", "position": 1.0, "min_size": 20, "connected": True}


def partition(samples, algorithm="auto", **rules):
    """The segmentation of every image."""
    outcomes = list(segment_many(samples, Rules(things=[1], **(PLAIN | rules)), algorithm=algorithm))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.segmentation for outcome in outcomes]


def score(samples, found):
    """PQ in percent: of each kind of image, and of all images pooled."""
    scores = {}
    for name in (*KINDS.values(), "all"):
        own = [t for t, sample in enumerate(samples) if name in ("all", kind(sample))]
        maps = [(found[t].semantic, found[t].instance) for t in own]
        scores[name] = 100 * panoptic_quality(maps, [samples[t].truth for t in own], [1]).things.pq
    return scores
