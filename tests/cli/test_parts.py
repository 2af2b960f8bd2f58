"""The command line on features that are read in parts: folders, limited memory, checkpoints."""

import json

import numpy as np
import pytest
from makers import memory_for, mixture, names_in

from clusterfug import core, dense_multicut
from clusterfug.costs.preprocessing import mean_feature, prepare
from clusterfug.execution.sharded import source, tasks
from clusterfug.io import tables

pytest.importorskip("pyarrow", reason="Parquet needs pyarrow, the extra [io]")
from pyarrow import parquet

LIMIT = f"{memory_for(19, 6)}B"
SHARDED = ("cluster", "data", "-t", 0.4, "--memory-limit", LIMIT)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    monkeypatch.setattr(source, "MIN_SHARD_ITEMS", 8)


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


def in_memory(X, threshold=0.4, metric="cosine", center=False, weight=None, limit=LIMIT, **options):
    """The result for the array, with all rows preprocessed at once."""
    features = prepare(X, metric, mean_feature(X, weight) if center else None)
    options |= {"sample_weight": weight, "metric": "inner_product", "memory_limit": limit}
    return dense_multicut(features, threshold, **options)


@pytest.mark.parametrize(
    ("options", "arguments"),
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
def test_a_folder_is_clustered_like_the_array(run, folder, tmp_path, options, arguments):
    expected = in_memory(folder, **arguments)
    assert expected.trace[0].name == ("refinement" if "init" in arguments else "shards")
    for name, key in (("w.npy", "weight"), ("i.npy", "init")):
        np.save(tmp_path / name, arguments.get(key, 0))
    for at, features in enumerate(("data", "all.npy")):
        if "--checkpoint" in options:
            options = (*options[:-1], f"c{at}")
        command = ("cluster", features, "-t", 0.4, "--memory-limit", LIMIT)
        code, out, err = run(*command, *options, "-o", "labels.npy", "--json")
        assert (code, err) == (0, "")
        labels, report = np.load(tmp_path / "labels.npy"), json.loads(out)
        np.testing.assert_array_equal(labels, expected.labels)
        assert labels.dtype == np.int64
        assert report["inside"] == pytest.approx(expected.inside, rel=1e-5)
        assert report["objective"] == pytest.approx(expected.objective, rel=1e-5)
        assert (report["n"], report["d"], report["n_clusters"]) == (60, 6, expected.n_clusters)
        assert (report["threshold"], report["device"]) == (0.4, "cpu")
        metric, center = arguments.get("metric", "cosine"), "center" in arguments
        assert (report["metric"], report["center"]) == (metric, center)
        assert report["move_optimal"]
        assert report["join_optimal"]


@pytest.mark.parametrize("per_item", [False, True])
def test_an_alpha_instead_of_a_threshold(run, folder, per_item):
    alpha = np.linspace(0.5, 0.7, 60) if per_item else 0.6
    np.save("alpha.npy", alpha)
    option = "alpha.npy" if per_item else alpha
    code, _, err = run("cluster", "data", "--alpha", option, "--memory-limit", LIMIT, "-o", "l.npy")
    assert (code, err) == (0, "")
    np.testing.assert_array_equal(np.load("l.npy"), in_memory(folder, None, alpha=alpha).labels)


def test_a_folder_of_labels_has_one_file_for_each_of_the_features(run, folder, tmp_path):
    expected = in_memory(folder).labels
    code, _, err = run(*SHARDED, "-o", "labels")
    assert (code, err) == (0, "")
    found = {path.name: parquet.read_table(path) for path in (tmp_path / "labels").iterdir()}
    assert sorted(found) == ["a.npy.parquet", "b.parquet", "c.npy.parquet"]
    assert found["b.parquet"].column_names == ["label"]
    for name, part in (("a.npy", slice(0, 25)), ("b", slice(25, 31)), ("c.npy", slice(31, 60))):
        assert found[f"{name}.parquet"]["label"].to_pylist() == expected[part].tolist()
    assert names_in(tmp_path) == ["all.npy", "data", "labels"]


@pytest.mark.parametrize("output", ["labels.csv", "labels.parquet", "folder"])
def test_a_folder_within_the_memory_limit_is_read_at_once(run, folder, tmp_path, output):
    expected = in_memory(folder, limit=None).labels
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


def test_algorithms_without_shards_read_a_folder_at_once(run, folder):
    code, out, err = run(*SHARDED, "-a", "dlaec", "--json")
    assert (code, err) == (0, "")
    expected = in_memory(folder, limit=None, algorithm="dlaec")
    assert json.loads(out)["objective"] == pytest.approx(expected.objective)


def test_a_single_table_is_read_in_parts(run, folder, tmp_path):
    tables.write(tmp_path / "x.parquet", "features", folder)
    run("cluster", "x.parquet", "-t", 0.4, "--memory-limit", LIMIT, "-o", "l.npy")
    np.testing.assert_array_equal(np.load("l.npy"), in_memory(folder).labels)


def test_the_output_says_that_the_run_stopped_early(run, folder):
    code, out, err = run(*SHARDED, "--time-limit", 0)
    assert (code, err) == (0, "")
    assert "stopped early" in out
    assert not json.loads(run(*SHARDED, "--time-limit", 0, "--json")[1])["move_optimal"]


@pytest.mark.parametrize("text", ["600kB", "600000B", "0.0006 GB", str(600_000 / 2**30)])
def test_a_memory_limit_may_have_a_unit(run, rng, tmp_path, monkeypatch, text):
    """With shards of their default size; a number without a unit is in GiB."""
    monkeypatch.undo()
    X, _ = mixture(rng, 1500, 6, d=6, noise=0.4)
    (tmp_path / "folder").mkdir()
    for at, part in enumerate(np.split(X, 3)):
        np.save(tmp_path / "folder" / f"{at}.npy", part)
    command = ("cluster", tmp_path / "folder", "-t", 0.4, "-o", tmp_path / "labels.npy")
    code, _, err = run(*command, "--memory-limit", text)
    assert (code, err) == (0, "")
    expected = dense_multicut(X, 0.4, memory_limit=600_000)
    assert expected.trace[0].name == "shards"
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), expected.labels)


