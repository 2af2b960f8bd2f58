"""Cost models: values that say how the cost of a pair follows from the features of its items.

Every model defines cost(i, j) = <f_i, f_j> + sign * c_i c_j by one column c beside the features.
`cost_model` is the one place where a user's arguments become a model; `api.py`, the estimator and the
command line call it. A result carries the model that was solved, and label files carry its `settings`.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterfug import checks

if TYPE_CHECKING:
    import torch

    from clusterfug.problems.protocol import Problem

#: Share of the mean similarity to its neighbours at which an item is neutral, by default.
STRICTNESS = 0.6
#: What `CostModel.settings` has in place of one number per item.
PER_ITEM = "per item"


class Column(NamedTuple):
    """The column that a cost model adds to the features, and its entry in the signature."""

    values: NDArray[np.float64]  # (n,)
    sign: float


class CostModel(ABC):
    """How pair costs follow from features. Subclasses are frozen dataclasses with a unique `name`."""

    name: ClassVar[str]
    #: The kind of problem: "features", or "mixed" if there are costs along edges, too.
    kind: ClassVar[str] = "features"
    #: Whether parameters have to be selected from the data before there are costs.
    needs_selection: ClassVar[bool] = False
    #: Whether it is a local threshold, whose result has a `Choice`.
    has_strictness: ClassVar[bool] = False
    #: Whether the cost of a pair depends on other items too, so that shards cannot compute it on their own.
    needs_all_items: ClassVar[bool] = False

    @abstractmethod
    def column(
        self, features: Any, weight: NDArray[np.float64], device: "torch.device | None" = None
    ) -> Column:
        """Return the column for features (an array, or a tensor with its device) and item weights."""

    def problem(self, features: NDArray[Any], weight: NDArray[np.float64] | None) -> "Problem":
        """Return the problem of preprocessed features on the CPU."""
        from clusterfug.problems.dense import DenseProblem

        return DenseProblem(features, self, sample_weight=weight)

    def of_items(self, items: slice) -> "CostModel":
        """Return the model of a range of the items."""
        return self

    def settings(self) -> dict[str, Any]:
        """Return name and parameters as JSON values; a parameter per item is `PER_ITEM`."""
        return {"name": self.name} | {
            key: PER_ITEM if isinstance(value, np.ndarray) else value
            for key, value in asdict(self).items()  # type: ignore[call-overload]
        }


@dataclass(frozen=True)
class Threshold(CostModel):
    """cost(i, j) = <f_i, f_j> - value. A larger threshold gives more clusters."""

    name: ClassVar[str] = "threshold"
    value: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", checks.number("threshold", self.value))

    def column(self, features: Any, weight: NDArray[np.float64], device: Any = None) -> Column:
        """Return ones with signature -threshold, which needs no (rounded) square root of the threshold."""
        return Column(np.ones(len(features)), -self.value)


@dataclass(frozen=True, eq=False)
class Alpha(CostModel):
    """cost(i, j) = <f_i, f_j> - alpha_i alpha_j, the paper's affinity strength; "large" adds the term."""

    name: ClassVar[str] = "alpha"
    alpha: Any  # a number, or one per item
    prefer: str = "small"

    def __post_init__(self) -> None:
        checks.one_of("prefer", self.prefer, ("small", "large"))
        alpha = checks.numeric("alpha", self.alpha)
        value = checks.number("alpha", alpha.item(), 0.0) if alpha.ndim == 0 else alpha
        object.__setattr__(self, "alpha", value)

    def column(self, features: Any, weight: NDArray[np.float64], device: Any = None) -> Column:
        values = checks.per_item("alpha", self.alpha, len(features))
        return Column(values, -1.0 if self.prefer == "small" else 1.0)

    def of_items(self, items: slice) -> "Alpha":
        return self if np.ndim(self.alpha) == 0 else Alpha(self.alpha[items], self.prefer)


