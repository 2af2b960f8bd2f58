"""clusterfug convert: the same numbers in every format."""

import numpy as np
import pytest


def test_features_survive_a_chain_of_formats(run, features, tmp_path):
    path, X = features
    previous = path
    for ending in (".txt", ".csv", ".parquet", ".h5", ".npz", ".npy"):
        target = tmp_path / f"y{ending}"
        code, out, err = run("convert", previous, target)
        assert (code, out, err) == (0, f"{target}: 40 x 3 float32\n", "")
        previous = target
    assert np.load(previous).tobytes() == X.tobytes()
    run("convert", path, tmp_path / "half.npy", "--dtype", "float16")
    assert np.load(tmp_path / "half.npy").dtype == np.float16
    np.save(path, X.astype(np.float64) + 1e-12)
    run("convert", path, tmp_path / "double.csv")
    run("convert", tmp_path / "double.csv", tmp_path / "double.npy", "--dtype", "float64")
    assert np.load(tmp_path / "double.npy").tobytes() == np.load(path).tobytes()


def test_a_text_file_keeps_its_threshold_and_a_graph_its_edges(run, tmp_path):
    (tmp_path / "x.txt").write_text("FACTORIZED COMPLETE MULTICUT\n0.125\n1 2\n1 2\n")
    run("convert", tmp_path / "x.txt", tmp_path / "y.txt")
    assert (tmp_path / "y.txt").read_text() == (tmp_path / "x.txt").read_text()
    (tmp_path / "g.txt").write_text("MULTICUT\n0 1 0.1\n1 2 -3.0\n")
    code, out, _ = run("convert", tmp_path / "g.txt", tmp_path / "g.npz")
    assert (code, out) == (0, f"{tmp_path / 'g.npz'}: 3 nodes, 2 edges\n")
    run("convert", tmp_path / "g.npz", tmp_path / "h.txt")
    assert (tmp_path / "h.txt").read_text() == (tmp_path / "g.txt").read_text()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("x.npy y.doc", "must end in .npy, .npz, .h5, .hdf5, .csv, .parquet, .txt"),
        ("nan.npy y.txt", "not finite: NaN in row 3"),
        ("graph.txt y.npy", "must end in .txt, .npz"),
        ("graph.txt y.txt -t 1", "--threshold goes with features; graph.txt holds a graph"),
        ("graph.txt y.txt --dtype float32", "--dtype goes with features; graph.txt holds a graph"),
        ("x.npy y.csv -t 1", "--threshold goes with a .txt output"),
        ("x.npy y.txt -t inf", "threshold must be a finite number"),
        ("big.npy y.npy --dtype float16", "not finite: inf in row 0"),
    ],
)
def test_bad_input_is_one_line(assert_fails, command, message):
    assert_fails(f"convert {command}", message)


def test_errors_name_the_file_and_only_options_that_were_given(run, tmp_path):
    (tmp_path / "nan.csv").write_text("1,2\nnan,3\n")
    code, _, errors = run("convert", tmp_path / "nan.csv", tmp_path / "x.npy")
    assert code == 2
    assert f"{tmp_path / 'nan.csv'} has a value that is not finite" in errors
    (tmp_path / "x.txt").write_text("FACTORIZED COMPLETE MULTICUT\nnan\n1 2\n1 2\n")
    assert run("convert", tmp_path / "x.txt", tmp_path / "x.npy")[0] == 0
    code, _, errors = run("convert", tmp_path / "x.txt", tmp_path / "y.txt")
    assert code == 2
    assert f"line 2 of {tmp_path / 'x.txt'} must be a finite number" in errors
    assert not (tmp_path / "y.txt").exists()
