"""The command line in this process: exit code 0 and results, or 2 and one line; nothing half-written."""

import contextlib
import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np

from clusterfug.cli import main
from clusterfug.problems import mixed as module
from fuzz import formats, values
from fuzz.mixed import (
    check_linked,
    graph_objective,
    n_broken,
    pairs_of_links,
    random_links,
    what_links_say,
    with_soft_links,
)
from fuzz.oracles import MAX_ENUMERATED, Exact, check, no_runtime_warnings

COMMANDS = ("cluster", "evaluate", "bound", "inspect", "convert", "multicut")
#: The names of objectives of the command line, as those of functions.
OBJECTIVES = {"modularity": "modularity", "potts": "constant_potts", "editing": "cluster_editing"}


def run(arguments, may_write=()):
    """Run a command; return its exit code, and its output or error. Only the files `may_write` may be new.

    `segment` reports one error per image, and keeps the others.
    """
    several = arguments[0] == "segment"
    before = set(Path().rglob("*"))
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), no_runtime_warnings():
        try:
            main([str(argument) for argument in arguments])
            code = None
        except SystemExit as stop:
            code = stop.code or 0
    what = f"clusterfug {' '.join(map(str, arguments))}: "
    errors = err.getvalue()
    check(code in (0, 2), f"{what}exit {code!r}; {errors}")
    new = {str(path) for path in set(Path().rglob("*")) - before}
    if code == 2:
        lines = errors.splitlines()
        if several and len(lines) > 1:
            check("images failed" in lines.pop(), f"{what}errors {errors!r}")
        check(len(lines) == 1 or several, f"{what}errors {errors!r}")
        for line in lines:
            check(line.startswith("clusterfug: error: "), f"{what}errors {errors!r}")
            message = line.removeprefix("clusterfug: error: ")
            check(10 < len(message) < 400, f"{what}a message of {len(message)} characters: {message!r}")
            for word in ("[Errno", "Value error,", "Traceback", "<bool>", "codec can't", "must be str"):
                check(word not in message, f"{what}{message!r}")
        finished = several and "are finished" in errors
        check(finished or not out.getvalue(), f"{what}output before an error: {out.getvalue()!r}")
        check(finished or not new, f"{what}failed, and left {new}")
    else:
        check(not errors, f"{what}succeeded with errors {errors!r}")
    if code == 0 or several:
        check(new <= set(map(str, may_write)), f"{what}left {new}")
    check(not Path("executed").exists(), f"{what}a file was executed")
    if code == 0 and "--json" in arguments:
        json_of(out.getvalue())
    return code, errors if code else out.getvalue()


