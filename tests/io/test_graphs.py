"""Graph files: what is written in any of the formats is read back, and faults are named by line."""

import csv
import io
import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

from clusterfug.io.graphs import read_graph_file
from clusterfug.problems.graph import GraphProblem

ENCODINGS = st.tuples(st.sampled_from(["\n", "\r\n"]), st.sampled_from([b"", b"\xef\xbb\xbf"]))
WEIGHTS = st.one_of(st.integers(-3, 3).map(float), st.floats(-1e150, 1e150))


@st.composite
def graphs(draw, weighted=True):
    """Numbers of nodes, pairs of different nodes in both orders, each at most once, and weights."""
    n = draw(st.integers(1, 8))
    pairs = [(u, v) for u in range(n) for v in range(u)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = [pair if draw(st.booleans()) else pair[::-1] for pair in chosen]
    return n, edges, [draw(WEIGHTS) if weighted else 1.0 for _ in edges]


def as_pace(n, edges):
    return [f"p cep {n} {len(edges)}", *(f"{u + 1} {v + 1}" for u, v in edges)]


def as_metis(n, edges, weights, fmt="1", ncon=0, of_node=()):
    """Lines in which the numbers `of_node` precede the neighbours of every node."""
    rows = [[*map(str, of_node)] for _ in range(n)]
    for (u, v), weight in zip(edges, weights, strict=True):
        for a, b in ((u, v), (v, u)):
            rows[a] += [str(b + 1), repr(weight)][: 1 + fmt.endswith("1")]
    return [f"{n} {len(edges)} {fmt} {ncon or ''}".strip(), *map(" ".join, rows)]


def as_edge_list(edges, weights, separator):
    if weights is None:
        return [f"{u}{separator}{v}" for u, v in edges]
    return [f"{u}{separator}{v}{separator}{w!r}" for (u, v), w in zip(edges, weights, strict=True)]


def written(path, lines, encoding=("\n", b"")):
    """Write lines that end as an encoding says, after its byte order mark."""
    newline, mark = encoding
    text = "".join(line + newline for line in lines)
    path.write_bytes(mark + text.encode())
    return path


def by_pair(edges, weights):
    """Weights by pair of nodes, of a graph without parallel edges."""
    pairs = {
        (min(u, v), max(u, v)): weight
        for (u, v), weight in zip(np.asarray(edges).tolist(), list(weights), strict=True)
    }
    assert len(pairs) == len(edges)
    return pairs


def assert_read(path, form, n, edges, weights):
    graph = read_graph_file(path)
    assert (graph.n, graph.format) == (n, form)
    assert graph.edges.dtype == np.int64
    assert graph.weights.dtype == np.float64
    assert graph.edges.shape == (len(graph.weights), 2)
    assert by_pair(graph.edges, graph.weights) == by_pair(edges, weights)
    return graph


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("graphs")


@given(
    graph=graphs(weighted=False),
    ending=st.sampled_from([".gr", ".txt", ".graph", ".GR"]),
    encoding=ENCODINGS,
)
def test_pace_is_read_back_whatever_its_ending(folder, graph, ending, encoding):
    n, edges, weights = graph
    lines = as_pace(n, edges)
    lines[:1] = ["c made by hand", lines[0], "", "c more"]
    path = written(folder / f"g{ending}", lines, encoding)
    assert read_graph_file(path).edges.tolist() == [list(edge) for edge in edges]
    assert_read(path, "PACE", n, edges, weights)


@pytest.mark.parametrize("ending", [".graph", ".metis"])
@pytest.mark.parametrize(
    ("fmt", "ncon", "of_node"),
    [
        ("", 0, ()),
        ("0", 0, ()),
        ("1", 0, ()),
        ("001", 0, ()),
        ("10", 0, (7,)),
        ("11", 2, (7, 8)),
        ("11", 1, (7,)),
        ("100", 0, (6,)),
        ("101", 0, (6,)),
        ("110", 3, (6, 7, 8, 9)),
        ("111", 0, (6, 7)),
    ],
)
@settings(max_examples=15)
@given(graph=graphs(), encoding=ENCODINGS)
def test_metis_is_read_back_without_numbers_of_nodes(folder, ending, fmt, ncon, of_node, graph, encoding):
    n, edges, weights = graph
    weights = weights if fmt.endswith("1") else [1.0] * len(edges)
    lines = ["% made by hand", *as_metis(n, edges, weights, fmt, ncon, of_node), "% end", ""]
    lines.insert(3, "% in between")
    path = written(folder / f"g{ending}", lines, encoding)
    back = assert_read(path, "METIS", n, edges, weights)
    assert back.edges.tolist() == sorted(map(sorted, edges))


@given(
    graph=graphs(),
    ending=st.sampled_from([".txt", ".edges", ".csv", ".tsv"]),
    separator=st.sampled_from([" ", "\t", ",", ", ", "  "]),
    header=st.sampled_from([[], ["# u v"], ["% u v", "source,target"], ["u v w"], ["cat\tdog"]]),
    weighted=st.booleans(),
    encoding=ENCODINGS,
)
def test_edge_lists_are_read_back(folder, graph, ending, separator, header, weighted, encoding):
    _, edges, weights = graph
    assume(edges)
    lines = as_edge_list(edges, weights if weighted else None, separator)
    path = written(folder / f"g{ending}", [*header, lines[0], "", "# more", *lines[1:]], encoding)
    assert read_graph_file(path).edges.tolist() == [list(edge) for edge in edges]
    assert_read(path, "edge list", np.max(edges) + 1, edges, weights if weighted else [1.0] * len(edges))


@given(graph=graphs(), ending=st.sampled_from([".txt", ".gr", ".graph", ".csv"]), encoding=ENCODINGS)
def test_multicut_is_read_back_whatever_its_ending(folder, graph, ending, encoding):
    _, edges, weights = graph
    assume(edges)
    lines = ["MULTICUT", "", *as_edge_list(edges, weights, " ")]
    path = written(folder / f"g{ending}", lines, encoding)
    assert_read(path, "MULTICUT", np.max(edges) + 1, edges, weights)


@given(
    graph=graphs(),
    weight_name=st.sampled_from([None, "weights", "costs"]),
    size_name=st.sampled_from([None, "n", "n_nodes"]),
    dtype=st.sampled_from([np.int8, np.uint16, np.int32, np.int64]),
)
def test_arrays_are_read_back(folder, graph, weight_name, size_name, dtype):
    n, edges, weights = graph
    assume(edges or size_name)
    arrays = {"edges": np.array(edges, dtype=dtype).reshape(-1, 2), "other": np.eye(3)}
    if weight_name is None:
        weights = [1.0] * len(edges)
    else:
        arrays[weight_name] = np.array(weights)
    if size_name is None:
        n = np.max(edges) + 1
    else:
        arrays[size_name] = np.array(n) if len(edges) % 2 else np.array([n])
    np.savez(folder / "g.npz", **arrays)
    assert_read(folder / "g.npz", "npz", n, edges, weights)


@given(
    graph=graphs(),
    form=st.sampled_from(["coo", "csr", "csc", "bsr"]),
    triangle=st.sampled_from([None, np.triu, np.tril]),
)
def test_sparse_matrices_are_read_back(folder, graph, form, triangle):
    n, edges, weights = graph
    weights = [weight or 1.0 for weight in weights]  # an entry of 0 is no edge
    matrix = np.zeros((n, n))
    for (u, v), weight in zip(edges, weights, strict=True):
        matrix[u, v] = matrix[v, u] = weight
    if triangle is not None:
        matrix = triangle(matrix)
    sparse.save_npz(folder / "g.npz", sparse.coo_array(matrix).asformat(form))
    assert_read(folder / "g.npz", "npz", n, edges, weights)


def test_signs_are_weights(tmp_path):
    np.savez(tmp_path / "g.npz", edges=[[0, 1], [2, 1]], signs=np.array([1, -1], dtype=np.int8))
    assert_read(tmp_path / "g.npz", "npz", 3, [(0, 1), (1, 2)], [1.0, -1.0])


@pytest.mark.parametrize(
    ("name", "lines", "weights"),
    [
        ("g.gr", ["p cep 2 3", "1 2", "2 1", "1 2"], [1, 1, 1]),
        ("g.txt", ["0 1 2", "1 0 -5", "0 1 4"], [2, -5, 4]),
        ("g.txt", ["MULTICUT", "0 1 2", "1 0 -5", "0 1 4"], [2, -5, 4]),
    ],
)
def test_parallel_edges_of_text_are_kept_for_the_problem_to_add_up(tmp_path, name, lines, weights):
    graph = read_graph_file(written(tmp_path / name, lines))
    assert graph.weights.tolist() == weights
    assert GraphProblem(graph.edges, graph.weights, graph.n).costs.tolist() == [sum(weights)]


def test_words_of_other_problems_and_edges_of_dimacs(tmp_path):
    for lines in (
        ["p tw 4 2", "1 2", "4 2"],
        ["c", "p edge 4 2", "e 1 2", "e 4 2"],
        [" p  cep\t4 2 ", " 1\t2 ", "4   2"],
    ):
        assert_read(written(tmp_path / "g.gr", lines), "PACE", 4, [(0, 1), (1, 3)], [1.0, 1.0])


def test_graphs_without_edges_have_nodes(tmp_path):
    np.savez(tmp_path / "g.npz", edges=np.empty((0, 2), dtype=int), n=3)
    assert_read(tmp_path / "g.npz", "npz", 3, [], [])
    assert_read(written(tmp_path / "g.gr", ["p cep 3 0"]), "PACE", 3, [], [])
    assert_read(written(tmp_path / "g.graph", ["3 0", "", "", ""]), "METIS", 3, [], [])


TEXT_FAULTS = [
    ("g.gr", "", "line 1: expected 'p cep n m' before the edges, found ''"),
    ("g.gr", "c x\n1 2\np cep 2 1\n", "line 2: expected 'p cep n m' before the edges, found '1 2'"),
    ("g.gr", "p cep 2\n1 2\n", "line 1: expected 'p cep n m' before the edges, found 'p cep 2'"),
    ("g.gr", "p cep 2 -1\n1 2\n", "line 1: expected 'p cep n m'"),
    ("g.gr", "p cep 2 ٣\n1 2\n", "line 1: expected 'p cep n m'"),
    ("g.gr", "p cep 2 1" + 5000 * "0" + "\n1 2\n", "line 1: expected 'p cep n m'"),
    ("g.gr", "p cep 0 0\n", "holds a graph without nodes"),
    ("g.gr", "p cep 2000000 1\n1 2\n", "has 2,000,000 nodes but only 1 edges: leave out numbers of nodes"),
    ("g.gr", "c\np cep 3 2\n1 2\n", "line 2: 2 edges are announced, but 1 follow"),
    ("g.gr", "p cep 3 1\n1 2\n2 3\n", "line 1: 1 edges are announced, but 2 follow"),
    ("g.gr", "p cep 3 2\n1 2\nc\n2 4\n", "line 4: 4 is no node: a line is an edge 'u v' of nodes 1..3"),
    ("g.gr", "p cep 3 2\n0 2\n2 3\n", "line 2: 0 is no node"),
    ("g.gr", "p cep 3 2\n1 2\n1.5 2\n", "line 3: 1.5 is no node"),
    ("g.gr", "p cep 3 2\n1 2\n3 3\n", "line 3: node 3 is joined to itself: remove self-loops"),
    ("g.gr", "p cep 3 2\n1 2\np 3\n", "line 3: 'p' is not a number: a line is an edge"),
    ("g.gr", "p cep 3 2\n1 2 1\n2 3 1\n", "line 2: 3 numbers where 2 are expected"),
    ("g.gr", "p cep 3 2\n1 2\n\n2\n", "line 4: 1 numbers where 2 are expected"),
    ("g.gr", "p cep 1000000 1\n1 1234567\n", "line 2: 1234567 is no node"),
    ("g.graph", "", "line 1: expected 'n m', 'n m fmt' or 'n m fmt ncon' before the neighbours of node 1"),
    ("g.graph", "%\n\nx\n", "line 3: expected 'n m', 'n m fmt' or 'n m fmt ncon' .* found 'x'"),
    ("g.graph", "2 1 2\n2\n1\n", "line 1: expected 'n m'"),
    ("g.graph", "2 1 1 1 1\n2\n1\n", "line 1: expected 'n m'"),
    ("g.graph", "0 0\n", "holds a graph without nodes"),
    ("g.graph", "2 1 1 2\n2 1\n1 1\n", "line 1: ncon is 2, but fmt 001 says that nodes have no weights"),
    ("g.graph", "2 1\n2\n", "line 1: 2 nodes are announced, but 1 lines follow: write one per node"),
    ("g.graph", "2 1\n2\n1\n1\n", "line 1: 2 nodes are announced, but 3 lines follow"),
    ("g.graph", "2 2\n2\n1\n", "line 1: 2 edges are announced, but 1 follow: .* counts once"),
    ("g.graph", "2 1\n2\n%\nx\n", "line 4: 'x' is not a number: the line of a node lists its neighbours"),
    ("g.graph", "3 1\n2\n\n1\n", "line 2: node 1 lists node 2, but node 2 does not list node 1: list both"),
    ("g.graph", "3 1\n\n3\n1\n", "line 4: node 3 lists node 1, but node 1 does not list node 3: list both"),
    ("g.graph", "3 1\n\n\n%\n1\n", "line 5: node 3 lists node 1, but node 1 does not list node 3"),
    ("g.graph", "3 2\n2\n1 3\n\n", "line 3: node 2 lists node 3, but node 3 does not list node 2"),
    ("g.graph", "2 1\n2 2\n1\n", "line 2: node 1 lists node 2 twice: list each neighbour once"),
    ("g.graph", "2 1 1\n2 5\n1 6\n", "line 2: from 1 to 2 the weight is 5, but from 2 to 1 it is 6"),
    ("g.graph", "2 1 1\n2 5\n1\n", "line 3: 1 numbers, but fmt 001 says 0 of the node, then .* a weight"),
    ("g.graph", "2 1 10 2\n5 5 2\n5\n", "line 3: 1 numbers, but fmt 010 says 2 of the node, then its nei"),
    ("g.graph", "2 1 1\n2 nan\n1 nan\n", "line 2: weights must be finite numbers, not nan"),
    ("g.graph", "2 1\n3\n1\n", "line 2: 3 is no node: .* which are numbers 1..2"),
    ("g.graph", "2 1\n2\n0\n", "line 3: 0 is no node"),
    ("g.graph", "2 1\n\n2\n", "line 3: node 2 is joined to itself: remove self-loops"),
    ("g.txt", "", "holds a graph without nodes"),
    ("g.txt", "# u v\nu v\n", "holds a graph without nodes"),
    ("g.txt", "0 1\n\n# x\nann bob\n", "line 4: 'ann' is not a number: .* nodes are numbers 0..n-1"),
    ("g.txt", "ann bob\nbob cid\n", "line 2: 'bob' is not a number"),
    ("g.txt", "-1 -2\n0 1\n", "line 1: -1 is no node"),
    ("g.txt", "0 1\n1 -1\n", "line 2: -1 is no node: .* nodes are numbers 0..n-1"),
    ("g.txt", "0 1\n1 0.5\n", "line 2: 0.5 is no node"),
    ("g.txt", "0 1\n1 nan\n", "line 2: nan is no node"),
    ("g.txt", "0 1\n1 inf\n", "line 2: inf is no node"),
    ("g.txt", "0 1\n1 2147483647\n", "line 2: 2147483647 is no node"),
    ("g.txt", "0 1\n1 2000000\n", "has 2,000,001 nodes but only 2 edges"),
    ("g.txt", "u v\n0 1\n1 1\n", "line 3: node 1 is joined to itself"),
    ("g.txt", "0\n1\n", "line 1: 1 numbers where 2 are expected: a line is 'u v' or 'u v weight'"),
    ("g.txt", "0 1 1 1\n", "line 1: 4 numbers where 3 are expected"),
    ("g.txt", "0 1 1\n0 1\n", "line 2: 2 numbers where 3 are expected"),
    ("g.txt", "0 1\n0 1 1\n", "line 2: 3 numbers where 2 are expected"),
    ("g.txt", "0 1 1\n0 1 x\n", "line 2: 'x' is not a number"),
    ("g.txt", "0 1 1\n0 1 1_0\n", "line 2: '1_0' is not a number"),
    ("g.txt", "0 1 1\n0 1 ٣\n", "line 2: '٣' is not a number"),
    ("g.txt", "0 1 1\n0 2 inf\n", "line 2: weights must be finite numbers, not inf"),
    ("g.txt", "0 1 1\n0 2 1e200\n", "line 2: weights must be finite numbers, not 1e\\+200"),
    ("g.csv", "u,v\n0,1\n1,\n", "line 3: '' is not a number"),
    ("g.csv", "0;1\n", "line 1: '0;1' is not a number"),
    ("g.csv", "0,1,\n", "line 1: '' is not a number"),
    ("g.tsv", "0\t1\n1\t\n", "line 2: 1 numbers where 2 are expected"),
    ("g.txt", "MULTICUT\n0 1\n", "line 2: 2 numbers where 3 are expected"),
    ("g.txt", "MULTICUT\n0 1 1\n\n2 2 1\n", "line 4: node 2 is joined to itself: remove self-loops"),
    ("g.txt", "MULTICUT\n0 1 nan\n", "line 2: weights must be finite numbers, not nan"),
    ("g.txt", "FACTORIZED COMPLETE MULTICUT\n0.4\n1 1\n1\n", "holds features, not a graph"),
    ("g.txt", "%%MatrixMarket matrix\n2 2 1\n", "is a Matrix Market file: read it with scipy.io.mmread"),
    ("g.txt", "0 1\n\x00 1\n", "line 2: '\\\\x00' is not a number"),
    (
        "g.mtx",
        "0 1\n",
        "has an unknown ending: a file that holds a graph ends in .gr, .graph, .metis, .txt",
    ),
    ("g", "0 1\n", "has an unknown ending"),
]


@pytest.mark.parametrize(("name", "text", "message"), TEXT_FAULTS)
def test_faults_of_text_are_named_by_line(tmp_path, name, text, message):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))},? ({message})") as caught:
        read_graph_file(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"a": [1]}, r"must hold an array named 'edges', or a sparse matrix .* it holds \['a'\]"),
        ({}, "must hold an array named 'edges'"),
        ({"a\nb": [1]}, "must hold an array named 'edges'"),
        (
            {"format": "csr", "shape": [2, 2], "data": [1.0], "features": np.eye(2)},
            "must hold an array named",
        ),
        ({"format": "csr", "shape": [2, 2], "data": [1.0]}, "is broken"),
        (
            {"edges": [[0, 1]], "weights": [1.0], "signs": [1]},
            "holds weights and signs: leave out all but one",
        ),
        ({"edges": [[0, 1]], "n": 2, "n_nodes": 2}, "holds n and n_nodes: leave out all but one"),
        ({"edges": [[0, 1]], "signs": [2]}, ": the array 'signs' must hold 1 and -1"),
        ({"edges": [[0, 1]], "signs": [True]}, ": the array 'signs' must hold 1 and -1"),
        ({"edges": [[0, 1]], "n": 2.0}, ": the array 'n' must hold one whole number"),
        ({"edges": [[0, 1]], "n_nodes": [2, 2]}, ": the array 'n_nodes' must hold one whole number"),
        ({"edges": [[0, 1]], "n": 0}, ": n_nodes must be at least 1, not 0"),
        ({"edges": [[0, 1]], "n": 1}, ": edge 0 names node 1, but the graph has nodes 0..0"),
        ({"edges": [[0, 1]], "n": 10**7}, "has 10,000,000 nodes but only 1 edges"),
        ({"edges": [[0, 1], [2, 2]]}, ": edge 1 joins node 2 to itself: remove self-loops"),
        ({"edges": [[0, -1]]}, ": edge 0 names a negative node"),
        ({"edges": [[0.0, 1.0]]}, ": edges must be integers, not float64"),
        ({"edges": [[0, 1, 2]]}, r": edges must have shape \(m, 2\)"),
        ({"edges": 3}, r": edges must have shape \(m, 2\)"),
        ({"edges": np.empty((0, 2))}, ": the graph has no edges"),
        ({"edges": [[0, 1]], "weights": [1.0, 2.0]}, ": costs must have one number per edge"),
        ({"edges": [[0, 1]], "weights": [np.nan]}, ": costs must be finite numbers"),
        ({"edges": [[0, 1]], "weights": ["x"]}, ": costs must hold real numbers"),
        ({"edges": np.array([[0, None]])}, "holds Python objects .* pickles are never loaded"),
        (
            {"edges": [[0, 1]], "weights": np.array([None])},
            "holds Python objects .* pickles are never loaded",
        ),
    ],
)
def test_faults_of_arrays_are_named(tmp_path, arrays, message):
    path = tmp_path / "g.npz"
    np.savez(path, **{name: np.asarray(array) for name, array in arrays.items()})
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))} ?{message}") as caught:
        read_graph_file(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "a sparse cost matrix must be square"),
        (np.eye(2), r"self-loop: entry \(0, 0\)"),
        (np.array([[0, 1], [2, 0]]), "neither symmetric nor triangular"),
        (np.array([[0, np.inf], [0, 0]]), "costs must be finite numbers"),
    ],
)
def test_faults_of_sparse_matrices_are_named(tmp_path, matrix, message):
    sparse.save_npz(tmp_path / "g.npz", sparse.csr_array(matrix))
    with pytest.raises(ValueError, match=rf"g\.npz: .*{message}"):
        read_graph_file(tmp_path / "g.npz")