@dataclass(frozen=True)
class Local(CostModel):
    """One threshold per item: a share (`strictness`) of its mean similarity to its nearest items.

    With s_i that mean similarity, cost(i, j) = <f_i, f_j> - strictness sqrt(s_i s_j); see `local_alpha`.
    """

    name: ClassVar[str] = "local"
    has_strictness: ClassVar[bool] = True
    needs_all_items: ClassVar[bool] = True
    strictness: float = STRICTNESS
    n_neighbors: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "strictness", checks.number("strictness", self.strictness))
        _check_neighbors(self)

    def column(
        self, features: Any, weight: NDArray[np.float64], device: "torch.device | None" = None
    ) -> Column:
        from clusterfug.costs.local import neighbourhood

        similarity = neighbourhood(features, weight, self.n_neighbors, device).similarity
        return local_column(similarity, self.strictness)


@dataclass(frozen=True)
class Auto(CostModel):
    """A local threshold whose strictness is selected: the default. The selected model is a `Local`."""

    name: ClassVar[str] = "auto"
    has_strictness: ClassVar[bool] = True
    needs_selection: ClassVar[bool] = True
    needs_all_items: ClassVar[bool] = True
    n_neighbors: int | None = None

    def __post_init__(self) -> None:
        _check_neighbors(self)

    def column(self, features: Any, weight: Any, device: Any = None) -> Column:
        raise ValueError(f"{self.name} costs are selected first: solve with them, or give a threshold")


@dataclass(frozen=True)
class TargetClusters(Auto):
    """A local threshold whose strictness is selected so that the number of clusters is low..high."""

    name: ClassVar[str] = "n_clusters"
    low: int = 1
    high: int = 1


@dataclass(frozen=True)
class NeighbourGraph(CostModel):
    """Costs along a graph of nearest neighbours, and a background that keeps clusters apart.

    Parameters
    ----------
    n_neighbors : int, optional
        Nearest items of every item: 15, or a third of the items if that is less. (The local threshold of
        ``background="features"`` looks at 100 by default, as `Local`.)
    resolution : float, default=1.0
        How strong the background is, >= 0. Larger gives more clusters.
    edges : {"union", "mutual"}, default="union"
        Whether a pair is an edge if one of its items is among the neighbours of the other, or both are.
    weights : {"unit", "similarity", "jaccard"}, default="unit"
        Edge weights: 1, the similarity of the items, or the share that their neighbourhoods have in common.
    background : {"degrees", "features"}, default="degrees"
        "degrees": cost = w_ij - resolution d_i d_j / (2 m) with weighted degrees d and total weight m, so
        the objective is the modularity of the graph. "features": a local threshold with the resolution as
        its strictness, to which edges add w_ij times the mean similarity of neighbours.
    """

    name: ClassVar[str] = "neighbours"
    kind: ClassVar[str] = "mixed"
    needs_all_items: ClassVar[bool] = True
    n_neighbors: int | None = None
    resolution: float = 1.0
    edges: str = "union"
    weights: str = "unit"
    background: str = "degrees"

    def __post_init__(self) -> None:
        _check_neighbors(self)
        object.__setattr__(self, "resolution", checks.number("resolution", self.resolution, 0.0))
        checks.one_of("edges", self.edges, ("union", "mutual"))
        checks.one_of("weights", self.weights, ("unit", "similarity", "jaccard"))
        checks.one_of("background", self.background, ("degrees", "features"))

    def column(self, features: Any, weight: Any, device: Any = None) -> Column:
        raise ValueError(f"{self.name} costs are along edges, too: use dense_multicut, or leave them out")

    def problem(self, features: NDArray[Any], weight: NDArray[np.float64] | None) -> "Problem":
        from clusterfug.costs.neighbour_graph import neighbour_problem

        return neighbour_problem(self, features, weight)


def local_column(similarity: NDArray[np.float64], strictness: float) -> Column:
    """Return the column of a local threshold; a negative strictness adds the term."""
    return Column(np.sqrt(abs(strictness) * similarity), -1.0 if strictness >= 0 else 1.0)


#: Cost models that `threshold=` selects by name.
NAMED: dict[str, type[CostModel]] = {model.name: model for model in (Local, Auto, NeighbourGraph)}


def register(model: type[CostModel]) -> type[CostModel]:
    """Make a cost model available as ``threshold="its name"``; usable as a decorator."""
    NAMED[model.name] = model
    return model