def json_of(text):
    """Return what strict JSON says: without NaN and infinite numbers."""

    def refuse(constant):
        check(False, f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def commands(rng, folder):
    """A command on small files: any one with random options, or one whose results are known."""
    kind = rng.random()
    module.MAX_COMPLETE = int(rng.choice([0, 64]))
    (multicut_graph if kind < 0.35 else linked_features if kind < 0.55 else any_command)(rng)


def any_command(rng):
    """A random command with random options, most of them valid."""
    n, d = int(rng.integers(1, 30)), int(rng.integers(1, 5))
    X = values.features(rng, n, d)
    np.save("x.npy", X.astype(rng.choice([np.float32, np.float64])) if np.abs(X).max() < 1e30 else X)
    np.save("y.npy", rng.integers(0, 3, size=n))
    np.save("w.npy", rng.random(n))
    Path("g.txt").write_text("MULTICUT\n0 1 2.5\n1 2 -1\n0 3 0.1\n")
    Path("f.txt").write_text("FACTORIZED COMPLETE MULTICUT\n0.4\n3 2\n0.1 0.9\n0.2 0.8\n1 0\n")
    features = str(rng.choice(["x.npy", "x.npy", "x.npy", "g.txt", "f.txt", "y.npy", "absent.npy", "."]))
    command = str(rng.choice(COMMANDS))
    if command == "multicut":
        Path("g.gr").write_text("p cep 4 3\n1 2\n2 3\n1 4\n")
        features = str(rng.choice(["g.txt", "g.gr", features]))
    outputs = (
        "out.npy",
        "out.npy.json",
        "out.npz",
        "out.csv",
        "out.csv.json",
        "out.parquet",
        "out.txt",
        "plot.png",
        "edits.txt",
        "run",
    )
    arguments = [command]
    if command == "evaluate":
        arguments += [str(rng.choice(["y.npy", "x.npy", "absent.csv"]))]
        arguments += ["--features", features] if rng.random() < 0.7 else []
        arguments += ["--truth", "y.npy"] if rng.random() < 0.3 else []
    elif command == "convert":
        arguments += [
            features,
            str(
                rng.choice(["out.npy", "out.npz", "out.csv", "out.parquet", "out.txt", "out.xyz", "x.npy"])
            ),
        ]
    else:
        arguments += [features]
    if command in ("cluster", "multicut") and rng.random() < 0.8:
        arguments += [
            "-o",
            str(
                rng.choice(["out.npy", "out.npz", "out.csv", "out.parquet", "out", "no/out.npy", "out.h5"])
            ),
        ]
    if command == "bound" and rng.random() < 0.5:
        arguments += ["-o", "out.npz"] if rng.random() < 0.7 else ["--labels", "y.npy"]
    sizes = {"g.txt": 4, "g.gr": 4, "f.txt": 3}
    links = {}
    if command in ("cluster", "bound", "evaluate", "multicut") and rng.random() < 0.3:
        links = random_links(rng, sizes.get(features, n))
    link_arguments = formats.write_links(rng, links)
    arguments += [*link_arguments, *options(rng)]
    code, _ = run(arguments, [*outputs, *[str(p) for p in Path("run").rglob("*")]])
    run_files = [p for p in Path().rglob("*") if p.parts[0] == "run"]
    check(all(not p.name.startswith(".") for p in run_files), f"temporary files are left: {run_files}")
    if code == 0 and command in ("cluster", "multicut") and Path("out.npy").exists():
        labels = np.load("out.npy")
        check(labels.shape[0] >= 1, "labels are empty")
        if links and not any(arguments.count(argument) > 1 for argument in link_arguments[::2]):
            broken = n_broken(links, labels)
            check("link_weight" in links or not broken, f"{broken} hard links are broken")
        if command == "cluster" and features != "g.txt":
            again = ["evaluate", "out.npy", "--features", features, "--json"]
            code, out = run([*again, *options_again(arguments)])
            check(code == 0, f"{arguments}: its labels cannot be evaluated: {out}")


#: Options of `evaluate` for what label files do not hold.
NOT_STORED = ("--weights", "--alpha", "--must-link", "--cannot-link", "--exclusive", "--link-weight")


def options_again(arguments):
    """Return the options that label files do not hold, as they were; of an option given twice the last."""
    return [
        part
        for at, name in enumerate(arguments)
        if name in NOT_STORED and name not in arguments[at + 1 :]
        for part in (name, arguments[at + 1])
    ]


def multicut_graph(rng):
    """`multicut` on a graph in a file of any format: its results, or that it refuses."""
    edges, weights, n = formats.random_graph(rng)
    kind = str(rng.choice(formats.formats_of(edges, weights, n)))
    name = formats.write_graph(rng, "g", kind, edges, weights, n)
    weights = np.ones(len(edges)) if weights is None else weights
    costs = Exact.of_graph(edges, weights, n)
    links = random_links(rng, n) if rng.random() < 0.4 else {}
    link_arguments = formats.write_links(rng, links)
    objective, resolution, selected, is_valid = random_objective(rng, kind, costs)
    groups, apart = what_links_say(links, n)
    is_valid &= "link_weight" in links or not formats.contradict(groups, apart)
    search, settings = random_search(rng, n)
    output = str(rng.choice(["out.npy", "out.npz", "out.csv", "out.parquet"]))
    arguments = ["multicut", name, *link_arguments, *search, "--json", "-o", output]
    arguments += [] if objective is None else ["--objective", objective]
    arguments += [] if resolution is None else ["--resolution", repr(resolution)]
    arguments += ["--bound"] if rng.random() < 0.4 else []
    edits = None
    if rng.random() < (0.7 if selected == "editing" else 0.03):
        edits = str(rng.choice(["edits.txt", "e.edits"]))
        arguments += ["--edits", edits]
        is_valid &= selected == "editing"
    wrong = wrong_options(rng, name) if rng.random() < 0.25 else []
    if rng.random() < 0.1:
        arguments.remove("--json")
    code, out = run(
        [*arguments, *wrong], [output, f"{output}.json", "out.npy", "out.npy.json", "edits.txt", "e.edits"]
    )
    if not wrong:
        check((code == 0) == is_valid, f"{arguments}: exit {code}, {out}")
    if code or wrong:
        return
    labels = read_labels(output)
    check_edits(edges, labels, edits) if edits else None
    if "--json" not in arguments:
        return
    about = json_of(out)
    known = {"n": n, "edges": len(np.unique(np.sort(edges, axis=1), axis=0)), "objective": selected}
    known |= {"format": "npz" if kind == "matrix" else kind, "output": output, "edits": edits}
    known |= {"resolution": 1.0 if selected == "modularity" and resolution is None else resolution}
    known |= {"n_clusters": int(labels.max()) + 1, "links": described(links, labels, n)}
    found = {key: about[key] for key in known}
    check(found == known, f"{arguments}: {found}, expected {known}")
    resolution = known["resolution"]
    truth, value_of = costs, costs.objective
    if selected != "costs":
        truth, value_of = graph_objective(OBJECTIVES[selected], edges, weights, n, resolution)
    nodes, groups = check_result(truth, links, labels, about, settings)
    check_value(about, labels, groups, nodes, costs, value_of, links, "--bound" in arguments)
    if rng.random() < 0.3:
        check_same_graph(rng, arguments, edges, weights, n, about, labels)
    if selected == "costs" and (kind == "matrix" or (kind == "MULTICUT" and name.endswith(".txt"))):
        labelled = ["bound", name, "--labels", output, "--json"]
        code, out = run([*labelled, *link_arguments])
        check(code == 0, f"{labelled} with the links: exit {code}, {out}")
        check(abs(json_of(out)["objective"] - about["cost"]) <= 1e-6 * abs(about["cost"]) + 1e-300,
              f"bound says that {about['cost']} is {json_of(out)['objective']}")  # fmt: skip
        code, _ = run(labelled)
        check((code == 2) == ("link_weight" in links), f"{labelled} without links: exit {code}")


def random_objective(rng, kind, costs):
    """Return --objective and --resolution, the objective that they select, and whether it may be solved."""
    objective = resolution = None
    if rng.random() < 0.7:
        objective = str(rng.choice(["costs", "modularity", "potts", "editing"]))
    negative = bool((costs.costs < 0).any())
    objective = objective if not negative or rng.random() < 0.2 else None
    default = "costs" if kind == "MULTICUT" or negative else "modularity"
    selected = objective or ("editing" if kind == "PACE" else default)
    if rng.random() < (0.95 if selected == "potts" else 0.5 if selected == "modularity" else 0.03):
        resolution = float(rng.choice([0.0, 0.1, 1.0, 2.5, *np.abs(rng.normal(size=4))]))
        resolution = -1.0 if rng.random() < 0.02 else resolution
    is_valid = selected == "costs" or not negative
    if selected in ("costs", "editing"):
        is_valid &= resolution is None
    if selected == "modularity":
        is_valid &= bool((costs.costs > 0).any())
    if selected == "potts":
        is_valid &= resolution is not None
    return objective, resolution, selected, is_valid and (resolution is None or resolution >= 0)


def random_search(rng, n):
    """Return the options of a search, and what `check_linked` has to know about them."""
    algorithm = str(rng.choice(["auto", "auto", "fast", "best", "exact", "gaec"]))
    algorithm = "auto" if algorithm == "exact" and n > 12 else algorithm
    arguments, settings = ["-a", algorithm], {"algorithm": algorithm}
    if algorithm == "best":
        arguments += ["--max-iter", str(rng.integers(1, 4))]
    if algorithm == "gaec":
        arguments += ["--refine"] if rng.random() < 0.3 else []
    elif rng.random() < 0.3:
        np.save("init.npy", values.labels(rng, n))
        arguments += ["--init", "init.npy"]
    return [*arguments, "--seed", str(rng.integers(5))], settings


def wrong_options(rng, graph):
    """Return one or two options that are odd or wrong."""
    Path("words.csv").write_text("a,b\nx,y\n")
    Path("three.txt").write_text("0 1 2\n")
    np.save("many.npy", np.zeros((3, 4)))
    number = str(rng.choice(["0.4", "0", "-0.2", "1e5", "nan", "inf", "x", "1e400", "", "-1", "1e-310"]))
    pairs = str(rng.choice(["words.csv", "three.txt", "many.npy", "absent.csv", ".", graph, "x.xlsx"]))
    groups = [*("words.csv:b", "words.csv:", "words.csv", "absent.csv:a", "many.npy:x", ":", "", ".")]
    known = [
        ["--resolution", number], ["--objective", str(rng.choice(["edit", "", "costs", "Modularity"]))],
        ["--edits", str(rng.choice(["e.csv", graph, "no/e.txt", ".", "edits.txt", ""]))],
        ["-o", str(rng.choice([graph, "out", "no/out.npy", "", ".", "out.npy"]))],
        ["-a", str(rng.choice(["dlaec", "kmeans", "", "gaec", "dgaec"]))], ["--refine"],
        ["--must-link", pairs], ["--cannot-link", pairs], ["--exclusive", str(rng.choice(groups))],
        ["--link-weight", number], ["--init", pairs], ["--seed", str(rng.choice(["-1", "x", "2"]))],
        ["--max-iter", str(rng.choice(["0", "-3", "1.5", "x", "2"]))], ["--threshold", "0.4"], ["extra"],
        ["--time-limit", str(rng.choice(["0", "-1", "nan", "x", "1e-9"]))], ["--device", "cpu"],
    ]  # fmt: skip
    chosen = rng.choice(len(known), size=rng.integers(1, 3), replace=False)
    return [part for at in chosen for part in known[at]]


def read_labels(name):
    """Return the labels of a file that a command wrote."""
    if name.endswith(".npy"):
        return np.load(name)
    if name.endswith(".npz"):
        with np.load(name) as saved:
            return saved["labels"]
    if name.endswith(".csv"):
        heading, *lines = Path(name).read_text().splitlines()
        check(heading == "label", f"the heading of labels is {heading!r}")
        return np.array(lines, dtype=np.int64)
    import pyarrow.parquet as parquet

    return parquet.read_table(name)["label"].to_numpy()


def check_edits(edges, labels, name):
    """The edits that were written turn the graph into the cliques of the clustering; sorted."""
    found = [tuple(map(int, line.split(" "))) for line in Path(name).read_text().splitlines()]
    n = len(labels)
    joined = {(int(min(pair)), int(max(pair))) for pair in edges.tolist()}
    together = {(i, j) for i in range(n) for j in range(i + 1, n) if labels[i] == labels[j]}
    expected = sorted((i + 1, j + 1) for i, j in joined ^ together)
    check(found == expected, f"edits {found}, expected {expected}")


def described(links, labels, n):
    """Return what --json says of links."""
    if not links:
        return None
    must, cannot, _ = pairs_of_links(links, n)
    groups = np.asarray(links.get("exclusive", np.full(n, -1)))
    several = int((np.bincount(groups[groups >= 0], minlength=1) > 1).sum())
    return {
        "must": len(must),
        "cannot": len(cannot),
        "exclusive_groups": several,
        "weight": links.get("link_weight"),
        "broken": n_broken(links, labels),
    }


def linked_truth(truth, links):
    """Return the costs with links, those between groups that must be together, and each item's group."""
    groups, apart = what_links_say(links, truth.n)
    if "link_weight" in links:
        truth = with_soft_links(truth, links)
        groups, apart = np.arange(truth.n), apart & False
    return truth, truth.contracted(groups, apart), groups


def check_result(truth, links, labels, about, settings):
    """Check labels, costs, claims and bound that --json says; return the costs of nodes, and the nodes."""
    truth, nodes, groups = linked_truth(truth, links)
    objective = about["cost"] if "cost" in about else about["objective"]
    bound = about["lower_bound"]
    claims = {key: about[key] for key in ("move_optimal", "join_optimal")}
    result = SimpleNamespace(
        labels=labels,
        objective=objective,
        inside=about["inside"],
        trace=[SimpleNamespace(objective=objective, **claims)],
        bound=None if bound is None else SimpleNamespace(value=bound, rounding=np.inf),
        optimal=about["optimal"] if "optimal" in about else about["gap"] == 0,
        gap=about["gap"],
    )
    check_linked(truth, nodes, groups, np.ones(truth.n, dtype=bool), result, settings)
    if "link_weight" not in links:
        check(not n_broken(links, labels), "hard links are broken")
    return nodes, groups


def check_value(about, labels, groups, nodes, costs, value_of, links, bounded):
    """Check the value of an objective, its bound, and the disagreements."""
    value, room = value_of(labels)
    check(abs(about["value"] - value) <= room, f"value {about['value']!r}, in truth {value!r}, room {room}")
    cut = labels[:, None] != labels
    if about["objective"] == "costs":
        wrong = np.abs(costs.costs[np.where(cut, costs.costs > 0, costs.costs < 0)]).sum() / 2
        room = costs.rounding(slice(None))
        check(abs(about["disagreements"] - wrong) <= room, f"disagreements {about['disagreements']!r}")
    else:
        check(about["disagreements"] is None, "disagreements but for costs")
    sign = -1 if about["objective"] in ("costs", "editing") else 1
    has_bound = about["lower_bound"] is not None and "link_weight" not in links
    check(has_bound == (about["bound"] is not None), f"bound {about['bound']!r}")
    check(not bounded or about["lower_bound"] is not None, "no bound, although there is --bound")
    if about["bound"] is not None:
        check(sign * about["bound"] >= sign * about["value"] - room, "the value is better than its bound")
        scale = float(costs.costs.sum() / 2) if about["objective"] == "modularity" else 1.0
        missing = (about["cost"] - about["lower_bound"]) / scale
        room += 1e-12 * (abs(about["cost"]) + abs(about["lower_bound"]) + float(nodes.terms.sum())) / scale
        found = sign * (about["bound"] - about["value"])
        is_close = found == 0 if about["optimal"] else abs(found - missing) <= room
        check(is_close, f"the bound is {found!r} from the value, in truth {missing!r}")
        if nodes.n <= MAX_ENUMERATED:
            best, room = value_of(nodes.optimum()[groups])
            check(
                sign * about["bound"] >= sign * best - room, f"{best!r} is better than {about['bound']!r}"
            )


def check_same_graph(rng, arguments, edges, weights, n, about, labels):
    """The graph in another format that holds it, with the same objective, has the same labels and value."""
    kinds = [k for k in formats.formats_of(edges, weights, n) if k in ("METIS", "npz", "matrix")]
    name = formats.write_graph(rng, "other", str(rng.choice(kinds)), edges, weights, n)
    again = [*arguments, "--objective", about["objective"]]
    again[1] = name
    code, out = run(again)
    check(code == 0, f"{again}: exit {code}, {out}")
    check(np.array_equal(read_labels(about["output"]), labels), f"{name} has other labels")
    check(json_of(out)["value"] == about["value"], f"{name} has another value")


def linked_features(rng):
    """`cluster`, `evaluate` and `bound` with links: they agree with each other, and with definitions."""
    n, d = values.sizes(rng)
    n = min(n, 40)
    X = rng.normal(size=(n, d)).astype(rng.choice([np.float32, np.float64]))
    threshold = float(rng.choice([0.0, 0.4, -0.2, rng.normal()]))
    links = random_links(rng, n)
    given = formats.write_links(rng, links)
    np.save("x.npy", X)
    groups, apart = what_links_say(links, n)
    is_soft = "link_weight" in links
    is_valid = is_soft or not formats.contradict(groups, apart)
    search, settings = random_search(rng, n)
    output = str(rng.choice(["out.npy", "out.npz", "out.csv", "out.parquet"]))
    costs = ["-t", repr(threshold), "--metric", "inner_product"]
    command = ["cluster", "x.npy", *costs, *search, *given, "--json", "-o", output]
    command += ["--bound"] if rng.random() < 0.3 else []
    code, out = run(command, [output, f"{output}.json"])
    check((code == 0) == is_valid, f"{command}: exit {code}, {out}")
    truth = Exact.of_features(X, threshold)
    if code == 0:
        about, labels = json_of(out), read_labels(output)
        nodes, _ = check_result(truth, links, labels, about, settings)
        check(about["links"] == described(links, labels, n), f"{command}: links {about['links']}")
        again = given if is_soft or rng.random() < 0.5 else []
        for other in (["evaluate", output, "--features", "x.npy"], ["bound", "x.npy", "--labels", output]):
            code, out = run([*other, *again, "--json"])
            check(code == 0, f"{other} {again}: exit {code}, {out}")
            found = json_of(out)
            room = linked_truth(truth, links)[0].objective(labels)[1]
            check(abs(found["objective"] - about["objective"]) <= room, f"{other}: another objective")
            check(found["links"] == (described(links, labels, n) if again else None), f"{other}: links")
            if is_soft:
                code, _ = run([*other, "--json"])
                check(code == 2, f"{other} without the soft links: exit {code}")
    labels = rng.integers(0, 1 + int(rng.integers(0, n)), size=n)
    np.save("y.npy", labels)
    broken = n_broken(links, labels)
    for other in (["evaluate", "y.npy", "--features", "x.npy"], ["bound", "x.npy", "--labels", "y.npy"]):
        code, out = run([*other, *costs, *given, "--json"])
        expected = is_valid and (is_soft or not broken or other[0] == "evaluate")
        check((code == 0) == expected, f"{other} {costs} {given}: exit {code}, {out}")
        if code == 0:
            found = json_of(out)
            true, room = linked_truth(truth, links)[0].objective(labels)
            check(abs(found["objective"] - true) <= room, f"{other}: {found['objective']!r} is {true!r}")
            check(found["links"] == described(links, labels, n), f"{other}: links {found['links']}")
    if is_valid:
        bound = ["bound", "x.npy", *costs, *given, "--json"]
        code, out = run(
            [*bound, "-o", "b.npz", "--method", str(rng.choice(["auto", "trivial"]))], ["b.npz"]
        )
        check(code == 0, f"{bound}: exit {code}, {out}")
        nodes = linked_truth(truth, links)[1]
        if nodes.n <= MAX_ENUMERATED:
            least = nodes.objective(nodes.optimum())[0]
            check(json_of(out)["bound"] <= least + 1e-15 * abs(least), f"{bound}: {out} is above {least!r}")
        code, again = run([*bound, "--check", "b.npz"])
        check(code == 0 and json_of(again)["bound"] == json_of(out)["bound"], f"{bound} --check: {again}")


def options(rng):
    """A few options, most with a value that makes sense."""
    number = str(
        rng.choice(
            ["0.4", "0", "-0.2", "1e5", "nan", "inf", "x", "1e400", "", "0x10", "0.4,0.5", "-1", "2"]
        )
    )
    Path("pairs.csv").write_text("i,j\n0,1\n2,0\n")
    pairs = str(rng.choice(["pairs.csv", "pairs.csv", "pairs.npy", "x.npy", "y.npy", "g.txt", "."]))
    count = str(rng.choice(["1", "2", "5", "0", "-3", "1.5", "x", "99999999999999999999"]))
    known = [
        ["--threshold", str(rng.choice([number, "local", "auto", "Local"]))], ["-t", number],
        ["--strictness", number], ["--n-neighbors", count],
        ["--n-clusters", str(rng.choice([count, "2:4", "4:2", ":"]))],
        ["--alpha", str(rng.choice([number, "w.npy", "y.npy", "absent.npy"]))],
        ["--prefer", str(rng.choice(["small", "large", "none"]))],
        ["--weights", str(rng.choice(["w.npy", "x.npy", "no.csv"]))],
        ["--metric", str(rng.choice(["cosine", "inner_product", "euclid"]))], ["--center"],
        ["--no-center"], ["--json"], ["--json"],
        ["--algorithm", str(rng.choice(["auto", "fast", "gaec", "dlaec", "exact", "kmeans", ""]))],
        ["--refine"], ["--init", str(rng.choice(["y.npy", "x.npy"]))], ["--time-limit", number],
        ["--seed", count], ["-k", count], ["--ann", "hnsw"],
        ["--device", str(rng.choice(["cpu", "cuda", "tpu"]))], ["--bound"],
        ["--memory-limit", str(rng.choice(["1KB", "1MB", "2", "x", "0", "-1", "nan"]))],
        ["--checkpoint", "run"],
        ["--thresholds", str(rng.choice(["0.2:0.8:3", "0:1", "a:b:c", "0.1:0.2:0", "0:1:2000"]))],
        ["--plot", "plot.png"], ["--nonsense"], ["--method", str(rng.choice(["auto", "trivial", "x"]))],
        ["extra"], ["--must-link", pairs], ["--cannot-link", pairs], ["--link-weight", number],
        ["--exclusive", str(rng.choice(["y.npy", "w.npy", "pairs.csv", "pairs.csv:i", "no.csv:i"]))],
        ["--objective", str(rng.choice(["costs", "editing", "x"]))], ["--resolution", number],
        ["--edits", "edits.txt"],
    ]  # fmt: skip
    chosen = rng.choice(len(known), size=rng.integers(0, 4), replace=False)
    return [part for at in chosen for part in known[at]]