def test_what_is_no_file_of_a_graph(tmp_path):
    (tmp_path / "g.npz").write_text("0 1\n")
    with pytest.raises(ValueError, match=r"g\.npz is not a \.npz file"):
        read_graph_file(tmp_path / "g.npz")
    (tmp_path / "g.gr").write_text("p cep 2 1\n1 2\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"g\.gr is UTF-16 text: save it as UTF-8"):
        read_graph_file(tmp_path / "g.gr")
    with pytest.raises(FileNotFoundError, match=r"no\.gr does not exist"):
        read_graph_file(tmp_path / "no.gr")
    (tmp_path / "folder.gr").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_graph_file(tmp_path / "folder.gr")


def archived(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def archived_matrix():
    content = io.BytesIO()
    sparse.save_npz(content, sparse.coo_array(np.triu(np.ones((4, 4)), 1)))
    return content.getvalue()


SOUND = [
    (".gr", b"c x\np cep 4 3\n1 2\n3 1\n4 3\n"),
    (".graph", b"% x\n4 3 11\n7 2 1.5 3 -2\n7 1 1.5\n7 1 -2 4 3\n7 3 3\n"),
    (".csv", b"u,v,w\n0,1,1.5\n2,0,-2\n# x\n3,2,3\n"),
    (".tsv", b"0\t1\n2\t0\n% x\n3\t2\n"),
    (".txt", b"MULTICUT\n0 1 1.5\n2 0 -2\n3 2 3\n"),
    (".npz", archived(edges=[[0, 1], [2, 0], [3, 2]], weights=[1.5, -2.0, 3.0], n=4)),
    (".npz", archived_matrix()),
]


def test_the_files_that_are_damaged_below_are_sound(tmp_path):
    for ending, content in SOUND:
        (tmp_path / f"g{ending}").write_bytes(content)
        assert read_graph_file(tmp_path / f"g{ending}").n == 4


@settings(max_examples=500)
@given(
    sound=st.sampled_from(SOUND),
    cut=st.floats(0, 1),
    removed=st.integers(0, 20),
    inserted=st.one_of(
        st.binary(max_size=4), st.sampled_from([b" ", b"\n", b"-", b".", b"9", b"1e9", b"p"])
    ),
    rest=st.sampled_from([True, True, False]),
)
def test_a_damaged_file_is_a_graph_or_an_error_of_one_line(folder, sound, cut, removed, inserted, rest):
    ending, content = sound
    at = int(cut * len(content))
    path = folder / f"damaged{ending}"
    path.write_bytes(content[:at] + inserted + (content[at + removed :] if rest else b""))
    message, graph = "", None
    try:
        graph = read_graph_file(path)
    except (ValueError, OSError) as error:
        message = str(error)
    if graph is None:
        assert message.startswith(str(path))
        assert "\n" not in message
        return
    assert graph.edges.shape == (len(graph.weights), 2)
    assert np.isfinite(graph.weights).all()
    assert ((graph.edges >= 0) & (graph.edges < graph.n)).all()
    assert (graph.edges[:, 0] != graph.edges[:, 1]).all()


def test_instances_of_pace_have_the_published_sizes(shared_data):
    with (shared_data / "pace2021" / "optima.csv").open() as file:
        instances = list(csv.DictReader(file))
    assert len(instances) == 85
    for instance in instances:
        graph = read_graph_file(shared_data / "pace2021" / instance["instance"])
        assert (graph.n, len(graph.edges)) == (int(instance["n"]), int(instance["m"]))
        assert graph.format == "PACE"
        assert (graph.weights == 1).all()


def test_slashdot_has_the_published_size(shared_data):
    graph = read_graph_file(shared_data / "slashdot" / "graph.npz")
    assert (graph.n, graph.edges.shape, graph.format) == (82144, (498532, 2), "npz")
    assert np.unique(graph.weights).tolist() == [-1, 1]
    with np.load(shared_data / "slashdot" / "graph.npz") as arrays:
        assert by_pair(graph.edges, graph.weights) == by_pair(arrays["edges"], arrays["costs"])
