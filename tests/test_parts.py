"""The command line on features that are read in parts: folders, limited memory, checkpoints."""

import json

import numpy as np
import pytest
from makers import mixture

from clusterfug import dense_multicut
from clusterfug.costs.preprocessing import mean_feature, prepare
from clusterfug.execution.sharded import source

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, the extra [io]")
from pyarrow import parquet

from clusterfug.io import tables

LIMIT = "9kB"  # 19 items of 6 features


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(source, "LEAST", 8)


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    """Features in three files, and the same in one array."""
    X, _ = mixture(rng, 60, 4, d=6, noise=0.8)
    X = (X * rng.uniform(0.5, 2, size=(60, 1)) + 0.3).astype(np.float32)
    (tmp_path / "data").mkdir()
    np.save(tmp_path / "data" / "a.npy", X[:25])
    tables.write(tmp_path / "data" / "b.parquet", "features", X[25:31])
    np.save(tmp_path / "data" / "c.npy", X[31:])
    np.save(tmp_path / "all.npy", X)
    monkeypatch.chdir(tmp_path)
    return X


def names(path):
    return sorted(file.name for file in path.iterdir())


def in_memory(X, threshold=0.4, metric="cosine", center=False, weight=None, **options):
    """What the command is to find: the array, prepared at once."""
    features = prepare(X, metric, mean_feature(X, weight) if center else None)
    return dense_multicut(features, threshold, sample_weight=weight, memory_limit=LIMIT, **options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), {}),
        (("--center",), {"center": True}),
        (("--metric", "inner_product"), {"metric": "inner_product"}),
        (("--metric", "inner_product", "--center"), {"metric": "inner_product", "center": True}),
        (("-a", "fast"), {"algorithm": "fast"}),
        (("--checkpoint", "c"), {}),
        (("--center", "--checkpoint", "c"), {"center": True}),
        (("--weights", "w.npy", "--center"), {"weight": np.arange(60) % 4 + 0.5, "center": True}),
        (("--weights", "w.npy"), {"weight": np.arange(60) % 3}),
        (("--init", "i.npy"), {"init": np.arange(60) % 5}),
    ],
    ids=str,
)
def test_a_folder_is_clustered_like_the_array(run, folder, tmp_path, options, told):
    expected = in_memory(folder, **told)
    assert expected.trace[0].name == ("refinement" if "init" in told else "shards")
    for name, key in (("w.npy", "weight"), ("i.npy", "init")):
        np.save(tmp_path / name, told.get(key, 0))
    for at, features in enumerate(("data", "all.npy")):
        if "--checkpoint" in options:
            options = (*options[:-1], f"c{at}")
        code, out, err = run(
            "cluster", features, "-t", 0.4, "--memory-limit", LIMIT, *options, "-o", "labels.npy", "--json"
        )
        assert (code, err) == (0, "")
        labels, report = np.load(tmp_path / "labels.npy"), json.loads(out)
        np.testing.assert_array_equal(labels, expected.labels)
        assert labels.dtype == np.int64
        assert report["inside"] == pytest.approx(expected.inside, rel=1e-5)
        assert report["objective"] == pytest.approx(expected.objective, rel=1e-5)
        assert (report["n"], report["d"], report["n_clusters"]) == (60, 6, expected.n_clusters)
        assert (report["threshold"], report["device"]) == (0.4, "cpu")
        assert (report["metric"], report["center"]) == (told.get("metric", "cosine"), "center" in told)
        assert report["move_optimal"]
        assert report["join_optimal"]


def test_an_alpha_instead_of_a_threshold(run, folder, tmp_path):
    alpha = np.linspace(0.5, 0.7, 60)
    np.save(tmp_path / "alpha.npy", alpha)
    for told, value in ((0.6, 0.6), ("alpha.npy", alpha)):
        code, _, err = run("cluster", "data", "--alpha", told, "--memory-limit", LIMIT, "-o", "l.npy")
        assert (code, err) == (0, "")
        np.testing.assert_array_equal(np.load("l.npy"), in_memory(folder, alpha=value).labels)


def test_a_folder_of_labels_has_a_file_for_each(run, folder, tmp_path):
    expected = in_memory(folder).labels
    code, _, err = run("cluster", "data", "-t", 0.4, "--memory-limit", LIMIT, "-o", "labels")
    assert (code, err) == (0, "")
    found = {path.name: parquet.read_table(path) for path in (tmp_path / "labels").iterdir()}
    assert sorted(found) == ["a.npy.parquet", "b.parquet", "c.npy.parquet"]
    assert found["b.parquet"].column_names == ["label"]
    for name, part in (("a.npy", slice(0, 25)), ("b", slice(25, 31)), ("c.npy", slice(31, 60))):
        assert found[f"{name}.parquet"]["label"].to_pylist() == expected[part].tolist()
    assert names(tmp_path) == ["all.npy", "data", "labels"]


