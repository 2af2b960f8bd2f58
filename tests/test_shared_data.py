"""Real data at size, where it is at hand."""

import numpy as np
import pytest

from clusterfug import dense_multicut

pytestmark = pytest.mark.large


@pytest.mark.parametrize("algorithm", ["gaec", "dgaec", "dgaec-inc"])
def test_tinyimagenet_5k_agrees_with_the_published_code(shared_data, algorithm):
    X = np.load(shared_data / "tinyimagenet-5k" / "features.npy").astype(np.float32)
    result = dense_multicut(X, 0.4, algorithm=algorithm)
    assert result.inside == pytest.approx(10801.1, rel=5e-4)
    assert result.n_clusters == pytest.approx(447, abs=2)
