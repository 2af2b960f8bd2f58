"""clusterfug bound: a lower bound, its certificate, and how far labels are from it."""

import numpy as np
import pytest


def test_a_certificate_is_written_and_checked(run, report, features, tmp_path):
    path, labels, bound = features[0], tmp_path / "l.npy", tmp_path / "b.npz"
    run("cluster", path, "-o", labels)
    found = report("bound", path, "--labels", labels, "-o", bound)
    assert found["bound"] <= found["objective"]
    assert found["gap"] == pytest.approx((found["objective"] - found["bound"]) / -found["bound"], abs=1e-9)
    assert found["method"] == "triangles"
    assert found["output"] == str(bound)
    assert not found["verified"]
    again = report("bound", path, "--labels", labels, "--check", bound)
    assert again["verified"]
    assert (again["bound"], again["gap"]) == (found["bound"], found["gap"])
    code, out, err = run("bound", path, "-t", 0.5, "--check", bound)
    assert (code, out) == (2, "")
    assert "does not prove its bound" in err
    _, out, _ = run("bound", path, "--check", bound)  # selects the same costs as cluster
    assert "the certificate adds up" in out
    _, out, _ = run("bound", path, "--labels", labels)
    assert "of the bound" in out
    assert "-o bound.npz writes it" in out
    trivial = report("bound", path, "--labels", labels, "--method", "trivial")
    assert trivial["bound"] <= found["bound"]


def test_the_bound_of_a_graph(run, tmp_path):
    (tmp_path / "graph.txt").write_text("MULTICUT\n0 1 2\n1 2 2\n0 2 -1\n")
    code, out, err = run("bound", tmp_path / "graph.txt")
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert float(lines["bound"]) == 0
    _, out, _ = run("cluster", tmp_path / "graph.txt", "--bound")
    assert "proven optimal" in out


def test_a_bound_knows_alpha_and_weights_and_json_no_infinity(report, features, tmp_path):
    path, _ = features
    np.save(tmp_path / "w.npy", np.arange(40) % 3 + 1)
    np.save(tmp_path / "alone.npy", np.arange(40))
    options = ("--alpha", 0.7, "--weights", tmp_path / "w.npy")
    clustered = report("cluster", path, *options, "--bound")
    found = report("bound", path, *options, "--labels", tmp_path / "alone.npy")
    assert found["bound"] == clustered["lower_bound"]
    assert found["inside"] == 0
    assert found["gap_inside"] is None


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("x.npy --time-limit -1", "--time-limit"),
        ("x.npy --memory-limit 0", "--memory-limit"),
        ("x.npy -o b.npy", "its name must end in .npz"),
        ("x.npy -o no/b.npz", "the folder no does not exist"),
        ("x.npy -o b.npz --check c.npz", "--output does not go with --check"),
        ("x.npy --check x.npy --method trivial", "--method does not go with --check"),
        ("x.npy --check x.npy --device cuda", "--device does not go with --check"),
        ("x.npy -t 0.4 --check x.npy", "x.npy is no file of a lower bound"),
        ("x.npy --check no.npz", "no.npz does not exist"),
        ("x.npy --labels flat.npy", "flat.npy has 3 items, but x.npy has 4"),
        ("x.npy --labels halves.npy", "halves.npy must hold whole numbers"),
        ("x.npy -t 1 --alpha 1", "not both"),
        ("graph.txt --labels flat.npy", "flat.npy has 3 items, but graph.txt has 2"),
        ("graph.txt --memory-limit 1", "--memory-limit goes with features, but graph.txt holds a graph"),
        ("graph.txt --threshold 1", "--threshold goes with features, but graph.txt holds a graph"),
        ("graph.txt --device cuda", "--device goes with features, but graph.txt holds a graph"),
    ],
)
def test_bad_input_is_one_line(assert_fails, command, message):
    assert_fails(f"bound {command}", message)
