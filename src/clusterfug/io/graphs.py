"""Undirected graphs in files, with or without weights, as they are given to graph clustering.

PACE (.gr)         METIS (.graph, .metis)     Edge list (.txt, .edges, .csv, .tsv)

    c a comment        % a comment                # a comment
    p cep 3 2          3 2 001                    source target weight
    1 2                2 0.5                      0 1 0.5
    2 3                1 0.5 3 -1                 1 2 -1
                       2 -1

PACE and METIS files begin with the numbers of nodes and edges and count nodes from 1; edge lists count
them from 0. METIS has one line per node, which lists its neighbours, so every edge is in two lines.
Graphs are also in arrays (.npz) and in the text format MULTICUT of `text.py`.
"""

import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.io import files, text
from clusterfug.io.rows import Rows
from clusterfug.problems.graph import GraphProblem

METIS_ENDINGS = (".graph", ".metis")
ENDINGS = (".gr", *METIS_ENDINGS, ".txt", ".edges", ".csv", ".tsv", ".npz")
#: Names of the arrays of a .npz file with one number per edge, and of the one with the number of nodes.
WEIGHT_NAMES, SIZE_NAMES = ("weights", "costs", "signs"), ("n", "n_nodes")

_MATRIX_MARKET = "%%MatrixMarket"
_PACE_HEADER = re.compile(r"p\s+\S+\s+([0-9]{1,18})\s+([0-9]{1,18})")
_METIS_HEADER = re.compile(r"([0-9]{1,18})\s+([0-9]{1,18})(?:\s+([01]{1,3})(?:\s+([0-9]{1,9}))?)?")
_LARGEST_NODE = 2**31 - 2  # of a `GraphProblem`
_COUNTED_FROM_0 = "nodes are numbers 0..n-1"


class GraphFile(NamedTuple):
    """An undirected graph that was read, and the format of its file.

    A pair of nodes that is listed several times in a PACE, MULTICUT or edge list file is several times
    among the edges; `GraphProblem` adds up their weights.
    """

    edges: NDArray[np.int64]  # (m, 2), nodes counted from 0
    weights: NDArray[np.float64]  # (m,), 1 if the file has none
    n: int  # number of nodes
    format: str  # "PACE", "METIS", "edge list", "npz" or "MULTICUT"


def read_graph_file(path: Path) -> GraphFile:
    """Return the graph in a file, whose format follows from the ending of its name.

    Text that begins as MULTICUT or PACE does is read as such, whatever its ending.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(
            f"{path} has an unknown ending: a file that holds a graph ends in {', '.join(ENDINGS)}"
        )
    files.check_readable(path)
    graph = _read_npz(path) if ending == ".npz" else _read_text(path, ending)
    if not graph.n:
        raise ValueError(f"{path} holds a graph without nodes")
    if graph.n > files.MAX_NODES + files.MAX_NODES_PER_EDGE * len(graph.edges):
        raise ValueError(
            f"{path} has {graph.n:,} nodes but only {len(graph.edges):,} edges: "
            "leave out numbers of nodes without edges"
        )
    return graph


def _read_text(path: Path, ending: str) -> GraphFile:
    header = text.read_header(path)
    if header.startswith(_MATRIX_MARKET):
        raise ValueError(
            f"{path} is a Matrix Market file: read it with scipy.io.mmread, and save it as .npz with "
            "scipy.sparse.save_npz"
        )
    if header == text.FACTORIZED:
        raise ValueError(f"{path} holds features, not a graph")
    if header == text.GRAPH:
        return _read_multicut(path)
    if ending == ".gr" or _PACE_HEADER.fullmatch(Rows(path, "c").first()[1]):
        return _read_pace(path)
    return _read_metis(path) if ending in METIS_ENDINGS else _read_edge_list(path)


def _graph_of_rows(
    rows: Rows,
    table: NDArray[np.float64],
    first: int,
    last: int,
    line: Callable[[Any], int] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return edges, with nodes counted from 0, and weights from rows of two nodes and perhaps a weight.

    In the file, nodes are whole numbers from `first` to `last`; `line` returns the line of a row of the
    table. Weights that are not given are 1.
    """
    line = line or rows.line
    nodes = table[:, :2]
    weights = table[:, 2].copy() if table.shape[1] > 2 else np.ones(len(table))
    is_node = (nodes >= first) & (nodes <= last) & (nodes == np.floor(nodes))
    wrong = np.flatnonzero(~is_node.all(axis=1))
    if len(wrong):
        named = nodes[wrong[0]][~is_node[wrong[0]]][0]
        raise rows.fault(line(wrong[0]), f"{named:.15g} is no node: {rows.advice}")
    loops = np.flatnonzero(nodes[:, 0] == nodes[:, 1])
    if len(loops):
        node = nodes[loops[0], 0]
        raise rows.fault(line(loops[0]), f"node {node:.0f} is joined to itself: remove self-loops")
    wrong = np.flatnonzero(~(np.abs(weights) <= checks.LARGEST))
    if len(wrong):
        what = f"weights must be finite numbers, not {weights[wrong[0]]:g}"
        raise rows.fault(line(wrong[0]), what)
    return nodes.astype(np.int64) - first, weights


