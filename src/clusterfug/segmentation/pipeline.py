"""segment: embeddings and classes of pixels in, instances out. One dense multicut per thing class."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.api import solve_many
from clusterfug.execution.batch import SolveManyError
from clusterfug.execution.jit import Progress
from clusterfug.result import Clustering
from clusterfug.segmentation.image import Image, Rules
from clusterfug.segmentation.panoptic import Panoptic, classes_of

#: Bytes of images that `segment_many` holds at a time.
BATCH_BYTES = 2**27


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The instances of one image.

    Attributes
    ----------
    semantic : int64 array of shape (h, w)
        Class of each pixel at image resolution; -1 for none (void, not certain enough, too small).
    instance : int64 array of shape (h, w)
        1, 2, ... numbered by first appearance; 0 for stuff and void.
    classes : int64 array
        ``classes[k]`` is the class of instance k; -1 for 0.
    clusterings : dict from class to Clustering
        What the multicut of each thing class found, one label per pixel of the embeddings.
    seconds : float
        Time it took to make the map; that of the solver is in the clusterings.
    """

    semantic: NDArray[np.int64]
    instance: NDArray[np.int64]
    classes: NDArray[np.int64]
    clusterings: dict[int, Clustering]
    seconds: float

    @property
    def n_instances(self) -> int:
        return len(self.classes) - 1

    @property
    def maps(self) -> Panoptic:
        return Panoptic(self.semantic, self.instance)

    def __repr__(self) -> str:
        height, width = self.instance.shape
        return f"Segmentation({height} x {width}, n_instances={self.n_instances})"


