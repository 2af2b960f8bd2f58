"""Features with a cost model: a dense problem as a user describes it; the advice to centre features.

`api.py`, the estimator and the command line make a `FeatureProblem`; `core.solve` turns it into a
`DenseProblem` (on the CPU), tensors (on a GPU) or shards when costs are computed.
"""

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.costs.models import CostModel
from clusterfug.costs.preprocessing import AS_GIVEN, Preprocessing
from clusterfug.problems.protocol import Solvable

if TYPE_CHECKING:
    import torch

    from clusterfug.problems.links import Links
    from clusterfug.problems.protocol import Problem
    from clusterfug.result import Clustering

#: Warn if the largest cluster holds more than this share of the items.
ONE_CLUSTER_SHARE = 0.98


@dataclass(frozen=True, eq=False)
class FeatureProblem(Solvable):
    """Items given by features, a cost model, weights and preprocessing.

    Attributes
    ----------
    X : array, torch tensor, `FeatureFiles` or dask array of shape (n, d)
    costs : CostModel
    sample_weight : array of shape (n,) or None
    preprocessing : Preprocessing
    mean : float64 array of shape (d,) or None
        What was subtracted from the features, once they are prepared.
    is_prepared : bool
        Whether X is preprocessed already.
    name : str
        How errors call X: by the name of its file on the command line.
    links : Links or None
        What is known about pairs of items.
    """

    X: Any
    costs: CostModel
    sample_weight: Any = None
    preprocessing: Preprocessing = AS_GIVEN
    mean: NDArray[np.float64] | None = None
    is_prepared: bool = False
    name: str = "X"
    links: "Links | None" = None

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.costs.kind if self.links is None else "mixed"

    @property
    def noun(self) -> str:
        return "a problem with links" if self.links is not None else f"a problem of {self.costs.name} costs"

    @property
    def executions(self) -> frozenset[str]:  # type: ignore[override]
        """Where it can be solved; mixed problems on the CPU alone."""
        return frozenset({"cpu"} if self.kind == "mixed" else {"cpu", "torch", "sharded", "dask"})

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def is_stored(self) -> bool:  # type: ignore[override]
        """Whether the features are in files, to be read in parts or at once."""
        return hasattr(self.X, "read")

    @property
    def expected_work(self) -> int:
        """Pairs of items; 0 for something that has no rows, and will fail."""
        return self.shape[0] ** 2 if self.shape else 0

    @property
    def needs_selection(self) -> bool:  # type: ignore[override]
        return self.costs.needs_selection

    @property
    def has_strictness(self) -> bool:  # type: ignore[override]
        return self.costs.has_strictness

    @property
    def needs_all_items(self) -> bool:  # type: ignore[override]
        return self.costs.needs_all_items

    def with_costs(self, costs: CostModel) -> "FeatureProblem":
        return replace(self, costs=costs)

    def prepared(self, device: "torch.device | None" = None) -> "FeatureProblem":
        """Return the same problem with checked and preprocessed features, for the CPU or for a device.

        Tensors on a GPU that are solved on a device are preprocessed there, all else on the host. Features
        that stay as they are and go to a device are checked there later, when they are read.
        """
        if self.is_prepared:
            return self
        if device is not None and self.preprocessing.is_identity and not self.is_stored:
            return replace(self, is_prepared=True)
        if device is not None and checks.on_gpu(self.X):
            from clusterfug.execution.torch.preprocessing import prepare_tensor

            tensor, mean = prepare_tensor(self.X, self.preprocessing, self.sample_weight)
            return replace(self, X=tensor, mean=mean, is_prepared=True)
        from clusterfug.costs.preprocessing import mean_feature, prepare

        X = self.X.read() if self.is_stored else self.X
        X = checks.features(checks.on_host(X), self.name)
        weight = self.sample_weight
        if weight is not None:
            weight = checks.weights(weight, len(X))
        mean = mean_feature(X, weight) if self.preprocessing.center else None
        X = prepare(X, self.preprocessing.metric, mean)
        return replace(self, X=X, sample_weight=weight, mean=mean, is_prepared=True)

    def linked(self, links: "Links") -> "FeatureProblem":
        return replace(self, links=links)

    def resolved(self) -> "Problem":
        """Return the problem on the CPU, with its links."""
        problem = self.costs.problem(checks.on_host(self.prepared().X), self.sample_weight)
        return problem if self.links is None else problem.linked(self.links)

    def described(self, result: "Clustering") -> "Clustering":
        """Return the result with preprocessing and cost model (the selected one, if one was selected)."""
        return replace(
            result,
            costs=result.costs or self.costs,
            preprocessing=self.preprocessing,
            weighted=self.sample_weight is not None,
            links=self.links,
        )

    def advised(self, result: "Clustering") -> "Clustering":
        """Warn if nearly all items are in one cluster because of a part that all of them share."""
        from clusterfug.costs.preprocessing import share_common_part

        weight = checks.on_host(self.sample_weight)
        sizes = np.bincount(
            result.labels, weights=None if weight is None else np.asarray(weight, np.float64)
        )
        is_target = result.choice is not None and result.choice.target is not None
        if is_target or len(result.labels) == 1 or sizes.max() < ONE_CLUSTER_SHARE * sizes.sum():
            return result
        if self.preprocessing.center or not share_common_part(self.X, weight):
            return result
        size = "all" if result.n_clusters == 1 else f"{sizes.max():,.10g} of {sizes.sum():,.10g}"
        advice = (
            f"one cluster holds {size} items: they share a common part, so centre them first "
            "(center=True, --center)"
        )
        warnings.warn(advice, UserWarning, stacklevel=4)
        if result.choice is None:
            return result
        return replace(result, choice=replace(result.choice, reason=f"{result.choice.reason}; {advice}"))
