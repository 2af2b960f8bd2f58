"""threshold_path: no worse than solving every threshold alone, and what it reports."""

import sys

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from clusterfug import dense_multicut, objective, threshold_path
from clusterfug.report.plots import plot_path


@pytest.fixture
def features(rng):
    X = rng.normal(size=(60, 4))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("algorithm", "options"), [("auto", {}), ("fast", {}), ("dlaec", {"refine": True}), ("dlaec", {})]
)
def test_no_threshold_is_worse_than_on_its_own(features, algorithm, options):
    thresholds = [0.6, 0.1, 0.3, 0.3, 0.8]
    path = threshold_path(features, thresholds, algorithm=algorithm, **options)
    assert path.thresholds.tolist() == [0.1, 0.3, 0.6, 0.8]
    better = 0
    for threshold, result in zip(path.thresholds, path, strict=True):
        alone = dense_multicut(features, threshold, algorithm=algorithm, **options)
        assert result.inside >= alone.inside
        assert result.objective == pytest.approx(objective(features, result.labels, threshold))
        assert result.algorithm == algorithm
        better += result.inside > alone.inside
        if algorithm == "dlaec" and not options:
            assert result.merges.tolist() == alone.merges.tolist()  # left as it is
    assert better > 0 or algorithm != "fast"  # neighbours help where there is something to gain


def test_what_it_reports(features):
    path = threshold_path(features, [0.2, 0.7], sample_weight=np.full(60, 2.0))
    assert len(path) == 2
    assert path.labels.shape == (2, 60)
    assert path.n_clusters.tolist() == [path[0].n_clusters, path[1].n_clusters]
    assert [sizes.sum() for sizes in path.sizes] == [60, 60]
    assert np.isnan(path.agreement[0])
    assert path.agreement[1] == pytest.approx(adjusted_rand_score(*path.labels))
    assert path.objective.tolist() == [row["objective"] for row in path.rows()]
    assert path.inside.tolist() == [row["inside"] for row in path.rows()]
    assert path.rows()[0]["agreement"] is None


def test_ctrl_c_stops_the_whole_path(features):
    def interrupt(phase, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        threshold_path(features, [0.2, 0.4], algorithm="fast", callback=interrupt)


def test_the_callback_counts_thresholds(features):
    seen = []
    threshold_path(features, [0.2, 0.4, 0.6], algorithm="fast", callback=lambda *event: seen.append(event))
    assert seen == [("thresholds", i, 3) for i in (1, 2, 3)]


@pytest.mark.parametrize(
    ("thresholds", "options", "message"),
    [
        ([], {}, "thresholds must be a list of numbers"),
        ([[0.1]], {}, "thresholds must be a list of numbers"),
        ([0.1, np.nan], {}, "thresholds must be a finite number"),
        (["a"], {}, "thresholds must hold real numbers"),
        ([0.1], {"init": [0] * 60}, "brings its own init"),
    ],
)
def test_bad_input_is_one_line(features, thresholds, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        threshold_path(features, thresholds, **options)


def test_a_plot_without_matplotlib_names_the_extra(features, tmp_path, monkeypatch):
    path = threshold_path(features, [0.2])
    plot_path(path, tmp_path / "one.png")  # one threshold has no neighbours
    assert (tmp_path / "one.png").stat().st_size > 1000
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'clusterfug\[plot\]'"):
        plot_path(path, tmp_path / "two.png")
