"""clusterfug multicut: graphs in several formats, four objectives, edits."""

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from clusterfug import cluster_editing, constant_potts, modularity, multicut
from clusterfug.io.graphs import read_graph_file


@pytest.fixture
def graphs(tmp_path, monkeypatch, rng):
    """Write a graph of four noisy cliques in several formats; return its edges and weights."""
    monkeypatch.chdir(tmp_path)
    groups = np.repeat(np.arange(4), 6)
    together = {(i, j): groups[i] == groups[j] for i, j in combinations(range(24), 2)}
    edges = np.array([pair for pair, same in together.items() if same != (rng.random() < 0.1)])
    weights = rng.integers(1, 4, size=len(edges)).astype(float)
    signs = np.where([together[tuple(edge)] for edge in edges.tolist()], 1.0, -1.0)
    rows = edges.tolist()
    (tmp_path / "g.gr").write_text(
        f"p cep 24 {len(edges)}\n" + "".join(f"{u + 1} {v + 1}\n" for u, v in rows)
    )
    for name, each in (("plain", None), ("weighted", weights), ("signed", signs)):
        ends = [""] * len(rows) if each is None else [f",{w:g}" for w in each]
        (tmp_path / f"{name}.csv").write_text(
            "".join(f"{u},{v}{end}\n" for (u, v), end in zip(rows, ends, strict=True))
        )
    near = {
        u: [v + 1 for a, b in rows for v in ((b,) if a == u else (a,) if b == u else ())] for u in range(24)
    }
    (tmp_path / "g.graph").write_text(
        f"24 {len(edges)}\n" + "".join(" ".join(map(str, near[u])) + "\n" for u in range(24))
    )
    np.savez(tmp_path / "signed.npz", edges=edges, signs=signs.astype(int))
    (tmp_path / "m.txt").write_text(
        "MULTICUT\n" + "".join(f"{u} {v} {w:g}\n" for (u, v), w in zip(rows, weights, strict=True))
    )
    return edges, weights, signs


@pytest.mark.parametrize(
    ("command", "name", "why"),
    [
        ("g.gr", "editing", "for a PACE file"),
        ("g.graph", "modularity", "where no weight is negative"),
        ("plain.csv", "modularity", "where no weight is negative"),
        ("weighted.csv", "modularity", "where no weight is negative"),
        ("signed.csv", "costs", "where a weight is negative"),
        ("signed.npz", "costs", "where a weight is negative"),
        ("m.txt", "costs", "for a MULTICUT file"),
        ("g.gr --objective modularity", "modularity", None),
        ("g.gr --objective modularity --resolution 2", "modularity", None),
        ("weighted.csv --objective potts --resolution 0.4", "potts", None),
        ("plain.csv --objective editing", "editing", None),
        ("weighted.csv --objective costs", "costs", None),
    ],
)
def test_the_objective_and_its_value_are_those_of_the_functions(report, run, graphs, command, name, why):
    given = read_graph_file(Path(command.split()[0]))
    resolution = float(command.split()[-1]) if "--resolution" in command else None
    edges, weights, n = given.edges, given.weights, given.n
    problem = {
        "costs": lambda: (edges, weights, n),
        "editing": lambda: (cluster_editing(edges, n),),
        "modularity": lambda: (modularity(edges, weights, n, resolution=resolution or 1.0),),
        "potts": lambda: (constant_potts(edges, weights, n, resolution=resolution),),
    }[name]()
    result = multicut(*problem, bound=True)
    value = result.objective if name == "costs" else problem[0].value(result)
    found = report("multicut", *command.split(), "--bound", "-o", "l.npy")
    np.testing.assert_array_equal(np.load("l.npy"), result.labels)
    assert (found["n"], found["edges"], found["format"]) == (24, len(graphs[0]), given.format)
    assert (found["objective"], found["value"]) == (name, value)
    assert found["resolution"] == (resolution or (1.0 if name == "modularity" else None))
    assert (found["cost"], found["inside"]) == (result.objective, result.inside)
    assert (found["lower_bound"], found["optimal"]) == (result.lower_bound, result.optimal)
    assert found["n_clusters"] == result.n_clusters
    assert found["algorithm"] == "auto"
    assert (found["links"], found["edits"], found["output"]) == (None, None, "l.npy")
    assert found["seconds"] > 0
    if name in ("costs", "editing"):
        assert found["bound"] <= value
    else:
        assert found["bound"] >= value
    assert (found["gap"] == 0) == result.optimal
    _, out, _ = run("multicut", *command.split())
    rows = [" ".join(line.split()) for line in out.splitlines()]
    shown = {None: "", 1.0: ", resolution 1", 2.0: ", resolution 2", 0.4: ", resolution 0.4"}[
        found["resolution"]
    ]
    assert f"objective {name}{shown}{'' if why is None else f', the default {why}'}" in rows


