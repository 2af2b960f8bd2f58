"""clusterfug cluster --thresholds: a table to choose from."""

import pytest

from clusterfug import dense_multicut


def test_a_range_of_thresholds_is_a_table_and_a_picture(run, report, features, tmp_path):
    pytest.importorskip("matplotlib")
    path, X = features
    code, out, err = run("cluster", path, "--thresholds", "0.2:0.8:3", "--plot", tmp_path / "p.png")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["threshold", "clusters", "largest", "alone", "inside", "agreement"]
    assert [line.split()[0] for line in lines[1:4]] == ["0.2", "0.5", "0.8"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    found = report("cluster", path, "--thresholds", "0.5:0.5:1")
    assert (found["n"], found["d"], found["plot"]) == (40, 3, None)
    [row] = found["thresholds"]
    assert row["n_clusters"] == dense_multicut(X, 0.5).n_clusters
    assert row["agreement"] is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["p.png", "x.npy"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("0.2:0.8", "FIRST:LAST:COUNT (0.2:0.8:7), not '0.2:0.8'"),
        ("0:nan:3", "must name 1 to 1,000 finite numbers"),
        ("0:inf:3", "must name 1 to 1,000 finite numbers"),
        ("-1e308:1e308:3", "must name 1 to 1,000 finite numbers"),
        ("0:1:1000000000000000", "must name 1 to 1,000 finite numbers"),
        ("0:1:3 -t 1", "--threshold does not go with --thresholds"),
        ("0:1:3 -o l.npy", "--output does not go with --thresholds"),
        ("0:1:2 --bound", "--bound does not go with --thresholds"),
        ("0:1:2 --init labels.npy", "--init does not go with --thresholds"),
        ("0:1:2 --checkpoint c", "--checkpoint does not go with --thresholds"),
        ("0:1:3 --plot p.pdf", "must end in .png"),
        ("0:1:3 --memory-limit 1kB", "--memory-limit is exceeded: shards do not go with --thresholds"),
    ],
)
def test_what_does_not_go_with_a_table_is_one_line(assert_fails, options, message):
    assert_fails(f"cluster x.npy --thresholds {options}", message)


def test_a_graph_has_no_thresholds(assert_fails):
    assert_fails("cluster graph.txt --thresholds 0:1:3", "--thresholds goes with features")
