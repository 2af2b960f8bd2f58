"""Bad input is an error of one line that says what to do, before any work."""

import sys

import numpy as np
import pytest
from scipy import sparse

from clusterfug import DenseProblem, Local, checks, dense_multicut, lower_bound, multicut, objective

GOOD = np.eye(4)


def bad(value, row=2):
    X = np.eye(4)
    X[row, 1] = value
    return X


@pytest.mark.parametrize(
    ("X", "options", "error", "message"),
    [
        (bad(np.nan), {}, ValueError, "not finite: NaN in row 2, column 1"),
        (bad(np.inf), {}, ValueError, "not finite: inf in row 2"),
        (bad(-np.inf, row=0), {}, ValueError, "not finite: -inf in row 0"),
        (bad(1e200), {}, ValueError, "too large to square: 1e.200 in row 2"),
        (bad(np.nan).astype(np.float32), {}, ValueError, "not finite: NaN in row 2, column 1"),
        (np.ma.masked_invalid(bad(np.nan)), {}, TypeError, "masked array"),
        (
            GOOD * 1e149,
            {"threshold": 0.4, "metric": "inner_product", "sample_weight": [1e10] * 4},
            ValueError,
            "too large: costs leave the range",
        ),
        (np.empty((0, 3)), {}, ValueError, "no rows"),
        (np.empty((3, 0)), {}, ValueError, "no columns"),
        (np.ones(4), {}, ValueError, "2-D, one row per item, not 1-D"),
        (np.ones((2, 2, 2)), {}, ValueError, "not 3-D"),
        (np.array([["a", "b"]]), {}, TypeError, "real numbers, not <U1"),
        (np.eye(3) * 1j, {}, TypeError, "real numbers, not complex128"),
        (np.array([[None, 1]]), {}, TypeError, "real numbers, not object"),
        (sparse.eye(3), {}, TypeError, "sparse matrix: convert it"),
        (GOOD, {"threshold": np.nan}, ValueError, "threshold must be a finite number, not nan"),
        (GOOD, {"threshold": np.inf}, ValueError, "threshold must be a finite number"),
        (GOOD, {"threshold": 2**2000}, ValueError, "threshold must be a finite number"),
        (GOOD, {"time_limit": np.ones(4)}, TypeError, "time_limit must be a number, not array"),
        (GOOD, {"time_limit": sparse.eye(3)}, TypeError, "time_limit must be a number, not <"),
        (GOOD, {"time_limit": -1}, ValueError, "time_limit must be at least 0, not -1"),
        (
            GOOD,
            {"threshold": "x"},
            ValueError,
            'must be a number or one of "local", "auto", "neighbours", not \'x\'',
        ),
        (GOOD, {"threshold": [0.4]}, TypeError, "threshold must be a number"),
        (GOOD, {"threshold": True}, TypeError, "threshold must be a number"),
        (GOOD, {"prefer": "large"}, ValueError, "goes with alpha"),
        (GOOD, {"prefer": "big"}, ValueError, "unknown prefer 'big': choose one of small, large"),
        (GOOD, {"alpha": -0.1}, ValueError, "alpha must be at least 0, not -0.1"),
        (GOOD, {"alpha": np.nan}, ValueError, "alpha must be a finite number"),
        (GOOD, {"alpha": [1, -0.1, 1, 1]}, ValueError, "finite and not negative: -0.1 at item 1"),
        (GOOD, {"alpha": [1, 1, np.nan, 1]}, ValueError, "nan at item 2"),
        (GOOD, {"alpha": [1, 1, 1]}, ValueError, r"alpha must have one number per item, shape \(4,\)"),
        (GOOD, {"alpha": "x"}, TypeError, "alpha must hold real numbers"),
        (
            GOOD,
            {"sample_weight": [1, 1, -1, 1]},
            ValueError,
            "sample_weight .* not negative: -1.0 at item 2",
        ),
        (GOOD, {"sample_weight": [1, np.inf, 1, 1]}, ValueError, "inf at item 1"),
        (GOOD, {"sample_weight": np.ones(5)}, ValueError, "sample_weight must have one number per item"),
        (GOOD, {"sample_weight": np.zeros(4)}, ValueError, "zero everywhere"),
        (GOOD, {"metric": "euclid"}, ValueError, "unknown metric 'euclid': choose one of cosine"),
        (GOOD, {"center": 1}, TypeError, "center must be True or False"),
        (GOOD, {"k": 0, "algorithm": "dgaec"}, ValueError, "k must be at least 1, not 0"),
        (GOOD, {"k": 1.5, "algorithm": "dgaec"}, TypeError, "k must be a whole number"),
        (GOOD, {"k": 2, "algorithm": "gaec"}, ValueError, "k goes with .*, not with gaec"),
        (GOOD, {"speed": 2}, TypeError, "speed is no option of any algorithm"),
        (
            GOOD,
            {"algorithm": "gaek"},
            ValueError,
            "unknown algorithm 'gaek'.*auto, fast, best, exact, gaec, dgaec, dgaec-inc, dlaec, dapplaec",
        ),
        (GOOD, {"algorithm": None}, ValueError, "unknown algorithm None"),
        (GOOD, {"algorithm": []}, ValueError, r"unknown algorithm \[\]: choose one of auto"),
        (
            GOOD,
            {"threshold": np.ones((9, 9))},
            TypeError,
            r"threshold must be a number, not array\(\[\[1\..*\.\.\.$",
        ),
        ([[1.0, 2.0], [3.0]], {}, ValueError, "X has rows of different lengths"),
        (GOOD, {"memory_limit": 0}, ValueError, "memory_limit must be at least 1"),
    ],
)
def test_bad_features_and_options_are_one_line(X, options, error, message):
    with pytest.raises(error, match=message) as caught:
        dense_multicut(X, **options)
    assert "\n" not in str(caught.value)