def test_the_bound_is_one_of_the_value(report, graphs):
    """The exact optimum of each objective is within the bounds on its value."""
    for options in (
        ("g.gr",),
        ("plain.csv",),
        ("weighted.csv", "--objective", "potts", "--resolution", 0.4),
        ("signed.csv",),
    ):
        best = report("multicut", *options, "-a", "exact")
        assert best["optimal"]
        assert best["bound"] == pytest.approx(best["value"])
        found = report("multicut", *options, "-a", "gaec", "--bound")
        sign = 1 if found["objective"] in ("costs", "editing") else -1
        assert sign * found["bound"] <= sign * best["value"] + 1e-9
        assert sign * best["value"] <= sign * found["value"] + 1e-9


@pytest.mark.parametrize(
    ("options", "make"),
    [
        (("--objective", "modularity"), modularity),
        (
            ("--objective", "potts", "--resolution", 0.2),
            lambda edges: constant_potts(edges, resolution=0.2),
        ),
        (("--objective", "editing"), cluster_editing),
    ],
)
def test_a_bound_that_is_not_reached_is_in_the_units_of_the_value(
    report, run, tmp_path, rng, options, make
):
    edges = np.array([pair for pair in combinations(range(40), 2) if rng.random() < 0.15])
    np.savetxt(tmp_path / "g.txt", edges, fmt="%d")
    found = report("multicut", tmp_path / "g.txt", *options, "--bound")
    problem = make(edges)
    alone, together = problem.value(np.arange(40)), problem.value(np.zeros(40, dtype=int))
    share = 1 - found["lower_bound"] / problem.all_singletons  # values are linear in what is cut
    assert found["bound"] == pytest.approx(alone + share * (together - alone))
    assert found["gap"] == pytest.approx(abs(found["value"] / found["bound"] - 1))
    assert found["gap"] > 0.01
    _, out, _ = run("multicut", tmp_path / "g.txt", *options, "--bound")
    assert f"at {'least' if make is cluster_editing else 'most'} " in out
    assert f"; at most {found['gap']:.2%} from optimal" in out


def test_the_table(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "path.gr").write_text("p cep 5 3\n1 2\n2 3\n3 4\n")
    code, out, err = run("multicut", "path.gr", "--bound", "--edits", "e.txt")
    assert (code, err) == (0, "")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert rows[:4] == ["nodes 5", "edges 3", "clusters 3", "largest 2, 2, 1"]
    for row in (
        "alone 1",
        "objective editing, the default for a PACE file",
        "edits 1",
        "bound at least 1; proven optimal",
        "algorithm auto; no single move or join improves it",
        "labels not written; -o labels.npy writes them",
        "edited pairs e.txt",
    ):
        assert row in rows
    assert (tmp_path / "e.txt").read_text() == "2 3\n"
    (tmp_path / "g.txt").write_text("0 1 2.5\n1 2 -1\n0 2 1\n")
    _, out, _ = run("multicut", "g.txt", "--bound")
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert "cost of cut edges 0" in rows
    assert "disagreements 1" in rows
    assert "bound at least 0; proven optimal" in rows
    _, out, _ = run("multicut", "g.txt", "-a", "gaec")
    assert not any(row.startswith("bound") for row in out.splitlines())


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        ("-a gaec", {"algorithm": "gaec"}),
        ("-a gaec --refine --time-limit 9", {"algorithm": "gaec", "refine": True}),
        ("-a best --max-iter 3 --seed 4", {"algorithm": "best", "max_iter": 3, "random_state": 4}),
        ("-a fast --init l.csv", {"algorithm": "fast", "init": np.arange(24) % 3}),
        ("-a exact", {"algorithm": "exact"}),
    ],
)
def test_options_of_the_search(report, graphs, options, keywords):
    with open("l.csv", "w") as file:
        file.writelines(["label\n", *(f"{i % 3}\n" for i in range(24))])
    found = report("multicut", "weighted.csv", *options.split(), "-o", "out.csv")
    result = multicut(modularity(*graphs[:2]), **keywords)
    assert np.loadtxt("out.csv", skiprows=1).astype(int).tolist() == result.labels.tolist()
    assert found["algorithm"] == keywords["algorithm"]
    with open("out.csv.json") as file:
        settings = json.load(file)
    assert (settings["cost_model"], settings["objective"]) == (None, result.objective)


