"""From the options of a command to a problem: `cluster`, `bound` and `evaluate` share it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clusterfug import checks
from clusterfug.cli.links import LinkOptions
from clusterfug.cli.options import Metric, Prefer, no_options
from clusterfug.io.text import is_number

if TYPE_CHECKING:
    from clusterfug.io.files import Features
    from clusterfug.io.labels import LabelFile
    from clusterfug.io.settings import LabelSettings


#: Relative difference of two objectives of the same labels and features, at most.
MAX_ROUNDING = 1e-6


@dataclass(frozen=True)
class CostOptions:
    """The options that describe the costs of features, and links; None where they are not given."""

    threshold: str | None = None
    strictness: float | None = None
    n_neighbors: int | None = None
    n_clusters: str | None = None
    alpha: str | None = None
    prefer: Prefer | None = None
    weights: Path | None = None
    metric: Metric | None = None
    center: bool | None = None
    links: LinkOptions = field(default_factory=LinkOptions)

    def __post_init__(self) -> None:
        if self.alpha is not None and self.threshold is not None:
            raise ValueError("give --threshold or --alpha, not both")
        if self.n_clusters is not None and self.threshold not in (None, "local", "auto"):
            raise ValueError("--n-clusters chooses a local threshold: leave out --threshold")
        _number_or_name(self.threshold)
        _count_or_range(self.n_clusters)

    @property
    def inputs(self) -> list[Path]:
        """Files that the options name."""
        alpha = None if self.alpha is None or is_number(self.alpha) else Path(self.alpha)
        return [*(path for path in (self.weights, alpha) if path is not None), *self.links.inputs]

    @property
    def models(self) -> dict[str, Any]:
        """The options that make a cost model, beside --prefer, preprocessing and weights."""
        return {
            "--threshold": self.threshold,
            "--strictness": self.strictness,
            "--n-neighbors": self.n_neighbors,
            "--n-clusters": self.n_clusters,
            "--alpha": self.alpha,
        }

    @property
    def has_model(self) -> bool:
        return any(value is not None for value in self.models.values())

    def check_none_given(self, reason: str) -> None:
        """Raise an error if any of the options but links is given."""
        rest = {"--prefer": self.prefer, "--metric": self.metric, "--center": self.center}
        no_options(self.models | rest | {"--weights": self.weights}, reason)

    def read(self, path: Path, labels: "LabelFile | None" = None) -> Any:
        """Return the problem in a file of features or of a graph, which has its costs; without links."""
        from clusterfug.io import files
        from clusterfug.problems.graph import GraphProblem

        instance = files.read(path)
        if not isinstance(instance, GraphProblem):
            return self.problem(instance, path, labels)
        self.check_none_given(f"goes with features, but {path} holds a graph")
        if labels is not None:
            labels.check_items(path, instance.n)
            self._check_links(labels, labels.settings())
        return instance

    def problem(self, features: "Features", path: Path, labels: "LabelFile | None" = None) -> Any:
        """Return the problem of features that were read from a file, without links.

        What is not given comes from the settings of the labels, or from a text file: one that says its
        threshold is a finished problem, whose rows are used as they are.
        """
        from clusterfug.io.labels import read_column
        from clusterfug.problems.arguments import feature_problem

        alpha: Any = self.alpha
        if alpha is not None:
            alpha = float(alpha) if is_number(alpha) else read_column(Path(alpha))
        costs = {
            "threshold": _number_or_name(self.threshold),
            "alpha": alpha,
            "prefer": self.prefer and self.prefer.value,
            "strictness": self.strictness,
            "n_neighbors": self.n_neighbors,
            "n_clusters": _count_or_range(self.n_clusters),
        }
        metric, center = self.metric and self.metric.value, self.center
        settings = None
        if labels is not None:
            labels.check_items(path, len(np.atleast_1d(features.array)))
            settings = self._settings_of(labels, features.threshold)
        if settings is not None:
            costs = {"threshold": settings.costs(**costs)}
            metric = settings.metric if metric is None else metric
            center = settings.center if center is None else center
        else:
            if not self.has_model and features.threshold is not None:
                costs["threshold"] = checks.number(f"line 2 of {path}", features.threshold)
            metric = features.metric if metric is None else metric
        weight = None if self.weights is None else read_column(self.weights)
        costs |= {"sample_weight": weight, "metric": metric, "center": center}
        return feature_problem(features.array, **costs, name=str(path))

    def check_objective(self, labels: "LabelFile", objective: float, scale: float, path: Path) -> None:
        """Raise an error if labels had another objective when they were written: on other features.

        Only if no option says that the costs are others. `scale` is that of the sums that are compared.
        """
        others = (self.prefer, self.metric, self.center)
        if self.has_model or any(option is not None for option in others):
            return
        settings = labels.settings()
        if settings is None or settings.objective is None:
            return
        had_soft_links = settings.links == "soft"
        if self.links.are_soft and not had_soft_links:
            return
        if abs(settings.objective - objective) > MAX_ROUNDING * scale:
            on_other, with_others, advice = (
                ("another graph", "for another objective", "give that graph")
                if settings.cost_model is None
                else (
                    "other features",
                    "with other weights",
                    "give those, or say what the costs are (--threshold)",
                )
            )
            links = " or links" if had_soft_links else ""
            raise ValueError(
                f"{labels.path} was solved on {on_other} than {path}, or {with_others}{links}: its "
                f"objective was {settings.objective:,.2f}, but is {objective:,.2f} here; {advice}"
            )

    def _settings_of(self, labels: "LabelFile", file_threshold: float | None) -> "LabelSettings | None":
        """Return the settings of labels, or None where they are not needed.

        If neither the options, nor the features, nor the labels say what the costs are, that is an error:
        costs of another problem would mean nothing. So are settings that cannot be used, unless costs,
        metric and centring are given.
        """
        try:
            settings = labels.settings()
        except ValueError:
            if self.has_model and self.metric is not None and self.center is not None:
                return None
            raise
        if settings is None and not self.has_model and file_threshold is None:
            raise ValueError(
                f"{labels.path} does not say which costs it was solved with: give --threshold (and "
                "--metric, --center) as they were; clusterfug cluster -o writes them with the labels"
            )
        if settings is not None and settings.weighted and self.weights is None:
            raise ValueError(f"{labels.path} was solved with weights, which are not stored: give --weights")
        self._check_links(labels, settings)
        return settings

    def _check_links(self, labels: "LabelFile", settings: "LabelSettings | None") -> None:
        """Raise an error if labels were solved with links that are costs, unless such are given again."""
        if settings is not None and settings.links == "soft" and not self.links.are_soft:
            raise ValueError(
                f"{labels.path} was solved with links that may be broken, which are not stored: give "
                "--must-link, --cannot-link or --exclusive, and --link-weight, as they were"
            )


def describe(problem: Any) -> dict[str, Any]:
    """Return the costs and the preprocessing of features as JSON values."""
    parameters = problem.costs.settings()
    name = parameters.pop("name")
    known = {key: parameters.get(key) for key in ("strictness", "n_neighbors", "alpha", "prefer")}
    known = {key: value for key, value in known.items() if value is not None}
    threshold = parameters.get("value", None if "alpha" in known else name)
    preprocessing = problem.preprocessing
    return {"threshold": threshold, "metric": preprocessing.metric, "center": preprocessing.center} | known


def _number_or_name(text: str | None) -> float | str | None:
    """Return what --threshold says."""
    from clusterfug.costs.models import NAMED

    if text is None or text in NAMED:
        return text
    if not is_number(text):
        raise ValueError(f"--threshold must be a number or one of {', '.join(NAMED)}, not {text!r}")
    return float(text)


def _count_or_range(text: str | None) -> int | tuple[int, int] | None:
    """Return what --n-clusters says: N or LOW:HIGH."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(":")]
    except ValueError:
        numbers = []
    if len(numbers) not in (1, 2):
        raise ValueError(f"--n-clusters must be N or LOW:HIGH (140:160), not {text!r}")
    return numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
