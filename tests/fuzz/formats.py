"""Graphs and links in files of every format, written without the package."""

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from fuzz import values

#: The formats of graphs, and the endings that they may have.
GRAPHS = {
    "PACE": (".gr", ".txt", ".csv", ".GR"),
    "METIS": (".graph", ".metis"),
    "edge list": (".txt", ".edges", ".csv", ".tsv"),
    "MULTICUT": (".txt", ".edges", ".graph", ".gr"),
    "npz": (".npz",),
    "matrix": (".npz",),
}
#: Those that may hold nodes without edges, whatever their numbers.
SIZED = ("PACE", "METIS", "npz", "matrix")


def random_graph(rng):
    """Return edges, weights or None, and the number of nodes; pairs repeat only where sums are exact."""
    n = int(rng.integers(1, 9) if rng.random() < 0.7 else rng.integers(9, 30))
    m = int(rng.integers(0, 1 + min(n * n, 3 * n if rng.random() < 0.5 else 900)))
    edges = rng.integers(n, size=(m, 2))
    edges = edges[edges[:, 0] != edges[:, 1]]
    kind = rng.choice([0, 0, 0, 1, 2, 3, 4, 5, 6])
    if kind > 2 or rng.random() < 0.5:
        edges = distinct(rng, edges)
    m = len(edges)
    weights = (
        None,
        rng.integers(-3, 4, size=m),
        rng.integers(0, 4, size=m),
        rng.normal(size=m),
        rng.random(m),
        rng.random(m) * values.powers(rng, m, 12),
        rng.normal(size=m) * values.powers(rng, (), 30),
    )[kind]
    return edges, None if weights is None else weights.astype(float), n


def distinct(rng, edges):
    """Return every pair once, in any order, its ends in any order."""
    edges = np.unique(np.sort(edges, axis=1), axis=0)
    edges = edges[rng.permutation(len(edges))]
    turned = rng.random(len(edges)) < 0.5
    edges[turned] = edges[turned, ::-1]
    return edges


def is_simple(edges):
    return len(np.unique(np.sort(edges, axis=1), axis=0)) == len(edges)


def formats_of(edges, weights, n):
    """Return the formats that hold a graph without any loss."""
    found = {"PACE"} if weights is None else set()
    if is_simple(edges):
        found |= {"METIS"} if weights is not None and np.any(weights == 0) else {"METIS", "matrix"}
    if len(edges) and edges.max() + 1 == n:
        found |= {"edge list", "MULTICUT"}
    return sorted(found | {"npz"})


def write_graph(rng, stem, kind, edges, weights, n):
    """Write a graph in a format; return the name of the file."""
    path = Path(stem + str(rng.choice(GRAPHS[kind])))
    if kind == "npz":
        write_arrays(rng, path, edges, weights, n)
    elif kind == "matrix":
        i, j = np.sort(edges, axis=1).T[:: rng.choice([-1, 1])]
        costs = np.ones(len(edges)) if weights is None else weights
        if rng.random() < 0.5:
            i, j, costs = np.r_[i, j], np.r_[j, i], np.r_[costs, costs]
        matrix = sp.coo_array((costs, (i, j)), shape=(n, n))
        sp.save_npz(path, matrix.asformat(str(rng.choice(["coo", "csr", "csc"]))))
    else:
        lines = {"PACE": pace, "METIS": metis, "MULTICUT": multicut, "edge list": edge_list}[kind]
        write_lines(rng, path, lines(rng, path, edges, weights, n))
    return str(path)


def write_lines(rng, path, lines):
    end = str(rng.choice(["\n", "\n", "\r\n"]))
    is_blank = not lines[-1]  # without an end, it would be no line
    text = end.join(lines) + (end if is_blank or rng.random() < 0.8 else "")
    path.write_bytes(text.encode("utf-8-sig" if rng.random() < 0.1 else "utf-8"))


def write_arrays(rng, path, edges, weights, n):
    arrays = {"edges": edges.astype(rng.choice([np.int64, np.int32, np.uint8]))}
    if not (len(edges) and edges.max() + 1 == n and rng.random() < 0.5):
        arrays[str(rng.choice(["n", "n_nodes"]))] = np.array(n)
    if weights is not None:
        signs = bool(np.all(np.abs(weights) == 1)) and rng.random() < 0.5
        arrays["signs" if signs else str(rng.choice(["weights", "costs"]))] = weights
    (np.savez if rng.random() < 0.5 else np.savez_compressed)(path, **arrays)