def test_the_bad_row_is_found_in_a_later_block(monkeypatch):
    monkeypatch.setattr("clusterfug.checks._BLOCK_BYTES", 64)
    with pytest.raises(ValueError, match="row 3, column 1"):
        dense_multicut(bad(np.nan, row=3))


EDGES, COSTS = [[0, 1], [1, 2]], [1.0, -1.0]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([[0, 1], [1, 1]], COSTS), ValueError, "edge 1 joins node 1 to itself"),
        (([[0, 1], [1, -2]], COSTS), ValueError, "edge 1 names a negative node: -2"),
        ((EDGES, COSTS, 2), ValueError, r"edge 1 names node 2, but the graph has nodes 0\.\.1"),
        ((EDGES, [1.0]), ValueError, r"costs must have one number per edge, shape \(2,\)"),
        ((EDGES, [1.0, np.nan]), ValueError, "finite numbers: nan at edge 1"),
        ((EDGES, ["a", "b"]), TypeError, "costs must hold real numbers"),
        (([[0.5, 1.0]], [1.0]), TypeError, "edges must be integers, not float64"),
        (([[0, 1, 2]], [1.0]), ValueError, r"edges must have shape \(m, 2\), not \(1, 3\)"),
        ((EDGES,), ValueError, "costs are missing"),
        ((np.eye(3),), ValueError, "use DenseProblem.from_costs"),
        ((np.empty((0, 2), dtype=int), []), ValueError, "no edges: give its number of nodes"),
        ((EDGES, COSTS, 0), ValueError, "n_nodes must be at least 1"),
        ((EDGES, COSTS, 2**31), ValueError, "at most 2147483647 nodes and"),
        ((sparse.csr_array([[0, 1.0], [2.0, 0]]),), ValueError, r"entries \(0, 1\) and \(1, 0\) differ"),
        ((sparse.csr_array([[1.0, 0], [0, 0]]),), ValueError, r"self-loop: entry \(0, 0\)"),
        ((sparse.csr_array(np.ones((2, 3))),), ValueError, r"square, not \(2, 3\)"),
        ((sparse.coo_array([1.0, 2.0]),), ValueError, r"square, not \(2,\)"),
        ((sparse.csr_array([[0, np.nan], [np.nan, 0]]),), ValueError, "finite numbers: nan"),
        ((sparse.csr_array([[0, 1j], [0, 0]]),), TypeError, "real numbers, not complex128"),
        ((sparse.csr_array((2, 2)), [1.0]), ValueError, "leave out costs and n_nodes"),
    ],
)
def test_bad_graphs_are_one_line(arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        multicut(*arguments)
    assert "\n" not in str(caught.value)


def test_an_algorithm_that_does_not_solve_graphs_is_an_error():
    with pytest.raises(
        ValueError, match="a graph problem is solved by auto, fast, best, exact, gaec, not by dgaec"
    ):
        multicut(EDGES, COSTS, algorithm="dgaec")


def test_labels_are_one_integer_per_item():
    with pytest.raises(ValueError, match=r"labels must have one entry per item, shape \(4,\)"):
        objective(GOOD, [0, 1], 0.4)
    with pytest.raises(TypeError, match="labels must be integers"):
        objective(GOOD, [0.0, 1, 2, 3], 0.4)


def test_a_signature_is_plus_or_minus_one():
    with pytest.raises(ValueError, match=r"signature must be 4 numbers, each \+1 or -1"):
        DenseProblem(GOOD, 0.4, signature=[1, 1, 0, 1])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (600, 600),
        (np.int64(7), 7),
        ("600MB", 600_000_000),
        ("2 GiB", 2**31),
        ("1.5kb", 1500),
        (".5 gb", 500_000_000),
        (" 1kB ", 1000),
        ("3KiB", 3072),
        ("7b", 7),
        ("1tb", 10**12),
        ("1TiB", 2**40),
        ("1.5MiB", 3 * 2**19),
        ("99999999999TB", sys.maxsize),
    ],
)
def test_memory_is_bytes_or_a_text(value, expected):
    assert checks.memory("memory_limit", value) == expected


