"""One image: one problem per thing class of its pixels, and the panoptic map of their clusterings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.costs.preprocessing import prepare
from clusterfug.execution import threads
from clusterfug.models.assignment import cluster_means, most_similar
from clusterfug.problems.dense import DenseProblem
from clusterfug.problems.graph import GraphProblem
from clusterfug.result import Clustering, number_by_first_appearance
from clusterfug.segmentation.grid import grid_graph
from clusterfug.segmentation.panoptic import VOID, Panoptic, check_classes, class_ids, size_of, whole_map
from clusterfug.segmentation.resample import Shape, axis, interpolate, resize_bilinear, resize_nearest

#: The default of `min_confidence`: below it, another class is more likely.
MIN_CONFIDENCE = 0.5
#: Confidence may leave 0..1 by as much, as sums of a softmax in low precision do.
CONFIDENCE_ROUNDING = 1e-3

_TILE_NUMBERS = 1 << 22  # size of a tile of interpolated features: 16 MiB
_POSITION_SIGNATURE = np.array([1.0, 1.0, -1.0, 1.0])  # of the columns that `_position_columns` returns


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Options of the partition of images, which are checked; `segment` documents them."""

    things: Any
    stuff: Any = None
    void: Any = (255,)
    threshold: Any = 0.4
    min_confidence: float | None = None
    min_size: int = 0
    position: float = 0.0
    connected: bool = False
    metric: str = "cosine"
    graph: str = "complete"
    upsample: str = "features"
    thresholds: dict[int, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        def keep(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        keep("things", class_ids("things", self.things))
        keep("void", class_ids("void", self.void))
        if not self.things:
            raise ValueError("things names no class: there is nothing to partition")
        if self.stuff is not None:
            keep("stuff", class_ids("stuff", self.stuff))
        for name, others in (("stuff", self.stuff or ()), ("void", self.void)):
            if both := set(self.things) & set(others):
                raise ValueError(f"class {min(both)} is in things and in {name}: choose one")
        if isinstance(self.threshold, Mapping):
            if missing := set(self.things) - set(self.threshold):
                raise ValueError(f"threshold has no entry for class {min(missing)}, which is in things")
            if unknown := set(self.threshold) - set(self.things):
                raise ValueError(f"threshold has an entry for class {min(unknown)}, which is not in things")
            each = {c: checks.number(f"threshold[{c}]", self.threshold[c]) for c in self.things}
        else:
            each = dict.fromkeys(self.things, checks.number("threshold", self.threshold))
        keep("thresholds", each)
        if self.min_confidence is not None:
            keep("min_confidence", checks.number("min_confidence", self.min_confidence, 0.0))
            if self.min_confidence > 1:
                raise ValueError(f"min_confidence must be between 0 and 1, not {self.min_confidence:g}")
        keep("min_size", checks.count("min_size", self.min_size, 0))
        keep("position", checks.number("position", self.position, 0.0))
        keep("connected", checks.flag("connected", self.connected))
        checks.one_of("graph", self.graph, ("complete", "grid"))
        checks.one_of("upsample", self.upsample, ("features", "labels"))


class Image:
    """Checked embeddings and classes of one image, their `problems`, and the map of their solutions."""

    def __init__(
        self, rules: Rules, embeddings: Any, semantic: Any, confidence: Any = None, shape: Any = None
    ) -> None:
        self.rules = rules
        self.features, semantic, confidence = _checked(rules, embeddings, semantic, confidence)
        height, width = semantic.shape if shape is None else shape
        self.shape = checks.count("shape", height), checks.count("shape", width)
        coarse = self.features.shape[:2]
        _same_picture(coarse, self.shape, "the image")
        self.semantic = self._classes(semantic, confidence, self.shape)
        self.coarse = self._classes(semantic, confidence, coarse)
        self.signature = np.ones(self.features.shape[2])
        if rules.position:
            self.signature = np.append(self.signature, _POSITION_SIGNATURE)
        #: Features of the nodes of each problem, the pixels of a class at the resolution of the embeddings.
        self.nodes = {c: self._node_features(c) for c in rules.things if np.any(self.coarse == c)}

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        arrays = (self.features, self.semantic, self.coarse, *self.nodes.values())
        return sum(array.nbytes for array in arrays)

    @property
    def problems(self) -> dict[int, DenseProblem | GraphProblem]:
        """One problem per thing class that occurs."""
        return {c: self._problem(c, rows) for c, rows in self.nodes.items()}

    def assemble(self, clusterings: Mapping[int, Clustering]) -> Panoptic:
        """Return the map at image resolution for the clusterings of the problems.

        Small instances are void, and the others numbered by first appearance.
        """
        fine = self.rules.upsample == "features"
        semantic = self.semantic if fine else self.coarse
        instance = np.zeros(semantic.shape, dtype=np.int64)
        for c in self.rules.things:
            mask = semantic == c
            if not mask.any():
                continue
            labels: Any = 0  # one instance, if the class has no node
            if c in self.nodes:
                labels = clusterings[c].labels
                if fine:
                    labels = self._upsampled(labels, self.nodes[c], mask)
            instance[mask] = instance.max() + 1 + labels
        if not fine:
            semantic, instance = resize_nearest(semantic, self.shape), resize_nearest(instance, self.shape)
        if self.rules.connected:
            instance = connected_regions(instance)
        small = np.bincount(instance.ravel()) < self.rules.min_size
        small[0] = False
        if small.any():
            void = small[instance]
            semantic, instance = np.where(void, VOID, semantic), np.where(void, 0, instance)
        numbers = number_by_first_appearance(np.append(0, instance.ravel()))[1:]
        return Panoptic(semantic, numbers.reshape(instance.shape))

    def _classes(
        self, semantic: NDArray[np.int64], confidence: NDArray[np.float32] | None, shape: Shape
    ) -> NDArray[np.int64]:
        """Return the class of each pixel at a resolution.

        It is VOID where the confidence is too low, and where a thing has an embedding of zeros, which is
        similar to no other one.
        """
        classes = resize_nearest(semantic, shape).copy()
        classes[np.isin(classes, self.rules.void) | (classes < 0)] = VOID
        if confidence is not None:
            given = self.rules.min_confidence
            least = MIN_CONFIDENCE if given is None else given
            classes[resize_bilinear(confidence, shape) < least] = VOID
        has_embedding = resize_nearest(np.any(self.features != 0, axis=2), shape)
        classes[~has_embedding & np.isin(classes, self.rules.things)] = VOID
        return classes

    def _node_features(self, c: int) -> NDArray[Any]:
        """Return the features of the nodes of a class, with columns for the position if it counts."""
        mask = self.coarse == c
        rows = self.features[mask]
        if not self.rules.position:
            return rows
        y, x = np.nonzero(mask)
        return np.concatenate([rows, self._position_columns(y, x, mask.shape)], axis=1)

    def _problem(self, c: int, rows: NDArray[Any]) -> DenseProblem | GraphProblem:
        threshold = self.rules.thresholds[c]
        if self.rules.graph == "grid":
            return grid_graph(self.coarse == c, rows, threshold, self.signature)
        return DenseProblem(rows, threshold, signature=self.signature)

    def _position_columns(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], shape: Shape
    ) -> NDArray[Any]:
        """Return columns whose indefinite inner product is -position times the squared distance.

        With q = (y, x) and r = |q|^2: -|q - q'|^2 = 2 <q, q'> - (r + 1)(r' + 1) / 2 + (r - 1)(r' - 1) / 2.
        """
        half = np.sqrt(self.rules.position / 2)
        y, x = ((v + 0.5 - side / 2) / max(shape) for v, side in zip((rows, columns), shape, strict=True))
        r = y**2 + x**2
        columns = np.stack([2 * half * y, 2 * half * x, half * (r + 1), half * (r - 1)], axis=1)
        return columns.astype(self.features.dtype)

    def _upsampled(
        self, labels: NDArray[np.int64], nodes: NDArray[Any], mask: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return for every pixel of the mask the cluster whose mean feature is most similar to its feature.

        Features of pixels are interpolated between the nodes around them, as in the paper, in tiles.
        """
        means = cluster_means(nodes, labels, np.ones(len(labels)))
        means *= self.signature.astype(means.dtype)
        rows, columns = np.nonzero(mask)
        y, x = (axis(old, new) for old, new in zip(self.coarse.shape, self.shape, strict=True))
        found = np.empty(len(rows), dtype=np.int64)

        def assign_tile(part: slice) -> None:
            pixels = np.empty((part.stop - part.start, means.shape[1]), dtype=means.dtype)
            interpolate(self.features, y, x, rows[part], columns[part], pixels)
            if self.rules.position:
                pixels[:, -4:] = self._position_columns(rows[part], columns[part], self.shape)
            found[part] = most_similar(pixels, means)

        threads.for_each(assign_tile, threads.slices(len(rows), max(1, _TILE_NUMBERS // max(means.shape))))
        return found


def connected_regions(instance: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the map with every instance split into its connected regions (corners do not connect)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pixel = np.arange(instance.size).reshape(instance.shape)
    pairs = []
    for a, b in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        same = (instance[a] == instance[b]) & (instance[a] > 0)
        pairs.append((pixel[a][same], pixel[b][same]))
    i, j = np.concatenate(pairs, axis=1)
    adjacent = coo_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(instance.size, instance.size))
    _, regions = connected_components(adjacent, directed=False)
    return np.where(instance > 0, regions.reshape(instance.shape) + np.int64(1), 0)


def _checked(
    rules: Rules, embeddings: Any, semantic: Any, confidence: Any
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float32] | None]:
    features = checks.numeric("embeddings", embeddings)
    if features.ndim != 3 or 0 in features.shape:
        raise ValueError(
            f"embeddings must be an array of height x width x features, not of shape {features.shape}"
        )
    bad = np.argwhere(~np.isfinite(features).all(axis=2))
    if len(bad):
        raise ValueError(
            f"embeddings have a value that is not finite at row {bad[0][0]}, column {bad[0][1]}: "
            "set such pixels to 0"
        )
    height, width, d = features.shape
    rows = prepare(checks.features(features.reshape(-1, d), "embeddings"), rules.metric)
    classes = whole_map("semantic", semantic)
    _same_picture((height, width), classes.shape, "semantic")
    if rules.stuff is not None:
        known = (*rules.things, *rules.stuff, *rules.void)
        check_classes(classes, known, "is not in things, stuff or void: name it in one of them")
    if confidence is None:
        if rules.min_confidence:
            raise ValueError("min_confidence needs a confidence map: give one, or leave it out")
        return rows.reshape(features.shape), classes, None
    confidence = checks.numeric("confidence", confidence)
    if confidence.shape not in (classes.shape, (height, width)):
        raise ValueError(
            f"confidence must be {size_of(classes)} as semantic is, or {size_of(features)} as embeddings "
            f"are, not an array of shape {confidence.shape}"
        )
    confidence = confidence.astype(np.float32)
    if not np.isfinite(confidence).all():
        raise ValueError("confidence has a value that is not finite: replace it by 0")
    outside = confidence[np.abs(confidence - 0.5) > 0.5 + CONFIDENCE_ROUNDING]
    if len(outside):
        raise ValueError(
            f"confidence must be between 0 and 1, not {outside[0]:g}: scale it (bytes: divide them by 255)"
        )
    return rows.reshape(features.shape), classes, np.clip(confidence, 0.0, 1.0)


def _same_picture(old: Shape, new: Shape, name: str) -> None:
    """Raise an error if the proportions of two maps of a picture differ by more than rounding."""
    tall, wide = new[0] * old[1], new[1] * old[0]
    if max(tall, wide) > 1.1 * min(tall, wide) + max(old):
        raise ValueError(
            f"embeddings ({old[0]} x {old[1]}) and {name} ({new[0]} x {new[1]}) are not the same picture: "
            "their proportions differ"
        )
