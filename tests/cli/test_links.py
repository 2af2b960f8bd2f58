"""Links on the command line: cluster, bound and evaluate take them, and say how many are broken."""

import json

import numpy as np
import pytest

from clusterfug import dense_multicut, lower_bound, multicut, objective

ENDINGS = (".npy", ".npz", ".csv", ".parquet")
OPTIONS = ("--must-link", "must.csv", "--cannot-link", "cannot.npy", "--exclusive", "photos.csv:photo")
SOFT = (*OPTIONS, "--link-weight", 0.5)


@pytest.fixture
def links(features, monkeypatch):
    """Change to the folder of the features, x.npy, with files of links; return the links as arguments."""
    monkeypatch.chdir(features[0].parent)
    photos = [f"photo {i}" if i < 10 else "" for i in range(20) for _ in range(2)]
    with open("must.csv", "w") as file:
        file.write("# known\nfirst,second\n1,30\n3,31\n30,1\n")
    np.save("cannot.npy", [[1, 3], [5, 4]])
    with open("photos.csv", "w") as file:
        file.writelines(["id,photo\n", *(f"{i},{name}\n" for i, name in enumerate(photos))])
    return {"must_link": [[1, 30], [3, 31]], "cannot_link": [[1, 3], [4, 5]], "exclusive": photos}


@pytest.mark.parametrize(
    ("options", "costs"), [(("-t", 0.2), {"threshold": 0.2}), ((), {}), (("-t", 0.2, "-a", "gaec"), None)]
)
def test_hard_links_are_those_of_the_function(report, features, links, options, costs):
    found = report("cluster", "x.npy", *options, *OPTIONS, "-o", "l.npy")
    costs = {"threshold": 0.2, "algorithm": "gaec"} if costs is None else costs
    result = dense_multicut(features[1], **costs, **links)
    np.testing.assert_array_equal(np.load("l.npy"), result.labels)
    assert found["objective"] == result.objective
    assert found["links"] == {"must": 2, "cannot": 2, "exclusive_groups": 10, "weight": None, "broken": 0}
    assert report("cluster", "x.npy", *options)["links"] is None


@pytest.mark.filterwarnings("ignore:one cluster holds all items")
def test_soft_links_may_be_broken(report, run, features, links):
    for weight in (0.01, 100.0):
        options = (*OPTIONS[:2], "--link-weight", weight)
        with open("must.csv", "w") as file:
            file.writelines(f"{i},{i + 1}\n" for i in range(39))
        pairs = [[i, i + 1] for i in range(39)]
        found = report("cluster", "x.npy", "-t", 0.5, *options)
        result = dense_multicut(features[1], 0.5, must_link=pairs, link_weight=weight)
        assert found["objective"] == result.objective
        assert found["links"]["weight"] == weight
        assert found["links"]["broken"] == result.broken_links
        assert (result.broken_links > 0) == (weight < 1)
        broken = result.broken_links or "none"
        _, out, _ = run("cluster", "x.npy", "-t", 0.5, *options)
        assert f"39 must; {broken} broken" in out


def test_the_table_names_the_kinds_of_links(run, links):
    for options, row in (
        (OPTIONS, "links 2 must, 2 cannot, 10 exclusive groups; none broken"),
        (OPTIONS[2:4], "links 2 cannot; none broken"),
        (("--exclusive", "one.txt"), "links 1 exclusive group; none broken"),
        (("--must-link", "none.csv"), "links none; none broken"),
    ):
        with open("one.txt", "w") as file:
            file.write("a\na\n" + 38 * "\n")
        with open("none.csv", "w") as file:
            file.write("i,j\n")
        code, out, err = run("cluster", "x.npy", "-t", 0.2, *options)
        assert (code, err) == (0, "")
        assert row in [" ".join(line.split()) for line in out.splitlines()]


