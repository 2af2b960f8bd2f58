"""Settings of labels: which problem a file of labels solves, so that the cost can be computed again.

.npz and .parquet files hold them; beside .npy and .csv files they are in a small file NAME.json.
`io/labels.py` writes and reads them.
"""

import json
import math
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterfug import __version__, checks
from clusterfug.costs.models import PER_ITEM, CostModel, cost_model, updated_model
from clusterfug.costs.preprocessing import Preprocessing
from clusterfug.result import Clustering

FORMAT = "clusterfug labels 1"
#: Types of the entries as JSON values.
TYPES: dict[str, Any] = {
    "cost_model": dict | None,
    "metric": str | None,
    "center": bool | None,
    "weighted": bool,
    "algorithm": str,
    "objective": float | int | None,
    "inside": float | int | None,
    "labels": str,
    "links": str | None,
}
#: Entries that older versions did not write, which then are None.
LATER = ("links",)
#: Whether links could not be broken, or were costs.
LINKS = ("hard", "soft")


@dataclass(frozen=True)
class LabelSettings:
    """The cost model and preprocessing that labels were solved with, with objective and inside."""

    cost_model: dict[str, Any] | None  # None for a graph
    metric: str | None
    center: bool | None
    weighted: bool
    algorithm: str
    objective: float | None  # None for labels of a part of the items
    inside: float | None
    labels: str  # digest of the labels that the settings belong to
    links: str | None = None  # "hard", "soft", or None without links, which are not stored

    def costs(self, **arguments: Any) -> CostModel:
        """Return the cost model, in which arguments of `cost_model` replace what they name.

        Raises an error that says what is missing.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        if self.cost_model is None:
            if not given:
                raise ValueError(
                    "the labels were solved on a graph: give that, or --threshold for features"
                )
            return cost_model(**given)
        if self.cost_model.get("alpha") == PER_ITEM and given.keys() <= {"prefer"}:
            raise ValueError("the labels were solved with one alpha per item, not stored: give --alpha")
        try:
            model = updated_model(self.cost_model, **given)
            if model.needs_selection and not given:
                raise ValueError(f"{model.name} costs are not selected yet")
        except (TypeError, ValueError) as error:
            is_unknown = "__init__()" in str(error)  # the dataclass has other fields
            if given and not is_unknown:
                raise
            why = f"{self.cost_model.get('name')} has other parameters" if is_unknown else error
            raise ValueError(f"the costs of the labels cannot be read ({why}): give --threshold") from None
        return model

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, "version": __version__} | asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "LabelSettings":
        """Return the settings of a text, or raise ValueError."""
        try:
            found = json.loads(text)
            values = {name: found.get(name) if name in LATER else found[name] for name in TYPES}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError("they are not what clusterfug writes") from error
        if found.get("format") != FORMAT:
            raise ValueError(f"their format is not {FORMAT!r}")
        for name, value in values.items():
            if not isinstance(value, TYPES[name]):
                raise ValueError(f"{name} is {checks.shown(value)}")
        for name, value in (values | (values["cost_model"] or {})).items():
            if not _is_finite(value):
                raise ValueError(f"{name} is {checks.shown(value)}")
        if values["links"] is not None:
            checks.one_of("links", values["links"], LINKS)
        if values["metric"] is not None:
            Preprocessing(values["metric"])  # raises an error if there is no such metric
        return cls(**values)


def _is_finite(value: Any) -> bool:
    """Return whether a JSON value is no number, or one that is finite as a float."""
    try:
        return not isinstance(value, int | float) or math.isfinite(value)
    except OverflowError:  # of an integer
        return False


def settings_of(result: Clustering) -> LabelSettings:
    """Return the settings of a clustering."""
    costs, preprocessing = result.costs, result.preprocessing
    links = None if result.links is None else "hard" if result.links.is_hard else "soft"
    return LabelSettings(
        cost_model=None if costs is None else costs.settings(),
        metric=None if preprocessing is None else preprocessing.metric,
        center=None if preprocessing is None else preprocessing.center,
        weighted=result.weighted,
        algorithm=result.algorithm,
        objective=result.objective,
        inside=result.inside,
        labels=digest_of(result.labels),
        links=links,
    )


def digest_of(labels: NDArray[np.int64]) -> str:
    return blake2b(labels.astype("<i8").tobytes(), digest_size=16).hexdigest()