def _read_pace(path: Path) -> GraphFile:
    """Return a graph of the PACE challenges: 'p', a word for the problem, n and m; then one edge per line.

    Edges may begin with 'e', as in the similar format of DIMACS.
    """
    at, header = Rows(path, "c").first()
    found = _PACE_HEADER.fullmatch(header)
    if found is None:
        raise ValueError(f"{path}, line {at}: expected 'p cep n m' before the edges, found {header[:40]!r}")
    n, m = int(found[1]), int(found[2])
    rows = Rows(path, "c", f"a line is an edge 'u v' of nodes 1..{n}", skip=at, prefix="e ")
    table = rows.table(2)
    if len(table) != m:
        raise rows.fault(
            at, f"{m} edges are announced, but {len(table)} follow: correct it, or add the rest"
        )
    return GraphFile(*_graph_of_rows(rows, table, 1, n), n, "PACE")


def _read_edge_list(path: Path) -> GraphFile:
    """Return a graph of one edge per line, after a line of words, if any; the separator may be a comma."""
    advice = f"a line is 'u v' or 'u v weight', and {_COUNTED_FROM_0}"
    rows = Rows(path, "#%", advice).after_heading()
    table = rows.table(3 if len(rows.first()[1].split(rows.delimiter)) > 2 else 2)
    edges, weights = _graph_of_rows(rows, table, 0, _LARGEST_NODE)
    return GraphFile(edges, weights, int(edges.max(initial=-1)) + 1, "edge list")


def _read_multicut(path: Path) -> GraphFile:
    edges, costs = text.read_graph(path)
    rows = Rows(path, "", _COUNTED_FROM_0, skip=1)
    edges, weights = _graph_of_rows(rows, np.column_stack([edges, costs]), 0, _LARGEST_NODE)
    return GraphFile(edges, weights, int(edges.max()) + 1, "MULTICUT")


