"""threshold_path: no worse than solving every threshold alone, and its table."""

import numpy as np
import pytest
from makers import unit
from sklearn.metrics import adjusted_rand_score

from clusterfug import dense_multicut, objective, threshold_path


@pytest.fixture
def features(rng):
    return unit(rng.normal(size=(60, 4)))


@pytest.mark.parametrize(
    ("algorithm", "options"), [("auto", {}), ("fast", {}), ("dlaec", {"refine": True}), ("dlaec", {})]
)
def test_no_threshold_is_worse_than_alone(features, algorithm, options):
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
            assert result.merges.tolist() == alone.merges.tolist()  # not refined
    assert better > 0 or algorithm != "fast"  # neighbouring thresholds help


def test_the_table_of_a_path(features):
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


def test_ctrl_c_in_a_search_that_keeps_its_labels_stops_the_whole_path(features, monkeypatch):
    def interrupted(**arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("clusterfug.exact.program.linprog", interrupted)
    with pytest.raises(KeyboardInterrupt):
        threshold_path(features, [0.2, 0.4], algorithm="exact", time_limit=np.inf)


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
        ([0.1], {"init": [0] * 60}, "starts from neighbouring thresholds: leave out init"),
    ],
)
def test_bad_input_is_one_line(features, thresholds, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        threshold_path(features, thresholds, **options)
