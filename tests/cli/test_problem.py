"""cluster, evaluate and bound speak of the same problem: label files carry the settings."""

import json

import numpy as np
import pytest

from clusterfug import objective
from clusterfug.io.labels import read_labels, write_labels

ENDINGS = (".npy", ".npz", ".csv", ".parquet")
SELF_CONTAINED = (".npz", ".parquet")


@pytest.fixture(params=ENDINGS)
def labels(request, tmp_path):
    """A path for labels in every format."""
    if request.param == ".parquet":
        pytest.importorskip("pyarrow")
    return tmp_path / f"l{request.param}"


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--threshold 0.3",
        "--threshold -0.1",
        "--n-clusters 5",
        "--n-clusters 3:6",
        "--strictness 0.8",
        "--strictness 0.8 --n-neighbors 7",
        "--n-neighbors 9",
        "--alpha 0.5",
        "--alpha 0.5 --prefer large",
        "--center",
        "--metric inner_product",
        "--threshold 0.3 --metric inner_product --center",
        "--threshold 0.3 -a gaec",
    ],
)
def test_labels_are_costed_with_the_settings_they_were_solved_with(report, features, labels, options):
    path, _ = features
    clustered = report("cluster", path, *options.split(), "-o", labels)
    evaluated = report("evaluate", labels, "--features", path)
    bounded = report("bound", path, "--labels", labels, "--method", "trivial")
    for found in (evaluated, bounded):
        for name in ("objective", "inside"):  # joined clusters are costed by sums in another order
            rounding = 1e-12 if "--n-clusters" in options else 0.0
            assert found[name] == pytest.approx(clustered[name], rel=rounding, abs=0.0)
    assert bounded["bound"] <= clustered["objective"]
    for name in ("n_clusters", "metric", "center"):
        assert evaluated[name] == clustered[name]
    for name in ("alpha", "prefer", "strictness"):
        assert evaluated.get(name) == clustered.get(name)
    assert labels.with_name(f"{labels.name}.json").exists() == (labels.suffix not in SELF_CONTAINED)


def test_a_wrong_threshold_in_a_text_file_is_one_line(assert_fails, tmp_path):
    (tmp_path / "wrong.txt").write_text("FACTORIZED COMPLETE MULTICUT\nnan\n2 1\n1\n1\n")
    assert_fails("cluster wrong.txt", "line 2 of wrong.txt must be a finite number, not nan")


def test_labels_of_a_text_file_know_its_threshold(run, report, features, labels, tmp_path):
    run("convert", features[0], tmp_path / "x.txt", "-t", 0.3)
    for options, threshold, metric in (
        ([], 0.3, "inner_product"),
        (["-t", 0.5, "--metric", "cosine"], 0.5, "cosine"),
    ):
        clustered = report("cluster", tmp_path / "x.txt", *options, "-o", labels)
        evaluated = report("evaluate", labels, "--features", tmp_path / "x.txt")
        assert (evaluated["threshold"], evaluated["metric"]) == (threshold, metric)
        assert evaluated["objective"] == clustered["objective"]
        assert (
            report("bound", tmp_path / "x.txt", "--labels", labels)["objective"] == clustered["objective"]
        )


def test_labels_of_a_graph_have_a_bound_but_no_costs_of_features(run, report, labels, tmp_path):
    (tmp_path / "g.txt").write_text("MULTICUT\n0 1 2\n1 2 -1\n2 3 1\n")
    clustered = report("cluster", tmp_path / "g.txt", "-o", labels)
    bounded = report("bound", tmp_path / "g.txt", "--labels", labels)
    assert (bounded["objective"], bounded["gap"]) == (clustered["objective"], 0.0)
    np.save(tmp_path / "x.npy", np.eye(4))
    code, out, err = run("evaluate", labels, "--features", tmp_path / "x.npy")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "the labels were solved on a graph: give that, or --threshold for features" in err
    assert report("evaluate", labels, "--features", tmp_path / "x.npy", "-t", 0.4)["threshold"] == 0.4


@pytest.mark.parametrize("option", ["--alpha", "--weights"])
def test_what_is_not_stored_has_to_be_given_again(run, report, features, labels, tmp_path, rng, option):
    path, _ = features
    np.save(tmp_path / "each.npy", rng.uniform(0.5, 1, size=40))
    again = (option, tmp_path / "each.npy")
    clustered = report("cluster", path, *again, "--metric", "inner_product", "-o", labels)
    for command in (("evaluate", labels, "--features", path), ("bound", path, "--labels", labels)):
        code, out, err = run(*command)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert f"give {option}" in err
        found = report(*command, *again)  # metric and, beside weights, costs come from the labels
        assert found["objective"] == clustered["objective"]


def test_options_replace_settings(report, features, labels):
    path, X = features
    report("cluster", path, "-t", 0.3, "--center", "-o", labels)
    y = read_labels(labels)
    for options, costs in (
        (["-t", 0.5], {"threshold": 0.5, "center": True}),
        (["--no-center"], {"threshold": 0.3}),
        (["--metric", "inner_product"], {"threshold": 0.3, "metric": "inner_product", "center": True}),
        (["--alpha", 0.6], {"alpha": 0.6, "center": True}),
        (["-t", 0.5, "--metric", "cosine"], {"threshold": 0.5, "center": True}),
    ):
        found = report("evaluate", labels, "--features", path, *options)
        assert found["objective"] == pytest.approx(objective(X, y, **costs), rel=1e-12)