def _read_metis(path: Path) -> GraphFile:
    """Return a graph in the format of METIS and Chaco: 'n m', or 'n m fmt', or 'n m fmt ncon'.

    The digits of fmt, of which leading zeros may be left out, say whether a line begins with the size of
    its node, whether ncon weights of the node follow (1 by default), and whether the weight of its edge
    follows every neighbour. Sizes and weights of nodes are not used. Edges are sorted, lower node first.
    """
    at, header = Rows(path, "%").first()
    found = _METIS_HEADER.fullmatch(header)
    if found is None:
        what = "expected 'n m', 'n m fmt' or 'n m fmt ncon' before the neighbours of node 1"
        raise ValueError(f"{path}, line {at}: {what}, found {header[:40]!r}")
    n, m, fmt, ncon = int(found[1]), int(found[2]), (found[3] or "").zfill(3), int(found[4] or 0)
    sized, heavy, weighted = (digit == "1" for digit in fmt)
    advice = f"the line of a node lists its neighbours, which are numbers 1..{n}"
    rows = Rows(path, "%", advice, skip=at, blank=True)
    if ncon and not heavy:
        raise rows.fault(at, f"ncon is {ncon}, but fmt {fmt} says that nodes have no weights: leave it out")
    of_node, per_edge = sized + heavy * max(ncon, 1), 1 + weighted
    values, lengths = rows.numbers()
    if not lengths[n:].any():
        lengths = lengths[:n]  # without blank lines at the end
    if len(lengths) != n:
        raise rows.fault(
            at, f"{n} nodes are announced, but {len(lengths)} lines follow: write one per node"
        )
    wrong = np.flatnonzero((lengths < of_node) | ((lengths - of_node) % per_edge != 0))
    if len(wrong):
        what = f"{lengths[wrong[0]]} numbers, but fmt {fmt} says {of_node} of the node, then its neighbours"
        raise rows.fault(rows.line(wrong[0]), f"{what}{', each with a weight' if weighted else ''}")
    place = np.arange(len(values)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    values = values[place >= of_node].reshape(-1, per_edge)
    node = np.repeat(np.arange(n), (lengths - of_node) // per_edge)
    arcs, weights = _graph_of_rows(
        rows, np.column_stack([node + 1, values]), 1, n, lambda arc: rows.line(node[arc])
    )
    edges, weights = _paired(rows, arcs, weights, n)
    if len(edges) != m:
        what = f"{m} edges are announced, but {len(edges)} follow"
        raise rows.fault(at, f"{what}: correct it; an edge counts once, though it is in two lines")
    return GraphFile(edges, weights, n, "METIS")


def _paired(
    rows: Rows, arcs: NDArray[np.int64], weights: NDArray[np.float64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return sorted edges and their weights from arcs (node, neighbour), which all need their reverse."""

    def fault(arc: int, what: str) -> ValueError:
        u, v = arcs[arc] + 1
        return rows.fault(rows.line(u - 1), what.format(u=u, v=v))

    # The codes of an arc and of its reverse differ in the lowest bit.
    codes = 2 * (arcs.min(axis=1) * n + arcs.max(axis=1)) + (arcs[:, 0] > arcs[:, 1])
    order = np.argsort(codes, kind="stable")
    codes = codes[order]
    twice = np.flatnonzero(codes[1:] == codes[:-1])
    if len(twice):
        raise fault(order[twice[0] + 1], "node {u} lists node {v} twice: list each neighbour once")
    pairs = np.append(codes, np.full(len(codes) % 2, -1)).reshape(-1, 2)
    alone = np.flatnonzero(pairs[:, 0] ^ 1 != pairs[:, 1])
    if len(alone):
        what = "node {u} lists node {v}, but node {v} does not list node {u}: list both, or none"
        raise fault(order[2 * alone[0]], what)
    forth, back = weights[order[::2]], weights[order[1::2]]
    uneven = np.flatnonzero(forth != back)
    if len(uneven):
        at = uneven[0]
        what = (
            f"from {{u}} to {{v}} the weight is {forth[at]:g}, but from {{v}} to {{u}} it is {back[at]:g}"
        )
        raise fault(order[2 * at], f"{what}: an edge has one weight")
    return arcs[order[::2]], forth


def _read_npz(path: Path) -> GraphFile:
    """Return the graph in a sparse matrix of scipy, or in arrays; nothing in it is unpickled."""
    names = files.archive_shapes(path).keys()
    graph: Any = None
    if "edges" in names:
        graph = _graph_of_arrays(path, names)
    elif {"format", "shape", "data"} <= names:
        graph = files.read(path)
    if not isinstance(graph, GraphProblem):
        raise ValueError(
            f"{path} must hold an array named 'edges', or a sparse matrix as scipy.sparse.save_npz writes "
            f"it; it holds {checks.shown(sorted(names))}"
        )
    return GraphFile(graph.edges, graph.costs, graph.n, "npz")


def _graph_of_arrays(path: Path, names: Collection[str]) -> GraphProblem:
    """Return the graph of an array of edges, and of arrays of weights and the number of nodes, if any."""
    weight_name, size_name = (_one_of(path, names, known) for known in (WEIGHT_NAMES, SIZE_NAMES))
    arrays = files.read_archive(path, ("edges", weight_name, size_name))
    edges, n = arrays["edges"], arrays.get(size_name)
    weights = arrays.get(weight_name, np.ones(edges.shape[:1]))
    if weight_name == "signs" and not (weights.dtype.kind in "fi" and np.all(np.abs(weights) == 1)):
        raise ValueError(f"{path}: the array 'signs' must hold 1 and -1")
    if n is not None and not (n.size == 1 and n.dtype.kind in "iu"):
        raise ValueError(f"{path}: the array {size_name!r} must hold one whole number")
    try:
        return GraphProblem(edges, weights, None if n is None else int(n.item()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _one_of(path: Path, names: Collection[str], known: tuple[str, ...]) -> str:
    """Return the known name that an array of a file has, or the empty name."""
    found = [name for name in known if name in names]
    if len(found) > 1:
        raise ValueError(f"{path} holds {' and '.join(found)}: leave out all but one")
    return "".join(found)
