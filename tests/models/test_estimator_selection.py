"""The estimator with local thresholds: the same as dense_multicut; prediction, cloning and pickling."""

import pickle

import numpy as np
import pytest
from makers import around_axes, assert_same_clusters, gaussian_mixture
from sklearn.base import clone

from clusterfug import DenseMulticut, dense_multicut


def test_every_algorithm_selects_by_default(rng):
    X, _ = gaussian_mixture(rng, 30, 4, 6, 0.8)
    for algorithm in ("auto", "fast", "exact", "best", "gaec", "dgaec", "dlaec"):
        more = {"max_iter": 2} if algorithm == "best" else {}
        model = DenseMulticut(algorithm=algorithm, **more).fit(X)
        expected = dense_multicut(X, "auto", algorithm=algorithm, **more)
        np.testing.assert_array_equal(model.labels_, expected.labels)
        np.testing.assert_allclose(model.choice_.scores, expected.choice.scores)
        assert model.choice_ is model.result_.choice
    model = DenseMulticut(0.4, algorithm="gaec").fit(X)
    np.testing.assert_array_equal(model.labels_, dense_multicut(X, 0.4, algorithm="gaec").labels)
    assert model.choice_ is None


def test_parameters_of_the_estimator_reach_the_solver(rng):
    X, _ = gaussian_mixture(rng, 40, 4, 6, 0.8)
    weight = rng.integers(0, 3, size=40)
    for keywords, options in (
        ({"threshold": "local"}, {"threshold": "local"}),
        ({"strictness": 0.9}, {"threshold": "local", "strictness": 0.9}),
        ({"n_neighbors": 5}, {"threshold": "auto", "n_neighbors": 5}),
        ({"n_clusters": 7}, {"n_clusters": 7}),
        ({"n_clusters": (6, 8), "n_neighbors": 5}, {"n_clusters": (6, 8), "n_neighbors": 5}),
        ({"alpha": 0.7}, {"alpha": 0.7}),
        ({"threshold": "auto", "algorithm": "dlaec"}, {"threshold": "auto", "algorithm": "dlaec"}),
    ):
        options = {"algorithm": "fast"} | options
        model = DenseMulticut(**{"algorithm": "fast"} | keywords).fit(X, sample_weight=weight)
        expected = dense_multicut(X, sample_weight=weight, **options)
        np.testing.assert_array_equal(model.labels_, expected.labels)
        assert (model.choice_ is None) == ("alpha" in options)
        if model.choice_ is not None:
            assert model.choice_.strictness == pytest.approx(expected.choice.strictness)


def test_new_rows_get_the_cluster_of_the_most_similar_mean(rng):
    X = rng.normal(size=(40, 4))
    for options in ({"threshold": "auto"}, {"strictness": 1.2, "n_neighbors": 4}, {"n_clusters": 9}):
        model = DenseMulticut(metric="inner_product", algorithm="fast", **options).fit(X)
        means = np.array([X[model.labels_ == c].mean(axis=0) for c in range(model.n_clusters_)])
        new = rng.normal(size=(60, 4)) * 3
        np.testing.assert_array_equal(model.predict(new), (new @ means.T).argmax(axis=1))


def test_prediction_of_fitted_rows(rng):
    X, y = around_axes(rng, 60)
    X *= rng.uniform(0.5, 5, size=(60, 1))
    for dtype in (np.float32, np.float64):
        model = DenseMulticut().fit(X.astype(dtype))
        assert_same_clusters(model.labels_, y)
        np.testing.assert_array_equal(model.predict(X.astype(dtype)), model.labels_)
        np.testing.assert_array_equal(model.predict(X.astype(dtype) * 7), model.labels_)


@pytest.mark.parametrize("weighted", [False, True])
def test_fitted_rows_keep_their_labels_unless_the_nearest_cluster_is_asked_for(rng, weighted):
    X = rng.normal(size=(60, 3)) + 0.5
    X[30:34] = X[:4]
    weight = rng.integers(0, 3, size=60) if weighted else None
    model = DenseMulticut(0.1, center=True).fit(X, sample_weight=weight)
    means = model.cluster_centers_
    rows = X - model.mean_
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    nearest = (rows @ means.T).argmax(axis=1)
    assert np.any(nearest != model.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.predict(X, nearest=True), nearest)
    np.testing.assert_array_equal(model.predict(X[7:25]), model.labels_[7:25])
    mixed = np.concatenate([X[40:], X[40:] + 1e-9])
    np.testing.assert_array_equal(model.predict(mixed), np.r_[model.labels_[40:], nearest[40:]])
    with pytest.raises(TypeError, match="nearest must be True or False"):
        model.predict(X, nearest=1)


def test_an_estimator_survives_cloning_and_pickling(rng):
    X, _ = gaussian_mixture(rng, 40, 4, 6, 0.6)
    new = rng.normal(size=(30, 6))
    parameters = {
        "threshold": "local",
        "strictness": 0.8,
        "n_neighbors": 6,
        "center": True,
        "algorithm": "fast",
    }
    model = DenseMulticut(**parameters).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(new), model.predict(new))
    assert copy.choice_.reason == model.choice_.reason
    fresh = clone(model)
    assert fresh.get_params() == model.get_params()
    assert {name: fresh.get_params()[name] for name in parameters} == parameters
    assert not hasattr(fresh, "labels_")
    np.testing.assert_array_equal(fresh.fit(X).predict(new), model.predict(new))
    fresh.set_params(threshold=0.2, strictness=None, n_neighbors=None).fit(X)  # no state is left
    assert fresh.choice_ is None
    np.testing.assert_array_equal(
        fresh.predict(new), DenseMulticut(0.2, center=True, algorithm="fast").fit(X).predict(new)
    )


def test_scale_and_shift_change_no_label_of_blobs(rng):
    X, y = around_axes(rng, 60, d=4, noise=0.1)
    expected = DenseMulticut(center=True).fit(X)
    assert_same_clusters(expected.labels_, y)
    for other in (X * 3.7, X * 1e-3, X + rng.normal(size=4), 1e6 * X - 5.0):
        model = DenseMulticut(center=True).fit(other)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        np.testing.assert_allclose(model.choice_.scores, expected.choice_.scores, rtol=1e-6)


@pytest.mark.parametrize("options", [{}, {"n_clusters": 30}])
def test_scale_and_shift_change_no_label_of_digits(options):
    from sklearn.datasets import load_digits

    X = load_digits().data.astype(np.float64)
    expected = DenseMulticut(center=True, algorithm="fast", **options).fit(X)
    assert 10 <= expected.n_clusters_ <= 60
    for other in (X * 3.7, X * 1e-3, X + np.linspace(-9, 9, 64)):
        model = DenseMulticut(center=True, algorithm="fast", **options).fit(other)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
