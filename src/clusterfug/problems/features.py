"""Features with a cost model: a dense problem as a user describes it, before costs are computed.

`api.py`, the estimator and the command line make a `FeatureProblem`; `core.solve` turns it into a
`DenseProblem` (on the CPU), tensors (on a GPU) or shards.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.costs.models import CostModel
from clusterfug.costs.preprocessing import AS_GIVEN, Preprocessing

if TYPE_CHECKING:
    import torch

    from clusterfug.problems.dense import DenseProblem


@dataclass(frozen=True, eq=False)
class FeatureProblem:
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
    """

    kind: ClassVar[str] = "features"

    X: Any
    costs: CostModel
    sample_weight: Any = None
    preprocessing: Preprocessing = AS_GIVEN
    mean: NDArray[np.float64] | None = None
    is_prepared: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.X.shape

    @property
    def is_stored(self) -> bool:
        """Whether the features are in files, to be read in parts or at once."""
        return hasattr(self.X, "stretch")

    @property
    def expected_work(self) -> int:
        """Pairs of items; 0 for something that has no rows, and will fail."""
        return self.shape[0] ** 2 if self.shape else 0

    def with_costs(self, costs: CostModel) -> "FeatureProblem":
        return replace(self, costs=costs)

    def prepared(self, device: "torch.device | None" = None) -> "FeatureProblem":
        """Return the same problem with checked and preprocessed features, for the CPU or for a device.

        Tensors on a GPU are preprocessed there, arrays on the host. Features that stay as they are and go
        to a device are checked there later, when they are read.
        """
        if self.is_prepared:
            return self
        if device is not None and self.preprocessing.is_identity and not self.is_stored:
            return replace(self, is_prepared=True)
        if checks.on_gpu(self.X):
            from clusterfug.execution.torch.preprocessing import prepare_tensor

            tensor, mean = prepare_tensor(self.X, self.preprocessing, self.sample_weight)
            return replace(self, X=tensor, mean=mean, is_prepared=True)
        from clusterfug.costs.preprocessing import mean_feature, prepare

        X = self.X.read() if self.is_stored else self.X
        X = checks.features(checks.on_host(X))
        weight = self.sample_weight
        if weight is not None:
            weight = checks.weights(weight, len(X))
        mean = mean_feature(X, weight) if self.preprocessing.center else None
        X = prepare(X, self.preprocessing.metric, mean)
        return replace(self, X=X, sample_weight=weight, mean=mean, is_prepared=True)

    def dense(self) -> "DenseProblem":
        """Return the dense problem on the CPU."""
        from clusterfug.problems.dense import DenseProblem

        return DenseProblem(self.prepared().X, self.costs, sample_weight=self.sample_weight)
