"""Entry points on a device: threshold paths, the estimator, segmentation and the command line."""

import sys

import numpy as np
import pytest
import torch

from clusterfug import DenseMulticut, dense_multicut, threshold_path
from clusterfug.segmentation import segment


def test_a_path_is_no_worse_than_each_threshold_alone(backend, small_blobs):
    X = torch.tensor(small_blobs, device=backend)
    thresholds = [0.1, 0.4, 0.7]
    options = {"device": backend, "precision": "exact", "metric": "inner_product"}
    alone = [dense_multicut(small_blobs, threshold, **options) for threshold in thresholds]
    for features in (small_blobs, X):
        path = threshold_path(features, thresholds, **options)
        for expected, result in zip(alone, path, strict=True):
            assert result.inside >= expected.inside
            assert result.trace[-1].passes is not None
    assert len(threshold_path(X, thresholds)) == 3


def test_the_estimator_on_a_device(backend, blobs):
    model = DenseMulticut(0.3, device=backend, precision="exact", algorithm="fast").fit(blobs)
    assert model.result_.inside >= 0.995 * dense_multicut(blobs, 0.3, algorithm="fast").inside
    assert model.result_.trace[-1].passes is not None
    assert model.get_params()["device"] == backend
    with pytest.raises(ValueError, match="unknown device"):
        DenseMulticut(device="gpu").fit(blobs)


def test_the_estimator_selects_on_a_device(backend, small_blobs, rng):
    model = DenseMulticut(device=backend, algorithm="fast").fit(small_blobs)
    host = DenseMulticut(algorithm="fast").fit(small_blobs)
    assert model.choice_.strictness == host.choice_.strictness
    assert model.result_.trace[-1].passes is not None
    assert model.predict(rng.normal(size=(20, 8))).max() < model.n_clusters_
    assert DenseMulticut(device=backend, n_clusters=9).fit(small_blobs).n_clusters_ == 9


def test_segmentation_on_a_device(backend):
    embeddings = np.zeros((2, 4, 2))
    embeddings[:, :2, 0] = embeddings[:, 2:, 1] = 1
    found = segment(embeddings, np.ones((2, 4), dtype=int), things=[1], device=backend)
    assert found.instance.tolist() == [[1, 1, 2, 2]] * 2


@pytest.fixture
def features(tmp_path, blobs):
    np.save(tmp_path / "x.npy", blobs)
    return tmp_path / "x.npy"


def test_the_command_line_without_a_gpu_writes_nothing(run, features, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for command in (
        ("cluster", features, "-o", tmp_path / "l.npy"),
        ("cluster", features, "--thresholds", "0.2:0.8:3"),
        ("segment", tmp_path, "--things", 1, "-o", tmp_path / "out"),
    ):
        code, out, err = run(*command, "--device", "cuda")
        assert (code, out) == (2, "")
        assert err.startswith("clusterfug: error: --device 'cuda': torch finds no CUDA GPU here; use ")
        assert err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["x.npy"]
    for options, message in (
        (("--jobs", 2), "--jobs is for the CPU"),
        (("--graph", "grid"), "a graph is solved on the CPU"),
    ):
        code, _, err = run("segment", tmp_path, "--things", 1, "--device", "cuda", *options)
        assert code == 2
        assert message in err


def test_the_command_line_without_torch(run, features, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for more in (("-t", 0.4), ("--thresholds", "0.2:0.8:3")):
        code, out, err = run(
            "cluster", features, "--device", "auto", "--precision", "exact", "--json", *more
        )
        assert (code, err) == (0, "")
        assert '"device": "cpu"' in out
    (tmp_path / "graph.txt").write_text("MULTICUT\n0 1 1.0\n")
    code, _, err = run("cluster", tmp_path / "graph.txt", "--device", "auto", "--json")
    assert (code, err) == (0, "")
    code, _, err = run("cluster", tmp_path / "graph.txt", "--precision", "exact")
    assert "--precision goes with features" in err