@pytest.mark.parametrize("ending", [".npz", ".txt"])
def test_links_of_a_graph(report, links, ending):
    edges, costs = [[0, 1], [1, 2], [2, 3], [0, 3]], [2.0, -1, 1, 1]
    if ending == ".txt":
        with open("g.txt", "w") as file:
            file.writelines(
                ["MULTICUT\n", *(f"{u} {v} {c}\n" for (u, v), c in zip(edges, costs, strict=True))]
            )
    else:
        from scipy.sparse import coo_array, save_npz

        save_npz("g.npz", coo_array((costs, np.transpose(edges)), shape=(4, 4)))
    np.save("cannot.npy", [[2, 3]])
    found = report("cluster", f"g{ending}", "--cannot-link", "cannot.npy", "--bound", "-o", "l.npy")
    result = multicut(edges, costs, cannot_link=[[2, 3]], bound=True)
    assert (found["n"], found["edges"]) == (4, 4)
    assert (found["objective"], found["lower_bound"]) == (result.objective, result.lower_bound)
    assert found["links"] == {"must": 0, "cannot": 1, "exclusive_groups": 0, "weight": None, "broken": 0}
    bounded = report("bound", f"g{ending}", "--cannot-link", "cannot.npy", "--labels", "l.npy")
    assert (bounded["bound"], bounded["links"]) == (result.lower_bound, found["links"])


def test_files_that_are_read_in_parts_are_read_at_once_with_links(report, features, links):
    found = report("cluster", "x.npy", "-t", 0.2, *OPTIONS, "--memory-limit", "1MB")
    assert found["objective"] == dense_multicut(features[1], 0.2, **links).objective
    assert report("cluster", "x.npy", "-t", 0.2, *OPTIONS, "--device", "auto")["device"] == "cpu"


def test_a_bound_of_clusterings_that_respect_hard_links(report, run, features, links):
    report("cluster", "x.npy", "-t", 0.2, *OPTIONS, "-o", "l.npy")
    found = report("bound", "x.npy", *OPTIONS, "--labels", "l.npy", "-o", "b.npz")
    assert found["bound"] == lower_bound(features[1], 0.2, **links).value
    assert found["bound"] <= found["objective"]
    assert found["links"]["broken"] == 0
    free = report("bound", "x.npy", "--labels", "l.npy")
    assert (free["links"], free["objective"]) == (None, found["objective"])
    again = report("bound", "x.npy", *OPTIONS, "--labels", "l.npy", "--check", "b.npz")
    assert (again["verified"], again["bound"]) == (True, found["bound"])
    _, out, _ = run("bound", "x.npy", "-t", 0.2, *OPTIONS)
    assert "links        2 must, 2 cannot, 10 exclusive groups\n" in out
    np.save("together.npy", np.zeros(40, dtype=int))
    code, out, err = run("bound", "x.npy", "-t", 0.2, *OPTIONS, "--labels", "together.npy")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (
        "together.npy breaks 11 of the links, but the bound is one for clusterings that break none" in err
    )
    found = report("bound", "x.npy", "-t", 0.2, *SOFT, "--labels", "together.npy")
    assert found["links"]["broken"] == 11  # one pair is named twice
    assert found["gap"] > 0


def test_links_in_an_evaluation(report, run, features, links):
    labels = np.arange(40) // 4
    labels[4:6] = -1  # noise: each is a cluster of its own
    np.save("l.npy", labels)
    found = report("evaluate", "l.npy", "--features", "x.npy", "-t", 0.2, *OPTIONS)
    assert found["links"] == {"must": 2, "cannot": 2, "exclusive_groups": 10, "weight": None, "broken": 12}
    alone = np.where(labels == -1, 100 + np.arange(40), labels)
    assert found["objective"] == pytest.approx(objective(features[1], alone, 0.2))
    soft = report("evaluate", "l.npy", "--features", "x.npy", "-t", 0.2, *OPTIONS[:2], "--link-weight", 3)
    expected = objective(features[1], alone, 0.2, must_link=links["must_link"], link_weight=3)
    assert soft["objective"] == pytest.approx(expected)
    assert soft["objective"] == pytest.approx(found["objective"] + 6)
    _, out, _ = run("evaluate", "l.npy", "--features", "x.npy", "-t", 0.2, *OPTIONS)
    assert "2 must, 2 cannot, 10 exclusive groups; 12 broken" in out
    assert report("evaluate", "l.npy", "--features", "x.npy", "-t", 0.2)["links"] is None