def test_edits_turn_the_graph_into_the_cliques_of_the_labels(report, graphs):
    found = report("multicut", "g.gr", "--edits", "e.edits", "-o", "l.npy")
    pairs = np.loadtxt("e.edits", dtype=int) - 1
    assert pairs.tolist() == sorted(pairs.tolist())
    edited = set(map(tuple, graphs[0].tolist())) ^ set(map(tuple, pairs.tolist()))
    labels = np.load("l.npy")
    assert edited == {(i, j) for i, j in combinations(range(24), 2) if labels[i] == labels[j]}
    assert len(pairs) == found["value"] == found["edges"] - found["inside"]


@pytest.mark.parametrize("options", ["g.gr", "plain.csv", "signed.csv"])
def test_hard_links(report, run, graphs, options):
    with open("must.csv", "w") as file:
        file.write("0,23\n1,22\n")
    with open("groups.txt", "w") as file:
        file.writelines(f"{'a' if i < 3 else ''}\n" for i in range(24))
    links = ("--must-link", "must.csv", "--exclusive", "groups.txt")
    free = report("multicut", options)
    found = report("multicut", options, *links, "--bound", "-o", "l.npy")
    assert found["links"] == {"must": 2, "cannot": 0, "exclusive_groups": 1, "weight": None, "broken": 0}
    labels = np.load("l.npy")
    assert labels[0] == labels[23]
    assert len(set(labels[:3])) == 3
    sign = 1 if options != "plain.csv" else -1
    assert sign * found["value"] >= sign * free["value"]
    assert sign * found["bound"] <= sign * found["value"]
    _, out, _ = run("multicut", options, *links)
    assert "2 must, 1 exclusive group; none broken" in out


def test_soft_links_have_a_bound_on_the_cost_that_includes_them(report, run, graphs):
    edges, _, signs = graphs
    with open("must.csv", "w") as file:
        file.write("0,23\n1,22\n")
    options = ("signed.csv", "--must-link", "must.csv", "--link-weight", 0.25, "--bound")
    found = report("multicut", *options, "-o", "l.npz")
    result = multicut(edges, signs, must_link=[[0, 23], [1, 22]], link_weight=0.25, bound=True)
    assert (found["cost"], found["lower_bound"]) == (result.objective, result.lower_bound)
    assert found["links"]["broken"] == result.broken_links == 2
    assert found["value"] == result.objective - 0.5
    assert (found["bound"], found["gap"]) == (None, None)
    _, out, _ = run("multicut", *options)
    rows = [" ".join(line.split()) for line in out.splitlines()]
    assert f"cost with links {result.objective:.2f}" in rows
    assert "links 2 must; 2 broken" in rows
    assert any(row.startswith("bound -") for row in rows)


