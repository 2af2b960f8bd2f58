"""The two text formats of the multicut literature."""

import numpy as np
import pytest

from clusterfug.io.files import Features, read, write_instance

HEAD = "FACTORIZED COMPLETE MULTICUT\n0.4\n2 2\n"


def test_the_formats_by_hand(tmp_path):
    path = tmp_path / "instance"  # published files have no particular ending
    path.write_text("FACTORIZED COMPLETE MULTICUT\n0.4\n2 3\n1 2 3\n4 5.5 -6e-1\n\n")
    features = read(path)
    np.testing.assert_array_equal(features.array, np.array([[1, 2, 3], [4, 5.5, -0.6]], dtype=np.float32))
    assert features.threshold == 0.4
    path.write_text("MULTICUT\n0 1 2.5\n2 1 -1\n1 0 1\n")
    graph = read(path)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.costs.tolist() == [3.5, -1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FACTORIZED COMPLETE MULTICUT\n", "line 2: expected the number to subtract, found ''"),
        ("FACTORIZED COMPLETE MULTICUT\nx\n2 2\n", "line 2: expected the number to subtract, found 'x'"),
        ("FACTORIZED COMPLETE MULTICUT\n0.4\n2\n", "line 3: expected the two sizes n and d, found '2'"),
        ("FACTORIZED COMPLETE MULTICUT\n0.4\n2 2.5\n", "line 3: expected the two sizes"),
        ("FACTORIZED COMPLETE MULTICUT\n0.4\n0 2\n", "line 3: n and d must be at least 1, not 0 and 2"),
        (HEAD + "1 2\n", "ends after line 4: 1 of the 2 rows that line 3 announces"),
        (HEAD, "ends after line 3: 0 of the 2 rows"),
        (HEAD + "1 2\n3 4\n5 6\n", "line 6: more than the 2 rows that line 3 announces"),
        (HEAD + "1 2\n3\n", "line 5: 1 numbers where 2 are expected"),
        (HEAD + "1 2 3\n3 4 5\n", "line 4: 3 numbers where 2 are expected"),
        (HEAD + "1 2\n3 four\n", "line 5: 'four' is not a number"),
        (HEAD + "1 2\n3 1_0\n", "line 5: '1_0' is not a number"),
        ("MULTICUT\n0 1\n", "line 2: 2 numbers where 3 are expected"),
        ("MULTICUT\n0 1 x\n", "line 2: 'x' is not a number"),
        ("MULTICUT\n0 1 1\n0 1.5 1\n", "edge 2: nodes are whole numbers from 0, not 0 1.5"),
        ("MULTICUT\n0 -1 1\n", "edge 1: nodes are whole numbers"),
        ("MULTICUT\n", "holds no numbers"),
        ("something else", "has an unknown format"),
        ("", "has an unknown format"),
    ],
)
def test_broken_text_is_named_by_line(assert_fault_is_named, text, message):
    assert_fault_is_named("x.txt", text, message)


def test_whole_numbers_survive_as_text(tmp_path):
    X = np.array([[404551839821528, -7]])
    write_instance(tmp_path / "x.csv", Features(X), 0.0)
    np.testing.assert_array_equal(read(tmp_path / "x.csv", np.float64).array, X)
