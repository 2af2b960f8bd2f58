"""Options of the contractions."""

import numpy as np
import pytest

from clusterfug import dense_multicut


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": "dlaec", "ann": "ivf"}, "ann goes with dapplaec, not with dlaec"),
        ({"algorithm": "dapplaec", "ann": "lsh"}, "unknown ann 'lsh': choose one of hnsw, ivf"),
        ({"algorithm": "dlaec", "init": [0] * 9}, "init goes with auto, fast, best, exact, not with dlaec"),
        ({"algorithm": "dlaec", "time_limit": 1}, "use refine=True"),
        ({"algorithm": "dlaec", "refine": 1}, "refine must be True or False"),
        ({"algorithm": "dlaec", "k": 0}, "k must be at least 1"),
        ({"algorithm": "gaec", "k": 3}, "k goes with dgaec, dgaec-inc, dlaec, dapplaec, not with gaec"),
    ],
)
def test_wrong_options_are_one_line_errors(options, message):
    with pytest.raises((ValueError, TypeError), match=message) as error:
        dense_multicut(np.eye(9), 0.4, **options)
    assert "\n" not in str(error.value)