@pytest.mark.parametrize("ending", ENDINGS)
def test_soft_links_of_labels_have_to_be_given_again(report, run, links, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    labels = f"l{ending}"
    solved = report("cluster", "x.npy", "-t", 0.2, *SOFT, "-o", labels)
    for command in (("evaluate", labels, "--features", "x.npy"), ("bound", "x.npy", "--labels", labels)):
        for options in ((), OPTIONS):
            code, out, err = run(*command, *options)
            assert (code, out, err.count("\n")) == (2, "", 1)
            assert f"{labels} was solved with links that may be broken, which are not stored: give" in err
        found = report(*command, *SOFT)
        assert found["objective"] == pytest.approx(solved["objective"], rel=1e-12)
        assert found["links"] == solved["links"]
        code, out, err = run(*command, *OPTIONS[:4], "--link-weight", 0.7)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "was solved on other features than x.npy, or with other weights or links" in err


def test_labels_of_hard_links_need_no_links(report, links):
    solved = report("cluster", "x.npy", "-t", 0.2, *OPTIONS, "-o", "l.npy")
    with open("l.npy.json") as file:
        assert json.load(file)["links"] == "hard"
    for options in ((), OPTIONS, SOFT):
        found = report("evaluate", "l.npy", "--features", "x.npy", *options)
        assert (found["objective"] == solved["objective"]) == ("--link-weight" not in options)


def test_labels_of_an_older_version_know_no_links(report, links):
    solved = report("cluster", "x.npy", "-t", 0.2, "-o", "l.npy")
    with open("l.npy.json") as file:
        settings = json.load(file)
    assert settings.pop("links") is None
    with open("l.npy.json", "w") as file:
        json.dump(settings, file)
    assert report("evaluate", "l.npy", "--features", "x.npy")["objective"] == solved["objective"]


def test_labels_of_another_graph_or_objective_are_an_error(report, run, links):
    with open("g.txt", "w") as file:
        file.write("MULTICUT\n0 1 2\n1 2 -1\n2 3 1\n3 4 0.5\n")
    np.save("cannot.npy", [[0, 1]])
    soft = ("--cannot-link", "cannot.npy", "--link-weight", 3)
    report("cluster", "g.txt", *soft, "-o", "l.npy")
    code, out, err = run("bound", "g.txt", "--labels", "l.npy")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "was solved with links that may be broken" in err
    assert report("bound", "g.txt", "--labels", "l.npy", *soft)["gap"] == 0
    for output, changed in (("l.npy", "3 4 5\n"), ("p.npy", "3 4 0.5\n")):
        with open("g.txt", "w") as file:
            file.write(f"MULTICUT\n0 1 2\n1 2 {-7 if output == 'l.npy' else 1}\n2 3 1\n{changed}")
        if output == "p.npy":
            report("multicut", "g.txt", "--objective", "modularity", "-o", output)
        options = soft if output == "l.npy" else ()
        code, out, err = run("bound", "g.txt", "--labels", output, *options)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"{output} was solved on another graph than g.txt, or for another objective" in err
        assert err.endswith("here; give that graph\n")


@pytest.fixture
def assert_fails(assert_fails, tmp_path):
    """Run a wrong command among some files of links."""
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "parts" / "a.npy", np.eye(4))
    np.save(tmp_path / "third.npy", [[0.0, 1 / 3]])
    for name, text in (
        ("must.csv", "i,j\n0,1\n1,2\n"),
        ("same.txt", "0 2\n"),
        ("self.txt", "3 3\n"),
        ("far.txt", "0 4\n"),
        ("below.txt", "0 1\n0 -1\n"),
        ("photos.txt", "a\nb\na\n\n"),
        ("photos.csv", "id,photo\n0,a\n1,b\n2,a\n3,b\n"),
        ("headed.csv", "photo\na\nb\na\nb\n"),
    ):
        (tmp_path / name).write_text(text)
    return assert_fails


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--must-link no.csv", ": no.csv does not exist"),
        ("--must-link far.txt", ": --must-link names item 4, but there are 4 items, numbered from 0"),
        ("--cannot-link below.txt", ": below.txt, line 2: -1 is no item: a line is a pair"),
        ("--cannot-link self.txt", ": --cannot-link pairs item 3 with itself: remove such pairs"),
        ("--must-link third.npy", ": --must-link has 0.33"),
        (
            "--must-link x.npy",
            ": --must-link must have one pair of items per row, shape (m, 2), not (4, 4)",
        ),
        ("--must-link words.npy", ": --must-link must be integers, not <U1"),
        ("--cannot-link labels.doc", ": labels.doc has an unknown ending"),
        ("--link-weight 1", "--link-weight weighs links: give --must-link, --cannot-link or --exclusive"),
        ("--must-link must.csv --link-weight 0", ": --link-weight must be above 0, not 0"),
        ("--must-link must.csv --link-weight -1", ": --link-weight must be at least 0, not -1"),
        ("--must-link must.csv --link-weight inf", ": --link-weight must be a finite number"),
        (
            "--must-link must.csv --cannot-link same.txt",
            "items 0 and 2 cannot be together, but 0-1-2 must: remove one of these links, or give --link-w",
        ),
        ("--must-link must.csv --exclusive photos.txt", "items 0 and 2 are both in group 'a' of exclusive"),
        ("--exclusive no.csv:photo", ": no.csv does not exist"),
        ("--exclusive photos.csv", "line 1: 2 columns where one is expected"),
        ("--exclusive photos.csv:foto", "photos.csv has no column 'foto': its first line is 'id', 'photo'"),
        ("--exclusive photos.txt:photo", "photos.txt has no names of columns: leave out ':photo'"),
        (
            "--exclusive headed.csv",
            "headed.csv has 5 groups, but x.npy has 4 items: give one per item; if there is a heading",
        ),
        ("--exclusive five.npy", ": five.npy must hold one number per item, not an array of (5, 5)"),
        ("--exclusive halves.npy", ": halves.npy has 2 groups, but x.npy has 4 items"),
        ("--exclusive labels.doc", ": labels.doc has an unknown ending: a file of groups"),
    ],
)
@pytest.mark.parametrize(
    "command", ["cluster x.npy -o l.npy", "bound x.npy", "evaluate labels.npy --features x.npy"]
)
def test_wrong_links_are_one_line(assert_fails, command, options, message):
    assert_fails(f"{command} -t 0.4 {options}", message)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "cluster x.npy --thresholds 0:1:3 --must-link must.csv",
            "--must-link does not go with --thresholds",
        ),
        ("cluster x.npy --thresholds 0:1:3 --exclusive photos.txt", "--exclusive does not go with --thres"),
        ("cluster x.npy --n-clusters 2 --must-link must.csv", "--n-clusters does not go with links"),
        ("cluster x.npy --checkpoint run --must-link must.csv", "--checkpoint does not go with links"),
        ("cluster x.npy --scheduler tcp://h:1 --must-link must.csv", "--scheduler does not go with links"),
        ("cluster x.npy --device cuda --must-link must.csv", "--device does not go with links"),
        ("cluster x.npy --device tpu --must-link must.csv", "--device does not go with links"),
        (
            "cluster x.npy --memory-limit 1kB --must-link must.csv",
            "a problem with links is solved at once: leave out --memory-limit",
        ),
        (
            "cluster x.npy -t 0.4 --memory-limit 1kB --must-link must.csv",
            "a problem with links is solved at once: leave out --memory-limit",
        ),
        (
            "cluster parts -t 0.4 --must-link must.csv",
            "links go with one file of features, but parts is a f",
        ),
        (
            "cluster x.npy -a dgaec --must-link must.csv",
            "--must-link goes with auto, fast, best, exact, gaec",
        ),
        ("cluster graph.txt --exclusive photos.txt", "photos.txt has 4 groups, but graph.txt has 2 nodes"),
        ("cluster graph.txt --must-link must.csv", "--must-link names node 2, but there are 2 nodes"),
        ("cluster flat.npy --must-link must.csv", "flat.npy must be 2-D"),
        ("cluster empty.npy --must-link must.csv", "empty.npy has no rows"),
        ("cluster nan.npy --must-link must.csv", "not finite: NaN in row 3"),
        ("cluster x.npy --must-link must.csv -o must.csv", "cannot write must.csv: it is an input"),
        (
            "cluster x.npy --exclusive photos.csv:photo -o photos.csv",
            "cannot write photos.csv: it is an input",
        ),
        ("bound x.npy --device cuda --must-link must.csv", "--device does not go with links"),
        ("evaluate labels.npy --must-link must.csv", "--must-link goes with --features"),
        ("evaluate labels.npy --exclusive photos.txt --link-weight 1", "--exclusive goes with --features"),
    ],
)
def test_what_does_not_go_with_links_is_one_line(assert_fails, command, message):
    assert_fails(command, message)