def pace(rng, path, edges, weights, n):
    prefix = "e " if rng.random() < 0.2 else ""
    comments = ["c a comment"] if rng.random() < 0.3 and path.suffix.lower() == ".gr" else []
    head = f"p {rng.choice(['cep', 'edge'])} {n} {len(edges)}"
    return [*comments, head, *comments, *(f"{prefix}{u + 1} {v + 1}" for u, v in edges.tolist())]


def metis(rng, path, edges, weights, n):
    sized, heavy, ncon = rng.random() < 0.2, rng.random() < 0.2, int(rng.integers(1, 3))
    near = [[7] * sized + [3] * (heavy * ncon) for _ in range(n)]
    costs = [1] * len(edges) if weights is None else weights.tolist()
    for (u, v), cost in zip(edges.tolist(), costs, strict=True):
        for a, b in ((u, v), (v, u)):
            near[a] += [b + 1] if weights is None else [b + 1, cost]
    fmt = f"{sized:d}{heavy:d}{weights is not None:d}"
    head = f"{n} {len(edges)}"
    if int(fmt) or rng.random() < 0.3:
        head += f" {fmt if rng.random() < 0.5 else int(fmt)}{f' {ncon}' if heavy and ncon > 1 else ''}"
    comments = ["% a comment"] if rng.random() < 0.3 else []
    return [*comments, head, *comments, *(" ".join(map(repr, row)) for row in near)]


def multicut(rng, path, edges, weights, n):
    return ["MULTICUT", *rows(edges, np.ones(len(edges)) if weights is None else weights, " ")]


def edge_list(rng, path, edges, weights, n):
    tabs, commas = "\t", str(rng.choice([",", ", "]))
    separator = commas if path.suffix == ".csv" else str(rng.choice([" ", tabs, "   "]))
    names = ["source", "target", "weight"][: 2 if weights is None else 3]
    heading = [separator.strip(" ").join(names) if commas == separator else separator.join(names)]
    comments = [f"{rng.choice(['#', '%'])} a comment"] if rng.random() < 0.3 else []
    return [
        *comments,
        *(heading if rng.random() < 0.5 else []),
        *comments,
        *rows(edges, weights, separator),
    ]


def rows(edges, weights, separator):
    columns = [edges[:, 0].tolist(), edges[:, 1].tolist()]
    columns += [] if weights is None else [weights.tolist()]
    return [separator.join(map(repr, row)) for row in zip(*columns, strict=True)]


def write_links(rng, links):
    """Write links in files of any format; return the arguments that name them."""
    arguments = []
    for name in ("must_link", "cannot_link"):
        if name in links:
            path = Path(name.removesuffix("_link") + str(rng.choice([".csv", ".tsv", ".txt", ".npy"])))
            pairs = np.asarray(links[name]).reshape(-1, 2)
            if path.suffix == ".npy":
                np.save(path, pairs.astype(rng.choice([np.int64, np.uint16, np.float64])))
            else:
                heading = ["first second"] if rng.random() < 0.3 else []
                separator = str(rng.choice([",", " ", "\t"]))
                write_lines(rng, path, ["# pairs", *heading, *rows(pairs, None, separator)])
            arguments += [f"--{name.replace('_', '-')}", str(path)]
    if "exclusive" in links:
        arguments += ["--exclusive", write_groups(rng, links["exclusive"])]
    if "link_weight" in links:
        arguments += ["--link-weight", repr(links["link_weight"])]
    return [argument for pair in shuffled(rng, arguments) for argument in pair]


def shuffled(rng, arguments):
    pairs = list(zip(arguments[::2], arguments[1::2], strict=True))
    return [pairs[at] for at in rng.permutation(len(pairs))]


def write_groups(rng, groups):
    """Write one group per item; return FILE or FILE:COLUMN."""
    kind = str(rng.choice([".csv", ".tsv", ".txt", ".npy", ".npz", ".parquet", "table", "table"]))
    none = str(rng.choice(["", "-1", "nan"]))
    prefix = str(rng.choice(["", "photo ", "ä"]))
    names = [none if group < 0 else f"{prefix}{group}" for group in groups.tolist()]
    if kind == "table":
        path = Path("groups" + str(rng.choice([".csv", ".tsv"])))
        separator = "," if path.suffix == ".csv" else "\t"
        write_lines(
            rng,
            path,
            [
                separator.join(["face", "photo"]),
                *(f"{at}{separator}{name}" for at, name in enumerate(names)),
            ],
        )
        return f"{path}:photo"
    path = Path(f"groups{kind}")
    if kind == ".npy":
        np.save(path, groups)
    elif kind == ".npz":
        np.savez(path, groups=groups)
    elif kind == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table({"group": groups}), path)
    else:
        path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return str(path)


def contradict(groups, apart):
    """Return whether items that must be together must be apart."""
    return bool(np.any(apart & (groups[:, None] == groups)))
