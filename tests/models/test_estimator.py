"""The estimator: scikit-learn's contract, preprocessing, weights and prediction."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from clusterfug import DenseMulticut, DenseProblem, dense_multicut


def expected_to_fail(estimator):
    """The check shuffles the items and compares labels, which are numbered by first appearance.

    test_weights_are_repetitions compares the clusters instead.
    """
    if estimator.metric == "cosine":
        return {}  # the check's data are one cluster then
    return {"check_sample_weight_equivalence_on_dense_data": "labels are numbered by first appearance"}


@parametrize_with_checks(
    [DenseMulticut(), DenseMulticut(metric="inner_product", center=True, algorithm="fast")],
    expected_failed_checks=expected_to_fail,
)
@pytest.mark.filterwarnings("ignore:one cluster holds:UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture
def blobs(rng):
    centres = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    y = rng.integers(0, 3, size=60)
    return (centres[y] + 0.05 * rng.normal(size=(60, 3))) * rng.uniform(0.5, 5, size=(60, 1)), y


def test_fit_is_the_solver_on_preprocessed_features(blobs):
    X, _ = blobs
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    centred = X - X.mean(axis=0)
    for options, features in (
        ({}, unit),
        ({"metric": "inner_product"}, X),
        ({"metric": "inner_product", "center": True}, centred),
        ({"center": True}, centred / np.linalg.norm(centred, axis=1, keepdims=True)),
    ):
        model = DenseMulticut(0.3, **options).fit(X)
        expected = dense_multicut(DenseProblem(features, 0.3))
        np.testing.assert_array_equal(model.labels_, expected.labels)
        assert model.objective_ == pytest.approx(expected.objective, rel=1e-9)
        assert model.inside_ == pytest.approx(expected.inside, rel=1e-9)
        assert model.n_clusters_ == expected.n_clusters
        assert model.n_features_in_ == 3
        for c, centre in enumerate(model.cluster_centers_):
            np.testing.assert_allclose(centre, features[model.labels_ == c].mean(axis=0), rtol=1e-9)


def test_clusters_are_found_and_predicted(blobs):
    X, y = blobs
    model = DenseMulticut(0.5).fit(X)
    assert model.n_clusters_ == 3
    assert len(set(zip(y, model.labels_, strict=True))) == 3
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.fit_predict(X), model.labels_)
    np.testing.assert_array_equal(model.predict(X * 7), model.labels_)  # cosines do not depend on lengths
    assert set(model.predict(-X)) <= {0, 1, 2}  # never a new label


def test_alpha_weights_and_zero_rows_are_allowed(blobs):
    X, _ = blobs
    X = np.vstack([X, np.zeros(3)])
    weight = np.arange(61) % 3 + 1.0
    model = DenseMulticut(alpha=np.linspace(0.5, 0.9, 61), prefer="small", center=True)
    model.fit(X, sample_weight=weight)
    np.testing.assert_allclose(model.mean_, np.average(X, axis=0, weights=weight))
    with pytest.raises(ValueError, match="not negative"):
        model.fit(X, sample_weight=-weight)
    assert DenseMulticut().fit(X).labels_[-1] == 3  # the zero row is alone, not NaN


def test_weights_are_repetitions(blobs, rng):
    X, _ = blobs
    weight = rng.integers(0, 4, size=60)
    model = DenseMulticut(0.5).fit(X, sample_weight=weight)
    repeated = DenseMulticut(0.5).fit(np.repeat(X, weight, axis=0))
    ours, theirs = np.repeat(model.labels_, weight), repeated.labels_
    np.testing.assert_array_equal(ours[:, None] == ours, theirs[:, None] == theirs)
    assert len(set(zip(model.predict(X), repeated.predict(X), strict=True))) == 3


@pytest.mark.filterwarnings("ignore:one cluster holds:UserWarning")
def test_the_estimator_works_in_a_pipeline_and_a_grid_search(blobs):
    X, y = blobs
    pipeline = make_pipeline(StandardScaler(), DenseMulticut(0.2))
    assert pipeline.fit_predict(X).shape == (60,)
    search = GridSearchCV(
        DenseMulticut(), {"threshold": [-0.9, 0.5, 0.999999]}, scoring="adjusted_rand_score", cv=3
    ).fit(X, y)
    assert search.best_params_ == {"threshold": 0.5}
    assert clone(search.best_estimator_).get_params()["threshold"] == 0.5


def test_masked_values_are_an_error_in_fit_and_predict(rng):
    X = rng.normal(size=(20, 3))
    masked = np.ma.masked_less(X, -1)
    model = DenseMulticut(0.3).fit(X)
    for call in (DenseMulticut(0.3).fit, model.predict):
        with pytest.raises(TypeError, match="X is a masked array: fill or drop the masked values first"):
            call(masked)


@pytest.mark.parametrize(
    "X", [[1.0, 2.0], [["a", "b"]], [[1.0], [2.0, 3.0]], np.zeros((2, 2, 2)), np.zeros((0, 3)), 3.0, None]
)
def test_errors_of_scikit_learn_are_one_line(rng, X):
    model = DenseMulticut(0.3).fit(rng.normal(size=(5, 2)))
    for call in (DenseMulticut(0.3).fit, model.predict):
        with pytest.raises((ValueError, TypeError)) as error:
            call(X)
        assert "\n" not in str(error.value)
        assert len(str(error.value)) < 300


def test_tensors_on_the_host_are_taken_whatever_their_type(rng):
    torch = pytest.importorskip("torch")
    X = torch.from_numpy(rng.normal(size=(20, 3))).float()
    expected = DenseMulticut(0.2).fit(X.numpy()).labels_
    model = DenseMulticut(0.2).fit(X.clone().requires_grad_())
    np.testing.assert_array_equal(model.labels_, expected)
    np.testing.assert_array_equal(model.predict(X.clone().requires_grad_()), expected)
    half = X.bfloat16()
    np.testing.assert_array_equal(
        DenseMulticut(0.2).fit(half).labels_, DenseMulticut(0.2).fit(half.float().numpy()).labels_
    )


def test_fit_takes_links(blobs):
    X, _ = blobs
    links = {
        "must_link": [[0, 1]],
        "cannot_link": [[2, 3], [2, 4]],
        "exclusive": ["a", "b"] * 5 + [None] * 50,
    }
    model = DenseMulticut(threshold=0.5, bound=True).fit(X, **links)
    expected = dense_multicut(X, 0.5, bound=True, **links)
    np.testing.assert_array_equal(model.labels_, expected.labels)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(DenseMulticut(threshold=0.5).fit_predict(X, **links), model.labels_)
    assert model.result_.broken_links == model.result_.links.broken(model.labels_) == 0
    assert model.lower_bound_ <= model.objective_ == expected.objective
    assert model.cluster_centers_.shape == (model.n_clusters_, 3)
    assert clone(model).fit(X).result_.links is None
    soft = DenseMulticut(threshold=0.5).fit(X, must_link=[[0, 1]], cannot_link=[[0, 1]], link_weight=1.0)
    assert soft.result_.broken_links == 1


@pytest.mark.parametrize("parameters", [{}, {"threshold": "local"}, {"alpha": 0.7}, {"strictness": 0.8}])
def test_links_hold_whatever_the_costs(blobs, parameters):
    X, y = blobs
    apart = [np.flatnonzero(y == c)[:2] for c in range(3)]
    model = DenseMulticut(**parameters).fit(
        X, cannot_link=apart, must_link=[[i, i + 1] for i in range(40, 45)]
    )
    assert model.result_.broken_links == 0
    assert len(set(model.labels_[40:46])) == 1
    assert all(model.labels_[i] != model.labels_[j] for i, j in apart)


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"must_link": [[0, 60]]}, "names item 60"),
        ({"must_link": [[0, 1]], "cannot_link": [[1, 0]]}, "cannot be together"),
        ({"exclusive": [1, 2]}, "one group per item"),
        ({"link_weight": 1.0}, "give must_link"),
    ],
)
def test_wrong_links_are_one_line(blobs, links, message):
    with pytest.raises(ValueError, match=message):
        DenseMulticut(threshold=0.5).fit(blobs[0], **links)


def test_new_rows_are_apart_from_fitted_rows_of_their_group():
    faces = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]])
    model = DenseMulticut(0.5).fit(faces)
    np.testing.assert_array_equal(model.predict([[1, 0], [1, 0.05]], exclusive=["q", "q"]), [0, 1])
    with pytest.raises(ValueError, match="nearest looks at features alone: leave out exclusive"):
        model.predict(faces, nearest=True, exclusive=[1, 1, 2, 2])
