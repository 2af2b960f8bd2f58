"""`DenseMulticut`, the scikit-learn estimator over the core."""

from collections.abc import Iterable
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from clusterfug import checks, core
from clusterfug.costs.models import CostModel, cost_model
from clusterfug.costs.preprocessing import Preprocessing, prepare
from clusterfug.execution.plan import plan
from clusterfug.models.assignment import cluster_means, most_similar, most_similar_apart
from clusterfug.models.fitted import FittedRows
from clusterfug.problems.arguments import with_links
from clusterfug.problems.features import FeatureProblem
from clusterfug.problems.links import make_links
from clusterfug.solvers import make_solver, option_names


class DenseMulticut(ClusterMixin, BaseEstimator):
    """Clustering that finds the number of clusters itself, by dense multicut.

    Every pair of items attracts or repels by the cosine (or inner product) of its features minus a
    threshold, and the clustering minimises the total cost of the pairs it separates.

    Parameters
    ----------
    threshold : float, "local", "auto" or CostModel, default=None
        Similarity at which a pair neither attracts nor repels. Larger gives more clusters. "local" is one
        for each sample: a share (`strictness`) of its mean similarity to its nearest samples. "auto", the
        default, selects that share, too; `choice_` says why.
    alpha : float or array of shape (n_samples,), default=None
        Used instead of `threshold`: cost = <f_i, f_j> - alpha_i * alpha_j.
    prefer : {"small", "large"}, default="small"
        Sign of the alpha term; "large" adds it.
    strictness : float, default=None
        Of ``threshold="local"``, 0.6 unless given: larger gives more clusters.
    n_neighbors : int, default=None
        Nearest samples that a local threshold looks at: 100, or two thirds of the samples if that is less.
    n_clusters : int or (low, high), default=None
        Target number of clusters: a local threshold is made as strict as it takes, and if none gives the
        number, clusters of a finer result are joined. If that is not possible, the nearest result is
        returned, with a warning.
    metric : {"cosine", "inner_product"}, default="cosine"
        "cosine" scales rows to length 1 (a zero row stays zero); "inner_product" leaves them.
    center : bool, default=False
        Subtract the mean feature first. Advisable when most cosines are high.
    algorithm : {"auto", "fast", "best", "exact", "gaec", "dgaec", "dgaec-inc", "dlaec", "dapplaec"}
        "auto" is the default; "best" searches until `time_limit`; "exact" proves its answer optimal, for up
        to about 80 samples. See `dense_multicut`.
    refine : bool, default=False
        Refine the result of one of the paper's algorithms. (The others always refine.)
    init : integer array of shape (n_samples,), default=None
        Labels to start from, for "auto", "fast" and "best".
    time_limit : float, default=None
        Seconds after which refinement stops with the best so far; 60 for "best" unless `max_iter` is given.
    max_iter : int, default=None
        Iterations of the search of "best": a budget that does not depend on the machine's speed.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the search of "best" and of the shaking of "auto".
    k : int, default=None
        Neighbours kept per node by the paper's algorithms.
    ann : {"hnsw", "ivf"}, default=None
        The index of the approximate search of algorithm="dapplaec".
    device : {None, "cpu", "cuda", "cuda:1", "auto"} or torch.device, default=None
        Where the solver runs: the CPU by default. See `dense_multicut`.
    precision : {"fast", "exact"}, default="fast"
        How candidates are found on a GPU; on the CPU always exact.
    memory_limit : int or str, default=None
        Bytes, or a text such as "2GB": what algorithm="gaec" may use for its n x n costs (4 GiB by
        default), what "auto" and "fast" may use for a part of a problem that is solved in shards (by
        default all is solved at once), or what the solver may use on a GPU (90 % of what is free).
    bound : bool, default=False
        Compute a lower bound, too, so that `gap_` says how far from optimal the clustering is at most.

    Attributes
    ----------
    labels_ : int64 array of shape (n_samples,)
        Cluster of each sample, numbered by first appearance.
    n_clusters_ : int
    objective_ : float
        Total cost of the pairs separated (lower is better).
    inside_ : float
        Total cost of the pairs kept together (higher is better).
    lower_bound_, gap_ : float or None
        No clustering has a smaller objective than `lower_bound_`; how far from it `objective_` is, as a
        share. None unless ``bound=True`` or ``algorithm="exact"``.
    choice_ : Choice or None
        How the strictness was selected, if it was: candidates, their clusters and scores, and the reason.
    cluster_centers_ : array of shape (n_clusters_, n_features_in_)
        Mean preprocessed feature of each cluster.
    mean_ : array of shape (n_features_in_,) or None
        The mean feature that was subtracted, if ``center=True``.
    preprocessing_ : Preprocessing
        Metric and centring of the fitted samples, which `predict` applies to new ones.
    result_ : Clustering
        The whole result: trace, certificates, contraction history, seconds.
    n_iter_ : int
        Iterations: one, and those of the search of "best".
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from clusterfug import DenseMulticut
    >>> X = np.array([[1, 0], [2, 0.1], [0, 1], [0.1, 3]])
    >>> model = DenseMulticut(threshold=0.5).fit(X)
    >>> model.labels_, model.predict([[5, 1]])
    (array([0, 0, 1, 1]), array([0]))
    """

    def __init__(
        self,
        threshold: float | str | CostModel | None = None,
        *,
        alpha: Any = None,
        prefer: str = "small",
        strictness: float | None = None,
        n_neighbors: int | None = None,
        n_clusters: int | tuple[int, int] | None = None,
        metric: str = "cosine",
        center: bool = False,
        algorithm: str = "auto",
        refine: bool = False,
        init: Any = None,
        time_limit: float | None = None,
        max_iter: int | None = None,
        random_state: Any = 0,
        k: int | None = None,
        ann: str | None = None,
        device: Any = None,
        precision: str = "fast",
        memory_limit: int | str | None = None,
        bound: bool = False,
    ) -> None:
        self.threshold = threshold
        self.alpha = alpha
        self.prefer = prefer
        self.strictness = strictness
        self.n_neighbors = n_neighbors
        self.n_clusters = n_clusters
        self.metric = metric
        self.center = center
        self.algorithm = algorithm
        self.refine = refine
        self.init = init
        self.time_limit = time_limit
        self.max_iter = max_iter
        self.random_state = random_state
        self.k = k
        self.ann = ann
        self.device = device
        self.precision = precision
        self.memory_limit = memory_limit
        self.bound = bound

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        must_link: Any = None,
        cannot_link: Any = None,
        exclusive: Any = None,
        link_weight: float | None = None,
    ) -> Self:
        """Cluster the rows of X.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : ignored
        sample_weight : array of shape (n_samples,), default=None
            Sample i counts as that many samples. One of weight 0 takes no part and is labelled like a new
            sample.
        must_link, cannot_link : integer arrays of shape (m, 2), default=None
            Pairs of samples that are known to belong together, and pairs that are known not to.
        exclusive : array of shape (n_samples,), default=None
            A group per sample, for example the photo of a face: no two samples of a group are together. -1,
            "" or None is no group.
        link_weight : float, default=None
            What it costs to break a link; by default none is broken. `result_.broken_links` counts them.
        """
        if checks.on_gpu(X):
            raise TypeError(
                "X is a tensor on a GPU: use dense_multicut, which takes it as it is, or X.cpu()"
            )
        costs = cost_model(**self._given(signature(cost_model).parameters))
        preprocessing = Preprocessing(self.metric, self.center)
        solver = make_solver(self.algorithm, **self._given(option_names()))
        X = self._validated(X, reset=True)
        problem = with_links(
            FeatureProblem(X, costs, sample_weight, preprocessing),
            must_link=must_link,
            cannot_link=cannot_link,
            exclusive=exclusive,
            link_weight=link_weight,
        )
        execution = plan(problem, solver, **self._given(signature(plan).parameters))
        problem = problem.prepared()
        self.result_ = core.solve(problem, solver, execution, bound=self.bound)
        self.mean_, features, sample_weight = problem.mean, problem.X, problem.sample_weight
        self.preprocessing_ = preprocessing
        self.labels_ = self.result_.labels
        self.n_clusters_ = self.result_.n_clusters
        self.objective_ = self.result_.objective
        self.inside_ = self.result_.inside
        self.lower_bound_ = self.result_.lower_bound
        self.gap_ = self.result_.gap
        self.n_iter_ = 1 + self.result_.n_iter
        self.choice_ = self.result_.choice
        weight = checks.optional_weights(sample_weight, len(X))
        self.cluster_centers_ = cluster_means(features, self.labels_, weight)
        self._fitted = FittedRows(X, self.labels_)
        self._exclusive = None if exclusive is None else list(exclusive)
        return self

    def _validated(self, X: Any, reset: bool) -> NDArray[Any]:
        """Return X as scikit-learn checks it, except for infinite values and NaN; an error is one line."""
        X = checks.unmasked("X", X)
        if checks.is_tensor(X):
            X = checks.on_host(checks.tensor("X", X))
        if isinstance(X, list | tuple):
            X = checks.as_array("X", X)
        try:
            return validate_data(self, X, dtype="numeric", ensure_all_finite=False, reset=reset)
        except (ValueError, TypeError) as error:
            lines = (line for line in str(error).splitlines() if not line.startswith(("array=", "[", " [")))
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(" ".join(" ".join(lines).split())) from None

    def _given(self, names: Iterable[str]) -> dict[str, Any]:
        """Return those of the named parameters that the estimator has."""
        parameters = self.get_params(deep=False)
        return {name: parameters[name] for name in names if name in parameters}

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, **links: Any
    ) -> NDArray[np.int64]:
        """Cluster the rows of X and return their labels; the parameters are those of `fit`."""
        return self.fit(X, sample_weight=sample_weight, **links).labels_

    def predict(self, X: Any, *, nearest: bool = False, exclusive: Any = None) -> NDArray[np.int64]:
        """Return the cluster of each row of X; no new labels occur.

        A row of the X that was fitted, number for number, has the label that it was given there, so
        ``fit(X).predict(X)`` is ``labels_``. (If copies of a row are in several clusters, they are
        matched in the order of the rows.) Every other row belongs to the cluster whose mean feature has the
        largest inner product with it, after the preprocessing of `fit`.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        nearest : bool, default=False
            Treat the rows that were fitted like all others. Some are more similar to the mean of another
            cluster than to that of their own: means are not what the clustering optimises.
        exclusive : array of shape (n_samples,), default=None
            A group per row, with the ids that `fit` was given: a row that was not fitted is in no cluster
            with another row, or with a fitted sample, of its group. If no cluster is left for it, its label
            is -1. Must-links and cannot-links do not concern new rows.
        """
        check_is_fitted(self)
        as_others = checks.flag("nearest", nearest)
        if as_others and exclusive is not None:
            raise ValueError("nearest looks at features alone: leave out exclusive")
        X = checks.features(self._validated(X, reset=False))
        features = prepare(X, self.preprocessing_.metric, self.mean_)
        centers = self.cluster_centers_.astype(features.dtype, copy=False)
        if as_others:
            return most_similar(features, centers)
        labels = self._fitted.labels_of(X)
        new = np.flatnonzero(labels < 0)
        if exclusive is None:
            labels[new] = most_similar(features, centers, new)
        else:
            groups, fitted_groups = self._groups_with_fitted(exclusive, len(X))
            old = labels >= 0
            known = np.append(fitted_groups, groups[old]), np.append(self.labels_, labels[old])
            labels[new] = most_similar_apart(features[new], centers, groups[new], *known)
        return labels

    def _groups_with_fitted(self, exclusive: Any, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the groups of n new rows and of the fitted samples, numbered together; -1 for none."""
        make_links(n, exclusive=exclusive)  # checks them
        fitted = [None] * len(self.labels_) if self._exclusive is None else self._exclusive
        both = make_links(n + len(fitted), exclusive=[*exclusive, *fitted])
        assert both is not None
        return both.exclusive[:n], both.exclusive[n:]
