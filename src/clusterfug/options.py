"""What a solver can be told: names of algorithms, and options that are checked before any work.

Both roads, on the CPU and on a GPU, start here, so nothing heavy is imported.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks
from clusterfug.refinement.budget import Budget
from clusterfug.result import compact
from clusterfug.strength import Costs

#: Our algorithms, and those of them that run on a GPU.
OURS = ("fast", "auto", "best")
ON_GPU = ("fast", "auto")
#: The paper's algorithms and the neighbours per node that each keeps.
CONTRACTIONS = {"gaec": 0, "dgaec": 1, "dgaec-inc": 5, "dlaec": 5, "dapplaec": 5}
#: Algorithms of `dense_multicut` and of `multicut`.
ALGORITHMS = (*OURS, "exact", *CONTRACTIONS)
GRAPH_ALGORITHMS = (*OURS, "exact", "gaec")
#: Approximate searches of `dapplaec`.
INDEXES = ("hnsw", "ivf")
#: How candidates are found on a GPU.
PRECISIONS = ("fast", "exact")

#: Seconds that `best` and `exact` search unless told otherwise.
TIME_LIMIT = 60.0


#: Items of which `exact` tries to prove something.
MOST_EXACT = 300


def check_exact(n: int) -> None:
    if n > MOST_EXACT:
        raise ValueError(f"exact is for at most {MOST_EXACT} items, not {n}: use best with bound=True")


class Refinement:
    """The options of refinement, validated: those that do not go with the algorithm are errors."""

    def __init__(
        self,
        algorithm: str,
        refine: bool = False,
        init: Any = None,
        time_limit: float | None = None,
        max_iter: int | None = None,
        random_state: Any = 0,
    ) -> None:
        self.algorithm = algorithm
        ours = algorithm in (*OURS, "exact")
        self.wanted = checks.flag("refine", refine) or ours
        if init is not None and not ours:
            raise ValueError(f"init goes with {', '.join(OURS)}, exact, not with {algorithm}: leave it out")
        self.init = init
        if time_limit is not None and not self.wanted:
            raise ValueError(f"time_limit goes with refinement: use refine=True with {algorithm}")
        if time_limit is not None and time_limit != np.inf:
            time_limit = checks.number("time_limit", time_limit, 0.0)
        self.given_time = time_limit
        if max_iter is not None:
            max_iter = checks.count("max_iter", max_iter, 0)
            if algorithm != "best":
                raise ValueError(f"max_iter goes with best, not with {algorithm}: leave it out")
        if algorithm in ("best", "exact") and time_limit is None and max_iter is None:
            time_limit = TIME_LIMIT
        self.time_limit, self.max_iter = time_limit, max_iter
        self.rng = checks.generator("random_state", random_state)
        self.enough = np.inf  # no clustering keeps more inside

    def budget(self) -> Budget:
        return Budget(self.time_limit, self.max_iter, self.enough)

    def start(self, n: int) -> NDArray[np.int64] | None:
        """The labels to start from, 0..K-1; None for singletons."""
        return None if self.init is None else compact(checks.labels(self.init, n, "init"))


@dataclass
class Task:
    """What `dense_multicut` shall do, whatever the problem and wherever it runs; see there."""

    algorithm: str = "auto"
    threshold: float | str = 0.4
    alpha: Any = None
    prefer: str = "small"
    sample_weight: Any = None
    strictness: float | None = None
    n_neighbors: int | None = None
    n_clusters: Any = None
    refine: bool = False
    init: Any = None
    k: int | None = None
    ann: str = "hnsw"
    time_limit: float | None = None
    max_iter: int | None = None
    random_state: Any = 0
    precision: str = "fast"
    memory_limit: Any = None
    bound: bool = False
    checkpoint: Any = None

    def __post_init__(self) -> None:
        checks.one_of("algorithm", self.algorithm, ALGORITHMS)
        checks.one_of("precision", self.precision, PRECISIONS)
        checks.flag("bound", self.bound)
        self.wish = None if self.n_clusters is None else checks.wish("n_clusters", self.n_clusters)
        if self.chooses:
            self._check_choice()
        else:
            self.costs.check()
        if self.memory_limit is not None:
            self.memory_limit = checks.memory("memory_limit", self.memory_limit)
        if self.checkpoint is not None:
            self._check_checkpoint()
        if self.k is not None:
            self.k = checks.count("k", self.k)
            if not CONTRACTIONS.get(self.algorithm):
                raise ValueError(
                    f"k does not go with {self.algorithm}, which keeps no neighbours: leave it out"
                )
        checks.one_of("ann", self.ann, INDEXES)
        if self.algorithm != "dapplaec" and self.ann != "hnsw":
            raise ValueError(f"ann goes with dapplaec, not with {self.algorithm}: leave it out")
        self.refinement = Refinement(
            self.algorithm, self.refine, self.init, self.time_limit, self.max_iter, self.random_state
        )

    @property
    def costs(self) -> Costs:
        """What defines the costs of features."""
        return Costs(
            self.threshold, self.alpha, self.prefer, self.sample_weight, self.strictness, self.n_neighbors
        )

    @property
    def chooses(self) -> bool:
        """Whether the strictness of a local threshold is to be chosen, too."""
        return self.wish is not None or (isinstance(self.threshold, str) and self.threshold == "auto")

    def _check_checkpoint(self) -> None:
        if not checks.is_path(self.checkpoint) or not str(self.checkpoint):
            raise TypeError(f"checkpoint must be the path of a folder, not {self.checkpoint!r}")
        self.checkpoint = Path(self.checkpoint)
        if self.algorithm not in ON_GPU:
            raise ValueError(f"checkpoint goes with {' and '.join(ON_GPU)}, not with {self.algorithm}")
        if self.chooses:
            raise ValueError("checkpoint goes with a threshold that is told, not with one that is chosen")
        if self.checkpoint.exists() and not self.checkpoint.is_dir():
            raise NotADirectoryError(f"checkpoint must be a folder, and {self.checkpoint} is none")
        if not self.checkpoint.absolute().parent.is_dir():
            raise FileNotFoundError(f"checkpoint: the folder {self.checkpoint.parent} does not exist")

    def _check_choice(self) -> None:
        what = "threshold='auto'" if self.wish is None else "n_clusters"
        given = {"alpha": self.alpha is not None, "strictness": self.strictness is not None}
        for name, is_given in (given | {"prefer": self.prefer != "small"}).items():
            if is_given:
                raise ValueError(f"{what} chooses a local threshold: leave out {name}")
        if self.n_neighbors is not None:
            checks.count("n_neighbors", self.n_neighbors)
        if self.wish is None:
            return
        if isinstance(self.threshold, str):
            checks.one_of("threshold", self.threshold, ("auto", "local"))
        elif not (np.isscalar(self.threshold) and self.threshold == 0.4):
            raise ValueError(
                f"n_clusters chooses a local threshold: leave out threshold={self.threshold!r}"
            )
        if self.algorithm not in ON_GPU:
            raise ValueError(f"n_clusters goes with {' and '.join(ON_GPU)}, not with {self.algorithm}")