@pytest.mark.parametrize(
    "value",
    [
        *("", "600", "MB", "2 parsecs", "-1MB", "0.1B", "0MB", "1e3MB", "2GB!", "1,5GB", "GiB2", "1..5GB"),
        *("9" * 400 + "GB", 0, -5, 1.5, None, True, [1]),
    ],
)
def test_bad_memory_is_named(value):
    with pytest.raises((ValueError, TypeError), match="memory_limit must be") as error:
        checks.memory("memory_limit", value)
    assert "\n" not in str(error.value)


def test_counts_beyond_what_a_machine_addresses_do_not_overflow(rng):
    X = rng.normal(size=(9, 3))
    costs = Local(0.5, n_neighbors=2**2000)
    assert costs.n_neighbors == sys.maxsize
    expected = dense_multicut(X, Local(0.5, n_neighbors=9)).labels
    np.testing.assert_array_equal(dense_multicut(X, costs).labels, expected)
    huge = lower_bound(X, 0.4, memory_limit=2**2000)
    assert huge.value == lower_bound(X, 0.4, memory_limit="1GB").value


@pytest.mark.parametrize("value", [0, (3, 2), (1, 2, 3), 1.5, "few", (1, None)])
def test_a_number_range_is_a_number_or_low_and_high(value):
    assert checks.number_range("n_clusters", 4) == (4, 4)
    assert checks.number_range("n_clusters", [2, 5]) == (2, 5)
    with pytest.raises((ValueError, TypeError), match="n_clusters must be"):
        checks.number_range("n_clusters", value)


def test_random_states_of_all_kinds_are_generators():
    expected = np.random.default_rng(3).random()
    assert checks.generator("random_state", 3).random() == expected
    generator = np.random.default_rng(3)
    assert checks.generator("random_state", generator) is generator
    assert (
        checks.generator("random_state", None).random() != checks.generator("random_state", None).random()
    )
    legacy = [checks.generator("random_state", np.random.RandomState(5)).random() for _ in range(2)]
    assert legacy[0] == legacy[1]


@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "bool"]
)
def test_features_are_float32_where_that_is_exact(dtype):
    X = np.eye(3).astype(dtype)
    converted = checks.features(X)
    assert converted.dtype == (np.float64 if dtype in ("float64", "int32", "int64") else np.float32)
    np.testing.assert_array_equal(converted, np.eye(3))
    assert np.shares_memory(converted, X) == (dtype in ("float32", "float64"))


def test_masked_and_uneven_labels_are_refused():
    with pytest.raises(TypeError, match="labels is a masked array"):
        objective(GOOD, np.ma.masked_array(range(4), [0, 1, 0, 0]), 0.4)
    with pytest.raises(ValueError, match="labels has rows of different lengths"):
        objective(GOOD, [[0, 1], [2]], 0.4)


def test_errors_show_values_as_their_objects_describe_them():
    class Closed:
        def __array__(self, dtype=None, copy=None):
            raise ValueError("the file is closed")

    with pytest.raises(ValueError, match="cannot be read as an array: 'the file is closed'"):
        checks.numeric("X", Closed())
