"""Data, problems and files that several test modules use."""

import resource
import signal
from contextlib import contextmanager

import numpy as np


def memory_for(items, d):
    """The memory limit with which a task may have that many items."""
    from clusterfug.execution.sharded.source import solve_bytes

    return items * solve_bytes(1, d)


def mixture(rng, n, clusters, d=8, noise=0.6):
    """Items of length 1 around random directions, in random order; and which of them."""
    centres = rng.normal(size=(clusters, d))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    truth = rng.integers(clusters, size=n)
    z = rng.normal(size=(n, d))
    X = centres[truth] + noise * z / np.linalg.norm(z, axis=1, keepdims=True)
    return X / np.linalg.norm(X, axis=1, keepdims=True), truth


def separated(rng, n, clusters, d=8):
    """The same where every pair of a cluster attracts and all others repel, at a threshold of 0.4."""
    truth = rng.integers(clusters, size=n)
    X = np.eye(d)[truth] + 0.03 * rng.normal(size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True), truth


def clusters_of(labels):
    """The clusters as sets of items, whatever their numbers."""
    return {frozenset(np.flatnonzero(labels == c).tolist()) for c in np.unique(labels)}


def unit(X):
    """Rows scaled to length 1."""
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def gaussian_mixture(rng, n, clusters, d, noise):
    """Items of length 1 around random directions with Gaussian noise of this mean length; and classes."""
    y = rng.integers(clusters, size=n)
    centres = unit(rng.normal(size=(clusters, d)))
    return unit(centres[y] + noise / np.sqrt(d) * rng.normal(size=(n, d))), y


def blobs(rng, n, d=4, clusters=4, noise=0.4):
    """Gaussian clusters around random points, of rows of any length."""
    return rng.normal(size=(clusters, d))[rng.integers(clusters, size=n)] + noise * rng.normal(size=(n, d))


def conflicting(rng, n, clusters=6, d=16, noise=0.9):
    """A Gaussian mixture with clusters so close to each other that triangles conflict."""
    return gaussian_mixture(rng, n, clusters, d, noise)[0]


def symmetric(n, values):
    """Symmetric costs of n nodes with a zero diagonal from one number, or one per pair i < j."""
    costs = np.zeros((n, n))
    i, j = np.triu_indices(n, 1)
    costs[i, j] = costs[j, i] = values
    return costs


def around_axes(rng, n, clusters=4, d=6, noise=0.15):
    """Well separated clusters of equal size around the axes; and classes."""
    y = rng.permutation(np.arange(n) % clusters)
    return unit(np.eye(d)[y] + noise * rng.normal(size=(n, d))), y


def uneven_mixture(rng, n, d, clusters, low=0.7, high=1.3):
    """Items of length 1 around random directions with noise of unequal length, so that some are hubs."""
    noise = rng.normal(size=(n, d))
    noise *= rng.uniform(low, high, size=(n, 1)) / np.linalg.norm(noise, axis=1, keepdims=True)
    centres = unit(rng.normal(size=(clusters, d)))
    return unit(centres[rng.integers(clusters, size=n)] + noise)


def split_by_problem(problem, values):
    """One number per item of a pack of tensors as one array per problem."""
    return np.split(values.cpu().numpy(), problem.starts[1:-1].tolist())


def assert_same_clusters(labels, others):
    """Two labellings are the same clustering, whatever their numbers."""
    np.testing.assert_array_equal(labels[:, None] == labels, others[:, None] == others)


def scene(rng, height=12, width=16, d=6, objects=3):
    """Embeddings, classes and instances of objects in vertical stripes.

    Things of class 1 are above, things of class 2 below, stuff (3) is on the right.
    """
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


def street():
    """A panoptic map with people (24), cars (26), road (7), void, and a crowd of people."""
    from clusterfug.segmentation import Panoptic

    semantic = np.full((12, 18), 7)
    instance = np.zeros((12, 18), dtype=int)
    semantic[:4, :6], instance[:4, :6] = 24, 1
    semantic[:4, 6:9], instance[:4, 6:9] = 24, 2
    semantic[5:9, 2:12], instance[5:9, 2:12] = 26, 3
    semantic[9:, :3] = 24  # the crowd
    semantic[:, -2:] = -1
    return Panoptic(semantic, instance)


def assert_same_street(one, other):
    """Two maps of `street()` are equal up to the numbers of the instances."""
    from clusterfug.segmentation import panoptic_quality

    np.testing.assert_array_equal(one.semantic, other.semantic)
    assert panoptic_quality([one], [other], [24, 26], [7]).all.pq == 1.0
    np.testing.assert_array_equal(one.instance > 0, other.instance > 0)


