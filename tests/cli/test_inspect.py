"""clusterfug inspect prints what `report.inspection` finds."""

import pytest


def test_the_table_and_the_object(run, report, features):
    path, _ = features
    found = report("inspect", path)
    assert (found["n"], found["pairs"], found["metric"]) == (40, 780, "cosine")
    assert list(found["attracting"]) == [f"{t / 10}" for t in range(1, 10)]
    code, out, _ = run("inspect", path, "--center", "--metric", "inner_product")
    assert code == 0
    assert "centred inner products of 780 pairs" in out
    assert "share of pairs that attract" in out


def test_a_text_file_is_inspected_by_inner_products(report, tmp_path):
    (tmp_path / "x.txt").write_text("FACTORIZED COMPLETE MULTICUT\n0.5\n2 1\n2\n3\n")
    found = report("inspect", tmp_path / "x.txt")
    assert (found["metric"], found["quantiles"]["0.5"]) == ("inner_product", 6.0)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("graph.txt", "graph.txt holds a graph, not features"),
        ("nan.npy", "not finite: NaN in row 3"),
        ("x.npy --seed -1", "seed must be at least 0"),
    ],
)
def test_bad_input_is_one_line(assert_fails, command, message):
    assert_fails(f"inspect {command}", message)