class Sample(NamedTuple):
    """What is known of one image: its embeddings and classes, and where there is one, picture and truth."""

    name: str
    embeddings: NDArray[Any]
    semantic: NDArray[Any]
    confidence: NDArray[Any] | None = None
    image: NDArray[np.uint8] | None = None
    truth: Panoptic | None = None

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width of the result: those of the picture or of the truth, if there is one."""
        if self.image is not None:
            return self.image.shape[:2]
        return None if self.truth is None else self.truth.semantic.shape


#: A sample, or a function that reads one.
Source = Sample | Callable[[], Sample]


class Outcome(NamedTuple):
    """What became of one of many images."""

    name: str
    sample: Sample | None  # None if it could not be read
    segmentation: Segmentation | None  # None if that failed
    error: Exception | None = None  # then this says why


def segment(
    embeddings: Any,
    semantic: Any,
    things: Any,
    *,
    threshold: Any = 0.4,
    confidence: Any = None,
    shape: tuple[int, int] | None = None,
    stuff: Any = None,
    void: Any = (255,),
    min_confidence: float = 0.0,
    min_size: int = 0,
    position: float = 0.0,
    connected: bool = False,
    metric: str = "cosine",
    upsample: str = "features",
    graph: str = "complete",
    n_jobs: int | None = None,
    algorithm: Any = "auto",
    callback: Progress | None = None,
    **options: Any,
) -> Segmentation:
    """Partition the pixels of an image into objects.

    The pixels of each thing class, at the resolution of the embeddings, are clustered by dense multicut:
    two pixels attract or repel by the similarity of their embeddings minus a threshold. Then every pixel
    of the image goes to the cluster of its class whose mean embedding is most similar to its own, which
    is interpolated.

    Parameters
    ----------
    embeddings : array of shape (h, w, d)
        One vector per pixel, often at a lower resolution than the image.
    semantic : integer array of shape (h', w')
        Class of each pixel, at any resolution. Negative classes, and those in `void`, are void.
    things : sequence of int
        The classes that have instances. Others are *stuff*: they pass through.
    threshold : float or dict from class to float, default=0.4
        Similarity at which two pixels neither attract nor repel. Larger gives more and smaller objects.
    confidence : array of shape (h', w') or (h, w), optional
        How certain the class of each pixel is.
    shape : (int, int), optional
        Height and width of the result; those of `semantic` by default.
    stuff : sequence of int, optional
        If given, a class in none of things, stuff and void is an error.
    void : sequence of int, default=(255,)
        Classes that mean "no class".
    min_confidence : float, default=0
        Pixels of less confidence become void.
    min_size : int, default=0
        Instances of fewer pixels become void.
    position : float, default=0
        Similarity falls by this times the squared distance of two pixels, the longer side of the image
        being 1. So pixels far apart are not one object because they look alike.
    connected : bool, default=False
        Cut every instance into its connected regions (corners do not connect). Leave it out where objects
        may be hidden in part.
    metric : {"cosine", "inner_product"}, default="cosine"
        "cosine" scales embeddings to length 1 (zeros stay zero).
    upsample : {"features", "labels"}, default="features"
        How clusters reach image resolution: as described above, or by repeating labels.
    graph : {"complete", "grid"}, default="complete"
        "grid" is the sparse baseline: multicut on a grid with long-range edges. Its algorithm is one of
        `multicut`.
    n_jobs : int, optional
        Classes solved at a time; all cores by default.
    algorithm, **options
        As for `dense_multicut`; with ``device="cuda"`` all classes are solved at once.
    callback : callable, optional
        Called as ``callback("problems", done, total)``.

    Returns
    -------
    Segmentation

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug.segmentation import segment
    >>> embeddings = np.zeros((2, 4, 2))
    >>> embeddings[:, :2, 0] = embeddings[:, 2:, 1] = 1
    >>> segment(embeddings, np.ones((2, 4), dtype=int), things=[1]).instance
    array([[1, 1, 2, 2],
           [1, 1, 2, 2]])
    """
    rules = Rules(
        things=things,
        stuff=stuff,
        void=void,
        threshold=threshold,
        min_confidence=min_confidence,
        min_size=min_size,
        position=position,
        connected=connected,
        metric=metric,
        graph=graph,
        upsample=upsample,
    )
    image = Image(rules, embeddings, semantic, confidence, shape)
    problems = image.problems
    found = solve_many(problems, n_jobs=n_jobs, algorithm=algorithm, callback=callback, **options)
    return _finish(image, dict(zip(problems, found, strict=True)))


def segment_many(
    samples: Iterable[Source] | Mapping[str, Source],
    rules: Rules,
    *,
    n_jobs: int | None = None,
    algorithm: Any = "auto",
    callback: Progress | None = None,
    **options: Any,
) -> Iterator[Outcome]:
    """Partition many images; one that fails does not stop the others.

    Parameters
    ----------
    samples : iterable of Sample or of functions that read one, or mapping from names
        Read when it is their turn, so that the images need not fit into memory together. Functions without
        names are numbered.
    rules : Rules
        The options of `segment` that say what to do with an image.
    n_jobs, algorithm, callback, **options
        As for `solve_many`: the problems of several images are solved side by side, on a GPU at once.

    Yields
    ------
    Outcome
        In order.
    """
    waiting: list[tuple[str, Sample | None, Image | Exception]] = []
    held = 0

    def solve() -> Iterator[Outcome]:
        problems = {
            (t, c): problem
            for t, (_, _, image) in enumerate(waiting)
            if isinstance(image, Image)
            for c, problem in image.problems.items()
        }
        failed: dict[Any, Exception] = {}
        try:
            found = solve_many(problems, n_jobs=n_jobs, algorithm=algorithm, callback=callback, **options)
        except SolveManyError as error:
            found, failed = error.results, error.errors  # type: ignore[assignment]
        clusterings = dict(zip(problems, found, strict=True))
        for t, (name, sample, image) in enumerate(waiting):
            wrong = image if isinstance(image, Exception) else None
            if isinstance(image, Image):
                wrong = next((failed[t, c] for c in image.nodes if (t, c) in failed), None)
            if isinstance(image, Exception) or wrong is not None:
                yield Outcome(name, sample, None, wrong)
            else:
                yield Outcome(name, sample, _finish(image, {c: clusterings[t, c] for c in image.nodes}))
        waiting.clear()

    for name, source in samples.items() if isinstance(samples, Mapping) else enumerate(samples):
        sample: Sample | None = None
        prepared: Image | Exception
        try:
            sample = source if isinstance(source, Sample) else source()
            prepared = Image(rules, sample.embeddings, sample.semantic, sample.confidence, sample.shape)
            held += prepared.nbytes + sum(np.asarray(array).nbytes for array in sample[1:5])
        except Exception as error:
            prepared = error
        called = source.name if isinstance(source, Sample) else str(name)
        waiting.append((called, sample, prepared))
        if held > BATCH_BYTES:
            yield from solve()
            held = 0
    yield from solve()


def _finish(image: Image, clusterings: dict[int, Clustering]) -> Segmentation:
    start = time.perf_counter()
    maps = image.assemble(clusterings)
    return Segmentation(*maps, classes_of(maps), clusterings, time.perf_counter() - start)