def write_cityscapes(root, rng, name="aachen_000000_000019"):
    """Write a picture and the map `street()` in the layout of Cityscapes; returns the name of the image."""
    from clusterfug.segmentation.cityscapes import write_instance_ids
    from clusterfug.segmentation.pictures import write_picture

    for kind, ending in (("leftImg8bit", "leftImg8bit.png"), ("gtFine", "gtFine_instanceIds.png")):
        path = root / kind / "val" / "aachen" / f"{name}_{ending}"
        path.parent.mkdir(parents=True)
        if kind == "gtFine":
            write_instance_ids(path, street())
        else:
            write_picture(path, rng.integers(256, size=(12, 18, 3), dtype=np.uint8))
    return name


#: Weights of the convolution that `save_encoder` writes.
CONVOLUTION_WEIGHTS = np.random.default_rng(7).normal(size=(5, 3, 3, 3)).astype(np.float32)
CONVOLUTION = [
    ("Conv", ["images", "weights"], ["edges"]),
    ("Relu", ["edges"], ["map"]),
    ("GlobalAveragePool", ["map"], ["pooled"]),
    ("Flatten", ["pooled"], ["features"]),
]


def save_onnx(path, nodes, inputs, outputs, kind=None, **weights):
    """Write an ONNX file of nodes (operator, inputs, outputs); shapes of inputs and outputs by name."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    kind = TensorProto.FLOAT if kind is None else kind
    graph = helper.make_graph(
        [helper.make_node(*node) for node in nodes],
        "encoder",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


def save_encoder(path):
    """Write an encoder for any batch and size: convolution, rectifier, mean; the map is an output, too."""
    return save_onnx(
        path,
        CONVOLUTION,
        {"images": ["n", 3, "h", "w"]},
        {"features": ["n", 5], "map": ["n", 5, "a", "b"]},
        weights=CONVOLUTION_WEIGHTS,
    )


def save_images(folder, rng):
    """Write ten images of several shapes to a new folder."""
    from PIL import Image

    folder.mkdir()
    for i in range(10):
        shape = (30 + 7 * i, 64 - 3 * i, 3)
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(folder / f"{i}.png")
    return folder


def interrupt_at(count):
    """Return a callback that raises KeyboardInterrupt when that many images are done."""

    def callback(phase, done, total):
        if (phase, done) == ("images", count):
            raise KeyboardInterrupt

    return callback


def random_problem(rng, n, d):
    """A `DenseProblem` with random features, thresholds or alphas, weights, duplicates and integer ties."""
    from clusterfug import DenseProblem

    X = rng.normal(size=(n, d)) if rng.random() < 0.5 else rng.integers(-2, 3, size=(n, d)).astype(float)
    X[rng.random(n) < 0.2] = X[0]
    options = {}
    if rng.random() < 0.3:
        options |= {"alpha": rng.random(n), "prefer": rng.choice(["small", "large"])}
    else:
        options["threshold"] = rng.choice([-0.2, 0.0, 0.4, 1.0])
    if rng.random() < 0.3:
        options["sample_weight"] = rng.random(n) + 0.1
    return DenseProblem(X.astype(rng.choice([np.float32, np.float64])), **options)


def uneven_problem(seed):
    """A small `DenseProblem` whose rows, columns or weights differ by many orders of magnitude."""
    from clusterfug import DenseProblem

    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 13)), int(rng.integers(1, 5))
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if rng.random() < 0.5 else rng.normal(size=(n, d))

    def scales(size):
        return 10.0 ** rng.integers(-12, 13, size=size)

    if rng.random() < 0.5:
        X = X * scales((n, 1))
    if rng.random() < 0.5:
        X = X * scales(d)
    if rng.random() < 0.3:
        X = X * scales((n, d))
    threshold = rng.choice([0.0, 0.4, -1e-30, 1e-20, float(X[0] @ X[0]), float(X[0] @ X[-1])])
    weight = rng.choice([0.1, 1.0, 1.7], size=n) * (scales(n) if rng.random() < 0.5 else 1)
    return DenseProblem(X.astype(rng.choice([np.float32, np.float64])), threshold, sample_weight=weight)


def random_graph(rng, n, density):
    """A `GraphProblem` with random edges, whose costs are normal or small integers."""
    from clusterfug.problems.graph import GraphProblem

    edges = np.argwhere(np.triu(rng.random((n, n)) < density, 1))
    whole = rng.random() < 0.5
    costs = rng.integers(-2, 3, size=len(edges)) if whole else rng.normal(size=len(edges))
    return GraphProblem(edges, costs.astype(float), n)


def pair_costs(problem):
    """The costs of all pairs of items, with a zero diagonal."""
    items = np.arange(problem.n)
    return problem.group_costs(items, items).costs


def noisy_problem(rng, n=30, clusters=4, noise=1.0, dtype=np.float64, **costs):
    """A `DenseProblem` of a mixture with 6 features, with a threshold of 0.25 by default."""
    from clusterfug import DenseProblem

    X, _ = mixture(rng, n, clusters, d=6, noise=noise)
    return DenseProblem(X.astype(dtype), **({"threshold": 0.25} | costs))


def sharded_driver(problem, size, max_items, algorithm="auto"):
    """A `Driver` of a problem in shards of that size, without a checkpoint."""
    from clusterfug.execution import threads
    from clusterfug.execution.sharded.checkpoint import Checkpoint
    from clusterfug.execution.sharded.driver import Driver, Shard
    from clusterfug.execution.sharded.engine import LocalEngine
    from clusterfug.execution.sharded.tasks import Recipe
    from clusterfug.refinement.budget import Budget

    shards = [
        Shard(part.start, part.stop, problem.subset(part), Recipe())
        for part in threads.slices(problem.n, size)
    ]
    return Driver(shards, LocalEngine(), Checkpoint(None, {}), Budget(), max_items, algorithm)


def table_of(X, kind):
    """A table of Arrow with one column per feature, or one of vectors beside a column of names."""
    import pyarrow

    if kind == "columns":
        return pyarrow.table({f"f{p}": X[:, p] for p in range(X.shape[1])})
    if kind == "fixed":
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(X.ravel()), X.shape[1])
    else:
        types = {"list": pyarrow.list_, "large": pyarrow.large_list}
        column = pyarrow.array(list(X), types[kind](pyarrow.from_numpy_dtype(X.dtype)))
    return pyarrow.table({"name": [f"item {at}" for at in range(len(X))], "features": column})


def write_table(table, path, rows=None, **options):
    """Write a .parquet, .arrow or .feather file, in groups of that many rows if given."""
    import pyarrow
    from pyarrow import feather, parquet

    ending = path.suffix.lower()
    if ending == ".parquet":
        parquet.write_table(table, path, row_group_size=rows, **options)
    elif ending == ".feather":
        feather.write_feather(table, path, chunksize=rows, **options)
    else:
        with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)


def write_in_parts(X, folder, endings, kind="fixed"):
    """Write rows to files of different sizes in a new folder; returns the paths."""
    folder.mkdir()
    ends = np.linspace(0, len(X), len(endings) + 1).astype(int) - np.arange(len(endings) + 1) % 2
    ends[-1], paths = len(X), []
    for at, ending in enumerate(endings):
        path, part = folder / f"part-{at:02}{ending}", X[max(0, ends[at]) : ends[at + 1]]
        if ending == ".npy":
            np.save(path, part)
        else:
            write_table(table_of(part, kind), path)
        paths.append(path)
    return paths


@contextmanager
def limited_file_size(size):
    """No file can become larger than that many bytes: as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def names_in(folder):
    """Sorted names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


def without_announcement(errors):
    """Error output without the line that a process prints if it is the first to compile kernels."""
    return "".join(line for line in errors.splitlines(True) if "compiling kernels" not in line)


def random_mixed(rng, n, whole=False, attracting=True, dtype=np.float64):
    """A `MixedProblem` with parallel edges, ties and duplicates, and the matrix of its costs."""
    from reference import cost_matrix

    from clusterfug import MixedProblem

    m, d = int(rng.integers(0, 3 * n)), int(rng.integers(1, 4))
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if whole else rng.normal(size=(n, d))
    X[rng.random(n) < 0.2] = X[0]
    X = (X if attracting else np.zeros((n, 1))).astype(dtype)
    threshold = float(rng.integers(0, 3)) if whole else 0.3
    edges = rng.integers(n, size=(m, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    sparse = rng.integers(-4, 5, size=len(edges)).astype(float) if whole else rng.normal(size=len(edges))
    costs = cost_matrix(X, threshold)
    np.add.at(costs, tuple(edges.T), sparse)
    np.add.at(costs, tuple(edges.T[::-1]), sparse)
    np.fill_diagonal(costs, 0.0)
    return MixedProblem(X, edges, sparse, threshold=threshold), costs


def random_links(rng, n):
    """Hard links without contradictions: arguments, groups 0..K-1, and which items must be apart."""
    groups = rng.integers(max(1, 2 * n // 3), size=n)
    groups = np.unique(groups, return_inverse=True)[1]
    order = np.argsort(groups, kind="stable")
    must = np.stack([order[:-1], order[1:]], axis=1)[np.diff(groups[order]) == 0]
    cannot = rng.integers(n, size=(rng.integers(0, n), 2))
    cannot = cannot[groups[cannot[:, 0]] != groups[cannot[:, 1]]]
    exclusive = rng.integers(-1, max(1, n // 3), size=n)
    first = np.unique(exclusive * n + groups, return_index=True)[1]
    exclusive = np.where(np.isin(np.arange(n), first), exclusive, -1)
    apart = (exclusive[:, None] == exclusive) & (exclusive >= 0)
    apart[tuple(cannot.T)] = apart[tuple(cannot.T[::-1])] = True
    np.fill_diagonal(apart, False)
    return {"must_link": must, "cannot_link": cannot, "exclusive": exclusive}, groups, apart