def cost_model(
    threshold: Any = None,
    *,
    alpha: Any = None,
    prefer: str | None = None,
    strictness: float | None = None,
    n_neighbors: int | None = None,
    n_clusters: Any = None,
) -> CostModel:
    """Return the cost model that a user's arguments describe; without any it is `Auto()`.

    Combinations that contradict each other are errors, whatever the values are.
    """
    prefer = checks.one_of("prefer", "small" if prefer is None else prefer, ("small", "large"))
    parameters = {"strictness": strictness, "n_neighbors": n_neighbors}
    given = {name: value for name, value in parameters.items() if value is not None}
    others = given | ({} if n_clusters is None else {"n_clusters": n_clusters})
    if isinstance(threshold, CostModel):
        others |= {} if alpha is None else {"alpha": alpha}
        for name in others | ({} if prefer == "small" else {"prefer": prefer}):
            raise ValueError(f"a cost model has its parameters already: leave out {name}")
        return threshold
    if alpha is not None:
        if threshold is not None:
            raise ValueError(
                f"alpha is used instead of a threshold: leave out threshold={checks.shown(threshold)}"
            )
        _leave_out("alpha", others)
        return Alpha(alpha, prefer)
    if prefer != "small":
        raise ValueError('prefer="large" goes with alpha; use a negative threshold instead')
    if n_clusters is not None:
        if threshold is not None and not (isinstance(threshold, str) and threshold in ("auto", "local")):
            raise ValueError(
                f"n_clusters chooses a local threshold: leave out threshold={checks.shown(threshold)}"
            )
        if strictness is not None:
            raise ValueError("n_clusters chooses a local threshold: leave out strictness")
        low, high = checks.number_range("n_clusters", n_clusters)
        return TargetClusters(n_neighbors, low, high)
    if threshold is None:
        threshold = Auto.name if strictness is None else Local.name
    if isinstance(threshold, str):
        if threshold not in NAMED:
            names = ", ".join(f'"{name}"' for name in NAMED)
            raise ValueError(f"threshold must be a number or one of {names}, not {checks.shown(threshold)}")
        if threshold == Auto.name and strictness is not None:
            raise ValueError("threshold='auto' chooses a local threshold: leave out strictness")
        if strictness is not None:
            checks.number("strictness", strictness, 0.0)
        _leave_out(
            f"threshold={threshold!r}", {k: v for k, v in given.items() if k not in _fields(threshold)}
        )
        return NAMED[threshold](**given)
    _leave_out("a threshold that is a number", given)
    return Threshold(threshold)


def updated_model(parameters: dict[str, Any], **arguments: Any) -> CostModel:
    """Return a known cost model in which arguments of `cost_model` replace the parameters of their names.

    `parameters` has the name of the model, too. If it does not have all that is given (a threshold beside
    alpha, say), the arguments describe another model.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(given.get("threshold"), str) and given["threshold"] == parameters.get("name"):
        del given["threshold"]
    if not given.keys() <= parameters.keys():
        return cost_model(**given)
    if "strictness" in given:
        checks.number("strictness", given["strictness"], 0.0)
    return from_settings(parameters | given)


def from_settings(settings: dict[str, Any]) -> CostModel:
    """Return the model that `CostModel.settings` described.

    Raises ValueError if the description is incomplete: one number per item is not part of it.
    """
    known = {model.name: model for model in (Threshold, Alpha, TargetClusters)} | NAMED
    parameters = dict(settings)
    name = parameters.pop("name", None)
    if name not in known:
        raise ValueError(f"unknown cost model {checks.shown(name)}: choose one of {', '.join(known)}")
    if any(isinstance(value, str) and value == PER_ITEM for value in parameters.values()):
        raise ValueError("the costs have one number per item, which is not stored: give alpha again")
    return known[name](**parameters)


def _fields(name: str) -> set[str]:
    return {field.name for field in fields(NAMED[name])}  # type: ignore[arg-type]


def _leave_out(what: str, given: dict[str, Any]) -> None:
    for name in given:
        raise ValueError(f'{name} goes with threshold="local", not with {what}: leave out {name}')


def _check_neighbors(model: Any) -> None:
    """Check the number of neighbours of a model, and keep it as an integer of Python."""
    if model.n_neighbors is not None:
        object.__setattr__(model, "n_neighbors", checks.count("n_neighbors", model.n_neighbors))
