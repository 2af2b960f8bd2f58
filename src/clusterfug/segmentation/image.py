"""One image: one problem per thing class of its pixels, and the panoptic map of their clusterings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from clusterfug.segmentation.panoptic import VOID, Panoptic, class_ids, size_of, whole_map
from clusterfug.segmentation.resample import Shape, axis, interpolate, resize_bilinear, resize_nearest

GRAPHS = ("complete", "grid")
UPSAMPLINGS = ("features", "labels")

_TILE_NUMBERS = 1 << 22  # size of a tile of interpolated features: 16 MiB
_POSITION_SIGNATURE = np.array([1.0, 1.0, -1.0, 1.0])  # of the columns that `_position_columns` returns


@dataclass(frozen=True, kw_only=True)
class Rules:
    """How images are partitioned: the options of `segment`, which documents them, checked."""

    things: Any
    stuff: Any = None
    void: Any = (255,)
    threshold: Any = 0.4
    min_confidence: float = 0.0
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
            both = sorted(set(self.things) & set(others))
            if both:
                raise ValueError(f"class {both[0]} is in things and in {name}: choose one")
        if isinstance(self.threshold, Mapping):
            missing = [c for c in self.things if c not in self.threshold]
            if missing:
                raise ValueError(f"threshold has no entry for class {missing[0]}, which is in things")
            unknown = sorted(set(self.threshold) - set(self.things))
            if unknown:
                raise ValueError(f"threshold has an entry for class {unknown[0]}, which is not in things")
            each = {c: checks.number(f"threshold[{c}]", self.threshold[c]) for c in self.things}
        else:
            each = dict.fromkeys(self.things, checks.number("threshold", self.threshold))
        keep("thresholds", each)
        keep("min_confidence", checks.number("min_confidence", self.min_confidence, 0.0))
        keep("min_size", checks.count("min_size", self.min_size, 0))
        keep("position", checks.number("position", self.position, 0.0))
        keep("connected", checks.flag("connected", self.connected))
        checks.one_of("graph", self.graph, GRAPHS)
        checks.one_of("upsample", self.upsample, UPSAMPLINGS)


class ClassPixels(NamedTuple):
    """The pixels of one class at the resolution of the embeddings: the nodes of its problem."""

    mask: NDArray[np.bool_]  # (h, w)
    rows: NDArray[Any]  # (n, d) features, with columns for the position if `Rules.position` is not 0
    signature: NDArray[np.float64]  # (d,)


class Image:
    """Checked embeddings and classes of one image, their `problems`, and the map of their solutions."""

    def __init__(
        self, rules: Rules, embeddings: Any, semantic: Any, confidence: Any = None, shape: Any = None
    ) -> None:
        self.rules = rules
        self.features, semantic, confidence = _checked(rules, embeddings, semantic, confidence)
        coarse = self.features.shape[:2]
        self.shape = semantic.shape if shape is None else _shape(shape)
        _same_picture(coarse, self.shape, "the image")
        self.semantic = self._classes(semantic, confidence, self.shape)
        self.coarse = self._classes(semantic, confidence, coarse)
        self.nodes = {c: self._class_pixels(c) for c in rules.things if np.any(self.coarse == c)}

    @property
    def nbytes(self) -> int:
        """Memory of the arrays."""
        arrays = [self.features, self.semantic, self.coarse]
        arrays += [array for nodes in self.nodes.values() for array in (nodes.mask, nodes.rows)]
        return sum(array.nbytes for array in arrays)

    @property
    def problems(self) -> dict[int, DenseProblem | GraphProblem]:
        """One problem per thing class that occurs."""
        return {c: self._problem(nodes, self.rules.thresholds[c]) for c, nodes in self.nodes.items()}

    def assemble(self, clusterings: Mapping[int, Clustering]) -> Panoptic:
        """Return the map at image resolution for the clusterings of the problems."""
        fine = self.rules.upsample == "features"
        semantic = self.semantic if fine else resize_nearest(self.coarse, self.shape)
        instance = np.zeros(self.shape, dtype=np.int64)
        last = 0
        for c in self.rules.things:
            mask = semantic == c
            if not mask.any():
                continue
            labels = np.zeros(
                np.count_nonzero(mask), dtype=np.int64
            )  # one instance, if the class has no node
            if c in self.nodes:
                upsample = self._by_features if fine else self._by_nodes
                labels = upsample(self.nodes[c], clusterings[c].labels, mask)
            instance[mask] = last + 1 + labels
            last = int(instance.max())
        if self.rules.connected:
            instance = connected_regions(instance)
        return self._without_small(semantic, instance)

    def _classes(
        self, semantic: NDArray[np.int64], confidence: NDArray[np.float32] | None, shape: Shape
    ) -> NDArray[np.int64]:
        """Return the class of each pixel at a resolution; VOID where the confidence is too low."""
        classes = resize_nearest(semantic, shape).copy()
        classes[np.isin(classes, self.rules.void) | (classes < 0)] = VOID
        if confidence is not None and self.rules.min_confidence > 0:
            classes[resize_bilinear(confidence, shape) < self.rules.min_confidence] = VOID
        return classes

    def _class_pixels(self, c: int) -> ClassPixels:
        mask = self.coarse == c
        rows = self.features[mask]
        signature = np.ones(rows.shape[1])
        if self.rules.position:
            y, x = np.nonzero(mask)
            rows = np.concatenate([rows, self._position_columns(y, x, mask.shape)], axis=1)
            signature = np.append(signature, _POSITION_SIGNATURE)
        return ClassPixels(mask, rows, signature)

    def _problem(self, nodes: ClassPixels, threshold: float) -> DenseProblem | GraphProblem:
        if self.rules.graph == "grid":
            return grid_graph(nodes.mask, nodes.rows, threshold, nodes.signature)
        return DenseProblem(nodes.rows, threshold, signature=nodes.signature)

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

    def _by_nodes(
        self, nodes: ClassPixels, labels: NDArray[np.int64], mask: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return for every pixel of the mask the label of the node that contains its centre."""
        coarse = np.full(nodes.mask.shape, -1, dtype=np.int64)
        coarse[nodes.mask] = labels
        return resize_nearest(coarse, self.shape)[mask]

    def _by_features(
        self, nodes: ClassPixels, labels: NDArray[np.int64], mask: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return for every pixel of the mask the cluster whose mean feature is most similar to its feature.

        Features of pixels are interpolated between the nodes around them, as in the paper, in tiles.
        """
        means = cluster_means(nodes.rows, labels, np.ones(len(labels)))
        means *= nodes.signature.astype(means.dtype)
        rows, columns = np.nonzero(mask)
        y, x = (axis(old, new) for old, new in zip(nodes.mask.shape, self.shape, strict=True))
        found = np.empty(len(rows), dtype=np.int64)

        def assign_tile(part: slice) -> None:
            pixels = np.empty((part.stop - part.start, means.shape[1]), dtype=means.dtype)
            interpolate(self.features, y, x, rows[part], columns[part], pixels)
            if self.rules.position:
                pixels[:, -4:] = self._position_columns(rows[part], columns[part], self.shape)
            found[part] = most_similar(pixels, means)

        threads.for_each(assign_tile, threads.slices(len(rows), max(1, _TILE_NUMBERS // max(means.shape))))
        return found

    def _without_small(self, semantic: NDArray[np.int64], instance: NDArray[np.int64]) -> Panoptic:
        """Return the map with small instances void and the others numbered by first appearance."""
        small = np.bincount(instance.ravel()) < self.rules.min_size
        small[0] = False
        if small.any():
            void = small[instance]
            semantic, instance = np.where(void, VOID, semantic), np.where(void, 0, instance)
        numbers = number_by_first_appearance(np.append(0, instance.ravel()))[1:]
        return Panoptic(semantic, numbers.reshape(instance.shape))


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
    regions = regions.reshape(instance.shape).astype(np.int64) + 1
    regions[instance == 0] = 0
    return np.unique(np.append(0, regions), return_inverse=True)[1][1:].reshape(instance.shape)


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
        unknown = np.setdiff1d(classes[classes >= 0], [*rules.things, *rules.stuff, *rules.void])
        if len(unknown):
            raise ValueError(
                f"semantic has the class {unknown[0]}, which is not in things, stuff or void: "
                "name it in one of them"
            )
    if confidence is None:
        if rules.min_confidence > 0:
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
    return rows.reshape(features.shape), classes, confidence


def _same_picture(old: Shape, new: Shape, name: str) -> None:
    """Raise an error if the proportions of two maps of a picture differ by more than rounding."""
    tall, wide = new[0] * old[1], new[1] * old[0]
    if max(tall, wide) > 1.1 * min(tall, wide) + max(old):
        raise ValueError(
            f"embeddings ({old[0]} x {old[1]}) and {name} ({new[0]} x {new[1]}) are not the same picture: "
            "their proportions differ"
        )


def _shape(shape: Iterable[int]) -> Shape:
    height, width = shape
    return checks.count("shape", height), checks.count("shape", width)