@pytest.mark.parametrize("output", ["labels.csv", "labels.parquet", "folder"])
def test_a_folder_that_fits_is_read_at_once(run, folder, tmp_path, output):
    expected = dense_multicut(prepare(folder, "cosine"), 0.4).labels
    code, out, err = run("cluster", "data", "-t", 0.4, "-o", output)
    assert (code, err) == (0, "")
    assert "no single move or join improves it" in out
    assert output in out
    if output == "folder":
        paths = sorted((tmp_path / output).iterdir())
        labels = np.concatenate([tables.Table(path).read()[:, 0] for path in paths])
    elif output == "labels.csv":
        labels = np.loadtxt(output, skiprows=1)
    else:
        labels = tables.Table(tmp_path / output).read()[:, 0]
    np.testing.assert_array_equal(labels, expected)


def test_algorithms_that_know_no_shards_read_a_folder_at_once(run, folder):
    code, out, err = run("cluster", "data", "-t", 0.4, "-a", "dlaec", "--memory-limit", LIMIT, "--json")
    assert (code, err) == (0, "")
    expected = dense_multicut(prepare(folder, "cosine"), 0.4, algorithm="dlaec")
    assert json.loads(out)["objective"] == pytest.approx(expected.objective)


def test_a_table_alone(run, folder, tmp_path):
    expected = in_memory(folder).labels
    tables.write(tmp_path / "x.parquet", "features", folder)
    run("cluster", "x.parquet", "-t", 0.4, "--memory-limit", LIMIT, "-o", "l.npy")
    np.testing.assert_array_equal(np.load("l.npy"), expected)


def test_it_says_that_it_stopped_early(run, folder):
    told = ("cluster", "data", "-t", 0.4, "--memory-limit", LIMIT, "--time-limit", 0)
    code, out, err = run(*told)
    assert (code, err) == (0, "")
    assert "stopped early" in out
    assert not json.loads(run(*told, "--json")[1])["move_optimal"]


@pytest.mark.large
def test_memory_as_a_person_says_it(run, rng, tmp_path, monkeypatch):
    """As in the manual, with shards of their usual size."""
    monkeypatch.undo()
    X, _ = mixture(rng, 3000, 12, d=6, noise=0.4)
    (tmp_path / "folder").mkdir()
    for at in range(3):
        np.save(tmp_path / "folder" / f"{at}.npy", X[at * 1000 : at * 1000 + 1000])
    told = ("cluster", tmp_path / "folder", "-t", 0.4, "-o", tmp_path / "labels.npy")
    expected = dense_multicut(X, 0.4, memory_limit=600_000).labels
    for text in ("600kB", "600000B", "0.0006 GB", str(600_000 / 2**30)):
        code, _, err = run(*told, "--memory-limit", text)
        assert (code, err) == (0, "")
        np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), expected)


def test_a_run_with_a_checkpoint_goes_on(run, folder, tmp_path, monkeypatch):
    """Ctrl-C, and the same command again; with another threshold it says what is wrong."""
    told = ("cluster", "data", "-t", 0.4, "--memory-limit", LIMIT, "--checkpoint", "c", "-o", "l.npy")

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("clusterfug.execution.sharded.tasks.join", interrupt)
        code, out, err = run(*told)
    assert (code, out, err) == (130, "", "clusterfug: interrupted; no output was written\n")
    assert not (tmp_path / "l.npy").exists()
    done = sum(name.startswith("shard-") for name in names(tmp_path / "c"))
    assert done > 1
    with monkeypatch.context() as patch:
        patch.setattr("clusterfug.execution.sharded.tasks._solve", rest := Counted())
        code, _, err = run(*told)
    assert (code, err) == (0, "")
    with monkeypatch.context() as patch:
        patch.setattr("clusterfug.execution.sharded.tasks._solve", whole := Counted())
        run(*told[:6], "--checkpoint", "d")
    assert rest.sizes == whole.sizes[done:]
    np.testing.assert_array_equal(np.load("l.npy"), in_memory(folder).labels)
    for changed, which in (
        (("-t", 0.5), "threshold"),
        (("--center",), "centre"),
        (("--metric", "inner_product"), "metric"),
        (("-a", "fast"), "algorithm"),
    ):
        code, out, err = run(*told, *changed)
        assert (code, out) == (2, "")
        assert err == (
            f"clusterfug: error: c is the checkpoint of another run (other {which}): give what that run "
            "was given, or another folder\n"
        )


class Counted:
    """Solves and notes how large what it solved was."""

    def __init__(self):
        from clusterfug.execution.sharded import tasks

        self.solve, self.sizes = tasks._solve, []

    def __call__(self, problem):
        self.sizes.append(problem.n)
        return self.solve(problem)