def test_parallel_edges_count_once_for_editing_and_are_summed_otherwise(report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.txt").write_text("0 1\n1 0\n1 2\n")
    found = report("multicut", "g.txt", "--objective", "editing", "--edits", "e.txt")
    assert (found["edges"], found["value"]) == (2, 1)
    found = report("multicut", "g.txt", "--objective", "costs")
    assert (found["edges"], found["inside"]) == (2, 3)


def test_editing_says_that_weights_are_not_used(report, run, graphs):
    found = report("multicut", "weighted.csv", "--objective", "editing")
    assert found["note"] == "editing counts every edge once, whatever its weight"
    assert found["value"] == report("multicut", "g.gr")["value"]
    assert report("multicut", "g.gr")["note"] is None
    _, out, _ = run("multicut", "weighted.csv", "--objective", "editing")
    assert "note          editing counts every edge once" in out or "note       editing counts every" in out


def test_a_graph_without_edges(report, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g.gr").write_text("p cep 3 0\n")
    found = report("multicut", "g.gr", "--bound", "--edits", "e.txt")
    assert (found["n_clusters"], found["value"], found["bound"], found["gap"]) == (3, 0, 0, 0)
    assert (tmp_path / "e.txt").read_text() == ""
    code, _, err = run("multicut", "g.gr", "--objective", "modularity")
    assert (code, err.count("\n")) == (2, 1)
    assert "modularity needs edges of positive weight" in err


@pytest.fixture
def assert_fails(assert_fails, tmp_path):
    """Run a wrong command among some graphs."""
    for name, text in (
        ("g.gr", "p cep 3 2\n1 2\n2 3\n"),
        ("bad.gr", "p cep 3 2\n1 2\n2 4\n"),
        ("signed.txt", "0 1 1\n2 1 -2\n"),
        ("pairs.csv", "0,9\n"),
        ("groups.txt", "a\nb\n"),
    ):
        (tmp_path / name).write_text(text)
    return assert_fails


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("none.gr", ": none.gr does not exist"),
        ("x.npy", ": x.npy has an unknown ending: a file that holds a graph ends in .gr"),
        ("short.txt", ": short.txt holds features, not a graph"),
        ("bad.gr -o l.npy", ": bad.gr, line 3: 4 is no node"),
        ("loop.txt", "node 1 is joined to itself"),
        ("g.gr --objective cut", "Invalid value for '--objective'"),
        ("g.gr --resolution 2", "--resolution goes with modularity and potts, not with editing"),
        ("signed.txt --resolution 2", "--resolution goes with modularity and potts, not with costs"),
        ("g.gr --objective potts", "--objective potts compares densities with --resolution: give it"),
        ("g.gr --objective potts --resolution -1", ": --resolution must be at least 0, not -1"),
        ("g.gr --objective modularity --resolution nan", ": --resolution must be a finite number"),
        *(
            (
                f"signed.txt --resolution 1 --objective {name}",
                f"{name} needs weights that are not negative, but signed.txt has -2 between nodes 1 and 2",
            )
            for name in ("modularity", "potts")
        ),
        ("signed.txt --objective editing", "editing needs weights that are not negative"),
        ("signed.txt --edits e.txt", "--edits goes with --objective editing, not with costs"),
        ("g.gr --edits e.npy", "cannot write e.npy: its name must end in .txt, .edits"),
        ("g.gr --edits no/e.txt", "cannot write no/e.txt: the folder no does not exist"),
        ("graph.txt --objective editing --edits graph.txt", "cannot write graph.txt: it is an input"),
        ("g.gr --must-link pairs.csv -o pairs.csv", "cannot write pairs.csv: it is an input"),
        ("g.gr -o l.txt", "must end in .npy, .npz, .csv, .parquet"),
        ("g.gr -o occupied.npy", "cannot write occupied.npy.json: it is a folder"),
        ("g.gr -a dgaec", "a graph is solved by auto, fast, best, exact, gaec, not by dgaec"),
        ("g.gr -a leiden", "unknown algorithm 'leiden'"),
        ("g.gr --max-iter 3", "--max-iter goes with best, not with auto"),
        ("g.gr --time-limit -1", "--time-limit must be at least 0"),
        ("g.gr --init labels.npy", "init must have one entry per item, shape (3,)"),
        ("g.gr --init none.npy", "none.npy does not exist"),
        (
            "g.gr --must-link pairs.csv",
            ": --must-link names node 9, but there are 3 nodes, numbered from 0",
        ),
        (
            "g.gr --exclusive groups.txt",
            ": groups.txt has 2 groups, but g.gr has 3 nodes: give one per node",
        ),
        ("g.gr --link-weight 2", "--link-weight weighs links: give"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(assert_fails, command, message):
    assert_fails(f"multicut {command}", message)


def test_nothing_is_half_written(run, graphs, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    before = sorted(path.name for path in tmp_path.iterdir())
    monkeypatch.setattr("numpy.savetxt", fail)
    code, out, err = run("multicut", "g.gr", "--edits", "e.txt", "-o", "l.npy")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "cannot write e.txt: No space left on device" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
