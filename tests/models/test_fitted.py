"""Labels of fitted rows: the same as a dictionary of rows gives."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from clusterfug.models.fitted import FittedRows, digests_of


def labels_by_dictionary(X, labels, new):
    """The i-th copy of a row has the label of the i-th copy in X, or of the last one; others have -1."""
    copies = {}
    for row, label in zip(X.tolist(), labels.tolist(), strict=True):
        copies.setdefault(tuple(row), []).append(label)
    found = []
    for row in new.tolist():
        of_row = copies.get(tuple(row), [-1])
        found.append(of_row.pop(0) if len(of_row) > 1 else of_row[0])
    return found


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 20), m=st.integers(1, 20), d=st.integers(1, 3))
def test_rows_are_found_as_in_a_dictionary(seed, n, m, d):
    rng = np.random.default_rng(seed)
    X, new = rng.integers(-1, 2, size=(n, d)) / 2, rng.integers(-1, 2, size=(m, d)) / 2
    labels = rng.integers(5, size=n)
    assert FittedRows(X, labels).labels_of(new).tolist() == labels_by_dictionary(X, labels, new)


def test_equal_numbers_are_equal_rows_in_any_array(rng):
    X = rng.integers(-9, 9, size=(50, 4))
    expected = digests_of(X.astype(np.float64))
    for same in (X, X.astype(np.float16), X.astype(np.float32), np.asfortranarray(X), X.astype(">f8")):
        np.testing.assert_array_equal(digests_of(same), expected)
    assert digests_of(np.array([[0.0]])) == digests_of(np.array([[-0.0]]))
    assert digests_of(np.array([[0.1]])) != digests_of(np.array([[0.1]], dtype=np.float32))


def test_different_rows_have_different_digests(rng):
    small = rng.integers(0, 4, size=(100_000, 8))
    large = rng.normal(size=(100_000, 2)).astype(np.float32) * 1e30
    for rows in (small, large, np.arange(100_000.0)[:, None], np.eye(500)):
        assert len(np.unique(digests_of(rows))) == len(np.unique(rows, axis=0))


def test_rows_are_digested_in_blocks(rng, monkeypatch):
    X = rng.normal(size=(50, 4))
    expected = digests_of(X)
    monkeypatch.setattr("clusterfug.models.fitted._BLOCK_ENTRIES", 30)
    np.testing.assert_array_equal(digests_of(X), expected)