@pytest.mark.parametrize("command", ["evaluate l.npy --features x.npy", "bound x.npy --labels l.npy"])
@pytest.mark.parametrize("ending", [*ENDINGS, ".txt"])
def test_labels_without_settings_ask_for_a_threshold(run, report, features, monkeypatch, command, ending):
    path, _ = features
    monkeypatch.chdir(path.parent)
    if ending == ".txt":
        np.savetxt("l.txt", np.arange(40), fmt="%d")
    else:
        write_labels(path.with_name(f"l{ending}"), np.arange(40))
    arguments = command.replace("l.npy", f"l{ending}").split()
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"l{ending} does not say which costs it was solved with: give --threshold" in err
    assert report(*arguments, "-t", "0.4")["inside"] == 0


def test_labels_that_another_program_wrote_do_not_get_old_settings(run, report, features, tmp_path):
    path, labels = features[0], tmp_path / "l.npy"
    report("cluster", path, "-o", labels)
    np.save(labels, np.arange(40))
    code, out, err = run("evaluate", labels, "--features", path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "l.npy.json belong to other labels: give --threshold or --alpha, --metric and --center" in err
    assert run("evaluate", labels)[0] == 0  # no costs, no settings
    found = report("evaluate", labels, "--features", path, "-t", 0.4, "--metric", "cosine", "--no-center")
    assert found["singletons"] == 40


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[: len(text) // 2], "they are not what clusterfug writes"),
        (lambda text: "", "they are not what clusterfug writes"),
        (lambda text: "[]", "they are not what clusterfug writes"),
        (lambda text: "3", "they are not what clusterfug writes"),
        (lambda text: "{}", "they are not what clusterfug writes"),
        (lambda text: "[" * 100_000, "they are not what clusterfug writes"),
        (lambda text: text.replace("labels 1", "labels 9"), "their format is not 'clusterfug labels 1'"),
        ({"cost_model": {"name": "magic"}}, "unknown cost model 'magic'"),
        ({"cost_model": {"name": ["x"]}}, "the costs of the labels cannot be read"),
        ({"cost_model": {"name": "threshold"}}, "the costs of the labels cannot be read"),
        ({"cost_model": {"name": "threshold", "value": "0.4"}}, "threshold must be a number, not '0.4'"),
        (
            {"cost_model": {"name": "threshold", "value": 1, "more": 2}},
            "costs of the labels cannot be read",
        ),
        ({"cost_model": {"name": "local", "n_neighbors": -3}}, "--n-neighbors must be at least 1"),
        ({"cost_model": {"name": "n_clusters", "low": "a"}}, "costs of the labels cannot be read"),
        ({"cost_model": "threshold"}, "cost_model is 'threshold'"),
        ({"metric": "euclidean"}, "unknown metric 'euclidean'"),
        ({"metric": 3}, "metric is 3"),
        ({"center": "yes"}, "center is 'yes'"),
        ({"weighted": None}, "weighted is None"),
        ({"labels": 7}, "labels is 7"),
    ],
)
def test_damaged_settings_are_one_line(run, features, tmp_path, change, message):
    path, settings = features[0], tmp_path / "l.npy.json"
    run("cluster", path, "-t", 0.4, "-o", tmp_path / "l.npy")
    text = settings.read_text()
    if isinstance(change, dict):
        settings.write_text(json.dumps(json.loads(text) | change))
    else:
        settings.write_text(change(text))
    for command in (
        ("evaluate", tmp_path / "l.npy", "--features"),
        ("bound", "--labels", tmp_path / "l.npy"),
    ):
        code, out, err = run(*command, path)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err


@pytest.mark.parametrize(
    ("options", "again"),
    [
        ("-t local --strictness 0.8 --n-neighbors 7", "--strictness 0.8"),
        ("-t local --strictness 0.8 --n-neighbors 7", "-t local --n-neighbors 7"),
        ("--alpha 0.5 --prefer large", "--alpha 0.5"),
        ("--alpha 0.5 --prefer large", "--prefer large"),
        ("--alpha each.npy --prefer large", "--alpha each.npy"),
    ],
)
def test_an_option_replaces_one_setting_and_leaves_the_others(
    report, features, labels, monkeypatch, rng, options, again
):
    monkeypatch.chdir(features[0].parent)
    np.save("each.npy", rng.uniform(0.5, 1, size=40))
    clustered = report("cluster", "x.npy", *options.split(), "--center", "-o", labels)
    for command in (("evaluate", labels, "--features", "x.npy"), ("bound", "x.npy", "--labels", labels)):
        assert report(*command, *again.split())["objective"] == clustered["objective"]


def test_labels_of_other_features_are_an_error_unless_costs_are_given(run, report, features, labels, rng):
    path, X = features
    report("cluster", path, "-t", 0.3, "-o", labels)
    other = path.with_name("other.npy")
    np.save(other, X + rng.normal(size=X.shape).astype(np.float32))
    for command in (("evaluate", labels, "--features", other), ("bound", other, "--labels", labels)):
        code, out, err = run(*command)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "was solved on other features than" in err
        assert report(*command, "-t", 0.3)["objective"] == pytest.approx(
            objective(np.load(other), read_labels(labels), 0.3)
        )


def test_labels_of_a_part_say_nothing_of_the_objective_of_all(report, features, tmp_path):
    pytest.importorskip("pyarrow")
    X = features[1]
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "parts" / "a.npy", X[:15])
    np.save(tmp_path / "parts" / "b.npy", X[15:])
    report("cluster", tmp_path / "parts", "-t", 0.3, "-o", tmp_path / "labels")
    part = tmp_path / "labels" / "a.npy.parquet"
    found = report("evaluate", part, "--features", tmp_path / "parts" / "a.npy")
    assert found["objective"] == pytest.approx(objective(X[:15], read_labels(part), 0.3))