def test_a_run_with_a_checkpoint_continues(run, folder, tmp_path, monkeypatch):
    """After Ctrl-C, the same command again; with other options it says what differs."""
    command = (*SHARDED, "--checkpoint", "c", "-o", "l.npy")
    sizes, solve = [], tasks._solve

    def counted(problem):
        sizes.append(problem.n)
        return solve(problem)

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tasks, "solve_pool", interrupt)
        code, out, err = run(*command)
    assert (code, out, err) == (
        130,
        "",
        "clusterfug: interrupted; every output is complete or not written\n",
    )
    assert not (tmp_path / "l.npy").exists()
    done = sum(name.startswith("shard-") for name in names_in(tmp_path / "c"))
    assert done > 1
    monkeypatch.setattr(tasks, "_solve", counted)
    code, _, err = run(*command)
    assert (code, err) == (0, "")
    rest = list(sizes)
    sizes.clear()
    run(*SHARDED, "--checkpoint", "d")
    assert rest == sizes[done:]
    np.testing.assert_array_equal(np.load("l.npy"), in_memory(folder).labels)
    for changed, which in (
        (("-t", 0.5), "costs"),
        (("--center",), "center"),
        (("--metric", "inner_product"), "metric"),
        (("-a", "fast"), "algorithm"),
    ):
        code, out, err = run(*command, *changed)
        assert (code, out) == (2, "")
        assert err == (
            f"clusterfug: error: c is the checkpoint of another run (other {which}): give what that run "
            "was given, or another folder\n"
        )


LIMITED = ("cluster", "data", "--memory-limit", LIMIT)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*SHARDED, "--bound"), "shards have no bound: leave it out"),
        ((*LIMITED, "--n-clusters", 4), "give a number as threshold"),
        ((*LIMITED, "--thresholds", "0.2:0.8:3"), "shards do not go with --thresholds"),
        ((*SHARDED, "--plot", "p.png"), "--plot goes with --thresholds"),
        (LIMITED, "give a number as threshold (what is selected for a sample, say)"),
        ((*LIMITED, "-t", "local"), "give a number as threshold"),
        (("cluster", "data", "--checkpoint", "c"), "give a number as threshold"),
        (("cluster", "all.npy", "--checkpoint", "c"), "give a number as threshold"),
        (("cluster", "data", "-t", "local", "--checkpoint", "c"), "a local threshold looks at"),
        (("cluster", "data", "-t", 0.4, "-a", "best", "--checkpoint", "c"), "not best"),
        (("cluster", "data", "-t", 0.4, "--bound", "--checkpoint", "c"), "shards have no bound"),
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
        ((*SHARDED, "-o", "labels.txt"), "must end in .npy"),
        (("cluster", "all.npy", "-t", 0.4, "--memory-limit", LIMIT, "-o", "labels"), "must end in .npy"),
        (("cluster", "all.npy", "-t", 0.4, "--memory-limit", LIMIT, "-o", "all.npy"), "it is an input"),
        ((*SHARDED, "--weights", "few.npy"), "one number per item, shape (60,), not (3,)"),
        ((*SHARDED, "--init", "few.npy"), "init must have one entry per item"),
        ((*SHARDED, "--alpha", 0.3), "give --threshold or --alpha, not both"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_wrong_command_is_a_one_line_error_and_writes_nothing(run, folder, tmp_path, arguments, message):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.csv").write_text("1,2\n3,4\n")
    np.save(tmp_path / "few.npy", np.arange(3))
    before = names_in(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("clusterfug: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert names_in(tmp_path) == before


@pytest.mark.parametrize("options", [(), ("--center",), ("--checkpoint", "c")])
def test_a_file_that_is_not_finite_is_named(run, folder, tmp_path, options):
    folder[40, 3] = np.nan
    np.save(tmp_path / "data" / "c.npy", folder[31:])
    code, out, err = run(*SHARDED, *options, "-o", "l.npy")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "c.npy" in err
    assert "is not finite: NaN" in err
    assert not (tmp_path / "l.npy").exists()


@pytest.mark.parametrize("output", ["data/a.npy", "data/labels.npy", "data/deeper.parquet", "data/labels"])
def test_labels_are_not_written_among_the_features(run, folder, tmp_path, output):
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()}
    code, out, err = run(*SHARDED, "-o", output)
    assert (code, out) == (2, "")
    assert (
        err == f"clusterfug: error: cannot write {output}: it would be among the features; "
        "write it elsewhere\n"
    )
    assert {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir()} == before


def test_a_file_that_is_added_during_the_run_has_no_labels(run, folder, tmp_path, monkeypatch):
    solve = core.solve

    def meanwhile(*arguments, **options):
        result = solve(*arguments, **options)
        np.save(tmp_path / "data" / "0.npy", folder[:3])
        return result

    monkeypatch.setattr(core, "solve", meanwhile)
    code, _, err = run(*SHARDED, "-o", "labels")
    assert (code, err) == (0, "")
    assert names_in(tmp_path / "labels") == ["a.npy.parquet", "b.parquet", "c.npy.parquet"]
    assert len(parquet.read_table(tmp_path / "labels" / "a.npy.parquet")) == 25