SHARDED = ("cluster", "data", "-t", 0.4, "--memory-limit", LIMIT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*SHARDED, "--bound"), "solved shard by shard do not go with --bound"),
        (("cluster", "data", "--memory-limit", LIMIT, "--n-clusters", 4), "do not go with --n-clusters"),
        (
            ("cluster", "data", "--memory-limit", LIMIT, "--thresholds", "0.2:0.8:3"),
            "not go with --thresholds",
        ),
        (("cluster", "data", "--memory-limit", LIMIT, "--plot", "p.png"), "do not go with --plot"),
        (("cluster", "data", "--memory-limit", LIMIT), "give a number (what is chosen for a sample, say)"),
        (("cluster", "data", "-t", "local", "--memory-limit", LIMIT), "give a number"),
        (("cluster", "data", "--checkpoint", "c"), "checkpoint goes with a threshold that is told"),
        (("cluster", "all.npy", "--checkpoint", "c"), "checkpoint goes with a threshold that is told"),
        (("cluster", "data", "-t", "local", "--checkpoint", "c"), "a local threshold looks at"),
        (("cluster", "data", "-t", 0.4, "-a", "best", "--checkpoint", "c"), "not with best"),
        (("cluster", "data", "-t", 0.4, "--bound", "--checkpoint", "c"), "do not go with --bound"),
        (("cluster", "data", "-t", 0.4, "--checkpoint", "no/c"), "the folder no does not exist"),
        (("cluster", "data", "-t", 0.4, "--checkpoint", "all.npy"), "checkpoint must be a folder"),
        (("cluster", "x.csv", "-t", 0.4, "--checkpoint", "c"), "x.csv cannot be read in parts"),
        (
            ("cluster", "data", "-t", 0.4, "--memory-limit", "lots"),
            "--memory-limit must be bytes, or a text such as",
        ),
        (("cluster", "data", "-t", 0.4, "--memory-limit", "0"), "--memory-limit"),
        (("cluster", "data", "-t", 0.4, "--memory-limit", "nan"), "--memory-limit"),
        (("bound", "all.npy", "--memory-limit", "2 XB"), "--memory-limit must be bytes"),
        (("cluster", "nothing", "-t", 0.4, "--memory-limit", LIMIT), "nothing does not exist"),
        (("cluster", "empty", "-t", 0.4), "empty is a folder without any"),
        ((*SHARDED, "-o", "empty"), "cannot write empty: it exists"),
        ((*SHARDED, "-o", "no/labels"), "the folder no does not exist"),
        ((*SHARDED, "-o", "labels.txt"), "must end in .npy, .csv, .parquet"),
        (("cluster", "all.npy", "-t", 0.4, "--memory-limit", LIMIT, "-o", "labels"), "must end in .npy"),
        (("cluster", "all.npy", "-t", 0.4, "--memory-limit", LIMIT, "-o", "all.npy"), "it is an input"),
        ((*SHARDED, "--weights", "few.npy"), "one number per item, shape (60,), not (3,)"),
        ((*SHARDED, "--init", "few.npy"), "init must have one entry per item"),
        ((*SHARDED, "--alpha", 0.3), "give --threshold or --alpha, not both"),
    ],
    ids=lambda value: " ".join(map(str, value[1:])) if isinstance(value, tuple) else "",
)
def test_what_does_not_go_together_is_one_line_and_writes_nothing(
    run, folder, tmp_path, arguments, message
):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    np.save(tmp_path / "few.npy", np.arange(3))
    before = names(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert names(tmp_path) == before


def test_a_file_that_is_not_finite_is_named(run, folder, tmp_path):
    folder[40, 3] = np.nan
    np.save(tmp_path / "data" / "c.npy", folder[31:])
    for options in ((), ("--center",), ("--checkpoint", "c")):
        code, out, err = run(*SHARDED, *options, "-o", "l.npy")
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        assert "c.npy" in err
        assert "is not finite: nan" in err
        assert not (tmp_path / "l.npy").exists()


@pytest.mark.parametrize("output", ["data/a.npy", "data/labels.npy", "data/deeper.parquet", "data/labels"])
def test_labels_are_not_written_among_the_features(run, folder, tmp_path, output):
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    code, out, err = run("cluster", "data", "-t", "0.4", "--memory-limit", LIMIT, "-o", output)
    assert (code, out) == (2, "")
    assert (
        err == f"clusterfug: error: cannot write {output}: it would be among the features; "
        "write it elsewhere\n"
    )
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before


def test_a_file_that_comes_later_has_no_labels(run, folder, tmp_path, monkeypatch):
    from clusterfug.cli import parts

    cluster = parts.cluster

    def meanwhile(*arguments):
        result = cluster(*arguments)
        np.save(tmp_path / "data" / "0.npy", folder[:3])
        return result

    monkeypatch.setattr(parts, "cluster", meanwhile)
    code, _, err = run("cluster", "data", "-t", "0.4", "--memory-limit", LIMIT, "-o", "labels")
    assert (code, err) == (0, "")
    assert names(tmp_path / "labels") == ["a.npy.parquet", "b.parquet", "c.npy.parquet"]
    assert len(parquet.read_table(tmp_path / "labels" / "a.npy.parquet")) == 25
