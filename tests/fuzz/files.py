"""Damaged files: read as something, or refused in one line that names the file; nothing is executed."""

import json
import pickle
import re
import shutil
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from makers import memory_for

from clusterfug import LowerBound, dense_multicut, lower_bound
from clusterfug.execution.sharded import source
from fuzz.commands import run
from fuzz.oracles import check, check_error, no_runtime_warnings

X = np.random.default_rng(1).normal(size=(12, 3)).astype(np.float32)
#: What the names of files of graphs that only `multicut` reads, and of links, begin with.
GRAPHS, LINKS = "graph.", ("must.", "cannot.", "groups.")


class Payload:
    """Unpickling it leaves a file."""

    def __reduce__(self):
        return Path.touch, (Path("executed"),)


@cache
def originals():
    """A folder of valid files, one per format; labels with settings; a bound."""
    import pyarrow as pa
    import pyarrow.feather as feather
    import scipy.sparse as sp

    from clusterfug.io import files
    from clusterfug.io.labels import write_labels
    from clusterfug.io.settings import settings_of
    from clusterfug.problems.graph import GraphProblem

    folder = Path(mkdtemp(prefix="clusterfug-originals-"))
    for ending in (".npy", ".npz", ".h5", ".csv", ".parquet", ".txt"):
        files.write_instance(folder / f"x{ending}", files.Features(X), 0.4)
    graph = GraphProblem([[0, 1], [1, 2], [0, 2], [2, 3]], [2.0, 1.5, -3.0, 0.25])
    files.write_instance(folder / "x.graph.txt", graph, 0.0)
    files.write_instance(folder / "x.graph.npz", graph, 0.0)
    write_graphs(folder)
    write_links(folder)
    table = pa.table({f"f{p}": X[:, p] for p in range(3)})
    feather.write_feather(table, folder / "x.feather", compression="uncompressed")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
    with (
        pa.OSFile(str(folder / "x.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, pa.schema([("v", vectors.type)])) as w,
    ):
        w.write_batch(pa.record_batch([vectors], names=["v"]))
    result = dense_multicut(X, 0.1, algorithm="fast")
    for ending in (".npy", ".npz", ".csv", ".parquet"):
        write_labels(folder / f"labels{ending}", result.labels, settings_of(result))
    lower_bound(X, 0.1).save(folder / "bound.npz")
    (folder / "objects.npy").write_bytes(_object_array(Payload()))
    np.savez(folder / "objects.npz", features=np.array([Payload()], dtype=object), allow_pickle=True)
    (folder / "pickle.npy").write_bytes(pickle.dumps(Payload()))
    sp.save_npz(folder / "matrix.npz", sp.eye_array(4).tocsr() - 1 * sp.eye_array(4, k=1).tocsr())
    return folder


def write_graphs(folder):
    """Write graphs of 12 nodes in the formats of `multicut`."""
    edges = np.random.default_rng(3).integers(12, size=(30, 2))
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    costs = np.round(np.random.default_rng(4).normal(size=len(edges)), 3)
    rows = [(u, v, cost) for (u, v), cost in zip(edges.tolist(), costs.tolist(), strict=True)]
    near = [[part for u, v, cost in rows if node in (u, v) for part in (u + v - node + 1, cost)]
            for node in range(12)]  # fmt: skip
    texts = {
        "gr": [f"p cep 12 {len(rows)}", *(f"{u + 1} {v + 1}" for u, v, _ in rows)],
        "dimacs.gr": ["c a comment", f"p edge 12 {len(rows)}", *(f"e {u + 1} {v + 1}" for u, v, _ in rows)],
        "metis": [f"12 {len(rows)}", *(" ".join(map(str, row[::2])) for row in near)],
        "graph": [f"12 {len(rows)} 011 2", "% sizes", *(" ".join(map(str, [1, 2, *row])) for row in near)],
        "edges": [f"{u} {v}" for u, v, _ in rows],
        "csv": ["source,target,weight", *(f"{u},{v},{cost}" for u, v, cost in rows)],
        "tsv": ["# a comment", *(f"{u}\t{v}\t{abs(cost)}" for u, v, cost in rows)],
        "multicut.edges": ["MULTICUT", *(f"{u} {v} {cost}" for u, v, cost in rows)],
    }
    for ending, lines in texts.items():
        (folder / f"{GRAPHS}{ending}").write_text("\n".join(lines) + "\n")
    np.savez(folder / f"{GRAPHS}arrays.npz", edges=edges, weights=np.abs(costs), n=12)
    np.savez(folder / f"{GRAPHS}signs.npz", edges=edges, signs=np.sign(costs).astype(np.int8))


def link_options(name):
    """Return the option that names a file of links."""
    option = {"must": "--must-link", "cannot": "--cannot-link", "groups": "--exclusive"}
    return [option[name.split(".")[0]], f"{name}:photo" if name == "groups.csv" else name]


def write_links(folder):
    """Write pairs and groups of 12 items in every format of links."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    for name, pairs in {"must": [[0, 1], [4, 7]], "cannot": [[0, 2], [3, 9], [7, 11]]}.items():
        np.save(folder / f"{name}.npy", np.array(pairs))
        for ending, separator in {"csv": ",", "tsv": "\t", "txt": " "}.items():
            lines = ["first second", "# a comment", *(separator.join(map(str, pair)) for pair in pairs)]
            (folder / f"{name}.{ending}").write_text("\n".join(lines) + "\n")
    groups = np.array([-1, 0, 0, -1, 1, 1, -1, -1, -1, 2, 2, -1])
    names = ["" if group < 0 else f"photo {group}" for group in groups]
    (folder / "groups.txt").write_text("\n".join(names) + "\n")
    rows = [f"{at},{name}" for at, name in enumerate(names)]
    (folder / "groups.csv").write_text("\n".join(["face,photo", *rows]) + "\n")
    (folder / "groups.tsv").write_text("\n".join(names) + "\n")
    np.save(folder / "groups.npy", groups)
    np.savez(folder / "groups.npz", groups=groups)
    parquet.write_table(pa.table({"group": groups}), folder / "groups.parquet")


def _object_array(value):
    from io import BytesIO

    file = BytesIO()
    np.save(file, np.array([value], dtype=object), allow_pickle=True)
    return file.getvalue()


#: What replaces a value of a JSON file.
ODD_VALUES = (None, True, 0, -1, 1.5, 2**70, float("nan"), "", "x", "0", [], [1], {}, {"id": 1}, [[]])


def damage(rng, data):
    """Return bytes with one kind of damage; sometimes with two.

    Half the time, of JSON a value changes, and of other text a line or a field.
    """
    if data[:1] == b"{" and rng.random() < 0.5:
        return damage_json(rng, data)
    if len(data) > 1 and data.isascii() and b"\0" not in data and rng.random() < 0.5:
        return damage_text(rng, data)
    data = bytearray(data)
    for _ in range(1 if rng.random() < 0.7 else 2):
        at = (
            int(rng.integers(0, len(data) + 1))
            if rng.random() < 0.5
            else int(rng.integers(0, min(len(data), 400) + 1))
        )
        size = int(rng.choice([1, 1, 2, 4, 7, 8, 64]))
        kind = rng.integers(8)
        if kind == 0:
            data[at : at + size] = rng.bytes(size)
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            data[at:at] = bytes([int(rng.choice([0, 1, 255]))]) * size
        elif kind == 3:
            del data[at : at + size]
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            data[at : at + size] = b"\xff" * size
        elif kind == 6:
            data[at:at] = data[at : at + size * 8]
        else:
            data[at : at + size] = bytes(size)
    return bytes(data)


#: What replaces a field of a file of text.
ODD_FIELDS = (
    *("0", "-1", "1", "3", "11", "12", "1.5", "1e5", "2147483647", "99999999999999999999", "nan", "-inf"),
    *("1e-310", "1e308", "", "x", "0x1", "1_0", "#", "%", "c", "p", "e", '"', ",", "\u0663"),
)


def damage_text(rng, data):
    """Return text in which a line is missing, repeated or elsewhere, or a field or separator is another."""
    lines = data.decode().splitlines()
    at, to = rng.integers(len(lines), size=2)
    kind = rng.integers(7)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(to, lines[at])
    elif kind == 2:
        lines[at], lines[to] = lines[to], lines[at]
    elif kind == 3:
        lines.insert(at, str(rng.choice(ODD_FIELDS)))
    else:
        fields = re.split(r"([ ,\t]+)", lines[at])
        fields[rng.integers(len(fields))] = str(rng.choice(ODD_FIELDS))
        lines[at] = "".join(fields)
    return (str(rng.choice(["\n", "\n", "\r\n", "\r"])).join(lines) + "\n").encode()


def damage_json(rng, data):
    """Return JSON in which a value is missing, or is another one."""
    content = json.loads(data)
    places = []

    def visit(node):
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                visit(node[key])

    visit(content)
    node, key = places[rng.integers(len(places))]
    if rng.random() < 0.3:
        del node[key]
    else:
        node[key] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
    return json.dumps(content).encode()


def damaged_files(rng, folder):
    """Damage a file of one of the formats, and read it with a command."""
    valid = originals()
    for path in valid.iterdir():
        shutil.copy(path, folder)
    names = sorted(path.name for path in valid.iterdir())
    name = str(rng.choice(names))
    if not name.startswith(("objects", "pickle")) or rng.random() < 0.5:
        Path(name).write_bytes(damage(rng, Path(name).read_bytes()))
    with no_runtime_warnings():
        if name.startswith("labels"):
            labels = name.removesuffix(".json")
            kinds = (["evaluate", labels], ["evaluate", labels, "--features", "x.npy"])
            kinds += (["bound", "x.npy", "--labels", labels], ["cluster", "x.npy", "--init", labels])
            kinds += (["cluster", "x.npy", "--weights", labels], ["cluster", "x.npy", "--alpha", labels])
        elif name == "bound.npz":
            kinds = (["bound", "x.npy", "-t", "0.1", "--check", name],)
            try:
                LowerBound.load(name)
            except Exception as error:
                check_error(error)
        elif name.startswith(LINKS):
            links = link_options(name)
            links += ["--link-weight", "0.5"] if rng.random() < 0.3 else []
            kinds = (
                ["cluster", "x.npy", "-a", "fast", "-t", "0.4", *links, "-o", "out.npy"],
                ["evaluate", "labels.npy", "--features", "x.npy", *links],
                ["bound", "x.npy", "-t", "0.4", *links],
                ["multicut", f"{GRAPHS}gr", *links, "-o", "out.npy"],
            )
        elif name.startswith(GRAPHS):
            kinds = tuple(["multicut", name, *options] for options in MULTICUTS)
        else:
            kinds = (
                ["inspect", name],
                ["cluster", name, "-a", "fast", "-t", "0.4"],
                ["convert", name, "out.npy"],
            )
            kinds += (["evaluate", "labels.npy", "--features", name], ["bound", name, "-t", "0.4"])
            kinds += (
                ["cluster", name, "-a", "fast", "-t", "0.4", "--memory-limit", "1KB", "-o", "out.npy"],
            )
            kinds += (["multicut", name],) if name.endswith((".txt", ".npz", ".csv")) else ()
    arguments = kinds[rng.integers(len(kinds))]
    code, _ = run(arguments, ["out.npy", "out.npy.json", "edits.txt"])
    if code == 0 and arguments[0] == "multicut" and Path("edits.txt").exists():
        check_pairs("edits.txt", len(np.load("out.npy")))
    if name == "bound.npz" and code == 0 and Path(name).read_bytes() != (valid / name).read_bytes():
        true = LowerBound.load(valid / name)
        check(LowerBound.load(name).value <= true.value + 1e-9, "a damaged bound is larger, and verified")


#: Options of `multicut` for graphs that are damaged.
MULTICUTS = (
    ["--json"],
    ["--objective", "costs", "-o", "out.npy", "--bound"],
    ["--objective", "modularity", "-a", "fast"],
    ["--objective", "potts", "--resolution", "0.3"],
    ["--objective", "editing", "--edits", "edits.txt", "-o", "out.npy"],
)


def check_pairs(name, n):
    """A file of edits has sorted pairs of nodes 1..n."""
    pairs = [tuple(map(int, line.split(" "))) for line in Path(name).read_text().splitlines()]
    check(pairs == sorted(set(pairs)), "edits are not sorted")
    check(all(1 <= u < v <= n for u, v in pairs), f"edits are not pairs of nodes 1..{n}")


class StopError(Exception):
    """Ends a run in the middle."""


@cache
def interrupted():
    """A folder of checkpoints: of runs that were stopped after some steps; and the labels at the end."""
    folder = Path(mkdtemp(prefix="clusterfug-checkpoints-"))
    source.MIN_SHARD_ITEMS = 2
    rows = np.random.default_rng(2).normal(size=(60, 3))
    arguments = {"threshold": 0.2, "algorithm": "fast", "memory_limit": memory_for(12, 3)}
    expected = dense_multicut(rows, **arguments)
    for stop in range(1, 40):
        steps = 0

        def callback(phase, done, total, stop=stop):
            nonlocal steps
            steps += 1
            if steps == stop:
                raise StopError

        run_folder = folder / f"run{stop}"
        try:
            dense_multicut(rows, **arguments, checkpoint=run_folder, callback=callback)
        except StopError:
            continue
        break
    return folder, rows, arguments, expected


def damaged_checkpoints(rng, folder):
    """Damage or replace a file of a checkpoint: the run resumes with the same labels, or refuses."""
    stopped, rows, arguments, expected = interrupted()
    runs = sorted(path.name for path in stopped.iterdir())
    shutil.copytree(stopped / str(rng.choice(runs)), "run")
    paths = sorted(path for path in Path("run").iterdir() if path.name != "lock")
    path = paths[rng.integers(len(paths))]
    kind = rng.integers(5)
    if path.suffix == ".npz" and kind == 0:
        with np.load(path) as saved:
            arrays = dict(saved)
        key = str(rng.choice(sorted(arrays)))
        value = arrays[key]
        other = (
            value[:-1] if value.ndim else value[None],
            np.full(9, 2**40),
            np.array("x"),
            np.zeros(3) - 0.5,
        )
        arrays[key] = other[rng.integers(len(other))]
        np.savez(path, **arrays)
    elif kind == 1:
        path.write_bytes(paths[rng.integers(len(paths))].read_bytes())
    else:
        path.write_bytes(damage(rng, path.read_bytes()))
    try:
        with no_runtime_warnings():
            result = dense_multicut(rows, **arguments, checkpoint=Path("run"))
    except Exception as error:
        check_error(error)
        check("run" in str(error), f"the message names no file: {error}")
        return
    check(np.array_equal(result.labels, expected.labels), "a damaged checkpoint changes the labels")
