"""`segment` and `segment_many`: from embeddings and classes of pixels to instances."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug.api import solve_many
from clusterfug.execution.batch import SolveManyError
from clusterfug.execution.jit import Progress, clock
from clusterfug.result import Clustering
from clusterfug.segmentation.image import Image, Rules
from clusterfug.segmentation.panoptic import VOID, Panoptic

#: Bytes of images that `segment_many` holds before it solves their problems.
BATCH_BYTES = 2**27


@dataclass(frozen=True, eq=False)
class Segmentation:
    """The instances of one image.

    Attributes
    ----------
    semantic : int64 array of shape (h, w)
        Class of each pixel at image resolution; -1 for void, low confidence, things without an embedding
        and small instances.
    instance : int64 array of shape (h, w)
        1, 2, ... by first appearance; 0 for stuff and void.
    classes : int64 array
        ``classes[k]`` is the class of instance k; -1 for 0.
    clusterings : dict from class to Clustering
        Solution for each thing class, one label per pixel of the class that has an embedding.
    seconds : float
        Time to compute the map; the clusterings have that of the solver.
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
    """Data of one image: embeddings and classes; optionally confidence, picture and ground truth."""

    name: str
    embeddings: NDArray[Any]
    semantic: NDArray[Any]
    confidence: NDArray[Any] | None = None
    image: NDArray[np.uint8] | None = None
    truth: Panoptic | None = None

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width of the result: those of the picture or else of the truth; None without both."""
        if self.image is not None:
            return self.image.shape[:2]
        return None if self.truth is None else self.truth.semantic.shape


#: A sample, or a function that reads one.
SampleSource = Sample | Callable[[], Sample]


class Outcome(NamedTuple):
    """Result for one of many images."""

    name: str
    sample: Sample | None  # None if reading failed
    segmentation: Segmentation | None  # None if there was an error
    error: Exception | None = None


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
    min_confidence: float | None = None,
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
    two pixels attract or repel by the similarity of their embeddings minus a threshold. Every pixel of the
    image is then assigned to the cluster of its class whose mean embedding is most similar to the
    interpolated embedding of the pixel.

    Parameters
    ----------
    embeddings : array of shape (h, w, d)
        One vector per pixel, often at a lower resolution than the image. Zeros mean that a pixel has no
        embedding: it is void if its class is a thing.
    semantic : integer array of shape (h', w')
        Class of each pixel, at any resolution. Negative classes, and those in `void`, are void.
    things : sequence of int
        The classes that have instances. Others are *stuff* and stay as they are.
    threshold : float or dict from class to float, default=0.4
        Similarity at which two pixels neither attract nor repel. Larger gives more and smaller objects.
    confidence : array of shape (h', w') or (h, w), optional
        Confidence of the class of each pixel, between 0 and 1.
    shape : (int, int), optional
        Height and width of the result; those of `semantic` by default.
    stuff : sequence of int, optional
        If given, a class in none of things, stuff and void is an error.
    void : sequence of int, default=(255,)
        Numbers in `semantic` for pixels without a class.
    min_confidence : float, optional
        Pixels below this confidence become void. Default: 0.5 if there is a confidence map, so that a
        foreground probability is all that a single thing class needs; 0 keeps all pixels.
    min_size : int, default=0
        Instances of fewer pixels become void.
    position : float, default=0
        Weight of the squared distance of two pixels, in units of the longer side of the image, which is
        subtracted from their similarity. It separates objects far apart that have similar embeddings.
    connected : bool, default=False
        Split every instance into its connected regions (corners do not connect). Not advisable where
        objects may be partly hidden.
    metric : {"cosine", "inner_product"}, default="cosine"
        "cosine" scales embeddings to length 1 (zeros stay zero).
    upsample : {"features", "labels"}, default="features"
        How labels are computed at image resolution: as described above, or by repeating them.
    graph : {"complete", "grid"}, default="complete"
        "grid" is the sparse baseline: multicut on a grid with long-range edges, by an algorithm of
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
    return _assembled(image, dict(zip(problems, found, strict=True)))


def segment_many(
    samples: Iterable[SampleSource] | Mapping[str, SampleSource],
    rules: Rules,
    *,
    n_jobs: int | None = None,
    algorithm: Any = "auto",
    callback: Progress | None = None,
    **options: Any,
) -> Iterator[Outcome]:
    """Partition the pixels of many images; an error in one image does not stop the others.

    Parameters
    ----------
    samples : iterable of Sample or of functions that read one, or mapping from names
        They are read in turn, so that the images need not fit into memory together. Functions without names
        are numbered.
    rules : Rules
        The options of `segment` that define problems and maps.
    n_jobs, algorithm, callback, **options
        As for `solve_many`: problems of several images are solved in parallel, or in packs on a GPU.

    Yields
    ------
    Outcome
        In order.
    """
    solving = {"n_jobs": n_jobs, "algorithm": algorithm, "callback": callback} | options
    batch: list[tuple[str, Sample | None, Image | Exception]] = []
    held = 0
    for number, source in samples.items() if isinstance(samples, Mapping) else enumerate(samples):
        sample: Sample | None = None
        image: Image | Exception
        try:
            sample = source if isinstance(source, Sample) else source()
            image = Image(rules, sample.embeddings, sample.semantic, sample.confidence, sample.shape)
            held += image.nbytes + sum(np.asarray(array).nbytes for array in sample[1:5])
        except Exception as error:
            image = error
        batch.append((source.name if isinstance(source, Sample) else str(number), sample, image))
        if held > BATCH_BYTES:
            yield from _solve_batch(batch, solving)
            batch, held = [], 0
    yield from _solve_batch(batch, solving)


def _solve_batch(
    batch: list[tuple[str, Sample | None, Image | Exception]], solving: dict[str, Any]
) -> Iterator[Outcome]:
    images = {t: image for t, (_, _, image) in enumerate(batch) if isinstance(image, Image)}
    problems = {(t, c): problem for t, image in images.items() for c, problem in image.problems.items()}
    errors: dict[Any, Exception] = {}
    found: Any
    try:
        found = solve_many(problems, **solving)
    except SolveManyError as error:
        found, errors = error.results, error.errors
    clusterings = dict(zip(problems, found, strict=True))
    for t, (name, sample, image) in enumerate(batch):
        if isinstance(image, Exception):
            yield Outcome(name, sample, None, image)
        elif failed := [errors[t, c] for c in image.nodes if (t, c) in errors]:
            yield Outcome(name, sample, None, failed[0])
        else:
            yield Outcome(name, sample, _assembled(image, {c: clusterings[t, c] for c in image.nodes}))


def _assembled(image: Image, clusterings: dict[int, Clustering]) -> Segmentation:
    start = clock()
    semantic, instance = image.assemble(clusterings)
    classes = np.full(instance.max() + 1, VOID)
    classes[instance] = semantic
    classes[0] = VOID
    return Segmentation(semantic, instance, classes, clusterings, clock() - start)
