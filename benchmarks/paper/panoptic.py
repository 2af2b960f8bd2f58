"""Functions of Tables 3 to 6: segmentations of the nuclei and their panoptic quality."""

from common import KINDS, kind

from clusterfug.segmentation import Rules, panoptic_quality, segment_many

#: The foreground of the network, unscaled embeddings, node labels repeated 2 x 2.
PLAIN = {"min_confidence": 0.5, "metric": "inner_product", "upsample": "labels"}
#: Further options for nuclei, found by trial, the same for all images.
PIPELINE = {"upsample": "features", "position": 1.0, "min_size": 20, "connected": True}


def partition(samples, algorithm="auto", **rules):
    """Return the segmentation of every image."""
    outcomes = list(segment_many(samples, Rules(things=[1], **(PLAIN | rules)), algorithm=algorithm))
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.segmentation for outcome in outcomes]


def score(samples, found):
    """Return PQ in percent for each kind of image, and for all images pooled."""
    scores = {}
    for name in (*KINDS.values(), "all"):
        own = [t for t, sample in enumerate(samples) if name in ("all", kind(sample))]
        maps = [(found[t].semantic, found[t].instance) for t in own]
        scores[name] = 100 * panoptic_quality(maps, [samples[t].truth for t in own], [1]).things.pq
    return scores
